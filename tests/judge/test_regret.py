"""Regret is the loss that was scored minus that of the best decision for what was scored."""

import pickle

import jax.numpy as jnp
import numpy as np
import pytest

import taut

PROBLEM = taut.Problem(lambda x, c: c @ x, lambda x: jnp.abs(x).sum() - 1, taut.Ball(1.0, shape=2))
COSTS = np.random.default_rng(2).normal(size=(2, 12, 2))
LEARNER = taut.ClippedOGD(0.05, 8.0)


def test_the_hindsight_of_the_problem_that_was_played_is_refused_beside_another_score():
    tighter = taut.tightened(PROBLEM, 0.2)
    run = taut.simulate(LEARNER, tighter, COSTS[0], score=PROBLEM)
    best, other = taut.hindsight(PROBLEM, COSTS[0]), taut.hindsight(tighter, COSTS[0])
    assert abs(best.loss[0] - other.loss[0]) > 0.1
    assert taut.metrics.regret(run, best) == pytest.approx(run.totals.loss - best.loss, abs=1e-12)
    with pytest.raises(
        ValueError,
        match=r"best: got the hindsight of the problem that was played.*run.problem, stream",
    ):
        taut.metrics.regret(run, other)
    certificate = run.certificate()
    regrets = {row.quantity: row.worst for row in certificate.rows if "regret" in row.quantity}
    assert regrets["regret"] == pytest.approx(taut.metrics.regret(run, best)[0], abs=1e-6)
    assert regrets["regret of the played problem"] == pytest.approx(
        run.totals.loss[0] - other.loss[0], abs=1e-6
    )


def test_another_loss_is_noticed_whatever_the_constants_are():
    dearer = taut.Problem(
        lambda x, c: 2 * PROBLEM.loss(x, c), lambda x: jnp.abs(x).sum() - 1, PROBLEM.domain
    )
    run = taut.simulate(LEARNER, PROBLEM, COSTS[0], score=dearer)
    best = taut.hindsight(PROBLEM.with_constants(taut.Constants(radius=1.0)), COSTS[0])
    with pytest.raises(ValueError, match="best: got the hindsight of the problem that was played"):
        taut.metrics.regret(run, best)
    assert taut.metrics.regret(taut.simulate(LEARNER, PROBLEM, COSTS[0]), best).shape == (1,)
    assert (
        pickle.loads(pickle.dumps(best)).loss == best.loss
    )  # although the problem cannot be pickled


def test_regret_of_prefixes_needs_the_prefixes_of_the_comparator():
    run = taut.simulate(LEARNER, PROBLEM, COSTS, seeds=2)
    best = taut.hindsight(PROBLEM, COSTS, prefixes=[5, 10], seeds=2)
    assert taut.metrics.regret(run, best, rounds=(5, 10)).shape == (2, 2)
    for rounds in (
        None,
        5,
        [10, 5],
        [5],
    ):  # with two seeds all but the last would have been broadcast to some numbers
        with pytest.raises(
            ValueError, match=r"rounds: got .*, but best has the prefixes \[5, 10\]"
        ):
            taut.metrics.regret(run, best, rounds)
