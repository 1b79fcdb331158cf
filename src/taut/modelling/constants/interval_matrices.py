"""Bounds on CVXPY's atoms of eigenvalues, singular values and inverses from bounds on the entries
of the matrix.

A symmetric matrix whose entries are within `room` of those of `middle` has eigenvalues within the
spectral norm of `room` of those of `middle` (Weyl).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...engine import Array
from .interval_affine import Rule
from .intervals import Span, Unknown, scaled, spectral

__all__ = ["MATRICES", "SPECTRAL"]


Known = tuple[float, float] | None
"""Bounds on all eigenvalues that are known otherwise."""


def _eigenvalue(atom: Any, spans: list[Span], known: Known = None) -> Span:
    """The largest eigenvalue or singular value, and the sum of all singular values, which are
    Lipschitz in the matrix."""
    (one,) = spans
    if one.low.ndim != 2:
        raise Unknown
    middle, room = (one.low + one.high) / 2, (one.high - one.low) / 2
    name = type(atom).__name__
    values = (
        np.linalg.eigvalsh(middle)[::-1]
        if name == "lambda_max"
        else np.linalg.svd(middle, compute_uv=False)
    )
    count = len(values) if name == "normNuc" else 1
    value, reach = values[:count].sum(), np.linalg.norm(room, 2) * count
    least, most = known or (-np.inf, np.inf)
    down, up, _ = scaled(-np.ones(one.size), np.ones(one.size), one)
    low, high = max(value - reach, least), min(value + reach, most)
    steep = np.atleast_1d(np.sqrt(count) * spectral(one))
    down, up = down.sum(axis=0, keepdims=True), up.sum(axis=0, keepdims=True)
    return Span.of(np.reshape(low, atom.shape), np.reshape(high, atom.shape), down, up, steep)


def _eigenvalues(span: Span, known: Known = None) -> tuple[Array, Array]:
    """Bounds on the eigenvalues of symmetric matrices between bounds, in ascending order."""
    if span.low.ndim != 2:
        raise Unknown
    low, high = ((edge + edge.T) / 2 for edge in (span.low, span.high))
    values, reach = np.linalg.eigvalsh((low + high) / 2), np.linalg.norm((high - low) / 2, 2)
    room = reach + 1e-13 * (1 + np.abs(values).max())
    least, most = known or (-np.inf, np.inf)
    return np.maximum(values - room, least), np.minimum(values + room, most)


def _of_eigenvalues(
    atom: Any, span: Span, low: Array, high: Array, slope_low: Array, slope_high: Array
) -> Span:
    """A sum of functions of the eigenvalues, with bounds on each function and on its derivative.

    The gradient in the matrix has the derivatives as eigenvalues: their root of squares is its
    norm, and no entry exceeds the largest of them in absolute value.
    """
    size = np.maximum(np.abs(slope_low), np.abs(slope_high))
    down, up, _ = scaled(np.full(span.size, -size.max()), np.full(span.size, size.max()), span)
    return Span.of(
        np.reshape(low.sum(), atom.shape),
        np.reshape(high.sum(), atom.shape),
        down.sum(axis=0, keepdims=True),
        up.sum(axis=0, keepdims=True),
        np.atleast_1d(np.linalg.norm(size) * spectral(span)),
    )


def _sum_of_largest(atom: Any, spans: list[Span], known: Known = None) -> Span:
    low, high = _eigenvalues(spans[0], known)
    k, n = float(atom.k), len(low)
    weights = np.clip(k - np.arange(n)[::-1], 0, 1)
    return _of_eigenvalues(atom, spans[0], weights * low, weights * high, weights, weights)


def _positive(span: Span, known: Known = None) -> tuple[Array, Array]:
    low, high = _eigenvalues(span, known)
    if low[0] <= 0:
        raise Unknown
    return low, high


def _log_determinant(atom: Any, spans: list[Span], known: Known = None) -> Span:
    low, high = _positive(spans[0], known)
    return _of_eigenvalues(atom, spans[0], np.log(low), np.log(high), 1 / high, 1 / low)


def _inverse_trace(atom: Any, spans: list[Span], known: Known = None) -> Span:
    low, high = _positive(spans[0], known)
    return _of_eigenvalues(atom, spans[0], 1 / high, 1 / low, -1 / low**2, -1 / high**2)


def _entropy(atom: Any, spans: list[Span], known: Known = None) -> Span:
    low, high = _positive(spans[0], known)
    ends = -low * np.log(low), -high * np.log(high)
    top = np.clip(np.exp(-1.0), low, high)
    return _of_eigenvalues(
        atom, spans[0], np.minimum(*ends), -top * np.log(top), -np.log(high) - 1, -np.log(low) - 1
    )


def _matrix_fraction(atom: Any, spans: list[Span]) -> Span:
    """trace(X' P^-1 X), whose gradients are 2 P^-1 X and -P^-1 X X' P^-1."""
    x, matrix = spans
    least, most = _positive(matrix)
    inside = (x.low <= 0) & (x.high >= 0)
    small = np.where(inside, 0.0, np.minimum(np.abs(x.low), np.abs(x.high)))
    squares = float(np.sum(small**2)), float(np.sum(np.maximum(np.abs(x.low), np.abs(x.high)) ** 2))
    steep = 2 * np.sqrt(squares[1]) / least[0]
    down, up, _ = scaled(np.full(x.size, -steep), np.full(x.size, steep), x)
    down, up, norm = (
        down.sum(axis=0, keepdims=True),
        up.sum(axis=0, keepdims=True),
        steep * spectral(x),
    )
    if not matrix.constant:
        turn = squares[1] / least[0] ** 2
        lower, upper, _ = scaled(np.full(matrix.size, -turn), np.full(matrix.size, turn), matrix)
        down, up = down + lower.sum(axis=0, keepdims=True), up + upper.sum(axis=0, keepdims=True)
        norm += turn * spectral(matrix)
    return Span.of(
        np.reshape(squares[0] / most[-1], atom.shape),
        np.reshape(squares[1] / least[0], atom.shape),
        down,
        up,
        np.atleast_1d(norm),
    )


Eigenvalue = Callable[[Any, list[Span], Known], Span]


def _without(rule: Eigenvalue) -> Rule:
    return lambda atom, spans: rule(atom, spans, None)


SPECTRAL: dict[str, Eigenvalue] = {
    "lambda_max": _eigenvalue,
    "lambda_sum_largest": _sum_of_largest,
    "log_det": _log_determinant,
    "tr_inv": _inverse_trace,
    "von_neumann_entr": _entropy,
}
"""Atoms of the eigenvalues of one matrix, for which they may be known."""
MATRICES: dict[str, Rule] = {
    **dict.fromkeys(["normNuc", "sigma_max"], _eigenvalue),
    "MatrixFrac": _matrix_fraction,
    **{name: _without(rule) for name, rule in SPECTRAL.items()},
}
