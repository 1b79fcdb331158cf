"""Bounds on CVXPY's atoms from bounds on their arguments, for `intervals`. Atoms that are not here have no bound."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..engine import Array
from .intervals import (
    Span,
    Unknown,
    add,
    broadcast,
    chained,
    interval_matmul,
    interval_product,
    joined,
    scaled,
    spectral,
    taken,
)  # fmt: skip

__all__ = ["RULES"]

Rule = Callable[[Any, list[Span]], Span]


def _moved(atom: Any, spans: list[Span]) -> Span:
    """Atoms that only move entries, or put zeros between them."""
    start, places = 1, []
    for span in spans:
        places.append(np.arange(start, start + span.size, dtype=float).reshape(span.low.shape))
        start += span.size
    moved = np.rint(np.asarray(atom.numeric(places), float)).astype(int).reshape(atom.shape)
    return taken(joined(spans), moved - 1)


def _broadcast(atom: Any, spans: list[Span]) -> Span:
    return broadcast(spans[0], atom.shape)


def _negated(atom: Any, spans: list[Span]) -> Span:
    (one,) = spans
    return Span(-one.high, -one.low, -one.up, -one.down, one.steep)


def _add(atom: Any, spans: list[Span]) -> Span:
    return add(atom.shape, spans)


def _groups(atom: Any, span: Span) -> Array:
    """The places of the entries that each entry of a reducing atom depends on, (entry, place)."""
    places, axis = np.arange(span.size).reshape(span.low.shape), getattr(atom, "axis", None)
    if axis is None or places.ndim == 0:
        return places.reshape(1, -1)
    axes = axis if isinstance(axis, tuple) else (axis,)
    kept = [k for k in range(places.ndim) if k not in [a % places.ndim for a in axes]]
    moved = np.moveaxis(places, kept, range(len(kept)))
    return moved.reshape(int(np.prod([places.shape[k] for k in kept])), -1)


def _reducing(rule: Callable[[Any, Span], Span]) -> Rule:
    """The rule of a reducing atom, from that of one entry of it."""

    def whole(atom: Any, spans: list[Span]) -> Span:
        parts = [rule(atom, taken(spans[0], places)) for places in _groups(atom, spans[0])]
        out = joined(parts)
        return Span(out.low.reshape(atom.shape), out.high.reshape(atom.shape), *out[2:])

    return whole


def _total(atom: Any, span: Span) -> Span:
    return Span.of(*(np.sum(np.ravel(part), keepdims=True) for part in span[:2]),
                   *(np.sum(part, axis=0, keepdims=True) for part in span[2:]))  # fmt: skip


def _cumulative(rule: Callable[[Any, Span], Span]) -> Rule:
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
    down, up, steep = np.zeros((rows, columns, n)), np.zeros((rows, columns, n)), np.zeros((rows, columns))
    if not b.constant:
        turn = interval_matmul(*left, *(part.reshape(inner, columns * n) for part in (b.down, b.up)))
        down, up = (total + part.reshape(rows, columns, n) for total, part in zip((down, up), turn, strict=True))
        steep = steep + np.maximum(np.abs(left[0]), np.abs(left[1])) @ b.steep.reshape(inner, columns)
    if not a.constant:
        moved = [part.reshape(rows, inner, n).transpose(1, 0, 2).reshape(inner, rows * n) for part in (a.down, a.up)]
        turn = interval_matmul(right[0].T, right[1].T, *moved)
        turned = [part.reshape(columns, rows, n).transpose(1, 0, 2) for part in turn]
        down, up = down + turned[0], up + turned[1]
        steep = steep + a.steep.reshape(rows, inner) @ np.maximum(np.abs(right[0]), np.abs(right[1]))
    flat = (down.reshape(-1, n), up.reshape(-1, n), steep.ravel())
    return Span.of(low.reshape(atom.shape), high.reshape(atom.shape), *flat)


def _outer(atom: Any, spans: list[Span]) -> Span:
    """Products of all pairs of entries, added up by a matrix of zeros and ones: kron and convolutions."""
    a, b = spans
    if a.size * b.size * max(a.size, b.size) > 1_000_000:
        raise Unknown
    pairs = np.stack(np.meshgrid(np.arange(a.size), np.arange(b.size), indexing="ij"), axis=-1).reshape(-1, 2)
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


def _convex(
    value: Callable[[Any, Array], Array], slope: Callable[[Any, Array], Array], lowest: float = -np.inf,
    least: float = -np.inf, sign: float = 1.0,
) -> Rule:  # fmt: skip
    """The rule of a function of each entry that is convex (concave, if `sign` is -1) above `lowest`, smallest at `least`."""

    def rule(atom: Any, spans: list[Span]) -> Span:
        (one,) = spans
        if np.any(one.low < lowest):
            raise Unknown
        with np.errstate(all="ignore"):
            ends = sign * value(atom, one.low), sign * value(atom, one.high)
            low, high = sign * value(atom, np.clip(least, one.low, one.high)), np.maximum(*ends)
            slopes = slope(atom, one.low), slope(atom, one.high)
        if sign < 0:
            return chained(one, -high, -low, slopes[1], slopes[0])
        return chained(one, low, high, slopes[0], slopes[1])

    return rule


def _kinked(atom: Any, spans: list[Span]) -> Span:
    """The absolute value; at zero any slope between -1 and 1 is one."""
    (one,) = spans
    low = np.where((one.low <= 0) & (one.high >= 0), 0.0, np.minimum(np.abs(one.low), np.abs(one.high)))
    high = np.maximum(np.abs(one.low), np.abs(one.high))
    return chained(one, low, high, np.where(one.low > 0, 1.0, -1.0), np.where(one.high < 0, -1.0, 1.0))


def _power(atom: Any, spans: list[Span]) -> Span:
    p = float(atom.p.value)
    if p == 1:
        return spans[0]

    def value(atom: Any, x: Array) -> Array:
        return np.asarray(np.abs(x) ** p if p > 1 and p % 2 == 0 else x**p)

    def slope(atom: Any, x: Array) -> Array:
        return np.asarray(np.sign(x) * p * np.abs(x) ** (p - 1) if p > 1 and p % 2 == 0 else p * x ** (p - 1))

    if p > 1:
        return _convex(value, slope, -np.inf if p % 2 == 0 else 0.0, 0.0)(atom, spans)
    if p < 0:
        return _convex(value, slope, np.nextafter(0, 1), np.inf)(atom, spans)
    return _convex(value, slope, np.nextafter(0, 1), np.inf, -1.0)(atom, spans)


def _huber(atom: Any, spans: list[Span]) -> Span:
    width = np.asarray(atom.M.value, float) if atom.M.value is not None else None
    if width is None or atom.M.parameters():
        raise Unknown
    m = float(np.ravel(width)[0])
    return _convex(
        lambda atom, x: np.where(np.abs(x) <= m, x**2, 2 * m * np.abs(x) - m**2),
        lambda atom, x: 2 * np.clip(x, -m, m), -np.inf, 0.0,
    )(atom, spans)  # fmt: skip


def _log_entropy(atom: Any, spans: list[Span]) -> Span:
    """x log(x / y), and kl_div, which is x log(x / y) - x + y."""
    x, y = (broadcast(span, atom.shape) for span in spans)
    if np.any(x.low <= 0) or np.any(y.low <= 0):
        raise Unknown
    low_ratio, high_ratio = np.log(x.low / y.high), np.log(x.high / y.low)
    other = -x.high / y.low, -x.low / y.high
    corners = [a * np.log(a / b) for a in (x.low, x.high) for b in (y.low, y.high)]
    if type(atom).__name__ == "kl_div":
        corners = [one - a + b for one, (a, b) in zip(
            corners, [(a, b) for a in (x.low, x.high) for b in (y.low, y.high)], strict=True)]  # fmt: skip
        slope, other, low = (low_ratio, high_ratio), (1 + other[0], 1 + other[1]), np.zeros(atom.shape)
    else:
        best = np.clip(y.high / math.e, x.low, x.high)
        slope, low = (1 + low_ratio, 1 + high_ratio), best * np.log(best / y.high)
    first, second = scaled(*slope, x), scaled(*other, y)
    high = np.max(corners, axis=0)  # convex: largest at a corner
    return Span.of(low, high, *(one + two for one, two in zip(first, second, strict=True)))


def _hull(atom: Any, span: Span) -> Span:
    """The largest entry. Its gradient is a mixture of those of entries that can be largest."""
    low, high = np.ravel(span.low), np.ravel(span.high)
    able = high >= low.max()
    return Span.of(low.max(keepdims=True), high.max(keepdims=True), span.down[able].min(axis=0, keepdims=True),
                   span.up[able].max(axis=0, keepdims=True), span.steep[able].max(keepdims=True))  # fmt: skip


def _largest(atom: Any, spans: list[Span]) -> Span:
    wide = [broadcast(span, atom.shape) for span in spans]
    size = wide[0].size
    parts = [_hull(atom, joined([taken(one, np.array([k])) for one in wide])) for k in range(size)]
    out = joined(parts)
    return Span(out.low.reshape(atom.shape), out.high.reshape(atom.shape), *out[2:])


def _mirrored(rule: Rule) -> Rule:
    """The rule of minus f(-x): min from max."""
    return lambda atom, spans: _negated(atom, [rule(atom, [_negated(atom, [span]) for span in spans])])


def _sizes(span: Span) -> tuple[Array, Array]:
    """The smallest and largest absolute values of the entries, flat."""
    low, high = np.ravel(span.low), np.ravel(span.high)
    inside = (low <= 0) & (high >= 0)
    return np.where(inside, 0.0, np.minimum(np.abs(low), np.abs(high))), np.maximum(np.abs(low), np.abs(high))


def _norm(atom: Any, span: Span) -> Span:
    name = type(atom).__name__
    if name == "norm1":
        return _total(atom, _kinked(atom, [span]))
    if name == "norm_inf":
        return _hull(atom, _kinked(atom, [span]))
    p = float(atom.p)
    if p < 1:
        raise Unknown
    small, large = _sizes(span)
    low, high = (np.atleast_1d(np.linalg.norm(part, p)) for part in (small, large))
    positive = np.where(np.ravel(span.low) > 0, 0.0, -1.0), np.where(np.ravel(span.high) < 0, 0.0, 1.0)
    down, up, _ = scaled(*positive, span)
    dual = p / (p - 1) if p > 1 else np.inf
    reach = 1.0 if dual <= 2 else span.size ** (0.5 - 1 / dual)
    return Span.of(low, high, down.sum(axis=0, keepdims=True), up.sum(axis=0, keepdims=True),
                   np.atleast_1d(reach * spectral(span)))  # fmt: skip


def _quad_over_lin(atom: Any, spans: list[Span]) -> Span:
    x, y = spans
    low_y, high_y = float(y.low.min()), float(y.high.max())
    if low_y <= 0:
        raise Unknown

    def one(atom: Any, part: Span) -> Span:
        small, large = _sizes(part)
        low, high = np.atleast_1d(np.sum(small**2)), np.atleast_1d(np.sum(large**2))
        flat = [np.ravel(edge) for edge in part[:2]]
        slope = interval_product(
            2 * flat[0], 2 * flat[1], 1 / np.full(part.size, high_y), 1 / np.full(part.size, low_y)
        )
        down, up, _ = scaled(*slope, part)
        down, up = down.sum(axis=0, keepdims=True), up.sum(axis=0, keepdims=True)
        steep = 2 * np.sqrt(high) / low_y * spectral(part)
        if not y.constant:
            turn = scaled(-high / low_y**2, -low / high_y**2, y)
            down, up, steep = down + turn[0], up + turn[1], steep + turn[2]
        return Span.of(low / high_y, high / low_y, down, up, steep)

    return _reducing(one)(atom, [x])


def _quad_form(atom: Any, spans: list[Span]) -> Span:
    x, matrix = spans
    flat = [np.ravel(edge)[:, None] for edge in x[:2]]
    slope = interval_matmul(matrix.low, matrix.high, *flat)
    low, high = interval_matmul(flat[0].T, flat[1].T, *slope)
    down, up, _ = scaled(2 * slope[0], 2 * slope[1], x)
    low = np.maximum(low, 0) if atom.is_atom_convex() and np.array_equal(matrix.low, matrix.high) else low
    return Span.of(low.reshape(atom.shape), high.reshape(atom.shape), down.sum(axis=0, keepdims=True),
                   up.sum(axis=0, keepdims=True))  # fmt: skip


def _log_sum_exp(atom: Any, span: Span) -> Span:
    low, high = np.ravel(span.low), np.ravel(span.high)
    top = high.max()
    small, large = np.exp(low - top), np.exp(high - top)
    with np.errstate(all="ignore"):
        least = small / (small + np.maximum(large.sum() - large, 0))
        most = large / (large + np.maximum(small.sum() - small, 0))
    down, up, _ = scaled(np.nan_to_num(least), np.nan_to_num(most, nan=1.0), span)
    down = np.maximum(down.sum(axis=0, keepdims=True), span.down.min(axis=0, keepdims=True))
    up = np.minimum(up.sum(axis=0, keepdims=True), span.up.max(axis=0, keepdims=True))
    with np.errstate(divide="ignore"):
        first, last = (np.asarray(top + np.log(np.atleast_1d(part.sum()))) for part in (small, large))
    return Span.of(first, last, down, up, span.steep.max(keepdims=True))


def _sum_largest(atom: Any, span: Span) -> Span:
    k = float(atom.k)
    whole = int(np.floor(k))

    def top(numbers: Array) -> Array:
        order = np.sort(np.ravel(numbers))[::-1]
        rest = (k - whole) * order[whole] if whole < min(k, len(order)) else 0.0
        return np.atleast_1d(order[:whole].sum() + rest)

    down, up, _ = scaled(np.zeros(span.size), np.ones(span.size), span)
    return Span.of(top(span.low), top(span.high), down.sum(axis=0, keepdims=True), up.sum(axis=0, keepdims=True),
                   top(span.steep))  # fmt: skip


def _geometric_mean(atom: Any, spans: list[Span]) -> Span:
    (one,) = spans
    if atom.size != 1 or np.any(one.low <= 0):
        raise Unknown
    low, high = np.ravel(one.low, order="F"), np.ravel(one.high, order="F")
    weights = np.zeros(len(low))
    weights[atom._keep] = [float(w) for w in atom.w]
    first, last = (np.reshape(np.exp(weights @ np.log(part)), atom.shape) for part in (low, high))
    least, most = (
        np.reshape(weights * part, one.low.shape, order="F") for part in (float(first) / high, float(last) / low)
    )
    down, up, _ = scaled(least, most, one)
    return Span.of(first, last, down.sum(axis=0, keepdims=True), up.sum(axis=0, keepdims=True))


def _eigenvalue(atom: Any, spans: list[Span]) -> Span:
    """The largest eigenvalue or singular value, and the sum of all singular values, which are Lipschitz in the matrix."""
    (one,) = spans
    if one.low.ndim != 2:
        raise Unknown
    middle, room = (one.low + one.high) / 2, (one.high - one.low) / 2
    name = type(atom).__name__
    values = np.linalg.eigvalsh(middle)[::-1] if name == "lambda_max" else np.linalg.svd(middle, compute_uv=False)
    count = len(values) if name == "normNuc" else 1
    value, reach = values[:count].sum(), np.linalg.norm(room, 2) * count
    down, up, _ = scaled(-np.ones(one.size), np.ones(one.size), one)
    return Span.of(np.reshape(value - reach, atom.shape), np.reshape(value + reach, atom.shape),
                   down.sum(axis=0, keepdims=True), up.sum(axis=0, keepdims=True),
                   np.atleast_1d(np.sqrt(count) * spectral(one)))  # fmt: skip


_LOG: dict[str, Any] = {"lowest": np.nextafter(0, 1), "least": np.inf, "sign": -1.0}

RULES: dict[str, Rule] = {
    **dict.fromkeys(
        ["Concatenate", "Hstack", "Vstack", "diag_mat", "diag_vec", "index", "reshape", "special_index", "transpose",
         "upper_tri"], _moved,
    ),
    **dict.fromkeys(
        ["Wrap", "broadcast_to", "conj", "hermitian_wrap", "nonneg_wrap", "nonpos_wrap", "nsd_wrap", "Promote", "psd_wrap",
         "real", "skew_symmetric_wrap", "symmetric_wrap"], _broadcast,
    ),
    **dict.fromkeys(["Pnorm", "PnormApprox", "norm1", "norm_inf"], _reducing(_norm)),
    **dict.fromkeys(["Power", "PowerApprox"], _power),
    **dict.fromkeys(["GeoMean", "GeoMeanApprox"], _geometric_mean),
    **dict.fromkeys(["conv", "convolve", "kron"], _outer),
    **dict.fromkeys(["kl_div", "rel_entr"], _log_entropy),
    **dict.fromkeys(["lambda_max", "normNuc", "sigma_max"], _eigenvalue),
    "AddExpression": _add,
    "DivExpression": _divide,
    "MulExpression": _matmul,
    "NegExpression": _negated,
    "QuadForm": _quad_form,
    "Sum": _reducing(_total),
    "abs": _kinked,
    "cummax": _cumulative(_hull),
    "cumsum": _cumulative(_total),
    "entr": _convex(lambda atom, x: -x * np.log(x), lambda atom, x: -np.log(x) - 1, np.nextafter(0, 1), 1 / math.e, -1.0),
    "exp": _convex(lambda atom, x: np.exp(x), lambda atom, x: np.exp(x)),
    "huber": _huber,
    "log": _convex(lambda atom, x: np.log(x), lambda atom, x: 1 / x, **_LOG),
    "log1p": _convex(lambda atom, x: np.log1p(x), lambda atom, x: 1 / (1 + x), np.nextafter(-1, 0), np.inf, -1.0),
    "log_sum_exp": _reducing(_log_sum_exp),
    "logistic": _convex(lambda atom, x: np.logaddexp(0, x), lambda atom, x: 1 / (1 + np.exp(-x))),
    "max": _reducing(_hull),
    "maximum": _largest,
    "min": _mirrored(_reducing(_hull)),
    "minimum": _mirrored(_largest),
    "multiply": _multiply,
    "quad_over_lin": _quad_over_lin,
    "sum_largest": _reducing(_sum_largest),
    "xexp": _convex(lambda atom, x: x * np.exp(x), lambda atom, x: (1 + x) * np.exp(x), 0.0),
}  # fmt: skip
