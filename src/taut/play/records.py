"""The records of a simulation, put together from those of its chunks."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ..engine import Array
from .loop import Shape

__all__ = ["ROUND_AXIS", "KeptRecords"]

ROUND_AXIS = 2


class KeptRecords:
    """The records of the chunks played so far.

    Arguments:
        shape: of the simulation.
        horizon: rounds of the simulation.
    """

    def __init__(self, shape: Shape, horizon: int) -> None:
        self.shape, self.horizon = shape, horizon
        self.records: dict[str, Array] = {}
        """Arrays for all rounds; the rounds after the chunks played so far are undefined."""

    def add(self, records: Mapping[str, Array], begun: int, done: int) -> None:
        """Copy the records of rounds begun..done to their place, so that the memory of the chunk
        can be used again."""
        if not begun and done == self.horizon:
            self.records = dict(records)
            return
        for name, array in records.items():
            if name not in self.records:
                shape = (
                    *array.shape[:ROUND_AXIS],
                    self.shape.rows(name, self.horizon),
                    *array.shape[ROUND_AXIS + 1 :],
                )
                self.records[name] = np.empty(shape, array.dtype)
            start = self.shape.rows(name, begun)
            self.records[name][:, :, start : start + array.shape[ROUND_AXIS]] = array
