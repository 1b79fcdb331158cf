"""Speed-up by a second core: twenty independent runs, one after the other on one core, and in
threads on two.

Hand-written C in the same threads shows what speed-up the machine allows.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial

RUNS = 20
REPEATS = 9


def measure() -> dict[str, object]:
    """Return medians for the toy problem with 10 seeds and for doubly stochastic matrices, timed
    alternately."""
    import jax

    jax.config.update("jax_enable_x64", True)
    import taut

    from . import cases, native
    from .timing import interleaved

    found: dict[str, object] = {}
    for case, seeds in ((cases.toy(), 10), (cases.doubly_stochastic(10, 20_000), 1)):
        data = jax.device_put(case.data(RUNS * seeds))
        streams = [data[i * seeds : (i + 1) * seeds] for i in range(RUNS)]
        jobs = [
            partial(taut.simulate, case.learner, case.problem, z, seeds=seeds, x1=case.start)
            for z in streams
        ]
        loops = [native.prepare(case, seeds, case.horizon) for _ in range(RUNS)]
        took = interleaved(
            {
                "one": _on(1, partial(_in_threads, jobs, 1)),
                "two": _on(2, partial(_in_threads, jobs, 4)),
                "C, one": _on(1, partial(_in_threads, loops, 1)),
                "C, two": _on(2, partial(_in_threads, loops, 4)),
            },
            REPEATS,
            clock=time.perf_counter,  # two cores save time, not processor time
        )
        found[f"{case.name}, {seeds} seed{'s' * (seeds > 1)} each"] = {
            **{name: timing._asdict() for name, timing in took.items()},
            "faster": took["one"].median / took["two"].median,
            "C faster": took["C, one"].median / took["C, two"].median,
        }
    return found


def _in_threads(jobs: Sequence[Callable[[], object]], threads: int) -> list[object]:
    """Run all jobs; two threads per core keep a core busy while a job has nothing to compute."""
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(lambda job: job(), jobs))


def _on(count: int, call: Callable[[], object]) -> Callable[[], object]:
    """Return the call on so many cores: all threads of this process, also those of JAX, are moved
    there before it."""
    cores = set(sorted(os.sched_getaffinity(0))[-count:])

    def moved() -> object:
        for thread in os.listdir("/proc/self/task"):
            with suppress(ProcessLookupError):  # a thread of the last call, which has just ended
                os.sched_setaffinity(int(thread), cores)
        return call()

    return moved


if __name__ == "__main__":
    print(json.dumps(measure()))
