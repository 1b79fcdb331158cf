"""Progress of long work: a bar in a terminal and in a notebook, a line per minute in a log.

Simulations count rounds, sweeps and the arena count cells, the reproduction counts experiments.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["EVERY", "Counter", "counting"]

EVERY = 60.0
"""Seconds between two lines of a log."""


class Counter:
    """Counts what is done, and shows nothing.

    Arguments:
        total: how much there is to do; None if nobody knows.
        unit: what is counted, or what is done if there is no total.
    """

    def __init__(self, total: int | None, unit: str = "cells") -> None:
        self.total, self.unit = total, unit
        self.known = self.played = 0
        self._begun = time.monotonic()

    def skip(self, count: int) -> None:
        """Count what an earlier call has done."""
        self.known += count

    def advance(self, count: int = 1) -> None:
        """Count what is done now."""
        self.played += count

    def describe(self, text: str) -> None:
        """Say what is done next."""

    def line(self) -> str:
        """Return how much is done, and about how long the rest takes."""
        seconds = time.monotonic() - self._begun
        if self.total is None:
            return f"{self.unit}, {_duration(seconds)} so far"
        done = self.known + self.played
        text = f"{done:,}/{self.total:,} {self.unit}"
        if self.known:
            text += f" ({self.known:,} from an earlier run)"
        if done < self.total and self.played:
            text += f", about {_duration((self.total - done) * seconds / self.played)} left"
        return text


class _Log(Counter):
    """Writes a line to standard error in every minute, also while nothing is finished."""

    def __init__(self, total: int | None, unit: str, every: float) -> None:
        super().__init__(total, unit)
        self._every, self._ended = every, threading.Event()
        self._clock = threading.Thread(target=self._tick, daemon=True)
        self._clock.start()

    def _tick(self) -> None:
        told = False
        while not self._ended.wait(self._every):
            self.write(self.line())
            told = True
        if told or self.total is not None:
            self.write(self.line())  # where the count ended

    def describe(self, text: str) -> None:
        """Write what is done next."""
        self.write(text)

    def write(self, text: str) -> None:
        """Write a line to standard error."""
        print(text, file=sys.stderr, flush=True)

    def close(self) -> None:
        """Write no more lines."""
        self._ended.set()
        self._clock.join()


class _Bar(Counter):
    """Counts in a progress bar."""

    def __init__(self, total: int | None, unit: str, bars: Any) -> None:
        super().__init__(total, unit)
        self._bars = bars
        self._bar = bars.add_task(unit, total=total)

    def skip(self, count: int) -> None:
        """Count what an earlier call has done."""
        super().skip(count)
        self._bars.update(self._bar, completed=self.known + self.played)

    def advance(self, count: int = 1) -> None:
        """Count what is done now."""
        super().advance(count)
        self._bars.advance(self._bar, count)

    def describe(self, text: str) -> None:
        """Show what is done next beside the bar."""
        self._bars.update(self._bar, description=text)


def _duration(seconds: float) -> str:
    """A number of seconds in words: 50 s, 12 min or 3 h 5 min."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60} min"


@contextmanager
def counting(
    show: bool | None,
    total: int | None,
    unit: str = "cells",
    address: str = "",
    every: float = EVERY,
) -> Iterator[Counter]:
    """Count with a bar if a person sees standard error, and with a line per minute in a log.

    Arguments:
        show: whether to show anything; by default if standard error is a terminal.
        total: how much there is to do; None if nobody knows, which shows the time instead.
        unit: what is counted, or what is done if there is no total.
        address: where a person can watch the workers.
        every: seconds between two lines of a log.
    """
    if show is False or (show is None and not sys.stderr.isatty()):
        yield Counter(total, unit)
        return
    from rich.console import Console

    console = Console(stderr=True)
    if not (console.is_terminal or console.is_jupyter):
        log = _Log(total, unit, every)
        if address:
            log.write(f"Dask dashboard: {address}")
        try:
            yield log
        finally:
            log.close()
        return
    if address:
        console.print(f"Dask dashboard: {address}")
    with _bars(console, total) as bars:
        yield _Bar(total, unit, bars)


def _bars(console: Any, total: int | None) -> Any:
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        SpinnerColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    text = TextColumn("{task.description}")
    if total is None:
        return Progress(SpinnerColumn(), text, TimeElapsedColumn(), console=console, transient=True)
    columns = (text, BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    return Progress(*columns, console=console)
