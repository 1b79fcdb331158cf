"""Deadlines: a simulation that runs inside a deadline ends with an error between two chunks once
its time is up."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

__all__ = ["check_deadline", "deadline"]

_limit: ContextVar[tuple[float, float] | None] = ContextVar("deadline", default=None)


@contextmanager
def deadline(seconds: float | None) -> Iterator[None]:
    """Let simulations in this context and thread take `seconds` together; None for no limit."""
    limit = None if seconds is None else (time.monotonic() + seconds, seconds)
    token = _limit.set(limit)
    try:
        yield
    finally:
        _limit.reset(token)


def check_deadline(done: int, horizon: int) -> None:
    """Raise TimeoutError if the time is up, and say how far the simulation came."""
    limit = _limit.get()
    if limit is not None and time.monotonic() > limit[0]:
        raise TimeoutError(
            f"The time limit of {limit[1]:g} s ended after {done} of {horizon} rounds."
        )
