"""What a live player remembers of its rounds: the last ones all, earlier ones thinned, in bounded
memory."""

from __future__ import annotations

import numpy as np

from ..engine import Array

__all__ = ["History"]

ROWS = 512
"""Recent rounds that are all kept, and at most as many earlier ones."""
NUMBERS = 2**19
"""Numbers that each of the two parts holds at most, so that a player with large decisions stays
small."""


class History:
    """Loss, constraint values and decision of the last rounds, and of every s-th round before them.

    The spacing s starts at 1. When the earlier rounds fill their buffer, every other one is dropped
    and s doubles.

    >>> history = History(constraints=1, size=1, rows=4)
    >>> for t in range(1, 20):
    ...     history.add(np.array([float(t), -1.0]), np.array([0.5]))
    >>> history.rounds.tolist()
    [4, 8, 12, 16, 17, 18, 19]
    """

    def __init__(self, constraints: int, size: int, rows: int | None = None) -> None:
        width = 1 + constraints + size
        self.constraint_names: tuple[str, ...] | None = None
        """The names of the constraints, in the order of `excess`, if they have names."""
        self._rows = max(4, min(ROWS, NUMBERS // width)) if rows is None else rows
        self._constraints = constraints
        self._recent = np.empty((self._rows, width))
        self._earlier = np.empty((self._rows, width))
        self._before = (
            0  # rounds of which nothing is known, played before a file without a history was loaded
        )
        self._count = 0  # rounds after these
        self._spacing = 1
        self._kept = 0  # rows of `_earlier` in use

    def add(self, loss_and_excess: Array, decision: Array) -> None:
        """Add a round: its loss and g_1..g_m, and the decision that was played."""
        row = self._recent[self._count % self._rows]
        if self._count >= self._rows:
            self._retire(self._count - self._rows + 1, row)
        row[: 1 + self._constraints] = loss_and_excess
        row[1 + self._constraints :] = decision
        self._count += 1

    def _retire(self, round: int, row: Array) -> None:
        """Move the oldest of the recent rounds to the earlier ones, if its number is a multiple of
        the spacing."""
        if round % self._spacing:
            return
        if self._kept == self._rows:
            self._kept //= 2
            self._earlier[: self._kept] = self._earlier[1 : 2 * self._kept : 2]
            self._spacing *= 2
            if round % self._spacing:
                return
        self._earlier[self._kept] = row
        self._kept += 1

    @property
    def rounds(self) -> Array:
        """The numbers of the remembered rounds, increasing."""
        early = self._spacing * np.arange(1, self._kept + 1)
        late = np.arange(max(0, self._count - self._rows), self._count) + 1
        return self._before + np.concatenate([early, late])

    @property
    def loss(self) -> Array:
        """The losses of these rounds; NaN where none was observed."""
        return self._values()[:, 0]

    @property
    def excess(self) -> Array:
        """The constraint values, (round, constraint)."""
        return self._values()[:, 1 : 1 + self._constraints]

    @property
    def decision(self) -> Array:
        """The decisions, flat: (round, entry)."""
        return self._values()[:, 1 + self._constraints :]

    def _values(self) -> Array:
        count, rows = self._count, self._rows
        recent = (
            self._recent[:count]
            if count <= rows
            else np.roll(self._recent, -(count % rows), axis=0)
        )
        return np.concatenate([self._earlier[: self._kept], recent])

    @property
    def recent(self) -> int:
        """The number of last rounds that are all kept."""
        return self._rows

    def decision_of(self, round: int) -> Array:
        """The flat decision of one of the last rounds."""
        return self._recent[(round - 1 - self._before) % self._rows, 1 + self._constraints :]

    def to_arrays(self) -> dict[str, Array]:
        """Return the arrays that `restore` needs."""
        about = np.array([self._count, self._spacing, self._kept])
        return {"about": about, "values": self._values()}

    def restore(self, arrays: dict[str, Array], rounds: int) -> None:
        """Continue from `to_arrays` after so many rounds; ValueError or KeyError if the arrays do
        not fit.

        Files of the first versions have no history: nothing is known of the rounds before.
        """
        if not arrays:
            self._before = rounds
            return
        count, spacing, kept = map(int, arrays["about"])
        values = arrays["values"]
        recent = min(count, self._rows)
        if (
            not 0 <= count <= rounds
            or not 0 <= kept <= self._rows
            or spacing < 1
            or kept * spacing > count
            or values.shape != (kept + recent, self._recent.shape[1])
            or not np.isfinite(values[:, 1:]).all()
        ):
            raise ValueError("the history is not that of this player")
        self._before, self._count, self._spacing, self._kept = rounds - count, count, spacing, kept
        self._earlier[:kept] = values[:kept]
        places = np.arange(count - recent, count) % self._rows
        self._recent[places] = values[kept:]
