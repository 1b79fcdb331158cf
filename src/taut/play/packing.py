"""Parcels: a pytree as few arrays. What a short call of compiled code costs is the number of arrays that go in and out."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ..learners import Learner

__all__ = ["Parcel", "settled"]


@dataclass(frozen=True)
class Parcel:
    """How a pytree travels: leaves that the game's float type holds exactly in one vector, the others each apart."""

    structure: Any
    kinds: tuple[tuple[tuple[int, ...], np.dtype[Any]], ...]
    floating: np.dtype[Any]

    @classmethod
    def of(cls, tree: Any, floating: np.dtype[Any]) -> Parcel:
        """The parcel for trees like this one; Python's floats are in it as numbers of the game's type."""
        leaves, structure = jax.tree.flatten(tree)
        return cls(structure, tuple(_kind(leaf, floating) for leaf in leaves), floating)

    def _held(self, dtype: np.dtype[Any]) -> bool:
        if dtype == self.floating:
            return True
        whole = isinstance(dtype, np.dtype) and dtype.kind in "iub"  # random keys have a type of JAX's own
        return whole and dtype.itemsize <= 4 and self.floating.itemsize >= 8

    def wrap(self, tree: Any, head: jax.Array | None = None) -> tuple[jax.Array, ...]:
        """The vector, after `head`, then the leaves that do not fit into it."""
        parts, apart = [] if head is None else [head], []
        for leaf, (_, dtype) in zip(jax.tree.leaves(tree), self.kinds, strict=True):
            if self._held(dtype):
                parts.append(jnp.ravel(jnp.asarray(leaf, self.floating)))
            else:
                apart.append(jnp.asarray(leaf))
        return (jnp.concatenate(parts) if parts else jnp.zeros(0, self.floating), *apart)

    def pack(self, tree: Any) -> tuple[Any, ...]:
        """What `wrap` returns, made by NumPy: several times faster where nothing is compiled."""
        leaves = list(zip(jax.tree.leaves(tree), self.kinds, strict=True))
        held = [np.ravel(leaf) for leaf, (_, dtype) in leaves if self._held(dtype)]
        vector = np.concatenate(held, dtype=self.floating, casting="unsafe") if held else np.zeros(0, self.floating)
        return (vector, *(leaf for leaf, (_, dtype) in leaves if not self._held(dtype)))

    def unwrap(self, arrays: tuple[Any, ...], skip: int = 0) -> Any:
        """The tree again, the vector's first `skip` entries being its head. Works on NumPy and JAX arrays."""
        vector, *apart = arrays
        leaves = []
        for shape, dtype in self.kinds:
            if self._held(dtype):
                size = math.prod(shape)
                leaf = vector[skip : skip + size].reshape(shape)
                leaves.append(leaf if dtype == self.floating else leaf.astype(dtype))
                skip += size
            else:
                leaves.append(apart.pop(0))
        return jax.tree.unflatten(self.structure, leaves)

    def blank(self, head: int = 0) -> tuple[jax.Array, ...]:
        """Arrays of the right shapes, all zero."""
        apart = (lax.full(shape, 0, dtype) for shape, dtype in self.kinds if not self._held(dtype))
        return (jnp.zeros(head + self.size, self.floating), *apart)

    @property
    def size(self) -> int:
        """Numbers in the vector."""
        return sum(math.prod(shape) for shape, dtype in self.kinds if self._held(dtype))

    @property
    def count(self) -> int:
        """Number of arrays."""
        return 1 + sum(not self._held(dtype) for _, dtype in self.kinds)


def _kind(leaf: Any, floating: np.dtype[Any]) -> tuple[tuple[int, ...], np.dtype[Any]]:
    if isinstance(leaf, float):
        return (), floating
    if isinstance(leaf, np.ndarray) and leaf.dtype == floating:  # the usual case, several times faster
        return leaf.shape, floating
    if isinstance(leaf, jax.ShapeDtypeStruct):
        return leaf.shape, leaf.dtype
    return jnp.shape(leaf), jnp.result_type(leaf)


def settled(learner: Learner, floating: Any) -> Learner:
    """The learner with its parameters as arrays of the game's float type: one type, so one compilation for all."""
    leaves, structure = jax.tree.flatten(learner)
    if any(leaf is learner for leaf in leaves):
        raise TypeError(
            f"learner: got {type(learner).__name__}, which JAX takes for a single number; expected a frozen dataclass "
            "registered with taut.engine.register_dataclass"
        )
    least = np.promote_types(floating, np.float32)  # a domain among the parameters computes in 32 bits at least
    arrays = (np.asarray(leaf) for leaf in leaves)
    typed = [a.astype(least if a.dtype.kind == "f" else jax.dtypes.canonicalize_dtype(a.dtype)) for a in arrays]
    return jax.tree.unflatten(structure, typed)
