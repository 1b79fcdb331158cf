"""The simulations of `taut reproduce all` against the same simulations in a plain NumPy loop.

taut runs all rounds; compilation is not timed. The NumPy loop runs a sample of rounds per learner,
and its time is extrapolated to all rounds. Run: python -m benchmarks.reproduction
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import jax

jax.config.update("jax_enable_x64", True)

import numpy as np  # noqa: E402

import taut  # noqa: E402
from taut.arena import demand  # noqa: E402
from taut.arena.streams import dispatch, doubly_stochastic, toy  # noqa: E402
from taut.paper.contestants import (  # noqa: E402
    FOR_CONVEX_LOSSES,
    FOR_STRONGLY_CONVEX_LOSSES,
    Contestant,
)
from taut.paper.experiments.dispatch import CHOICES  # noqa: E402
from taut.paper.reproduce import FULL  # noqa: E402

from .results import report  # noqa: E402

Array = np.ndarray[Any, Any]
SAMPLE = 400


def main() -> None:
    """Print the table."""
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("--json", action="store_true")
    asked = words.parse_args()
    rows = [
        compare(
            "toy",
            toy.problem(),
            toy.costs(10, max(FULL.main)),
            FOR_CONVEX_LOSSES,
            FULL.main,
            10,
            NAIVE["toy"],
        ),
        compare(
            "doubly stochastic",
            doubly_stochastic.problem(),
            doubly_stochastic.permutations(10, 10, max(FULL.main)),
            FOR_STRONGLY_CONVEX_LOSSES,
            FULL.main,
            10,
            NAIVE["doubly"],
        ),
        dispatched(),
    ]
    ours, naive = sum(row["taut"] for row in rows), sum(row["numpy"] for row in rows)
    rows.append(
        {
            "experiment": "all",
            "rounds": sum(r["rounds"] for r in rows),
            "taut": ours,
            "numpy": naive,
        }
    )
    for row in rows:
        row["ratio"] = row["numpy"] / row["taut"]
    report(
        "reproduction",
        rows,
        asked.json,
        "All simulations of the reproduction in seconds; the NumPy loop is extrapolated",
    )


def compare(
    name: str,
    problem: taut.Problem,
    data: Array,
    contestants: tuple[Contestant, ...],
    grid: tuple[int, ...],
    seeds: int,
    functions: dict[str, Callable[..., Any]],
) -> dict[str, Any]:
    """Return the seconds for all learners and horizons."""
    simulations = [(one, T) for one in contestants for T in (grid[-1:] if one.anytime else grid)]

    def play(one: Contestant, T: int) -> None:
        taut.simulate(one.make(problem.constants, T), problem, data, horizon=T, seeds=seeds)

    for one, T in simulations:
        if grid[-1] == T:
            play(one, T)  # compiles
    began = time.perf_counter()
    for one, T in simulations:
        play(one, T)
    ours = time.perf_counter() - began
    rounds = {
        one.name: sum(T for who, T in simulations if who is one) * seeds for one in contestants
    }
    naive = sum(
        _naive_seconds(one.make(problem.constants, grid[-1]), problem, data[0], functions)
        * rounds[one.name]
        for one in contestants
    )
    return {"experiment": name, "rounds": sum(rounds.values()), "taut": ours, "numpy": naive}


def dispatched() -> dict[str, Any]:
    """Return the seconds for the dispatch experiment with all its choices."""
    total: dict[str, Any] = {"experiment": "dispatch", "rounds": 0, "taut": 0.0, "numpy": 0.0}
    for choice in CHOICES:
        d = demand.rescaled(demand.packaged(), choice.mean_demand)
        problem = dispatch.problem(choice, float(d.max()))
        row = compare(
            "dispatch",
            problem,
            d[None],
            FOR_CONVEX_LOSSES,
            (len(d),),
            1,
            _dispatch_functions(choice),
        )
        for key in ("rounds", "taut", "numpy"):
            total[key] += row[key]
    return total


def _naive_seconds(
    learner: Any, problem: taut.Problem, data: Array, functions: dict[str, Callable[..., Any]]
) -> float:
    """Return seconds per round of a plain loop: one learner, one stream, losses and excesses in
    lists."""
    best = np.inf
    for _ in range(3):
        began = time.perf_counter()
        _loop(learner, problem, data[:SAMPLE], functions)
        best = min(best, time.perf_counter() - began)
    return best / SAMPLE


def _loop(
    learner: Any, problem: taut.Problem, data: Array, f: dict[str, Callable[..., Any]]
) -> tuple[list[float], list[float]]:
    x, weight = np.asarray(problem.domain.centre, float), 0.0
    losses, excesses = [], []
    clipped_ogd = isinstance(learner, taut.ClippedOGD)
    for t, z in enumerate(data, start=1):
        loss, slope = f["loss"](x, z)
        g, dg = f["excess"](x)
        losses.append(loss)
        excesses.append(g)
        if clipped_ogd:
            move = _at(learner.eta, t) * slope + max(g, 0.0) / learner.sigma * dg
        else:
            move = _at(learner.eta, t) * (slope + weight * dg)
            weight = max(weight + _at(learner.mu, t) * (g - _at(learner.theta, t) * weight), 0.0)
        x = f["project"](x - move)
    return losses, excesses


def _at(schedule: Any, t: int) -> float:
    kind = type(schedule).__name__
    if kind == "Constant":
        return float(schedule.value)
    if kind == "Reciprocal":
        return 1 / (_at(schedule.of, t) * (t + schedule.shift))
    power = {"InverseRoot": 0.5, "Inverse": 1.0}.get(kind) or schedule.exponent
    return float(schedule.scale * (t + schedule.shift) ** -power)


def _ball(radius: float) -> Callable[[Array], Array]:
    def project(x: Array) -> Array:
        length = np.linalg.norm(x)
        return x if length <= radius else x * (radius / length)

    return project


def _doubly_loss(x: Array, order: Array) -> tuple[float, Array]:
    e = x.copy()
    e[np.arange(len(order)), order] -= 1
    return 0.5 * float(np.sum(e * e)), e


def _doubly_excess(x: Array) -> tuple[float, Array]:
    rows, columns = x.sum(axis=1), x.sum(axis=0)
    values = np.concatenate([rows - 1, 1 - rows, columns - 1, 1 - columns, -x.ravel()])
    k, d = int(np.argmax(values)), len(x)
    slope = np.zeros_like(x)
    if k < 2 * d:
        slope[k % d] = 1 if k < d else -1
    elif k < 4 * d:
        slope[:, k % d] = 1 if k < 3 * d else -1
    else:
        slope.flat[k - 4 * d] = -1
    return float(values[k]), slope


def _dispatch_functions(choice: dispatch.Choice) -> dict[str, Callable[..., Any]]:
    slope = choice.emission_slope

    def loss(x: Array, d: float) -> tuple[float, Array]:
        short = np.sum(x) - d
        value = (
            np.sum(0.5 * dispatch.COST * x * x + dispatch.SLOPE * x) + dispatch.BALANCE * short**2
        )
        return float(value), dispatch.COST * x + dispatch.SLOPE + 2 * dispatch.BALANCE * short

    def excess(x: Array) -> tuple[float, Array]:
        cap = np.sum(dispatch.EMISSION * x * x + slope * x) - dispatch.CAP
        values = np.concatenate([[cap], x - dispatch.LIMIT, -x])
        k = int(np.argmax(values))
        row = np.zeros(3)
        if k == 0:
            row = 2 * dispatch.EMISSION * x + slope
        else:
            row[(k - 1) % 3] = 1 if k < 4 else -1
        return float(values[k]), row

    def box(x: Array) -> Array:
        return np.clip(x, 0.0, dispatch.LIMIT)

    project = box if choice.domain == "box" else _ball(float(np.linalg.norm(dispatch.LIMIT)))
    return {"loss": loss, "excess": excess, "project": project}


NAIVE: dict[str, dict[str, Callable[..., Any]]] = {
    "toy": {
        "loss": lambda x, c: (float(c @ x), c),
        "excess": lambda x: (float(np.abs(x).sum() - 1), np.sign(x)),
        "project": _ball(1.0),
    },
    "doubly": {"loss": _doubly_loss, "excess": _doubly_excess, "project": _ball(10**0.5)},
}


if __name__ == "__main__":
    main()
