"""A contest: several learners on one problem and stream, for a list of horizons, with all metrics
in one dataset."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ..extras import optional
from ..learners import Learner
from ..learners.schedules import PowerLaw, Reciprocal, Schedule
from ..problem.constants import Constants
from ..problem.problem import Problem
from ..runs import metrics
from ..sweeps import Cell, sweep

if TYPE_CHECKING:
    import xarray

__all__ = ["QUANTITIES", "Contestant", "contest", "described"]

QUANTITIES = ("regret", "violation", "largest_excess", "largest_squared", "peak", "share")
"""Variables of the dataset: the metrics of `taut.metrics`, and the share of rounds with g > 0."""


@dataclass(frozen=True)
class Contestant:
    """A learner as it appears in tables and figures, with a function that builds it for a
    horizon."""

    name: str
    label: str
    make: Callable[[Constants, int], Learner]
    anytime: bool
    """True if the parameters do not depend on the horizon, so that one run gives the values of all
    horizons."""


def contest(
    contestants: Sequence[Contestant],
    problem: Problem,
    stream: Any,
    horizons: Sequence[int],
    seeds: int,
    best: np.ndarray[Any, Any],
) -> xarray.Dataset:
    """Simulate all contestants and return every metric by (contestant, seed, horizon).

    Arguments:
        contestants: the learners.
        problem: the problem, with its constants.
        stream: arrays (seed, round, ...).
        horizons: numbers of rounds. A learner that is tuned for a horizon is simulated once per
            horizon.
        seeds: number of seeds.
        best: loss of the best fixed decision, by (seed, horizon).
    """
    xr = optional("xarray")

    cells: list[Cell] = []
    for one in contestants:
        parts = [slice(None)] if one.anytime else [slice(i, i + 1) for i in range(len(horizons))]
        for part in parts:
            rounds = list(horizons[part])
            measure = partial(_measure, best=best[:, part], rounds=rounds)
            learner, name = (
                one.make(problem.constants, max(rounds)),
                f"{one.name} / {part.start or 0}",
            )
            cells.append(
                Cell(
                    learner,
                    problem,
                    stream,
                    horizon=max(rounds),
                    seeds=seeds,
                    name=name,
                    tags={"contestant": one.name},
                    record=("loss", "excess"),
                    measure=measure,
                    keep=False,
                )
            )
    found = sweep(cells, progress=False).check()
    played = [
        {
            name: np.concatenate(
                [
                    found.measures(str(cell.name))[name]
                    for cell in cells
                    if cell.tags["contestant"] == one.name
                ],
                axis=1,
            )
            for name in QUANTITIES
        }
        for one in contestants
    ]
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
            parts.append(
                f"{entry.name} = {value!r}" if law is None else f"{entry.name} = {_formula(law)}"
            )
        else:
            parts.append(f"{entry.name} = {float(value):.6g}")
    return ", ".join(parts)


def _formula(law: PowerLaw) -> str:
    if law.beta == 0:
        return f"{law.scale:.6g}"
    base = "t" if law.shift == 0 else f"(t + {law.shift:g})"
    return f"{law.scale:.6g} / {base}" + ("" if law.beta == 1 else f"^{law.beta:.4g}")


def _measure(
    run: Any, best: np.ndarray[Any, Any], rounds: list[int]
) -> dict[str, np.ndarray[Any, Any]]:
    return {
        "regret": metrics.regret(run, best, rounds),
        "violation": metrics.violation(run, rounds),
        "largest_excess": metrics.largest_excess(run, rounds),
        "largest_squared": metrics.largest_squared_violation(run, rounds),
        "peak": metrics.peak_violation(run, rounds),
        "share": metrics.violating_rounds(run, rounds) / np.asarray(rounds),
    }
