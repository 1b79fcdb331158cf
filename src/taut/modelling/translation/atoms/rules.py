"""Rules for CVXPY's atoms: how each one reads in `jax.numpy`.

A rule takes the atom and returns the operation on the values of its operands. Indices and shapes
are known when the expression is translated, so selections become slices and pads rather than
gathers and scatters wherever that is cheaper inside a compiled loop.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ....intervals.of_cvxpy import WIDENED, moved_places
from ....jaxpr.maxima import larger, smaller
from ..attributes import constant_value
from . import kernels

Operation = Callable[..., jax.Array]
Rule = Callable[[Any], Operation]

MOST_SLICES = 4  # a selection made of more pieces than this is cheaper as one gather


def axes_of(atom: Any, ndim: int) -> tuple[int, ...]:
    """The axes that the atom reduces in an array of `ndim` dimensions: all if it names none."""
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


def take(x: jax.Array, index: np.ndarray[Any, Any]) -> jax.Array:
    """Entries of `x` at the constant row-order positions `index`, in the shape of `index`."""
    flat, places = jnp.reshape(x, (-1,)), np.ravel(index)
    pieces = _progressions(places)
    if pieces is None:
        out = flat.at[places].get(mode="promise_in_bounds")
    else:
        parts = [
            jax.lax.slice_in_dim(flat, piece.start, piece.stop, piece.step) for piece in pieces
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
    return pieces or [slice(0, 0, 1)]


def is_negated(expression: Any) -> bool:
    """Whether the expression is minus something."""
    return type(expression).__name__ == "NegExpression"


def _always(function: Operation) -> Rule:
    """Rule of an atom whose class says everything."""
    return lambda atom: function


def _fitted(function: Callable[[jax.Array, jax.Array], jax.Array]) -> Rule:
    """Rule of an elementwise atom, by a function of two arguments; one is only broadcast."""
    return lambda atom: lambda *xs: reduce(function, (fit(x, atom.shape) for x in xs))


def _reducing(function: Callable[[jax.Array, tuple[int, ...]], jax.Array]) -> Rule:
    """Rule of an atom that reduces axes by `function(x, axes)`."""
    return lambda atom: lambda x: jnp.reshape(function(x, axes_of(atom, x.ndim)), atom.shape)


# Affine atoms


def _add(atom: Any) -> Operation:
    """Sum of the arguments; negated ones arrive without their sign and are subtracted."""
    minus = [is_negated(arg) for arg in atom.args]

    def operation(*terms: jax.Array) -> jax.Array:
        terms = tuple(fit(term, atom.shape) for term in terms)
        total = -terms[0] if minus[0] else terms[0]
        for term, negative in zip(terms[1:], minus[1:], strict=True):
            total = jnp.subtract(total, term) if negative else jnp.add(total, term)
        return total

    return operation


_multiply = _fitted(jnp.multiply)


def _matmul(atom: Any) -> Operation:
    scalar = () in (atom.args[0].shape, atom.args[1].shape)
    return _multiply(atom) if scalar else kernels.product


def _reshape(atom: Any) -> Operation:
    """In column order (CVXPY's default) or row order, without a transpose where the two agree."""
    old, new = (tuple(n for n in shape if n != 1) for shape in (atom.args[0].shape, atom.shape))
    if atom.order == "C" or old == new or max(len(old), len(new)) <= 1:
        return lambda x: jnp.reshape(x, atom.shape)
    return lambda x: jnp.transpose(jnp.reshape(jnp.transpose(x), atom.shape[::-1]))


def _cumsum(atom: Any) -> Operation:
    if atom.args[0].ndim == 0:
        return lambda x: jnp.reshape(x, atom.shape)
    return lambda x: jnp.cumsum(x, atom.axis)


def _index(atom: Any) -> Operation:
    _, key = atom.get_data()
    return lambda x: x[key]


def _moved(atom: Any) -> Operation:
    places = moved_places(atom)
    return lambda x: take(x, places)


def _convolve(atom: Any) -> Operation:
    """Sums of anti-diagonals of the outer product, sheared by one place per row."""

    def operation(a: jax.Array, b: jax.Array) -> jax.Array:
        m, n = a.size, b.size
        outer = jnp.reshape(a, (m, 1)) * jnp.reshape(b, (1, n))
        flat = jnp.ravel(jnp.pad(outer, ((0, 0), (0, m))))
        sheared = jnp.reshape(flat[: m * (n + m - 1)], (m, n + m - 1))
        return jnp.reshape(jnp.sum(sheared, 0), atom.shape)

    return operation


# Elementwise atoms and reductions


def _huber(atom: Any) -> Operation:
    return lambda x, width: kernels.huber(x, jnp.reshape(width, ()))


def _power(atom: Any) -> Operation:
    p = float(atom.p.value)
    return lambda x: kernels.power(x, p)


def _norm(atom: Any) -> Operation:
    p = float(atom.p)
    if p == 2:
        return _reducing(kernels.euclidean_norm)(atom)
    norm = kernels.convex_norm if p > 1 else kernels.concave_norm
    return _reducing(lambda x, axes: norm(x, p, axes))(atom)


def _quad_over_lin(atom: Any) -> Operation:
    denominator = constant_value(atom.args[1])
    squares = _reducing(lambda x, axes: jnp.sum(jnp.square(x), axes))(atom)
    if denominator is not None:
        known = float(denominator.item())
        return lambda x, y: squares(x) if known == 1 else squares(x) / known

    def operation(x: jax.Array, y: jax.Array) -> jax.Array:
        total, scale = squares(x), jnp.reshape(y, ())
        inside = scale > 0
        # On the boundary y = 0 the function is 0 at x = 0 (where 0 is a subgradient) and infinite
        # elsewhere.
        outside = jnp.where(total > 0, jnp.inf, 0).astype(total.dtype)
        return jnp.where(inside, total / jnp.where(inside, scale, 1), outside)

    return operation


def _quad_form(atom: Any) -> Operation:
    matrix = constant_value(atom.args[1])
    if matrix is not None:
        form = kernels.quadratic(matrix)
        return lambda x, p: jnp.reshape(form(jnp.ravel(x)), atom.shape)

    def operation(x: jax.Array, p: jax.Array) -> jax.Array:
        flat = jnp.ravel(x)
        return jnp.reshape(jnp.sum(flat * kernels.product(p, flat)), atom.shape)

    return operation


def _sum_largest(atom: Any) -> Operation:
    k = float(atom.k)

    def operation(x: jax.Array) -> jax.Array:
        axes = axes_of(atom, x.ndim)
        others = [axis for axis in range(x.ndim) if axis not in axes]
        moved = jnp.transpose(x, (*others, *axes)) if others else x
        rows = jnp.reshape(moved, (*(x.shape[axis] for axis in others), -1))
        return jnp.reshape(kernels.top_sum(rows, k), atom.shape)

    return operation


def _dot_sort(atom: Any) -> Operation:
    def operation(x: jax.Array, w: jax.Array) -> jax.Array:
        flat, weights = jnp.ravel(x), jnp.ravel(w)
        ascending = jnp.sort(jnp.pad(weights, (0, flat.size - weights.size)))
        rank = jnp.argsort(jnp.argsort(jax.lax.stop_gradient(flat)))
        return jnp.sum(ascending[rank] * flat)

    return operation


def _geometric_mean(atom: Any) -> Operation:
    shape = atom.args[0].shape
    axes = axes_of(atom, len(shape))
    # The weights run over the reduced axes in column order.
    weights = np.zeros(int(np.prod([shape[axis] for axis in axes])))
    weights[atom._keep] = [float(w) for w in atom.w]
    weights = weights.reshape([shape[axis] for axis in axes], order="F").transpose(np.argsort(axes))
    weights = np.expand_dims(weights, [axis for axis in range(len(shape)) if axis not in axes])
    if np.count_nonzero(weights) == 1:  # then it is that entry, of either sign
        return lambda x: jnp.reshape(jnp.sum(jnp.where(weights > 0, x, 0), axes), atom.shape)
    mean = kernels.geometric_mean(weights, axes)
    return lambda x: jnp.reshape(mean(x), atom.shape)


def _perspective(atom: Any) -> Operation:
    """`s f(x / s)`; at s = 0 the recession function if it was given, else infinite."""
    from ..translate import translate

    ids = [variable.id for variable in atom.f.variables()]
    parameters = [parameter.id for parameter in atom.f.parameters()]
    function = translate(atom.f)
    recession = None if atom.f_recession is None else translate(atom.f_recession)
    outside = jnp.inf if atom.f.is_convex() else -jnp.inf

    def operation(s: jax.Array, *rest: jax.Array) -> jax.Array:
        s = jnp.reshape(s, ())
        xs, data = rest[: len(ids)], dict(zip(parameters, rest[len(ids) :], strict=True))
        inside = s > 0
        scale = jnp.where(inside, s, 1)
        value = scale * function({i: x / scale for i, x in zip(ids, xs, strict=True)}, data)
        limit = outside if recession is None else recession(dict(zip(ids, xs, strict=True)), data)
        return jnp.where(inside, value, limit)

    return operation


# Eigenvalues, singular values and inverses


def _lambda_sum_largest(atom: Any) -> Operation:
    size, k = atom.args[0].shape[-1], float(atom.k)
    count = min(int(np.floor(k)), size)
    part = (k - count,) if count < min(k, size) else ()
    return lambda x: kernels.eigenvalue_sum(x, (*part, *(1.0,) * count))


def _matrix_fraction(atom: Any) -> Operation:
    matrix = constant_value(atom.args[1])
    if matrix is not None:
        form = kernels.quadratic(np.linalg.inv(matrix))
        return lambda x, p: form(x)
    return lambda x, p: jnp.sum(x * jnp.linalg.solve(p, x))


RULES: dict[str, Rule] = {
    **dict.fromkeys(WIDENED, _fitted(jnp.add)),
    "AddExpression": _add,
    "Concatenate": lambda atom: lambda *parts: jnp.concatenate(parts, axis=atom.axis),
    "DivExpression": _fitted(jnp.divide),
    "GeoMean": _geometric_mean,
    "GeoMeanApprox": _geometric_mean,
    "Hstack": _always(lambda *parts: jnp.hstack(parts)),
    "MatrixFrac": _matrix_fraction,
    "MulExpression": _matmul,
    "NegExpression": _always(jnp.negative),
    "Pnorm": _norm,
    "PnormApprox": _norm,
    "Power": _power,
    "PowerApprox": _power,
    "QuadForm": _quad_form,
    "Sum": _reducing(jnp.sum),
    "Trace": _always(lambda x: jnp.sum(kernels.diagonal(x), -1)),
    "Vstack": _always(lambda *parts: jnp.vstack(parts)),
    "abs": _always(jnp.abs),
    "conv": _convolve,
    "convolve": _convolve,
    "cummax": lambda atom: lambda x: jax.lax.cummax(x, atom.axis or 0),  # no axis: a vector
    "cumsum": _cumsum,
    "diag_mat": lambda atom: lambda x: kernels.diagonal(x, atom.k),
    "diag_vec": lambda atom: lambda x: jnp.diag(x, atom.k),
    "dotsort": _dot_sort,
    "entr": _always(kernels.entropy),
    "exp": _always(jnp.exp),
    "huber": _huber,
    "imag": _always(jnp.zeros_like),
    "index": _index,
    "kl_div": _fitted(lambda x, y: kernels.cross_entropy(x, y) - x + y),
    "kron": _always(jnp.kron),
    "lambda_max": _always(lambda x: kernels.eigenvalue_sum(x, (1.0,))),
    "lambda_sum_largest": _lambda_sum_largest,
    "log": _always(jnp.log),
    "log1p": _always(jnp.log1p),
    "log_det": _always(kernels.log_determinant),
    "log_sum_exp": _reducing(kernels.log_sum_exp),
    "logistic": _always(jax.nn.softplus),
    "max": _reducing(kernels.largest),
    "maximum": _fitted(larger),
    "min": _reducing(lambda x, axes: -kernels.largest(-x, axes)),
    "minimum": _fitted(smaller),
    "multiply": _multiply,
    "norm1": _reducing(lambda x, axes: jnp.sum(jnp.abs(x), axes)),
    "normNuc": _always(lambda x: kernels.singular_value_sum(x, min(x.shape))),
    "norm_inf": _reducing(lambda x, axes: kernels.largest(jnp.abs(x), axes)),
    "perspective": _perspective,
    "quad_over_lin": _quad_over_lin,
    "rel_entr": _fitted(kernels.cross_entropy),
    "reshape": _reshape,
    "sigma_max": _always(lambda x: kernels.singular_value_sum(x, 1)),
    "special_index": _moved,
    "sum_largest": _sum_largest,
    "tr_inv": _always(kernels.inverse_trace),
    "transpose": lambda atom: lambda x: jnp.transpose(x, atom.axes),
    "upper_tri": _moved,
    "von_neumann_entr": _always(kernels.spectral_entropy),
    "xexp": _always(lambda x: x * jnp.exp(x)),
}
