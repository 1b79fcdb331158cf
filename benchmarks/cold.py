"""Processor time of README's first example in a new process, step by step: import, simulation, certificate, printing.

Run with `python -m benchmarks.cold [--json] [--warm]`. Times are those of all threads, user and system. Nothing is cached between
processes except Python's bytecode, which a first process writes as an installation does, unless `--warm` asks for the persistent
compilation cache, which the first process then fills. Each row is the smallest of several processes, because other work on the
machine only makes them longer.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from typing import Any

from . import setting
from .results import report

PROCESSES = 3
TARGETS = {"certificate": 2.0, "the whole example": 4.0}


def main() -> None:
    """Measure and print the table."""
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("--json", action="store_true")
    words.add_argument("--warm", action="store_true", help="with a persistent compilation cache that was filled before")
    asked = words.parse_args()
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    with tempfile.TemporaryDirectory() as folder:
        arguments = [folder] if asked.warm else []
        setting.start("benchmarks.cold", "measure", *arguments)
        found = [json.loads(setting.start("benchmarks.cold", "measure", *arguments)) for _ in range(PROCESSES)]
    rows = []
    for name in found[0]:
        seconds = min(one[name] for one in found)
        target = TARGETS.get(name)
        rows.append({
            "step": name, "seconds": seconds, "at most": "" if target is None else target,
            "met": "" if target is None else bool(seconds <= target),
        })  # fmt: skip
    report("cold", rows, asked.json, "README's first example in a new process, seconds of processor time")


def _measure(folder: str | None) -> dict[str, float]:
    times: dict[str, float] = {}
    last = time.process_time()

    def lap(name: str) -> None:
        nonlocal last
        now = time.process_time()
        times[name], last = now - last, now

    import jax.numpy as jnp
    import numpy as np

    lap("import jax")
    import taut

    if folder is not None:
        taut.engine.cache(folder)
    lap("import taut")
    problem = taut.Problem(lambda x, c: c @ x, lambda x: jnp.abs(x).sum() - 1, taut.Ball(1.0, shape=2))
    costs = np.random.default_rng(0).uniform(size=(10, 5_000, 2))
    run = taut.simulate(problem, costs, seeds=10)
    lap("simulate")
    certificate = run.certificate()
    lap("certificate")
    str(certificate)
    lap("print")
    times["the whole example"] = time.process_time()
    run.certificate()
    lap("a second certificate")
    return times


if __name__ == "__main__":
    if sys.argv[1:2] == ["measure"]:
        given: list[Any] = sys.argv[2:]
        print(json.dumps(_measure(*given) if given else _measure(None)))
    else:
        main()
