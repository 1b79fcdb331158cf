"""Processor time of models written in CVXPY: building them and playing them for the first time, and
rounds against jax.numpy.

Run with `python -m benchmarks.modelling [--json] [--ratios]`. Each model is built and played in new
processes without a compilation cache; times are those of all threads, user and system, and each is
the smallest of several processes, because other work on the machine only makes them longer. With
`--ratios` the three problems of the paper are simulated, translated from CVXPY and written in
jax.numpy, alternately: each pair gives one ratio, and the median is reported.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from typing import Any, NamedTuple

import numpy as np

from . import setting
from .results import report

TARGET = 1.3
PROCESSES = 3
ROUNDS = 200
STEPS = 24
MODELS = {
    "portfolio, 20 variables": 2.0,
    "microgrid, 24 steps, loop": None,
    "microgrid, 24 steps, vectors": None,
}
"""Models, and the largest processor time of building and the first simulation together."""


def model(name: str) -> tuple[Any, dict[str, Any]]:
    """Return one of the models as a CVXPY problem, and its data."""
    import cvxpy as cp

    random = np.random.default_rng(0)
    if name.startswith("portfolio"):
        w, r = (
            cp.Variable(20, name="w", nonneg=True),
            cp.Parameter(20, name="r", bounds=[-0.1, 0.1]),
        )
        factors = random.normal(size=(5, 20)) / 5
        limits = [cp.sum(w) == 1, cp.norm(factors @ w) <= 0.2, cp.sum(w[:5]) <= 0.4]
        return cp.Problem(cp.Maximize(r @ w), limits), {
            "r": random.uniform(-0.1, 0.1, (ROUNDS, 20))
        }
    diesel, charge = (
        cp.Variable(STEPS, name="diesel", bounds=[0, 2]),
        cp.Variable(STEPS, name="charge", bounds=[-1, 1]),
    )
    load, solar = (
        cp.Parameter(STEPS, name="load", bounds=[0.5, 2]),
        cp.Parameter(STEPS, name="solar", bounds=[0, 1]),
    )
    data = {
        "load": random.uniform(0.5, 2, (ROUNDS, STEPS)),
        "solar": random.uniform(0, 1, (ROUNDS, STEPS)),
    }
    if name.endswith("vectors"):
        grid = load - solar - diesel + charge
        level = 4 + cp.cumsum(charge)
        cost = cp.sum(0.5 * cp.pos(grid) + 0.1 * cp.neg(grid) + 0.2 * cp.square(diesel))
        return cp.Problem(cp.Minimize(cost), [level >= 0, level <= 8, cp.sum(diesel) <= 20]), data
    total: Any = 0
    level, rows = 4.0, []
    for t in range(STEPS):
        grid = load[t] - solar[t] - diesel[t] + charge[t]
        total += 0.5 * cp.pos(grid) + 0.1 * cp.neg(grid) + 0.2 * cp.square(diesel[t])
        level = level + charge[t]
        rows += [level >= 0, level <= 8]
    return cp.Problem(cp.Minimize(total), [*rows, cp.sum(diesel) <= 20]), data


def steps(name: str) -> dict[str, float]:
    """Return the processor time of each step, in this process."""
    import cvxpy  # noqa: F401
    import jax

    import taut

    jax.config.update("jax_enable_x64", True)
    jax.devices()
    stated, data = model(name)
    times: dict[str, float] = {}
    last = time.process_time()

    def lap(step: str) -> None:
        nonlocal last
        now = time.process_time()
        times[step], last = now - last, now

    problem = taut.from_cvxpy(stated)
    lap("build")
    learner = taut.ClippedOGD.tuned(problem.constants, horizon=ROUNDS)
    taut.simulate(learner, problem, data)
    lap("first simulation")
    taut.simulate(learner, problem, data)
    lap("second simulation")
    taut.hindsight(problem, data)
    lap("hindsight")
    return times


class Case(NamedTuple):
    """One problem in both versions, with its stream (seed, round, ...)."""

    name: str
    written: Any
    translated: Any
    data: Any
    start: Any


class Ratio(NamedTuple):
    """Ratio of translated to hand-written time (median and quartiles), and nanoseconds per round of
    both."""

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
    from taut.arena.streams import dispatch, doubly_stochastic, toy

    from .paper_models import dispatch_model, doubly_stochastic_model, toy_model

    def distance(x: Any, y: Any) -> Any:
        error = x - y
        return 0.5 * jnp.vdot(error, error)

    random = np.random.default_rng(0)
    orders = np.argsort(random.random((seeds, 2000, 10)), axis=-1)
    matrices = np.asarray(orders[..., None] == np.arange(10), float)
    square = doubly_stochastic.problem(aggregated=False)
    square = taut.Problem(distance, square.constraints, square.domain, square.constants)
    day = 33 + 6 * np.sin(2 * np.pi * np.arange(20_000) / 288) + random.normal(size=(seeds, 20_000))
    # From the centre all row sums would stay equal, and rounding errors would decide which
    # constraints are active.
    start = random.normal(size=(10, 10)) / 10
    return [
        Case("toy", toy.problem(), toy_model(), toy.costs(seeds, 20_000), None),
        Case(
            "doubly stochastic",
            taut.max_of(square),
            taut.max_of(doubly_stochastic_model()),
            matrices,
            start,
        ),
        Case("dispatch", dispatch.problem(), taut.max_of(dispatch_model(most=70.0)), day, None),
    ]


def measure(case: Case, seeds: int, turns: int = 15) -> Ratio:
    """Time both versions alternately, after a first call that compiles and whose results are
    compared."""
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
    written, translated = (
        1e9 * statistics.median(column) / (rounds * seeds) for column in zip(*times, strict=True)
    )
    return Ratio(case.name, seeds, median, low, high, written, translated)


def main() -> None:
    """Measure and print the tables."""
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("--json", action="store_true")
    words.add_argument(
        "--ratios", action="store_true", help="compare rounds with jax.numpy instead"
    )
    words.add_argument("--processes", type=int, default=PROCESSES, help="new processes per model")
    asked = words.parse_args()
    if asked.ratios:
        import jax

        jax.config.update("jax_enable_x64", True)
        rows = [_row(measure(case, seeds)) for seeds in (1, 10) for case in cases(seeds)]
        title = (
            "Problems translated from CVXPY against the same problems in jax.numpy, ns per round"
        )
        report("modelling-ratios", rows, asked.json, title)
        return
    rows = []
    for name, target in MODELS.items():
        found = [
            json.loads(setting.start("benchmarks.modelling", "steps", name))
            for _ in range(asked.processes)
        ]
        least = {step: min(one[step] for one in found) for step in found[0]}
        together = least["build"] + least["first simulation"]
        rows.append(
            {
                "model": name,
                **least,
                "build and first": together,
                "at most": target or "",
                "met": "" if target is None else bool(together <= target),
            }
        )
    report(
        "modelling", rows, asked.json, "Models in CVXPY in a new process, seconds of processor time"
    )


def _row(one: Ratio) -> dict[str, Any]:
    return {
        "problem": one.name,
        "seeds": one.seeds,
        "ratio": one.median,
        "lower quartile": one.low,
        "upper": one.high,
        "jax.numpy": one.written,
        "CVXPY": one.translated,
        "at most": TARGET,
        "met": bool(one.median <= TARGET),
    }


if __name__ == "__main__":
    if sys.argv[1:2] == ["steps"]:
        print(json.dumps(steps(sys.argv[2])))
    else:
        main()
