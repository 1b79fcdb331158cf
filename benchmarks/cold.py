"""Processor time of README's first example in a new process, step by step: import, simulation,
certificate, printing.

Run with `python -m benchmarks.cold [--json] [--warm] [--page]`. Times are those of all threads,
user and system. Nothing is cached between processes except Python's bytecode, which a first process
writes as an installation does, unless `--warm` asks for the persistent compilation cache, which the
first process then fills. The process that took the least time in all is shown, because other work
on the machine only makes them longer.

A step is split into what JAX reports: tracing functions of Python, lowering traced programs to
XLA's language, compiling them or reading them from the cache. JAX reports clock time; a part is
shown as its share of the clock time of its step, times the step's processor time. Clarabel solves,
in a part of its own, are timed directly. The rest is Python and NumPy.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

from . import setting
from .results import report

PROCESSES = 5
CACHE = {
    False: "in a new process with no compilation cache, seconds of processor time",
    True: "in a new process with a filled compilation cache, seconds of processor time",
}
"""What is measured, without and with `--warm`."""
TARGETS = {False: {"certificate": 1.0, "the whole example": 3.0}, True: {"the whole example": 1.5}}
"""Seconds, at most, without and with a filled compilation cache."""
EVENTS = {
    "/jax/core/compile/jaxpr_trace_duration": "tracing",
    "/jax/core/compile/jaxpr_to_mlir_module_duration": "lowering",
    "/jax/core/compile/backend_compile_duration": "compiling",
}
PARTS = (*EVENTS.values(), "solving")


def main() -> None:
    """Measure and print the table, or write both tables into docs/performance.md."""
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("--json", action="store_true")
    words.add_argument(
        "--warm",
        action="store_true",
        help="with a persistent compilation cache that was filled before",
    )
    words.add_argument(
        "--page", action="store_true", help="measure both and write them into docs/performance.md"
    )
    asked = words.parse_args()
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    found = {warm: _rows(warm) for warm in ((False, True) if asked.page else (asked.warm,))}
    for warm, rows in found.items():
        report(
            "cold-warm" if warm else "cold",
            rows,
            asked.json,
            f"README's first example {CACHE[warm]}",
        )
    if asked.page:
        from .page import put, table, written_by

        tables = (table(CACHE[warm].capitalize(), rows) for warm, rows in found.items())
        put("cold", "\n\n".join([written_by("cold", setting.machine()), *tables]))


def _rows(warm: bool) -> list[dict[str, Any]]:
    """Measure several processes; return the steps of the one that took the least time."""
    with tempfile.TemporaryDirectory() as folder:
        arguments = [folder] if warm else []
        setting.start("benchmarks.cold", "measure", *arguments)
        found = [
            json.loads(setting.start("benchmarks.cold", "measure", *arguments))
            for _ in range(PROCESSES)
        ]
    best = min(found, key=lambda one: one["the whole example"]["seconds"])
    rows = []
    for name, parts in best.items():
        target = TARGETS[warm].get(name)
        seconds = parts["seconds"]
        rows.append(
            {
                "step": name,
                "seconds": seconds,
                **{part: parts[part] for part in PARTS},
                "the rest": max(seconds - sum(parts[part] for part in PARTS), 0.0),
                "at most": "" if target is None else target,
                "met": "" if target is None else bool(seconds <= target),
            }
        )
    return rows


class _Laps:
    """The processor time of each step, split into parts."""

    def __init__(self) -> None:
        self.steps: dict[str, dict[str, float]] = {}
        self._clock, self._last = time.perf_counter(), time.process_time()
        self._spent = dict.fromkeys(PARTS, 0.0)

    def add(self, part: str, seconds: float) -> None:
        self._spent[part] += seconds

    def end(self, name: str) -> None:
        now, clock = time.process_time(), time.perf_counter()
        seconds, share = now - self._last, (now - self._last) / max(clock - self._clock, 1e-9)
        self.steps[name] = {
            "seconds": seconds,
            **{part: share * spent for part, spent in self._spent.items()},
        }
        self._last, self._clock, self._spent = now, clock, dict.fromkeys(PARTS, 0.0)

    def total(self, name: str) -> None:
        whole = {part: sum(step[part] for step in self.steps.values()) for part in PARTS}
        self.steps[name] = {"seconds": time.process_time(), **whole}


def _measure(folder: str | None) -> dict[str, dict[str, float]]:
    laps = _Laps()
    import jax
    import jax.numpy as jnp
    import numpy as np

    laps.end("import jax")
    import taut

    if folder is not None:
        taut.engine.cache(folder)
    laps.end("import taut")
    jax.monitoring.register_event_duration_secs_listener(
        lambda event, seconds, **_: laps.add(EVENTS[event], seconds) if event in EVENTS else None
    )
    _time_solves(laps)
    problem = taut.Problem(
        lambda x, c: c @ x, lambda x: jnp.abs(x).sum() - 1, taut.Ball(1.0, shape=2)
    )
    costs = np.random.default_rng(0).uniform(size=(10, 5_000, 2))
    run = taut.simulate(problem, costs, seeds=10)
    laps.end("simulate")
    certificate = run.certificate()
    laps.end("certificate")
    str(certificate)
    laps.end("print")
    laps.total("the whole example")
    run.certificate()
    laps.end("a second certificate")
    return laps.steps


def _time_solves(laps: _Laps) -> None:
    """Count the time that Clarabel takes as a part."""
    from taut.problem.conic import Solver

    real: Callable[..., Any] = Solver._solved

    def timed(*arguments: Any) -> Any:
        began = time.perf_counter()
        try:
            return real(*arguments)
        finally:
            laps.add("solving", time.perf_counter() - began)

    Solver._solved = timed  # type: ignore[method-assign]


if __name__ == "__main__":
    if sys.argv[1:2] == ["measure"]:
        given: list[Any] = sys.argv[2:]
        print(json.dumps(_measure(*given) if given else _measure(None)))
    else:
        main()
