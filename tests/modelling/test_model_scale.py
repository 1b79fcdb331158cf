"""Models written in CVXPY: constants in front of constraints and losses change nothing."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest

import taut

SCALES = 1e-12, 1e12
DATA = np.random.default_rng(3).normal(size=(20, 3)) + np.array([1.0, 0.3, -0.5])
ROWS = np.array([[1.0, 2.0, 0.5], [-1.0, 0.5, 1.0]])

LOSSES = {
    "affine": lambda x, z: z @ x,
    "distance": lambda x, z: cp.sum_squares(x - z),
    "epigraphs": lambda x, z: cp.norm(x - z, 2) + cp.logistic(z @ x),
}
CONSTRAINTS = {
    "rows": lambda x: ROWS @ x - 0.4,
    "norm": lambda x: cp.norm(x, 2) + cp.norm1(x) - 0.7,
    "exponential": lambda x: cp.sum(cp.exp(x)) - 2.5,
    "semidefinite": lambda x: cp.lambda_max(cp.diag(x) + 0.1) - 0.3,
}
PAIRS = [
    ("affine", "rows"),
    ("affine", "norm"),
    ("distance", "exponential"),
    ("distance", "semidefinite"),
    ("epigraphs", "norm"),
    ("epigraphs", "rows"),
]


def solved(loss, constraints):
    """Return CVXPY's decision and loss in the model's own units."""
    x = cp.Variable(3)
    total = sum(LOSSES[loss](x, z) for z in DATA)
    program = cp.Problem(cp.Minimize(total), [CONSTRAINTS[constraints](x) <= 0, cp.abs(x) <= 1])
    program.solve(solver=cp.CLARABEL, tol_gap_rel=1e-11, tol_gap_abs=1e-11, tol_feas=1e-11)
    return x.value, program.value


def best_of(loss, constraints, of_loss, of_constraints):
    x, z = cp.Variable(3, bounds=[-1, 1]), cp.Parameter(3)
    model = taut.from_cvxpy(
        of_loss * LOSSES[loss](x, z), [of_constraints * CONSTRAINTS[constraints](x) <= 0]
    )
    return taut.hindsight(model, DATA)


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("of", ["constraints", "losses"])
@pytest.mark.parametrize(("loss", "constraints"), PAIRS)
def test_models_times_a_constant(loss, constraints, of, scale):
    of_loss, of_constraints = (1.0, scale) if of == "constraints" else (scale, 1.0)
    best = best_of(loss, constraints, of_loss, of_constraints)
    decision, value = solved(loss, constraints)
    np.testing.assert_allclose(best.decision[0], decision, atol=1e-5)
    np.testing.assert_allclose(best.loss[0] / of_loss, value, rtol=1e-7)
    assert best.gap[0] <= 1e-8
    assert best.violation[0] <= 1e-7 * of_constraints
