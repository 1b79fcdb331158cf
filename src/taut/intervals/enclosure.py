"""Enclosures: proven bounds on a function of the decision, its slopes and its gradient's norm.

A slope of v between the decisions x and r is a vector s with v(x) = v(r) + <s, x - r>. The bounds
on slopes hold for all x and all points of reference r of a space. If r is the centre alone, they
bound values well: they keep what intervals forget, that entries of a decision are not all at their
limits at once. If r is any decision (`gradients=True`), they bound the gradient, because slopes
between nearby decisions tend to it. The arithmetic is the same. For an affine function slopes are
known numbers, and bounds are exact.

Data may be intervals as well; bounds then hold for all data in them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from typing import Any

import numpy as np

from ..engine import Array
from ..problem.domains import Ball, Box, Domain, L1Ball
from ..problem.domains.support import bounding_box, centre_of, exact_in_numpy, least_change
from .pieces import Pieces, Unknown

SPARE = 1e-13
PRODUCTS = 4_000_000
"""Products of two intervals are formed one by one if there are at most this many of them."""


@dataclass(frozen=True, eq=False)
class Interval:
    """All arrays between `low` and `high`. A known array has the same object at both ends."""

    low: Array
    high: Array

    @classmethod
    def of(cls, low: Array, high: Array | None = None) -> Interval:
        """The interval between two arrays, or a known array."""
        equal = high is None or low is high or np.array_equal(low, high, equal_nan=True)
        return cls(low, low if equal or high is None else high)

    @property
    def known(self) -> bool:
        """Whether the array is known."""
        return self.low is self.high

    @property
    def finite(self) -> bool:
        """Whether all ends are finite."""
        return bool(np.all(np.isfinite(self.low)) and np.all(np.isfinite(self.high)))

    @property
    def size(self) -> Array:
        """The largest absolute values."""
        return np.maximum(np.abs(self.low), np.abs(self.high))

    @property
    def least_size(self) -> Array:
        """The smallest absolute values."""
        return np.maximum(np.maximum(self.low, -self.high), 0)

    def map(self, function: Callable[[Array], Array]) -> Interval:
        """The image under a function that increases in every entry."""
        low = function(self.low)
        return Interval(low, low if self.known else function(self.high))

    def within(self, other: Interval) -> Interval:
        """The numbers that are in both intervals. The other one is widened by rounding, so that an
        exact end stays as it is."""
        room = SPARE * other.size
        low, high = np.fmax(self.low, other.low - room), np.fmin(self.high, other.high + room)
        return Interval(np.minimum(low, high), np.maximum(low, high))

    def __add__(self, other: Interval) -> Interval:
        if self.known and other.known:
            return Interval.of(self.low + other.low)
        return Interval(self.low + other.low, self.high + other.high)

    def __neg__(self) -> Interval:
        return Interval.of(-self.low) if self.known else Interval(-self.high, -self.low)

    def __mul__(self, other: Interval) -> Interval:
        if self.known and other.known:
            return Interval.of(self.low * other.low)
        ends = [a * b for a in _ends(self) for b in _ends(other)]
        return Interval(reduce(np.minimum, ends), reduce(np.maximum, ends))


def _ends(interval: Interval) -> tuple[Array, ...]:
    return (interval.low,) if interval.known else (interval.low, interval.high)


def hull(a: Interval, b: Interval) -> Interval:
    """The smallest interval around two."""
    return Interval(np.minimum(a.low, b.low), np.maximum(a.high, b.high))


def contracted(a: Interval, b: Interval, formula: str) -> Interval:
    """Bounds on `np.einsum(formula, x, y)` for all x and y in two intervals."""

    def times(x: Array, y: Array, subscripts: str = formula) -> Array:
        return np.asarray(np.einsum(subscripts, x, y, optimize=True))

    if a.known and b.known:
        return Interval.of(times(a.low, b.low))
    if a.known:
        plus, minus = np.maximum(a.low, 0), np.minimum(a.low, 0)
        return Interval(
            times(plus, b.low) + times(minus, b.high), times(plus, b.high) + times(minus, b.low)
        )
    operands, result = formula.split("->")
    left, right = operands.split(",")
    if b.known:
        return contracted(b, a, f"{right},{left}->{result}")
    summed = "".join(letter for letter in left if letter not in result)
    lengths = dict(zip(left + right, a.low.shape + b.low.shape, strict=True))
    if np.prod([float(length) for length in lengths.values()]) <= PRODUCTS:
        pairs = f"{operands}->{result}{summed}"
        ends = [times(x, y, pairs) for x in _ends(a) for y in _ends(b)]
        axes = tuple(range(len(result), len(result) + len(summed)))
        return Interval(reduce(np.minimum, ends).sum(axes), reduce(np.maximum, ends).sum(axes))
    (middle, half), (other, spare) = (((i.low + i.high) / 2, (i.high - i.low) / 2) for i in (a, b))
    centre = times(middle, other)
    reach = times(np.abs(middle), spare) + times(half, np.abs(other) + spare)
    return Interval(centre - reach, centre + reach)


ROUNDING = 1e-11
"""Bounds are widened by this share of the largest number of which they are made."""
ROOM = 4_000_000
"""Values with more slopes than this get none, only an interval."""


class Space:
    """The decisions over which functions are enclosed: all in a box and, if given, in a domain.

    Arguments:
        low: the lower edges of the box, flat.
        high: the upper edges.
        domain: decisions outside it need not be considered.
        gradients: whether slopes are between any two decisions, so that they bound the gradient,
            and not only between the centre and any decision.
        pieces: whether values have affine pieces.
    """

    def __init__(
        self,
        low: Array,
        high: Array,
        domain: Domain | None = None,
        *,
        gradients: bool = False,
        pieces: bool = False,
    ) -> None:
        self.low, self.high, self.gradients, self.pieces = low, high, gradients, pieces
        self.size, self.shape = low.size, domain.shape if domain is not None else low.shape
        self.domain = None if type(domain) is Box else domain
        self.centre, self.diameter = (low + high) / 2, float(np.linalg.norm(high - low))
        offset, radius = 0.0, math.inf
        if self.domain is not None:
            middle = centre_of(self.domain).astype(float).ravel()
            self.centre = np.clip(middle, low, high)
            self.diameter = min(self.diameter, float(self.domain.diameter))
            offset, radius = float(np.linalg.norm(self.centre - middle)), self.domain.radius
        self.inside = offset == 0
        """Whether the centre is one of the decisions, as far as is known."""
        self.half = np.maximum(high - self.centre, self.centre - low)
        self.radius = min(float(np.linalg.norm(self.half)), offset + float(radius))
        self.exact = self.domain is not None and exact_in_numpy(self.domain)
        self.largest = 0.0
        """The largest number that occurred so far, on which rounding depends."""

    @classmethod
    def of(cls, domain: Domain, *, gradients: bool = False, pieces: bool = False) -> Space:
        """All decisions of a domain."""
        size = math.prod(domain.shape)
        if type(domain) is Box:
            edges = (np.asarray(edge, float).ravel() for edge in (domain.lower, domain.upper))
            low, high = (np.broadcast_to(edge, size) for edge in edges)
        elif exact_in_numpy(domain) and (size**2 <= ROOM or domain._edges() is not None):
            low, high = bounding_box(domain)
        else:
            centre, radius = centre_of(domain).astype(float).ravel(), float(domain.radius)
            low, high = centre - radius, centre + radius
        return cls(low, high, domain, gradients=gradients, pieces=pieces)

    def has_room(self, shape: tuple[int, ...]) -> bool:
        """Whether slopes of a value of this shape are few enough to be computed."""
        return self.size * math.prod(shape) <= ROOM

    def decision(self, places: Array | None = None) -> Enclosure:
        """The decision, or its entries at these places, in row order."""
        if places is None:
            places = np.arange(self.size).reshape(self.shape)
        value = Interval(self.low[places], self.high[places])
        corner = Interval.of(value.low) if self.exact else None
        slopes = None
        if self.has_room(places.shape):
            # In this memory order the inner loops are over values, which are more than entries.
            units = np.equal.outer(np.arange(self.size), places).astype(float)
            slopes = Interval.of(np.moveaxis(units, 0, -1))
        centre = Interval.of(self.centre[places])
        noise = ROUNDING * float(np.max(value.size, initial=0))
        maxima = None
        if self.pieces:
            maxima = Pieces(np.eye(self.size, self.size + 1)[places][..., None, :], 0)
        return Enclosure(self, value, centre, corner, slopes, 1.0, True, noise=noise, maxima=maxima)

    def note(self, value: Interval) -> None:
        """Remember the largest number of an interval."""
        for edge in (value.low, value.high) if value.low.dtype.kind == "f" else ():
            size = np.max(np.abs(edge), initial=0, where=np.isfinite(edge))
            self.largest = max(self.largest, float(size))

    def support(self, directions: Array) -> Array:
        """The largest <direction, x - c> of any decision x, or an upper bound, for each row."""
        plus, minus = np.maximum(directions, 0), np.minimum(directions, 0)
        bound = plus @ (self.high - self.centre) + minus @ (self.low - self.centre)
        return np.minimum(bound, self._beyond(directions))

    def _beyond(self, directions: Array) -> Array:
        """The same over the domain, without regard to the box."""
        if self.domain is None or not self.exact:
            return np.linalg.norm(directions, axis=1) * self.radius
        return -least_change(
            self.domain, -directions, np.broadcast_to(self.centre, directions.shape)
        )

    def reach(self, slopes: Interval) -> Array:
        """An upper bound on <s, x - c> for all decisions x and all slopes s, (k, size) -> (k,)."""
        if slopes.known:
            return self.support(slopes.low)
        middle, spread = (slopes.low + slopes.high) / 2, (slopes.high - slopes.low) / 2
        away, by_size = self._sway(spread), self._sway(slopes.size)
        return np.minimum(self.support(middle) + away, by_size)

    def _sway(self, sizes: Array) -> Array:
        """An upper bound on <|x - c|, size>."""
        bound = np.minimum(np.linalg.norm(sizes, axis=1) * self.radius, sizes @ self.half)
        if self.inside and type(self.domain) in (Ball, L1Ball):
            # Changing signs of entries of x - c leads to another decision.
            bound = np.minimum(bound, self._beyond(sizes))
        return bound


@dataclass(frozen=True, eq=False)
class Enclosure:
    """Bounds on an array that is a function of the decision and of data."""

    space: Space
    value: Interval
    """Bounds over all decisions."""
    centre: Interval
    """Bounds at the centre."""
    corner: Interval | None = None
    """Bounds at the lower corner of the box; None if the function is not affine, or if they would
    not be used, because linear functions over the domain have no exact bounds."""
    slopes: Interval | None = None
    """Bounds on slopes, (*shape, entry of the decision); None if there are none."""
    norm: Array | float = math.inf
    """A bound on |v(x) - v(r)| / |x - r|, if one better than that of `slopes` is known."""
    moves: bool = False
    """Whether the value depends on the decision."""
    squares: Enclosure | None = None
    """A value whose sum of squares over the last axis this is."""
    noise: float | None = None
    """How far rounding can have moved an end of the interval; None if it is known of the largest
    number of all only."""
    maxima: Pieces | None = None
    """The affine functions of which a value that depends on the decision is made, if it is."""

    @classmethod
    def fixed(cls, space: Space, low: Any, high: Any = None) -> Enclosure:
        """A value that does not depend on the decision: a known array, or one between two."""
        value = Interval.of(_double(low), None if high is None else _double(high))
        if not value.known and value.low.dtype.kind in "iu":
            value = value.map(lambda part: part.astype(float))
        return cls(space, value, value, value, noise=0.0)

    @property
    def low(self) -> Array:
        """Lower bounds over all decisions."""
        return self.value.low

    @property
    def high(self) -> Array:
        """Upper bounds over all decisions."""
        return self.value.high

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the value."""
        return tuple(np.shape(self.value.low))

    @property
    def known(self) -> bool:
        """Whether the value is a known array."""
        return not self.moves and self.value.known

    @property
    def pieces(self) -> Pieces | None:
        """The affine pieces of a value that is made of them, or known; None if there are none."""
        return Pieces.of_numbers(self.low, self.space.size) if self.known else self.maxima

    @property
    def reference(self) -> Interval:
        """Bounds at the points of reference of slopes."""
        return self.value if self.space.gradients else self.centre

    @property
    def affine(self) -> bool:
        """Whether slopes hold between any two points, decisions or not, as far as is known."""
        return self.corner is not None

    @cached_property
    def gradient(self) -> Interval | None:
        """The slopes, which are 0 if the value does not depend on the decision."""
        if self.moves or not self.space.has_room(self.shape):
            return self.slopes
        return Interval.of(np.broadcast_to(0.0, (*self.shape, self.space.size)))

    @cached_property
    def steep(self) -> Array:
        """Bounds on |v(x) - v(r)| / |x - r|: on the norm of the gradient, if slopes bound it."""
        if not self.moves:
            return np.zeros(self.shape)
        norm = np.broadcast_to(self.norm, self.shape)
        if self.slopes is None or not self.space.gradients:
            return norm
        return np.fmin(norm, np.sqrt(np.sum(self.slopes.size**2, axis=-1)))

    @property
    def tight(self) -> Enclosure:
        """The sharp enclosure of an affine value, for operations that are not affine."""
        return self.sharp if self.affine else self

    @cached_property
    def sharp(self) -> Enclosure:
        """The enclosure with an interval that makes use of slopes."""
        space, value = self.space, self.value
        if not self.moves:
            return self
        norm = np.broadcast_to(self.norm, self.shape) * space.radius
        valid = space.inside or self.affine or not space.gradients
        if valid:
            value = value.within(Interval(self.centre.low - norm, self.centre.high + norm))
        if self.slopes is None:
            return replace(self, value=value)
        rows = self.slopes.map(lambda part: part.reshape(-1, space.size))
        if valid:
            up, down = (space.reach(part).reshape(self.shape) for part in (rows, -rows))
            value = value.within(Interval(self.centre.low - down, self.centre.high + up))
        if self.corner is not None and space.domain is not None and not rows.known:
            # No entry of x - corner is below 0, so that the least slopes count, or the largest.
            corner = np.broadcast_to(space.low, rows.low.shape)
            down = least_change(space.domain, rows.low, corner).reshape(self.shape)
            up = -least_change(space.domain, -rows.high, corner).reshape(self.shape)
            value = value.within(Interval(self.corner.low + down, self.corner.high + up))
        return replace(self, value=value)


def result(
    of: tuple[Enclosure, ...],
    value: Interval,
    centre: Interval,
    slopes: Interval | None = None,
    norm: Array | float = math.inf,
    corner: Interval | None = None,
    maxima: Pieces | None = None,
) -> Enclosure:
    """The enclosure of an operation's result, which depends on the decision if an operand does.

    Slopes that are not finite are left out. Ends of intervals that are not numbers are infinite.
    """
    space = of[0].space
    if not value.known:
        value, centre = _limited(value), _limited(centre)
    if not any(u.moves for u in of):
        return Enclosure(space, value, value, value)
    shape = np.shape(value.low)
    if slopes is not None:
        if space.has_room(shape) and slopes.finite:
            slopes = slopes.map(lambda part: np.broadcast_to(part, (*shape, space.size)))
        else:
            slopes = None
    norm = np.where(np.isnan(norm), np.inf, norm)
    return Enclosure(space, value, centre, corner, slopes, norm, True, maxima=maxima)


def outward(u: Enclosure) -> Enclosure:
    """The enclosure, widened by more than rounding can have moved its bounds.

    Raises `Unknown` if values are not limited.
    """
    if not u.value.finite:
        raise Unknown("values are not limited")
    room = ROUNDING * u.space.largest if u.noise is None else u.noise
    value, centre = (Interval(i.low - room, i.high + room) for i in (u.value, u.centre))
    slopes = u.slopes
    if slopes is not None:
        spare = ROUNDING * np.max(slopes.size, axis=-1, keepdims=True, initial=0)
        slopes = Interval(slopes.low - spare, slopes.high + spare)
    norm = np.multiply(u.norm, 1 + ROUNDING)
    return replace(u, value=value, centre=centre, slopes=slopes, norm=norm)


def _limited(interval: Interval) -> Interval:
    low, high = interval.low, interval.high
    unknown = np.isnan(low) | np.isnan(high)
    if not np.any(unknown):
        return interval
    return Interval(np.where(unknown, -np.inf, low), np.where(unknown, np.inf, high))


def _double(value: Any) -> Array:
    array = np.asarray(value)
    return array if array.dtype.kind in "biu" else array.astype(float)
