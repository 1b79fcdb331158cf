"""The data that a player observed last, for limits on their change and for forecasts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from .. import files
from ..engine import Array
from .tag import filled

__all__ = ["LastData"]


class LastData:
    """The data of the last round that was observed, and of the one before it, for `undo`.

    Arguments:
        kept: whether they are needed.
    """

    def __init__(self, kept: bool) -> None:
        self.kept = kept
        self.last: tuple[int, Any] | None = None
        """Round and data."""
        self._before: tuple[int, Any] | None = None

    def remember(self, data: Any, round: int) -> None:
        """Remember the data of a round, unless a later one was observed already."""
        if self.kept and (self.last is None or round > self.last[0]):
            copied = jax.tree.map(np.array, data)
            self._before, self.last = self.last, (round, copied)

    def take_back(self) -> None:
        """Forget the data of the last round."""
        self.last = self._before

    def to_arrays(self) -> dict[str, Array]:
        """Return the arrays that `restore` needs."""
        if self.last is None:
            return {}
        return {"round": np.asarray(self.last[0]), **files.flat(self.last[1])}

    def restore(self, arrays: Mapping[str, Array], structure: Any) -> None:
        """Continue from the arrays in a file, if there are any; `structure` describes the data."""
        if not self.kept or not arrays or structure is None:
            return
        leaves = [arrays[str(i)] for i in range(len(arrays) - 1)]
        self.last = int(arrays["round"]), filled(structure, leaves)
