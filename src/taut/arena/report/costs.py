"""What a round of a learner costs: microseconds, and calls of oracles."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from .. import oracles
from .. import results as stored
from ..score import Board

__all__ = ["Costs", "short"]

SHORT = {
    "loss": "f",
    "gradient": "df",
    "values": "g",
    "pullback": "dg",
    "project": "P",
    "minimise": "LP",
}
"""How tables abbreviate oracles."""


class Costs:
    """The costs of all learners of a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.counted = oracles.read_calls(folder)

    def microseconds(self, group: Sequence[Board], learner: str) -> float | None:
        """Return the median over streams of the time per round and seed."""
        times = [
            spent
            for where in group
            if learner in where.by_learner
            and (spent := stored.seconds_of(self.folder, where[learner].result)) is not None
        ]
        return float(np.median(times)) * 1e6 if times else None

    def calls(self, learner: str) -> oracles.Calls:
        """Return the calls of oracles per round; empty if they were not counted."""
        return self.counted.get(learner, {})

    def total(self, learner: str) -> float | None:
        """Return the calls of all oracles together per round."""
        calls = self.calls(learner)
        return sum(calls.values()) if calls else None


def short(calls: oracles.Calls) -> str:
    """Return the calls that are not zero in one line.

    >>> short({"gradient": 1.0, "values": 1.0, "loss": 0.0, "project": 1.984})
    'df 1, g 1, P 2'
    """
    return ", ".join(
        f"{SHORT[name]} {calls[name]:.2g}" for name in SHORT if calls.get(name, 0.0) > 0
    )
