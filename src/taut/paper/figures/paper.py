"""The figures of the paper: trajectories, sums as functions of the horizon, and the ten days of
dispatch.

Every function takes a stored dataset and returns a Figure. `rule` selects the paper's parameters
("paper") or Clipped-OGD with the scale-aware rule ("scale-aware"). `narrow` places the panels in
one column, for small screens.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ...plots.style import curve, label_panels, legend_below, log_axis, new_figure, styled
from ..datasets import names, title_of
from .style import look

if TYPE_CHECKING:
    import xarray
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


_DOTS: dict[str, Any] = {"linewidth": 1.0, "linestyle": (0, (2, 2))}
_BETAS = (("half", "1/2"), ("two-thirds", "2/3"))
_SUMS = (
    ("violation", "clipped violation", "\u03a3\u209c [g(x\u209c)]\u208a"),
    ("largest_excess", "signed violation", "\u03a3\u209c max\u1d62 g\u1d62(x\u209c)"),
    ("excess", "signed, each constraint by itself", "max\u1d62 \u03a3\u209c g\u1d62(x\u209c)"),
    ("regret", "regret", "\u03a3\u209c f\u209c(x\u209c) \u2212 \u03a3\u209c f\u209c(x*)"),
)


@styled
def trajectories(data: xarray.Dataset, rule: str = "paper", narrow: bool = False) -> Figure:
    """Draw Fig. 1: the decisions of every learner, one panel per beta, with constraint, outer ball
    and optimum."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    figure, panels = new_figure(2, narrow, width=4.1, height=3.6)
    ours, radius = "clipped" if rule == "paper" else "scaled", float(data.attrs["radius"])
    shown = [name for name in names(data) if name.startswith(("ogd", "a-ogd", ours))]
    corners = data["trajectory"].sel(contestant=shown).values.reshape(-1, 2)
    for axes, (beta, text) in zip(panels, _BETAS, strict=True):
        _sets(axes, radius)
        for name in ("ogd", f"a-ogd-{beta}", f"{ours}-{beta}"):
            if name not in shown:
                continue
            path = data["trajectory"].sel(contestant=name).values
            label = title_of(data, name).split(", \u03b2")[0]
            width, order = (2.0, 4) if name.startswith(ours) else (1.0, 3)
            axes.plot(
                *path.T, color=look(name)["color"], linewidth=width, zorder=order, label=label
            )
        axes.plot(0, 0, "o", color="black", markersize=4, zorder=5, label="first decision")
        edge: dict[str, Any] = {"markeredgecolor": "white", "markeredgewidth": 0.6}
        star: dict[str, Any] = {"color": "#1f3fbf", "markersize": 14, "zorder": 6} | edge
        axes.plot(*data["star"].values, "*", label="best fixed decision", **star)
        axes.set(xlabel="x\u2081", ylabel="x\u2082", title=f"\u03b2 = {text}", aspect="equal")
        _zoom(axes, corners, radius)
    ball = Line2D([], [], label="outer ball", color="#777777", **_DOTS)
    square = "|x\u2081| + |x\u2082| \u2264 1"
    inside = Patch(facecolor="#f0f0ec", edgecolor="#333333", label=square)
    legend_below(figure, panels, narrow, [inside, ball])
    return figure


def _sets(axes: Axes, radius: float) -> None:
    from matplotlib.patches import Circle, Polygon

    corners = [(1, 0), (0, 1), (-1, 0), (0, -1)]
    axes.add_patch(Circle((0, 0), radius, fill=False, edgecolor="#777777", **_DOTS))
    axes.add_patch(Polygon(corners, facecolor="#f0f0ec", edgecolor="#333333", linewidth=1.0))


def _zoom(axes: Axes, points: Any, radius: float) -> None:
    """Set square axis limits that contain all decisions and enough of the feasible set and the
    outer ball."""
    low, high = points.min(axis=0), points.max(axis=0)
    low = np.minimum(low, -radius) - 0.06 * radius
    high = np.minimum(np.maximum(high, 0.12 * radius) + 0.06 * radius, 1.06 * radius)
    side = float((high - low).max())
    ticks = np.arange(-8, 9) / 4
    axes.set(xticks=ticks, yticks=ticks, xlim=(low[0], low[0] + side), ylim=(low[1], low[1] + side))


@styled
def sums(data: xarray.Dataset, rule: str = "paper", narrow: bool = False) -> Figure:
    """Draw Fig. 2 or the appendix's figure: clipped violation, signed violation (in two readings)
    and regret against T.

    Lines are means over the sequences and shaded areas their range. An axis is logarithmic if all
    values are positive and differ by more than a factor of 30.
    """
    quantities = [
        entry for entry in _SUMS if entry[0] in data
    ]  # single constraints are summed only where there are several
    figure, panels = new_figure(
        len(quantities), narrow, width=3.3 if len(quantities) == 3 else 2.85
    )
    field = shown(names(data), rule)
    for axes, (quantity, _, symbol) in zip(panels, quantities, strict=True):
        values = (
            data[quantity].sel(contestant=field).transpose("contestant", "seed", "horizon").values
        )
        for name, series in zip(field, values, strict=True):
            curve(axes, data["horizon"].values, series, title_of(data, name), **look(name))
        if values.min() > 0 and values.max() > 30 * values.min():
            axes.set_yscale("log")
            log_axis(axes.yaxis)
        else:
            axes.axhline(0, color="#999999", linewidth=0.7, zorder=1)
        axes.set(xlabel="horizon T (rounds)", ylabel=symbol)
        axes.set_xticks(np.linspace(0, int(data["horizon"].max()), 5))
    label_panels(
        panels, [title for _, title, _ in quantities], "abc" if len(quantities) == 3 else "abbc"
    )
    legend_below(figure, panels, narrow)
    return figure


def shown(present: list[str], rule: str) -> list[str]:
    """Return the contestants of a figure: those of the paper, or both rules and the strongly convex
    variants."""
    if rule == "paper":
        return [
            name
            for name in present
            if not name.startswith(("scaled", "a-ogd-strong", "strong-scaled"))
        ]
    return [
        name for name in present if name.startswith(("clipped", "scaled", "strong", "a-ogd-strong"))
    ]


@styled
def dispatch(data: xarray.Dataset, rule: str = "paper", narrow: bool = False) -> Figure:
    """Draw Fig. 3: demand, violation per round of all learners and of Clipped-OGD alone, and
    running average cost."""
    figure, panels = new_figure(4, narrow, width=2.85, height=2.7)
    ours = [
        name for name in names(data) if name.startswith("clipped" if rule == "paper" else "scaled")
    ]
    shown = [name for name in names(data) if name.startswith(("ogd", "a-ogd"))] + ours
    days, rounds = data["hours"].values / 24, np.arange(1, data.sizes["round"] + 1)
    panels[0].plot(days, data["demand"].values, color="#333333", linewidth=1.2)
    panels[0].set(ylabel="demand d\u209c (scaled)")
    for axes, group in ((panels[1], shown), (panels[2], ours)):
        peak = 0.0
        for name in group:
            violation = np.maximum(data["excess"].sel(contestant=name).values, 0)
            axes.plot(
                days,
                violation,
                label=title_of(data, name),
                **look(name) | {"marker": "", "linewidth": 1.1},
            )
            peak = max(peak, float(violation.max()))
        axes.set(
            ylabel="violation [g(x\u209c)]\u208a",
            ylim=(-0.03 * peak, 1.05 * peak) if peak else (-0.03, 1.05),
        )
        if not peak:
            axes.text(
                0.5, 0.5, "never above 0", transform=axes.transAxes, ha="center", color="#555555"
            )
    for name in shown:
        mean = np.cumsum(data["cost"].sel(contestant=name).values) / rounds
        panels[3].plot(days, mean, label=title_of(data, name), **look(name) | {"marker": ""})
    best = np.cumsum(data["best_cost"].values) / rounds
    panels[3].plot(days, best, "k--", linewidth=1.3, label="best fixed strategy")
    panels[3].set(ylabel="average cost so far", ylim=(0, None))
    for axes in panels:
        axes.set(xlabel="days", xlim=(0, float(days[-1])))
    titles = ["demand", "violation per round", "Clipped-OGD only", "running average cost"]
    label_panels(panels, titles, "abbc")
    legend_below(figure, panels, narrow)
    return figure
