"""Time of the paper's three problems translated from CVXPY, against the same problems written in jax.numpy.

Run with `python -m benchmarks.modelling [--json]`. Both versions are simulated with the same learner, alternately: A B A B ...
Each pair gives one ratio, so that other load on the machine affects both versions; the median ratio is reported.
"""

from __future__ import annotations

import argparse
import statistics
import time
from typing import Any, NamedTuple

import numpy as np

from .results import report

TARGET = 1.3


class Case(NamedTuple):
    """One problem in both versions, with its stream (seed, round, ...)."""

    name: str
    written: Any
    translated: Any
    data: Any
    start: Any


class Ratio(NamedTuple):
    """Ratio of translated to hand-written time (median and quartiles), and nanoseconds per round of both."""

    name: str
    seeds: int
    median: float
    low: float
    high: float
    written: float
    translated: float


def cases(seeds: int) -> list[Case]:
    """Return the three problems of the paper, aggregated as in the paper."""
    import jax.numpy as jnp

    import taut
    from taut.paper.experiments import dispatch, doubly_stochastic, toy

    def distance(x: Any, y: Any) -> Any:
        error = x - y
        return 0.5 * jnp.vdot(error, error)

    random = np.random.default_rng(0)
    orders = np.argsort(random.random((seeds, 2000, 10)), axis=-1)
    matrices = np.asarray(orders[..., None] == np.arange(10), float)
    square = doubly_stochastic.problem(aggregated=False)
    square = taut.Problem(distance, square.constraints, square.domain, square.constants)
    day = 33 + 6 * np.sin(2 * np.pi * np.arange(20_000) / 288) + random.normal(size=(seeds, 20_000))
    # From the centre all row sums would stay equal, and rounding errors would decide which constraints are active.
    start = random.normal(size=(10, 10)) / 10
    return [
        Case("toy", toy.problem(), toy.model(), toy.costs(seeds, 20_000), None),
        Case("doubly stochastic", taut.max_of(square), taut.max_of(doubly_stochastic.model()), matrices, start),
        Case("dispatch", dispatch.problem(), taut.max_of(dispatch.model(most=70.0)), day, None),
    ]


def measure(case: Case, seeds: int, turns: int = 15) -> Ratio:
    """Time both versions alternately, after a first call that compiles and whose results are compared."""
    import taut

    rounds = case.data.shape[1]
    learner = taut.ClippedOGD.tuned(case.written.constants, horizon=rounds)

    def play(problem: Any, data: Any) -> Any:
        return taut.simulate(learner, problem, data, seeds=seeds, x1=case.start, record=("loss",))

    first, second = play(case.written, case.data), play(case.translated, case.data)
    np.testing.assert_allclose(first.loss, second.loss, rtol=1e-8, atol=1e-8)
    times = []
    for _ in range(turns):
        began = time.perf_counter()
        play(case.written, case.data)
        between = time.perf_counter()
        play(case.translated, case.data)
        times.append((between - began, time.perf_counter() - between))
    ratios = [after / before for before, after in times]
    low, median, high = statistics.quantiles(ratios, n=4)
    written, translated = (1e9 * statistics.median(column) / (rounds * seeds) for column in zip(*times, strict=True))
    return Ratio(case.name, seeds, median, low, high, written, translated)


def main() -> None:
    """Measure and print the table."""
    import jax

    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("--json", action="store_true")
    asked = words.parse_args()
    jax.config.update("jax_enable_x64", True)
    rows = [_row(measure(case, seeds)) for seeds in (1, 10) for case in cases(seeds)]
    report(
        "modelling",
        rows,
        asked.json,
        "Problems translated from CVXPY against the same problems in jax.numpy, ns per round",
    )


def _row(one: Ratio) -> dict[str, Any]:
    return {
        "problem": one.name, "seeds": one.seeds, "ratio": one.median, "lower quartile": one.low, "upper": one.high,
        "jax.numpy": one.written, "CVXPY": one.translated, "at most": TARGET, "met": bool(one.median <= TARGET),
    }  # fmt: skip


if __name__ == "__main__":
    main()
