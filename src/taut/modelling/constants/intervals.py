"""Interval arithmetic through a CVXPY expression: bounds on its value and gradient over all
decisions and data.

Every bound is a true one: no decision of the box and no data of the range exceed it. The
derivatives of CVXPY's atoms are monotone or bounded, so that the bounds of an atom follow from
those of its arguments. `interval_rules` has the atoms.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ...engine import Array

__all__ = [
    "MOST",
    "Span",
    "Unknown",
    "add",
    "broadcast",
    "chained",
    "interval_matmul",
    "interval_product",
    "joined",
    "scaled",
    "spectral",
    "taken",
    "thin",
]

MOST = 4_000_000
"""The largest number of entries of a gradient, or of the products of a matrix product that are
formed one by one."""


class Unknown(Exception):
    """No finite bound is known."""


class Span(NamedTuple):
    """Bounds on the entries of an expression and on their gradients in the flat decision."""

    low: Array
    high: Array
    """Bounds on the entries, in the shape of the expression."""
    down: Array
    up: Array
    """Bounds on the derivatives, (entry in row order, entry of the decision)."""
    steep: Array
    """Bounds on the Euclidean norm of each entry's gradient, (entry,)."""

    @classmethod
    def of(
        cls, low: Array, high: Array, down: Array, up: Array, steep: Array | None = None
    ) -> Span:
        """The bounds, with the smaller of the given norm and that of the derivatives."""
        norm = np.sqrt(np.sum(np.maximum(down**2, up**2), axis=1))
        steep = norm if steep is None else np.minimum(norm, steep)
        if not all(np.all(np.isfinite(part)) for part in (low, high, steep)):
            raise Unknown
        return cls(low, high, down, up, steep)

    @property
    def size(self) -> int:
        """The number of entries."""
        return len(self.down)

    @property
    def constant(self) -> bool:
        """Whether the decision has no influence."""
        return not (np.any(self.down) or np.any(self.up))


def thin(value: Any, size: int) -> Span:
    """A constant, as a function of `size` entries of a decision."""
    array = np.asarray(value, float)
    if array.size * size > MOST:
        raise Unknown
    zero = np.zeros((array.size, size))
    return Span.of(array, array, zero, zero)


def interval_product(a: Array, b: Array, c: Array, d: Array) -> tuple[Array, Array]:
    """Bounds on the product of numbers in [a, b] and [c, d]."""
    products = (a * c, a * d, b * c, b * d)
    low, high = products[0], products[0]
    for one in products[1:]:
        low, high = np.minimum(low, one), np.maximum(high, one)
    return low, high


def interval_matmul(a: Array, b: Array, c: Array, d: Array) -> tuple[Array, Array]:
    """Bounds on the product of matrices in [a, b] and [c, d]."""
    if np.array_equal(a, b):
        plus, minus = np.maximum(a, 0), np.minimum(a, 0)
        return plus @ c + minus @ d, plus @ d + minus @ c
    if np.array_equal(c, d):
        plus, minus = np.maximum(c, 0), np.minimum(c, 0)
        return a @ plus + b @ minus, b @ plus + a @ minus
    if a.shape[0] * c.size <= MOST:
        low, high = interval_product(a[:, :, None], b[:, :, None], c[None], d[None])
        return low.sum(axis=1), high.sum(axis=1)
    middle, other = (a + b) / 2, (c + d) / 2
    room, spare = (b - a) / 2, (d - c) / 2
    centre, reach = middle @ other, np.abs(middle) @ spare + room @ (np.abs(other) + spare)
    return centre - reach, centre + reach


def scaled(factor_low: Array, factor_high: Array, span: Span) -> tuple[Array, Array, Array]:
    """Derivatives of each entry times a factor, (entry,), and the norms."""
    low, high = np.ravel(factor_low)[:, None], np.ravel(factor_high)[:, None]
    down, up = interval_product(low, high, span.down, span.up)
    return down, up, np.maximum(np.abs(low), np.abs(high))[:, 0] * span.steep


def chained(span: Span, low: Array, high: Array, slope_low: Array, slope_high: Array) -> Span:
    """A function of each entry, with bounds on its values and derivatives."""
    return Span.of(low, high, *scaled(slope_low, slope_high, span))


def add(shape: tuple[int, ...], spans: list[Span]) -> Span:
    """The sum of expressions, each of which is broadcast to the shape."""
    wide = [broadcast(span, shape) for span in spans]
    return Span.of(*(np.sum([one[i] for one in wide], axis=0) for i in range(5)))


def broadcast(span: Span, shape: tuple[int, ...]) -> Span:
    """The entries in a larger shape; a single entry of any rank fits everywhere."""
    if span.low.shape == shape:
        return span
    places = np.arange(span.size).reshape(() if span.size == 1 else span.low.shape)
    return taken(span, np.broadcast_to(places, shape))


def taken(span: Span, places: Array) -> Span:
    """The entries at these places in row order; -1 stands for zero."""
    flat = np.ravel(places)
    if flat.size * span.down.shape[1] > MOST:
        raise Unknown
    zero = flat < 0

    def pick(rows: Array) -> Array:
        out = rows[flat].copy()
        out[zero] = 0
        return out

    low, high = (pick(np.ravel(part)).reshape(places.shape) for part in (span.low, span.high))
    return Span(low, high, pick(span.down), pick(span.up), pick(span.steep))


def joined(spans: list[Span]) -> Span:
    """All entries of several expressions in one flat one."""
    low, high = (np.concatenate([np.ravel(one[i]) for one in spans]) for i in (0, 1))
    return Span(low, high, *(np.concatenate([one[i] for one in spans]) for i in (2, 3, 4)))


def spectral(span: Span) -> float:
    """A bound on the largest singular value of the derivatives of all entries together."""
    middle, room = (span.down + span.up) / 2, (span.up - span.down) / 2
    both = np.linalg.norm(middle, 2) + (np.linalg.norm(room, 2) if np.any(room) else 0.0)
    return float(min(both, np.sqrt(np.sum(span.steep**2))))
