"""First calls of `taut.hindsight` on small random problems, against plain CVXPY, in processor time.

Run with `python -m benchmarks.cold_hindsight [--json] [--problems N]`. Every problem is new, so that nothing was traced or compiled
for it. CVXPY is given the same problem as one program over all rounds and solves it with Clarabel. One problem of each kind is
solved before, so that imports do not count. The median of the ratios is reported, by kind.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import cvxpy as cp
import jax
import jax.numpy as jnp
import numpy as np

import taut

from .results import report

jax.config.update("jax_enable_x64", True)

TARGET = 3.0
AGREE = 1e-5


def _linear(rng: np.random.Generator, size: int, rounds: int) -> tuple[taut.Problem, Any, Any]:
    rows, costs = rng.normal(size=(4, size)), rng.normal(size=(rounds, size))
    problem = taut.Problem(lambda x, c: c @ x, lambda x: rows @ x - 0.5, taut.Ball(1.0, shape=size))
    x = cp.Variable(size)
    return problem, costs, cp.Problem(cp.Minimize(costs.sum(axis=0) @ x), [rows @ x <= 0.5, cp.norm(x) <= 1])


def _tracking(rng: np.random.Generator, size: int, rounds: int) -> tuple[taut.Problem, Any, Any]:
    targets = rng.normal(size=(rounds, size))
    problem = taut.Problem(
        lambda x, z: jnp.sum((x - z) ** 2), lambda x: jnp.abs(x).sum() - 1, taut.Box(-1.0, 1.0, shape=size)
    )
    x = cp.Variable(size)
    loss = rounds * cp.sum_squares(x) - 2 * targets.sum(axis=0) @ x + np.sum(targets**2)
    return problem, targets, cp.Problem(cp.Minimize(loss), [cp.norm1(x) <= 1, cp.abs(x) <= 1])


def _absolute(rng: np.random.Generator, size: int, rounds: int) -> tuple[taut.Problem, Any, Any]:
    targets = rng.normal(size=(rounds, size))
    problem = taut.Problem(lambda x, z: jnp.abs(x - z).sum(), lambda x: x @ x - 0.5, taut.Ball(1.0, shape=size))
    x = cp.Variable(size)
    total = cp.sum(cp.abs(np.ones((rounds, 1)) @ cp.reshape(x, (1, size), order="C") - targets))
    return problem, targets, cp.Problem(cp.Minimize(total), [cp.sum_squares(x) <= 0.5, cp.norm(x) <= 1])


KINDS: dict[str, Callable[..., tuple[taut.Problem, Any, Any]]] = {
    "linear losses, affine rows": _linear,
    "quadratic losses, l1 norm": _tracking,
    "absolute losses, 2-norm": _absolute,
}


def _timed(call: Callable[[], Any]) -> tuple[float, Any]:
    began = time.process_time()
    found = call()
    return time.process_time() - began, found


def compared(kind: str, seed: int) -> tuple[float, float]:
    """Return seconds of taut and of CVXPY for one new problem, whose results must agree."""
    rng = np.random.default_rng(seed)
    problem, data, program = KINDS[kind](rng, int(rng.integers(2, 9)), int(rng.integers(20, 60)))
    ours, best = _timed(lambda: taut.hindsight(problem, data))
    theirs, value = _timed(lambda: program.solve(solver=cp.CLARABEL))
    if abs(float(best.loss[0]) - value) > AGREE * (1 + abs(value)):
        raise ArithmeticError(f"{kind}, seed {seed}: taut finds {float(best.loss[0]):.9g}, CVXPY {value:.9g}")
    return ours, theirs


def main() -> None:
    """Measure and print the table."""
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("--json", action="store_true")
    words.add_argument("--problems", type=int, default=40)
    asked = words.parse_args()
    rows = []
    for kind in KINDS:
        compared(kind, 10**6)
        pairs = [compared(kind, seed) for seed in range(max(1, asked.problems // len(KINDS)))]
        ratio = statistics.median(ours / theirs for ours, theirs in pairs)
        ours, theirs = (statistics.median(column) for column in zip(*pairs, strict=True))
        rows.append({
            "problems": kind, "taut, seconds": ours, "CVXPY, seconds": theirs, "ratio": ratio, "at most": TARGET,
            "met": bool(ratio <= TARGET),
        })  # fmt: skip
    report("cold hindsight", rows, asked.json, "First calls of hindsight on new small problems")


if __name__ == "__main__":
    main()
