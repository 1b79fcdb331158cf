"""Numbers of domains: read once from a user, then cast to the float type of a decision."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ... import arguments
from ...engine import Array

__all__ = ["cast", "finfo", "norm", "reals", "shape_of", "working"]


def reals(name: str, value: Any, shape: tuple[int, ...] | None = None) -> Array:
    """A read-only copy of the finite array `value` in 64 bits; a scalar is repeated to fill
    `shape`."""
    array = arguments.finite(name, value).astype(np.float64)
    if shape is not None:
        if array.shape not in ((), shape):
            raise ValueError(f"{name}: got shape {array.shape}; expected a scalar or shape {shape}")
        array = np.broadcast_to(array, shape).copy()
    array.setflags(write=False)
    return array


def shape_of(shape: Any) -> tuple[int, ...]:
    """The shape of a decision; a number stands for a vector."""
    sizes = shape if isinstance(shape, (tuple, list)) else (shape,)
    return tuple(arguments.count("shape", size, most=10**9) for size in sizes)


def working(x: jax.Array) -> Any:
    """The float type sums are formed in: that of `x`, at least 32 bits."""
    return jnp.promote_types(x.dtype, jnp.float32)


def finfo(dtype: Any) -> Any:
    """The limits of a float type, also of the 16-bit ones NumPy does not know."""
    limits: Any = jnp.finfo  # untyped in JAX
    return limits(dtype)


def cast(dtype: Any, *leaves: Any) -> tuple[jax.Array, ...]:
    """The leaves as JAX arrays of type `dtype`."""
    return tuple(jnp.asarray(leaf, dtype) for leaf in leaves)


def norm(values: Any) -> Any:
    """The Euclidean norm, in 64 bits when the values are known."""
    if any(isinstance(leaf, jax.Array) for leaf in jax.tree_util.tree_leaves(values)):
        return jnp.linalg.norm(jnp.asarray(values).ravel())
    return float(np.linalg.norm(np.ravel(values)))
