"""Rows such as `norm(x - c) <= r` that describe a ball, an l1 ball or a box, read from the
expression."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ...engine import Array
from ..translation.affine_forms import AffineForm, AffineForms, groups

__all__ = ["RoundSet", "round_sets"]

SAME = 1e-12
"""Numbers that differ by less than this, relatively, are equal."""
LARGEST = 2000
"""Sets of more entries than this are not looked for."""


class RoundSet(NamedTuple):
    """One row of a constraint: |x - centre| <= radius for the entries at `places`, in the norm
    `kind`."""

    kind: str
    """ "ball", "l1" or "box"."""
    places: Array
    centre: Array
    radius: float | Array
    """One number per entry for a box."""


def round_sets(expression: Any, forms: AffineForms) -> list[RoundSet | None]:
    """For each entry of an expression that must not exceed zero the set it describes, if it is one
    of these."""
    nothing: list[RoundSet | None] = [None] * expression.size
    found = _single_term(expression, forms)
    if found is None:
        return nothing
    term, limit = found
    matched = _matched(term, forms)
    if matched is None:
        return nothing
    kind, argument, axis, squared, scale = matched
    form = forms.of(argument)
    which = groups(argument.shape, axis)
    if form is None or len(which) != expression.size or np.any(limit < 0):
        return nothing
    limit = np.sqrt(limit / scale) if squared else limit / scale
    return [
        _set(kind, form.taken(places), float(edge))
        for places, edge in zip(which, limit, strict=True)
    ]


def _single_term(expression: Any, forms: AffineForms) -> tuple[Any, Array] | None:
    """The only term that is not constant, and the number that it must not exceed, for each
    entry."""
    terms = expression.args if type(expression).__name__ == "AddExpression" else [expression]
    constant, main = np.zeros(expression.shape), None
    for term in terms:
        form = forms.of(term)
        if form is not None and not form.matrix.nnz:
            constant = constant + form.offset.reshape(term.shape)
        elif main is None and term.size == expression.size:
            main = term
        else:
            return None
    if main is None:
        return None
    limit = -np.ravel(np.broadcast_to(constant, expression.shape))
    while type(main).__name__ in ("multiply", "MulExpression", "DivExpression"):
        parts = [forms.of(arg) for arg in main.args]
        at = next(
            (i for i, part in enumerate(parts) if part is not None and part.offset.size == 1), None
        )
        factor = None if at is None else parts[at]
        if (
            at is None
            or factor is None
            or factor.matrix.nnz
            or (type(main).__name__ == "DivExpression" and at == 0)
        ):
            return None
        number = float(factor.offset[0])
        number = 1 / number if type(main).__name__ == "DivExpression" and number else number
        if number <= 0:
            return None
        main, limit = main.args[1 - at], limit / number
    return main, limit


def _matched(term: Any, forms: AffineForms) -> tuple[str, Any, Any, bool, float] | None:
    """Kind of set, argument, axis, whether the term is a square, and a factor of it."""
    name = type(term).__name__
    inner: Any = term.args[0] if term.args else None
    below = type(inner).__name__
    if name in ("Pnorm", "PnormApprox") and float(term.p) == 2:
        return "ball", inner, term.axis, False, 1.0
    if name in ("norm1", "norm_inf"):
        return ("l1" if name == "norm1" else "box"), inner, term.axis, False, 1.0
    if name == "abs":
        return "box", inner, (), False, 1.0
    if name == "Sum" and below == "abs":
        return "l1", inner.args[0], term.axis, False, 1.0
    if name == "Sum" and below in ("Power", "PowerApprox") and float(inner.p.value) == 2:
        return "ball", inner.args[0], term.axis, True, 1.0
    if name in ("Power", "PowerApprox") and float(term.p.value) == 2:
        if below in ("Pnorm", "PnormApprox") and float(inner.p) == 2:
            return "ball", inner.args[0], inner.axis, True, 1.0
        return None
    if name == "quad_over_lin":
        scale = forms.of(term.args[1])
        if (
            scale is not None
            and not scale.matrix.nnz
            and scale.offset.size == 1
            and scale.offset[0] > 0
        ):
            return "ball", inner, getattr(term, "axis", None), True, 1 / float(scale.offset[0])
    if name == "QuadForm":
        matrix = forms.of(term.args[1])
        if matrix is not None and not matrix.matrix.nnz:
            square = matrix.offset.reshape(term.args[1].shape)
            if square[0, 0] > 0 and np.array_equal(square, square[0, 0] * np.eye(len(square))):
                return "ball", inner, None, True, float(square[0, 0])
    return None


def _set(kind: str, form: AffineForm, limit: float) -> RoundSet | None:
    """The set {x : |A x + b| <= limit}, if A is a multiple of an orthonormal matrix on its
    entries."""
    places = np.unique(form.matrix.indices[form.matrix.data != 0])
    if not 0 < len(places) <= LARGEST:
        return None
    matrix = np.asarray(form.matrix[:, places].toarray())
    if kind == "ball":
        squares = matrix.T @ matrix
        size = float(squares[0, 0])
        if np.abs(squares - size * np.eye(len(places))).max() > SAME * size:
            return None
        centre = -(matrix.T @ form.offset) / size
        rest = float(form.offset @ form.offset - size * centre @ centre)
        room = limit**2 - (rest if rest > SAME * (1 + float(form.offset @ form.offset)) else 0.0)
        return RoundSet(kind, places, centre, float(np.sqrt(room / size))) if room > 0 else None
    if np.any((matrix != 0).sum(axis=1) > 1):
        return None
    rows, columns = np.nonzero(matrix)
    factors = matrix[rows, columns]
    empty = np.setdiff1d(np.arange(len(matrix)), rows)
    if kind == "l1":
        size = float(np.abs(factors[0]))
        room = limit - float(np.abs(form.offset[empty]).sum())
        if (
            len(rows) > len(places)
            or np.abs(np.abs(factors) - size).max() > SAME * size
            or room <= 0
        ):
            return None
        centre = np.zeros(len(places))
        centre[columns] = -form.offset[rows] / factors
        return RoundSet(kind, places, centre, room / size)
    low, high = np.full(len(places), -np.inf), np.full(len(places), np.inf)
    middle, reach = -form.offset[rows] / factors, limit / np.abs(factors)
    np.maximum.at(low, columns, middle - reach)
    np.minimum.at(high, columns, middle + reach)
    if np.any(np.abs(form.offset[empty]) > limit) or np.any(low > high):
        return None
    return RoundSet(kind, places, (low + high) / 2, (high - low) / 2)
