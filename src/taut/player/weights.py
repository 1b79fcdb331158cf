"""The weights of a learner and its advisers, round by round, in live use."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..engine import Array
from ..learners import Advised, Learner
from ..play.packing import Place

if TYPE_CHECKING:
    from .layout import Layout

__all__ = ["Weights"]

ROWS = 512
"""Rounds that are remembered."""


class Weights:
    """The weights of the last rounds. They are not saved, except those of the coming round, which
    are a part of the learner's state.

    Arguments:
        place: where the weights lie in the vector that holds a player's state.
    """

    def __init__(self, place: Place) -> None:
        self._place = place
        self._rounds: dict[int, Array] = {}

    @classmethod
    def of(cls, learner: Learner, layout: Layout) -> Weights | None:
        """Return an empty memory; None for a learner without advisers."""
        if not isinstance(learner, Advised):
            return None
        state, _ = layout.state.where(layout.header)
        return cls(state.weights)

    def add(self, round: int, report: Array) -> None:
        """Add the weights with which a round was played; `report` is the vector of its state."""
        for later in [known for known in self._rounds if known >= round]:
            del self._rounds[later]  # the round was taken back
        self._rounds[round] = np.array(self._place.read(report), float)
        if len(self._rounds) > ROWS:
            del self._rounds[next(iter(self._rounds))]

    def by_round(self, round: int, report: Array) -> dict[int, Array]:
        """Return the weights of the last rounds, and of the coming round in `report`."""
        past = {known: row for known, row in self._rounds.items() if known < round}
        return {**past, round: np.array(self._place.read(report), float)}
