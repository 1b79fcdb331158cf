"""Packing a pytree into few arrays, because the overhead of a compiled call grows with its number
of arguments and results."""

from __future__ import annotations

import math
import weakref
from dataclasses import is_dataclass, make_dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ..engine import registered
from ..learners import Learner

Packed = tuple[Any, ...]
"""A packed pytree: one vector, then the leaves that do not fit into it."""


class Place(NamedTuple):
    """Where a leaf of a packed tree is."""

    array: int
    """The number of the packed array: 0 for the vector; other arrays hold one leaf each."""
    start: int
    """Its first entry in the vector."""
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    bits: bool
    """Whether whole numbers keep their bits in a vector of floats, which are then only copied."""
    key: str | None
    """The kind of random key that it is, or None."""

    def read(self, arrays: Any, *rows: Any) -> Any:
        """Return the leaf, a random key as its numbers; with `rows`, those of several trees, of
        which the arrays hold a row each."""
        if self.array:
            return arrays[self.array][rows] if rows else arrays[self.array]
        part = arrays[0][(*rows, slice(self.start, self.start + math.prod(self.shape)))]
        part = part.view(self.dtype) if self.bits else part
        return part.reshape((*part.shape[:-1], *self.shape)).astype(self.dtype, copy=False)


class Packing(NamedTuple):
    """How the leaves of trees of one structure become a few arrays and back. Hashable.

    Leaves of the float type, and whole numbers and truth values that it can represent exactly,
    become parts of one vector, behind a header. Each other leaf stays an array of its own: 32-bit
    floats beside 64-bit ones would cost more as parts of the vector, because XLA then converts
    numbers back and forth. Whole numbers that are as wide as the float type keep their bits.
    Random keys are packed as their numbers.
    """

    structure: Any
    places: tuple[Place, ...]
    """Of each leaf."""
    floating: np.dtype[Any]
    header: int
    """Entries of the vector before the first leaf."""
    size: int
    """Entries of the vector, with the header."""
    arrays: int
    """Their number."""

    @classmethod
    def of(cls, tree: Any, floating: np.dtype[Any], header: int = 0) -> Packing:
        """Return the packing for trees like this one. Python floats count as numbers of the type
        `floating`."""
        leaves, structure = jax.tree.flatten(tree)
        places, size, arrays = [], header, 1
        for leaf in leaves:
            kind = str(jax.random.key_impl(leaf)) if _is_key(leaf) else None
            numbers = leaf if kind is None else jax.random.key_data(leaf)
            plain = isinstance(leaf, float) or getattr(leaf, "dtype", None) == floating
            dtype = floating if plain else np.dtype(jnp.result_type(numbers))
            exact = dtype.kind in "iub" and dtype.itemsize <= 4
            inside = dtype == floating or (exact and floating in (np.float32, np.float64))
            bits = inside and floating == np.float32 and dtype.kind in "iu" and dtype.itemsize == 4
            shape = np.shape(numbers)
            places.append(Place(0 if inside else arrays, size, shape, dtype, bits, kind))
            size += math.prod(shape) if inside else 0
            arrays += not inside
        return cls(structure, tuple(places), floating, header, size, arrays)

    def where(self) -> Any:
        """Return the tree with the `Place` of every leaf."""
        return jax.tree.unflatten(self.structure, self.places)

    def pack(self, tree: Any, header: Any = None, xp: Any = np) -> Packed:
        """Pack a tree behind a header, by default zeros. With `xp=jnp` it works inside compiled
        code; outside, NumPy is several times faster."""
        if header is None and self.header:
            header = xp.zeros(self.header, self.floating)
        parts, others = [] if header is None else [header], []
        for leaf, place in zip(jax.tree.leaves(tree), self.places, strict=True):
            array = xp.asarray(leaf if place.key is None else jax.random.key_data(leaf))
            if place.array:
                others.append(array)
            elif place.bits:
                parts.append(array.astype(place.dtype).ravel().view(self.floating))
            else:
                parts.append(array.ravel().astype(self.floating))
        return (xp.concatenate(parts) if parts else xp.zeros(0, self.floating), *others)

    def unpack(self, arrays: Packed) -> Any:
        """Return the tree. Works on NumPy and JAX arrays."""
        leaves = []
        for place in self.places:
            leaf = place.read(arrays)
            if place.key is not None:
                leaf = jax.random.wrap_key_data(jnp.asarray(leaf, jnp.uint32), impl=place.key)
            leaves.append(leaf)
        return jax.tree.unflatten(self.structure, leaves)


def _is_key(leaf: Any) -> bool:
    return isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def as_arrays(learner: Learner, floating: Any) -> Learner:
    """Return the learner with its parameters as arrays of one float type, so that all of them share
    a compiled program."""
    leaves, structure = jax.tree.flatten(learner)
    if len(leaves) == 1 and leaves[0] is learner:
        raise TypeError(
            f"{type(learner).__name__} is not registered as a JAX pytree. Add the decorator "
            "@taut.learner_dataclass to the class."
        )
    _refuse_ambiguous(learner)
    # A domain among the parameters computes in 32 bits at least.
    least = np.promote_types(floating, np.float32)
    arrays = list(map(np.asarray, leaves))
    for i, array in enumerate(arrays):
        floats = array.dtype.kind == "f"
        arrays[i] = array.astype(least if floats else jax.dtypes.canonicalize_dtype(array.dtype))
    return jax.tree.unflatten(structure, arrays)


_unambiguous: weakref.WeakSet[type] = weakref.WeakSet()


def _refuse_ambiguous(value: Any) -> None:
    """Refuse dataclasses that JAX may confuse with others; see `taut.engine.register_dataclass`."""
    kind = type(value)
    if kind not in registered and kind not in _unambiguous:
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
