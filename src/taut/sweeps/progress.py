"""Progress of sweeps: a bar in a terminal, and a line per minute in a log."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["EVERY", "Counter", "counting"]

EVERY = 60.0
"""Seconds between two lines of a log."""


class Counter:
    """Counts finished cells, and writes a line per minute to standard error.

    Arguments:
        total: the number of cells.
        every: seconds between two lines.
    """

    def __init__(self, total: int, every: float = EVERY) -> None:
        self.total, self.every = total, every
        self.known = self.played = 0
        self._begun = self._last = time.monotonic()

    def skip(self, count: int) -> None:
        """Count cells that an earlier call has played."""
        self.known += count

    def advance(self) -> None:
        """Count a cell that was played, and write a line if a minute has passed."""
        self.played += 1
        now = time.monotonic()
        if now - self._last >= self.every:
            self._last = now
            self.write(self.line(now - self._begun))

    def line(self, seconds: float) -> str:
        """Return how many cells are done, and about how long the others take."""
        done = self.known + self.played
        text = f"{done}/{self.total} cells"
        if self.known:
            text += f" ({self.known} from an earlier run)"
        if done < self.total and self.played:
            text += f", about {_duration((self.total - done) * seconds / self.played)} left"
        return text

    def write(self, text: str) -> None:
        """Write a line to standard error."""
        print(text, file=sys.stderr, flush=True)

    def close(self) -> None:
        """Say where the count ended."""
        self.write(self.line(time.monotonic() - self._begun))


class _Bar(Counter):
    """Counts finished cells in a progress bar."""

    def __init__(self, total: int, bars: Any) -> None:
        super().__init__(total)
        self._bars = bars
        self._bar = bars.add_task("cells", total=total)

    def skip(self, count: int) -> None:
        """Count cells that an earlier call has played."""
        super().skip(count)
        self._bars.update(self._bar, completed=self.known + self.played)

    def advance(self) -> None:
        """Count a cell that was played."""
        self.played += 1
        self._bars.advance(self._bar)


class _Silent(Counter):
    """Counts finished cells and shows nothing."""

    def write(self, text: str) -> None:
        """Write nothing."""


def _duration(seconds: float) -> str:
    """A number of seconds in words: 50 s, 12 min or 3 h 5 min."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60} min"


@contextmanager
def counting(show: bool | None, total: int, address: str = "") -> Iterator[Counter]:
    """Count cells: with a bar if standard error is a terminal, and with lines in a log.

    Arguments:
        show: whether to show anything; by default if standard error is a terminal.
        total: the number of cells.
        address: where a person can watch the workers.
    """
    terminal = sys.stderr.isatty()
    if not (terminal if show is None else show):
        yield _Silent(total)
        return
    if not terminal:
        counter = Counter(total)
        if address:
            counter.write(f"Dask dashboard: {address}")
        yield counter
        counter.close()
        return
    with _terminal_bar(address) as bars:
        yield _Bar(total, bars)


@contextmanager
def _terminal_bar(address: str) -> Iterator[Any]:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        ProgressColumn,
        TextColumn,
        TimeRemainingColumn,
    )
    from rich.text import Text

    class Rate(ProgressColumn):
        """Cells per second."""

        def render(self, task: Any) -> Text:
            """Return the rate, once it is known."""
            return Text(f"{task.speed:.1f} per second" if task.speed else "")

    console = Console(stderr=True)
    if address:
        console.print(f"Dask dashboard: {address}")
    columns = (
        TextColumn("cells"),
        BarColumn(),
        MofNCompleteColumn(),
        Rate(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console) as bars:
        yield bars
