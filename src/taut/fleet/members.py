"""The members of a fleet: their ids, texts or whole numbers, and the slot of each id in arrays that
grow by powers of two."""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from .. import arguments
from ..engine import Array

Id = str | int
NAMED = 5
"""Members that a message names, at most."""
Kinds = dict[str, tuple[tuple[int, ...], Any]]
"""For each array, by name, the shape and type of one row."""
Arrays = list[Array]
"""One array for each packed part of a state, whose first axis is the member."""

LEAST = 16
"""Slots of the smallest fleet."""
ALIGNMENT = 64
"""Bytes of whose multiples the addresses of arrays are."""


@dataclass(frozen=True)
class Chosen:
    """Members that a call is about."""

    ids: list[Id]
    slots: Array
    """Where their rows are."""

    def __len__(self) -> int:
        return len(self.ids)

    def at(self, places: Array) -> Chosen:
        """Return those at these places."""
        return Chosen([self.ids[i] for i in places], self.slots[places])

    def places_without(self, refused: Mapping[Id, str]) -> Array:
        """Return the places of those that were not refused."""
        if not refused:
            return np.arange(len(self))
        return np.array([i for i, each in enumerate(self.ids) if each not in refused], int)


class Members:
    """Rows of numbers by id. A member that leaves frees its slot for one that joins later."""

    def __init__(self, kinds: Mapping[str, tuple[tuple[int, ...], Any]]) -> None:
        self._slots: dict[Id, int] = {}
        self._free: list[int] = []
        self._used = 0  # slots that were ever used
        self.capacity = 0  # the number of slots
        self.arrays = {name: np.zeros((0, *shape), dtype) for name, (shape, dtype) in kinds.items()}
        self._everybody: Chosen | None = None

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

    def rows(self, name: str, slots: Array) -> dict[str, Array]:
        """Return the rows in these slots of the arrays of a group, by the rest of their names."""
        return {
            key.partition("/")[2]: array[slots]
            for key, array in self.arrays.items()
            if key.startswith(f"{name}/")
        }

    def chosen(self, ids: Any = None) -> Chosen:
        """Return the members with these ids; without ids all."""
        if ids is None:
            if self._everybody is None:
                slots = np.fromiter(self._slots.values(), np.intp, len(self._slots))
                self._everybody = Chosen(self.ids, slots)
            return self._everybody
        listed = as_ids(ids)
        slots = np.fromiter(map(self._slots.get, listed, [-1] * len(listed)), np.intp, len(listed))
        if len(slots) and slots.min() < 0:
            unknown = [listed[i] for i in np.flatnonzero(slots < 0)]
            raise ValueError(
                f"ids: got {named(unknown)}, not in the fleet of {len(self):,} members; expected "
                "members, or fleet.join(ids) before"
            )
        marked = np.zeros(self.capacity, bool)
        marked[slots] = True
        if np.count_nonzero(marked) != len(slots):
            refuse_repeated(listed)
        return Chosen(listed, slots)

    def slots(self, ids: Any = None) -> Array:
        """Return the slots of the members with these ids; without ids those of all."""
        return self.chosen(ids).slots

    def join(self, listed: list[Id]) -> Array:
        """Give slots to new members and return them."""
        self.check_new(listed)
        reused = [self._free.pop() for _ in range(min(len(self._free), len(listed)))]
        fresh = len(listed) - len(reused)
        self._reserve(self._used + fresh)
        slots = [*reused, *range(self._used, self._used + fresh)]
        self._used += fresh
        self._slots.update(zip(listed, slots, strict=True))
        self._everybody = None
        return np.array(slots, np.intp)

    def check_new(self, listed: list[Id]) -> None:
        """Refuse ids that cannot join."""
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

    def leave(self, listed: list[Id]) -> None:
        """Free the slots of members, who are known."""
        self._free.extend(self._slots.pop(each) for each in listed)
        self._everybody = None

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


class KeptData:
    """Keeps trees of arrays whose structure comes with the first of them.

    They lie among the arrays of the members, under names that begin with `group`.
    """

    def __init__(self, members: Members, group: str) -> None:
        self._members, self.group = members, group
        self._structure: Any = None

    def check(self, rows: Any) -> None:
        """Refuse data that are not like those that were kept before."""
        structure, kinds = _described(rows)
        if self._structure not in (None, (structure, kinds)):
            raise ValueError(
                f"z: got data of structure {structure} and kinds {kinds}; expected "
                f"{self._structure[0]} and {self._structure[1]}, as before"
            )

    def fit(self, rows: Any) -> None:
        """Make room for data like these."""
        self.check(rows)
        if self._structure is None:
            self._structure = _described(rows)
            for i, kind in enumerate(self._structure[1]):
                self._members.add(f"{self.group}/{i}", kind)
            self._members.add(f"{self.group}/known", ((), np.dtype(bool)))

    def keep(self, slots: Array, rows: Any) -> None:
        """Keep the rows of the members in these slots."""
        if not len(slots):
            return
        self.fit(rows)
        for i, leaf in enumerate(jax.tree.leaves(rows)):
            self._members.arrays[f"{self.group}/{i}"][slots] = leaf
        self._members.arrays[f"{self.group}/known"][slots] = True

    def known(self, slots: Array) -> Array:
        """Return for which members something is kept."""
        if self._structure is None:
            return np.zeros(len(slots), bool)
        known: Array = self._members.arrays[f"{self.group}/known"][slots]
        return known

    def forget(self, slots: Array) -> None:
        """Keep nothing for the members in these slots."""
        if self._structure is not None:
            self._members.arrays[f"{self.group}/known"][slots] = False

    def read(self, slots: Array) -> Any:
        """Return what is kept for the members in these slots; None before anything was."""
        if self._structure is None:
            return None
        structure, kinds = self._structure
        leaves = [self._members.arrays[f"{self.group}/{i}"][slots] for i in range(len(kinds))]
        return jax.tree.unflatten(structure, leaves)


def _described(rows: Any) -> tuple[Any, list[tuple[tuple[int, ...], Any]]]:
    """Return the structure of data, and shape and type of one row of each array."""
    leaves, structure = jax.tree.flatten(rows)
    return structure, [(leaf.shape[1:], leaf.dtype) for leaf in leaves]


def as_ids(ids: Any, name: str = "ids") -> list[Id]:
    """Return ids as a list of texts or of whole numbers."""
    several = not isinstance(ids, (str, bytes, int)) and hasattr(ids, "__iter__")
    if not several or getattr(ids, "ndim", 1) == 0:
        raise TypeError(
            f"{name}: got {arguments.shown(ids)}; expected several ids, for example a list of texts"
        )
    listed = ids.tolist() if hasattr(ids, "tolist") else list(ids)
    kinds = set(map(type, listed))
    if kinds <= {str} or kinds <= {int}:
        return listed
    plain = [each.item() if isinstance(each, np.generic) else each for each in listed]
    kinds = set(map(type, plain))
    if kinds <= {str} or kinds <= {int}:
        return plain
    words = ", ".join(sorted(kind.__name__ for kind in kinds))
    raise TypeError(f"{name}: got ids of type {words}; expected texts only, or whole numbers only")


def named(ids: Sequence[Id]) -> str:
    """Return the first few ids for a message, and how many more there are."""
    first = ", ".join(map(repr, ids[:NAMED]))
    return first if len(ids) <= NAMED else f"{first} and {len(ids) - NAMED:,} more"


def refuse_repeated(ids: Sequence[Id]) -> None:
    """Raise an error if a member is named more than once."""
    counts = Counter(ids)
    if len(counts) != len(ids):
        twice = [each for each, times in counts.items() if times > 1]
        raise ValueError(f"ids: got {named(twice)} more than once; expected each member once")


def check_index(name: str, table: Any, ids: list[Id]) -> None:
    """Refuse a table of pandas whose index says that its rows belong to other members."""
    index = getattr(table, "index", None)
    if type(table).__module__.split(".")[0] != "pandas" or type(index).__name__ == "RangeIndex":
        return
    labels = as_ids(index, f"{name}: its index")
    if labels != ids:
        pairs = enumerate(zip(labels, ids, strict=False))
        wrong = next((i for i, (label, member) in pairs if label != member), None)
        where = f"{len(labels)} rows" if wrong is None else f"the row {labels[wrong]!r} at {wrong}"
        expected = f"{len(ids)}" if wrong is None else f"{ids[wrong]!r}"
        raise ValueError(
            f"{name}: got a table with {where}; expected {expected}, as in ids: table.loc[ids]"
        )


def hash_of(member: Id) -> tuple[int, int]:
    """Return two whole numbers of 32 bits that depend on the id alone, in every process."""
    content = hashlib.blake2b(f"{type(member).__name__}:{member}".encode(), digest_size=8).digest()
    return int.from_bytes(content[:4], "little"), int.from_bytes(content[4:], "little")


def ids_to_arrays(ids: Sequence[Id]) -> dict[str, Array]:
    """Return ids as arrays of numbers: whole numbers as they are, texts as bytes and lengths."""
    if all(type(each) is int for each in ids):
        return {"numbers": np.array(ids, np.int64)}
    texts = [str(each).encode("utf-8", "surrogatepass") for each in ids]
    lengths = np.fromiter(map(len, texts), np.int64, len(texts))
    return {"bytes": np.frombuffer(b"".join(texts), np.uint8), "lengths": lengths}


def ids_from_arrays(arrays: dict[str, Array]) -> list[Id]:
    """Return the ids that `ids_to_arrays` described; KeyError or ValueError if the arrays do not
    fit."""
    if "numbers" in arrays:
        numbers = arrays["numbers"]
        if numbers.ndim != 1 or numbers.dtype.kind not in "iu":
            raise ValueError("its ids are not whole numbers")
        return list(map(int, numbers))
    content, lengths = arrays["bytes"].tobytes(), arrays["lengths"]
    if lengths.ndim != 1 or lengths.dtype.kind not in "iu" or (lengths < 0).any():
        raise ValueError("the lengths of its ids are not whole numbers")
    ends = np.cumsum(lengths).tolist()
    if (ends[-1] if ends else 0) != len(content):
        raise ValueError("its ids have another length than their text")
    starts = [0, *ends[:-1]]
    return [
        content[start:end].decode("utf-8", "surrogatepass")
        for start, end in zip(starts, ends, strict=True)
    ]
