"""Bounds on CVXPY's affine atoms from bounds on their arguments, and the frame of atoms that reduce
axes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..translation.affine_forms import MOVED, WIDENED, groups, moved_places
from .intervals import (
    Span,
    Unknown,
    add,
    broadcast,
    interval_matmul,
    interval_product,
    joined,
    scaled,
    taken,
    thin,
)

__all__ = ["AFFINE", "Rule", "cumulative", "negated", "reducing", "total"]

Rule = Callable[[Any, list[Span]], Span]


def _moved(atom: Any, spans: list[Span]) -> Span:
    return taken(joined(spans), moved_places(atom))


def _broadcast(atom: Any, spans: list[Span]) -> Span:
    return broadcast(spans[0], atom.shape)


def negated(atom: Any, spans: list[Span]) -> Span:
    """Minus the argument."""
    (one,) = spans
    return Span(-one.high, -one.low, -one.up, -one.down, one.steep)


def _add(atom: Any, spans: list[Span]) -> Span:
    return add(atom.shape, spans)


def reducing(rule: Callable[[Any, Span], Span]) -> Rule:
    """The rule of a reducing atom, from that of one entry of it."""

    def whole(atom: Any, spans: list[Span]) -> Span:
        parts = [
            rule(atom, taken(spans[0], places))
            for places in groups(spans[0].low.shape, getattr(atom, "axis", None))
        ]
        out = joined(parts)
        return Span(out.low.reshape(atom.shape), out.high.reshape(atom.shape), *out[2:])

    return whole


def total(atom: Any, span: Span) -> Span:
    """The sum of all entries."""
    return Span.of(
        *(np.sum(np.ravel(part), keepdims=True) for part in span[:2]),
        *(np.sum(part, axis=0, keepdims=True) for part in span[2:]),
    )


def cumulative(rule: Callable[[Any, Span], Span]) -> Rule:
    """The rule of an atom whose entries reduce all entries before them, from that of one entry of
    it."""

    def whole(atom: Any, spans: list[Span]) -> Span:
        places = np.arange(spans[0].size).reshape(spans[0].low.shape)
        rows = np.moveaxis(np.atleast_1d(places), atom.axis or 0, -1)
        parts = [
            rule(atom, taken(spans[0], row[: k + 1]))
            for row in rows.reshape(-1, rows.shape[-1])
            for k in range(len(row))
        ]
        order = np.argsort(rows.ravel())
        return taken(joined(parts), order.reshape(atom.shape))

    return whole


def _multiply(atom: Any, spans: list[Span]) -> Span:
    a, b = (broadcast(span, atom.shape) for span in spans)
    low, high = interval_product(a.low, a.high, b.low, b.high)
    first, second = scaled(b.low, b.high, a), scaled(a.low, a.high, b)
    return Span.of(low, high, *(one + other for one, other in zip(first, second, strict=True)))


def _divide(atom: Any, spans: list[Span]) -> Span:
    a, b = (broadcast(span, atom.shape) for span in spans)
    if not b.constant or not np.all((b.low > 0) | (b.high < 0)):
        raise Unknown
    low, high = 1 / b.high, 1 / b.low
    return Span.of(*interval_product(a.low, a.high, low, high), *scaled(low, high, a))


def _matmul(atom: Any, spans: list[Span]) -> Span:
    a, b = spans
    if a.low.ndim == 0 or b.low.ndim == 0:
        return _multiply(atom, spans)
    if max(a.low.ndim, b.low.ndim) > 2:
        raise Unknown
    rows = a.low.shape[0] if a.low.ndim == 2 else 1
    inner, columns = b.low.shape[0], b.low.shape[1] if b.low.ndim == 2 else 1
    n = a.down.shape[1]
    if rows * columns * n * inner > 50_000_000:
        raise Unknown
    left = [part.reshape(rows, inner) for part in (a.low, a.high)]
    right = [part.reshape(inner, columns) for part in (b.low, b.high)]
    low, high = interval_matmul(*left, *right)
    down, up, steep = (
        np.zeros((rows, columns, n)),
        np.zeros((rows, columns, n)),
        np.zeros((rows, columns)),
    )
    if not b.constant:
        turn = interval_matmul(
            *left, *(part.reshape(inner, columns * n) for part in (b.down, b.up))
        )
        down, up = (
            total + part.reshape(rows, columns, n)
            for total, part in zip((down, up), turn, strict=True)
        )
        steep = steep + np.maximum(np.abs(left[0]), np.abs(left[1])) @ b.steep.reshape(
            inner, columns
        )
    if not a.constant:
        moved = [
            part.reshape(rows, inner, n).transpose(1, 0, 2).reshape(inner, rows * n)
            for part in (a.down, a.up)
        ]
        turn = interval_matmul(right[0].T, right[1].T, *moved)
        turned = [part.reshape(columns, rows, n).transpose(1, 0, 2) for part in turn]
        down, up = down + turned[0], up + turned[1]
        steep = steep + a.steep.reshape(rows, inner) @ np.maximum(
            np.abs(right[0]), np.abs(right[1])
        )
    flat = (down.reshape(-1, n), up.reshape(-1, n), steep.ravel())
    return Span.of(low.reshape(atom.shape), high.reshape(atom.shape), *flat)


def _outer(atom: Any, spans: list[Span]) -> Span:
    """Products of all pairs of entries, added up by a matrix of zeros and ones: kron and
    convolutions."""
    a, b = spans
    if a.size * b.size * max(a.size, b.size) > 1_000_000:
        raise Unknown
    pairs = np.stack(
        np.meshgrid(np.arange(a.size), np.arange(b.size), indexing="ij"), axis=-1
    ).reshape(-1, 2)
    left, right = taken(a, pairs[:, 0]), taken(b, pairs[:, 1])
    low, high = interval_product(left.low, left.high, right.low, right.high)
    first, second = scaled(right.low, right.high, left), scaled(left.low, left.high, right)
    where = np.zeros((int(np.prod(atom.shape)), len(pairs)))
    for k, (i, j) in enumerate(pairs):
        units = [np.zeros(span.low.shape) for span in spans]
        units[0].flat[i], units[1].flat[j] = 1.0, 1.0
        where[:, k] = np.ravel(np.asarray(atom.numeric(units), float))
    flat = (where @ (one + other) for one, other in zip(first, second, strict=True))
    return Span.of((where @ low).reshape(atom.shape), (where @ high).reshape(atom.shape), *flat)


def _trace(atom: Any, spans: list[Span]) -> Span:
    (one,) = spans
    if one.low.ndim != 2:
        raise Unknown
    n = one.low.shape[0]
    found = total(atom, taken(one, np.arange(0, n * n, n + 1)))
    return Span(found.low.reshape(atom.shape), found.high.reshape(atom.shape), *found[2:])


def _nothing(atom: Any, spans: list[Span]) -> Span:
    """The imaginary part of real numbers."""
    return thin(np.zeros(atom.shape), spans[0].down.shape[1])


AFFINE: dict[str, Rule] = {
    **dict.fromkeys(MOVED, _moved),
    **dict.fromkeys(WIDENED, _broadcast),
    **dict.fromkeys(["conv", "convolve", "kron"], _outer),
    "AddExpression": _add,
    "DivExpression": _divide,
    "MulExpression": _matmul,
    "NegExpression": negated,
    "Sum": reducing(total),
    "Trace": _trace,
    "cumsum": cumulative(total),
    "imag": _nothing,
    "multiply": _multiply,
}
