"""Independent simulations in threads, because compiled code does not hold the interpreter lock."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import jax

from .. import arguments

__all__ = ["cores", "simulate_all"]

Result = TypeVar("Result")


def simulate_all(jobs: Iterable[Callable[[], Result]], threads: int | None = None) -> list[Result]:
    """The results of `jobs`, in their order; the first error among them is raised.

    Arguments:
        jobs: functions without arguments, for example `functools.partial(taut.simulate, learner,
            problem, stream)`.
        threads: how many run at a time; by default two per core that this process may use, because
            a simulation has moments in which its core has nothing to do.

    Seeds of one simulation need no threads: `simulate(..., seeds=n)` computes them together in one.
    Threads are for simulations that differ in more than data or parameters, and for more seeds than
    one core should compute.

    >>> simulate_all([lambda: 1, lambda: 2], threads=2)
    [1, 2]
    """
    if not isinstance(jobs, Iterable) or isinstance(jobs, (str, bytes, jax.Array)):
        raise TypeError(f"jobs: got {jobs!r}; expected a list of functions without arguments")
    jobs = list(jobs)
    for job in jobs:
        if not callable(job):
            raise TypeError(
                f"jobs: got {job!r}; expected functions without arguments, as functools.partial "
                "makes them"
            )
    workers = 2 * cores() if threads is None else arguments.count("threads", threads)
    with ThreadPoolExecutor(max_workers=workers) as pool:
        return [future.result() for future in [pool.submit(job) for job in jobs]]


def cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
