"""Learners with advisers: the golden rounds, the theorems attacked by random games, and edge
cases."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import taut
from taut.learners.advised import _explained, _softmin, _weights
from taut.learners.half_space import HalfSpace
from taut.learners.schedules import AdaGradNorm

GOLDEN = """
1 .500000000000 .500000000000  .000000000000  .500000000000  .250000000000 .061250000000 .000000000000
2 .200000000000 .800000000000  .550000000000  .500000000000  .510000000000 .006050000000 .087500000000
3 .192258262334 .807741737666  .375922344044  .500000000000  .476145045471 .007670024881 .087524510357
4 .169347720784 .830652279216  .550000000000  .500000000000  .508467386039 .005882586917 .087765004776
5 1.00000000000 .000000000000  .383866850701  .383866850701  .383866850701 .023356769113 .087786468033
6 .162571594154 .837428405846  .550000000000  .550000000000  .550000000000 .011250000000 .087786468033
7 .162571594154 .837428405846  .390499915522 -.500000000000 -.355230009140 .456232185181 .087786468033
8 .676687970691 .323312029309  .550000000000 -.500000000000  .210522369225 .017950886282 .352348254731
9 .801334063540 .198665936460  .396169187572 -.500000000000  .218130896696 .072912006029 .382294631139
"""  # computed by an independent program: round, weights, decisions of learner, adviser and mixture, loss, Delta


def toy() -> taut.Problem:
    return taut.Problem(
        lambda x, c: jnp.sum(jnp.square(x - c)) / 2,
        lambda x: x[0] - 0.55,
        taut.Box(-1.0, 1.0, shape=1),
        domain_binds=True,
    )


def advice_of_golden(rounds: int) -> np.ndarray:
    advice = np.full((rounds, 1), -0.5)
    advice[:4], advice[4], advice[5] = 0.5, np.nan, 2.0
    return advice


@pytest.fixture(scope="module")
def played():
    """A compiled step of the toy, with the learner of the golden rounds."""
    problem, base = toy(), HalfSpace(AdaGradNorm(1.0, 1.0, None), 2.0, 0.0, 2, None)
    learner = taut.Advised(base, hold=False)

    @jax.jit
    def play(state, z, advice):
        told = jnp.nan_to_num(advice), jnp.isfinite(advice)
        state = taut.announce(learner, problem, state, advice=told)
        after, scored = taut.step(learner, problem, state, z, announced=True)
        return state, after, scored

    return problem, learner, play


def test_golden_rounds(played):
    problem, learner, play = played
    state, advice = taut.init(learner, problem), advice_of_golden(9)
    for row in np.fromstring(GOLDEN, sep=" ").reshape(9, 8):
        t = int(row[0])
        before, state, scored = play(state, np.array([0.6 if t % 2 else 0.4]), advice[t - 1])
        own = before.learner
        found = [*own.weights, *own.points.ravel(), *own.x, scored.loss, own.gap]
        np.testing.assert_allclose(found, row[1:], rtol=0, atol=1.01e-12)


def test_weights_do_not_underflow_if_the_leader_is_absent(played):
    """The least loss is that of the present experts; that of all gave 0 / 0."""
    losses, present = jnp.array([1e6, 0.0]), jnp.array([True, False])
    np.testing.assert_array_equal(_weights(losses, jnp.asarray(1e-3), present), [1, 0])
    problem, learner, play = played
    state = taut.init(learner, problem)
    for t in range(40):
        missing = t > 20 and t % 3 == 0
        advice = np.array([np.nan if missing else 0.5])
        state = state._replace(learner=state.learner._replace(losses=jnp.array([1e9, 0.0])))
        before, state, _ = play(state, np.array([0.5]), advice)
        assert np.isfinite(np.asarray(before.x)).all()
        assert before.learner.weights[0] == (1.0 if missing else 0.0)


@pytest.mark.parametrize("gap", [0.0, 1e-310, 5e-309, 2.3e-308, 1.0, 1e300])
def test_any_gap_gives_weights_and_soft_minima(gap):
    losses, all_of_them = jnp.array([0.0, 0.0, 2.0]), jnp.ones(3, bool)
    weights = _weights(losses, jnp.asarray(gap), all_of_them)
    assert np.isfinite(weights).all()
    assert np.sum(weights) == pytest.approx(1)
    assert float(_softmin(losses, jnp.asarray(gap))) <= 0


def test_a_loss_that_is_not_finite_is_explained_by_that_of_the_mixture():
    """f(x) <= sum w l must stay true, or the regret to the learner grows without bound."""
    weights, present = jnp.array([0.5, 0.25, 0.25]), jnp.ones(3, bool)
    each = _explained(jnp.array([1.0, np.inf, 2.0]), jnp.asarray(7.0), weights, present)
    assert np.isfinite(each).all()
    assert float(weights @ each) == pytest.approx(7.0)
    each = _explained(jnp.array([1.0, np.nan, 2.0]), jnp.asarray(0.5), weights, present)
    assert float(each[1]) == pytest.approx((0.5 * 1 + 0.25 * 2) / 0.75)  # the mean of the others
    problem = taut.Problem(
        lambda x, z: z / (1 - x[0]), lambda x: x[0] - 2.0, taut.Box(0.0, 1.0, shape=1)
    )
    base = HalfSpace(AdaGradNorm(1.0, 1.0, None), 1.0)
    run = taut.simulate(
        base,
        problem,
        np.ones(200),
        x1=[0.0],
        advice=lambda t, previous: jnp.where(t < 150, jnp.ones(1), previous + 1),
        record=("loss", "weights"),
    )
    assert run.loss[0, 0] == 2.0  # half way between 0 and the advice
    assert run.loss.sum() - 200.0 <= run.advised.gap[0] + 1e-9  # 200 is what the learner loses
    assert run.weights[0, -1, 1] < 0.01


GAMES, ROUNDS, ADVISERS = 300, 40, 2


@pytest.fixture(scope="module")
def games():
    """Random games with kinked losses, rows that change, and advice that is random, adversarial or
    missing."""
    problem = taut.Problem(
        lambda x, z: z["w"] * jnp.abs(x[0] - z["c"]) + z["p"] * x[0],
        lambda x, z: z["s"] * x[0] - z["o"],
        taut.Box(-1.0, 1.0, shape=1),
        constants=taut.Constants(constraint_count=1),
    )
    base = HalfSpace(AdaGradNorm(1.0, 1.0, None), 2.0, 0.0, 4, None)
    rng = np.random.default_rng(5)
    shape = GAMES, ROUNDS
    scale = 10.0 ** rng.integers(-3, 4, (GAMES, 1))
    data = {
        "w": scale * rng.uniform(0, 1, shape),
        "c": rng.uniform(-1, 1, shape),
        "p": scale * rng.choice([-1.0, 0.0, 1.0], shape),
        "s": rng.choice([1.0, -2.0], shape),
    }
    data["o"] = np.where(data["s"] > 0, rng.uniform(0.1, 0.8, shape), rng.uniform(0.2, 1.4, shape))
    advice = rng.uniform(-1.5, 1.5, (*shape, ADVISERS, 1))
    worst = np.where(data["p"] + data["w"] * np.sign(-data["c"]) > 0, 1.0, -1.0)
    adversarial = rng.uniform(size=GAMES) < 0.3
    advice[adversarial, :, 0, 0] = worst[adversarial]
    advice[rng.uniform(size=(*shape, ADVISERS)) < 0.2] = np.nan
    learner = taut.Advised(base, ADVISERS, hold=False)

    @jax.jit
    @jax.vmap
    def play(data, advice):
        def step(state, row):
            z, said = row
            told = jnp.nan_to_num(said), jnp.isfinite(said[:, 0])
            state = taut.announce(learner, problem, state, advice=told)
            after, scored = taut.step(learner, problem, state, z, announced=True)
            own = state.learner
            return after, (scored.x, scored.loss, scored.excess, own.points, own.given)

        return jax.lax.scan(step, taut.init(learner, problem), (data, advice))

    return data, jax.tree.map(np.asarray, play(data, advice))


def loss_at(data, x):
    return data["w"] * np.abs(x - data["c"]) + data["p"] * x


def test_no_adviser_is_much_better(games):
    """C1: the loss beyond that of each adviser, in its rounds, is at most Delta_{T-1} + Delta_T."""
    data, (state, (x, loss, _, points, given)) = games
    own = state.learner
    np.testing.assert_allclose(loss, loss_at(data, x[..., 0]), rtol=1e-12)
    allowed = own.gap + own.gap_before
    for k in range(ADVISERS):
        behind = np.where(given[..., k], loss - loss_at(data, points[:, :, 1 + k, 0]), 0)
        assert (behind.sum(axis=1) <= allowed * (1 + 1e-9) + 1e-9).all()
        np.testing.assert_allclose(behind.sum(axis=1), own.regret[:, k], rtol=1e-6, atol=1e-9)
    assert np.abs(points).max() <= 1
    assert np.isfinite(allowed).all()


def test_no_fixed_decision_is_much_better(games):
    """C2: regret against the best feasible decision, found on a grid, is at most Delta_{T-1} +
    Delta_T plus the bound of the learner at its own decisions."""
    data, (state, (_, loss, _, points, _)) = games
    own = state.learner
    grid = np.linspace(-1, 1, 401)[:, None, None]
    feasible = (data["s"] * grid <= data["o"]).all(axis=2)
    assert feasible.any(axis=0).all()
    totals = np.where(feasible, loss_at(data, grid).sum(axis=2), np.inf)
    slope = np.abs(data["p"] + data["w"] * np.sign(points[:, :, 0, 0] - data["c"]))
    largest, squares = slope.max(axis=1), (slope**2).sum(axis=1)
    np.testing.assert_allclose(own.slopes[:, 1], squares, rtol=1e-9)
    learner = (2.0**2 / 2 + 1) * np.sqrt(largest**2 + squares)
    regret = loss.sum(axis=1) - totals.min(axis=0)
    assert (regret <= learner + own.gap + own.gap_before + 1e-9).all()


def test_a_row_is_violated_once(games):
    """C3: with two normals and enough memory, a row is violated only if it is tighter than all rows
    of its normal that were violated before it."""
    data, (_, (x, _, excess, _, _)) = games
    for normal in (1.0, -2.0):
        violated = (data["s"] == normal) & (excess[..., 0] > 1e-9)
        offset = np.where(violated, data["o"], np.inf)
        least = np.minimum.accumulate(offset, axis=1)
        assert (offset[:, 1:] < least[:, :-1])[violated[:, 1:]].all()
        assert violated.sum() > GAMES / 2  # the claim is about something
    assert np.abs(x).max() <= 1 + 1e-12


class PlaysTwo(HalfSpace):
    def points(self, state):
        return state.x, state.x


def test_learners_that_cannot_be_mixed_are_refused():
    for bad in (taut.Advised(HalfSpace(0.1, 2.0)), PlaysTwo(0.1, 2.0)):
        with pytest.raises(TypeError, match="learner: got"):
            taut.Advised(bad)
    with pytest.raises(TypeError, match="learner: got"):
        taut.Advised("half-space")
    with pytest.raises(ValueError, match="advisers: got 0"):
        taut.Advised(HalfSpace(0.1, 2.0), 0)
