"""How the state of members lies in arrays: one row of numbers for each member, and, in 32 bits, a
few integers beside it."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ..engine import Array
from ..play.packing import Packing

__all__ = ["Arrays", "Column", "Layout"]

Arrays = list[Array]
"""One array for each packed part, whose first axis is the member."""


class Layout(NamedTuple):
    """How the arrays of a fleet are packed. Hashable."""

    fixed: Packing
    """Of the pair (game, learner), which all members share."""
    member: Packing
    """Of a member, with the numbers of random keys in the place of the keys."""
    keys: tuple[tuple[int, str], ...]
    """For each random key, its number among the leaves and its kind."""

    @classmethod
    def of(cls, fixed: Any, member: Any, floating: np.dtype[Any]) -> Layout:
        """Return the layout for members like this one."""
        keys = tuple(
            (i, str(jax.random.key_impl(leaf)))
            for i, leaf in enumerate(jax.tree.leaves(member))
            if jnp.issubdtype(jnp.result_type(leaf), jax.dtypes.prng_key)
        )
        plain = _without_keys(keys, member)
        return cls(Packing.of(fixed, floating), Packing.of(plain, floating), keys)

    def pack(self, member: Any) -> tuple[jax.Array, ...]:
        """Return the packed arrays of a member."""
        return self.member.pack_traced(_without_keys(self.keys, member))

    def unpack(self, arrays: Any) -> Any:
        """Return the member of packed arrays."""
        leaves, structure = jax.tree.flatten(self.member.unpack(tuple(arrays)))
        for i, kind in self.keys:
            leaves[i] = jax.random.wrap_key_data(leaves[i].astype(jnp.uint32), impl=kind)
        return jax.tree.unflatten(structure, leaves)

    @property
    def columns(self) -> Any:
        """A member with a `Column` in the place of each of its numbers and arrays."""
        columns, start, others = [], 0, 0
        for size, shape, dtype in self.member.places:
            if size is None:
                others += 1
            columns.append(Column(0 if size is not None else others, start, shape, dtype))
            start += size or 0
        return jax.tree.unflatten(self.member.structure, columns)

    @property
    def kinds(self) -> list[tuple[tuple[int, ...], Any]]:
        """Shape and type of each array of a member."""
        others = [(shape, dtype) for size, shape, dtype in self.member.places if size is None]
        return [((self.member.size,), self.member.floating), *others]


class Column(NamedTuple):
    """Where a part of the members' state is."""

    array: int
    """The number of the packed array."""
    start: int
    """Its first entry in the rows of the first array; other arrays hold nothing else."""
    shape: tuple[int, ...]
    dtype: Any

    @property
    def place(self) -> slice:
        """The entries of a row."""
        return slice(self.start, self.start + math.prod(self.shape))

    def read(self, arrays: Arrays, slots: Any) -> Array:
        """Return the part of the members in these slots; their axis comes first."""
        if self.array:
            part: Array = arrays[self.array][slots]
            return part
        part = arrays[0][slots, self.place]
        return part.reshape(len(part), *self.shape).astype(self.dtype)

    def write(self, arrays: Arrays, slots: Any, values: Array) -> None:
        """Replace the part of the members in these slots."""
        if self.array:
            arrays[self.array][slots] = values
        else:
            arrays[0][slots, self.place] = values.reshape(len(values), math.prod(self.shape))


def _without_keys(keys: tuple[tuple[int, str], ...], member: Any) -> Any:
    leaves, structure = jax.tree.flatten(member)
    for i, _ in keys:
        leaves[i] = jax.random.key_data(leaves[i])
    return jax.tree.unflatten(structure, leaves)
