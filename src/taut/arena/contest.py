"""A contest: several learners on one problem and stream, for a list of horizons, with all metrics in one dataset."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ..learners import Learner
from ..learners.schedules import PowerLaw, Reciprocal, Schedule
from ..play import metrics
from ..play.simulate import simulate
from ..problem.constants import Constants
from ..problem.problem import Problem

if TYPE_CHECKING:
    import xarray

__all__ = ["QUANTITIES", "Contestant", "contest", "described"]

QUANTITIES = ("regret", "violation", "largest_excess", "largest_squared", "peak", "share")
"""Variables of the dataset: the metrics of `taut.metrics`, and the share of rounds with g > 0."""


@dataclass(frozen=True)
class Contestant:
    """A learner as it appears in tables and figures, with a function that builds it for a horizon."""

    name: str
    label: str
    make: Callable[[Constants, int], Learner]
    anytime: bool
    """True if the parameters do not depend on the horizon, so that one run gives the values of all horizons."""

    def with_learner(self, make: Callable[[Constants, int], Learner]) -> Contestant:
        """Return a contestant with the same name and label but another learner."""
        return replace(self, make=make)


def contest(
    contestants: Sequence[Contestant],
    problem: Problem,
    stream: Any,
    horizons: Sequence[int],
    seeds: int,
    best: np.ndarray[Any, Any],
    done: Callable[[], None] = lambda: None,
) -> xarray.Dataset:
    """Simulate all contestants and return every metric by (contestant, seed, horizon).

    Arguments:
        contestants: the learners.
        problem: the problem, with its constants.
        stream: arrays (seed, round, ...).
        horizons: numbers of rounds. A learner that is tuned for a horizon is simulated once per horizon.
        seeds: number of seeds.
        best: loss of the best fixed decision, by (seed, horizon).
        done: called after each contestant, for a progress bar.
    """
    import xarray as xr

    def play(one: Contestant) -> dict[str, np.ndarray[Any, Any]]:
        if one.anytime:
            run = simulate(
                one.make(problem.constants, max(horizons)), problem, stream, horizon=max(horizons), seeds=seeds
            )
            columns = _measure(run, best, list(horizons))
        else:
            parts = []
            for i, horizon in enumerate(horizons):
                run = simulate(one.make(problem.constants, horizon), problem, stream, horizon=horizon, seeds=seeds)
                parts.append(_measure(run, best[:, i : i + 1], [horizon]))
            columns = {name: np.concatenate([part[name] for part in parts], axis=1) for name in QUANTITIES}
        done()
        return columns

    with ThreadPoolExecutor(2) as pool:  # JAX releases the interpreter lock while it computes
        played = list(pool.map(play, contestants))
    dims = ("contestant", "seed", "horizon")
    return xr.Dataset(
        {name: (dims, np.stack([columns[name] for columns in played])) for name in QUANTITIES},
        coords={
            "contestant": [one.name for one in contestants],
            "label": ("contestant", [one.label for one in contestants]),
            "parameters": (
                "contestant",
                [described(one.make(problem.constants, max(horizons))) for one in contestants],
            ),
            "horizon": list(horizons),
            "seed": np.arange(seeds),
        },
    )


def described(learner: Learner) -> str:
    """Return the parameters of a learner as formulas, for tables: "eta = 0.005, sigma = 4"."""
    parts = []
    for entry in fields(learner):  # type: ignore[arg-type]
        value = getattr(learner, entry.name)
        if isinstance(value, bool):
            parts += [entry.name] if value else []
        elif isinstance(value, Reciprocal):
            parts.append(f"{entry.name} = 1 / (theta (t + {float(value.shift):g}))")
        elif isinstance(value, Schedule):
            law = value.power_law()
            parts.append(f"{entry.name} = {value!r}" if law is None else f"{entry.name} = {_formula(law)}")
        else:
            parts.append(f"{entry.name} = {float(value):.6g}")
    return ", ".join(parts)


def _formula(law: PowerLaw) -> str:
    if law.beta == 0:
        return f"{law.scale:.6g}"
    base = "t" if law.shift == 0 else f"(t + {law.shift:g})"
    return f"{law.scale:.6g} / {base}" + ("" if law.beta == 1 else f"^{law.beta:.4g}")


def _measure(run: Any, best: np.ndarray[Any, Any], rounds: list[int]) -> dict[str, np.ndarray[Any, Any]]:
    return {
        "regret": metrics.regret(run, best, rounds),
        "violation": metrics.violation(run, rounds),
        "largest_excess": metrics.largest_excess(run, rounds),
        "largest_squared": metrics.largest_squared_violation(run, rounds),
        "peak": metrics.peak_violation(run, rounds),
        "share": metrics.violating_rounds(run, rounds) / np.asarray(rounds),
    }
