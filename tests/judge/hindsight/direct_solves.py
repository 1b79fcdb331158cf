"""What tests of hindsight share: a loss, and CVXPY as a second solver."""

import cvxpy as cp
import jax.numpy as jnp


def logistic(x, z):
    return jnp.logaddexp(0.0, -z[1] * (z[0] @ x))


def solved(objective, constraints):
    """CVXPY's optimum, somewhat more accurate than by default."""
    model = cp.Problem(cp.Minimize(objective), constraints)
    model.solve(solver=cp.CLARABEL, tol_gap_rel=1e-9, tol_gap_abs=1e-9, tol_feas=1e-9)
    assert model.status == cp.OPTIMAL
    return model.value
