"""Constraints with their first and second derivatives, at many points u, in batches of one size."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ...engine import Array
from ...problem.constraints import Constraints
from ...problem.domains.support import in_batches
from ...problem.interpreter import evaluated
from .scaling import Scaling

__all__ = ["expansions", "values_and_slopes", "values_at"]


def values_at(constraints: Constraints, scaling: Scaling, u: Array) -> Array:
    """Values of constraints that do not change, (point, constraint)."""
    parts = [_values(constraints, scaling, part) for part in in_batches(u)]
    return np.concatenate([np.asarray(part) for part in parts])[: len(u)]


def values_and_slopes(constraints: Constraints, scaling: Scaling, u: Array, z: Any) -> tuple[Array, Array]:
    """Values (point, constraint) and gradients (point, constraint, entry) with the data `z` of one round, or None."""
    values, slopes = _values_and_slopes(constraints, scaling, u, z)
    return np.asarray(values), np.asarray(slopes)


def expansions(
    constraints: Constraints, scaling: Scaling, u: Array, which: Array, data: Any = None
) -> tuple[Array, Array, Array]:
    """Value, gradient and Hessian of one constraint per point: of `which[i]` at `u[i]`, with row i of the data."""
    parts = [
        _expansions(constraints, scaling, points, numbers, rows)
        for points, numbers, rows in zip(in_batches(u), in_batches(which), _data_batches(data, len(u)), strict=True)
    ]
    value, slope, hessian = (
        np.concatenate([np.asarray(a) for a in part])[: len(u)] for part in zip(*parts, strict=True)
    )
    return value, slope, hessian


def _data_batches(data: Any, count: int) -> list[Any]:
    leaves, tree = jax.tree.flatten(data)
    parts = [in_batches(leaf) for leaf in leaves]
    batches = len(in_batches(np.zeros(count)))
    return [jax.tree.unflatten(tree, [part[i] for part in parts]) for i in range(batches)]


@evaluated
def _values(constraints: Constraints, scaling: Scaling, u: Any) -> jax.Array:
    return jax.vmap(lambda one: constraints.values(scaling.decision(one), None))(u)


@evaluated
def _values_and_slopes(constraints: Constraints, scaling: Scaling, points: Any, z: Any) -> tuple[jax.Array, jax.Array]:
    def values(u: jax.Array) -> jax.Array:
        return constraints.values(scaling.decision(u), z)

    forward = jax.eval_shape(values, points[0]).shape[0] > scaling.size
    return jax.vmap(values)(points), jax.vmap((jax.jacfwd if forward else jax.jacrev)(values))(points)


@evaluated
def _expansions(
    constraints: Constraints, scaling: Scaling, u: Any, which: Any, z: Any
) -> tuple[jax.Array, jax.Array, jax.Array]:
    def one(at: jax.Array, i: jax.Array, data: Any) -> tuple[jax.Array, jax.Array, jax.Array]:
        def value(v: jax.Array) -> jax.Array:
            values = constraints.values(scaling.decision(v), data)
            return jnp.sum(jnp.where(jnp.arange(values.shape[0]) == i, values, 0))

        slope, product = jax.linearize(jax.grad(value), at)
        hessian = jax.vmap(product)(jnp.eye(at.size))
        return value(at), slope, (hessian + hessian.T) / 2

    return jax.vmap(one, (0, 0, None if z is None else 0))(u, which, z)
