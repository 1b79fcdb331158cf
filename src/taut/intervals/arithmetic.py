"""Enclosures of sums, products, maxima and norms.

u and v are operands, and r marks values at a point of reference: u = u_r + <s, x - r>. Reductions
are over the last axis; `last` brings other axes there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial, reduce
from typing import Any

import numpy as np

from ..engine import Array
from . import pieces
from .enclosure import Enclosure, Interval, contracted, hull, result
from .pieces import Pieces

DECOMPOSED = {False: 10_000_000, True: 2_000_000_000}
"""Singular values are computed if entries times the shorter side of a matrix are at most this,
without and with gradients, which are worth more work."""

Slopes = Interval | None


def both(function: Callable[..., Interval], *of: Enclosure) -> tuple[Interval, Interval]:
    """A function of intervals: of values over all decisions, and at the centre."""
    value = function(*(u.value for u in of))
    return value, function(*(u.centre for u in of)) if any(u.moves for u in of) else value


def _affine(
    of: tuple[Enclosure, ...],
    function: Callable[..., Interval],
    slopes: Slopes,
    norm: Any,
    maxima: Pieces | None = None,
) -> Enclosure:
    """The result of an affine function of values."""
    if all(u.affine for u in of):
        corner = function(*(u.corner for u in of))
        return result(of, *both(function, *of), slopes, norm, corner, maxima)
    return result(of, *both(function, *(u.tight for u in of)), slopes, norm, None, maxima)


def _maxima(function: Callable[..., Pieces], *of: Enclosure) -> Pieces | None:
    """A function of the affine pieces of values, if they have some."""
    if not of[0].space.pieces or not any(u.moves for u in of):
        return None
    parts = [u.pieces for u in of]
    return None if None in parts else function(*parts)


def chained(*terms: tuple[Enclosure, Interval]) -> tuple[Slopes, Array]:
    """Slopes and their norms of a function of several values, from slopes in each of them."""
    slopes, steep = [], []
    for u, factor in terms:
        if u.moves:
            ahead = factor.map(lambda part: np.asarray(part)[..., None])
            slopes.append(None if u.slopes is None else ahead * u.slopes)
            steep.append(factor.size * u.steep)
    return _sum(slopes), sum(steep, np.zeros(()))


def _sum(slopes: Sequence[Slopes]) -> Slopes:
    limited = [slope for slope in slopes if slope is not None]
    return reduce(Interval.__add__, limited) if limited and len(limited) == len(slopes) else None


# -- Linear functions


def linear(
    u: Enclosure,
    function: Callable[[Array], Array],
    of_pieces: Callable[[Pieces], Pieces] | None = None,
) -> Enclosure:
    """A sum with weights that are not negative, or a change of places: a function of arrays whose
    first axes are those of u. `of_pieces` is the same for maxima; sums in general have none."""

    def image(a: Interval) -> Interval:
        return a.map(function)

    slopes = None if u.slopes is None else image(u.slopes)
    norm = function(u.steep) if u.moves else math.inf
    maxima = _maxima(of_pieces or (lambda own: own.summed(function)), u)
    return _affine((u,), image, slopes, norm, maxima)


def moved(u: Enclosure, function: Callable[[Array], Array]) -> Enclosure:
    """The entries at other places: a function of arrays whose first axes are those of u."""
    squares = None if u.squares is None else moved(u.squares, function)
    return replace(linear(u, function, lambda own: own.moved(function)), squares=squares)


def taken(u: Enclosure, places: Array) -> Enclosure:
    """The entries at these places, in row order; -1 stands for 0."""
    ndim, empty = len(u.shape), places < 0

    def take(part: Array) -> Array:
        rows = part.reshape(-1, *part.shape[ndim:])
        if not np.any(empty):
            return rows[places]
        out = np.zeros((*places.shape, *rows.shape[1:]), part.dtype)
        out[~empty] = rows[places[~empty]]
        return out

    return moved(u if u.space.has_room(places.shape) else replace(u, slopes=None), take)


def broadcast(u: Enclosure, shape: tuple[int, ...]) -> Enclosure:
    """The entries in a larger shape; a single entry of any rank fits everywhere."""
    if u.shape == shape:
        return u
    size = math.prod(u.shape)
    return taken(u, np.broadcast_to(np.arange(size).reshape(u.shape if size != 1 else ()), shape))


def joined(parts: Sequence[Enclosure]) -> Enclosure:
    """All entries of several values, one after another."""
    if len(parts) == 1:
        return parts[0]
    flat = [taken(u, np.arange(math.prod(u.shape))) for u in parts]

    def join(*ends: Interval) -> Interval:
        low = np.concatenate([end.low for end in ends])
        known = all(end.known for end in ends)
        return Interval(low, low if known else np.concatenate([end.high for end in ends]))

    gradients = [u.gradient for u in flat if u.gradient is not None]
    slopes = join(*gradients) if len(gradients) == len(flat) else None
    steep = np.concatenate([u.steep for u in flat])
    return _affine(tuple(flat), join, slopes, steep, _maxima(pieces.joined, *flat))


def stacked(*parts: Enclosure) -> Enclosure:
    """Several values along a new last axis."""
    shape = np.broadcast_shapes(*(u.shape for u in parts))
    order = np.arange(len(parts) * math.prod(shape)).reshape(len(parts), *shape)
    return taken(joined([broadcast(u, shape) for u in parts]), np.moveaxis(order, 0, -1))


def last(u: Enclosure, axes: Any) -> Enclosure:
    """These axes (all, if None) as one, behind the others."""
    count = len(u.shape)
    axes = range(count) if axes is None else axes if isinstance(axes, (tuple, list)) else (axes,)
    axes = sorted(int(axis) % count for axis in axes)
    others = [axis for axis in range(count) if axis not in axes]
    shape = [u.shape[axis] for axis in others] + [math.prod(u.shape[axis] for axis in axes)]

    def move(part: Array) -> Array:
        behind = range(count, part.ndim)
        return part.transpose((*others, *axes, *behind)).reshape((*shape, *part.shape[count:]))

    return moved(u, move)


def total(u: Enclosure) -> Enclosure:
    """The sum over the last axis."""
    axis = len(u.shape) - 1
    added = linear(u, lambda part: part.sum(axis=axis), Pieces.total)
    if u.squares is not None and u.moves:
        root = last(u.squares, (-2, -1))
        length = norm(root).sharp
        size = length.high * 2 if u.space.gradients else length.high + length.centre.high
        added = replace(
            added,
            value=added.value.within(length.value.map(np.square)),
            norm=np.fmin(added.norm, size * spectral(root)),
            squares=root,
        )
    return added if added.affine else added.sharp


def add(u: Enclosure, v: Enclosure) -> Enclosure:
    """u + v."""
    slopes = _sum([operand.slopes for operand in (u, v) if operand.moves])
    maxima = _maxima(Pieces.__add__, u, v)
    return _affine((u, v), Interval.__add__, slopes, u.steep + v.steep, maxima)


def neg(u: Enclosure) -> Enclosure:
    """-u."""
    slopes = None if u.slopes is None else -u.slopes
    return _affine((u,), Interval.__neg__, slopes, u.norm, _maxima(Pieces.__neg__, u))


# -- Products


def mul(u: Enclosure, v: Enclosure) -> Enclosure:
    """u v, entry by entry."""

    def ahead(a: Interval) -> Interval:
        return a.map(lambda part: np.asarray(part)[..., None])

    return _product(u, v, Interval.__mul__, lambda s, b: s * ahead(b), lambda a, s: ahead(a) * s)


def contract(u: Enclosure, v: Enclosure, formula: str) -> Enclosure:
    """`np.einsum(formula, u, v)`: products of matrices, vectors or stacks of them."""
    operands, out = formula.split("->")
    left, right = operands.split(",")
    product = _product(
        u,
        v,
        lambda a, b: contracted(a, b, formula),
        lambda s, b: contracted(s, b, f"{left}Z,{right}->{out}Z"),
        lambda a, s: contracted(a, s, f"{left},{right}Z->{out}Z"),
        (left, right, out),
    )
    return product if product.affine else product.sharp


def _product(
    u: Enclosure,
    v: Enclosure,
    times: Any,
    with_left: Any,
    with_right: Any,
    axes: tuple[str, str, str] = ("...", "...", "..."),
) -> Enclosure:
    """A product: u v - u_r v_r = u (v - v_r) + v_r (u - u_r), or with u and v exchanged.

    `with_left` multiplies slopes of u by values of v, and `with_right` values of u by slopes of v.
    `axes` are the letters of u, v and the product, for `np.einsum`.
    """
    bilinear = u.moves and v.moves
    if bilinear:
        u, v = u.tight, v.tight
    ways = [(u.value, v.reference)]
    if bilinear and not u.space.gradients:
        ways.append((u.reference, v.value))
    options = []
    if u.space.has_room(np.shape(times(u.value, v.value).low)):
        for a, b in ways:
            right = [with_right(a, v.slopes) if v.slopes is not None else None] if v.moves else []
            left = [with_left(u.slopes, b) if u.slopes is not None else None] if u.moves else []
            options.append(_sum([*left, *right]))
    slopes = min(
        (way for way in options if way is not None),
        key=lambda way: float(np.sum(way.high - way.low)),
        default=None,
    )
    steep = sum(
        times(Interval.of(left), Interval.of(right)).low
        for left, right in ((u.value.size, v.steep), (u.steep, v.reference.size))
    )
    if bilinear:
        return result((u, v), *both(times, u, v), slopes, steep)
    maxima, (of_u, of_v, out) = None, axes
    if u.maxima is not None:
        maxima = u.maxima.times(v.low, of_u, of_v, out)
    elif v.maxima is not None:
        maxima = v.maxima.times(u.low, of_v, of_u, out)
    return _affine((u, v), times, slopes, steep, maxima)


# -- Maxima and selections


def largest(u: Enclosure) -> Enclosure:
    """The largest entry of the last axis.

    max u - max u_r lies between the least and the largest u_i - u_ri of all entries i that can be
    largest.
    """

    u = u.tight

    def top(a: Interval) -> Interval:
        return a.map(lambda part: np.max(part.astype(float), axis=-1, initial=-np.inf))

    least = np.max(u.low, axis=-1, keepdims=True, initial=-np.inf)
    able = u.high >= least
    if not u.space.gradients and u.shape[-1]:
        # An entry that is never above another one does not count. Its gradient may: where both are
        # equal, JAX takes the mean of their gradients.
        first = np.arange(u.shape[-1]) == np.argmax(u.low, axis=-1)[..., None]
        able = (u.high > least) | first
    slopes = u.gradient
    if slopes is not None:
        slopes = Interval(
            np.min(slopes.low, axis=-2, initial=np.inf, where=able[..., None]),
            np.max(slopes.high, axis=-2, initial=-np.inf, where=able[..., None]),
        )
    steep = np.max(u.steep, axis=-1, initial=0, where=able)
    return result((u,), *both(top, u), slopes, steep, maxima=_maxima(Pieces.largest, u))


def smallest(u: Enclosure) -> Enclosure:
    """The smallest entry of the last axis."""
    return neg(largest(neg(u)))


def running_largest(u: Enclosure, axis: int, reverse: bool = False) -> Enclosure:
    """The largest entry so far along an axis, or from the end.

    It has no affine pieces: JAX's derivative at ties is the mean of several, which learners see.
    """
    places = np.moveaxis(np.arange(math.prod(u.shape)).reshape(u.shape), axis, -1)
    count = np.arange(places.shape[-1])
    # Entries that come later are replaced by the entry itself.
    so_far = (np.maximum if reverse else np.minimum)(count[:, None], count)
    order = np.moveaxis(np.arange(places.size).reshape(places.shape), -1, axis)
    return replace(taken(largest(taken(u, places[..., so_far])), order), maxima=None)


def maximum(*parts: Enclosure) -> Enclosure:
    """The largest of several values, entry by entry."""
    if not parts[0].space.pieces:
        return largest(stacked(*parts))
    # Stacking would give all parts as many pieces as the one with the most has.
    top = largest(stacked(*(replace(u, maxima=None) for u in parts)))
    return replace(top, maxima=_maxima(pieces.larger, *parts))


def minimum(*parts: Enclosure) -> Enclosure:
    """The smallest of several values, entry by entry."""
    return neg(maximum(*map(neg, parts)))


def select(which: Enclosure, no: Enclosure, yes: Enclosure) -> Enclosure:
    """`yes` where `which` is true and `no` elsewhere.

    Where it is not certain, both are possible; a jump between them that depends on the decision has
    no slope.
    """

    def chosen(sure: Interval, a: Interval, b: Interval) -> Interval:
        if sure.known and a.known and b.known:
            return Interval.of(np.where(sure.low, b.low, a.low))
        either = hull(a, b)
        return Interval(
            np.where(sure.low, b.low, np.where(sure.high, either.low, a.low)),
            np.where(sure.low, b.high, np.where(sure.high, either.high, a.high)),
        )

    value, centre = both(chosen, which, no, yes)
    slopes, steep = None, np.asarray(np.inf)
    if not which.moves or bool(np.all(which.low == which.high)):
        steep = chosen(which.value, Interval.of(no.steep), Interval.of(yes.steep)).high
        if no.gradient is not None and yes.gradient is not None:
            ahead = which.value.map(lambda part: part[..., None])
            slopes = chosen(ahead, no.gradient, yes.gradient)
    maxima = None
    if which.known:
        maxima = _maxima(partial(pieces.chosen, which.low), no, yes)
    return result((which, no, yes), value, centre, slopes, steep, maxima=maxima)


# -- Norms and other functions of all entries of the last axis


def spectral(u: Enclosure) -> Array:
    """A bound on |u(x) - u(r)| / |x - r| with the Euclidean norm over the last axis of u."""
    bound = np.linalg.norm(u.steep, axis=-1)
    if u.slopes is None:
        return bound
    size = u.slopes.size
    by_row, by_column = (size.sum(axis).max(axis=-1, initial=0) for axis in (-1, -2))
    bound = np.fmin(bound, np.sqrt(by_row * by_column))
    bound = np.fmin(bound, np.linalg.norm(size, axis=(-2, -1)))
    if 0 < size.size * min(size.shape[-2:]) <= DECOMPOSED[u.space.gradients]:
        middle, room = (u.slopes.low + u.slopes.high) / 2, (u.slopes.high - u.slopes.low) / 2
        both = _largest_singular(middle) + (0.0 if u.slopes.known else _largest_singular(room))
        bound = np.fmin(bound, both)
    return np.asarray(bound)


def _largest_singular(matrix: Array) -> Array:
    """The largest singular value of each matrix of a stack."""
    rows, columns = matrix.shape[-2:]
    other = matrix.swapaxes(-1, -2)
    gram = matrix @ other if rows <= columns else other @ matrix
    return np.sqrt(np.maximum(np.linalg.eigvalsh(gram)[..., -1], 0))


def reduced(
    value: Interval, centre: Interval, norm: Array | float, *terms: tuple[Enclosure, Interval]
) -> Enclosure:
    """A function of all entries of the last axis of several values, with bounds on its slopes in
    each entry."""
    slopes = [chained(term)[0] for term in terms if term[0].moves]
    added = [slope and slope.map(lambda part: part.sum(axis=-2)) for slope in slopes]
    return result(tuple(u for u, _ in terms), value, centre, _sum(added), norm)


def norm(u: Enclosure, p: float = 2.0) -> Enclosure:
    """The norm of order p, which is at least 1, over the last axis."""

    u = u.tight

    def length(a: Interval) -> Interval:
        sizes = Interval.of(np.abs(a.low)) if a.known else Interval(a.least_size, a.size)
        return sizes.map(lambda part: np.linalg.norm(part, p, axis=-1))

    # The gradient in u has the signs of u, and 1 as its norm of the dual order.
    slope = Interval(np.where(u.low > 0, 0.0, -1.0), np.where(u.high < 0, 0.0, 1.0))
    dual = math.inf if p == 1 else p / (p - 1)
    reach = 1.0 if dual <= 2 else u.shape[-1] ** (0.5 - 1 / dual)
    return reduced(*both(length, u), reach * spectral(u), (u, slope))


def log_sum_exp(u: Enclosure) -> Enclosure:
    """log(sum(exp(u))) over the last axis; its slopes are weights that sum to 1."""
    u = u.tight
    low, high = u.low, u.high
    top = np.max(high, axis=-1, keepdims=True)
    small, large = np.exp(low - top), np.exp(high - top)
    least = small / (small + np.maximum(large.sum(axis=-1, keepdims=True) - large, 0))
    most = large / (large + np.maximum(small.sum(axis=-1, keepdims=True) - small, 0))
    weights = Interval(np.nan_to_num(least), np.nan_to_num(most, nan=1.0))

    def value(a: Interval) -> Interval:
        return a.map(lambda part: np.logaddexp.reduce(part, axis=-1))

    enclosure = reduced(*both(value, u), u.steep.max(axis=-1), (u, weights))
    if enclosure.slopes is None or u.slopes is None:
        return enclosure
    mixed = Interval(u.slopes.low.min(axis=-2), u.slopes.high.max(axis=-2))
    return replace(enclosure, slopes=enclosure.slopes.within(mixed))


def sorted_sum(u: Enclosure, weights: Interval) -> Enclosure:
    """The sum of products of the sorted entries of the last axis and weights, which ascend."""
    u = u.tight

    def value(a: Interval) -> Interval:
        ordered = a.map(lambda part: np.sort(part, axis=-1))
        return (ordered * weights).map(lambda part: part.sum(axis=-1))

    slope = Interval(weights.low[..., :1], weights.high[..., -1:])
    size = weights.size
    steep = np.sum(np.sort(size) * np.sort(u.steep, axis=-1), axis=-1)
    steep = np.fmin(steep, np.linalg.norm(size) * spectral(u))
    return reduced(*both(value, u), steep, (u, slope))
