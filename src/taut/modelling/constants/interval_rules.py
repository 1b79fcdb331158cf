"""Bounds on CVXPY's atoms from bounds on their arguments, for `intervals`. Atoms that are not here
have no bound."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ...engine import Array
from .interval_affine import AFFINE, Rule, cumulative, negated, reducing, total
from .interval_matrices import MATRICES
from .intervals import (
    Span,
    Unknown,
    broadcast,
    chained,
    interval_matmul,
    interval_product,
    joined,
    scaled,
    spectral,
    taken,
)

__all__ = ["RULES"]


def _convex(
    value: Callable[[Any, Array], Array],
    slope: Callable[[Any, Array], Array],
    lowest: float = -np.inf,
    least: float = -np.inf,
    sign: float = 1.0,
) -> Rule:
    """The rule of a function of each entry that is convex (concave, if `sign` is -1) above
    `lowest`, smallest at `least`."""

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
    low = np.where(
        (one.low <= 0) & (one.high >= 0), 0.0, np.minimum(np.abs(one.low), np.abs(one.high))
    )
    high = np.maximum(np.abs(one.low), np.abs(one.high))
    return chained(
        one, low, high, np.where(one.low > 0, 1.0, -1.0), np.where(one.high < 0, -1.0, 1.0)
    )


def _power(atom: Any, spans: list[Span]) -> Span:
    p = float(atom.p.value)
    if p == 1:
        return spans[0]

    def value(atom: Any, x: Array) -> Array:
        return np.asarray(np.abs(x) ** p if p > 1 and p % 2 == 0 else x**p)

    def slope(atom: Any, x: Array) -> Array:
        return np.asarray(
            np.sign(x) * p * np.abs(x) ** (p - 1) if p > 1 and p % 2 == 0 else p * x ** (p - 1)
        )

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
        lambda atom, x: 2 * np.clip(x, -m, m),
        -np.inf,
        0.0,
    )(atom, spans)


def _log_entropy(atom: Any, spans: list[Span]) -> Span:
    """x log(x / y), and kl_div, which is x log(x / y) - x + y."""
    x, y = (broadcast(span, atom.shape) for span in spans)
    if np.any(x.low <= 0) or np.any(y.low <= 0):
        raise Unknown
    low_ratio, high_ratio = np.log(x.low / y.high), np.log(x.high / y.low)
    other = -x.high / y.low, -x.low / y.high
    corners = [a * np.log(a / b) for a in (x.low, x.high) for b in (y.low, y.high)]
    if type(atom).__name__ == "kl_div":
        corners = [
            one - a + b
            for one, (a, b) in zip(
                corners, [(a, b) for a in (x.low, x.high) for b in (y.low, y.high)], strict=True
            )
        ]
        slope, other, low = (
            (low_ratio, high_ratio),
            (1 + other[0], 1 + other[1]),
            np.zeros(atom.shape),
        )
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
    return Span.of(
        low.max(keepdims=True),
        high.max(keepdims=True),
        span.down[able].min(axis=0, keepdims=True),
        span.up[able].max(axis=0, keepdims=True),
        span.steep[able].max(keepdims=True),
    )


def _largest(atom: Any, spans: list[Span]) -> Span:
    wide = [broadcast(span, atom.shape) for span in spans]
    size = wide[0].size
    parts = [_hull(atom, joined([taken(one, np.array([k])) for one in wide])) for k in range(size)]
    out = joined(parts)
    return Span(out.low.reshape(atom.shape), out.high.reshape(atom.shape), *out[2:])


def _mirrored(rule: Rule) -> Rule:
    """The rule of minus f(-x): min from max."""
    return lambda atom, spans: negated(
        atom, [rule(atom, [negated(atom, [span]) for span in spans])]
    )


def _sizes(span: Span) -> tuple[Array, Array]:
    """The smallest and largest absolute values of the entries, flat."""
    low, high = np.ravel(span.low), np.ravel(span.high)
    inside = (low <= 0) & (high >= 0)
    return np.where(inside, 0.0, np.minimum(np.abs(low), np.abs(high))), np.maximum(
        np.abs(low), np.abs(high)
    )


def _norm(atom: Any, span: Span) -> Span:
    name = type(atom).__name__
    if name == "norm1":
        return total(atom, _kinked(atom, [span]))
    if name == "norm_inf":
        return _hull(atom, _kinked(atom, [span]))
    p = float(atom.p)
    if p < 1:
        raise Unknown
    small, large = _sizes(span)
    low, high = (np.atleast_1d(np.linalg.norm(part, p)) for part in (small, large))
    positive = (
        np.where(np.ravel(span.low) > 0, 0.0, -1.0),
        np.where(np.ravel(span.high) < 0, 0.0, 1.0),
    )
    down, up, _ = scaled(*positive, span)
    dual = p / (p - 1) if p > 1 else np.inf
    reach = 1.0 if dual <= 2 else span.size ** (0.5 - 1 / dual)
    return Span.of(
        low,
        high,
        down.sum(axis=0, keepdims=True),
        up.sum(axis=0, keepdims=True),
        np.atleast_1d(reach * spectral(span)),
    )


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

    return reducing(one)(atom, [x])


def _quad_form(atom: Any, spans: list[Span]) -> Span:
    x, matrix = spans
    flat = [np.ravel(edge)[:, None] for edge in x[:2]]
    slope = interval_matmul(matrix.low, matrix.high, *flat)
    low, high = interval_matmul(flat[0].T, flat[1].T, *slope)
    down, up, _ = scaled(2 * slope[0], 2 * slope[1], x)
    low = (
        np.maximum(low, 0)
        if atom.is_atom_convex() and np.array_equal(matrix.low, matrix.high)
        else low
    )
    return Span.of(
        low.reshape(atom.shape),
        high.reshape(atom.shape),
        down.sum(axis=0, keepdims=True),
        up.sum(axis=0, keepdims=True),
    )


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
        first, last = (
            np.asarray(top + np.log(np.atleast_1d(part.sum()))) for part in (small, large)
        )
    return Span.of(first, last, down, up, span.steep.max(keepdims=True))


def _sum_largest(atom: Any, span: Span) -> Span:
    k = float(atom.k)
    whole = int(np.floor(k))

    def top(numbers: Array) -> Array:
        order = np.sort(np.ravel(numbers))[::-1]
        rest = (k - whole) * order[whole] if whole < min(k, len(order)) else 0.0
        return np.atleast_1d(order[:whole].sum() + rest)

    down, up, _ = scaled(np.zeros(span.size), np.ones(span.size), span)
    return Span.of(
        top(span.low),
        top(span.high),
        down.sum(axis=0, keepdims=True),
        up.sum(axis=0, keepdims=True),
        top(span.steep),
    )


def _sorted_product(atom: Any, spans: list[Span]) -> Span:
    """The product of sorted numbers with sorted weights, filled up by zeros. Sorting keeps bounds:
    entry by entry."""
    x, weights = spans
    if not weights.constant:
        raise Unknown
    missing = np.zeros(x.size - weights.size)
    low, high = (
        np.sort(np.append(np.ravel(edge), missing)) for edge in (weights.low, weights.high)
    )
    least, most = interval_product(np.sort(np.ravel(x.low)), np.sort(np.ravel(x.high)), low, high)
    down, up, _ = scaled(np.full(x.size, low[0]), np.full(x.size, high[-1]), x)
    size = float(np.linalg.norm(np.maximum(np.abs(low), np.abs(high))))
    return Span.of(
        np.reshape(least.sum(), atom.shape),
        np.reshape(most.sum(), atom.shape),
        down.sum(axis=0, keepdims=True),
        up.sum(axis=0, keepdims=True),
        np.atleast_1d(size * spectral(x)),
    )


def _geometric_mean(atom: Any, spans: list[Span]) -> Span:
    (one,) = spans
    if atom.size != 1 or np.any(one.low <= 0):
        raise Unknown
    low, high = np.ravel(one.low, order="F"), np.ravel(one.high, order="F")
    weights = np.zeros(len(low))
    weights[atom._keep] = [float(w) for w in atom.w]
    first, last = (np.reshape(np.exp(weights @ np.log(part)), atom.shape) for part in (low, high))
    least, most = (
        np.reshape(weights * part, one.low.shape, order="F")
        for part in (float(first) / high, float(last) / low)
    )
    down, up, _ = scaled(least, most, one)
    return Span.of(first, last, down.sum(axis=0, keepdims=True), up.sum(axis=0, keepdims=True))


_LOG: dict[str, Any] = {"lowest": np.nextafter(0, 1), "least": np.inf, "sign": -1.0}

RULES: dict[str, Rule] = {
    **AFFINE,
    **MATRICES,
    **dict.fromkeys(["Pnorm", "PnormApprox", "norm1", "norm_inf"], reducing(_norm)),
    **dict.fromkeys(["Power", "PowerApprox"], _power),
    **dict.fromkeys(["GeoMean", "GeoMeanApprox"], _geometric_mean),
    **dict.fromkeys(["kl_div", "rel_entr"], _log_entropy),
    "QuadForm": _quad_form,
    "abs": _kinked,
    "cummax": cumulative(_hull),
    "dotsort": _sorted_product,
    "entr": _convex(
        lambda atom, x: -x * np.log(x),
        lambda atom, x: -np.log(x) - 1,
        np.nextafter(0, 1),
        1 / math.e,
        -1.0,
    ),
    "exp": _convex(lambda atom, x: np.exp(x), lambda atom, x: np.exp(x)),
    "huber": _huber,
    "log": _convex(lambda atom, x: np.log(x), lambda atom, x: 1 / x, **_LOG),
    "log1p": _convex(
        lambda atom, x: np.log1p(x), lambda atom, x: 1 / (1 + x), np.nextafter(-1, 0), np.inf, -1.0
    ),
    "log_sum_exp": reducing(_log_sum_exp),
    "logistic": _convex(lambda atom, x: np.logaddexp(0, x), lambda atom, x: 1 / (1 + np.exp(-x))),
    "max": reducing(_hull),
    "maximum": _largest,
    "min": _mirrored(reducing(_hull)),
    "minimum": _mirrored(_largest),
    "quad_over_lin": _quad_over_lin,
    "sum_largest": reducing(_sum_largest),
    "xexp": _convex(lambda atom, x: x * np.exp(x), lambda atom, x: (1 + x) * np.exp(x), 0.0),
}
