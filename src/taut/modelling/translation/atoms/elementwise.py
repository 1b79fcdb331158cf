"""Rules for CVXPY's elementwise and reducing atoms (matrix functions are in `spectral`)."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ....jaxpr.maxima import larger, smaller
from ..attributes import constant_value
from . import kernels
from .affine import Operation, Rule, axes_of, fit

__all__ = ["RULES"]


def _elementwise(function: Callable[[jax.Array], jax.Array]) -> Rule:
    return lambda atom: function


def _pairwise(function: Callable[[jax.Array, jax.Array], jax.Array]) -> Rule:
    """Rule of an elementwise atom of two or more arguments."""

    def rule(atom: Any) -> Operation:
        return lambda *xs: reduce(function, (fit(x, atom.shape) for x in xs))

    return rule


def _reducing(function: Callable[[jax.Array, tuple[int, ...]], jax.Array]) -> Rule:
    """Rule of an atom that reduces axes by `function(x, axes)`."""

    def rule(atom: Any) -> Operation:
        return lambda x: jnp.reshape(function(x, axes_of(atom, x.ndim)), atom.shape)

    return rule


def _x_exp_x(x: jax.Array) -> jax.Array:
    return x * jnp.exp(x)


def _kl_divergence(x: jax.Array, y: jax.Array) -> jax.Array:
    return kernels.cross_entropy(x, y) - x + y


def _huber(atom: Any) -> Operation:
    return lambda x, width: kernels.huber(x, jnp.reshape(width, ()))


def _power(atom: Any) -> Operation:
    p = float(atom.p.value)
    return lambda x: kernels.power(x, p)


def _norm(atom: Any) -> Operation:
    p = float(atom.p)

    def operation(x: jax.Array) -> jax.Array:
        axes = axes_of(atom, x.ndim)
        if p == 2:
            return jnp.reshape(kernels.euclidean_norm(x, axes), atom.shape)
        norm = kernels.convex_norm if p > 1 else kernels.concave_norm
        return jnp.reshape(norm(x, p, axes), atom.shape)

    return operation


def _quad_over_lin(atom: Any) -> Operation:
    denominator = constant_value(atom.args[1])
    known = None if denominator is None else float(denominator.item())

    def operation(x: jax.Array, y: jax.Array) -> jax.Array:
        total = jnp.reshape(jnp.sum(jnp.square(x), axes_of(atom, x.ndim)), atom.shape)
        if known is not None:
            return total if known == 1 else total / known
        scale = jnp.reshape(y, ())
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
        return lambda x, p: jnp.reshape(form(jnp.reshape(x, (-1,))), atom.shape)

    def operation(x: jax.Array, p: jax.Array) -> jax.Array:
        flat = jnp.reshape(x, (-1,))
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
        flat, weights = jnp.reshape(x, (-1,)), jnp.reshape(w, (-1,))
        ascending = jnp.sort(jnp.pad(weights, (0, flat.size - weights.size)))
        rank = jnp.argsort(jnp.argsort(jax.lax.stop_gradient(flat)))
        return jnp.sum(ascending[rank] * flat)

    return operation


def _cumulative_max(atom: Any) -> Operation:
    return lambda x: jax.lax.cummax(x, atom.axis or 0)  # without an axis CVXPY takes vectors only


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
    """The perspective `s f(x / s)`; at s = 0 the recession function if it was given, else
    infinite."""
    from ..translate import translate

    ids = [variable.id for variable in atom.f.variables()]
    parameters = [parameter.id for parameter in atom.f.parameters()]
    function = translate(atom.f)
    recession = None if atom.f_recession is None else translate(atom.f_recession)
    outside = jnp.inf if atom.f.is_convex() else -jnp.inf

    def operation(s: jax.Array, *rest: jax.Array) -> jax.Array:
        s = jnp.reshape(s, ())
        xs, given = rest[: len(ids)], dict(zip(parameters, rest[len(ids) :], strict=True))
        inside = s > 0
        scale = jnp.where(inside, s, 1)
        value = scale * function({i: x / scale for i, x in zip(ids, xs, strict=True)}, given)
        limit = outside if recession is None else recession(dict(zip(ids, xs, strict=True)), given)
        return jnp.where(inside, value, limit)

    return operation


RULES: dict[str, Rule] = {
    "GeoMean": _geometric_mean,
    "GeoMeanApprox": _geometric_mean,
    "Pnorm": _norm,
    "PnormApprox": _norm,
    "Power": _power,
    "PowerApprox": _power,
    "QuadForm": _quad_form,
    "abs": _elementwise(jnp.abs),
    "cummax": _cumulative_max,
    "dotsort": _dot_sort,
    "entr": _elementwise(kernels.entropy),
    "exp": _elementwise(jnp.exp),
    "huber": _huber,
    "kl_div": _pairwise(_kl_divergence),
    "log": _elementwise(jnp.log),
    "log1p": _elementwise(jnp.log1p),
    "log_sum_exp": _reducing(kernels.log_sum_exp),
    "logistic": _elementwise(jax.nn.softplus),
    "max": _reducing(kernels.largest),
    "maximum": _pairwise(larger),
    "min": _reducing(lambda x, axes: -kernels.largest(-x, axes)),
    "minimum": _pairwise(smaller),
    "norm1": _reducing(lambda x, axes: jnp.sum(jnp.abs(x), axes)),
    "norm_inf": _reducing(lambda x, axes: kernels.largest(jnp.abs(x), axes)),
    "perspective": _perspective,
    "quad_over_lin": _quad_over_lin,
    "rel_entr": _pairwise(kernels.cross_entropy),
    "sum_largest": _sum_largest,
    "xexp": _elementwise(_x_exp_x),
}
