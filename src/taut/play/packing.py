"""Packing a pytree into few arrays, because the overhead of a compiled call grows with its number
of arguments and results."""

from __future__ import annotations

import math
import weakref
from dataclasses import dataclass, is_dataclass, make_dataclass
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ..learners import Learner

__all__ = ["Packed", "Packing", "Place", "as_arrays"]

Packed = tuple[Any, ...]
"""A packed pytree: one vector, then the leaves that do not fit into it."""


class Place(NamedTuple):
    """Where an array lies in the vector into which it was packed."""

    start: int
    stop: int
    shape: tuple[int, ...]

    def read(self, vector: Any) -> Any:
        """Return the array."""
        return vector[self.start : self.stop].reshape(self.shape)


@dataclass(frozen=True)
class Packing:
    """How a pytree is packed: leaves that the float type represents exactly in one vector, each
    other leaf by itself."""

    structure: Any
    leaf_types: tuple[tuple[tuple[int, ...], np.dtype[Any]], ...]
    floating: np.dtype[Any]

    @classmethod
    def of(cls, tree: Any, floating: np.dtype[Any]) -> Packing:
        """Return the packing for trees like this one. Python floats count as numbers of the type
        `floating`."""
        leaves, structure = jax.tree.flatten(tree)
        return cls(structure, tuple(_leaf_type(leaf, floating) for leaf in leaves), floating)

    @cached_property
    def places(self) -> tuple[tuple[int | None, tuple[int, ...], np.dtype[Any]], ...]:
        """For each leaf its number of entries in the vector, None if it does not fit; then its
        shape and type."""
        return tuple(
            (math.prod(s) if _fits(d, self.floating) else None, s, d) for s, d in self.leaf_types
        )

    def pack_traced(
        self, tree: Any, header: jax.Array | None = None, last: jax.Array | None = None
    ) -> Packed:
        """Pack a tree inside compiled code; `header` comes before its numbers in the vector, the
        number `last` after them."""
        parts, others = [] if header is None else [header], []
        for leaf, (size, _, _) in zip(jax.tree.leaves(tree), self.places, strict=True):
            if size is None:
                others.append(jnp.asarray(leaf))
            else:
                parts.append(jnp.ravel(jnp.asarray(leaf, self.floating)))
        if last is not None:
            parts.append(last[None])
        return (jnp.concatenate(parts) if parts else jnp.zeros(0, self.floating), *others)

    def pack(self, tree: Any) -> Packed:
        """Pack a tree with NumPy, which is several times faster outside compiled code."""
        leaves = list(zip(jax.tree.leaves(tree), self.places, strict=True))
        fitting = [np.ravel(leaf) for leaf, (size, _, _) in leaves if size is not None]
        vector = (
            np.concatenate(fitting, dtype=self.floating, casting="unsafe")
            if fitting
            else np.zeros(0, self.floating)
        )
        return (vector, *(leaf for leaf, (size, _, _) in leaves if size is None))

    def unpack(self, arrays: Packed, skip: int = 0) -> Any:
        """Return the tree; the first `skip` entries of the vector are its header. Works on NumPy
        and JAX arrays."""
        vector, *others = arrays
        leaves = []
        for size, shape, dtype in self.places:
            if size is None:
                leaves.append(others.pop(0))
            else:
                leaf = vector[skip : skip + size].reshape(shape)
                leaves.append(leaf if dtype == self.floating else leaf.astype(dtype))
                skip += size
        return jax.tree.unflatten(self.structure, leaves)

    def where(self, skip: int = 0) -> Any:
        """Return the tree with the place of every leaf in the vector, None for leaves that are not
        in it."""
        found: list[Place | None] = []
        for size, shape, _ in self.places:
            found.append(None if size is None else Place(skip, skip + size, shape))
            skip += size or 0
        return jax.tree.unflatten(self.structure, found)

    def zeros(self, header: int = 0) -> Packed:
        """Return packed zeros after a header of so many entries."""
        others = [(shape, dtype) for size, shape, dtype in self.places if size is None]
        return tuple(_zeros(*one) for one in [((header + self.size,), self.floating), *others])

    @cached_property
    def size(self) -> int:
        """The number of entries of the vector, without a header."""
        return sum(size for size, _, _ in self.places if size is not None)

    @cached_property
    def count(self) -> int:
        """The number of arrays."""
        return 1 + sum(size is None for size, _, _ in self.places)

    def __hash__(self) -> int:
        """Computed once, because it is looked up in every call."""
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash((self.structure, self.leaf_types, self.floating))


def _zeros(shape: tuple[int, ...], dtype: Any) -> jax.Array:
    """Return zeros. JAX would compile a program for each shape, except for random keys, which NumPy
    does not have."""
    return (
        jax.device_put(np.zeros(shape, dtype))
        if isinstance(dtype, np.dtype)
        else lax.full(shape, 0, dtype)
    )


def _fits(dtype: np.dtype[Any], floating: np.dtype[Any]) -> bool:
    """Return whether the float type represents all numbers of another type exactly."""
    if dtype == floating:
        return True
    whole = (
        isinstance(dtype, np.dtype) and dtype.kind in "iub"
    )  # random keys have a type of JAX's own
    return whole and dtype.itemsize <= 4 and floating.itemsize >= 8


def _leaf_type(leaf: Any, floating: np.dtype[Any]) -> tuple[tuple[int, ...], np.dtype[Any]]:
    if isinstance(leaf, float):
        return (), floating
    if (
        isinstance(leaf, np.ndarray) and leaf.dtype == floating
    ):  # the usual case, several times faster
        return leaf.shape, floating
    if isinstance(leaf, jax.ShapeDtypeStruct):
        return leaf.shape, leaf.dtype
    return jnp.shape(leaf), jnp.result_type(leaf)


def as_arrays(learner: Learner, floating: Any) -> Learner:
    """Return the learner with its parameters as arrays of one float type, so that all of them share
    a compiled program."""
    leaves, structure = jax.tree.flatten(learner)
    if any(leaf is learner for leaf in leaves):
        raise TypeError(
            f"{type(learner).__name__} is not registered as a JAX pytree. Add the decorator "
            "@taut.learner_dataclass to the class."
        )
    _refuse_ambiguous(learner)
    least = np.promote_types(
        floating, np.float32
    )  # a domain among the parameters computes in 32 bits at least
    arrays = (np.asarray(leaf) for leaf in leaves)
    typed = [
        a.astype(least if a.dtype.kind == "f" else jax.dtypes.canonicalize_dtype(a.dtype))
        for a in arrays
    ]
    return jax.tree.unflatten(structure, typed)


_unambiguous: weakref.WeakSet[type] = weakref.WeakSet()


def _refuse_ambiguous(value: Any) -> None:
    """Refuse dataclasses that JAX may confuse with others; see `taut.engine.register_dataclass`."""
    kind = type(value)
    if kind not in _unambiguous:
        structure: Any  # incompletely typed in JAX
        children, structure = jax.tree.flatten(value, is_leaf=lambda node: node is not value)
        static = (structure.node_data() or (kind, None))[1]
        if isinstance(static, tuple) and structure == jax.tree.structure(
            _probe(len(children), len(static))(*children, *static)
        ):
            raise TypeError(
                f"{kind.__name__} is registered with jax.tree_util.register_dataclass, which lets "
                "JAX mistake one class for another that has the same fields. Use the decorator "
                "@taut.learner_dataclass instead."
            )
        _unambiguous.add(kind)
    for child in vars(value).values():
        if is_dataclass(child):
            _refuse_ambiguous(child)


@lru_cache
def _probe(children: int, static: int) -> Any:
    """Return a class registered by JAX with so many fields; only classes registered the same way
    can equal it in structure."""
    data, meta = [f"data{i}" for i in range(children)], [f"meta{i}" for i in range(static)]
    return jax.tree_util.register_dataclass(make_dataclass("Probe", data + meta), data, meta)
