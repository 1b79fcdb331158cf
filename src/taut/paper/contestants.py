"""The learners that the paper's figures compare, and the contest of them on one problem and stream.

Every learner plays with the parameters of the paper; Clipped-OGD also with the scale-aware rule.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ..engine import Array
from ..extras import optional
from ..learners import LEARNERS, Learner
from ..learners.schedules import PowerLaw, Reciprocal, Schedule
from ..problem.problem import Problem
from ..runs import metrics
from ..runs.run import Run
from ..sweeps import Cell, sweep

if TYPE_CHECKING:
    import xarray


@dataclass(frozen=True)
class Contestant:
    """A learner as it appears in tables and figures, and what builds it for constants and a
    horizon."""

    name: str
    label: str
    make: Callable[..., Learner]
    anytime: bool
    """True if the parameters do not depend on the horizon, so that one run gives the values of all
    horizons."""


def contest(
    contestants: Sequence[Contestant],
    problem: Problem,
    stream: Any,
    horizons: Sequence[int],
    seeds: int,
    best: Array,
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

    every = range(len(horizons))
    cells: dict[str, list[Cell]] = {}
    for contestant in contestants:
        parts = [slice(None)] if contestant.anytime else [slice(i, i + 1) for i in every]
        cells[contestant.name] = [
            Cell(
                contestant.make(problem.constants, max(horizons[part])),
                problem,
                stream,
                horizon=max(horizons[part]),
                seeds=seeds,
                name=f"{contestant.name} / {part.start or 0}",
                record=("loss", "excess"),
                measure=partial(_measure, best=best[:, part], rounds=list(horizons[part])),
                keep=False,
            )
            for part in parts
        ]
    result = sweep([cell for mine in cells.values() for cell in mine], progress=False).check()

    def measured(quantity: str) -> Array:
        parts = [[result.measures(str(cell.name))[quantity] for cell in m] for m in cells.values()]
        return np.stack([np.concatenate(part, axis=1) for part in parts])

    dims = ("contestant", "seed", "horizon")
    return xr.Dataset(
        {name: (dims, measured(name)) for name in ("regret", "violation", "largest_excess")},
        coords=coordinates(contestants, problem, max(horizons))
        | {"horizon": list(horizons), "seed": np.arange(seeds)},
    )


def coordinates(
    contestants: Sequence[Contestant], problem: Problem, horizon: int
) -> dict[str, Any]:
    """Return the names of contestants with their labels and parameters, for a dataset."""
    parameters = [
        described(contestant.make(problem.constants, horizon)) for contestant in contestants
    ]
    return {
        "contestant": [contestant.name for contestant in contestants],
        "label": ("contestant", [contestant.label for contestant in contestants]),
        "parameters": ("contestant", parameters),
    }


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


def _measure(run: Run, best: Array, rounds: list[int]) -> dict[str, Array]:
    return {
        "regret": metrics.regret(run, best, rounds),
        "violation": metrics.violation(run, rounds),
        "largest_excess": metrics.largest_excess(run, rounds),
    }


def _contestant(name: str, label: str, method: str, **options: Any) -> Contestant:
    card = LEARNERS[method]
    return Contestant(name, label, partial(card.build, **options), not card.needs_horizon)


def _for_both_betas(name: str, label: str, method: str) -> tuple[Contestant, ...]:
    return tuple(
        _contestant(f"{name}-{word}", f"{label}, $\\beta={text}$", method, beta=beta)
        for beta, word, text in ((0.5, "half", "1/2"), (2 / 3, "two-thirds", "2/3"))
    )


FOR_CONVEX_LOSSES = (
    _contestant("ogd", "OGD", "ogd"),
    *_for_both_betas("a-ogd", "A-OGD", "a-ogd"),
    *_for_both_betas("clipped", "Clipped-OGD", "clipped-ogd-paper"),
    *_for_both_betas("scaled", "Clipped-OGD, scale-aware", "clipped-ogd"),
)
FOR_STRONGLY_CONVEX_LOSSES = (
    *FOR_CONVEX_LOSSES,
    _contestant("strong", "Our-strong", "clipped-ogd-strong", rule="paper"),
    _contestant("strong-scaled", "Our-strong, scale-aware", "clipped-ogd-strong"),
    *_for_both_betas("a-ogd-strong", "A-OGD strongly convex", "a-ogd-strong"),
)
