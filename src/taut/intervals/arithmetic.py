"""Sums and products of enclosures.

u, v are operands, c marks values at the centre of the domain, and S_u are slopes of u: u = u_c +
<s, x - c> for some s in S_u. Intervals of products are computed from midpoints and half widths.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from ..engine import Array
from .enclosure import Enclosure, Space, Unknown

__all__ = [
    "Interval",
    "add",
    "at_centre",
    "dot",
    "interval",
    "lead",
    "made",
    "mul",
    "neg",
    "product",
    "total",
]

Interval = tuple[Array, Array]


def product(
    a: Interval, b: Interval, times: Callable[[Array, Array], Array] = np.multiply
) -> Interval:
    """The interval of a product that is linear in both factors."""
    (a_mid, a_half), (b_mid, b_half) = _halves(a), _halves(b)
    middle, half = times(a_mid, b_mid), np.zeros(())
    if a_half is not None:
        half = half + times(a_half, np.abs(b_mid))
    if b_half is not None:
        half = half + times(np.abs(a_mid), b_half)
    if a_half is not None and b_half is not None:
        half = half + times(a_half, b_half)
    if not np.all(np.isfinite(middle)) or not np.all(np.isfinite(half)):
        raise Unknown("values are not limited")
    return middle - half, middle + half


def _halves(a: Interval) -> tuple[Array, Array | None]:
    if a[0] is a[1] or np.array_equal(a[0], a[1]):
        return np.asarray(a[0], float), None
    return (a[0] + a[1]) / 2, (a[1] - a[0]) / 2


def interval(u: Enclosure) -> Interval:
    """The bounds over all decisions."""
    return u.low, u.high


def at_centre(u: Enclosure) -> Interval:
    """The bounds at the centre of the domain."""
    return u.centre_low, u.centre_high


def lead(slopes: Interval, ndim: int) -> Interval:
    """Slopes with as many axes behind the first as a result with `ndim` axes has."""
    missing = ndim - (slopes[0].ndim - 1)
    if missing <= 0:
        return slopes
    return tuple(part.reshape(len(part), *(1,) * missing, *part.shape[1:]) for part in slopes)  # type: ignore[return-value]


def made(
    space: Space, value: Interval, centre: Interval, slopes: Interval | None, *of: Enclosure
) -> Enclosure:
    """The enclosure of a result, which depends on the decision if an operand does; slopes that are
    not finite are left out."""
    if not any(one.moves for one in of):
        return Enclosure(*value, *centre)
    if (
        slopes is None
        or not space.has_room(np.shape(value[0]))
        or not all(np.all(np.isfinite(part)) for part in slopes)
    ):
        return Enclosure(*value, *centre, moves=True)
    shape = (space.size, *np.shape(value[0]))
    down, up = (np.broadcast_to(part, shape) for part in lead(slopes, len(shape) - 1))
    return Enclosure(*value, *centre, down, up, True)


# -- Sums and products
# --------------------------------------------------------------------------------------------------


def add(space: Space, u: Enclosure, v: Enclosure, **_: Any) -> Enclosure:
    """u + v."""
    value = u.low + v.low, u.high + v.high
    centre = u.centre_low + v.centre_low, u.centre_high + v.centre_high
    ndim, slopes = np.ndim(value[0]), None
    if not v.moves:
        slopes = u.slopes(space)
    elif not u.moves:
        slopes = v.slopes(space)
    else:
        first, second = u.slopes(space), v.slopes(space)
        if first is not None and second is not None:
            (a, b), (c, d) = lead(first, ndim), lead(second, ndim)
            slopes = a + c, b + d
    return made(space, value, centre, slopes, u, v)


def neg(space: Space, u: Enclosure, **_: Any) -> Enclosure:
    """-u."""
    up, down = (None if part is None else -part for part in (u.down, u.up))
    return Enclosure(-u.high, -u.low, -u.centre_high, -u.centre_low, down, up, u.moves)


def mul(space: Space, u: Enclosure, v: Enclosure, **_: Any) -> Enclosure:
    """u v, entry by entry."""
    return _bilinear(space, u, v, np.multiply, np.multiply, np.multiply)


def _bilinear(
    space: Space, u: Enclosure, v: Enclosure, times: Any, with_left: Any, with_right: Any
) -> Enclosure:
    """A product: u v - u_c v_c = u (v - v_c) + v_c (u - u_c), or with u and v exchanged.

    `with_left` multiplies slopes of u by values of v, and `with_right` values of u by slopes of v.
    """
    value, centre = (
        product(interval(u), interval(v), times),
        product(at_centre(u), at_centre(v), times),
    )
    ndim = np.ndim(value[0]) if times is np.multiply else 0
    of_u, of_v = u.slopes(space) if u.moves else None, v.slopes(space) if v.moves else None
    if (
        (u.moves and of_u is None)
        or (v.moves and of_v is None)
        or not space.has_room(np.shape(value[0]))
    ):
        return made(space, value, centre, None, u, v)

    def left(other: Interval) -> Interval:
        assert of_u is not None
        return product(lead(of_u, ndim), other, with_left)

    def right(other: Interval) -> Interval:
        assert of_v is not None
        return product(other, lead(of_v, ndim), with_right)

    if not v.moves:
        slopes = left(interval(v)) if u.moves else None
    elif not u.moves:
        slopes = right(interval(u))
    else:
        ways = [
            _plus(right(interval(u)), left(at_centre(v))),
            _plus(right(at_centre(u)), left(interval(v))),
        ]
        slopes = min(ways, key=lambda way: float(np.sum(way[1] - way[0])))
    result = made(space, value, centre, slopes, u, v)
    return result if times is np.multiply else space.improved(result)


def _plus(a: Interval, b: Interval) -> Interval:
    return a[0] + b[0], a[1] + b[1]


def dot(space: Space, u: Enclosure, v: Enclosure, *, dimension_numbers: Any, **_: Any) -> Enclosure:
    """A product of matrices, vectors or stacks of them."""
    (left, right), (left_batch, right_batch) = dimension_numbers
    letters = iter("abcdefghijklmnopqrstuvwxyABCDEFGHIJKLMNOPQRSTUVWXY")
    first = [next(letters) for _ in u.shape]
    second = [""] * len(v.shape)
    for i, j in [*zip(left, right, strict=True), *zip(left_batch, right_batch, strict=True)]:
        second[j] = first[i]
    second = [letter or next(letters) for letter in second]
    out = [first[i] for i in left_batch]
    out += [first[i] for i in range(len(first)) if i not in (*left, *left_batch)]
    out += [second[j] for j in range(len(second)) if j not in (*right, *right_batch)]
    one, two, result = "".join(first), "".join(second), "".join(out)

    def product(formula: str) -> Callable[[Array, Array], Array]:
        return lambda a, b: np.asarray(np.einsum(formula, a, b, optimize=True))

    return _bilinear(
        space,
        u,
        v,
        product(f"{one},{two}->{result}"),
        product(f"Z{one},{two}->Z{result}"),
        product(f"{one},Z{two}->Z{result}"),
    )


def total(u: Enclosure, axes: tuple[int, ...], space: Space) -> Enclosure:
    """The sum of u along axes."""
    axes = tuple(int(axis) for axis in axes)
    behind = tuple(axis + 1 for axis in axes)
    value, centre = ((a.sum(axis=axes), b.sum(axis=axes)) for a, b in (interval(u), at_centre(u)))
    slopes = u.slopes(space) if u.moves else None
    if slopes is not None:
        slopes = slopes[0].sum(axis=behind), slopes[1].sum(axis=behind)
    result = made(space, value, centre, slopes, u)
    if u.root is not None and u.root.moves:
        result = replace(result, high=np.minimum(result.high, _sum_of_squares(u.root, axes, space)))
    return space.improved(result)


def _sum_of_squares(u: Enclosure, axes: tuple[int, ...], space: Space) -> Array:
    """An upper bound on |u|^2, along axes: |u| <= |u_c| + |S| R, where |S|^2 is at most the product
    of two sums of |S|."""
    if u.down is None or u.up is None:
        return np.full(np.delete(np.array(u.shape), list(axes)), np.inf)
    size = np.maximum(np.abs(u.down), np.abs(u.up))
    behind = tuple(axis + 1 for axis in axes)
    by_row = size.sum(axis=behind).max(axis=0)
    by_column = size.sum(axis=0).max(axis=axes)
    largest = np.maximum(np.abs(u.centre_low), np.abs(u.centre_high))
    return np.asarray(
        (np.sqrt((largest**2).sum(axis=axes)) + np.sqrt(by_row * by_column) * space.radius) ** 2
    )
