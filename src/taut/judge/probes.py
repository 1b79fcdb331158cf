"""Probes: values, slopes and first-order gaps of losses and constraints at many decisions and rounds, in one pass each.

Few decisions are probed, so small problems are evaluated in NumPy rather than compiled (`taut.problem.interpreter`).
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..engine import Array
from ..problem.constraints import Constraints, active_rows
from ..problem.domains import Domain
from ..problem.interpreter import evaluated, owned_by
from ..problem.problem import Problem
from ..problem.programs import programs_of
from ..problem.rounds import FullInformation

__all__ = ["entry", "largest_values", "losses_at", "probe", "values_at", "walk_back"]


def probe(problem: Problem, points: Array, partner: Array, data: Any) -> dict[str, Array]:
    """Values, slopes and first-order gaps at (round, point), all in one pass."""
    with owned_by(programs_of(problem)):
        found = _probed(problem.loss, problem.constraints, problem.domain, points, partner, data)
    return {name: np.asarray(value) for name, value in found.items()}


def largest_values(problem: Problem, points: Array) -> Array:
    """The largest constraint value at each point, of constraints that do not change."""
    with owned_by(programs_of(problem)):
        return np.asarray(_largest_values(problem.constraints, np.asarray(points)))


def values_at(problem: Problem, constraints: Constraints, points: Array) -> Array:
    """All values of constraints that do not change, (point, constraint)."""
    with owned_by(programs_of(problem)):
        return np.asarray(_values_at(constraints, np.asarray(points)), float)


def losses_at(problem: Problem, points: Array, data: Any) -> Array:
    """The loss of one round at each point: the i-th point with the i-th row of the data."""
    with owned_by(programs_of(problem)):
        return np.asarray(_losses_at(problem.loss, points, data), float)


def walk_back(problem: Problem, points: Array) -> tuple[Array, Array, Array]:
    """Whether each walk from far outside to g <= 0 ends outside the domain, whether it ends feasible, and where."""
    with owned_by(programs_of(problem)):
        outside, feasible, ends = _walked_back(problem.constraints, problem.domain, points)
    return np.asarray(outside), np.asarray(feasible), np.asarray(ends)


def entry(values: jax.Array, i: jax.Array) -> jax.Array:
    """values[i] for a traced `i`, in operations that NumPy has."""
    return jnp.sum(jnp.where(jnp.arange(values.shape[0]) == i, values, 0))


@evaluated(static_argnames=("loss_function",))
def _losses_at(loss_function: Any, points: Any, data: Any) -> jax.Array:
    return jax.vmap(lambda x, z: jnp.asarray(loss_function(x, z), x.dtype))(points, data)


@evaluated
def _values_at(constraints: Constraints, points: Any) -> jax.Array:
    return jax.vmap(lambda x: constraints.values(x, None))(points)


@evaluated
def _largest_values(constraints: Constraints, points: Any) -> jax.Array:
    return jax.vmap(lambda x: jnp.max(constraints.values(x, None)))(points)


@evaluated(static_argnames=("loss_function",))
def _probed(
    loss_function: Any, constraints: Constraints, domain: Domain, points: Any, partner: Any, data: Any
) -> dict[str, jax.Array]:
    def at(x: jax.Array, y: jax.Array, z: Any) -> dict[str, jax.Array]:
        round = FullInformation(loss_function, constraints, domain, z)
        here, there = round.constraints(x), round.constraints(y)
        loss, slope = round.loss(x), round.gradient(x)
        step = y - x
        eye = jnp.eye(here.values.shape[0], dtype=x.dtype)
        rows = jax.vmap(lambda w: here.pullback(w).ravel())(eye)
        other = jax.vmap(lambda w: there.pullback(w).ravel())(eye)
        length = jnp.sqrt(jnp.sum(step**2))
        # f(y) - f(x) - <f'(x), y - x>: never negative for a convex function.
        loss_gap = round.loss(y) - loss - jnp.vdot(slope, step)
        excess_gap = there.values - here.values - here.pushforward(step)
        worst = jnp.argmin(excess_gap)
        slopes, far = jnp.sqrt(jnp.sum(rows**2, axis=1)), jnp.sqrt(jnp.sum(x**2)) + jnp.sqrt(jnp.sum(y**2))
        steep = jnp.sqrt(jnp.sum(slope**2))
        return {
            "loss": loss,
            "loss_slope": steep,
            "loss_gap": loss_gap,
            "loss_scale": jnp.abs(loss) + jnp.abs(round.loss(y)) + jnp.abs(jnp.vdot(slope, step)) + steep * far,
            "excess": here.values,
            "excess_slope": jnp.max(slopes),
            "excess_reach": jnp.max(jnp.abs(here.values)),
            "excess_gap": entry(excess_gap, worst),
            "excess_scale": entry(
                jnp.abs(here.values) + jnp.abs(there.values) + jnp.abs(here.pushforward(step)) + slopes * far, worst
            ),
            "excess_bend": jnp.max(jnp.sqrt(jnp.sum((rows - other) ** 2, axis=1))),
            "length": length,
        }

    sweep = jax.vmap(jax.vmap(at, in_axes=(0, 0, None)), in_axes=(None, None, 0))
    return sweep(points, partner, data)


@evaluated
def _walked_back(constraints: Constraints, domain: Domain, points: Any) -> tuple[jax.Array, jax.Array, jax.Array]:
    centre = domain.centre
    far = 3 * jnp.asarray(domain.radius, points.dtype)

    def walk(x: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        ray = x - centre
        length = jnp.sqrt(jnp.sum(ray**2))
        start = centre + ray * far / jnp.where(length > 0, length, 1)

        def step(_: int, y: jax.Array) -> jax.Array:
            values, pull, _push = constraints.linearise(y, None)
            largest = jnp.max(values)
            slope = pull(active_rows(values, largest))
            size = jnp.sum(slope**2)
            # A little further than the tangent plane, to land inside.
            move = 1.001 * (jnp.maximum(largest, 0)) / jnp.where(size > 0, size, 1)
            return y - move * slope

        end = jax.lax.fori_loop(0, 200, step, start)
        return ~domain.contains(end, 1e-6), jnp.max(constraints.values(end, None)) <= 0, end

    return jax.vmap(walk)(points)
