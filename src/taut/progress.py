"""Progress of long work: a bar in a terminal and in a notebook, a line per minute in a log.

Simulations count rounds, sweeps and the arena count cells, the reproduction counts experiments.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

EVERY = 60.0
"""Seconds between two lines of a log."""


class Counter:
    """Counts what is done.

    Arguments:
        total: how much there is to do; None if nobody knows.
        unit: what is counted, or what is done if there is no total.
        show: called with (completed, description) whenever one of them changes.
    """

    def __init__(
        self,
        total: int | None,
        unit: str = "cells",
        show: Callable[[int, str | None], None] = lambda completed, description: None,
    ) -> None:
        self.total, self.unit, self._show = total, unit, show
        self.known = self.played = 0
        self._begun = time.monotonic()

    def skip(self, count: int) -> None:
        """Count what an earlier call has done."""
        self.known += count
        self._show(self.known + self.played, None)

    def advance(self, count: int = 1) -> None:
        """Count what is done now."""
        self.played += count
        self._show(self.known + self.played, None)

    def describe(self, text: str) -> None:
        """Say what is done next."""
        self._show(self.known + self.played, text)

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
    watched = console.is_terminal or console.is_jupyter
    if address:
        _write(f"Dask dashboard: {address}")
    with (_bar if watched else _log)(console, total, unit, every) as counter:
        yield counter


def _write(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


@contextmanager
def _log(console: Any, total: int | None, unit: str, every: float) -> Iterator[Counter]:
    """Write a line in every minute, also while nothing is finished."""
    counter = Counter(total, unit, lambda _, text: None if text is None else _write(text))
    ended = threading.Event()

    def tick() -> None:
        written = False
        while not ended.wait(every):
            _write(counter.line())
            written = True
        if written or total is not None:
            _write(counter.line())  # where the count ended

    clock = threading.Thread(target=tick, daemon=True)
    clock.start()
    try:
        yield counter
    finally:
        ended.set()
        clock.join()


@contextmanager
def _bar(console: Any, total: int | None, unit: str, every: float) -> Iterator[Counter]:
    """Show a bar, or a spinner if nobody knows how much there is to do."""
    from rich import progress as rich

    text = rich.TextColumn("{task.description}")
    columns: tuple[Any, ...] = (rich.SpinnerColumn(), text, rich.TimeElapsedColumn())
    if total is not None:
        columns = (text, rich.BarColumn(), rich.MofNCompleteColumn(), rich.TimeRemainingColumn())
    with rich.Progress(*columns, console=console, transient=total is None) as bars:
        task = bars.add_task(unit, total=total)

        def show(completed: int, description: str | None) -> None:
            bars.update(task, completed=completed, description=description)

        yield Counter(total, unit, show)
