"""Alternating measurements, so that other load on the machine affects all implementations.

Times are processor times of all threads of the process, in which waiting for other programs does
not count. Sharing the caches with them does, so a sample is short and there are many of them.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

Call = Callable[[], object]


class Timing(NamedTuple):
    """Seconds for one call: the median of the samples, and the smallest and largest of them."""

    median: float
    low: float
    high: float

    def per(self, units: float) -> Timing:
        """Return nanoseconds per unit of work."""
        return Timing(*(value * 1e9 / units for value in self))


def interleaved(
    calls: Mapping[str, Call],
    repeats: int = 5,
    floor: float = 0.05,
    clock: Callable[[], float] = time.process_time,
) -> dict[str, Timing]:
    """Time all calls `repeats` times alternately: A B C A B C ... A sample repeats a call for at
    least `floor` seconds."""
    loops = {}
    for name, call in calls.items():
        call()  # compile, and fill caches
        loops[name] = max(1, min(1000, round(floor / max(_once(call, 1, clock), 1e-9))))
    samples: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(repeats):
        for name, call in calls.items():
            samples[name].append(_once(call, loops[name], clock))
    return {name: Timing(statistics.median(s), min(s), max(s)) for name, s in samples.items()}


def _once(call: Call, loops: int, clock: Callable[[], float]) -> float:
    began = clock()
    for _ in range(loops):
        call()
    return (clock() - began) / loops
