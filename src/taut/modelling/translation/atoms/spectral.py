"""Rules for CVXPY's atoms of eigenvalues, singular values and inverses.

JAX differentiates eigenvectors, which fails when eigenvalues repeat. The functions below need only
the derivative of sums of eigenvalues or singular values, for which any choice of vectors gives a
valid subgradient. JAX's decompositions take the symmetric part of their argument, so the functions
of symmetric matrices are convex (or concave) on all square matrices.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import cho_solve

from ..attributes import constant_value
from . import kernels
from .affine import Operation, Rule, diagonal

__all__ = ["RULES"]

Pair = tuple[jax.Array, jax.Array]


@partial(jax.custom_jvp, nondiff_argnums=(1,))
def eigenvalue_sum(x: jax.Array, weights: tuple[float, ...]) -> jax.Array:
    """Weighted sum of the largest eigenvalues; `weights` ascend with the eigenvalues and never
    decrease."""
    values = jnp.linalg.eigvalsh(x)[..., -len(weights) :]
    return jnp.matmul(values, jnp.asarray(weights, x.dtype))


@eigenvalue_sum.defjvp
def _eigenvalue_sum_jvp(
    weights: tuple[float, ...], primals: tuple[jax.Array], tangents: tuple[jax.Array]
) -> Pair:
    (x,), (dx,) = primals, tangents
    values, vectors = jnp.linalg.eigh(x)
    top, weight = vectors[..., -len(weights) :], jnp.asarray(weights, x.dtype)
    moved = jnp.sum(top * jnp.matmul(dx, top), -2)
    return jnp.matmul(values[..., -len(weights) :], weight), jnp.matmul(moved, weight)


@partial(jax.custom_jvp, nondiff_argnums=(1,))
def singular_value_sum(x: jax.Array, count: int) -> jax.Array:
    """Sum of the `count` largest singular values of a matrix."""
    return jnp.sum(jnp.linalg.svd(x, compute_uv=False)[:count])


@singular_value_sum.defjvp
def _singular_value_sum_jvp(
    count: int, primals: tuple[jax.Array], tangents: tuple[jax.Array]
) -> Pair:
    (x,), (dx,) = primals, tangents
    left, values, right = jnp.linalg.svd(x, full_matrices=False)
    return jnp.sum(values[:count]), jnp.sum(jnp.matmul(left[:, :count], right[:count]) * dx)


@jax.custom_jvp
def spectral_entropy(x: jax.Array) -> jax.Array:
    """Entropy of the eigenvalues of a symmetric matrix."""
    return jnp.sum(kernels.entropy(_clean(jnp.linalg.eigvalsh(x))))


@spectral_entropy.defjvp
def _spectral_entropy_jvp(primals: tuple[jax.Array], tangents: tuple[jax.Array]) -> Pair:
    (x,), (dx,) = primals, tangents
    values, vectors = jnp.linalg.eigh(x)
    moved = jnp.sum(vectors * jnp.matmul(dx, vectors), 0)
    entropies, change = jax.jvp(kernels.entropy, (_clean(values),), (moved,))
    return jnp.sum(entropies), jnp.sum(change)


def _clean(values: jax.Array) -> jax.Array:
    """Eigenvalues within rounding error of zero become zero: those of singular matrices come out
    negative."""
    rounding = 4 * values.size * float(np.finfo(values.dtype).eps) * jnp.max(jnp.abs(values))
    return jnp.where(jnp.abs(values) <= rounding, 0, values)


@jax.custom_jvp
def log_determinant(x: jax.Array) -> jax.Array:
    """Logarithm of the determinant of a positive definite matrix, else minus infinity."""
    return _log_determinant(jnp.linalg.cholesky(x))


def _log_determinant(factor: jax.Array) -> jax.Array:
    value = 2 * jnp.sum(jnp.log(diagonal(factor)))
    return jnp.where(jnp.isnan(value), -jnp.inf, value)


@log_determinant.defjvp
def _log_determinant_jvp(primals: tuple[jax.Array], tangents: tuple[jax.Array]) -> Pair:
    (x,), (dx,) = primals, tangents
    factor = jnp.linalg.cholesky(x)
    return _log_determinant(factor), jnp.sum(_inverse(factor) * dx)


def _inverse(factor: jax.Array) -> jax.Array:
    return cho_solve((factor, True), jnp.eye(factor.shape[-1], dtype=factor.dtype))


@jax.custom_jvp
def inverse_trace(x: jax.Array) -> jax.Array:
    """Trace of the inverse of a positive definite matrix, else infinity."""
    return _inverse_trace(_inverse(jnp.linalg.cholesky(x)))


def _inverse_trace(inverse: jax.Array) -> jax.Array:
    value = jnp.sum(diagonal(inverse))
    return jnp.where(jnp.isnan(value), jnp.inf, value)


@inverse_trace.defjvp
def _inverse_trace_jvp(primals: tuple[jax.Array], tangents: tuple[jax.Array]) -> Pair:
    (x,), (dx,) = primals, tangents
    inverse = _inverse(jnp.linalg.cholesky(x))
    return _inverse_trace(inverse), -jnp.sum(jnp.matmul(inverse, inverse) * dx)


def _constantly(function: Callable[[jax.Array], jax.Array]) -> Rule:
    return lambda atom: function


def _lambda_max(atom: Any) -> Operation:
    return lambda x: eigenvalue_sum(x, (1.0,))


def _lambda_sum_largest(atom: Any) -> Operation:
    size, k = atom.args[0].shape[-1], float(atom.k)
    count = min(int(np.floor(k)), size)
    part = (k - count,) if count < min(k, size) else ()
    return lambda x: eigenvalue_sum(x, (*part, *(1.0,) * count))


def _sigma_max(atom: Any) -> Operation:
    return lambda x: singular_value_sum(x, 1)


def _nuclear_norm(atom: Any) -> Operation:
    return lambda x: singular_value_sum(x, min(x.shape))


def _matrix_fraction(atom: Any) -> Operation:
    matrix = constant_value(atom.args[1])
    if matrix is not None:
        form = kernels.quadratic(np.linalg.inv(matrix))
        return lambda x, p: form(x)
    return lambda x, p: jnp.sum(x * jnp.linalg.solve(p, x))


RULES: dict[str, Rule] = {
    "MatrixFrac": _matrix_fraction,
    "lambda_max": _lambda_max,
    "lambda_sum_largest": _lambda_sum_largest,
    "log_det": _constantly(log_determinant),
    "normNuc": _nuclear_norm,
    "sigma_max": _sigma_max,
    "tr_inv": _constantly(inverse_trace),
    "von_neumann_entr": _constantly(spectral_entropy),
}
