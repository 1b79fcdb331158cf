"""Constraints with their first and second derivatives, at many points u.

They are evaluated in NumPy while that is cheaper than to compile them (`taut.problem.jets`), else
in batches of one size.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ...engine import Array
from ...problem.constraints import Constraints
from ...problem.domains.support import in_batches
from ...problem.interpreter import evaluated
from ...problem.jets import Jets, constraint_jets
from .derivatives import decisions
from .scaling import Scaling

__all__ = ["block_worst", "count_values", "expansions", "values_and_slopes", "values_at"]


def count_values(constraints: Constraints, scaling: Scaling) -> int:
    """The number of constraints, which do not change."""
    jets = _jets(constraints, scaling, None)
    if jets is not None:
        return jets.shape[0]
    zero = jax.ShapeDtypeStruct(scaling.domain.shape, jnp.float64)
    return int(jax.eval_shape(lambda x: constraints.values(x, None), zero).shape[0])


def values_at(constraints: Constraints, scaling: Scaling, u: Array) -> Array:
    """Values of constraints that do not change, (point, constraint)."""
    jets = _jets(constraints, scaling, None)
    if jets is not None and jets.cheap(len(u), 1):
        return jets.values(decisions(scaling, u), constraints, None)[:, 0]
    parts = [_values(constraints, scaling, part) for part in in_batches(u)]
    return np.concatenate([np.asarray(part) for part in parts])[: len(u)]


def values_and_slopes(
    constraints: Constraints, scaling: Scaling, u: Array, z: Any
) -> tuple[Array, Array]:
    """Values (point, constraint) and gradients (point, constraint, entry) with the data `z` of one
    round, or None."""
    jets = _jets(constraints, scaling, z)
    if jets is not None and jets.cheap(len(u), 1, 1):
        values, slopes = jets.slopes(
            decisions(scaling, u), constraints, jax.tree.map(lambda a: a[None, None], z)
        )
        return values[:, 0], float(scaling.radius) * slopes[:, 0]
    both = _values_and_slopes(constraints, scaling, u, z)
    return np.asarray(both[0]), np.asarray(both[1])


def expansions(
    constraints: Constraints, scaling: Scaling, u: Array, which: Array, data: Any = None
) -> tuple[Array, Array, Array]:
    """Value, gradient and Hessian of one constraint per point: of `which[i]` at `u[i]`, with row i
    of the data."""
    jets = _jets(constraints, scaling, jax.tree.map(lambda a: a[0], data))
    if jets is not None and jets.cheap(len(u), 1, 2):
        own, radius = np.arange(len(u)), float(scaling.radius)
        rows = jax.tree.map(lambda a: a[:, None], data)
        value, slope, hessian = jets.products(decisions(scaling, u), constraints, rows)
        bent = radius**2 * hessian[:, own, 0, which].transpose(1, 0, 2)
        return (
            value[own, 0, which],
            radius * slope[own, 0, which],
            (bent + bent.transpose(0, 2, 1)) / 2,
        )
    parts = [
        _expansions(constraints, scaling, points, numbers, rows)
        for points, numbers, rows in zip(
            in_batches(u), in_batches(which), _data_batches(data, len(u)), strict=True
        )
    ]
    value, slope, hessian = (
        np.concatenate([np.asarray(a) for a in part])[: len(u)] for part in zip(*parts, strict=True)
    )
    return value, slope, hessian


def block_worst(
    constraints: Constraints, scaling: Scaling, u: Array, data: Any
) -> tuple[Array, Array]:
    """For each seed and constraint, the largest value over the block's rounds and where it is."""
    jets = _jets(constraints, scaling, jax.tree.map(lambda a: a[0, 0], data))
    if jets is not None and jets.cheap(len(u), jax.tree.leaves(data)[0].shape[1]):
        values = jets.values(decisions(scaling, u), constraints, data)
        return np.max(values, axis=1), np.argmax(values, axis=1)
    highest, when = _block_worst(constraints, scaling, u, data)
    return np.asarray(highest), np.asarray(when)


def _jets(constraints: Constraints, scaling: Scaling, z: Any) -> Jets | None:
    return constraint_jets(constraints, np.zeros(scaling.domain.shape), z)


def _data_batches(data: Any, count: int) -> list[Any]:
    leaves, tree = jax.tree.flatten(data)
    parts = [in_batches(leaf) for leaf in leaves]
    batches = len(in_batches(np.zeros(count)))
    return [jax.tree.unflatten(tree, [part[i] for part in parts]) for i in range(batches)]


@evaluated
def _values(constraints: Constraints, scaling: Scaling, u: Any) -> jax.Array:
    return jax.vmap(lambda one: constraints.values(scaling.decision(one), None))(u)


@evaluated
def _values_and_slopes(
    constraints: Constraints, scaling: Scaling, points: Any, z: Any
) -> tuple[jax.Array, jax.Array]:
    def values(u: jax.Array) -> jax.Array:
        return constraints.values(scaling.decision(u), z)

    forward = jax.eval_shape(values, points[0]).shape[0] > scaling.size
    return jax.vmap(values)(points), jax.vmap((jax.jacfwd if forward else jax.jacrev)(values))(
        points
    )


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


@evaluated
def _block_worst(
    constraints: Constraints, scaling: Scaling, u: Any, data: Any
) -> tuple[jax.Array, jax.Array]:
    def seed(at: jax.Array, z: Any) -> tuple[jax.Array, jax.Array]:
        values = jax.vmap(lambda one: constraints.values(scaling.decision(at), one))(z)
        return jnp.max(values, axis=0), jnp.argmax(values, axis=0)

    return jax.vmap(seed)(u, data)
