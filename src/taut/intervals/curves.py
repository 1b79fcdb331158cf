"""Enclosures of functions of one number, such as the exponential function, applied to every
entry."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..engine import Array
from .arithmetic import Interval, made, mul, neg, product
from .enclosure import Enclosure, Space, Unknown

__all__ = ["CURVES", "SQUARE", "curve_rule", "div", "elementwise", "gradual", "power", "power_of"]

NEAR = 1e-5
"""Points this close count as equal when the slope of a chord is computed: derivatives at both bound
it."""


@dataclass(frozen=True)
class _Curve:
    """A function that is convex or concave where it is used."""

    function: Callable[[Array], Array]
    derivative: Callable[[Array], Array]
    convex: bool = True
    lowest: float | None = None
    """Where it is smallest, for a convex function that falls and rises; others are monotone."""
    start: float = -math.inf
    """It is defined from here on."""


SQUARE = _Curve(np.square, lambda u: 2 * u, lowest=0.0)
CURVES = {
    "abs": _Curve(np.abs, np.sign, lowest=0.0),
    "cosh": _Curve(np.cosh, np.sinh, lowest=0.0),
    "exp": _Curve(np.exp, np.exp),
    "exp2": _Curve(np.exp2, lambda u: math.log(2) * np.exp2(u)),
    "expm1": _Curve(np.expm1, np.exp),
    "log": _Curve(np.log, lambda u: 1 / u, convex=False, start=0.0),
    "log1p": _Curve(np.log1p, lambda u: 1 / (1 + u), convex=False, start=-1.0),
    "sqrt": _Curve(np.sqrt, lambda u: 0.5 / np.sqrt(u), convex=False, start=0.0),
    "rsqrt": _Curve(lambda u: 1 / np.sqrt(u), lambda u: -0.5 * u**-1.5, start=0.0),
    "square": SQUARE,
}
_INVERSE = _Curve(lambda u: 1 / u, lambda u: -1 / u**2, start=0.0)


def elementwise(curve: _Curve, u: Enclosure, space: Space) -> Enclosure:
    """phi(u) - phi(u_c) = k (u - u_c), where the slope k of the chord grows with both ends if phi
    is convex."""
    if np.any(u.high < curve.start):
        raise Unknown("a function is evaluated where it is not defined")
    low, centre_low = np.maximum(u.low, curve.start), np.maximum(u.centre_low, curve.start)
    value, centre = (_image(curve, a, b) for a, b in ((low, u.high), (centre_low, u.centre_high)))
    slopes = u.slopes(space) if u.moves else None
    if slopes is not None:
        first, last = _chord(curve, low, centre_low, -1), _chord(curve, u.high, u.centre_high, 1)
        steep = (first, last) if curve.convex else (last, first)
        known = all(np.all(np.isfinite(part)) for part in steep)
        slopes = product(steep, slopes) if known else None
    result = made(space, value, centre, slopes, u)
    return replace(result, root=u) if curve is SQUARE else result


def _image(curve: _Curve, low: Array, high: Array) -> Interval:
    one, two = curve.function(low), curve.function(high)
    if curve.lowest is None:
        return np.minimum(one, two), np.maximum(one, two)
    inside = (low <= curve.lowest) & (curve.lowest <= high)
    least = np.where(inside, curve.function(np.asarray(curve.lowest)), np.minimum(one, two))
    return least, np.maximum(one, two)


def _chord(curve: _Curve, a: Array, b: Array, side: int) -> Array:
    """The slope between a and b, or a bound on it: from below for side -1 of a convex function,
    from above for side 1."""
    near = np.abs(a - b) <= NEAR * (1 + np.abs(a))
    chord = (curve.function(a) - curve.function(b)) / np.where(near, 1, a - b)
    end = np.minimum(a, b) if side < 0 else np.maximum(a, b)
    return np.where(near, curve.derivative(end), chord)


def curve_rule(name: str) -> Callable[..., Enclosure]:
    """The rule of a function in `CURVES`."""
    return lambda space, u, **_: elementwise(CURVES[name], u, space)


def _reciprocal(space: Space, v: Enclosure) -> Enclosure:
    if np.all(v.low > 0):
        return elementwise(_INVERSE, v, space)
    if np.all(v.high < 0):
        return neg(space, elementwise(_INVERSE, neg(space, v), space))
    raise Unknown("a division by a number that may be 0 has no bound")


def div(space: Space, u: Enclosure, v: Enclosure) -> Enclosure:
    """u / v, for v that cannot be 0."""
    return mul(space, u, _reciprocal(space, v))


def power(space: Space, u: Enclosure, exponent: float) -> Enclosure:
    """u to a power."""
    if exponent == 2:
        return elementwise(SQUARE, u, space)
    if exponent == 1:
        return u
    even = exponent == int(exponent) and int(exponent) % 2 == 0
    if exponent == int(exponent) and exponent < 0:
        return _reciprocal(space, power(space, u, -exponent))
    if not even and np.any(u.low < 0):
        if exponent == int(exponent):
            return _odd_power(space, u, int(exponent))
        raise Unknown("a root of a number that may be negative has no bound")
    if exponent < 0 and not np.all(u.low > 0):
        raise Unknown("a division by a number that may be 0 has no bound")
    curve = _Curve(
        lambda a: a**exponent,
        lambda a: exponent * a ** (exponent - 1),
        convex=not 0 < exponent < 1,
        lowest=0.0 if even else None,
        start=-math.inf if even else 0.0,
    )
    return elementwise(curve, u, space)


def _odd_power(space: Space, u: Enclosure, y: int) -> Enclosure:
    """An increasing function; slopes of chords are between 0 and the largest derivative."""
    slopes = u.slopes(space) if u.moves else None
    if slopes is not None:
        steep = y * np.maximum(np.abs(u.low), np.abs(u.high)) ** (y - 1)
        slopes = product((np.zeros_like(steep), steep), slopes)
    return made(space, (u.low**y, u.high**y), (u.centre_low**y, u.centre_high**y), slopes, u)


def power_of(space: Space, u: Enclosure, v: Enclosure) -> Enclosure:
    """u to the power v, the same for all entries."""
    if not v.thin or np.ptp(v.low) != 0:
        raise Unknown("a power with an exponent that is not fixed has no bound")
    return power(space, u, float(v.low.ravel()[0]))


def gradual(function: Callable[[Array], Array], steepest: float) -> Callable[..., Enclosure]:
    """Increasing functions whose chords have slopes between 0 and `steepest`."""

    def rule(space: Space, u: Enclosure, **_: Any) -> Enclosure:
        slopes = u.slopes(space) if u.moves else None
        if slopes is not None:
            slopes = product((np.zeros(()), np.asarray(steepest)), slopes)
        low, high, *centre = u.values(function)
        return made(space, (low, high), (centre[0], centre[1]), slopes, u)

    return rule
