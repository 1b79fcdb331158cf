"""Comparators that move, against CVXPY round by round and against all sequences of a short
stream."""

import itertools

import cvxpy as cp
import jax.numpy as jnp
import numpy as np
import pytest
from direct_solves import solved

import taut

T = 10
RNG = np.random.default_rng(21)
Z = RNG.normal(size=(2, T, 3))
BALL = taut.Ball(1.0, shape=3)
DISTANCE = taut.Problem(lambda x, z: jnp.sum((x - z) ** 2), lambda x, z: z @ x - 0.2, BALL)
STEADY = taut.Problem(lambda x, z: jnp.sum((x - z) ** 2), lambda x: jnp.abs(x).sum() - 0.8, BALL)


def segment(seed, start, stop, varying):
    """CVXPY's best fixed decision of some rounds."""
    x, rows = cp.Variable(3), Z[seed, start:stop]
    limits = [rows @ x <= 0.2] if varying else [cp.norm1(x) <= 0.8]
    return solved(sum(cp.sum_squares(x - row) for row in rows), [*limits, cp.norm(x) <= 1]), x.value


@pytest.mark.parametrize("problem", [DISTANCE, STEADY], ids=["changing", "fixed"])
def test_the_best_decision_of_each_round(problem):
    best = taut.hindsight(problem, Z, seeds=2, comparator="per-round")
    assert best.decision.shape == (2, T, 3)
    alone = np.array(
        [[segment(seed, t, t + 1, problem is DISTANCE)[0] for t in range(T)] for seed in range(2)]
    )
    assert best.loss == pytest.approx(alone.sum(axis=1), rel=1e-7)
    steps = np.linalg.norm(np.diff(best.decision, axis=1), axis=2)
    assert best.path_length == pytest.approx(steps.sum(axis=1))
    assert best.violation.max() <= 1e-8
    assert best.gap.max() <= 1e-8
    assert best.comparator == "per-round"
    parts = taut.hindsight(problem, Z, seeds=2, comparator="per-round", prefixes=[4, T, 1])
    assert parts.loss == pytest.approx(np.cumsum(alone, axis=1)[:, [3, T - 1, 0]], rel=1e-7)
    assert parts.path_length == pytest.approx(
        np.stack([steps[:, :3].sum(axis=1), steps.sum(axis=1), [0, 0]], axis=1)
    )


def test_equal_rounds_are_solved_once():
    repeated = np.tile(Z[0, :2], (300, 1))
    best = taut.hindsight(STEADY, repeated, comparator="per-round")
    assert "2 programs" in best.solver
    assert best.loss[0] == pytest.approx(
        300 * sum(segment(0, t, t + 1, False)[0] for t in range(2)), rel=1e-7
    )


def test_regret_against_comparators_that_move():
    run = taut.simulate(taut.ClippedOGD(0.1, 4.0), STEADY, Z, seeds=2, record=("loss", "excess"))
    fixed, moving, shifting = (
        taut.hindsight(STEADY, Z, seeds=2, **options)
        for options in (
            {},
            {"comparator": "per-round"},
            {"comparator": "shifting", "breakpoints": [4]},
        )
    )
    regrets = [taut.metrics.regret(run, best) for best in (fixed, shifting, moving)]
    assert np.all(regrets[0] <= regrets[1] + 1e-9)
    assert np.all(regrets[1] <= regrets[2] + 1e-9)
    assert regrets[2] == pytest.approx(run.loss.sum(axis=1) - moving.loss)
    prefixes = taut.hindsight(STEADY, Z, seeds=2, comparator="per-round", prefixes=[3, T])
    assert taut.metrics.regret(run, prefixes, rounds=[3, T]).shape == (2, 2)


@pytest.mark.parametrize("problem", [DISTANCE, STEADY], ids=["changing", "fixed"])
def test_each_segment_has_its_best_decision(problem):
    for inner in ((3,), (4, 7)):
        best = taut.hindsight(problem, Z, seeds=2, comparator="shifting", breakpoints=inner)
        assert best.decision.shape == (2, len(inner) + 1, 3)
        for seed in range(2):
            parts = [
                segment(seed, i, j, problem is DISTANCE)
                for i, j in itertools.pairwise((0, *inner, T))
            ]
            assert best.loss[seed] == pytest.approx(sum(loss for loss, _ in parts), rel=1e-7)
            np.testing.assert_allclose(best.decision[seed], [x for _, x in parts], atol=1e-5)
        steps = np.linalg.norm(np.diff(best.decision, axis=1), axis=2)
        assert best.path_length == pytest.approx(steps.sum(axis=1))
        assert best.gap.max() <= 1e-8


def test_segments_can_be_feasible_where_no_fixed_decision_is():
    """x >= 0.5 and then x <= -0.5: a change makes it feasible, and only where the sign does."""
    problem = taut.Problem(
        lambda x, z: x**2, lambda x, z: 0.5 - z * x, taut.Box(-1.0, 1.0, shape=())
    )
    signs = np.concatenate([np.ones(5), -np.ones(7)])
    with pytest.raises(taut.NoFeasibleDecision, match="over 12 rounds"):
        taut.hindsight(problem, signs)
    best = taut.hindsight(problem, signs, comparator="shifting", breakpoints=[5])
    assert best.loss[0] == pytest.approx(3.0, rel=1e-8)
    assert best.path_length[0] == pytest.approx(1.0)
    with pytest.raises(taut.NoFeasibleDecision):
        taut.hindsight(problem, signs, comparator="shifting", breakpoints=[6])
    impossible = taut.Problem(lambda x, z: x**2, lambda x, z: z - x, taut.Box(-1.0, 1.0, shape=()))
    with pytest.raises(taut.NoFeasibleDecision) as caught:
        taut.hindsight(impossible, np.array([0.5, 0.2, 3.0, 0.1]), comparator="per-round")
    assert "round 3 of seed 0" in caught.value.__notes__[0]


def test_bad_arguments_are_named():
    for options, message in (
        ({"comparator": "best"}, "comparator: got 'best'"),
        ({"breakpoints": [2]}, r'breakpoints: got \[2\] with comparator="fixed"'),
        ({"comparator": "shifting"}, "breakpoints: got None .* expected rounds"),
        (
            {"comparator": "shifting", "breakpoints": [3, 3]},
            r"breakpoints: got \[3, 3\]; expected increasing",
        ),
        ({"comparator": "shifting", "breakpoints": [T]}, "below 10"),
        (
            {"comparator": "shifting", "breakpoints": [1], "prefixes": [3]},
            "prefixes: got some",
        ),
        (
            {"comparator": "per-round", "method": "first-order"},
            'method: got "first-order" with comparator="per-round"',
        ),
    ):
        with pytest.raises(ValueError, match=message):
            taut.hindsight(STEADY, Z[0], **options)
