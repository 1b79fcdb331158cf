"""The weights of a learner and its advisers, round by round, in live use."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..engine import Array
from ..learners import Advised, Learner

if TYPE_CHECKING:
    from .steps import Layout

__all__ = ["Weights"]

ROWS = 512
"""Rounds that are remembered."""


class Weights:
    """The weights of the last rounds. They are not saved, except those of the coming round, which
    are a part of the learner's state.

    Arguments:
        places: where the weights lie in the vector that holds a player's state.
    """

    def __init__(self, places: Array) -> None:
        self._places = places
        self._rounds: dict[int, Array] = {}

    @classmethod
    def of(cls, learner: Learner, layout: Layout) -> Weights | None:
        """Return an empty memory; None for a learner without advisers."""
        if not isinstance(learner, Advised):
            return None
        sizes = [size for size, _, _ in layout.state.places]
        total = layout.header + sum(size for size in sizes if size is not None)
        others = [
            np.zeros(shape, kind) for size, shape, kind in layout.state.places if size is None
        ]
        numbered = np.arange(total, dtype=float)
        state, _ = layout.state.unpack((numbered, *others), layout.header)
        return cls(np.asarray(state.weights, int))

    def add(self, round: int, report: Array) -> None:
        """Add the weights with which a round was played; `report` is the vector of its state."""
        for later in [known for known in self._rounds if known >= round]:
            del self._rounds[later]  # the round was taken back
        self._rounds[round] = np.array(report[self._places], float)
        if len(self._rounds) > ROWS:
            del self._rounds[next(iter(self._rounds))]

    def by_round(self, round: int, report: Array) -> dict[int, Array]:
        """Return the weights of the last rounds, and of the coming round in `report`."""
        past = {known: row for known, row in self._rounds.items() if known < round}
        return {**past, round: np.array(report[self._places], float)}
