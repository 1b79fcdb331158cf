"""Multiplying constraints or losses by a positive constant changes neither decisions nor gaps.

Every route is compared with CVXPY's solution of the problem in its own units.
"""

import cvxpy as cp
import jax.numpy as jnp
import numpy as np
import pytest

import taut
from taut.problem.feasibility import NoFeasibleDecision

SCALES = 1e-12, 1e12
ROUNDS = 20
DATA = np.random.default_rng(3).normal(size=(ROUNDS, 2)) + np.array([1.0, 0.3])
ROWS = np.array([[1.0, 2.0], [-1.0, 0.5], [0.3, -1.0]])
LIMITS = np.array([0.7, 0.4, 0.5])

LOSSES = {
    "affine": (lambda x, z: z @ x, lambda x: cp.sum(DATA @ x)),
    "distance": (
        lambda x, z: jnp.sum((x - z) ** 2),
        lambda x: cp.sum_squares(np.ones((ROUNDS, 1)) @ x[None] - DATA),
    ),
    "logistic": (lambda x, z: jnp.logaddexp(0.0, z @ x), lambda x: cp.sum(cp.logistic(DATA @ x))),
    "kinked": (lambda x, z: jnp.abs(z @ x - 1), lambda x: cp.sum(cp.abs(DATA @ x - 1))),
}
CONSTRAINTS = {
    "rows": (lambda x: jnp.asarray(ROWS) @ x - LIMITS, lambda x: [ROWS @ x <= LIMITS]),
    "cone": (lambda x: jnp.sum((x - 0.2) ** 2) - 0.1, lambda x: [cp.sum_squares(x - 0.2) <= 0.1]),
    "tangents": (lambda x: jnp.abs(x).sum() - 0.5, lambda x: [cp.norm1(x) <= 0.5]),
    "exponential": (lambda x: jnp.exp(3 * x).sum() - 1, lambda x: [cp.sum(cp.exp(3 * x)) <= 1]),
    "equality": (
        lambda x: jnp.stack([x.sum() - 0.3, 0.3 - x.sum()]),
        lambda x: [cp.sum(x) == 0.3],
    ),
    "changing": (
        lambda x, z: jnp.stack([z @ x - 0.5, jnp.sum(x**2) - 0.5]),
        lambda x: [DATA @ x <= 0.5, cp.sum_squares(x) <= 0.5],
    ),
}
PAIRS = [
    ("affine", "rows"),
    ("affine", "tangents"),
    ("distance", "cone"),
    ("distance", "exponential"),
    ("logistic", "rows"),
    ("logistic", "equality"),
    ("kinked", "cone"),
    ("kinked", "tangents"),
    ("affine", "changing"),
    ("kinked", "changing"),
]


def solved(loss, constraints):
    """Return CVXPY's decision and loss on the ball of radius 2, in the problem's own units."""
    x = cp.Variable(2)
    program = cp.Problem(
        cp.Minimize(LOSSES[loss][1](x)), [*CONSTRAINTS[constraints][1](x), cp.norm(x) <= 2]
    )
    program.solve(solver=cp.CLARABEL, tol_gap_rel=1e-12, tol_gap_abs=1e-12, tol_feas=1e-12)
    return x.value, program.value


def scaled(loss, constraints, of_loss, of_constraints):
    """Return the problem with loss and constraints times constants."""
    f, g = LOSSES[loss][0], CONSTRAINTS[constraints][0]
    if constraints == "changing":
        return taut.Problem(
            lambda x, z: of_loss * f(x, z),
            lambda x, z: of_constraints * g(x, z),
            taut.Ball(2.0, shape=2),
        )
    return taut.Problem(
        lambda x, z: of_loss * f(x, z), lambda x: of_constraints * g(x), taut.Ball(2.0, shape=2)
    )


def check(best, loss, constraints, of_loss, of_constraints, tolerance=1e-8):
    """Compare hindsight's results, divided by the constants, with CVXPY's."""
    decision, value = solved(loss, constraints)
    accuracy = 1e-4 if loss == "kinked" or tolerance > 1e-8 else 3e-6
    np.testing.assert_allclose(best.decision[0], decision, atol=accuracy)
    np.testing.assert_allclose(best.loss[0] / of_loss, value, rtol=10 * tolerance)
    assert best.gap[0] <= tolerance
    assert best.violation[0] <= 1e-7 * of_constraints


@pytest.mark.parametrize("of_constraints", SCALES)
@pytest.mark.parametrize(("loss", "constraints"), PAIRS)
def test_constraints_times_a_constant(loss, constraints, of_constraints):
    problem = scaled(loss, constraints, 1.0, of_constraints)
    check(taut.hindsight(problem, DATA), loss, constraints, 1.0, of_constraints)


@pytest.mark.parametrize("of_loss", SCALES)
@pytest.mark.parametrize(("loss", "constraints"), PAIRS)
def test_losses_times_a_constant(loss, constraints, of_loss):
    problem = scaled(loss, constraints, of_loss, 1.0)
    check(taut.hindsight(problem, DATA), loss, constraints, of_loss, 1.0)


@pytest.mark.parametrize(("of_loss", "of_constraints"), [(1.0, 1e-12), (1e-12, 1.0), (1e9, 1e12)])
@pytest.mark.parametrize("constraints", ["cone", "changing"])
def test_first_order_with_constants(constraints, of_loss, of_constraints):
    problem = scaled("logistic", constraints, of_loss, of_constraints)
    best = taut.hindsight(problem, DATA, method="first-order", tolerance=1e-6)
    check(best, "logistic", constraints, of_loss, of_constraints, 1e-6)


def test_constraints_in_different_units():
    """Each constraint has a unit of its own: one is multiplied by 1e-9, another by 1e9."""
    factors = np.array([1e-9, 1.0, 1e9])
    problem = taut.Problem(
        lambda x, z: z @ x,
        lambda x: factors * (jnp.asarray(ROWS) @ x - LIMITS),
        taut.Ball(2.0, shape=2),
    )
    best = taut.hindsight(problem, DATA)
    decision, value = solved("affine", "rows")
    np.testing.assert_allclose(best.decision[0], decision, atol=3e-6)
    np.testing.assert_allclose(best.loss[0], value, rtol=1e-7)
    # Multipliers are those of the constraints as they are written: they give back the loss.
    outside = ROWS.T @ (factors * best.multipliers[0])
    lagrangian = -2 * np.linalg.norm(DATA.sum(axis=0) + outside)
    lagrangian -= (factors * best.multipliers[0]) @ LIMITS
    np.testing.assert_allclose(lagrangian, value, rtol=1e-7)


@pytest.mark.parametrize("options", [{"comparator": "per-round"}, {"breakpoints": [3]}])
def test_comparators_that_move(options):
    options = {"comparator": "shifting", **options}
    plain = scaled("distance", "cone", 1.0, 1.0)
    found = taut.hindsight(plain, DATA, **options)
    for of_loss, of_constraints in ((1e-12, 1.0), (1.0, 1e-12)):
        best = taut.hindsight(scaled("distance", "cone", of_loss, of_constraints), DATA, **options)
        np.testing.assert_allclose(best.decision, found.decision, atol=1e-5)
        np.testing.assert_allclose(best.loss / of_loss, found.loss, rtol=1e-7)
        np.testing.assert_allclose(best.gap, found.gap, rtol=1e-3, atol=1e-8)


@pytest.mark.parametrize("scale", SCALES)
def test_no_feasible_decision(scale):
    problem = taut.Problem(
        lambda x, z: z @ x,
        lambda x: scale * jnp.stack([x[0] + 0.5, 0.7 - x[0]]),
        taut.Ball(1.0, shape=2),
    )
    with pytest.raises(NoFeasibleDecision) as refused:
        taut.hindsight(problem, DATA)
    np.testing.assert_allclose(refused.value.bound / scale, 0.6, rtol=1e-5)
    np.testing.assert_allclose(refused.value.violation / scale, 0.6, rtol=1e-5)
    np.testing.assert_allclose(refused.value.decision[0], 0.1, atol=1e-5)


def test_no_feasible_decision_in_different_units():
    problem = taut.Problem(
        lambda x, z: z @ x,
        lambda x: jnp.stack([4 * (x[0] + 0.5), 0.7 - x[0]]),
        taut.Ball(1.0, shape=2),
    )
    with pytest.raises(NoFeasibleDecision) as refused:
        taut.hindsight(problem, DATA)
    np.testing.assert_allclose(refused.value.decision[0], -1.3 / 5, atol=1e-5)
    np.testing.assert_allclose(refused.value.bound, 0.7 + 1.3 / 5, rtol=1e-5)


@pytest.mark.parametrize("scale", [1e-9, 1e9])
def test_small_sets_are_not_taken_for_sets_without_interior(scale):
    problem = taut.Problem(
        lambda x, z: jnp.abs(z @ x - 1),
        lambda x: scale * jnp.stack([jnp.abs(x - 0.2).sum() - 1e-3, x[0] - 0.2, x[1] - 0.2]),
        taut.Ball(2.0, shape=2),
    )
    best = taut.hindsight(problem, DATA)
    assert best.gap[0] <= 1e-8
    assert best.violation[0] <= 1e-8 * scale


@pytest.mark.parametrize("constants", [(1.0, 1e-9), (1e9, 1.0)])
def test_verdicts_of_certificates(constants):
    """Mean, worst, bound and limit of regret and violations are multiplied, all verdicts equal."""
    first = taut.simulate(scaled("affine", "tangents", 1.0, 1.0), DATA)
    second = taut.simulate(scaled("affine", "tangents", *constants), DATA)
    plain, certificate = first.certificate(), second.certificate()
    of_loss, of_constraints = constants
    assert certificate.outcome == plain.outcome
    assert [(one.name, one.status) for one in certificate.assumptions] == [
        (one.name, one.status) for one in plain.assumptions
    ]
    for row, expected in zip(certificate.rows, plain.rows, strict=True):
        unit = {"regret": of_loss, "squared violation": of_constraints**2}.get(
            row.quantity, of_constraints
        )
        assert (row.quantity, row.trivial) == (expected.quantity, expected.trivial)
        np.testing.assert_allclose(row.worst / unit, expected.worst, rtol=1e-6, atol=1e-9)
        bounds = row.guarantee.bound, expected.guarantee.bound
        if row.quantity == "regret":
            # Where decisions lie on a kink, rounding chooses the piece of the constraint whose
            # half-space moves first, and only that move is subtracted from the bound.
            corrections = second.correction.min(), first.correction.min()
            bounds = tuple(map(sum, zip(bounds, corrections, strict=True)))
        np.testing.assert_allclose(bounds[0] / unit, bounds[1], rtol=1e-6)
