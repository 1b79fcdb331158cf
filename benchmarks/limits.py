"""How far a simulation scales: rounds, dimension, constraints, seeds and learners, with time, peak
memory and local exponents.

Every size is measured in a process of its own, on one core, because peak memory never decreases.
The exponent compares a size with the one before it: 1 means that ten times the size takes ten times
as long.

Run: python -m benchmarks.limits [--quick] [--only NAME] [--json] [--page]
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from typing import Any

import numpy as np

from . import setting
from .memory import peak
from .results import report

SIZES = {
    "T": ("toy, rounds, totals only", (10**5, 10**6, 10**7, 10**8)),
    "d": ("logistic, numbers of a decision, 48 rounds", (10**3, 10**4, 10**5, 10**6)),
    "m": ("polyhedron in 20 dimensions, constraints, 200 rounds", (10**2, 10**3, 10**4, 10**5)),
    "seeds": ("toy, seeds, 1,000 rounds", (10, 100, 1000, 10**4)),
    "cells": ("toy, learners x 10 seeds, 200 rounds", (10**2, 10**3, 10**4, 10**5)),
}
"""What is varied, a description, and the sizes."""


def main() -> None:
    """Measure and print the table."""
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("--json", action="store_true")
    words.add_argument("--quick", action="store_true", help="leave out the largest size of each")
    words.add_argument("--only", choices=sorted(SIZES))
    words.add_argument(
        "--page", action="store_true", help="write the table into docs/performance.md"
    )
    asked = words.parse_args()
    rows = []
    for varied in [asked.only] if asked.only else SIZES:
        rows += measure(varied, asked.quick)
    report(
        "limits",
        rows,
        asked.json,
        "How far a simulation scales: a second call, one core, one process per size",
    )
    if asked.page:
        from .page import put, table, written_by

        put("limits", f"{written_by('limits', setting.machine())}\n\n{table('Sizes', rows)}")


def measure(varied: str, quick: bool = False) -> list[dict[str, Any]]:
    """Return one row per size of what is varied."""
    what, sizes = SIZES[varied]
    rows: list[dict[str, Any]] = []
    for size in sizes[:-1] if quick else sizes:
        print(f"  {what}: {size:,}", file=sys.stderr)
        found = json.loads(setting.start("benchmarks.limits", varied, str(size), cores={0}))
        exponent = "-"
        if rows:
            grown = math.log(found["seconds"] / rows[-1]["seconds"]) / math.log(
                size / rows[-1]["size"]
            )
            exponent = f"{grown:.2f}"
        rows.append(
            {
                "varied": what,
                "size": size,
                "first call, s": found["first"],
                "seconds": found["seconds"],
                "exponent": exponent,
                "peak MB": found["bytes"] / 1e6,
            }
        )
    return rows


def _play(varied: str, size: int) -> dict[str, float]:
    setting.one_core()
    import jax

    jax.config.update("jax_enable_x64", True)
    call = _call(varied, size)
    times = []
    for _ in range(2):
        began = time.perf_counter()
        call()
        times.append(time.perf_counter() - began)
    return {"first": times[0], "seconds": times[1], "bytes": peak()}


def _call(varied: str, size: int) -> Any:
    import taut

    from . import cases

    if varied == "T":
        toy = cases.toy(16384)
        block = toy.data(1)[0]

        def chunk(start: int, length: int) -> np.ndarray[Any, Any]:
            return block[np.arange(start, start + length) % len(block)]

        return lambda: taut.simulate(toy.learner, toy.problem, chunk, horizon=size, record=())
    if varied in ("d", "m"):
        case = cases.logistic(size, 1, 48) if varied == "d" else cases.polyhedron(20, size, 200)
        data = case.draw(np.random.default_rng(0), case.horizon)
        return lambda: taut.simulate(case.learner, case.problem, data, record=())
    if varied == "seeds":
        toy = cases.toy(1000)
        streams = np.random.default_rng(0).uniform(-1, 1, (size, 1000, 2)) / 2
        return lambda: taut.simulate(toy.learner, toy.problem, streams, seeds=size, record=())
    toy = cases.toy(200)
    streams = toy.data(10)
    learners = [taut.ClippedOGD(0.01 + 0.1 * i / size, 4.0) for i in range(size // 10)]
    return lambda: taut.simulate(learners, toy.problem, streams, seeds=10, record=())


if __name__ == "__main__":
    if len(sys.argv) == 3 and sys.argv[1] in SIZES:
        print(json.dumps(_play(sys.argv[1], int(sys.argv[2]))))
    else:
        main()
