"""The learners that the paper's figures compare, and the contest of them on one problem and stream.

Every learner plays with the parameters of the paper; Clipped-OGD also with the scale-aware rule.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ..extras import optional
from ..learners import ClippedOGD, Learner, SaddlePoint
from ..learners.schedules import PowerLaw, Reciprocal, Schedule
from ..problem.constants import Constants
from ..problem.problem import Problem
from ..runs import metrics
from ..runs.run import Run
from ..sweeps import Cell, sweep

if TYPE_CHECKING:
    import xarray


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

    cells: dict[str, list[Cell]] = {contestant.name: [] for contestant in contestants}
    for contestant in contestants:
        parts = (
            [slice(None)] if contestant.anytime else [slice(i, i + 1) for i in range(len(horizons))]
        )
        for part in parts:
            rounds = list(horizons[part])
            cell = Cell(
                contestant.make(problem.constants, max(rounds)),
                problem,
                stream,
                horizon=max(rounds),
                seeds=seeds,
                name=f"{contestant.name} / {part.start or 0}",
                record=("loss", "excess"),
                measure=partial(_measure, best=best[:, part], rounds=rounds),
                keep=False,
            )
            cells[contestant.name].append(cell)
    result = sweep([cell for mine in cells.values() for cell in mine], progress=False).check()
    values = {
        name: np.stack(
            [
                np.concatenate([result.measures(str(cell.name))[name] for cell in mine], axis=1)
                for mine in cells.values()
            ]
        )
        for name in QUANTITIES
    }
    dims = ("contestant", "seed", "horizon")
    return xr.Dataset(
        {name: (dims, column) for name, column in values.items()},
        coords=coordinates(contestants, problem, max(horizons))
        | {"horizon": list(horizons), "seed": np.arange(seeds)},
    )


def runs_of(
    contestants: Sequence[Contestant],
    problem: Problem,
    stream: Any,
    rounds: int,
    record: tuple[str, ...],
) -> list[Run]:
    """Return the run of every contestant on one sequence, with what is recorded of every round."""
    cells = [
        Cell(
            contestant.make(problem.constants, rounds),
            problem,
            stream,
            horizon=rounds,
            record=record,
            name=contestant.name,
        )
        for contestant in contestants
    ]
    result = sweep(cells, progress=False).check()
    return [result[contestant.name] for contestant in contestants]


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


def _measure(
    run: Run, best: np.ndarray[Any, Any], rounds: list[int]
) -> dict[str, np.ndarray[Any, Any]]:
    return {
        "regret": metrics.regret(run, best, rounds),
        "violation": metrics.violation(run, rounds),
        "largest_excess": metrics.largest_excess(run, rounds),
        "largest_squared": metrics.largest_squared_violation(run, rounds),
        "peak": metrics.peak_violation(run, rounds),
        "share": metrics.violating_rounds(run, rounds) / np.asarray(rounds),
    }


_BETAS = ((0.5, "half", "1/2"), (2 / 3, "two-thirds", "2/3"))


def for_convex_losses() -> tuple[Contestant, ...]:
    """Return OGD, A-OGD and Clipped-OGD with the paper's parameters, then Clipped-OGD with the
    scale-aware rule."""
    contestants = [Contestant("ogd", "OGD", SaddlePoint.mahdavi, False)]
    for beta, name, text in _BETAS:
        contestants.append(
            Contestant(f"a-ogd-{name}", f"A-OGD, $\\beta={text}$", _adaptive(beta), True)
        )
    for rule, prefix, suffix in (
        ("paper", "clipped", ""),
        ("scale-aware", "scaled", ", scale-aware"),
    ):
        for beta, name, text in _BETAS:
            label = f"Clipped-OGD{suffix}, $\\beta={text}$"
            contestants.append(
                Contestant(
                    f"{prefix}-{name}",
                    label,
                    partial(ClippedOGD.tuned, beta=beta, rule=rule),
                    False,
                )
            )
    return tuple(contestants)


def for_strongly_convex_losses() -> tuple[Contestant, ...]:
    """Return the learners for convex losses, then those that use strong convexity."""
    contestants = [
        Contestant(
            "strong", "Our-strong", lambda c, T: ClippedOGD.strongly_convex(c, rule="paper"), True
        )
    ]
    contestants.append(
        Contestant(
            "strong-scaled",
            "Our-strong, scale-aware",
            lambda c, T: ClippedOGD.strongly_convex(c),
            True,
        )
    )
    for beta, name, text in _BETAS:
        label = f"A-OGD strongly convex, $\\beta={text}$"
        contestants.append(Contestant(f"a-ogd-strong-{name}", label, _adaptive_strong(beta), True))
    return (*for_convex_losses(), *contestants)


def _adaptive(beta: float) -> Callable[[Constants, int], Learner]:
    return lambda c, T: SaddlePoint.jenatton(c, beta)


def _adaptive_strong(beta: float) -> Callable[[Constants, int], Learner]:
    return lambda c, T: SaddlePoint.jenatton_strongly_convex(c, beta)
