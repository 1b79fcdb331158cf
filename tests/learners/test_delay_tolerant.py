"""Delays: conformance, copies that play their own rounds, a recursion in NumPy with rounds out of
order, bounds on many seeds."""

import jax.numpy as jnp
import numpy as np
import pytest

import taut
from taut.judge.guarantees import setting_of
from taut.learners.delay_tolerant import CARDS
from taut.runs import metrics
from taut.testing import parametrize_with_checks, run_check
from taut.testing.playing import quick_compilation
from taut.testing.problems import POLYHEDRON, TOY

ROUNDS, LONGEST, ETA = 40, 4, 0.2
COSTS = TOY.stream(1, ROUNDS)[0]
DELAYS = np.random.default_rng(0).integers(0, LONGEST + 1, size=ROUNDS)
STEP = taut.HalfSpace(ETA, 2.0)


def stored(key, t):
    return jnp.asarray(DELAYS)[t - 1]


@pytest.fixture(autouse=True, scope="module")
def compile_quickly():
    with quick_compilation():
        yield


@parametrize_with_checks(CARDS)
def test_conformance(card, check):
    run_check(card, check, (TOY,))


def decisions(learner, feedback, data=COSTS):
    run = taut.simulate(
        learner,
        TOY.problem,
        data,
        feedback=feedback,
        unproven=True,
        record=("decisions",),
        chunk=64,
    )
    return run.decisions[0]


def half_space(x, gradient, value, slope, at):
    """A gradient step, then the half-space of a linear model that was made at another decision,
    then the ball."""
    y = x - ETA * gradient
    excess = value + slope @ (y - at)
    if excess > 0 and slope.any():
        y = y - excess / (slope @ slope) * slope
    return y / max(1.0, np.linalg.norm(y))


def test_a_delayed_half_space_follows_its_formula():
    """Rounds arrive out of order, several or none at a time; each cut is that of the decision that
    was played."""
    for feedback, delays in (
        (taut.Delayed(3), np.full(ROUNDS, 3)),
        (taut.Delayed(stored, longest=LONGEST), DELAYS),
    ):
        found, x, sent = decisions(STEP, feedback), np.zeros(2), []
        for t in range(1, ROUNDS + 1):
            np.testing.assert_allclose(found[t - 1], x, rtol=0, atol=1e-12)
            sent.append((t + delays[t - 1], COSTS[t - 1], np.abs(x).sum() - 1, np.sign(x), x))
            for due, *measured in sent:
                if due == t:
                    x = half_space(x, *measured)
    assert len({due for due, *_ in sent}) < ROUNDS - 5  # several arrive together


def test_every_copy_plays_its_own_rounds():
    """With a constant delay, copy k plays rounds k, k + d + 1, ... as if there were no others."""
    found = decisions(taut.DelayTolerant(STEP, 3), taut.Delayed(3))
    for k in range(4):
        own = COSTS[k::4]
        alone = decisions(STEP, None, np.concatenate([own, COSTS])[:ROUNDS])
        np.testing.assert_allclose(found[k::4], alone[: len(own)], rtol=0, atol=1e-12)


def test_random_delays_use_the_first_free_copy():
    found = decisions(taut.DelayTolerant(STEP, LONGEST), taut.Delayed(stored, longest=LONGEST))
    copies, owner, sent = [np.zeros(2) for _ in range(LONGEST + 1)], [], []
    for t in range(1, ROUNDS + 1):
        waiting = {who for due, who, *_ in sent if due >= t}
        playing = min(set(range(LONGEST + 1)) - waiting)
        x = copies[playing]
        owner.append(playing)
        np.testing.assert_allclose(found[t - 1], x, rtol=0, atol=1e-12)
        sent.append((t + DELAYS[t - 1], playing, COSTS[t - 1], np.abs(x).sum() - 1, np.sign(x), x))
        for due, who, *measured in sent:
            if due == t:
                copies[who] = half_space(copies[who], *measured)
    assert set(owner) == set(range(max(owner) + 1))
    assert max(owner) >= 2


def test_without_delays_the_first_copy_plays_alone():
    plain = decisions(STEP, None)
    for feedback in (None, taut.Delayed(0)):
        np.testing.assert_allclose(
            decisions(taut.DelayTolerant(STEP, 2), feedback), plain, rtol=0, atol=1e-13
        )
    np.testing.assert_allclose(decisions(STEP, taut.Delayed(0)), plain, rtol=0, atol=1e-13)


@pytest.mark.parametrize("known", [TOY, POLYHEDRON], ids=["toy", "polyhedron"])
def test_bounds_hold_on_many_seeds(known):
    seeds, rounds, delay = 24, 120, 6
    data = known.stream(seeds, rounds)
    learner = taut.learner("delay-tolerant", known.problem, horizon=rounds, delay=delay)
    run = taut.simulate(
        learner, known.problem, data, feedback=taut.Delayed(delay), seeds=seeds, chunk=128
    )
    measured = metrics.measured(run, known.optimum(data))
    found = [
        one
        for one in learner.guarantees(setting_of(known.problem), rounds)
        if one.bound is not None
    ]
    assert {one.quantity for one in found} == {
        "regret",
        "violation",
        "squared violation",
        "peak violation",
        "excess",
    }
    for one in found:
        assert measured[one.quantity].max() <= one.bound * (1 + 1e-9), one
    alone = {
        one.quantity: one.bound
        for one in learner.learner.guarantees(setting_of(known.problem), -(-rounds // 7))
    }
    assert found[0].quantity == "regret"
    assert found[0].bound == pytest.approx(7 * alone["regret"])


def test_longer_delays_are_refused():
    learner = taut.DelayTolerant(STEP, 3)
    assert learner.uncovered(taut.Delayed(3)) == ""
    assert "enough for delays of 3 rounds, not 4" in learner.uncovered(taut.Delayed(4))
    assert "not noisy feedback" in learner.uncovered(taut.Noisy(values=0.1))
    with pytest.raises(ValueError, match="proven for full information only"):
        taut.simulate(STEP, TOY.problem, COSTS, feedback=taut.Delayed(1))


def test_a_player_waits_too():
    player = taut.Player(taut.DelayTolerant(STEP, 2), TOY.problem, feedback=taut.Delayed(2))
    found = decisions(taut.DelayTolerant(STEP, 2), taut.Delayed(2))
    for t in range(8):
        np.testing.assert_allclose(player.decision, found[t], rtol=0, atol=1e-12)
        player.observe(COSTS[t])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: taut.Delayed(-1), "rounds: got -1"),
        (lambda: taut.Delayed(2.5), "rounds: got 2.5"),
        (lambda: taut.Delayed(stored), "longest: got None; expected the longest delay"),
        (lambda: taut.Delayed(3, longest=5), "longest: got 5; expected 3"),
        (lambda: taut.DelayTolerant("half-space", 2), "learner: got 'half-space'"),
        (lambda: taut.DelayTolerant(STEP, -1), "delay: got -1"),
    ],
)
def test_bad_arguments_are_refused(make, message):
    with pytest.raises((TypeError, ValueError), match=message):
        make()
