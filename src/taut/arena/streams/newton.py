"""Newton steps with a solver for the constraints: the best fixed decision for smooth losses."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from ...engine import Array
from ...extras import optional

ACCURATE = {"tol_gap_abs": 1e-12, "tol_gap_rel": 1e-12, "tol_feas": 1e-10}
"""Tolerances of a step: as accurate as the solver can. With its own, 1e-8, the gap stays too large
for some short horizons."""
TOLERANCE = 1e-8
"""The relative gap to the smallest value, proved by the linear lower bound at the result."""
Oracle = Callable[[Array], tuple[float, Array, Array]]
"""x -> value, gradient, Hessian of the total loss."""


def smooth_best(
    oracle: Oracle, constraints: Callable[[Any], list[Any]], start: Array
) -> tuple[Array, float]:
    """Return the x that minimises a smooth convex function under convex constraints, and its value.

    Arguments:
        oracle: value, gradient and Hessian.
        constraints: a CVXPY variable -> CVXPY constraints.
        start: a decision that satisfies the constraints.
    """
    cp = optional("cvxpy")

    x = np.asarray(start, float)
    value, gradient, hessian = oracle(x)
    gap = np.inf
    for _ in range(60):
        y = cp.Variable(len(x))
        scale = max(float(np.linalg.norm(gradient)), 1e-300)
        half = np.linalg.cholesky(hessian / scale + 1e-12 * np.eye(len(x))).T
        model = cp.Problem(
            cp.Minimize(gradient / scale @ (y - x) + cp.sum_squares(half @ (y - x)) / 2),
            constraints(y),
        )
        _solve(model, **ACCURATE)
        move = np.asarray(y.value) - x
        if -float(gradient @ move) <= TOLERANCE * max(1.0, abs(value)):
            lowest = cp.Problem(cp.Minimize(gradient / scale @ (y - x)), constraints(y))
            _solve(lowest)
            gap = -float(lowest.value) * scale
            if gap <= 10 * TOLERANCE * max(1.0, abs(value)):
                return x, value
        step = 1.0
        while step > 1e-12 and not oracle(x + step * move)[0] <= value + 1e-4 * step * float(
            gradient @ move
        ):
            step /= 2
        if step <= 1e-12:
            break
        x = x + step * move
        value, gradient, hessian = oracle(x)
    raise RuntimeError(f"the Newton steps of the comparator did not converge: the gap is {gap:.3g}")


def _solve(model: Any, **tolerances: float) -> None:
    """Solve a model. CVXPY warns if a tolerance is not reached; a step may be inaccurate, as the
    gap is proved apart from it."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Solution may be inaccurate")
        model.solve(solver="CLARABEL", **tolerances)
