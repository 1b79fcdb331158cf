"""Derivatives of maxima, minima and absolute values by index instead of by equality.

JAX differentiates `jnp.max(u)` with the mask `u == max(u)`. A compiler may compute `u` twice, once
with a fused multiply-add, so that no entry equals the largest, and the derivative is lost without
an error. `by_index` traces a function and evaluates it again with maxima and minima whose
derivative is that of the entry found by `argmax`: the first of several equal ones. The maximum of
two arrays (`jnp.maximum`) is differentiated by comparing their sizes, and an absolute value by its
sign. Where two are equal the derivative is that of the first, and that of |u| at 0 is the one of u:
a derivative is always that of one piece. JAX returns a mean of the pieces there.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.custom_batching import custom_vmap

from ..jax_internals import bind
from .walk import INLINED, bodies, equations, evaluate, is_float, rewritten

FEW = 16
"""Entries up to which `argmax` is as fast as anything else."""


def by_index(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the same function with derivatives of maxima, minima and absolute values by index.

    >>> import jax.numpy as jnp
    >>> jax.grad(by_index(jnp.max))(jnp.array([1.0, 3.0, 3.0])).tolist()
    [0.0, 1.0, 0.0]
    >>> float(jax.grad(by_index(jnp.abs))(0.0))
    1.0
    """
    return rewritten(function, _rule)


def place_of_largest(values: jax.Array) -> jax.Array:
    """Return the place of a largest entry of a vector: the first one, where several are equal.

    On a CPU `argmax` takes several times longer than to look for the entries that are not below the
    maximum. None is found if the compiler computes the entries again with another rounding; only
    then `argmax` is needed.
    """
    values = lax.stop_gradient(values)
    count = values.shape[0]
    if count <= FEW:
        return lax.argmax(values, 0, jnp.int32)
    return _place(values)


@custom_vmap
def _place(values: jax.Array) -> jax.Array:
    place = _guess(values)
    return lax.cond(
        place < values.shape[0], lambda: place, lambda: lax.argmax(values, 0, jnp.int32)
    )


@_place.def_vmap
def _places(size: int, batched: list[bool], values: jax.Array) -> tuple[jax.Array, bool]:
    """Look at several vectors at once; `argmax` is needed for all or for none of them."""
    places = jax.vmap(_guess)(values)
    guessed = jnp.all(places < values.shape[1])
    return lax.cond(guessed, lambda: places, lambda: lax.argmax(values, 1, jnp.int32)), True


def _guess(values: jax.Array) -> jax.Array:
    """Return the first entry that is not below the maximum, or the number of entries."""
    below = values - jnp.max(values)
    places = lax.iota(jnp.int32, values.shape[0])
    return jnp.min(jnp.where(below >= 0, places, values.shape[0]))


def entry_of_largest(values: jax.Array) -> jax.Array:
    """Return the one-hot vector of the first largest entry of a vector."""
    if values.shape[0] == 1:
        return jnp.ones_like(values)
    return first_largest(values).astype(values.dtype)


def first_largest(values: jax.Array) -> jax.Array:
    """Return a mask of the first largest entry of a vector."""
    return lax.iota(jnp.int32, values.shape[0]) == place_of_largest(values)


def _rule(equation: Any, operands: list[Any]) -> Any:
    """Return the results of one equation, with another derivative if it is a maximum or an
    absolute value of floats."""
    name = equation.primitive.name
    if name in ("reduce_max", "reduce_min") and is_float(equation.invars[0]):
        return [_extreme(operands[0], tuple(equation.params["axes"]), name == "reduce_max")]
    if name in ("max", "min") and is_float(equation.invars[0]):
        return [larger(*operands) if name == "max" else smaller(*operands)]
    if name == "abs" and is_float(equation.invars[0]):
        return [_magnitude(*operands)]
    inner = bodies(equation)
    if inner and not name.startswith("custom_") and any(map(_has_pieces, inner)):
        return equation.primitive.bind(*operands, **_rewritten(equation.params))
    return bind(equation, operands)


def _has_pieces(program: Any) -> bool:
    names = ("reduce_max", "reduce_min", "max", "min", "abs")
    return any(equation.primitive.name in names for equation in equations(program))


def _rewritten(parameters: dict[str, Any]) -> dict[str, Any]:
    """Return the parameters of a loop or branch, whose programs are rewritten."""

    def rewritten(part: Any) -> Any:
        if isinstance(part, (tuple, list)):
            return type(part)(map(rewritten, part))
        if not hasattr(part, "jaxpr") or not hasattr(part, "in_avals"):
            return part
        shapes = [jax.ShapeDtypeStruct(aval.shape, aval.dtype) for aval in part.in_avals]
        return jax.make_jaxpr(lambda *leaves: evaluate(part, leaves, _rule, INLINED))(*shapes)

    return {name: rewritten(parameter) for name, parameter in parameters.items()}


@partial(jax.custom_jvp, nondiff_argnums=(1, 2))
def _extreme(u: jax.Array, axes: tuple[int, ...], largest: bool) -> jax.Array:
    """The largest or smallest entry over some axes."""
    return (jnp.max if largest else jnp.min)(u, axis=axes)


@_extreme.defjvp
def _extreme_jvp(axes: tuple[int, ...], largest: bool, primals: Any, tangents: Any) -> Any:
    (u,), (du,) = primals, tangents
    others = tuple(axis for axis in range(u.ndim) if axis not in axes)
    shape = (*(u.shape[axis] for axis in others), -1)
    rows, slopes = (jnp.reshape(jnp.transpose(a, (*others, *axes)), shape) for a in (u, du))
    find = place_of_largest
    for _ in others:
        find = jax.vmap(find)
    place = find(rows if largest else -rows)
    chosen = lax.broadcasted_iota(jnp.int32, rows.shape, rows.ndim - 1) == place[..., None]
    return _extreme(u, axes, largest), jnp.sum(jnp.where(chosen, slopes, 0), axis=-1)


@jax.custom_jvp
def larger(u: jax.Array, v: jax.Array) -> jax.Array:
    """Return the larger entries of two arrays; at a tie the derivative is that of the first."""
    return lax.max(u, v)


@larger.defjvp
def _larger_jvp(primals: Any, tangents: Any) -> Any:
    (u, v), (du, dv) = primals, tangents
    return larger(u, v), jnp.where(u >= v, du, dv)


def smaller(u: jax.Array, v: jax.Array) -> jax.Array:
    """Return the smaller entries of two arrays; at a tie the derivative is that of the first."""
    return -larger(-u, -v)


@jax.custom_jvp
def _magnitude(u: jax.Array) -> jax.Array:
    """The absolute values of the entries."""
    return lax.abs(u)


@_magnitude.defjvp
def _magnitude_jvp(primals: Any, tangents: Any) -> Any:
    (u,), (du,) = primals, tangents
    return _magnitude(u), jnp.where(u >= 0, du, -du)
