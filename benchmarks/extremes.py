"""What it costs a live player to keep the extremes that its certificate needs: gradients,
constraint values, loss differences.

Run with `python -m benchmarks.extremes [--json]`. Two players of the same problem observe the same
rounds in turns, one of them without extremes: its compiled step does not compute them. Each pair of
turns gives a ratio of processor times, and the median ratio is reported, which other work on the
machine hardly changes.
"""

from __future__ import annotations

import argparse
import statistics
import time
from typing import Any
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np

import taut
from taut.player import steps
from taut.player.steps import COLUMNS, Seen

from .results import report

ROUNDS, TURNS = 300, 60
TARGET = 1.05
Array = np.ndarray[Any, Any]


def cases() -> dict[str, tuple[taut.Problem, Array]]:
    """Return problems with the data of their rounds."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(10, 10))
    toy = taut.Problem(lambda x, c: c @ x, lambda x: jnp.abs(x).sum() - 1, taut.Ball(1.0, shape=2))
    polytope = taut.Problem(lambda x, c: c @ x, lambda x: rows @ x - 1, taut.Ball(1.0, shape=10))
    return {
        "toy, 2 numbers, 1 constraint": (toy, rng.uniform(size=(ROUNDS, 2))),
        "polytope, 10 numbers, 10 constraints": (polytope, rng.uniform(size=(ROUNDS, 10))),
    }


def _without_extremes(problem: taut.Problem, z: Array) -> taut.Player:
    """A player whose step computes no extremes. It needs a problem of its own, because a problem
    keeps its programs."""

    def nothing(*arguments: Any) -> jax.Array:
        return jnp.zeros(len(COLUMNS), arguments[1].dtype)

    def as_before(seen: Seen, *arguments: Any) -> Seen:
        return seen

    patch = mock.patch.object
    with patch(steps, "round_extremes", nothing), patch(Seen, "add", as_before):
        player = taut.Player(problem)
        player.observe(z)
    return player


def _turn(player: taut.Player, data: Array) -> float:
    began = time.process_time()
    for z in data:
        player.observe(z)
    return time.process_time() - began


def measured(name: str) -> tuple[float, float, float]:
    """Return the median ratio, and the median seconds per round with and without extremes."""
    problem, data = cases()[name]
    with_extremes, without = taut.Player(problem), _without_extremes(cases()[name][0], data[0])
    for player in (with_extremes, without):
        _turn(player, data)
    pairs = []
    for turn in range(TURNS):
        first, second = (with_extremes, without) if turn % 2 == 0 else (without, with_extremes)
        one, two = _turn(first, data), _turn(second, data)
        pairs.append((one, two) if turn % 2 == 0 else (two, one))
    ratio = statistics.median(a / b for a, b in pairs)
    seconds = [statistics.median(column) / ROUNDS for column in zip(*pairs, strict=True)]
    return ratio, seconds[0], seconds[1]


def main() -> None:
    """Measure and print the table."""
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("--json", action="store_true")
    asked = words.parse_args()
    rows = []
    for name in cases():
        ratio, with_them, without = measured(name)
        rows.append(
            {
                "player": name,
                "microseconds per round": 1e6 * with_them,
                "without extremes": 1e6 * without,
                "ratio": ratio,
                "at most": TARGET,
                "met": bool(ratio <= TARGET),
            }
        )
    report("extremes", rows, asked.json, "Live players with and without extremes")


if __name__ == "__main__":
    main()
