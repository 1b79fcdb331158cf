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

    @property
    def entries(self) -> slice:
        """Its entries in the vector."""
        return slice(self.start, self.start + math.prod(self.shape))

    def read(self, arrays: Any, *rows: Any) -> Any:
        """Return the leaf; with `rows`, those of several trees, of which the arrays hold a row
        each. The arrays are NumPy's."""
        if self.array:
            return arrays[self.array][rows] if rows else arrays[self.array]
        part = arrays[0][(*rows, self.entries)]
        part = part.view(self.dtype) if _as_bits(self.dtype, part.dtype) else part
        return part.reshape((*part.shape[:-1], *self.shape)).astype(self.dtype, copy=False)

    def write(self, arrays: Any, rows: Any, values: Any) -> None:
        """Replace the leaf in several trees."""
        if self.array:
            arrays[self.array][rows] = values
            return
        flat = values.reshape(len(values), math.prod(self.shape)).astype(self.dtype, copy=False)
        floating = arrays[0].dtype
        arrays[0][rows, self.entries] = (
            flat.view(floating) if _as_bits(self.dtype, floating) else flat
        )


@dataclass(frozen=True)
class Packing:
    """How a pytree is packed: leaves that the float type represents exactly in one vector, each
    other leaf by itself. Whole numbers that are as wide as the float type keep their bits. Random
    keys are packed as their numbers."""

    structure: Any
    leaf_types: tuple[tuple[tuple[int, ...], np.dtype[Any]], ...]
    keys: tuple[str | None, ...]
    """For each leaf, the kind of random key that it is, or None."""
    floating: np.dtype[Any]

    @classmethod
    def of(cls, tree: Any, floating: np.dtype[Any]) -> Packing:
        """Return the packing for trees like this one. Python floats count as numbers of the type
        `floating`."""
        leaves, structure = jax.tree.flatten(tree)
        keys = tuple(str(jax.random.key_impl(leaf)) if _is_key(leaf) else None for leaf in leaves)
        types = tuple(_leaf_type(_numbers(leaf), floating) for leaf in leaves)
        return cls(structure, types, keys, floating)

    @cached_property
    def places(self) -> tuple[Place, ...]:
        """The place of each leaf, without a header."""
        places, start, others = [], 0, 0
        for shape, dtype in self.leaf_types:
            inside = _fits(dtype, self.floating)
            others += not inside
            places.append(Place(0 if inside else others, start, shape, dtype))
            start += math.prod(shape) if inside else 0
        return tuple(places)

    def where(self, skip: int = 0) -> Any:
        """Return the tree with the `Place` of every leaf behind a header of `skip` entries."""
        moved = [place._replace(start=skip + place.start) for place in self.places]
        return jax.tree.unflatten(self.structure, moved)

    @cached_property
    def size(self) -> int:
        """The number of entries of the vector, without a header."""
        return sum(math.prod(place.shape) for place in self.places if not place.array)

    @cached_property
    def count(self) -> int:
        """The number of arrays."""
        return 1 + sum(place.array > 0 for place in self.places)

    def pack_traced(self, tree: Any, header: jax.Array | None = None) -> Packed:
        """Pack a tree inside compiled code; `header` comes before its numbers in the vector."""
        parts, others = [] if header is None else [header], []
        for leaf, place in zip(jax.tree.leaves(tree), self.places, strict=True):
            array = jnp.asarray(_numbers(leaf))
            if place.array:
                others.append(array)
            elif _as_bits(place.dtype, self.floating):
                parts.append(array.astype(place.dtype).ravel().view(self.floating))
            else:
                parts.append(jnp.ravel(array.astype(self.floating)))
        return (jnp.concatenate(parts) if parts else jnp.zeros(0, self.floating), *others)

    def pack(self, tree: Any, header: Any = ()) -> Packed:
        """Pack a tree with NumPy, which is several times faster outside compiled code."""
        parts, others = [np.asarray(header, self.floating)], []
        for leaf, place in zip(jax.tree.leaves(tree), self.places, strict=True):
            array = np.asarray(_numbers(leaf))
            if place.array:
                others.append(array)
            elif _as_bits(place.dtype, self.floating):
                parts.append(array.astype(place.dtype).ravel().view(self.floating))
            else:
                parts.append(array.ravel())
        return (np.concatenate(parts, dtype=self.floating, casting="unsafe"), *others)

    def unpack(self, arrays: Packed, skip: int = 0) -> Any:
        """Return the tree; the first `skip` entries of the vector are its header. Works on NumPy
        and JAX arrays."""
        vector, leaves = arrays[0], []
        for (array, start, shape, dtype), kind in zip(self.places, self.keys, strict=True):
            if array:
                leaf = arrays[array]
            else:
                leaf = vector[skip + start : skip + start + math.prod(shape)].reshape(shape)
                if _as_bits(dtype, self.floating):
                    leaf = leaf.view(dtype)
                elif dtype != self.floating:
                    leaf = leaf.astype(dtype)
            if kind is not None:
                leaf = jax.random.wrap_key_data(jnp.asarray(leaf, jnp.uint32), impl=kind)
            leaves.append(leaf)
        return jax.tree.unflatten(self.structure, leaves)

    def __hash__(self) -> int:
        """Computed once, because it is looked up in every call."""
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash((self.structure, self.leaf_types, self.keys, self.floating))


def _is_key(leaf: Any) -> bool:
    return isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _numbers(leaf: Any) -> Any:
    """Return the numbers of a random key; anything else as it is."""
    return jax.random.key_data(leaf) if _is_key(leaf) else leaf


def _fits(dtype: np.dtype[Any], floating: np.dtype[Any]) -> bool:
    """Return whether the float type represents all numbers of another type exactly, or has room for
    their bits."""
    whole = dtype.kind in "iub" and dtype.itemsize <= 4
    return dtype == floating or (whole and floating in (np.float32, np.float64))


def _as_bits(dtype: np.dtype[Any], floating: np.dtype[Any]) -> bool:
    """Return whether numbers keep their bits in a vector of floats, which are then only copied."""
    return dtype.kind in "iu" and dtype.itemsize == 4 and floating == np.float32


def _leaf_type(leaf: Any, floating: np.dtype[Any]) -> tuple[tuple[int, ...], np.dtype[Any]]:
    if isinstance(leaf, float):
        return (), floating
    if isinstance(leaf, np.ndarray) and leaf.dtype == floating:  # several times faster
        return leaf.shape, floating
    return jnp.shape(leaf), np.dtype(jnp.result_type(leaf))


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
