"""Data that are kept for members of a fleet, one row for each: what was announced, or what was
observed last."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from ..engine import Array
from .members import Members

__all__ = ["KeptData"]


class KeptData:
    """Keeps trees of arrays whose structure comes with the first of them.

    Arguments:
        members: the arrays of the members, among which the kept ones lie.
        group: the beginning of their names.
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
