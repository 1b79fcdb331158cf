"""Time of `taut.hindsight` for 10 seeds x 12 prefixes of 20,000 rounds, against one new CVXPY problem per prefix.

Run with `python -m benchmarks.hindsight [--json]`. For CVXPY only building and solving the 120 problems is timed; the sums over
the stream are given. For taut the whole of `taut.hindsight` is timed: the pass over the stream, the check of the structure of
every round, the solves and the optimality proofs. The two are timed alternately (A B A B ...). Each pair gives one ratio, and
the median ratio is reported. The first call, which compiles, is shown separately.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple

import jax
import numpy as np

import taut

from .results import report

jax.config.update("jax_enable_x64", True)

SEEDS, ROUNDS, SIDE = 10, 20_000, 10
PREFIXES = np.unique(np.geomspace(10, ROUNDS, 12).astype(int)).tolist()
TURNS = 5
TARGET = 1 / 3


class Case(NamedTuple):
    """A problem with its stream, and a function that solves a prefix with CVXPY from the sums over its rounds."""

    name: str
    problem: Any
    data: Any
    sums: Any
    fresh: Callable[[Any, int], float]


def main() -> None:
    """Measure and print the table."""
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("--json", action="store_true")
    asked = words.parse_args()
    title = f"Hindsight for {SEEDS} seeds x {len(PREFIXES)} prefixes of {ROUNDS:,} rounds, seconds"
    report("hindsight", [compare(case) for case in (toy(), doubly_stochastic())], asked.json, title)


def compare(case: Case) -> dict[str, Any]:
    """Return the medians of the alternating measurements."""
    first, _ = timed(lambda: ours(case))
    turns = [(timed(lambda: ours(case)), timed(lambda: theirs(case))) for _ in range(TURNS)]
    best, values = turns[0][0][1], turns[0][1][1]
    ratio = statistics.median(mine / fresh for (mine, _), (fresh, _) in turns)
    return {
        "problem": case.name,
        "first call": first,
        "ours": statistics.median(mine for (mine, _), _ in turns),
        "the pass": statistics.median(timed(lambda: aggregation(case))[0] for _ in range(TURNS)),
        "fresh CVXPY": statistics.median(fresh for _, (fresh, _) in turns),
        "ratio": ratio,
        "at most": TARGET,
        "met": bool(ratio <= TARGET),
        "largest gap": float(best.gap.max()),
        "losses agree to": float(np.max(np.abs(best.loss - values) / np.maximum(1, np.abs(values)))),
    }


def ours(case: Case) -> Any:
    return taut.hindsight(case.problem, case.data, seeds=SEEDS, prefixes=PREFIXES)


def theirs(case: Case) -> Any:
    return np.asarray([
        [case.fresh(case.sums[seed, i], rounds) for i, rounds in enumerate(PREFIXES)] for seed in range(SEEDS)
    ])  # fmt: skip


def aggregation(case: Case) -> None:
    """Run only the pass over the stream."""
    from taut.judge.hindsight.objective import objective_of
    from taut.judge.hindsight.scaling import Scaling
    from taut.problem.streams import as_stream

    stream = as_stream(case.data, seeds=SEEDS)
    objective_of(case.problem, Scaling.of(case.problem.domain), stream, tuple(PREFIXES), np.random.default_rng(0))


def timed(call: Callable[[], Any]) -> tuple[float, Any]:
    began = time.perf_counter()
    result = call()
    return time.perf_counter() - began, result


def toy() -> Case:
    import cvxpy as cp
    import jax.numpy as jnp

    c = np.random.default_rng(0).uniform(size=(SEEDS, ROUNDS, 2)) * [1.2, 1.0]
    c /= np.linalg.norm(c, axis=-1, keepdims=True)

    def fresh(total: Any, rounds: int) -> float:
        x = cp.Variable(2)
        model = cp.Problem(cp.Minimize(total @ x), [cp.norm1(x) <= 1, cp.norm2(x) <= 1])
        return float(model.solve(solver=cp.CLARABEL))

    problem = taut.Problem(lambda x, z: z @ x, lambda x: jnp.abs(x).sum() - 1, taut.Ball(1.0, shape=2))
    return Case("toy", problem, c, np.cumsum(c, axis=1)[:, np.asarray(PREFIXES) - 1], fresh)


def doubly_stochastic() -> Case:
    import cvxpy as cp
    import jax.numpy as jnp

    rng = np.random.default_rng(0)
    orders = rng.permuted(np.tile(np.arange(SIDE), (SEEDS, ROUNDS, 1)), axis=-1)
    y = np.eye(SIDE)[orders]

    def constraints(x: Any) -> Any:
        rows, columns = x.sum(axis=1), x.sum(axis=0)
        return rows - 1, 1 - rows, columns - 1, 1 - columns, -x

    def fresh(total: Any, rounds: int) -> float:
        x = cp.Variable((SIDE, SIDE))
        # sum_t |x - y_t|^2 / 2, and every y_t has SIDE ones
        loss = rounds / 2 * cp.sum_squares(x) - cp.sum(cp.multiply(total, x)) + rounds * SIDE / 2
        inside = [cp.sum(x, axis=1) == 1, cp.sum(x, axis=0) == 1, x >= 0, cp.norm(x, "fro") <= SIDE**0.5]
        return float(cp.Problem(cp.Minimize(loss), inside).solve(solver=cp.CLARABEL))

    problem = taut.Problem(
        lambda x, z: jnp.sum((x - z) ** 2) / 2, constraints, taut.Ball(SIDE**0.5, shape=(SIDE, SIDE))
    )
    return Case(f"doubly stochastic {SIDE}x{SIDE}", problem, y, _sums(y), fresh)


def _sums(y: Any) -> Any:
    """Return the sums over the prefixes without allocating a second array of the size of the stream."""
    edges = [0, *PREFIXES]
    parts = [y[:, start:stop].sum(axis=1) for start, stop in pairwise(edges)]
    return np.cumsum(np.stack(parts, axis=1), axis=1)


if __name__ == "__main__":
    main()
