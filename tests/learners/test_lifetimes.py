"""Lifetimes of kept cuts: golden rounds, what is forgotten and when, conflicts, and attacks on F1 and
F2."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import taut
from taut.learners.half_space.method import LIFE
from taut.learners.schedules import AdaGradNorm
from taut.play.passes import check_for_kernel

CAP = taut.Problem(lambda x, z: -x[0], lambda x, z: x[0] - z, taut.Box(0.0, 1.0, shape=1))


def capped(learner, start, caps):
    """Play x <= cap, capped by data or by a function of round, decision and state; return decisions
    and states."""
    step = jax.jit(lambda state, z: learner.step(state, CAP.round(z)))
    state, decisions, states = learner.init(jnp.asarray([start]), 1), [], []
    for t in range(1, len(caps) + 1 if isinstance(caps, list) else 137):
        decisions.append(float(state.x[0]))
        cap = caps[t - 1] if isinstance(caps, list) else caps(decisions[-1])
        state = step(state, jnp.asarray(cap))
        states.append(state)
    return np.array(decisions), states


def test_golden_rounds():
    caps = [0.2] * 3 + [1.0] * 5 + [0.2] * 3 + [1.0] * 4 + [0.2]
    learner = taut.HalfSpace(AdaGradNorm(0.5, 1.0), 1.0, memory=2, sweeps=None, life=2)
    decisions, states = capped(learner, 0.5, caps)
    expected = [0.5, *[0.2] * 4, 0.404124145232, 0.593106381737, 0.769883077033, 0.936549743700]
    expected += [*[0.2] * 6, 0.325]
    np.testing.assert_allclose(decisions, expected, rtol=0, atol=1e-12)
    lives = [state.cuts.lifetimes for state in states]
    assert [int(one.last[0]) for one in lives] == [1, 2, *[3] * 6, 9, 10, *[11] * 5, 16]
    assert [int(one.life[0]) for one in lives] == [2] * 8 + [4] * 7 + [8]
    assert not any(one.fresh[0] for one in lives)
    offsets = [state.cuts.offsets[0] for state in states]
    np.testing.assert_allclose(offsets, 0.2, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("life", "violated"),
    [(1, [1, 3, 6, 11, 20, 37, 70, 135]), (2, [1, 4, 9, 18, 35, 68, 133])],
)
def test_an_adversary_attains_the_number_of_violations_of_f1(life, violated):
    """It shows x <= 0 whenever the decision has moved away from it."""
    learner = taut.HalfSpace(AdaGradNorm(0.5, 1.0), 1.0, memory=2, sweeps=None, life=life)
    decisions, _ = capped(learner, 0.5, lambda x: 0.0 if x > 0 else 1.0)
    assert (np.flatnonzero(decisions > 0) + 1).tolist() == violated
    bound = taut.bounds.lifetimes_violation(
        half_spaces=1, horizon=len(decisions), life=life, diameter=1.0, constraint_lipschitz=1.0
    )
    assert int(bound) == len(violated)


def test_lives_follow_from_the_problem():
    fixed = taut.Problem(lambda x, z: z @ x, lambda x: x[0] - 0.5, taut.Ball(1.0, shape=2))
    assert taut.learner("half-space", fixed).life is None
    assert taut.learner("half-space", taut.Constants(radius=1.0)).life is None
    known = taut.Constants(loss_lipschitz=1.0, strong_convexity=1.0)
    changing = CAP.with_constants(known)
    for name in ("half-space", "half-space-anytime", "half-space-strong", "half-space-horizon"):
        horizon = 10 if name == "half-space-horizon" else None
        assert taut.learner(name, changing, horizon=horizon).life == LIFE
        assert taut.learner(name, changing, horizon=horizon, life=None).life is None
        assert taut.learner(name, changing, horizon=horizon, life=9).life == 9


@pytest.mark.parametrize("life", [0, -3, 2.5, "long", 2**31, True])
def test_a_life_that_is_none_is_refused(life):
    with pytest.raises((TypeError, ValueError), match="life: got"):
        taut.learner("half-space", CAP, life=life)


def test_a_capacity_that_is_gone_is_obeyed_no_longer_than_a_life():
    caps = np.r_[np.full(50, 0.2), np.ones(250)]
    runs = {
        life: taut.simulate(taut.learner("half-space", CAP, life=life), CAP, caps)
        for life in (None, LIFE)
    }
    assert runs[None].loss[0, -1] == pytest.approx(-0.2)
    x = -runs[LIFE].loss[0]
    assert x[49 + LIFE] == pytest.approx(0.2)
    assert x[50 + LIFE] > 0.2  # which F2 promises after 50 more rounds
    assert taut.bounds.lifetime_limit(life=LIFE, in_force=49) == LIFE + 49
    assert x[-1] == pytest.approx(1.0)
    for run in runs.values():
        assert np.maximum(run.excess, 0).sum() == pytest.approx(0.3)
    assert taut.simulate(CAP, caps).loss.tolist() == runs[LIFE].loss.tolist()  # the default
    # F3, with every comparator that is feasible after round 50.
    regret = taut.bounds.adaptive_half_space_regret(
        scale=0.5, start_up=100.0, radius=1.0, diameter=1.0, loss_slope=1.0, squared_slopes=300.0
    )
    bound = taut.bounds.recovery_regret(
        changed=50, life=LIFE, diameter=1.0, loss_lipschitz=1.0, regret=regret
    )
    assert np.sum(1 - x[50:]) <= bound


@pytest.fixture(scope="module")
def pair():
    """Two rows in the plane: those of data 1 up to round 50, those of data 0 afterwards."""

    def rows(x, z):
        on = z["on"] * jnp.stack([x[0] - 0.2, x[1] - 0.2])
        turned = jnp.where(z["on"] > 0, x, jnp.stack([x[1], -x[0]]))
        return jnp.where(z["kind"] > 0, on, turned)

    problem = taut.Problem(lambda x, z: -z["push"] @ x, rows, taut.Ball(1.0, shape=2))

    def final(kind, push):
        on = np.r_[np.ones(50), np.zeros(350)]
        data = {"on": on, "kind": np.full(400, float(kind)), "push": np.tile(push, (400, 1))}
        return taut.simulate(problem, data, record=("loss",))

    return final


def test_rows_that_are_switched_off_by_data_are_forgotten(pair):
    """At a decision on a cut the value of a row that is switched off is that of the cut; its
    gradient is not."""
    np.testing.assert_allclose(pair(1, [1.0, 1.0]).final[0], [0.5**0.5] * 2, atol=1e-3)


def test_rows_that_turn_round_the_decision_are_forgotten(pair):
    run = pair(0, [1.0, 0.0])
    np.testing.assert_allclose(run.final[0], [1.0, 0.0], atol=1e-6)
    assert np.sum(1 + run.loss[0, 50:]) < 80


def boxes(x, z):
    return jnp.concatenate([x - z["size"], -x - z["size"]])


def test_rows_that_are_not_the_largest_confirm_their_cuts():
    """Boxes that change their size: eight rows, of which one is revealed in a round."""
    rng, stages = np.random.default_rng(3), [0.2, 0.5, 0.35, 0.8]
    size = np.repeat(stages, 256)
    costs = -(np.array([1.0, 0.6, -0.4, 0.2]) + 0.5 * rng.normal(size=(1024, 4)))
    problem = taut.Problem(lambda x, z: z["c"] @ x, boxes, taut.Box(-1.0, 1.0, shape=4))
    data = {"c": costs, "size": size}
    run = taut.simulate(problem, data)
    best = -sum(s * np.abs(costs[size == s].sum(axis=0)).sum() for s in stages)
    assert run.loss.sum() < 0.8 * best  # for ever: 0.43
    assert np.sum(run.excess.max(axis=-1) > 1e-9) <= 16
    assert run.cuts_hold.all()


@pytest.mark.parametrize("count", [1, 3])
def test_a_round_with_lifetimes_fits_into_one_kernel(count):
    problem = taut.Problem(
        lambda x, z: z @ x,
        lambda x, z: z[0] * jnp.sum(x) - jnp.arange(1.0, count + 1),
        taut.Box(0.0, 1.0, shape=4),
    )
    learner, z = taut.learner("half-space", problem), jnp.ones(4)
    assert learner.life == LIFE
    program = jax.make_jaxpr(lambda state, z: taut.step(learner, problem, state, z))
    check_for_kernel(program(taut.init(learner, problem, z), z))


# -- Conflicts
# ------------------------------------------------------------------------------------------------

ROW = taut.Problem(
    lambda x, z: z["c"] @ x, lambda x, z: z["a"] @ x - z["b"], taut.Box(-1.0, 1.0, shape=2)
)


def rounds(*rows):
    """Data of rounds with rows (a_1, a_2, b)."""
    rows = np.array(rows, float)
    return {"c": np.tile([0.0, -1.0], (len(rows), 1)), "a": rows[:, :2], "b": rows[:, 2]}


def after(data, **options):
    learner = taut.learner("half-space", ROW, **options)
    step = jax.jit(lambda state, z: learner.step(state, ROW.round(z)))
    state, states = learner.init(jnp.zeros(2), 1), []
    for t in range(len(data["b"])):
        state = step(state, jax.tree.map(lambda leaf, t=t: jnp.asarray(leaf[t]), data))
        states.append(state)
    return states


def test_of_cuts_that_contradict_each_other_the_oldest_expires_and_no_innocent_one():
    left, right, low = (1, 0, -0.5), (-1, 0, -0.5), (0, 1, -0.3)
    *_, third, fourth = after(rounds(left, low, right, left))
    lives = third.cuts.lifetimes
    assert float(third.x[0]) >= 0.5 - 1e-9
    assert float(third.x[1]) <= -0.3 + 1e-9  # the innocent cut still holds
    assert lives.clash[:3].tolist() == [True, False, False]
    assert lives.last[:3].tolist()[1:] == [2, 3]
    assert not third.cuts_hold
    # It comes back: its life does not double, and the one that contradicts it expires.
    lives = fourth.cuts.lifetimes
    assert float(fourth.x[0]) <= -0.5 + 1e-9
    assert lives.life[:3].tolist() == [LIFE] * 3
    assert lives.clash[:3].tolist() == [False, False, True]


def test_a_row_that_contradicts_the_domain_is_left_out_and_kept_cuts_stay():
    (*_, last) = after(rounds((0, 1, 0.05), (1, 0, -5.0), (1, 0, -5.0)))
    assert float(last.x[1]) <= 0.05 + 1e-9
    assert not last.cuts_hold
    assert int(last.cuts.lifetimes.last[0]) == 1


def test_numbers_far_from_the_origin_do_not_expire_by_rounding():
    """In 32 bits, where 8 eps |x| is 1e-3: the row is in force in every round."""
    far = taut.Problem(
        lambda x, z: -x[0], lambda x, z: z * (x[0] - 1000.5), taut.Box(999.0, 1001.0, shape=1)
    )
    run = taut.simulate(far, np.ones(300), x1=jnp.asarray([1000.0], jnp.float32))
    assert np.sum(run.excess > 1e-3) <= 1


# -- Theorems
# ------------------------------------------------------------------------------------------------


def test_a_certificate_rests_on_f1_and_says_so():
    rng = np.random.default_rng(0)
    pool = np.array([[1.0, 0.0, 0.3], [0.0, 1.0, 0.2], [0.6, 0.8, 0.25]])
    row = pool[rng.integers(3, size=200)]
    data = {"c": rng.normal(size=(200, 2)) - 1, "a": row[:, :2], "b": row[:, 2]}
    run = taut.simulate(ROW, data)
    (row,) = (row for row in run.certificate().rows if row.quantity == "violation")
    assert row.guarantee.source == "half-space, F1 lifetimes"
    diameter = 2 * 2**0.5  # two doublings: 64 (2^2 - 1) + 2 <= 199
    assert row.guarantee.bound == pytest.approx((3 * 3 + 0.6449) * diameter, rel=1e-3)
    assert row.worst <= row.guarantee.bound
