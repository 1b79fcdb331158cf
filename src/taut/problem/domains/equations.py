"""Projections on {x : rows @ x = values, low <= x <= high}, for flat points. `xp` is numpy or
jax.numpy."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

STEPS = 40
"""The largest number of steps of the interior-point method,"""
POLISH = 2
"""corrections of what rounding leaves of the equations."""
LEAST = 1e-12
"""The smallest pivot of a correction: equations without free entries are left alone."""


def onto_slice(row: Any, value: Any, low: Any, high: Any, x: Any, xp: Any) -> Any:
    """The projection on a box cut by one equation: clip(x - t * row) for the right t."""
    projected = xp.clip(x - _length(row, value, low, high, x, xp) * row, low, high)
    for _ in range(POLISH):  # far points lose digits in x - t * row
        projected = _corrected(row[None], xp.reshape(value, (1,)), low, high, projected, xp)
    return projected


def far_onto_slice(row: Any, value: Any, low: Any, high: Any, x: Any) -> Any:
    """The same in NumPy, for points so far away that x - t * row has no digits left.

    The projection of x - c * row is that of x. With the entry j that is filled in part when entries
    are filled up in the order of x / row, and c = x_j / row_j, entries that matter become small,
    and the others stay far beyond their bounds.
    """
    row, low, high, x = (np.asarray(array, float) for array in (row, low, high, x))
    free = row != 0
    size = 2.0 ** np.floor(np.log2(max(1.0, float(np.max(np.abs(x))))))
    places = x[free] / size / row[free]
    order = np.argsort(-places)
    amounts = (np.abs(row) * (high - low))[free][order]
    missing = value - np.sum(np.minimum(row * low, row * high))
    at = places[order[min(int(np.searchsorted(np.cumsum(amounts), missing)), len(order) - 1)]]
    reach = np.abs(low) + np.abs(high)
    most = 8 * np.max(reach) * np.max(np.abs(row[free])) / np.min(np.abs(row[free]))
    near = np.array(x)
    with np.errstate(over="ignore"):
        near[free] = np.clip(row[free] * (places - at) * size, -most, most)
    return onto_slice(row, value, low, high, near, np)


def _length(row: Any, value: Any, low: Any, high: Any, x: Any, xp: Any) -> Any:
    """The t for which <row, clip(x - t * row)> = value.

    The left side decreases in t and is linear between 2 n places at which an entry reaches a bound.
    The places are sorted, and the linear piece on which the value is attained gives t.
    """
    free = row != 0
    safe = xp.where(free, row, 1)
    ends = xp.where(free, (x - low) / safe, 0), xp.where(free, (x - high) / safe, 0)
    places = xp.concatenate([xp.minimum(*ends), xp.maximum(*ends)])
    weights = xp.concatenate([row * row, -row * row])
    order = xp.argsort(places)
    places, weights = places[order], xp.cumsum(weights[order])
    start = xp.sum(xp.maximum(row * low, row * high))  # the largest value, before the first place
    fallen = xp.concatenate(
        [xp.zeros(1, places.dtype), xp.cumsum(weights[:-1] * (places[1:] - places[:-1]))]
    )
    # The last place before which the value is still attained.
    k = xp.clip(xp.sum(start - fallen >= value) - 1, 0, len(places) - 1)
    steep = weights[k]
    t = places[k] + xp.where(
        steep > 0, (start - fallen[k] - value) / xp.where(steep > 0, steep, 1), 0
    )
    for _ in range(POLISH):
        inside = (x - t * row > low) & (x - t * row < high)
        steep = xp.sum(xp.where(inside, row * row, 0))
        missing = xp.sum(row * xp.clip(x - t * row, low, high)) - value
        t = t + xp.where(steep > 0, missing / xp.where(steep > 0, steep, 1), 0)
    return t


def _between(x: Any, low: Any, high: Any) -> Any:
    return (x > low) & (x < high)


def _corrected(
    rows: Any, values: Any, low: Any, high: Any, x: Any, xp: Any, inside: Any = None
) -> Any:
    """Remove the rest of the equations by the smallest change of the entries `inside`."""
    inside = _between(x, low, high) if inside is None else inside
    inside = xp.where(inside, 1.0, 0.0).astype(x.dtype)
    left = values - rows @ x
    matrix = (rows * inside[None]) @ rows.T
    if rows.shape[0] == 1:
        change = xp.where(matrix > 0, 1 / xp.where(matrix > 0, matrix, 1), 0) @ left
    else:
        change = _solver(matrix + LEAST * xp.eye(rows.shape[0], dtype=x.dtype), LEAST, xp)(left)
    moved = xp.clip(x + inside * (rows.T @ change), low, high)
    better = xp.max(xp.abs(values - rows @ moved)) < xp.max(xp.abs(left))
    return xp.where(better, moved, x)


def _solver(matrix: Any, least: Any, xp: Any) -> Any:
    """A function that solves systems with a positive definite matrix.

    In JAX the matrix is inverted by Gauss-Jordan elimination, and each solution is refined once.
    JAX's own factorisations call LAPACK; several of them inside a compiled loop have been seen to
    wait for one another without end, and each takes long to compile. Pivots are at least `least`.
    """
    if xp is np:
        return lambda right: np.linalg.solve(matrix, right)
    places = jnp.arange(matrix.shape[0])

    def eliminated(k: Any, done: Any) -> Any:
        here = places == k
        factor = 1 / jnp.maximum(done[k, k], least)
        row = jnp.where(here, factor, done[k] * factor)
        column = jnp.where(here, 0, done[:, k])
        rest = jnp.where(here[None], 0, done) - column[:, None] * row[None]
        return jnp.where(here[:, None], row[None], rest)

    inverse = jax.lax.fori_loop(0, matrix.shape[0], eliminated, matrix)

    def solved(right: Any) -> Any:
        solution = inverse @ right
        return solution + inverse @ (right - matrix @ solution)

    return solved


def onto_equations(rows: Any, values: Any, low: Any, high: Any, x: Any, xp: Any) -> Any:
    """The projection on a box cut by several equations with orthonormal rows, by an interior-point
    method.

    Mehrotra's predictor and corrector steps need about ten systems of as many equations as there
    are rows, however far away the point is. Entries whose bounds are equal stay there.
    """
    x = x - rows.T @ (rows @ x - values)  # the point of the subspace has the same projection
    width = xp.max(high - low)
    free = high > low
    # The weight of the distance: far points are scaled.
    weight = 1 / xp.maximum(1.0, xp.max(xp.abs(x - (low + high) / 2)) / width)
    count = 2 * xp.sum(free)
    unit = xp.eye(rows.shape[0], dtype=x.dtype)
    tiny = xp.finfo(x.dtype).eps

    def residuals(p: Any, t: Any, below: Any, above: Any) -> tuple[Any, Any, Any]:
        slope = xp.where(free, weight * (p - x) + t @ rows - below + above, 0)
        product = xp.sum(xp.where(free, (p - low) * below + (high - p) * above, 0)) / count
        return slope, rows @ p - values, product

    def step(state: Any) -> Any:
        p, t, below, above = state
        under, over = xp.where(free, p - low, 1), xp.where(free, high - p, 1)
        slope, left, product = residuals(p, t, below, above)
        inverse = xp.where(free, 1 / (weight + below / under + above / over), 0)
        matrix = (rows * inverse[None]) @ rows.T
        small = 8 * tiny * xp.max(xp.abs(matrix)) + xp.finfo(x.dtype).tiny
        solve = _solver(matrix + small * unit, small, xp)

        def moved(first: Any, second: Any) -> tuple[Any, Any, Any, Any]:
            force = first / under - second / over - slope
            turn = solve(rows @ (inverse * force) + left)
            p_step = inverse * (force - turn @ rows)
            return p_step, turn, (first - below * p_step) / under, (second + above * p_step) / over

        def length(change: Any) -> Any:
            pairs = ((under, change[0]), (over, -change[0]), (below, change[2]), (above, change[3]))
            ends = [xp.where(free & (d < 0), -q / xp.where(d < 0, d, -1), 1.0) for q, d in pairs]
            return xp.minimum(1.0, xp.min(xp.stack(ends)))

        aim = moved(-under * below, -over * above)
        far = length(aim)
        after = xp.where(free, (under + far * aim[0]) * (below + far * aim[2]), 0)
        after = after + xp.where(free, (over - far * aim[0]) * (above + far * aim[3]), 0)
        centred = (xp.sum(after) / count / product) ** 3 * product
        change = moved(
            centred - under * below - aim[0] * aim[2], centred - over * above + aim[0] * aim[3]
        )
        share = xp.minimum(1.0, 0.995 * length(change))
        after_step = tuple(entry + share * d for entry, d in zip(state, change, strict=True))
        good = xp.all(xp.isfinite(after_step[0])) & xp.all(xp.isfinite(after_step[1]))
        return tuple(xp.where(good, new, old) for new, old in zip(after_step, state, strict=True))

    def going(number: Any, state: Any) -> Any:
        slope, left, product = residuals(*state)
        size = xp.max(xp.abs(low)) + xp.max(xp.abs(high)) + width
        open_ = (xp.max(xp.abs(slope)) > 64 * tiny * size) | (product > 4 * tiny * width * width)
        return (number < STEPS) & (open_ | (xp.max(xp.abs(left)) > 16 * tiny * size))

    height = xp.full(x.shape, width, x.dtype)
    start = ((low + high) / 2, xp.zeros(rows.shape[0], x.dtype), height, height)
    if xp is np:
        state, number = start, 0
        while going(number, state):
            state, number = step(state), number + 1
    else:

        def body(carry: Any) -> Any:
            return carry[0] + 1, step(carry[1])

        first = (jnp.zeros((), jnp.int32), start)
        _, state = jax.lax.while_loop(lambda carry: going(*carry), body, first)
    return _settled(rows, values, low, high, x, state, xp)


def _settled(rows: Any, values: Any, low: Any, high: Any, x: Any, state: Any, xp: Any) -> Any:
    """The nearest of three points that satisfy the equations.

    These are the last step; the point whose entries are at the bounds that have the larger
    multiplier, the others as near to x as the equations allow (exact if these bounds are the active
    ones); and x itself, if it is in the domain.
    """
    p, _, below, above = state
    near, far = (p - low) < below, (high - p) < above
    active = xp.where(near, low, xp.where(far, high, x))
    room = (
        64
        * xp.finfo(x.dtype).eps
        * (1 + xp.max(xp.abs(values)) + xp.max(xp.abs(low)) + xp.max(xp.abs(high)))
    )

    def corrected(point: Any, inside: Any) -> Any:
        moved = xp.clip(_corrected(rows, values, low, high, point, xp, inside), low, high)
        return moved, _between(moved, low, high)

    def settled(point: Any, inside: Any) -> tuple[Any, Any]:
        """The point, corrected several times, and its squared distance, infinite if it misses an
        equation."""
        tried = point, inside
        if xp is np:
            for _ in range(1 + POLISH):
                tried = corrected(*tried)
        else:
            tried = jax.lax.fori_loop(0, 1 + POLISH, lambda _, carry: corrected(*carry), tried)
        short = xp.max(xp.abs(rows @ tried[0] - values)) <= room
        return tried[0], xp.where(short, xp.sum((tried[0] - x) ** 2), xp.inf)

    inner, outer = xp.clip(p, low, high), xp.clip(x, low, high)
    points = inner, active, outer
    inside = _between(inner, low, high), ~(near | far), _between(outer, low, high)
    if xp is np:
        projections, distances = zip(*map(settled, points, inside), strict=True)
    else:
        projections, distances = jax.vmap(settled)(jnp.stack(points), jnp.stack(inside))
    projections, distances = xp.stack(projections), xp.stack(distances)
    best = xp.argmin(distances)
    return xp.where(distances[best] < xp.inf, projections[best], inner)


def knapsack(row: Any, value: Any, low: Any, high: Any, directions: Any, xp: Any) -> Any:
    """Vertices of a box cut by one equation at which <direction, x> is smallest, (k, size).

    Entries are filled up from the cheaper bound in the order of price per unit of the equation.
    """
    row, low, high = row[None], low[None], high[None]
    sign = xp.where(row < 0, -1.0, 1.0)
    weight = xp.abs(row)
    bottom, top = xp.where(row < 0, -high, low), xp.where(row < 0, -low, high)
    price = directions * sign
    free = weight > 0
    ratio = xp.where(free, price / xp.where(free, weight, 1), xp.inf)
    order = xp.argsort(ratio, axis=1)
    capacity = xp.broadcast_to(weight * (top - bottom), directions.shape)
    ordered = xp.take_along_axis(capacity, order, axis=1)
    before = xp.cumsum(ordered, axis=1) - ordered
    filled = xp.clip(value - xp.sum(weight * bottom) - before, 0, ordered)
    back = xp.argsort(order, axis=1)
    amount = xp.take_along_axis(filled, back, axis=1) / xp.where(free, weight, 1)
    bound = xp.where(directions > 0, low, high)
    return xp.where(free, sign * xp.clip(bottom + amount, bottom, top), bound)
