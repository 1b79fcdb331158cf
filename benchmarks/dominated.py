"""How many of all kept cuts could be dropped: python -m benchmarks.dominated [--rounds N]

`memory=None` drops a cut if a parallel one is tighter. This counts, at the end of a run on a box,
the cuts that another single cut implies together with the box, and those that all others imply.
The maximum of a.x over {x in box : b.x <= p} is the minimum over l >= 0 of l p + |a - l b|_1, a
piecewise linear function with corners at a_i / b_i. The last columns are the microseconds of a
round with all cuts, and with no more slots than cuts that are needed.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax import lax
from scipy.optimize import linprog

import taut
from taut.learners.half_space import HalfSpace

NEAR = 1e-9
STEP = 0.1


def units(rng: Any, rounds: int, size: int) -> Any:
    """Random unit vectors."""
    rows = rng.normal(size=(rounds, size))
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def tangents(rng: Any, rounds: int, size: int) -> tuple[Any, Any]:
    """Another tangent of a ball in every round."""
    return units(rng, rounds, size), np.full(rounds, 0.3)


def loose(rng: Any, rounds: int, size: int) -> tuple[Any, Any]:
    """Another half-space in every round, at another distance."""
    return units(rng, rounds, size), rng.uniform(0.1, 0.7, rounds)


def pool(rng: Any, rounds: int, size: int) -> tuple[Any, Any]:
    """Rows of a pool of 64, at different distances."""
    which = rng.integers(64, size=rounds)
    return units(rng, 64, size)[which], rng.uniform(0.1, 0.7, 64)[which]


def turning(rng: Any, rounds: int, size: int) -> tuple[Any, Any]:
    """A half-space that turns slowly and comes nearer."""
    angle = np.linspace(0, 8 * np.pi, rounds)
    rows = np.zeros((rounds, size))
    rows[:, 0], rows[:, 1] = np.cos(angle), np.sin(angle)
    return rows, np.linspace(0.7, 0.2, rounds)


def ball(rng: Any, rounds: int, size: int) -> tuple[Any, Any]:
    """A fixed ball, whose linear models at the decisions are the cuts."""
    return np.zeros((rounds, size)), np.full(rounds, 0.3)


STREAMS: dict[str, Callable[[Any, int, int], tuple[Any, Any]]] = {
    "tangents": tangents,
    "loose": loose,
    "pool": pool,
    "turning": turning,
    "ball": ball,
}


def play(learner: HalfSpace, problem: taut.Problem, data: Any) -> tuple[Any, float]:
    """Return the last state and the microseconds of a round."""

    @jax.jit
    def whole(data: Any) -> Any:
        first = learner.init(problem.domain.centre, 1)
        return lax.scan(lambda s, z: (learner.step(s, problem.round(z)), None), first, data)[0]

    jax.block_until_ready(whole(data))
    begun = time.process_time()
    state = jax.block_until_ready(whole(data))
    return state, (time.process_time() - begun) / len(data["a"]) * 1e6


def dominated(normals: Any, offsets: Any) -> Any:
    """A mask of the cuts that one other cut and the box imply; of two that imply each other one is
    counted."""
    count, found = len(offsets), np.zeros(len(offsets), bool)
    for i in range(count):
        with np.errstate(divide="ignore", invalid="ignore"):
            corners = np.where(normals != 0, normals[i] / normals, 0)
        corners = np.concatenate([np.zeros((count, 1)), np.maximum(corners, 0)], axis=1)
        rest = np.abs(normals[i] - corners[..., None] * normals[:, None]).sum(axis=2)
        most = np.min(corners * offsets[:, None] + rest, axis=1)
        implied = most <= offsets[i] + NEAR
        implied[i] = False
        found[i] = np.any(implied & ~found)
    return found


def redundant(normals: Any, offsets: Any) -> int:
    """The number of cuts that the others imply, dropped one after the other."""
    kept = np.ones(len(offsets), bool)
    for i in range(len(offsets)):
        kept[i] = False
        best = linprog(-normals[i], normals[kept], offsets[kept], bounds=(-1, 1), method="highs")
        kept[i] = bool(-best.fun > offsets[i] + NEAR)
    return int(np.sum(~kept))


def main() -> None:
    """Print a line for each stream."""
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("--rounds", type=int, default=1024)
    asked = words.parse_args()
    jax.config.update("jax_enable_x64", True)
    print(f"{'stream':>12}{'d':>4}{'kept':>7}{'by one':>8}{'by all':>8}{'us':>9}{'us less':>9}")
    for name, rows in STREAMS.items():
        for size in (2, 10):
            rng = np.random.default_rng(0)
            normals, offsets = rows(rng, asked.rounds, size)
            data = {
                "a": normals,
                "b": offsets,
                "c": rng.normal(size=(1, size)) + 0.8 * rng.normal(size=(asked.rounds, size)),
            }
            curved = float(name == "ball")
            problem = taut.Problem(
                lambda x, z: z["c"] @ x,
                lambda x, z, curved=curved: curved * (x @ x) + z["a"] @ x - z["b"],
                taut.Box(-1.0, 1.0, size),
            )
            learner = HalfSpace(STEP, float(problem.domain.diameter), memory=None)
            state, _ = play(learner.with_room(asked.rounds), problem, data)
            filled = np.asarray(state.cuts.active) > 0
            cuts = np.asarray(state.cuts.normals)[filled], np.asarray(state.cuts.offsets)[filled]
            more, one = redundant(*cuts), int(dominated(*cuts).sum())
            _, all_ = play(learner.with_room(int(filled.sum())), problem, data)
            _, less = play(learner.with_room(int(filled.sum()) - one), problem, data)
            print(
                f"{name:>12}{size:4}{int(filled.sum()):7}{one:8}{more:8}{all_:9.1f}{less:9.1f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
