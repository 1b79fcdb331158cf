"""Is there any feasible decision? Asked before a game is played, so that a contradiction is named and not chased."""

from __future__ import annotations

import weakref
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .constraints import Constraints
from .problem import Problem

__all__ = ["check_feasible", "find_feasible"]

TOLERANCE = 1e-6
CUTS = 60

_feasible: weakref.WeakSet[Problem] = weakref.WeakSet()


def check_feasible(problem: Problem) -> None:
    """Raise if fixed constraints provably contradict each other over the domain.

    Constraints that depend on the round's data are not judged here: `taut.hindsight` sees the whole stream.
    """
    if problem.constraints.takes_data or problem in _feasible:
        return
    point, excess, proven = find_feasible(problem)
    if point is None and proven:
        raise ValueError(
            f"constraints: got none of the domain's decisions feasible: max_i g_i(x) >= {excess:.6g} > 0 for all of them; "
            "expected a domain that contains a decision with g(x) <= 0"
        )
    _feasible.add(problem)


def find_feasible(problem: Problem) -> tuple[np.ndarray[Any, Any] | None, float, bool]:
    """A decision with max g <= 1e-6, if one is found; the best known bound on min max g; whether that is proven.

    First Polyak steps x <- Pi_B(x - [g(x)]_+ s / ||s||^2), which are compiled and enough for nearly every problem; then
    cutting planes, whose linear programs bound the minimum from below.
    """
    point, excess = _polyak(problem.constraints, problem.domain)
    scale = max(1.0, abs(float(problem.constants.constraint_range or 1.0)))
    if float(excess) <= TOLERANCE * scale:
        return np.asarray(point), float(excess), False
    if not np.isfinite(float(excess)):
        raise ValueError("constraints: got a value that is not finite inside the domain; expected finite numbers")
    return _cutting_planes(problem, np.asarray(point), TOLERANCE * scale)


@jax.jit
def _polyak(constraints: Constraints, domain: Any) -> tuple[jax.Array, jax.Array]:
    def worst(x: jax.Array) -> tuple[jax.Array, jax.Array]:
        values, pull, _ = constraints.linearise(x, None)
        largest = jnp.max(values)
        active = (values == largest).astype(values.dtype)
        return largest, pull(active / jnp.sum(active))

    def step(_: jax.Array, carry: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
        x, best, lowest = carry
        value, slope = worst(x)
        better = value < lowest
        best, lowest = jnp.where(better, x, best), jnp.minimum(value, lowest)
        length = jnp.sum(slope**2)
        move = jnp.maximum(value, 0) / jnp.where(length > 0, length, 1)
        return domain.project(x - move * slope), best, lowest

    x = jnp.asarray(domain.centre, jnp.result_type(float))
    first = worst(x)[0]
    _, best, lowest = jax.lax.fori_loop(0, 1000, step, (x, x, first))
    return best, lowest


def _cutting_planes(
    problem: Problem, x: np.ndarray[Any, Any], tolerance: float
) -> tuple[np.ndarray[Any, Any] | None, float, bool]:
    import cvxpy as cp

    shape = problem.domain.shape
    y, level = cp.Variable(shape), cp.Variable()
    rows = problem.domain.to_cvxpy(y)
    lowest = -np.inf

    @jax.jit
    def linear(x: jax.Array) -> tuple[jax.Array, jax.Array]:
        values, pull, _ = problem.constraints.linearise(x, None)
        return values, jax.vmap(pull)(jnp.eye(values.shape[0], dtype=values.dtype))

    for _ in range(CUTS):
        values, jacobian = (np.asarray(a, float) for a in linear(jnp.asarray(x)))
        if float(values.max()) <= tolerance:
            return x, float(values.max()), False
        for value, slope in zip(values, jacobian, strict=True):
            if value >= values.max() - 1.0 or len(values) < 50:
                offset = float(value - np.sum(slope * x))
                rows.append((cp.sum(cp.multiply(slope, y)) if np.any(slope) else 0.0) + offset <= level)
        plan = cp.Problem(cp.Minimize(level), rows)
        plan.solve(solver=cp.CLARABEL)
        if plan.status not in (cp.OPTIMAL, cp.OPTIMAL_INACCURATE) or y.value is None:
            return None, lowest, False
        lowest, x = float(level.value), np.asarray(y.value)
        if lowest > tolerance:
            return None, lowest, True
    return None, lowest, False
