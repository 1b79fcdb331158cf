"""The memory drill: play many new problems in one process, and report how much memory each of them
leaves behind.

Run: python -m drills.memory [--problems 500] [--use simulate]

Problems made of lambdas are new to JAX every time, so each is traced and compiled again. What
belongs to a problem must go with it. The first fifth of the problems fills caches of a fixed size
and is not counted.
"""

from __future__ import annotations

import argparse
import gc
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

import taut

ALLOWED = 0.1
"""Megabytes that a problem may leave behind. It was 3 before problems owned their programs."""
LEARNER = taut.ClippedOGD(0.1, 4.0)
Z = np.ones((3, 2))
USES: dict[str, Callable[[taut.Problem], Any]] = {
    "simulate": lambda problem: taut.simulate(LEARNER, problem, Z),
    "player": lambda problem: taut.Player(LEARNER, problem).observe(Z[0]),
    "hindsight": lambda problem: taut.hindsight(problem, Z),
}


def resident() -> float:
    """Return the memory of this process in megabytes (Linux)."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 2**20


def new_problem() -> taut.Problem:
    """Return a problem with functions of its own."""
    return taut.Problem(
        lambda x, z: jnp.sum((x - z) ** 2), lambda x: jnp.sum(x) - 1.5, taut.Ball(1.0, shape=2)
    )


def growth(use: Callable[[taut.Problem], Any], problems: int) -> float:
    """Return the megabytes that each of so many problems leaves behind."""
    warm = max(problems // 5, 10)
    for _ in range(warm):
        use(new_problem())
    before = resident()
    for _ in range(problems - warm):
        use(new_problem())
    return (resident() - before) / (problems - warm)


def main() -> None:
    """Play the problems and print the growth."""
    words = argparse.ArgumentParser(description="Report the memory that problems leave behind.")
    words.add_argument("--problems", type=int, default=500)
    words.add_argument("--use", choices=list(USES), default="simulate")
    asked = words.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        taut.engine.cache(folder)  # all problems have the same program, so XLA compiles it once
        left = growth(USES[asked.use], asked.problems)
    print(
        f"{asked.problems} problems, {asked.use}: {1000 * left:.0f} kB left behind by each (at "
        f"most {1000 * ALLOWED:.0f})"
    )
    sys.exit(1 if left > ALLOWED else 0)


if __name__ == "__main__":
    main()
