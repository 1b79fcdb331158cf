"""Finds a feasible decision, so that infeasible constraints are reported before a simulation starts."""

from __future__ import annotations

import weakref

import jax
import jax.numpy as jnp
import numpy as np

from ..engine import Array, default_float
from .conic import backend
from .constraints import Constraints
from .domains import Domain
from .problem import Problem

__all__ = ["check_feasible", "find_feasible", "mark_feasible"]

TOLERANCE = 1e-6
"""The largest constraint value that counts as feasible, in units of the largest one at the centre (at most 1)."""
POLYAK_STEPS = 1000
"""Subgradient steps before cutting planes are tried."""
CUTS = 60
"""The largest number of cutting planes."""

_feasible: weakref.WeakSet[Problem] = weakref.WeakSet()


def check_feasible(problem: Problem) -> None:
    """Raise if fixed constraints provably contradict each other over the domain.

    Constraints that depend on the round's data are not checked here, because only `taut.hindsight` sees the whole stream.
    """
    if problem.constraints.takes_data or problem in _feasible:
        return
    point, excess, proven = find_feasible(problem)
    if point is None and proven:
        raise ValueError(
            f"constraints: got max_i g_i(x) >= {excess:.6g} > 0 for all x of the domain; expected a domain with a "
            "decision for which g(x) <= 0"
        )
    _feasible.add(problem)


def mark_feasible(problem: Problem) -> None:
    """Note that a feasible decision of this problem is known, so that `check_feasible` need not search."""
    _feasible.add(problem)


def find_feasible(problem: Problem) -> tuple[Array | None, float, bool]:
    """A decision with max g at most about 1e-6, if found; the best known bound on min max g; whether it is proven.

    Compiled Polyak steps x <- Pi_B(x - [g(x)]_+ s / ||s||^2) come first. They stop at the first feasible decision, which is
    enough for nearly every problem. Cutting planes follow, whose programs bound the minimum from below.
    """
    point, excess, first, size = (np.asarray(a) for a in _polyak(problem.constraints, problem.domain))
    # Constraints in small units get a small tolerance; large numbers get the rounding error of the numbers and the solver.
    rounding = max(1e-8, 32 * float(np.finfo(excess.dtype).eps)) * float(size)
    tolerance = TOLERANCE * min(1.0, max(0.0, float(first))) + rounding
    if float(excess) <= tolerance:
        return point, float(excess), False
    if not np.isfinite(excess):
        raise ValueError("constraints: got a value that is not finite inside the domain; expected finite numbers")
    return _cutting_planes(problem, point, tolerance, float(first))


@jax.jit
def _polyak(constraints: Constraints, domain: Domain) -> tuple[jax.Array, ...]:
    """The best decision found, its largest g, the largest g at the centre, and the largest |g_i| at the centre."""

    def worst(x: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        values, pull, _ = constraints.linearise(x, None)
        largest = jnp.max(values)
        active = (values == largest).astype(values.dtype)
        return largest, pull(active / jnp.sum(active)), jnp.max(jnp.abs(values))

    def step(
        carry: tuple[jax.Array, jax.Array, jax.Array, jax.Array],
    ) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
        i, x, best, lowest = carry
        value, slope, _ = worst(x)
        better = value < lowest
        length = jnp.sum(slope**2)
        move = jnp.maximum(value, 0) / jnp.where(length > 0, length, 1)
        following = domain.project(x - move * slope)
        return i + 1, following, jnp.where(better, x, best), jnp.where(better, value, lowest)

    x = jnp.asarray(domain.centre, default_float())
    first, _, size = worst(x)
    start = (jnp.asarray(0), x, x, first)
    _, _, best, lowest = jax.lax.while_loop(lambda carry: (carry[0] < POLYAK_STEPS) & (carry[3] > 0), step, start)
    return best, lowest, first, size


def _cutting_planes(problem: Problem, x: Array, tolerance: float, unit: float) -> tuple[Array | None, float, bool]:
    """Kelley's method for min max g. Values are divided by `unit`, so that the solver's tolerances fit every scale."""
    import cvxpy as cp

    y, level = cp.Variable(problem.domain.shape), cp.Variable()
    rows = problem.domain.to_cvxpy(y)
    lowest = -np.inf

    @jax.jit
    def linear(x: jax.Array) -> tuple[jax.Array, jax.Array]:
        values, pull, _ = problem.constraints.linearise(x, None)
        slopes = jax.vmap(pull)(jnp.eye(values.shape[0], dtype=values.dtype))
        return values, slopes.reshape(values.shape[0], -1)

    for _ in range(CUTS):
        values, slopes = (np.asarray(a, float) for a in linear(jnp.asarray(x)))
        if float(values.max()) <= tolerance:
            return x, float(values.max()), False
        offsets = values - slopes @ x.ravel()
        rows.append((slopes / unit) @ cp.vec(y, order="C") + offsets / unit <= level)
        plan = cp.Problem(cp.Minimize(level), rows)
        plan.solve(solver=cp.CLARABEL, canon_backend=backend(plan))
        if plan.status != cp.OPTIMAL or y.value is None:
            return None, lowest, False
        lowest, x = unit * float(level.value), np.asarray(y.value)
        if lowest > tolerance:
            return None, lowest, True
    return None, lowest, False
