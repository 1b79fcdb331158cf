"""Independent simulations side by side, in threads: compiled games hold no interpreter lock."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from .. import arguments

__all__ = ["simulate_all"]

Result = TypeVar("Result")


def simulate_all(jobs: Sequence[Callable[[], Result]], threads: int | None = None) -> list[Result]:
    """The results of `jobs`, in their order; the first error among them is raised.

    Arguments:
        jobs: functions without arguments, for example `functools.partial(taut.simulate, learner, problem, stream)`.
        threads: how many run at a time; by default as many as this process may use cores.

    Seeds of one game need no threads: `simulate(..., seeds=n)` plays them side by side in one. Threads are for games that
    differ in more than data or parameters, and for more seeds than one core should play.

    >>> simulate_all([lambda: 1, lambda: 2], threads=2)
    [1, 2]
    """
    for job in jobs:
        if not callable(job):
            raise TypeError(f"jobs: got {job!r}; expected functions without arguments, as functools.partial makes them")
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    workers = cores if threads is None else arguments.count("threads", threads)
    with ThreadPoolExecutor(max_workers=workers) as pool:
        return [future.result() for future in [pool.submit(job) for job in jobs]]
