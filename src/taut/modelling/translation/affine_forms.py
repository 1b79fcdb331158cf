"""Affine expressions as sparse matrices over the entries of their variables and parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import cvxpy as cp
import numpy as np
from scipy import sparse

from ...engine import Array
from ...intervals.of_cvxpy import MOVED, WIDENED, moved_places
from .attributes import constant_value

MOST = 4_000_000
"""Matrices with more entries than this are not formed."""


class AffineForm(NamedTuple):
    """An expression's entries, in row order, as matrix @ v + offset, with all leaves in v."""

    matrix: Any
    """A sparse matrix in CSR format, (entry, leaf entry)."""
    offset: Array

    def taken(self, places: Array) -> AffineForm:
        """The entries at these places; -1 stands for zero."""
        flat = np.ravel(places)
        if not np.any(flat < 0):
            return AffineForm(self.matrix[flat], self.offset[flat])
        chosen = sparse.csr_matrix(
            (np.ones(np.count_nonzero(flat >= 0)), (np.flatnonzero(flat >= 0), flat[flat >= 0])),
            (flat.size, len(self.offset)),
        )
        return AffineForm(chosen @ self.matrix, chosen @ self.offset)

    def mixed(self, weights: Any) -> AffineForm:
        """The entries multiplied by a matrix, (new entry, entry)."""
        weights = sparse.csr_matrix(weights)
        return AffineForm(weights @ self.matrix, np.asarray(weights @ self.offset).ravel())


class AffineForms:
    """The affine forms of expressions over one vector of leaf entries.

    Arguments:
        leaves: for each leaf, by its `id`, the matrix that gives its entries from the vector.
        width: the length of the vector.
        fixed: values of parameters that do not change, by `id`.
    """

    def __init__(self, leaves: Mapping[int, Any], width: int, fixed: Mapping[int, Any]) -> None:
        self.width, self._leaves, self._fixed = width, leaves, fixed
        self._known: dict[int, AffineForm | None] = {}
        self._kept: list[Any] = []  # expressions, so that ids are not used again

    def of(self, expression: Any) -> AffineForm | None:
        """The affine form; None if the expression is not affine in all leaves, or too large."""
        key = id(expression)
        if key not in self._known:
            self._kept.append(expression)
            self._known[key] = self._of(expression)
        return self._known[key]

    def _of(self, expression: Any) -> AffineForm | None:
        if isinstance(expression, (cp.Variable, cp.Parameter)):
            if expression.id in self._leaves:
                matrix = self._leaves[expression.id]
                return AffineForm(matrix, np.zeros(matrix.shape[0]))
            value = self._fixed.get(expression.id)
            return None if value is None else self._constant(value)
        constant = constant_value(expression)
        if constant is not None:
            return None if np.iscomplexobj(constant) else self._constant(constant)
        rule = _RULES.get(type(expression).__name__)
        if rule is None or expression.size == 0:
            return None
        forms = [self.of(arg) for arg in expression.args]
        parts = [part for part in forms if part is not None]
        if len(parts) < len(forms):
            return None
        form = rule(expression, parts)
        return None if form is None or form.matrix.nnz > MOST else form

    def _constant(self, value: Any) -> AffineForm:
        flat = np.ravel(np.asarray(value, float))
        return AffineForm(sparse.csr_matrix((flat.size, self.width)), flat)


def groups(shape: tuple[int, ...], axis: Any) -> Array:
    """The places that each entry of a reduction over `axis` depends on, (entry, place)."""
    places = np.arange(int(np.prod(shape))).reshape(shape)
    if axis is None or places.ndim == 0:
        return places.reshape(1, -1)
    axes = [a % places.ndim for a in (axis if isinstance(axis, tuple) else (axis,))]
    rest = [k for k in range(places.ndim) if k not in axes]
    moved = np.moveaxis(places, rest, range(len(rest)))
    return moved.reshape(int(np.prod([places.shape[k] for k in rest])), -1)


Parts = list[AffineForm]
Rule = Callable[[Any, Parts], AffineForm | None]


def _moved(atom: Any, parts: Parts) -> AffineForm:
    return _joined(parts).taken(moved_places(atom))


def _cumulative(atom: Any, parts: Parts) -> AffineForm:
    size, shape = atom.args[0].size, atom.args[0].shape
    units = np.eye(size).reshape(size, *shape)
    return parts[0].mixed(np.stack([np.ravel(atom.numeric([unit])) for unit in units], axis=1))


def _joined(parts: Parts) -> AffineForm:
    if len(parts) == 1:
        return parts[0]
    return AffineForm(
        sparse.vstack([part.matrix for part in parts], format="csr"),
        np.concatenate([part.offset for part in parts]),
    )


def _wide(arg: Any, part: AffineForm, shape: tuple[int, ...]) -> AffineForm:
    """The entries in a larger shape; a single entry of any rank fits everywhere."""
    if arg.shape == shape:
        return part
    places = np.arange(arg.size).reshape(() if arg.size == 1 else arg.shape)
    return part.taken(np.broadcast_to(places, shape))


def _broadcast(atom: Any, parts: Parts) -> AffineForm:
    return _wide(atom.args[0], parts[0], atom.shape)


def _negated(atom: Any, parts: Parts) -> AffineForm:
    return AffineForm(-parts[0].matrix, -parts[0].offset)


def _added(atom: Any, parts: Parts) -> AffineForm:
    wide = [_wide(arg, part, atom.shape) for arg, part in zip(atom.args, parts, strict=True)]
    if len(wide) == 2:
        return AffineForm(wide[0].matrix + wide[1].matrix, wide[0].offset + wide[1].offset)
    total = sparse.hstack([sparse.identity(atom.size, format="csr")] * len(wide), format="csr")
    return _joined(wide).mixed(total)


def _sum(atom: Any, parts: Parts) -> AffineForm:
    which = groups(atom.args[0].shape, atom.axis)
    return parts[0].mixed(_indicator(which, len(parts[0].offset)))


def _indicator(which: Array, width: int) -> Any:
    rows = np.repeat(np.arange(len(which)), which.shape[1])
    return sparse.csr_matrix((np.ones(which.size), (rows, which.ravel())), (len(which), width))


def _trace(atom: Any, parts: Parts) -> AffineForm:
    n = atom.args[0].shape[0]
    return parts[0].mixed(_indicator(np.arange(0, n * n, n + 1)[None], n * n))


def _multiplied(atom: Any, parts: Parts) -> AffineForm | None:
    """Entry by entry; one factor must be constant."""
    wide = [_wide(arg, part, atom.shape) for arg, part in zip(atom.args, parts, strict=True)]
    for factor, other in (wide, wide[::-1]):
        if not factor.matrix.nnz:
            return other.mixed(sparse.diags(factor.offset))
    return None


def _divided(atom: Any, parts: Parts) -> AffineForm | None:
    wide = [_wide(arg, part, atom.shape) for arg, part in zip(atom.args, parts, strict=True)]
    if wide[1].matrix.nnz or np.any(wide[1].offset == 0):
        return None
    return wide[0].mixed(sparse.diags(1 / wide[1].offset))


def _matmul(atom: Any, parts: Parts) -> AffineForm | None:
    a, b = atom.args
    if a.ndim == 0 or b.ndim == 0:
        return _multiplied(atom, parts)
    if max(a.ndim, b.ndim) > 2:
        return None
    rows, columns = (a.shape[0] if a.ndim == 2 else 1), (b.shape[1] if b.ndim == 2 else 1)
    inner = b.shape[0]
    left, right = parts
    if not left.matrix.nnz and rows * inner * columns <= MOST:
        return right.mixed(sparse.kron(left.offset.reshape(rows, inner), sparse.identity(columns)))
    if not right.matrix.nnz and rows * inner * columns <= MOST:
        return left.mixed(
            sparse.kron(sparse.identity(rows), right.offset.reshape(inner, columns).T)
        )
    return None


_RULES: dict[str, Rule] = {
    **dict.fromkeys(MOVED, _moved),
    **dict.fromkeys(WIDENED, _broadcast),
    "AddExpression": _added,
    "DivExpression": _divided,
    "MulExpression": _matmul,
    "NegExpression": _negated,
    "Sum": _sum,
    "Trace": _trace,
    "cumsum": _cumulative,
    "multiply": _multiplied,
}
