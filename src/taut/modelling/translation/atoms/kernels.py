"""Convex and concave functions whose JAX derivative is a subgradient everywhere, also where JAX
alone fails.

Plain `jax.numpy` gives NaN for the gradient of a norm at zero or of a geometric mean on its
boundary. The functions here carry their own derivative rule (`jax.custom_jvp`, so forward and
reverse mode, `vmap` and second derivatives all work). At a kink the rule picks one subgradient of a
convex function, one supergradient of a concave one.

Some concave functions (roots, entropy, geometric means) have an infinite slope on the boundary of
their domain, where no supergradient exists. There the rule gives a finite slope that obeys the
supergradient inequality up to an error of the order of the square root of machine precision:
infinity would turn into NaN as soon as the chain rule multiplies it with a zero.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import cho_solve

SMALL_MATRIX = 32  # entries; measured in compiled loops with and without a batch of seeds

Axes = tuple[int, ...]
Pair = tuple[jax.Array, jax.Array]


def _precision(x: jax.Array) -> tuple[float, float]:
    """Square root of the machine precision of `x`, and its smallest normal number."""
    info = np.finfo(x.dtype)
    return float(info.eps) ** 0.5, float(info.tiny)


@partial(jax.custom_jvp, nondiff_argnums=(1,))
def largest(x: jax.Array, axes: Axes) -> jax.Array:
    """The largest entry over `axes`; at a tie the derivative is that of the first one.

    JAX's own rule looks for entries that equal the maximum. A compiler that computes the entries
    twice, with other rounding, makes it find none, and the derivative infinite.
    """
    return jnp.max(x, axes)


@largest.defjvp
def _largest_jvp(axes: Axes, primals: tuple[jax.Array], tangents: tuple[jax.Array]) -> Pair:
    (x,), (dx,) = primals, tangents
    others = tuple(axis for axis in range(x.ndim) if axis not in axes)
    flat, change = (jnp.transpose(part, (*others, *axes)) for part in (x, dx))
    shape = flat.shape[: len(others)]
    flat, change = flat.reshape(*shape, -1), change.reshape(*shape, -1)
    first = jnp.argmax(flat, axis=-1, keepdims=True)
    chosen = jax.lax.broadcasted_iota(first.dtype, flat.shape, flat.ndim - 1) == first
    return jnp.max(x, axes), jnp.sum(jnp.where(chosen, change, 0), axis=-1)


@partial(jax.custom_jvp, nondiff_argnums=(1,))
def euclidean_norm(x: jax.Array, axes: Axes) -> jax.Array:
    """Euclidean norm over `axes`, which stay with length one; the subgradient at zero is zero."""
    return jnp.sqrt(jnp.sum(jnp.square(x), axes, keepdims=True))


@euclidean_norm.defjvp
def _euclidean_norm_jvp(axes: Axes, primals: tuple[jax.Array], tangents: tuple[jax.Array]) -> Pair:
    (x,), (dx,) = primals, tangents
    norm = euclidean_norm(x, axes)
    return norm, jnp.sum(x * dx, axes, keepdims=True) / jnp.where(norm > 0, norm, 1)


@partial(jax.custom_jvp, nondiff_argnums=(1, 2))
def convex_norm(x: jax.Array, p: float, axes: Axes) -> jax.Array:
    """The p-norm for p > 1 over `axes`, which stay with length one; the subgradient at zero is
    zero."""
    return _scaled_norm(jnp.abs(x), p, axes)[0]


@convex_norm.defjvp
def _convex_norm_jvp(
    p: float, axes: Axes, primals: tuple[jax.Array], tangents: tuple[jax.Array]
) -> Pair:
    (x,), (dx,) = primals, tangents
    norm, ratio = _scaled_norm(jnp.abs(x), p, axes)
    return norm, jnp.sum(jnp.sign(x) * power(ratio, p - 1) * dx, axes, keepdims=True)


def _scaled_norm(x: jax.Array, p: float, axes: Axes) -> Pair:
    """Norm of the entries `x >= 0`, and their ratios to it (zero at the origin).

    Dividing by the largest entry first (for p < 0: the smallest) keeps the powers in range. The
    result does not depend on that scale, so it is exempt from differentiation.
    """
    extreme = (jnp.max if p > 0 else jnp.min)(x, axes, keepdims=True)
    scale = jax.lax.stop_gradient(jnp.where(extreme > 0, extreme, 1))
    unit = x / scale
    total = jnp.sum(power(unit, p), axes, keepdims=True)
    size = jnp.where(total > 0, total, 1) ** (1 / p)
    return jnp.where(extreme > 0, scale * size, 0), unit / size


@partial(jax.custom_jvp, nondiff_argnums=(1, 2))
def concave_norm(x: jax.Array, p: float, axes: Axes) -> jax.Array:
    """The "p-norm" for p < 1 over `axes`, which stay with length one: minus infinity unless all `x
    >= 0`."""
    inside = jnp.all(x >= 0, axes, keepdims=True)
    return jnp.where(inside, _scaled_norm(x, p, axes)[0], -jnp.inf)


@concave_norm.defjvp
def _concave_norm_jvp(
    p: float, axes: Axes, primals: tuple[jax.Array], tangents: tuple[jax.Array]
) -> Pair:
    (x,), (dx,) = primals, tangents
    small, tiny = _precision(x)
    largest = jnp.max(x, axes, keepdims=True)
    # For p < 0 the slope on the boundary is finite; any positive floor far below the other entries
    # shows it. XLA may multiply it by numbers below one, and must not get a number so small that it
    # counts as zero.
    floor = (
        tiny / small**2
        if p < 0
        else jnp.where(largest > 0, largest, 1) * max(small ** (1 / p), tiny**0.5)
    )
    _, ratio = _scaled_norm(jnp.where(x > 0, x, floor), p, axes)
    return concave_norm(x, p, axes), jnp.sum(power(ratio, p - 1) * dx, axes, keepdims=True)


def power(x: jax.Array, p: float) -> jax.Array:
    """Elementwise `x**p`; whole exponents become products."""
    if p == 0:
        return jnp.ones_like(x)
    if 0 < p < 1:
        return root(x, p)
    return jax.lax.integer_pow(x, int(p)) if float(p).is_integer() else jnp.power(x, p)


@partial(jax.custom_jvp, nondiff_argnums=(1,))
def root(x: jax.Array, p: float) -> jax.Array:
    """The power `x**p` for 0 < p < 1, with a finite slope at zero."""
    return jnp.sqrt(x) if p == 0.5 else jnp.power(x, p)


@root.defjvp
def _root_jvp(p: float, primals: tuple[jax.Array], tangents: tuple[jax.Array]) -> Pair:
    (x,), (dx,) = primals, tangents
    small, tiny = _precision(x)
    steepest = p * math.exp(min((1 - 1 / p) * math.log(small), -0.5 * math.log(tiny)))
    inside = jnp.where(x > 0, x, 1)
    slope = 0.5 / jnp.sqrt(inside) if p == 0.5 else p * jnp.power(inside, p - 1)
    return root(x, p), jnp.where(x > 0, slope, steepest) * dx


@jax.custom_jvp
def entropy(x: jax.Array) -> jax.Array:
    """Elementwise `-x log x`, zero at zero and minus infinity below."""
    inside = jnp.where(x > 0, x, 1)
    return jnp.where(x >= 0, -inside * jnp.log(inside), -jnp.inf)


@entropy.defjvp
def _entropy_jvp(primals: tuple[jax.Array], tangents: tuple[jax.Array]) -> Pair:
    (x,), (dx,) = primals, tangents
    return entropy(x), -(_guarded_log(x) + 1) * dx


def _guarded_log(x: jax.Array) -> jax.Array:
    """Logarithm with the floor `log(eps)` at zero and below."""
    return jnp.log(jnp.where(x > 0, x, float(np.finfo(x.dtype).eps)))


@jax.custom_jvp
def cross_entropy(x: jax.Array, y: jax.Array) -> jax.Array:
    """Elementwise `x log(x / y)`: zero where x = 0 <= y, infinite outside of x, y >= 0."""
    inside = (x > 0) & (y > 0)
    a, b = jnp.where(inside, x, 1), jnp.where(inside, y, 1)
    outside = jnp.where((x == 0) & (y >= 0), 0.0, jnp.inf).astype(x.dtype)
    return jnp.where(inside, a * jnp.log(a / b), outside)


@cross_entropy.defjvp
def _cross_entropy_jvp(primals: Pair, tangents: Pair) -> Pair:
    (x, y), (dx, dy) = primals, tangents
    # At the origin every ratio r gives the subgradient (log r + 1, -r), because the function is
    # homogeneous.
    ratio = jnp.where(y > 0, x / jnp.where(y > 0, y, 1), 1)
    return cross_entropy(x, y), (_guarded_log(ratio) + 1) * dx - ratio * dy


def log_sum_exp(x: jax.Array, axes: Axes) -> jax.Array:
    """Logarithm of the sum of exponentials over `axes`, which stay with length one."""
    # The result does not depend on the shift.
    shift = jax.lax.stop_gradient(jnp.max(x, axes, keepdims=True))
    return jnp.log(jnp.sum(jnp.exp(x - shift), axes, keepdims=True)) + shift


def huber(x: jax.Array, width: jax.Array) -> jax.Array:
    """Elementwise `x**2` up to the scalar `width`, continued by straight lines."""
    size = jnp.abs(x)
    return jnp.where(size <= width, size * size, width * (2 * size - width))


def top_sum(x: jax.Array, k: float) -> jax.Array:
    """Sum of the `k` largest entries along the last axis, for any k > 0; of equal ones the first
    counts as the largest."""
    # By rank: no entry need equal the k-th largest if the compiler computes the entries twice.
    rank = jnp.argsort(jnp.argsort(-jax.lax.stop_gradient(x), axis=-1), axis=-1)
    weight = jnp.clip(k - rank, 0, 1).astype(x.dtype)
    return jnp.sum(weight * x, -1)


def product(a: jax.Array, b: jax.Array) -> jax.Array:
    """Matrix product. Small products of matrix and vector are spelled out, so that XLA fuses them
    with their surroundings; batches of them would otherwise become library calls that cost many
    times the arithmetic.
    """
    if sorted((a.ndim, b.ndim)) != [1, 2] or max(a.size, b.size) > SMALL_MATRIX:
        return jnp.matmul(a, b)
    return jnp.sum(a * b[None, :], 1) if a.ndim == 2 else jnp.sum(a[:, None] * b, 0)


def quadratic(matrix: np.ndarray[Any, Any]) -> Callable[[jax.Array], jax.Array]:
    """The function `x -> trace(x' P x)` of a vector or matrix, for a constant P.

    With the symmetric part of P the gradient is `2 P x`, which shares its product with the value.
    """
    symmetric = (matrix + matrix.T) / 2

    @jax.custom_jvp
    def form(x: jax.Array) -> jax.Array:
        return jnp.sum(x * product(symmetric.astype(x.dtype), x))

    @form.defjvp
    def form_jvp(primals: tuple[jax.Array], tangents: tuple[jax.Array]) -> Pair:
        (x,), (dx,) = primals, tangents
        image = product(symmetric.astype(x.dtype), x)
        return jnp.sum(x * image), 2 * jnp.sum(image * dx)

    return form


def geometric_mean(weights: np.ndarray[Any, Any], axes: Axes) -> Callable[[jax.Array], jax.Array]:
    """The function `x -> prod(x**weights)` over `axes`, which stay with length one.

    `weights` broadcasts against x and sums to one over `axes`; entries of weight zero may have any
    sign.
    """
    used = weights > 0

    def log_mean(x: jax.Array) -> tuple[jax.Array, jax.Array]:
        logs = jnp.log(jnp.where(used, x, 1))
        share = jnp.broadcast_to(weights.astype(x.dtype), x.shape)
        return jnp.sum(jnp.where(used, share * logs, 0), axes, keepdims=True), share / jnp.where(
            used, x, 1
        )

    @jax.custom_jvp
    def mean(x: jax.Array) -> jax.Array:
        return jnp.exp(log_mean(x)[0])

    @mean.defjvp
    def mean_jvp(primals: tuple[jax.Array], tangents: tuple[jax.Array]) -> Pair:
        (x,), (dx,) = primals, tangents
        small, tiny = _precision(x)
        zero = used & (x <= 0)
        # Raising the zeros to this floor changes the mean by a factor `small` times the other
        # entries' part (by more if the weight of the zeros is so small that the floor would fall
        # below all numbers).
        weight = jnp.sum(jnp.where(zero, weights.astype(x.dtype), 0), axes, keepdims=True)
        floor = jnp.exp(
            jnp.maximum(math.log(small) / jnp.maximum(weight, tiny), 0.95 * math.log(tiny))
        )
        logarithm, slope = log_mean(jnp.where(zero, floor, x))
        return mean(x), jnp.sum(jnp.exp(logarithm) * slope * dx, axes, keepdims=True)

    return mean


def diagonal(x: jax.Array, k: int = 0) -> jax.Array:
    """The k-th diagonal of square matrices, as one slice with a stride."""
    n = x.shape[-1]
    first = k if k >= 0 else -k * n
    flat = jnp.reshape(x, (*x.shape[:-2], n * n))
    last = min(first + max(n - abs(k), 0) * (n + 1), n * n)
    # JAX 0.8 turns strides in brackets into gathers.
    return jax.lax.slice_in_dim(flat, min(first, last), last, n + 1, axis=-1)


# Eigenvalues, singular values and inverses. JAX differentiates eigenvectors, which fails when
# eigenvalues repeat. These functions need only the derivative of sums of eigenvalues or singular
# values, for which any choice of vectors gives a valid subgradient. JAX's decompositions take the
# symmetric part of their argument, so the functions of symmetric matrices are convex (or concave)
# on all square matrices.


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
    return jnp.sum(entropy(_clean(jnp.linalg.eigvalsh(x))))


@spectral_entropy.defjvp
def _spectral_entropy_jvp(primals: tuple[jax.Array], tangents: tuple[jax.Array]) -> Pair:
    (x,), (dx,) = primals, tangents
    values, vectors = jnp.linalg.eigh(x)
    moved = jnp.sum(vectors * jnp.matmul(dx, vectors), 0)
    entropies, change = jax.jvp(entropy, (_clean(values),), (moved,))
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
