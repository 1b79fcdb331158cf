"""A ledger: running totals of a live game, kept in 64 bits and written up a page at a time."""

from __future__ import annotations

from typing import Any

import numpy as np

from .run import Totals

__all__ = ["Ledger"]

PAGE = 256
Array = np.ndarray[Any, Any]


class Ledger:
    """Totals of the loss and of `count` constraints.

    A round is only noted down; the notes are summed when the page is full or someone asks, in the order of the rounds,
    so that the result does not depend on when that was.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self._rounds = 0
        self._page = np.empty((PAGE, 1 + count))
        self._noted = 0
        self._sums = np.zeros(4 + 3 * count)
        self._peak = np.zeros(count)

    @property
    def rounds(self) -> int:
        """Rounds so far."""
        return self._rounds + self._noted

    def note(self, loss_and_excess: Array) -> None:
        """One more round: its loss, then g_1..g_m."""
        self._page[self._noted] = loss_and_excess
        self._noted += 1
        if self._noted == PAGE:
            self._write_up()

    @property
    def totals(self) -> Totals:
        """All that was noted, summed."""
        self._write_up()
        ends = 1 + self.count * np.arange(4)
        loss, excess, violation, squared, worst = np.split(self._sums.copy(), ends)
        return Totals(loss[0], excess, violation, squared, self._peak.copy(), worst[0], worst[1], worst[2])

    def to_arrays(self) -> dict[str, Array]:
        """What `from_arrays` needs."""
        self._write_up()
        return {"rounds": np.asarray(self._rounds), "sums": self._sums, "peak": self._peak}

    @classmethod
    def from_arrays(cls, count: int, arrays: dict[str, Array]) -> Ledger:
        """The ledger that `to_arrays` described; KeyError or ValueError if it is not one."""
        ledger = cls(count)
        rounds, sums, peak = arrays["rounds"], arrays["sums"], arrays["peak"]
        if sums.shape != ledger._sums.shape or peak.shape != ledger._peak.shape:
            raise ValueError(f"the totals are not those of {count} constraints")
        ledger._rounds, ledger._sums, ledger._peak = int(rounds), sums, peak
        return ledger

    def _write_up(self) -> None:
        noted = self._page[: self._noted]
        loss, excess = noted[:, :1], noted[:, 1:]
        worst = excess.max(axis=1, keepdims=True)
        violation, clipped = np.maximum(excess, 0), np.maximum(worst, 0)
        terms = [loss, excess, violation, violation**2, worst, clipped, clipped**2]
        # A cumulative sum adds row after row, whereas a plain sum would choose an order of its own.
        self._sums = np.cumsum(np.vstack([self._sums, np.hstack(terms)]), axis=0)[-1]
        self._peak = np.vstack([self._peak, violation]).max(axis=0)
        self._rounds, self._noted = self.rounds, 0
