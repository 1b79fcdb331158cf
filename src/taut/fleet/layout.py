"""How the state of members lies in arrays: one row of numbers for each member, and, in 32 bits, a
few integers beside it."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import jax

from ..engine import Array
from ..play.packing import Packing

__all__ = ["Arrays", "Column", "columns_of", "kinds_of"]

Arrays = list[Array]
"""One array for each packed part, whose first axis is the member."""


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


def columns_of(state: Packing) -> Any:
    """Return a member with a `Column` in the place of each of its numbers and arrays."""
    columns, start, others = [], 0, 0
    for size, shape, dtype in state.places:
        if size is None:
            others += 1
        columns.append(Column(0 if size is not None else others, start, shape, dtype))
        start += size or 0
    return jax.tree.unflatten(state.structure, columns)


def kinds_of(state: Packing) -> list[tuple[tuple[int, ...], Any]]:
    """Return shape and type of each array of a member."""
    others = [(shape, dtype) for size, shape, dtype in state.places if size is None]
    return [((state.size,), state.floating), *others]
