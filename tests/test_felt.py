"""Is the schedule felt, and is the constraint? What purity, shapes and batches cannot tell.

A learner whose round counter stands still, or whose constraint Jacobian is always zero, passes every structural test.
Both are in here as broken learners, which the checks must refuse.
"""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import games
import taut
import zoo
from taut.problem.transforms import Tightened

EACH = pytest.mark.parametrize("method", taut.LEARNERS.values(), ids=games.pair_id)
PAIRS = pytest.mark.parametrize(("method", "case"), games.PAIRS, ids=games.pair_id)


@pytest.fixture(autouse=True, scope="module")
def _quick():
    with games.quick_compilation():
        yield


# -- Schedule felt -----------------------------------------------------------------------------------------------------

LAWS = {
    "clipped-ogd": lambda t: 1.0 + 0 * t,
    "clipped-ogd-paper": lambda t: 1.0 + 0 * t,
    "clipped-ogd-strong": lambda t: 1 / (t + 1),
    "clipped-ogd-anytime": lambda t: t**-0.5,
    "clipped-ogd-doubling": lambda t: 2.0 ** (-np.floor(np.log2(t)) / 2),  # epoch k begins with round 2^k
    "ogd": lambda t: 1.0 + 0 * t,
    "ogd-clipped": lambda t: 1.0 + 0 * t,
    "a-ogd": lambda t: t**-0.5,
    "a-ogd-clipped": lambda t: t**-0.5,
    "a-ogd-strong": lambda t: 1 / t,
    "a-ogd-strong-clipped": lambda t: 1 / t,
    "projected-ogd": lambda t: t**-0.5,
    "projected-ogd-strong": lambda t: 1 / t,
    "drift-plus-penalty": lambda t: 1.0 + 0 * t,
}
"""How the step length depends on the round, in the reference of each method."""

ROOM = taut.Ball(1e6, shape=2)
OPEN = taut.Problem(zoo.linear_loss, Tightened(zoo.TOY.problem.constraints, -1e9), ROOM)
"""The toy with nothing in the way: as its radius and level are traced, its compiled games serve again."""


def step_lengths(learner, aggregated=False):
    """|x_{t+1} - x_t| for t = 1, 2, ... with one loss gradient for ever, nothing in the way."""
    if isinstance(learner, taut.ProjectedOGD):
        learner = dataclasses.replace(learner, feasible=ROOM)
    data = np.broadcast_to([0.6, 0.8], (zoo.SEEDS, zoo.ROUNDS, 2))
    problem = taut.max_of(OPEN) if aggregated else OPEN
    run = taut.simulate(learner, problem, data, seeds=zoo.SEEDS, chunk=games.CHUNK, record=games.RECORD)
    return np.linalg.norm(np.diff(run.decisions[0], axis=0), axis=-1)


def check_schedule(lengths, law):
    t = np.arange(1.0, len(lengths) + 1)
    kept = np.log2(t + 1) % 1 != 0 if law is LAWS["clipped-ogd-doubling"] else t > 0  # where an epoch ends it restarts
    ratio = (lengths / law(t))[kept]
    np.testing.assert_allclose(ratio, ratio[-1], rtol=1e-6)


@EACH
def test_schedule_is_felt(method):
    lengths = step_lengths(games.tuned(method, games.home(method)), method.aggregated)
    check_schedule(lengths, LAWS[method.name])
    if method.needs_horizon:  # then the horizon is the schedule
        longer = step_lengths(games.tuned(method, games.home(method), 4 * zoo.ROUNDS))
        assert longer[9] / lengths[9] == pytest.approx(0.5, rel=1e-6)


def test_schedule_check_catches_a_round_counter_that_stands_still():
    @games.broken
    class Stuck(taut.ClippedOGD):
        def step(self, state, round):
            return super().step(state, round)._replace(t=state.t)

    good = games.tuned(taut.LEARNERS["clipped-ogd-anytime"], zoo.TOY)
    with pytest.raises(AssertionError):
        check_schedule(step_lengths(Stuck(good.eta, good.sigma)), LAWS["clipped-ogd-anytime"])


# -- Constraint felt ---------------------------------------------------------------------------------------------------


def check_constraint(case, tight, loose):
    """Taking the constraint away changes the play of every seed, and for the worse."""
    data = games.stream(case)
    assert np.all(np.any(tight.decisions != loose.decisions, axis=tuple(range(1, tight.decisions.ndim))))
    with_it, without = (games.violation(case, run.decisions, data) for run in (tight, loose))
    assert np.all(with_it < (1 - 1e-4) * without)


@PAIRS
def test_constraint_is_felt(method, case):
    tight = games.played(method, case)
    if "values" in method.oracles:
        loose = games.play(method, case, by=100.0)
    else:  # its constraint is the feasible set
        wider = jax.tree.map(lambda leaf: 10 * leaf, case.feasible)
        loose = games.play(method, case, dataclasses.replace(games.tuned(method, case), feasible=wider))
    check_constraint(case, tight, loose)


def _deaf():
    @games.broken
    class Deaf(taut.ClippedOGD):
        def step(self, state, round):
            x, t = state
            return type(state)(round.project(x - self.eta(t, x.dtype) * round.gradient(x)), t + 1)

    return Deaf(0.05, 4.0)


def _numb():
    @games.broken
    class Numb(taut.SaddlePoint):
        """Keeps its multiplier, but multiplies it by an all-zero Jacobian."""

        def step(self, state, round):
            return super().step(state, Zeroed(round))

    class Zeroed:
        def __init__(self, round):
            self.gradient, self.project, self.inner = round.gradient, round.project, round.constraints

        def constraints(self, x):
            return self.inner(x)._replace(pullback=lambda w: jnp.zeros_like(x))

    return Numb(0.05, 0.05, 0.01)


@pytest.mark.parametrize("make", [_deaf, _numb])
def test_constraint_check_catches_learners_that_ignore_it(make):
    method = taut.LEARNERS["clipped-ogd"]
    runs = [games.play(method, zoo.TOY, make(), by=by) for by in (0.0, 100.0)]
    with pytest.raises(AssertionError):
        check_constraint(zoo.TOY, *runs)
