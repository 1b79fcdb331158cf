"""The long life drill: play a million rounds, and report whether time or memory grow.

Run: python -m drills.long_life [--rounds 1000000]

Memory is that of the process; time is the median of processor times of blocks of rounds, at the
beginning and at the end.
"""

from __future__ import annotations

import argparse
import sys
import time

import jax.numpy as jnp
import numpy as np

import taut
from drills.memory import resident

BLOCK = 1000
"""Rounds whose time is measured together."""
SLOWER = 1.25
"""How much longer the last tenth may take than the second one."""
GROWTH = 2.0
"""Megabytes by which the process may grow after the first tenth."""


def lived(rounds: int) -> tuple[float, float]:
    """Play so many rounds; return how much longer the last ones take, and the growth in MB."""
    problem = taut.Problem(
        lambda x, c: c @ x, lambda x: jnp.abs(x).sum() - 1, taut.Ball(1.0, shape=2)
    )
    player = taut.Player(problem, history=0)
    data = np.random.default_rng(0).uniform(size=(BLOCK, 2))
    times, before = [], 0.0
    for block in range(max(20, rounds // BLOCK)):
        if block == max(2, rounds // BLOCK // 10):
            before = resident()
        began = time.process_time()
        for z in data:
            player.observe(z)
        times.append(time.process_time() - began)
    share = max(1, len(times) // 10)
    return float(np.median(times[-share:]) / np.median(times[share : 2 * share])), (
        resident() - before
    )


def main() -> None:
    """Play, and print what grew."""
    words = argparse.ArgumentParser(description="Report whether time or memory of a player grow.")
    words.add_argument("--rounds", type=int, default=1_000_000)
    asked = words.parse_args()
    slower, growth = lived(asked.rounds)
    print(f"{asked.rounds:,} rounds: the last take {slower:.2f} times as long, {growth:+.1f} MB")
    sys.exit(slower > SLOWER or growth > GROWTH)


if __name__ == "__main__":
    main()
