"""Time of `taut.hindsight` for 10 seeds x 12 prefixes of 20,000 rounds, against one new CVXPY
problem per prefix.

Run with `python -m benchmarks.hindsight [--json]`. For CVXPY only building and solving the 120
problems is timed; the sums over the stream are given. For taut the whole of `taut.hindsight` is
timed: the pass over the stream, the check of the structure of every round, the solves and the
optimality proofs. The two are timed alternately (A B A B ...). Each pair gives one ratio, and the
median ratio is reported. The first call, which compiles, is shown separately. With `--cold` first
calls on small problems are measured, with `--large` decisions of thousands of numbers.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import pairwise
from typing import Any, NamedTuple
from unittest.mock import patch

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
    """A problem with its stream, and a function that solves a prefix with CVXPY from the sums over
    its rounds."""

    name: str
    problem: Any
    data: Any
    sums: Any
    fresh: Callable[[Any, int], float]


def main() -> None:
    """Measure and print the table."""
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("--json", action="store_true")
    words.add_argument(
        "--cold",
        action="store_true",
        help="first calls on small random problems, against plain CVXPY",
    )
    words.add_argument(
        "--large",
        action="store_true",
        help="logistic losses with thousands of numbers per decision",
    )
    asked = words.parse_args()
    if asked.large:
        title = f"Logistic losses, {LARGE_ROUNDS} rounds: first calls, seconds of processor time"
        report("hindsight-large", [large(size) for size in LARGE_SIZES], asked.json, title)
        return
    if asked.cold:
        title = "first call of hindsight on small random problems, seconds of processor time"
        report("hindsight-cold", cold(), asked.json, title)
        return
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
        "losses agree to": float(
            np.max(np.abs(best.loss - values) / np.maximum(1, np.abs(values)))
        ),
    }


LARGE_SIZES, LARGE_ROUNDS = (500, 1000, 2000, 4000, 16_000), 60


def large(size: int) -> dict[str, Any]:
    """First calls of hindsight and of `estimate_constants` on decisions of many numbers, and a
    CVXPY model of the same losses."""
    import cvxpy as cp
    import jax.numpy as jnp

    data = np.random.default_rng(0).normal(size=(LARGE_ROUNDS, size)) / np.sqrt(size)
    problem = taut.Problem(
        lambda x, z: jnp.logaddexp(0.0, -z @ x),
        lambda x: jnp.sqrt(1e-16 + x @ x) - 0.5,
        taut.Ball(4.0, shape=size),
    )
    mine, best = cpu_time(lambda: taut.hindsight(problem, data))
    constants, _ = cpu_time(lambda: problem.estimate_constants(data, jax.random.key(0)))
    x = cp.Variable(size)
    model = cp.Problem(cp.Minimize(cp.sum(cp.logistic(-data @ x))), [cp.norm(x) <= 0.5])
    theirs, value = cpu_time(lambda: model.solve(solver=cp.CLARABEL))
    return {
        "numbers": size,
        "hindsight": mine,
        "method": best.solver,
        "certified gap": float(best.gap[0]),
        "plain CVXPY": theirs,
        "losses agree to": abs(float(best.loss[0]) - value) / abs(value),
        "estimate_constants": constants,
    }


COLD_PROBLEMS = 40
COLD_TARGET = 3.0


def cold() -> list[dict[str, Any]]:
    """First calls on problems that JAX has never seen, each against the same problem written in
    CVXPY by hand.

    Time is processor time, because first calls are short and other processes would disturb them.
    One call of either kind goes before, which imports libraries and starts XLA.
    """
    rng = np.random.default_rng(0)
    kinds: dict[str, list[tuple[float, ...]]] = {}
    for number in range(-1, COLD_PROBLEMS):
        kind, problem, data, fresh = small_problem(rng, max(number, 0))
        with parts() as spent:
            mine, best = cpu_time(lambda problem=problem, data=data: taut.hindsight(problem, data))
        theirs_, value = cpu_time(lambda fresh=fresh, data=data: fresh(data))
        if number >= 0:
            error = abs(float(best.loss[0]) - value) / max(1, abs(value))
            kinds.setdefault(kind, []).append(
                (mine, theirs_, error, *(spent[name] / mine for name in PARTS))
            )
    rows = []
    for kind, found in [
        *kinds.items(),
        ("all", [one for group in kinds.values() for one in group]),
    ]:
        mine, plain, error, *shares = (np.asarray(column) for column in zip(*found, strict=True))
        ratio = float(np.median(mine / plain))
        shown = {name: f"{np.median(share):.0%}" for name, share in zip(PARTS, shares, strict=True)}
        rows.append(
            {
                "problem": kind,
                "problems": len(found),
                "ours": float(np.median(mine)),
                "slowest": float(mine.max()),
                "plain CVXPY": float(np.median(plain)),
                "ratio": ratio,
                "at most": COLD_TARGET,
                "met": bool(ratio <= COLD_TARGET),
                **shown,
                "losses agree to": float(error.max()),
            }
        )
    return rows


PARTS = ("JAX traces", "NumPy evaluates", "Clarabel solves")
"""What is timed within a call of hindsight; the rest is Python around it."""


@contextmanager
def parts() -> Iterator[dict[str, float]]:
    """Yield the processor time that the parts of hindsight take."""
    from taut.jaxpr.in_numpy import NumPyProgram
    from taut.problem.conic import Solver
    from taut.problem.evaluation import _Trace

    spent = dict.fromkeys(PARTS, 0.0)

    def timed(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            took, result = cpu_time(lambda: real(*arguments))
            spent[name] += took
            return result

        return call

    timers = [
        ("JAX traces", _Trace, "__init__"),
        ("NumPy evaluates", NumPyProgram, "run"),
        ("Clarabel solves", Solver, "_solved"),
    ]
    with ExitStack() as stack:
        for name, owner, attribute in timers:
            stack.enter_context(
                patch.object(owner, attribute, timed(name, getattr(owner, attribute)))
            )
        yield spent


def small_problem(
    rng: np.random.Generator, number: int
) -> tuple[str, Any, Any, Callable[[Any], float]]:
    """A problem of 2 to 8 entries and 20 to 200 rounds with functions of its own, and its CVXPY
    program."""
    import cvxpy as cp
    import jax.numpy as jnp

    size, rounds = int(rng.integers(2, 9)), int(rng.integers(20, 201))
    data, rows, limit = (
        rng.normal(size=(rounds, size)),
        rng.normal(size=(3, size)),
        rng.uniform(0.2, 0.6),
    )
    losses: dict[str, tuple[Any, Any]] = {
        "affine": (lambda x, z: z @ x, lambda x, z: cp.sum(z @ x)),
        "distance": (
            lambda x, z: jnp.sum((x - z) ** 2),
            lambda x, z: cp.sum_squares(np.ones((rounds, 1)) @ x[None] - z),
        ),
        "regression": (lambda x, z: (z @ x - 1.0) ** 2, lambda x, z: cp.sum_squares(z @ x - 1)),
        "logistic": (
            lambda x, z: jnp.logaddexp(0.0, z @ x),
            lambda x, z: cp.sum(cp.logistic(z @ x)),
        ),
        "absolute": (lambda x, z: jnp.abs(z @ x - 0.5), lambda x, z: cp.norm1(z @ x - 0.5)),
    }
    constraints: list[tuple[Any, Any]] = [
        (lambda x: rows @ x - limit, lambda x: [rows @ x <= limit]),
        (lambda x: jnp.sum(x**2) - limit, lambda x: [cp.sum_squares(x) <= limit]),
        (lambda x: jnp.abs(x).sum() - limit, lambda x: [cp.norm1(x) <= limit]),
        (lambda x: jnp.linalg.norm(x - 0.1) - limit, lambda x: [cp.norm(x - 0.1) <= limit]),
    ]
    name = list(losses)[number % len(losses)]
    (loss, total), (excess, stated) = (
        losses[name],
        constraints[(number // len(losses)) % len(constraints)],
    )

    def fresh(z: Any) -> float:
        x = cp.Variable(size)
        program = cp.Problem(cp.Minimize(total(x, z)), [*stated(x), cp.norm(x) <= 1])
        return float(program.solve(solver=cp.CLARABEL))

    return name, taut.Problem(loss, excess, taut.Ball(1.0, shape=size)), data, fresh


def cpu_time(call: Callable[[], Any]) -> tuple[float, Any]:
    began = time.process_time()
    result = call()
    return time.process_time() - began, result


def ours(case: Case) -> Any:
    return taut.hindsight(case.problem, case.data, seeds=SEEDS, prefixes=PREFIXES)


def theirs(case: Case) -> Any:
    return np.asarray(
        [
            [case.fresh(case.sums[seed, i], rounds) for i, rounds in enumerate(PREFIXES)]
            for seed in range(SEEDS)
        ]
    )


def aggregation(case: Case) -> None:
    """Run only the pass over the stream."""
    from taut.judge.hindsight.objective import Objective
    from taut.judge.hindsight.scaling import Scaling
    from taut.problem.streams import as_stream

    stream = as_stream(case.data, seeds=SEEDS)
    Objective(
        case.problem,
        Scaling.of(case.problem.domain),
        stream,
        tuple(PREFIXES),
        np.random.default_rng(0),
    )


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

    problem = taut.Problem(
        lambda x, z: z @ x, lambda x: jnp.abs(x).sum() - 1, taut.Ball(1.0, shape=2)
    )
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
        inside = [
            cp.sum(x, axis=1) == 1,
            cp.sum(x, axis=0) == 1,
            x >= 0,
            cp.norm(x, "fro") <= SIDE**0.5,
        ]
        return float(cp.Problem(cp.Minimize(loss), inside).solve(solver=cp.CLARABEL))

    problem = taut.Problem(
        lambda x, z: jnp.sum((x - z) ** 2) / 2,
        constraints,
        taut.Ball(SIDE**0.5, shape=(SIDE, SIDE)),
    )
    return Case(f"doubly stochastic {SIDE}x{SIDE}", problem, y, _sums(y), fresh)


def _sums(y: Any) -> Any:
    """Return the sums over the prefixes without allocating a second array of the size of the
    stream."""
    edges = [0, *PREFIXES]
    parts = [y[:, start:stop].sum(axis=1) for start, stop in pairwise(edges)]
    return np.cumsum(np.stack(parts, axis=1), axis=1)


if __name__ == "__main__":
    main()
