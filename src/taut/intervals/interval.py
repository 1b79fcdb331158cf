"""Intervals: all numbers between two arrays, entry by entry."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce

import numpy as np

from ..engine import Array

__all__ = ["Interval", "contracted", "hull"]

ROUNDING = 1e-13
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
        room = ROUNDING * other.size
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


def _ends(one: Interval) -> tuple[Array, ...]:
    return (one.low,) if one.known else (one.low, one.high)


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
