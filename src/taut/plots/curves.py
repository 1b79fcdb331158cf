"""Curves of one run or several over the rounds, one panel per quantity, with the bounds that hold
at the last round."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from ..engine import Array
from ..runs.run import Run
from .families import family_of_object
from .style import BOUND, INK, curve, empty, log_axis_with_zero, shade

if TYPE_CHECKING:
    from matplotlib.axes import Axes


CUMULATIVE = ("loss", "regret", "violation", "excess")
"""Sums over the rounds that can be drawn."""
POINTS = 400
"""Points of a curve; more would not be seen."""
WRITTEN = 4
"""Bounds that are written at the edge of a panel at most."""
NEAR = {False: 1.5, True: 30.0}
"""A bound is drawn if it is at most so many times the largest value, on a linear and on a
logarithmic axis. Otherwise it would squeeze the curves, and is written at the edge."""
BOUNDED = "bound at the last round"
DASHES: tuple[Any, ...] = ("-", (0, (4.5, 1.4)), (0, (1.2, 1.2)), (0, (5, 1.2, 1, 1.2)))
"""Learners of one family have its colour and its marker, and differ in dashes, then in shade."""
SHADES = (0.0, 0.4, -0.4)

_LABELS = {
    "loss": "cumulative loss",
    "violation": "clipped violation",
    "excess": "cumulative excess",
    "largest excess": "cumulative largest excess of each round",
}
"""What an axis says, if not the name of the quantity."""


@dataclass(frozen=True)
class Curves:
    """What is drawn: runs by label, their regrets (seed, round) and their bounds.

    With `log` both axes are logarithmic, with False none is, and by default only that of the
    violation. A reason in `missing` is written into the panel of a quantity that is not there.
    """

    runs: Mapping[str, Run]
    regrets: Mapping[str, Array] | None = None
    bounds: Mapping[str, Mapping[str, float | None]] = field(default_factory=dict)
    log: bool | None = None
    missing: Mapping[str, str] = field(default_factory=dict)

    def name(self, quantity: str) -> str:
        """Return the quantity that is drawn. Of several constraints a run records the largest
        value of each round; with `previous=True` regret is policy regret."""
        runs = self.runs.values()
        if quantity == "regret" and any(r.problem is not None and r.problem.previous for r in runs):
            return "policy regret"
        several = any(run.totals.excess.shape[-1] > 1 for run in runs)
        return "largest excess" if quantity == "excess" and several else quantity

    def title(self, quantity: str) -> str:
        """Return what to see in the panel of a quantity."""
        name = self.name(quantity)
        if quantity == "excess":
            return f"{name}: slack pays for violations"
        return f"{'clipped violation' if name == 'violation' else name}: lower is better"

    def draw(
        self, axes: Axes, quantity: str, lines: Sequence[dict[str, Any]], bound: float | None = None
    ) -> None:
        """Draw a quantity of all runs, then the bounds: first all curves decide about the axis."""
        name = self.name(quantity)
        axes.set(xlabel=axis_label(next(iter(self.runs.values()))), ylabel=_LABELS.get(name, name))
        if quantity in self.missing:
            empty(axes, self.missing[quantity])
            return
        logarithmic = quantity == "violation" if self.log is None else self.log
        values = {label: self._values(run, label, quantity) for label, run in self.runs.items()}
        limits: list[tuple[float, str, str]] = []
        reach = 0.0
        for (label, run), line in zip(self.runs.items(), lines, strict=True):
            x, dates = rounds_of(run)
            shown = _rounds(run.horizon, bool(self.log) and not dates)
            curve(axes, x[shown - 1], values[label][:, shown - 1], **line)
            reach = max(reach, float(np.max(np.abs(values[label]))))
            limit = self.bounds.get(label, {}).get(name)
            if limit is not None:
                limits.append((float(limit), str(line["color"]), str(line.get("label", label))))
            if self.log and not dates:
                axes.set_xscale("log")
            turn_dates(axes, dates)
        if bound is not None:
            limits.append((bound, INK, ""))
            reach = max(reach, bound / NEAR[False])  # the user asked for it
        axes.axhline(0, color="#999999", linewidth=0.7, zorder=1)
        linear = 0.0
        if quantity == "violation" and reach == 0:
            empty(axes, "never violated")
        elif logarithmic:
            linear = log_axis_with_zero(axes, axes.yaxis, [*values.values(), reach])
        _draw_bounds(axes, limits, NEAR[logarithmic] * reach)
        if linear and min(map(np.min, values.values())) >= 0:
            axes.set_ylim(bottom=-0.3 * linear)  # nothing is below zero, so no room is needed

    def _values(self, run: Run, label: str, quantity: str) -> Array:
        if quantity == "regret" and self.regrets is not None:
            return self.regrets[label]
        values = recorded(run, "loss" if quantity == "loss" else "excess")
        return np.cumsum(np.maximum(values, 0) if quantity == "violation" else values, axis=-1)


def recorded(run: Run, name: str) -> Array:
    """Return what a run recorded; a run without it is refused."""
    value: Array | None = getattr(run, name)
    if value is None:
        raise ValueError(
            f'run: got a run without "{name}"; expected simulate(..., record=("loss", "excess"))'
        )
    return value


def name_of(run: Run) -> str:
    """Return what a legend calls the learner of a run."""
    return type(run.learner).__name__


def looks(runs: Mapping[str, Run]) -> list[dict[str, Any]]:
    """Return label, colour, marker and dashes of each run: colour and marker of its family.

    No two of the first twelve learners of a family look alike.
    """
    seen: dict[str, int] = {}
    styles = []
    for label, run in runs.items():
        family = family_of_object(run.learner)
        k = seen[family.name] = seen.get(family.name, -1) + 1
        styles.append(
            {
                "label": label,
                "color": shade(family.colour, SHADES[k // len(DASHES) % len(SHADES)]),
                "linestyle": DASHES[k % len(DASHES)],
                "marker": family.marker,
                "markevery": 0.2,
            }
        )
    return styles


def _rounds(horizon: int, by_logarithm: bool) -> Array:
    """Return the rounds that are drawn, evenly spaced on the axis; all of them if they are few."""
    count = min(POINTS, horizon)
    spaced = np.geomspace(1, horizon, count) if by_logarithm else np.linspace(1, horizon, count)
    return np.unique(spaced.round().astype(int))


def _draw_bounds(axes: Axes, bounds: list[tuple[float, str, str]], highest: float) -> None:
    """Draw the bounds up to `highest` as dashed lines, and write those that are beyond the axis at
    its edge when all is drawn."""
    outside = sorted(bounds)
    scale = axes.yaxis.get_transform()
    while True:
        ends = scale.transform(np.array(axes.get_ylim()))
        lines = min(len(outside), WRITTEN)  # each takes 8 % of the height, below 97 % of it
        room = 1 / (0.95 - 0.08 * lines) - 1 if lines else 0.0
        top = ends[1] + room * (ends[1] - ends[0])
        end = float(scale.inverted().transform(np.array([top]))[0])
        inside = [entry for entry in outside if entry[0] <= max(highest, end)]
        if not inside:
            break
        for bound, colour, _ in inside:
            outside.remove((bound, colour, _))
            axes.axhline(bound, color=colour, linestyle=BOUND, linewidth=1.2, label=BOUNDED)
    if outside:
        axes.set_ylim(axes.get_ylim()[0], end)
    for place, (bound, colour, label) in enumerate(outside[:WRITTEN]):
        left = len(outside) - WRITTEN
        more = f" and {left} more" if place == WRITTEN - 1 and left > 0 else ""
        of = f" of {label}" if label and len(bounds) > 1 else ""
        axes.text(
            0.02,
            0.98 - 0.08 * place,
            f"\u2191 bound {bound:.3g}{of}{more}",
            transform=axes.transAxes,
            va="top",
            color=colour,
            fontsize=7.5,
        )


def rounds_of(run: Run) -> tuple[Array, bool]:
    """Return the times of the rounds, or other numbers of the index, or the numbers of the rounds;
    and whether they are times."""
    index = run.index
    kind = getattr(getattr(index, "dtype", None), "kind", "O")
    if index is None or kind not in "iufM":
        return np.arange(1, run.horizon + 1), False
    naive = index.tz_localize(None) if getattr(index, "tz", None) is not None else index
    return np.asarray(naive.to_numpy()), kind == "M"


def axis_label(run: Run) -> str:
    """Return what the horizontal axis shows."""
    named = run.index is not None and getattr(run.index.dtype, "kind", "O") in "iufM"
    return str(run.index.name or "time") if run.index is not None and named else "round"


def turn_dates(axes: Any, dates: bool) -> None:
    """Write times short, if there are any."""
    if dates:
        from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

        locator = AutoDateLocator(maxticks=5)  # type: ignore[no-untyped-call]
        axes.xaxis.set_major_locator(locator)
        formatter = ConciseDateFormatter(locator)  # type: ignore[no-untyped-call]
        axes.xaxis.set_major_formatter(formatter)
