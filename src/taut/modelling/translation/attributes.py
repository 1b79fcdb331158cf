"""Attributes of CVXPY's variables and parameters: bounds, signs, symmetry, patterns of zeros; and
values of parameters and constants."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import cvxpy as cp
import numpy as np
from cvxpy.atoms.affine.wraps import nonneg_wrap, nonpos_wrap, nsd_wrap, psd_wrap, symmetric_wrap

from ...engine import Array


def spans_of(leaves: Sequence[Any], start: int = 0) -> dict[int, slice]:
    """Where the entries of each leaf, in row order, are in one flat vector, by id."""
    spans = {}
    for leaf in leaves:
        spans[leaf.id] = slice(start, start + leaf.size)
        start += leaf.size
    return spans


def limits(leaf: Any) -> tuple[Array, Array]:
    """The bounds that a leaf's attributes state, infinite where they state none."""
    attributes, shape = leaf.attributes, leaf.shape
    lower, upper = np.full(shape, -np.inf), np.full(shape, np.inf)
    if attributes.get("nonneg") or attributes.get("pos"):
        lower = np.zeros(shape)
    if attributes.get("nonpos") or attributes.get("neg"):
        upper = np.zeros(shape)
    truth = whole(leaf, "boolean")
    lower = np.where(truth, np.maximum(lower, 0), lower)
    upper = np.where(truth, np.minimum(upper, 1), upper)
    if attributes.get("bounds") is not None:
        low, high = attributes["bounds"]
        # Bounds that are expressions are constraints: `reading.py`.
        if not isinstance(low, cp.Expression):
            lower = np.maximum(lower, np.broadcast_to(dense(low), shape))
        if not isinstance(high, cp.Expression):
            upper = np.minimum(upper, np.broadcast_to(dense(high), shape))
    zeros = ~pattern(leaf)
    return np.where(zeros, 0.0, lower), np.where(zeros, 0.0, upper)


def whole(leaf: Any, *kinds: str) -> Array:
    """Where the leaf takes whole numbers only, by "integer" and "boolean", or these `kinds`."""
    mask = np.zeros(leaf.shape or (1,), bool)
    for kind in kinds or ("integer", "boolean"):
        if leaf.attributes.get(kind):
            mask[getattr(leaf, f"{kind}_idx")] = True
    return mask.reshape(leaf.shape)


def is_symmetric(leaf: Any) -> bool:
    """Whether the attributes ask for a symmetric matrix."""
    attributes = leaf.attributes
    return bool(attributes["symmetric"] or attributes["PSD"] or attributes["NSD"])


def pattern(leaf: Any) -> Array:
    """Where the leaf may differ from zero, by its attributes "diag" and "sparsity"."""
    if leaf.attributes.get("diag"):
        return np.broadcast_to(np.eye(leaf.shape[-1], dtype=bool), leaf.shape)
    if leaf.attributes.get("sparsity"):
        mask = np.zeros(leaf.shape, bool)
        mask[tuple(leaf.sparse_idx)] = True
        return mask
    return np.ones(leaf.shape, bool)


def mirrored(value: Any) -> Any:
    """The transpose of a matrix, or of each in a stack: NumPy and JAX arrays, CVXPY expressions."""
    if not isinstance(value, cp.Expression):
        return value.swapaxes(-1, -2)
    return value.T if value.ndim <= 2 else cp.swapaxes(value, -1, -2)


def shaped(leaf: Any, flat: Any) -> Any:
    """Entries (..., size) in row order as values of the leaf. Works on NumPy and JAX arrays."""
    return counted(leaf, flat.reshape((*flat.shape[:-1], *leaf.shape)))


def counted(leaf: Any, value: Any) -> Any:
    """The part of an array (..., *shape) that matters: symmetric, and zero outside the pattern."""
    if is_symmetric(leaf):
        value = (value + mirrored(value)) / 2
    where = pattern(leaf)
    return value if where.all() else value * where.astype(value.dtype)


def wrapped(leaf: Any, flat: Any) -> Any:
    """The same for a CVXPY expression, marked with the signs that the attributes state."""
    value = cp.reshape(flat, leaf.shape, order="C")
    if is_symmetric(leaf):
        value = (value + mirrored(value)) / 2
        # CVXPY knows nothing of stacks of matrices.
        value = symmetric_wrap(value) if value.ndim == 2 else value
    where = pattern(leaf)
    if not where.all():
        value = cp.multiply(where.astype(float), value)
    lower, upper = limits(leaf)
    for holds, wrap in (
        (np.all(lower >= 0), nonneg_wrap),
        (np.all(upper <= 0), nonpos_wrap),
        (leaf.attributes.get("PSD") and value.ndim == 2, psd_wrap),
        (leaf.attributes.get("NSD") and value.ndim == 2, nsd_wrap),
    ):
        value = wrap(value) if holds else value
    return value


def ties(leaf: Any, flat: Any) -> list[Any]:
    """Constraints on a flat CVXPY expression that hold exactly if `shaped` would change nothing."""
    constraints, value, where = [], cp.reshape(flat, leaf.shape, order="C"), pattern(leaf)
    if is_symmetric(leaf) and leaf.shape[-1] > 1:
        constraints.append(cp.upper_tri(value) == cp.upper_tri(mirrored(value)))
    if not where.all():
        constraints.append(value[~where] == 0)
    return constraints


def value_of(parameter: Any) -> Array | None:
    """The parameter's value, if it has one."""
    value = parameter.value_sparse if parameter.attributes.get("sparsity") else parameter.value
    return None if value is None else dense(value)


def dense(value: Any) -> Array:
    """A number, array or sparse matrix as a dense array of floats."""
    return np.asarray(value.toarray() if hasattr(value, "toarray") else value, float)


def constant_value(expression: Any) -> np.ndarray[Any, Any] | None:
    """The value of a constant expression as a dense array of the expression's shape, else None.

    Complex numbers whose imaginary parts all vanish become real; other complex values stay as they
    are.
    """
    if expression.variables() or expression.parameters():  # CVXPY counts parameters as constants
        return None
    value = expression.value
    array = np.asarray(value.toarray() if hasattr(value, "toarray") else value)
    if np.iscomplexobj(array) and not np.any(array.imag):
        array = array.real
    return np.reshape(array if np.iscomplexobj(array) else array.astype(float), expression.shape)
