"""The default learner against its first edition and others: loss, four violations and time.

The first edition swept over its cuts and stopped, accepted every gradient, and kept cuts for ever.
A stream on which the default has more loss and more violation than it, beyond what seeds differ by,
is named below the tables.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import jax.numpy as jnp
import numpy as np

import taut
from taut.arena import STREAMS
from taut.learners.half_space import HalfSpace
from taut.learners.schedules import AdaGradNorm
from taut.runs import metrics

FROM_THE_ARENA = (
    "toy",
    "doubly-stochastic",
    "dispatch",
    "polytope",
    "pool-random",
    "pool-adaptive",
    "nested-boxes",
    "drifting-slow",
)
COLUMNS = ("loss", "clipped", "squares", "peak", "rounds", "us")
"""Mean loss of a round; clipped violation, sum of squares and largest violation; violating rounds;
microseconds per round."""
SHOWN = ("loss", "clipped", "rounds", "us")
"""Columns of the table of all streams."""


class Case(NamedTuple):
    """A problem with data (seed, round, ...)."""

    problem: taut.Problem
    data: Any


@taut.learner_dataclass
class FirstEdition(HalfSpace):
    """`half-space` that ends a round after its sweeps, whatever cuts are still exceeded."""

    exact: ClassVar[bool] = False

    @classmethod
    def of(cls, problem: taut.Problem) -> FirstEdition:
        """Return it with its defaults."""
        default = taut.learner("half-space", problem)
        assert isinstance(default, HalfSpace)
        eta = AdaGradNorm(default.eta.scale, default.eta.start_up, None)
        return cls(eta, default.diameter, memory=16, sweeps=2, joint=default.joint)


LEARNERS: dict[str, Callable[[taut.Problem, int], Any]] = {
    "half-space": lambda problem, _: taut.learner("half-space", problem),
    "first edition": lambda problem, _: FirstEdition.of(problem),
    "memory=0": lambda problem, _: taut.learner("half-space", problem, memory=0),
    "clipped-ogd": lambda problem, rounds: taut.learner("clipped-ogd", problem, horizon=rounds),
    "recoo": lambda problem, rounds: taut.learner("recoo", problem, horizon=rounds),
}


def editions(quick: bool) -> None:
    """Print a table for each stream, and a table of all of them for docs/theory.md."""
    rounds, seeds = (256, 2) if quick else (2048, 5)
    names = [*FROM_THE_ARENA, *OWN]
    results = {
        name: _table(name, rounds, seeds) for name in (names[:1] + names[-1:] if quick else names)
    }
    print("\n| stream | " + " | ".join(LEARNERS) + " |")
    print("|---|" + "---|" * len(LEARNERS))
    for name, by_learner in results.items():
        cells = (
            " / ".join(_number(np.mean(numbers[column])) for column in SHOWN)
            for numbers in by_learner.values()
        )
        print(f"| {name} | {' | '.join(cells)} |")
    worse = [name for name, by_learner in results.items() if _is_worse(by_learner)]
    print("\nworse than the first edition in loss and in violation:", ", ".join(worse) or "none")


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def _is_worse(by_learner: dict[str, dict[str, Any]]) -> bool:
    """Whether the default has more loss and more violation than the first edition."""
    now, before = by_learner["half-space"], by_learner["first edition"]
    return all(_is_larger(now[column], before[column]) for column in ("loss", "clipped"))


def _table(name: str, rounds: int, seeds: int) -> dict[str, dict[str, Any]]:
    """Print the table of a stream; return its columns by learner and seed."""
    if name in OWN:
        case = OWN[name](rounds, seeds)
    else:
        stream = STREAMS[name]
        rounds, seeds = min(rounds, stream.longest or rounds), stream.seeds_of(seeds)
        case = Case(stream.problem, stream.data(seeds, rounds))
    constants = case.problem.constants
    if constants.loss_lipschitz is None or constants.constraint_lipschitz is None:
        case = case._replace(problem=case.problem.estimate_constants(case.data, seeds=seeds, key=0))
    print(f"\n{name}: {rounds:,} rounds, mean of {seeds} seeds")
    print(f"{'':16}" + "".join(f"{column:>10}" for column in COLUMNS))
    results = {}
    for label, make in LEARNERS.items():
        results[label] = numbers = _measured(make(case.problem, rounds), case, seeds)
        cells = "".join(f"{np.mean(numbers[column]):10.4g}" for column in COLUMNS)
        print(f"{label:16}{cells}", flush=True)
    return results


def _measured(learner: Any, case: Case, seeds: int) -> dict[str, Any]:
    """Play a learner; return each column by seed."""
    record = ("excess",)
    run = taut.simulate(learner, case.problem, case.data, seeds=seeds, record=record)
    begun = time.process_time()
    taut.simulate(learner, case.problem, case.data, seeds=seeds, record=record)
    spent = (time.process_time() - begun) / (run.horizon * seeds) * 1e6
    return {
        "loss": np.asarray(run.totals.loss) / run.horizon,
        "clipped": metrics.violation(run),
        "squares": metrics.squared_violation(run),
        "peak": metrics.peak_violation(run),
        "rounds": metrics.violating_rounds(run),
        "us": spent,
    }


def _is_larger(first: Any, second: Any) -> bool:
    """Whether one is larger beyond what seeds differ by: twice the standard error of the mean
    difference, and a thousandth."""
    difference = np.asarray(first, float) - np.asarray(second, float)
    count = len(difference)
    error = difference.std(ddof=1) / np.sqrt(count) if count > 1 else 0.0
    return bool(difference.mean() > 2 * error + 1e-3 * np.mean(np.abs(second)))


# -- Streams of its own


def _rows(costs: Any, normals: Any, offsets: Any, size: int) -> Case:
    problem = taut.Problem(
        lambda x, z: z["c"] @ x,
        lambda x, z: z["a"] @ x - z["b"],
        taut.Ball(1.0, shape=size),
        taut.Constants(loss_lipschitz=3.0, constraint_lipschitz=1.0, constraint_count=1),
    )
    return Case(problem, {"c": costs, "a": normals, "b": offsets})


def _costs(rounds: int, seeds: int, size: int, noise: float = 0.3) -> Any:
    rng = np.random.default_rng(5)
    mean = rng.normal(size=(seeds, 1, size))
    mean /= np.linalg.norm(mean, axis=-1, keepdims=True)
    return np.clip(mean + noise * rng.normal(size=(seeds, rounds, size)), -1.5, 1.5)


def _random_rows(rounds: int, seeds: int) -> Case:
    """A new tangent of a ball in every round."""
    normals = np.random.default_rng(6).normal(size=(seeds, rounds, 5))
    normals /= np.linalg.norm(normals, axis=-1, keepdims=True)
    return _rows(_costs(rounds, seeds, 5), normals, np.full((seeds, rounds), 0.5), 5)


def _periodic(rounds: int, seeds: int) -> Case:
    """Eight tangents, each in force for 32 rounds at a time."""
    normals = np.random.default_rng(7).normal(size=(seeds, 8, 5))
    normals /= np.linalg.norm(normals, axis=-1, keepdims=True)
    which = np.arange(rounds) // 32 % 8
    return _rows(_costs(rounds, seeds, 5), normals[:, which], np.full((seeds, rounds), 0.3), 5)


def _gone(rounds: int, seeds: int) -> Case:
    """A row that is in force in the first eighth of the rounds only."""
    costs = _costs(rounds, seeds, 2)
    normals = -costs.mean(axis=1, keepdims=True) * np.ones((1, rounds, 1))
    normals /= np.linalg.norm(normals, axis=-1, keepdims=True)
    late = np.arange(rounds) >= rounds // 8
    offsets = np.where(late, 1.0, 0.0) * np.ones((seeds, 1))
    return _rows(costs, normals, offsets, 2)


def _drifting(rounds: int, seeds: int) -> Case:
    """One row that turns once around the origin."""
    angle = 2 * np.pi * np.arange(rounds) / rounds
    normals = np.stack([np.cos(angle), np.sin(angle)], axis=-1) * np.ones((seeds, 1, 1))
    return _rows(_costs(rounds, seeds, 2), normals, np.full((seeds, rounds), 0.2), 2)


def _wedge(angle: float) -> Callable[[int, int], Case]:
    def made(rounds: int, seeds: int) -> Case:
        """The two sides of a wedge in turn, and losses that push beyond its apex."""
        odd = np.arange(rounds) % 2 == 1
        up, down = (np.array([-np.sin(angle), side * np.cos(angle)]) for side in (1, -1))
        normals = np.where(odd[:, None], up, down) * np.ones((seeds, 1, 1))
        costs = np.array([1.0, 0.0]) + 0.3 * np.random.default_rng(8).normal(
            size=(seeds, rounds, 2)
        )
        return _rows(np.clip(costs, -1.5, 1.5), normals, np.zeros((seeds, rounds)), 2)

    return made


def _spike(rounds: int, seeds: int) -> Case:
    """The toy of the paper with one cost of 1e4 in round 6."""
    costs = np.array([1.0, -0.5]) + 0.3 * np.random.default_rng(9).normal(size=(seeds, rounds, 2))
    costs[:, 5] = (-1e4, 1e4)
    problem = taut.Problem(
        lambda x, c: c @ x,
        lambda x: jnp.abs(x).sum() - 1,
        taut.Ball(1.0, shape=2),
        taut.Constants(loss_lipschitz=1.5e4, constraint_lipschitz=2**0.5, constraint_count=1),
    )
    return Case(problem, costs)


OWN: dict[str, Callable[[int, int], Case]] = {
    "random rows": _random_rows,
    "periodic rows": _periodic,
    "a row that is gone": _gone,
    "a row that turns": _drifting,
    "wedge of 0.1": _wedge(0.1),
    "wedge of 0.001": _wedge(0.001),
    "one absurd cost": _spike,
}
