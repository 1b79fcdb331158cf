"""Rules for CVXPY's affine atoms: how each one reads in `jax.numpy`.

A rule takes the atom and returns the operation on the values of its operands. Indices and shapes
are known when the expression is translated, so selections become slices and pads rather than
gathers and scatters wherever that is cheaper inside a compiled loop.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .kernels import product

__all__ = ["RULES", "Operation", "Rule", "axes_of", "diagonal", "fit", "is_negated"]

Operation = Callable[..., jax.Array]
Rule = Callable[[Any], Operation]

MOST_SLICES = 4  # a selection made of more pieces than this is cheaper as one gather


def axes_of(atom: Any, ndim: int) -> tuple[int, ...]:
    """The axes that the axis atom reduces in an array of `ndim` dimensions: all if it names
    none."""
    if atom.axis is None or ndim == 0:
        return tuple(range(ndim))
    return tuple(atom.axis) if isinstance(atom.axis, tuple) else (int(atom.axis),)


def fit(x: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    """Broadcast `x` to `shape` the way CVXPY does: a single entry of any rank fits everywhere."""
    if x.shape == shape:
        return x
    if x.size == 1:
        x = jnp.reshape(x, ())
    return jnp.broadcast_to(x, shape)


def reshape(x: jax.Array, shape: tuple[int, ...], order: str = "F") -> jax.Array:
    """Reshape in column order (CVXPY's default) or row order, without a transpose where the two
    agree."""
    if order == "C" or _order_is_free(x.shape, shape):
        return jnp.reshape(x, shape)
    return jnp.transpose(jnp.reshape(jnp.transpose(x), shape[::-1]))


def _order_is_free(old: tuple[int, ...], new: tuple[int, ...]) -> bool:
    old, new = (tuple(n for n in shape if n != 1) for shape in (old, new))
    return old == new or (len(old) <= 1 and len(new) <= 1)


def take(x: jax.Array, index: np.ndarray[Any, Any]) -> jax.Array:
    """Entries of `x` at the constant row-order positions `index`, in the shape of `index`."""
    flat, places = jnp.reshape(x, (-1,)), np.ravel(index)
    pieces = _progressions(places)
    if pieces is None:
        out = flat.at[places].get(mode="promise_in_bounds")
    else:
        parts = [
            jax.lax.slice_in_dim(flat, piece.start, piece.stop, piece.step or 1) for piece in pieces
        ]
        out = jnp.concatenate(parts) if len(parts) > 1 else parts[0]
    return jnp.reshape(out, index.shape)


def _progressions(places: np.ndarray[Any, Any]) -> list[slice] | None:
    """The positions as at most MOST_SLICES slices, or None."""
    pieces: list[slice] = []
    start = 0
    while start < places.size:
        if len(pieces) == MOST_SLICES:
            return None
        step = int(places[start + 1] - places[start]) if start + 1 < places.size else 1
        step = step if step > 0 else 1
        stop = start + 1
        while stop < places.size and places[stop] - places[stop - 1] == step:
            stop += 1
        pieces.append(slice(int(places[start]), int(places[stop - 1]) + 1, step))
        start = stop
    return pieces or [slice(0, 0)]


def _add(atom: Any) -> Operation:
    """Sum of the arguments; negated ones arrive without their sign and are subtracted."""
    minus = [is_negated(arg) for arg in atom.args]

    def operation(*terms: jax.Array) -> jax.Array:
        total = -terms[0] if minus[0] else terms[0]
        for term, negative in zip(terms[1:], minus[1:], strict=True):
            total = jnp.subtract(total, term) if negative else jnp.add(total, term)
        return total

    return lambda *terms: operation(*(fit(term, atom.shape) for term in terms))


def is_negated(expression: Any) -> bool:
    """Whether the expression is minus something."""
    return type(expression).__name__ == "NegExpression"


def _multiply(atom: Any) -> Operation:
    return lambda a, b: jnp.multiply(fit(a, atom.shape), fit(b, atom.shape))


def _divide(atom: Any) -> Operation:
    return lambda a, b: jnp.divide(fit(a, atom.shape), fit(b, atom.shape))


def _matmul(atom: Any) -> Operation:
    if () in (atom.args[0].shape, atom.args[1].shape):
        return _multiply(atom)
    return product


def _negate(atom: Any) -> Operation:
    return jnp.negative


def _identity(atom: Any) -> Operation:
    return lambda x: x


def _zero(atom: Any) -> Operation:
    return jnp.zeros_like


def _broadcast(atom: Any) -> Operation:
    return lambda x: fit(x, atom.shape)


def _sum(atom: Any) -> Operation:
    return lambda x: jnp.reshape(jnp.sum(x, axes_of(atom, x.ndim)), atom.shape)


def _cumsum(atom: Any) -> Operation:
    if atom.args[0].ndim == 0:
        return lambda x: jnp.reshape(x, atom.shape)
    return lambda x: jnp.cumsum(x, atom.axis)


def _reshape(atom: Any) -> Operation:
    return lambda x: reshape(x, atom.shape, atom.order)


def _transpose(atom: Any) -> Operation:
    return lambda x: jnp.transpose(x, atom.axes)


def _index(atom: Any) -> Operation:
    _, key = atom.get_data()
    return lambda x: x[key]


def _special_index(atom: Any) -> Operation:
    index = np.arange(atom.args[0].size).reshape(atom.args[0].shape)[atom.key]
    return lambda x: take(x, index)


def _hstack(atom: Any) -> Operation:
    return lambda *parts: jnp.concatenate(
        [jnp.reshape(x, (-1,)) if x.ndim == 0 else x for x in parts],
        axis=min(len(atom.shape) - 1, 1),
    )


def _vstack(atom: Any) -> Operation:
    return lambda *parts: jnp.concatenate(
        [jnp.reshape(x, (1, x.size)) if x.ndim < 2 else x for x in parts], axis=0
    )


def _concatenate(atom: Any) -> Operation:
    if atom.axis is None:
        return lambda *parts: jnp.concatenate([jnp.reshape(x, (-1,)) for x in parts])
    return lambda *parts: jnp.concatenate(parts, axis=atom.axis)


def diagonal(x: jax.Array, k: int = 0) -> jax.Array:
    """The k-th diagonal of square matrices, as one slice with a stride."""
    n = x.shape[-1]
    first = k if k >= 0 else -k * n
    flat = jnp.reshape(x, (*x.shape[:-2], n * n))
    last = min(first + max(n - abs(k), 0) * (n + 1), n * n)
    return jax.lax.slice_in_dim(
        flat, min(first, last), last, n + 1, axis=-1
    )  # JAX 0.8 turns strides in brackets into gathers


def _diagonal(atom: Any) -> Operation:
    return lambda x: diagonal(x, atom.k)


def _diagonal_matrix(atom: Any) -> Operation:
    n, k = atom.shape[0], atom.k
    before = k if k >= 0 else -k * n
    used = max((n - abs(k) - 1) * (n + 1) + 1, 0)

    def operation(x: jax.Array) -> jax.Array:
        padded = jax.lax.pad(x, jnp.zeros((), x.dtype), [(before, n * n - before - used, n)])
        return jnp.reshape(padded, (n, n))

    return operation


def _trace(atom: Any) -> Operation:
    return lambda x: jnp.sum(diagonal(x), -1)


def _upper_triangle(atom: Any) -> Operation:
    shape = atom.args[0].shape
    rows, columns = np.triu_indices(shape[-1], k=1)
    index = np.arange(atom.args[0].size).reshape(shape)[..., rows, columns].reshape(atom.shape)
    return lambda x: take(x, index)


def _kron(atom: Any) -> Operation:
    def operation(a: jax.Array, b: jax.Array) -> jax.Array:
        (m, n), (p, q) = a.shape, b.shape
        return jnp.reshape(jnp.reshape(a, (m, 1, n, 1)) * jnp.reshape(b, (1, p, 1, q)), atom.shape)

    return operation


def _convolve(atom: Any) -> Operation:
    """Sums of the anti-diagonals of the outer product, lined up by shearing it one place per
    row."""

    def operation(a: jax.Array, b: jax.Array) -> jax.Array:
        m, n = a.size, b.size
        outer = jnp.reshape(a, (m, 1)) * jnp.reshape(b, (1, n))
        flat = jnp.reshape(jnp.pad(outer, ((0, 0), (0, m))), (-1,))
        sheared = jnp.reshape(flat[: m * (n + m - 1)], (m, n + m - 1))
        return jnp.reshape(jnp.sum(sheared, 0), atom.shape)

    return operation


RULES: dict[str, Rule] = {
    "AddExpression": _add,
    "Concatenate": _concatenate,
    "DivExpression": _divide,
    "Hstack": _hstack,
    "MulExpression": _matmul,
    "NegExpression": _negate,
    "Promote": _broadcast,
    "Sum": _sum,
    "Trace": _trace,
    "Vstack": _vstack,
    "Wrap": _identity,
    "broadcast_to": _broadcast,
    "conj": _identity,  # complex numbers never get this far
    "conv": _convolve,
    "convolve": _convolve,
    "cumsum": _cumsum,
    "diag_mat": _diagonal,
    "diag_vec": _diagonal_matrix,
    "hermitian_wrap": _identity,
    "imag": _zero,
    "index": _index,
    "kron": _kron,
    "multiply": _multiply,
    "nonneg_wrap": _identity,
    "nonpos_wrap": _identity,
    "nsd_wrap": _identity,
    "psd_wrap": _identity,
    "real": _identity,
    "reshape": _reshape,
    "skew_symmetric_wrap": _identity,
    "special_index": _special_index,
    "symmetric_wrap": _identity,
    "transpose": _transpose,
    "upper_tri": _upper_triangle,
}
