"""Every method of the registry on every case of the zoo that it can play: what all learners promise.

Which pairs are played follows from the registry entry alone (`games.applies`); there are no other exceptions. Each
check that could pass by accident is also shown a learner that breaks it.
"""

import itertools
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import games
import taut
import zoo
from taut import files
from taut.learners.schedules import Constant, Inverse, InverseRoot, Power, Reciprocal
from taut.play import loop
from taut.problem.constraints import Linearisation
from taut.problem.transforms import LogSumExp, Max, Smoothed, Squared, Tightened

METHODS = tuple(taut.LEARNERS.values())
EACH = pytest.mark.parametrize("method", METHODS, ids=games.pair_id)
PAIRS = pytest.mark.parametrize(("method", "case"), games.PAIRS, ids=games.pair_id)
SIZES = {"seeds": zoo.SEEDS, "chunk": games.CHUNK, "record": games.RECORD}


@pytest.fixture(autouse=True, scope="module")
def _quick():
    with games.quick_compilation():
        yield


# -- The registry ------------------------------------------------------------------------------------------------------


def test_registry_names_every_kind_of_learner_and_every_method_is_played():
    made = {type(games.tuned(method, games.home(method))) for method in METHODS}
    assert made == {taut.ClippedOGD, taut.SaddlePoint, taut.ProjectedOGD, taut.DriftPlusPenalty, taut.Doubling}
    assert all(name == method.name for name, method in taut.LEARNERS.items())
    assert {method for method, _ in games.PAIRS} == set(METHODS)
    assert {case for _, case in games.PAIRS} == set(zoo.ZOO)


@EACH
def test_needs_horizon_means_that_parameters_depend_on_it(method):
    case = games.home(method)
    short, long = (files.pack(games.tuned(method, case, horizon)) for horizon in (100, 200))
    assert (short != long) == method.needs_horizon


@pytest.mark.parametrize("method", [m for m in METHODS if m.aggregated], ids=games.pair_id)
def test_aggregated_methods_refuse_several_constraints(method):
    known = zoo.DOUBLY.problem.constants
    with pytest.raises(ValueError, match=r"constraint_count: got 21; expected 1.*max_of"):
        method.build(known, 100, feasible=None)


@pytest.mark.parametrize("method", [m for m in METHODS if m.losses == "strongly convex"], ids=games.pair_id)
def test_strongly_convex_methods_refuse_a_modulus_of_zero(method):
    with pytest.raises(ValueError, match="strong_convexity"):
        method.build(zoo.TOY.problem.constants, 100, feasible=zoo.TOY.feasible)


# -- Pure, deterministic, batched, blind to the future -----------------------------------------------------------------


@PAIRS
def test_deterministic_and_leaves_its_inputs_alone(method, case):
    learner = games.tuned(method, case)
    packed, data = files.pack(learner), case.stream()
    first, again = games.played(method, case), games.play(method, case, learner)  # the shared stream is read-only
    for name in (*games.RECORD, "final"):
        np.testing.assert_array_equal(getattr(first, name), getattr(again, name))
    assert files.same(packed, files.pack(learner))
    jax.tree.map(np.testing.assert_array_equal, data, games.stream(case))


@PAIRS
def test_a_seed_does_not_feel_the_others(method, case):
    run = games.played(method, case)
    repeated = jax.tree.map(lambda a: np.repeat(a[1:2], zoo.SEEDS, axis=0), games.stream(case))
    alone = games.play(method, case, data=repeated)
    for seed in range(zoo.SEEDS):
        np.testing.assert_array_equal(alone.decisions[seed], run.decisions[1])


@pytest.mark.parametrize(
    ("method", "case"),
    # Learners and cases are batched independently of each other: every one of both, not every pair.
    [(m, c) for m, c in games.PAIRS if c is games.home(m) or m.name == "clipped-ogd"],
    ids=games.pair_id,
)
def test_batch_equals_loop(method, case):
    """Seeds by vmap are single plays of the problem as it was stated."""
    run, problem = games.played(method, case), games.game(method, case.problem)
    for seed in range(zoo.SEEDS):
        data = jax.tree.map(lambda a, k=seed: a[k], games.stream(case))
        single = taut.simulate(games.tuned(method, case), problem, data, chunk=games.CHUNK, record=("decisions",))
        np.testing.assert_allclose(single.decisions[0], run.decisions[seed], rtol=0, atol=1e-12)
        np.testing.assert_allclose(single.totals.violation[0], run.totals.violation[seed], rtol=0, atol=1e-10)
        np.testing.assert_allclose(single.totals.loss[0], run.totals.loss[seed], rtol=1e-12)


@pytest.mark.parametrize(("seeds", "learners"), [(120, None), (127, None), (60, 3)])
def test_plays_that_are_split_into_groups_equal_single_ones(seeds, learners):
    """More numbers than are played side by side: groups of seeds, seeds one by one, learners one by one."""
    assert seeds * (learners or 1) * 9 > loop.SIDE_BY_SIDE
    case, data = zoo.DOUBLY, zoo.DOUBLY.stream(seeds, 6)
    swept = [taut.ClippedOGD(0.1 * k, 40.0) for k in range(1, (learners or 1) + 1)]
    sizes = {"chunk": 6, "record": ("decisions",)}
    run = taut.simulate(swept if learners else swept[0], case.problem, data, seeds=seeds, **sizes)
    for learner in {0, len(swept) - 1}:
        for seed in (0, seeds // 2 - 1, seeds // 2, seeds - 1):
            single = taut.simulate(swept[learner], case.problem, data[seed], **sizes)
            many = run[learner] if learners else run
            np.testing.assert_allclose(many.decisions[seed], single.decisions[0], rtol=0, atol=1e-13)
            np.testing.assert_allclose(many.totals.violation[seed], single.totals.violation[0], rtol=0, atol=1e-13)


@PAIRS
def test_no_peeking_at_the_future(method, case):
    t = 41  # round whose data change, from 1

    def negate(a):
        a = a.copy()
        a[:, t - 1] *= -1
        return a

    before = games.played(method, case).decisions
    after = games.play(method, case, data=jax.tree.map(negate, games.stream(case))).decisions
    np.testing.assert_array_equal(after[:, :t], before[:, :t])  # x_1 .. x_t
    assert np.all(np.any((after != before)[:, t], axis=tuple(range(1, before.ndim - 1))))  # x_{t+1}, of every seed


@jax.jit
def contained(domain, decisions):
    return jax.vmap(jax.vmap(domain.contains))(decisions)


@PAIRS
def test_decisions_stay_inside(method, case):
    decisions = jnp.asarray(games.played(method, case).decisions)
    inside = case.feasible if "project" not in method.oracles else case.problem.domain
    assert bool(jnp.all(contained(inside, decisions)))
    np.testing.assert_array_equal(np.ptp(decisions[:, 0], axis=0), 0.0)  # x_1 knows nothing of the seed


# -- Declared oracles only, pure steps, states that survive a trip -----------------------------------------------------


class Counted:
    """A round that remembers which oracles were called, and where."""

    def __init__(self, inner):
        self.inner, self.calls, self.where = inner, set(), []

    def _note(self, name, x=None):
        self.calls.add(name)
        if x is not None:
            self.where.append(x)

    def loss(self, x):
        self._note("loss", x)
        return self.inner.loss(x)

    def gradient(self, x):
        self._note("gradient", x)
        return self.inner.gradient(x)

    def project(self, x):
        self._note("project")
        return self.inner.project(x)

    def constraints(self, x):
        self._note("values", x)
        values, pull, push = self.inner.constraints(x)

        def pullback(w):
            self._note("pullback")
            return pull(w)

        def pushforward(v):
            self._note("pushforward")
            return push(v)

        return Linearisation(values, pullback, pushforward)


def first_state(learner, case):
    return learner.init(case.problem.domain.centre + 0.3, case.problem.constants.constraint_count)


def first_data(case, t=0):
    return jax.tree.map(lambda a: jnp.asarray(a[0, t]), games.stream(case))


def check_oracles(learner, case, declared):
    def step(state, z):
        round = Counted(case.problem.round(z))
        after = learner.step(state, round)
        assert round.calls == declared
        assert all(x is state.x for x in round.where)  # the world is asked about x_t only
        return after

    jax.eval_shape(step, first_state(learner, case), first_data(case))


@EACH
def test_uses_the_oracles_it_declares_and_no_others(method):
    check_oracles(games.tuned(method, games.home(method)), games.home(method), method.oracles)


def test_oracle_check_catches_a_learner_that_looks_elsewhere():
    @games.broken
    class Greedy(taut.ClippedOGD):
        def step(self, state, round):
            after = super().step(state, round)
            return after._replace(x=jnp.where(round.loss(after.x) < round.loss(state.x), after.x, state.x))

    @games.broken
    class Lookahead(taut.ClippedOGD):
        def step(self, state, round):
            return super().step(state._replace(x=state.x - 0.1 * round.gradient(state.x)), round)

    for learner in (Greedy(0.1, 4.0), Lookahead(0.1, 4.0)):
        with pytest.raises(AssertionError):
            check_oracles(learner, zoo.TOY, taut.LEARNERS["clipped-ogd"].oracles)


def check_pure(learner, case):
    """Two traces give the same program, which maps states to states of the same kind; and a state survives a trip."""

    def stepping():  # a new function each time: JAX remembers what it has traced
        return lambda state, z: learner.step(state, case.problem.round(z))

    state, z = first_state(learner, case), first_data(case)
    assert str(jax.make_jaxpr(stepping())(state, z)) == str(jax.make_jaxpr(stepping())(state, z))
    kept = jax.tree.map(np.array, state)
    compiled = jax.jit(stepping())
    after = jax.tree.map(np.asarray, compiled(state, z))
    assert jax.tree.structure(after) == jax.tree.structure(state)
    assert [a.dtype for a in jax.tree.leaves(after)] == [a.dtype for a in jax.tree.leaves(state)]
    leaves, structure = jax.tree.flatten(kept)
    travelled = jax.tree.unflatten(structure, [np.frombuffer(a.tobytes(), a.dtype).reshape(a.shape) for a in leaves])
    again = jax.tree.map(np.asarray, compiled(travelled, z))
    jax.tree.map(np.testing.assert_array_equal, again, after)
    jax.tree.map(np.testing.assert_array_equal, jax.tree.map(np.asarray, state), kept)


@EACH
def test_step_is_pure_and_its_state_survives_a_trip(method):
    check_pure(games.tuned(method, games.home(method)), games.home(method))


def test_purity_check_catches_a_learner_with_a_memory_of_its_own():
    seen = []

    @games.broken
    class Counting(taut.ClippedOGD):
        def step(self, state, round):
            seen.append(None)
            return super().step(state._replace(x=state.x * (1 - 0.01 * len(seen))), round)

    with pytest.raises(AssertionError):
        check_pure(Counting(0.1, 4.0), zoo.TOY)


@EACH
def test_learner_survives_a_trip_through_json(method):
    case = games.home(method)
    learner = games.tuned(method, case)
    back = files.unpack(json.loads(json.dumps(files.pack(learner))))
    assert type(back) is type(learner)
    assert repr(back) == repr(learner)
    assert jax.tree.structure(back) == jax.tree.structure(learner)
    for new, old in zip(jax.tree.leaves(back), jax.tree.leaves(learner), strict=True):
        np.testing.assert_array_equal(new, old)
    rebuilt = jax.tree.unflatten(jax.tree.structure(learner), jax.tree.leaves(learner))
    assert files.same(files.pack(rebuilt), files.pack(learner))
    np.testing.assert_array_equal(games.play(method, case, back).decisions, games.played(method, case).decisions)


# -- Compiled once, in any precision -----------------------------------------------------------------------------------


@PAIRS
def test_nothing_but_a_new_shape_compiles_again(method, case):
    games.played(method, case)
    compiled = loop.count_compiled()
    problem, data = games.game(method, case.lowered(0.25)), case.stream(seed=9)
    learner = games.tuned(method, case, horizon=777)  # other parameters, other data, another level
    doubled = jax.tree.map(lambda leaf: 2 * leaf, learner)
    for other, rounds in ((learner, zoo.ROUNDS), (learner, 50), (doubled, 1)):
        taut.simulate(other, problem, data, horizon=rounds, **SIZES)
    assert loop.count_compiled() == compiled


def test_no_program_can_be_taken_for_that_of_another_class():
    """Compiled programs are found by tree structure: those of two classes must differ even where their fields agree."""
    stated = zoo.TOY.problem.constraints
    transforms = [
        Max(stated),
        Squared(stated),
        LogSumExp(stated, 2.0),
        Tightened(stated, 2.0),
        Smoothed(stated, 2.0, 0.0),
    ]
    steps = [Constant(1.0), InverseRoot(1.0), Inverse(1.0), Power(1.0), Reciprocal(Constant(1.0))]
    learners = [taut.DriftPlusPenalty(1.0, 1.0), taut.ClippedOGD(1.0, 1.0), taut.ProjectedOGD(1.0, zoo.TOY.feasible)]
    learners += [taut.ClippedOGD(step, 1.0) for step in steps[1:]]
    for kinds in (transforms, steps, learners):
        structures = [jax.tree.structure(kind) for kind in kinds]
        assert all(a != b for a, b in itertools.combinations(structures, 2))
        assert structures == [jax.tree.structure(jax.tree.map(lambda leaf: 2 * leaf, kind)) for kind in kinds]


def test_the_counter_of_compilations_counts():
    before = loop.count_compiled()
    taut.simulate(taut.ClippedOGD(0.1, 4.0), zoo.TOY.problem, zoo.TOY.stream(5, 3), seeds=5, chunk=3)
    assert loop.count_compiled() == before + 1


@EACH
def test_float32_plays_like_float64(method):
    case = games.home(method)
    x1 = np.zeros(2, np.float32)
    data = jax.tree.map(lambda a: a[0], games.stream(case))
    run = taut.simulate(games.tuned(method, case), case.problem, data, x1=x1, chunk=games.CHUNK, record=games.RECORD)
    double = games.played(method, case)
    assert {getattr(run, name).dtype for name in games.RECORD} == {np.dtype(np.float32)}
    assert {getattr(double, name).dtype for name in games.RECORD} == {np.dtype(np.float64)}
    np.testing.assert_allclose(run.decisions[0], double.decisions[0], atol=2e-5)
    for name in ("loss", "worst_excess", "worst_violation", "worst_squared"):
        value = getattr(run.totals, name)
        assert value.dtype == np.float64
        np.testing.assert_allclose(value[0], getattr(double.totals, name)[0], atol=2e-3)


def test_float32_totals_keep_their_digits_over_many_rounds():
    """A sum of 2^20 terms in 32 bits loses its fourth digit unless the rounding is carried along."""
    rounds = 2**20
    still = taut.ClippedOGD(1e-12, 1e12)  # stays where it is
    x1 = np.array([0.61, 0.43], np.float32)  # outside the square, inside the disc
    c = np.array([0.1, 0.3], np.float32)
    run = taut.simulate(
        still, zoo.TOY.problem, lambda start, length: np.broadcast_to(c, (length, 2)), horizon=rounds, x1=x1, record=()
    )
    term = np.float32(c @ x1)
    excess = np.float32(np.abs(x1).sum() - np.float32(1))
    naive = np.cumsum(np.full(rounds, term, np.float32), dtype=np.float32)[-1]
    assert abs(naive / (rounds * float(term)) - 1) > 1e-4  # the check has something to catch
    assert run.totals.loss[0] == pytest.approx(rounds * float(term), rel=1e-6)
    assert run.totals.violation[0, 0] == pytest.approx(rounds * float(excess), rel=1e-6)
    assert run.totals.squared[0, 0] == pytest.approx(rounds * float(excess) ** 2, rel=1e-6)
