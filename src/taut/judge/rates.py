"""Rates: how fast regret and violations really grow with the horizon, beside how fast theory lets them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import arguments
from ..learners import ClippedOGD, Doubling, DriftPlusPenalty, Learner, ProjectedOGD, SaddlePoint, bounds
from ..learners.schedules import Constant, Inverse, InverseRoot, Power
from ..play import metrics
from ..play.run import Run
from ..play.simulate import simulate
from ..problem.problem import Problem
from ..problem.streams import as_stream
from .guarantees import QUANTITIES
from .hindsight import hindsight

if TYPE_CHECKING:
    from rich.table import Table

__all__ = ["Rate", "Rates", "fit", "measure", "rates"]

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Rate:
    """The growth exponent of one quantity: measured with a 95 % interval over seeds, and what theory allows."""

    quantity: str
    exponent: float
    low: float
    high: float
    theory: float | None

    @property
    def within(self) -> bool | None:
        """Whether the interval reaches down to what theory allows; `None` where there is nothing to compare."""
        return None if self.theory is None or np.isnan(self.exponent) else bool(self.low <= self.theory + 1e-9)


@dataclass(frozen=True)
class Rates:
    """Measured values by (seed, horizon), and the exponents fitted to them."""

    horizons: tuple[int, ...]
    values: dict[str, Array]
    rates: tuple[Rate, ...]

    def __getitem__(self, quantity: str) -> Rate:
        return next(rate for rate in self.rates if rate.quantity == quantity)

    def table(self) -> Table:
        """One row a quantity."""
        from rich.table import Table

        table = Table("quantity", "measured exponent", "95 % interval", "theory", title="growth in the horizon")
        for rate in self.rates:
            if np.isnan(rate.exponent):
                measured, interval = "not positive", ""
            else:
                measured, interval = f"{rate.exponent:.3f}", f"{rate.low:.3f} to {rate.high:.3f}"
            table.add_row(rate.quantity, measured, interval, "" if rate.theory is None else f"{rate.theory:.3f}")
        return table


def rates(
    learner: Learner | Callable[[int], Learner],
    family: tuple[Problem, Any] | Callable[[int], tuple[Problem, Any]],
    horizons: Sequence[int],
    *,
    seeds: int | None = None,
    score: Problem | None = None,
    theory: bounds.Exponents | None = None,
) -> Rates:
    """Growth exponents of regret and of each violation over `horizons`.

    Arguments:
        learner: a learner that needs no horizon, or a function of the horizon that returns one.
        family: (problem, stream), or a function of the horizon that returns them.
        horizons: at least two, increasing.
        seeds: number of seeds in the stream, as in `taut.simulate`.
        score: the problem to score by, if the one played is a transform of it.
        theory: exponents to compare with; by default those of the learner's own family.
    """
    grid = tuple(arguments.count("horizons", horizon) for horizon in horizons)
    if len(grid) < 2 or list(grid) != sorted(set(grid)):
        raise ValueError(f"horizons: got {list(horizons)}; expected at least two, increasing")
    columns: list[dict[str, Array]] = []
    last: Learner | None = None
    for horizon in grid:
        last = learner if isinstance(learner, Learner) else learner(horizon)
        problem, stream = family if isinstance(family, tuple) else family(horizon)
        source = as_stream(problem.arrange(stream), horizon=horizon, seeds=seeds)
        run = simulate(last, problem, source, horizon=horizon, record=(), score=score)
        columns.append(measure(run, hindsight(score or problem, source, horizon=horizon).loss))
    assert last is not None
    values = {name: np.stack([column[name] for column in columns], axis=-1) for name in QUANTITIES}
    allowed = theory or _theory(last)
    return Rates(grid, values, tuple(fit(name, grid, values[name], allowed) for name in QUANTITIES))


def measure(run: Run, best: Array) -> dict[str, Array]:
    """Every quantity of a run, by seed."""
    return {
        "regret": metrics.regret(run, best),
        "violation": metrics.violation(run),
        "squared violation": metrics.squared_violation(run),
        "peak violation": metrics.peak_violation(run),
        "excess": metrics.excess(run),
    }


def fit(quantity: str, horizons: Sequence[int], values: Array, theory: bounds.Exponents | None = None) -> Rate:
    """Least squares of log value on log horizon, one slope a seed; a quantity that is not positive has none."""
    field = {"regret": "regret", "violation": "violation", "squared violation": "squared", "peak violation": "peak"}
    allowed = None if theory is None else float(getattr(theory, field.get(quantity, "excess")))
    values = np.atleast_2d(values)
    if np.any(values <= 0):
        return Rate(quantity, np.nan, np.nan, np.nan, allowed)
    slopes = np.polyfit(np.log(horizons), np.log(values).T, 1)[0]
    centre, half = float(np.mean(slopes)), 0.0
    if len(slopes) > 1:
        from scipy import stats

        half = float(stats.t.ppf(0.975, len(slopes) - 1) * np.std(slopes, ddof=1) / np.sqrt(len(slopes)))
    return Rate(quantity, centre, centre - half, centre + half, allowed)


def _theory(learner: Learner) -> bounds.Exponents | None:
    """The exponents of a learner's own family, told from its schedules; `None` where they cannot be told."""
    if isinstance(learner, Doubling):
        return bounds.exponents("clipped-anytime") if isinstance(learner.epochs, ClippedOGD) else None
    if isinstance(learner, DriftPlusPenalty):
        return bounds.exponents("drift-plus-penalty", slater=True)
    if isinstance(learner, ProjectedOGD):
        return bounds.exponents("projected-strong" if isinstance(learner.eta, Inverse) else "projected")
    if isinstance(learner, SaddlePoint):
        clipped = "-clipped" if learner.clipped else ""
        if isinstance(learner.eta, Constant):
            return bounds.exponents(f"mahdavi{clipped}")
        beta = float(learner.theta.exponent) if isinstance(learner.theta, Power) else 0.5
        strong = "-strong" if isinstance(learner.eta, Inverse) else ""
        return bounds.exponents(f"jenatton{strong}{clipped}", beta)
    if isinstance(learner, ClippedOGD):
        if isinstance(learner.eta, Inverse):
            return bounds.exponents("clipped-strong")
        return bounds.exponents("clipped-anytime" if isinstance(learner.eta, InverseRoot) else "clipped")
    return None
