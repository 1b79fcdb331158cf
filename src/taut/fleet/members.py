"""Where the members of a fleet are: the slot of each id in arrays that grow by powers of two."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..engine import Array
from .ids import Id, as_ids, named, refuse_repeated

__all__ = ["Kinds", "Members"]

Kinds = dict[str, tuple[tuple[int, ...], Any]]
"""For each array, by name, the shape and type of one row."""

LEAST = 16
"""Slots of the smallest fleet."""
ALIGNMENT = 64
"""Bytes of whose multiples the addresses of arrays are."""


class Members:
    """Rows of numbers by id. A member that leaves frees its slot for one that joins later.

    Arguments:
        kinds: for each array, by name, the shape and type of one row.
    """

    def __init__(self, kinds: Mapping[str, tuple[tuple[int, ...], Any]]) -> None:
        self._slots: dict[Id, int] = {}
        self._free: list[int] = []
        self._used = 0  # slots that were ever used
        self.capacity = 0  # the number of slots
        self.arrays = {name: np.zeros((0, *shape), dtype) for name, (shape, dtype) in kinds.items()}
        self._order: Array | None = None

    def __len__(self) -> int:
        return len(self._slots)

    def __contains__(self, member: object) -> bool:
        return member in self._slots

    @property
    def ids(self) -> list[Id]:
        """All ids, in the order in which they joined."""
        return list(self._slots)

    def ids_in(self, slots: Array) -> list[Id]:
        """Return the members in these slots, which are in the order of joining."""
        wanted = np.zeros(self.capacity, bool)
        wanted[slots] = True
        return [each for each, slot in self._slots.items() if wanted[slot]]

    def add(self, name: str, kind: tuple[tuple[int, ...], Any]) -> None:
        """Add an array of zeros."""
        self.arrays[name] = _aligned_zeros((self.capacity, *kind[0]), kind[1])

    def group(self, name: str) -> list[Array]:
        """Return the arrays whose names begin with this word and a stroke, in their order."""
        return [array for key, array in self.arrays.items() if key.startswith(f"{name}/")]

    def slots(self, ids: Any = None) -> tuple[list[Id] | None, Array]:
        """Return ids as a list, and their slots; without ids None and the slots of all."""
        if ids is None:
            if self._order is None:
                self._order = np.fromiter(self._slots.values(), np.intp, len(self._slots))
            return None, self._order
        listed = as_ids(ids)
        slots = np.fromiter(map(self._slots.get, listed, [-1] * len(listed)), np.intp, len(listed))
        if len(slots) and slots.min() < 0:
            unknown = [listed[i] for i in np.flatnonzero(slots < 0)]
            raise ValueError(
                f"ids: got {named(unknown)}, not in the fleet of {len(self):,} members; expected "
                "members, or fleet.join(ids) before"
            )
        self._refuse_twice(listed, slots)
        return listed, slots

    def _refuse_twice(self, listed: list[Id], slots: Array) -> None:
        marked = np.zeros(self.capacity, bool)
        marked[slots] = True
        if np.count_nonzero(marked) != len(slots):
            refuse_repeated(listed)

    def join(self, listed: list[Id]) -> Array:
        """Give slots to new members and return them."""
        refuse_repeated(listed)
        known = [each for each in listed if each in self._slots]
        if known:
            raise ValueError(f"ids: got {named(known)}, in the fleet already; expected new members")
        kinds = {type(each) for each in (*listed[:1], *list(self._slots)[:1])}
        if len(kinds) > 1:
            raise TypeError(
                f"ids: got {listed[0]!r}; expected ids like {next(iter(self._slots))!r}, of one "
                "type in the whole fleet"
            )
        reused = [self._free.pop() for _ in range(min(len(self._free), len(listed)))]
        fresh = len(listed) - len(reused)
        self._reserve(self._used + fresh)
        slots = [*reused, *range(self._used, self._used + fresh)]
        self._used += fresh
        self._slots.update(zip(listed, slots, strict=True))
        self._order = None
        return np.array(slots, np.intp)

    def leave(self, listed: list[Id]) -> None:
        """Free the slots of members, who are known."""
        self._free.extend(self._slots.pop(each) for each in listed)
        self._order = None

    def _reserve(self, slots: int) -> None:
        """Let the arrays have at least so many slots."""
        if slots <= self.capacity:
            return
        self.capacity = max(LEAST, 1 << (slots - 1).bit_length())
        for name, array in self.arrays.items():
            larger = _aligned_zeros((self.capacity, *array.shape[1:]), array.dtype)
            larger[: self._used] = array[: self._used]
            self.arrays[name] = larger


def _aligned_zeros(shape: tuple[int, ...], dtype: Any) -> Array:
    """Return zeros at an address from which XLA reads without a copy. They take no memory before
    they are written to."""
    size = math.prod(shape) * np.dtype(dtype).itemsize
    content = np.zeros(size + ALIGNMENT, np.uint8)
    first = -content.ctypes.data % ALIGNMENT
    zeros: Array = content[first : first + size].view(dtype).reshape(shape)
    return zeros
