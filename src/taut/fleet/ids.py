"""The ids of members: texts, or whole numbers, in the order in which they are given."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import arguments
from ..engine import Array

__all__ = [
    "Id",
    "as_ids",
    "check_index",
    "from_arrays",
    "hash_of",
    "named",
    "refuse_repeated",
    "to_arrays",
]

Id = str | int
NAMED = 5
"""Members that a message names, at most."""


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


def to_arrays(ids: Sequence[Id]) -> dict[str, Array]:
    """Return ids as arrays of numbers: whole numbers as they are, texts as bytes and lengths."""
    if all(type(each) is int for each in ids):
        return {"numbers": np.array(ids, np.int64)}
    texts = [str(each).encode("utf-8", "surrogatepass") for each in ids]
    lengths = np.fromiter(map(len, texts), np.int64, len(texts))
    return {"bytes": np.frombuffer(b"".join(texts), np.uint8), "lengths": lengths}


def from_arrays(arrays: dict[str, Array]) -> list[Id]:
    """Return the ids that `to_arrays` described; KeyError or ValueError if the arrays do not
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
