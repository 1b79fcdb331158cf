"""Enclosures of functions of one number, such as the exponential function, for every entry."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from ..engine import Array
from .arithmetic import add, both, chained, log_sum_exp, moved, mul, neg, norm, stacked
from .enclosure import Enclosure, Interval, result
from .pieces import Unknown

NEAR = 1e-5
"""Points this close count as equal when the slope of a chord is computed: derivatives at both bound
it."""


@dataclass(frozen=True)
class Curve:
    """A function of one number."""

    function: Callable[[Array], Array]
    derivative: Callable[[Array], Array]
    shape: str = "convex"
    """How the derivative changes: it rises ("convex") or falls ("concave") everywhere, or it is
    largest ("peak") or smallest ("valley") at 0."""
    turn: float | None = None
    """Where the function is smallest or largest; None if it is monotone."""
    start: float = -math.inf
    """It is defined from here on."""
    left: Callable[[Array], Array] | None = None
    """The derivative from the left, if there are kinks; `derivative` is that from the right."""

    def image(self, x: Interval) -> Interval:
        """The values over an interval."""
        if x.known:
            return Interval.of(self.function(x.low))
        low = np.maximum(x.low, self.start)
        ends = [self.function(low), self.function(x.high)]
        if self.turn is not None:
            ends.append(self.function(np.clip(self.turn, low, x.high)))
        return Interval(np.minimum.reduce(ends), np.maximum.reduce(ends))

    def slopes(self, x: Interval, reference: Interval) -> Interval:
        """The slopes of chords from any point of reference to any x."""
        low, other = np.maximum(x.low, self.start), np.maximum(reference.low, self.start)
        if self.shape in ("peak", "valley"):
            ends = self.derivative(low), self.derivative(x.high)
            middle = self.derivative(np.clip(0.0, low, x.high))
            if self.shape == "peak":
                return Interval(np.minimum(*ends), middle)
            return Interval(middle, np.maximum(*ends))
        least = (self.left or self.derivative)(np.minimum(low, other))
        first = self._chord(low, other, least)
        most = self.derivative(np.maximum(x.high, reference.high))
        last = self._chord(x.high, reference.high, most)
        return Interval(first, last) if self.shape == "convex" else Interval(last, first)

    def _chord(self, a: Array, b: Array, derivative: Array) -> Array:
        """The slope between a and b; if they are near, the derivative at one end, a bound on it."""
        near = np.abs(a - b) <= NEAR * (1 + np.abs(a))
        chord = (self.function(a) - self.function(b)) / np.where(near, 1, a - b)
        return np.where(near, derivative, chord)


def curved(curve: Curve, u: Enclosure) -> Enclosure:
    """A function of every entry."""
    u = u.tight
    slopes, steep = chained((u, curve.slopes(u.value, u.reference))) if u.moves else (None, np.inf)
    return result((u,), *both(curve.image, u), slopes, steep)


def _sigmoid(x: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-x)))


def _entropy(x: Array) -> Array:
    return np.asarray(-x * np.log(np.where(x > 0, x, 1)))


CURVES = {
    "abs": Curve(
        np.abs,
        lambda x: np.where(x < 0, -1.0, 1.0),
        turn=0.0,
        left=lambda x: np.where(x > 0, 1.0, -1.0),
    ),
    "atan": Curve(np.arctan, lambda x: 1 / (1 + x**2), "peak"),
    "cosh": Curve(np.cosh, np.sinh, turn=0.0),
    "entropy": Curve(_entropy, lambda x: -np.log(x) - 1, "concave", 1 / math.e, 0.0),
    "exp": Curve(np.exp, np.exp),
    "exp2": Curve(np.exp2, lambda x: math.log(2) * np.exp2(x)),
    "expm1": Curve(np.expm1, np.exp),
    "inverse": Curve(lambda x: 1 / x, lambda x: -1 / x**2, start=0.0),
    "log": Curve(np.log, lambda x: 1 / x, "concave", start=0.0),
    "log1p": Curve(np.log1p, lambda x: 1 / (1 + x), "concave", start=-1.0),
    "logistic": Curve(_sigmoid, lambda x: _sigmoid(x) * _sigmoid(-x), "peak"),
    "rsqrt": Curve(lambda x: 1 / np.sqrt(x), lambda x: -0.5 * x**-1.5, start=0.0),
    "sinh": Curve(np.sinh, np.cosh, "valley"),
    "softplus": Curve(lambda x: np.logaddexp(0, x), _sigmoid),
    "tanh": Curve(np.tanh, lambda x: 1 / np.cosh(x) ** 2, "peak"),
}
_SQUARE = Curve(np.square, lambda x: 2 * x, turn=0.0)
_SQRT = Curve(np.sqrt, lambda x: 0.5 / np.sqrt(x), "concave", start=0.0)


def absolute(u: Enclosure) -> Enclosure:
    """|u|."""
    size = curved(CURVES["abs"], u)
    return size if u.maxima is None else replace(size, maxima=u.maxima.size())


def square(u: Enclosure) -> Enclosure:
    """u^2."""
    ndim = len(u.shape)
    squares = moved(u, lambda part: np.expand_dims(part, ndim)) if u.moves else None
    return replace(curved(_SQUARE, u), squares=squares)


def root(u: Enclosure) -> Enclosure:
    """The square root; of a sum of squares it is a norm, which has slopes everywhere."""
    plain = curved(_SQRT, u)
    if u.squares is None:
        return plain
    length = norm(u.squares)
    slopes = length.slopes
    if slopes is not None and plain.slopes is not None:
        slopes = slopes.within(plain.slopes)
    return replace(length, value=length.value.within(plain.value), slopes=slopes).sharp


def reciprocal(u: Enclosure) -> Enclosure:
    """1 / u, for u that cannot be 0."""
    if u.known:
        return Enclosure.fixed(u.space, 1 / u.low)
    if np.all(u.low > 0):
        return curved(CURVES["inverse"], u)
    if np.all(u.high < 0):
        return neg(curved(CURVES["inverse"], neg(u)))
    raise Unknown("a division by a number that may be 0 has no bound")


def divide(u: Enclosure, v: Enclosure) -> Enclosure:
    """u / v, for v that cannot be 0."""
    return mul(u, reciprocal(v))


def log_add_exp(u: Enclosure, v: Enclosure) -> Enclosure:
    """log(exp(u) + exp(v))."""
    enclosure = log_sum_exp(stacked(u, v))
    if u.moves and v.moves:
        return enclosure
    moving, fixed = (u, v) if u.moves else (v, u)
    plus = curved(CURVES["softplus"], add(moving, neg(fixed)))  # chords have better slopes
    return replace(enclosure, slopes=plus.slopes, norm=plus.norm)


def power(u: Enclosure, exponent: float) -> Enclosure:
    """u to a power."""
    if exponent == 2:
        return square(u)
    if exponent == 1:
        return u
    integral, even = exponent == int(exponent), exponent % 2 == 0
    if integral and exponent < 0:
        return reciprocal(power(u, -exponent))
    if not integral and np.any(u.low < 0):
        raise Unknown("a root of a number that may be negative has no bound")
    if exponent < 0 and not np.all(u.low > 0):
        raise Unknown("a division by a number that may be 0 has no bound")
    negative = bool(np.any(u.low < 0))
    curve = Curve(
        lambda x: x**exponent,
        lambda x: exponent * x ** (exponent - 1),
        "concave" if 0 < exponent < 1 else "valley" if negative and not even else "convex",
        0.0 if even else None,
        -math.inf if integral else 0.0,
    )
    return curved(curve, u)
