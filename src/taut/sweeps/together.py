"""Cells that differ only in the parameters of their learner, played side by side in one compiled
loop, which is faster.

XLA may compile a loop for several learners with another order of operations than the loop for one,
and then the last bits differ. A cell's result must not depend on its neighbours, so the first cells
of a program are played both ways, and side by side is used only if all bits agree. Whether it is
used therefore changes no result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from ..problem.programs import programs_of
from .cell import Ready
from .store import Played

__all__ = ["WIDTH", "alike", "verdict"]

WIDTH = 8
"""Learners that are played side by side. The number is fixed, so that one program serves all."""


def alike(cells: Sequence[Any]) -> bool:
    """Return whether cells differ only in the numbers of their learner."""
    if not all(isinstance(cell, Ready) for cell in cells):
        return False
    first = cells[0]
    same = ("problem", "score", "stream", "x1", "key", "feedback", "measure")
    equal = ("horizon", "seeds", "record", "every", "chunk", "unproven", "keep")
    return all(
        all(getattr(cell, name) is getattr(first, name) for name in same)
        and all(getattr(cell, name) == getattr(first, name) for name in equal)
        and _shape(cell) == _shape(first)
        for cell in cells
    )


def _shape(cell: Ready) -> Any:
    leaves, structure = jax.tree.flatten(cell.learner)
    return structure, tuple(map(np.shape, leaves))


class Verdict:
    """Whether side by side gives the same bits for a program: None until it was tried."""

    same: bool | None = None

    def judge(self, alone: Sequence[Played], together: Callable[[], Sequence[Played]]) -> None:
        """Compare cells that were played alone with the same cells side by side."""
        try:
            self.same = all(_equal(a, b) for a, b in zip(alone, together(), strict=True))
        except Exception:  # too large, for example
            self.same = False


def verdict(cell: Ready) -> Verdict:
    """Return the verdict on the program of a cell, which is kept with the compiled programs of its
    problem."""
    key = (
        "side by side",
        id(cell.score),
        _shape(cell),
        cell.seeds,
        cell.record,
        cell.every,
        cell.chunk,
        cell.feedback is None,
        WIDTH,
    )
    return programs_of(cell.problem).get(key, Verdict)


def _equal(a: Played, b: Played) -> bool:
    return a.arrays.keys() == b.arrays.keys() and all(
        a.arrays[name].dtype == array.dtype and a.arrays[name].tobytes() == array.tobytes()
        for name, array in b.arrays.items()
    )
