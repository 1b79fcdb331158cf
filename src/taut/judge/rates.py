"""Rates: how fast regret and violations grow with the horizon, measured and according to the
bounds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import arguments
from ..display import Displayed, Grid, Summary
from ..engine import Array
from ..learners import QUANTITIES, Learner
from ..learners.guarantee import smallest
from ..learners.registry import DEFAULT, as_learner
from ..problem.problem import Problem
from ..problem.streams import as_stream
from ..runs import metrics
from ..runs.run import Run
from ..sweeps import Cell, sweep
from .guarantees import setting_of, translated
from .hindsight import hindsight
from .over_seeds import half_width

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True)
class Rate:
    """The growth exponent of one quantity: measured with a 95 % interval over seeds, and what
    theory allows."""

    quantity: str
    exponent: float
    low: float
    high: float
    theory: float | None

    @property
    def within(self) -> bool | None:
        """Whether the interval reaches down to what theory allows; `None` where there is nothing to
        compare."""
        if self.theory is None or np.isnan(self.exponent):
            return None
        return bool(self.low <= self.theory + 1e-9)


@dataclass(frozen=True, repr=False)
class Rates(Displayed):
    """Measured values by (seed, horizon), and the exponents fitted to them."""

    horizons: tuple[int, ...]
    values: dict[str, Array]
    rates: tuple[Rate, ...]

    def __getitem__(self, quantity: str) -> Rate:
        return next(rate for rate in self.rates if rate.quantity == quantity)

    def plot(
        self, quantities: str | Sequence[str] | None = None, *, log: bool = True, ax: Any = None
    ) -> Axes:
        """Draw measured values over the horizons on logarithmic axes, with the growth that theory
        allows dashed.

        Arguments:
            quantities: one quantity or several; by default all that are positive.
            log: whether the axes are logarithmic.
            ax: the Matplotlib axes to draw on; by default new ones.
        """
        from ..plots.of_judgement import plot_rates

        return plot_rates(self, quantities, arguments.flag("log", log), ax)

    def _summary(self) -> Summary:
        rows = []
        for rate in self.rates:
            theory = "" if rate.theory is None else f"{rate.theory:.3f}"
            seeds = len(np.atleast_2d(self.values[rate.quantity]))
            interval = f"{rate.low:.3f} to {rate.high:.3f}" if seeds > 1 else ""
            measured = f"{rate.exponent:.3f}"
            if np.isnan(rate.exponent):
                measured, interval = "not positive", ""
            rows.append((rate.quantity, measured, interval, theory))
        names = ("quantity", "measured exponent", "95 % interval", "theory")
        title = f"Growth over the horizons {self.horizons[0]} to {self.horizons[-1]}"
        return Summary(title, (), (Grid(names, tuple(rows), left=("quantity",)),))


def rates(
    learner: Learner | str | Callable[[int], Learner] | Any = DEFAULT,
    family: tuple[Problem, Any] | Callable[[int], tuple[Problem, Any]] | Any = None,
    horizons: Sequence[int] | Any = None,
    *,
    seeds: int | None = None,
    score: Problem | None = None,
    executor: Any = None,
) -> Rates:
    """Growth exponents of regret and of each violation: `rates(learner, family, horizons)` or
    `rates(family, horizons)`.

    Arguments:
        learner: a learner that needs no horizon, a function of the horizon that returns one, or the
            name of a method. Without it, "half-space" plays.
        family: (problem, stream), or a function of the horizon that returns them.
        horizons: at least two, increasing.
        seeds: number of seeds in the stream, as in `taut.simulate`.
        score: the problem to score by, if the one played is a transform of it.
        executor: where horizons are played, as in `taut.sweep`; by default in threads.
    """
    positional = [argument for argument in (learner, family, horizons) if argument is not None]
    if horizons is None and len(positional) == 2:
        learner, family, horizons = DEFAULT, *positional
    if horizons is None or family is None:
        raise TypeError(
            "rates: expected rates(learner, family, horizons) or rates(family, horizons)"
        )
    grid = tuple(arguments.count("horizons", horizon) for horizon in horizons)
    if len(grid) < 2 or list(grid) != sorted(set(grid)):
        raise ValueError(f"horizons: got {list(horizons)}; expected at least two, increasing")
    cells: list[Cell] = []
    for horizon in grid:
        if not isinstance(family, tuple) and not callable(family):
            raise TypeError(
                f"family: got {arguments.shown(family)}; expected a tuple (problem, stream), or a "
                "function of the horizon"
            )
        problem, stream = family if isinstance(family, tuple) else family(horizon)
        if (score or problem).previous:
            raise ValueError(
                "family: got a problem with previous=True, which has two regrets; expected a "
                "problem without memory, for example taut.steady(problem), or taut.certify for "
                "single runs"
            )
        made = as_learner(learner, problem, horizon)
        made = made if isinstance(made, Learner) else made(horizon)
        source = as_stream(problem.arrange(stream), horizon=horizon, seeds=seeds)
        cells.append(Cell(made, problem, source, score=score))
    played = sweep(cells, executor, progress=False).check()
    columns: list[dict[str, Array]] = []
    limits: list[dict[str, float]] = []
    for horizon, cell, name in zip(grid, cells, played, strict=True):
        problem, source, made, run = cell.problem, cell.stream, played[name].learner, played[name]
        assert isinstance(made, Learner)
        measured = metrics.measured(run, hindsight(score or problem, source, horizon=horizon))
        columns.append(_without_rounding(measured, run))
        promised = made.guarantees(setting_of(problem), horizon)
        count = run.totals.excess.shape[-1]
        best = smallest(translated(promised, problem, score or problem, horizon, count)).values()
        limits.append({g.quantity: g.bound for g in best if g.bound is not None})
    values = {name: np.stack([column[name] for column in columns], axis=-1) for name in QUANTITIES}
    slopes = _slopes(grid, limits)
    fitted = [fit(name, grid, values[name], slopes.get(name)) for name in QUANTITIES]
    return Rates(grid, values, tuple(fitted))


def fit(quantity: str, horizons: Sequence[int], values: Array, theory: float | None = None) -> Rate:
    """Least squares of log value on log horizon, with one slope per seed. A quantity that is not
    positive has no slope."""
    values = np.atleast_2d(values)
    if np.any(values <= 0):
        return Rate(quantity, np.nan, np.nan, np.nan, theory)
    slopes = np.polyfit(np.log(horizons), np.log(values).T, 1)[0]
    centre = float(np.mean(slopes))
    half = half_width(slopes) if len(slopes) > 1 else 0.0
    return Rate(quantity, centre, centre - half, centre + half, theory)


def _without_rounding(values: dict[str, Array], run: Run) -> dict[str, Array]:
    """Set violations to zero that rounding explains, so that no exponent is fitted to them."""
    size = float(np.abs(run.totals.excess).max()) / run.horizon + float(run.totals.peak.max())
    each = 64 * float(np.finfo(run.final.dtype).eps) * size
    least = {
        "violation": each * run.horizon,
        "squared violation": each**2 * run.horizon,
        "peak violation": each,
    }
    return {
        name: np.where(value <= least[name], 0.0, value) if name in least else value
        for name, value in values.items()
    }


def _slopes(horizons: Sequence[int], limits: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The growth exponents of the learner's own bounds over the horizons; -inf for a bound of
    zero."""
    slopes = {}
    for quantity in QUANTITIES:
        values = [column[quantity] for column in limits if quantity in column]
        if len(values) == len(horizons):
            slopes[quantity] = -np.inf
            if min(values) > 0:
                slopes[quantity] = float(np.polyfit(np.log(horizons), np.log(values), 1)[0])
    return slopes
