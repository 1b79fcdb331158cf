"""A figure for any run: what it lost, how it violated, and what its certificate promises."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import arguments
from ..engine import Array
from ..runs.run import Run
from .style import BOUND, FAMILIES, curve, label_panels, legend_below, new_figure, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from ..judge.certificate import Certificate

__all__ = ["draw_runs", "run_figure"]

POINTS = 400
WRITTEN = 5
"""Bounds that are written into a panel at most."""
_KINDS = {"ClippedOGD": "clipped", "SaddlePoint": "ogd"}


@styled
def run_figure(
    runs: Run | Mapping[str, Run],
    certificates: Certificate | Mapping[str, Certificate] | None = None,
    *,
    best: Any = None,
    narrow: bool = False,
) -> Figure:
    """Cumulative loss (or regret), clipped violation and signed excess of one run or several over
    the rounds.

    Means over the seeds, their range shaded. With a certificate, its bounds are dashed at the level
    that holds at the last round; a bound far beyond what was measured is written into the panel
    instead of flattening the curves.

    Arguments:
        runs: a run, or label -> run; each must have recorded "loss" and "excess", as `simulate`
            does by default.
        certificates: of the run, or label -> certificate for some of the runs.
        best: loss of the best fixed decision up to every round, (seed, round) or (round,); turns
            loss into regret.
        narrow: panels one below the other.

    `run_figure(run, run.certificate())` is the usual call; `.savefig("run.png")` writes what it
    returns.
    """
    shown = runs if isinstance(runs, Mapping) else {"": runs}
    promised = (
        certificates
        if isinstance(certificates, Mapping)
        else {"": certificates}
        if certificates
        else {}
    )
    for label in promised:
        arguments.one_of("certificates", label, tuple(shown))
    figure, panels = new_figure(3, narrow)
    regrets = None
    if best is not None:
        best = np.asarray(best, float)
        regrets = {
            label: np.cumsum(_recorded(run, "loss"), axis=-1) - best for label, run in shown.items()
        }
    limits = {
        label: {row.quantity: row.bound for row in one.rows} for label, one in promised.items()
    }
    draw_runs(panels, shown, limits, regrets)
    legend_below(figure, panels, narrow)
    return figure


def draw_runs(
    panels: Sequence[Axes],
    runs: Mapping[str, Run],
    limits: Mapping[str, Mapping[str, float | None]],
    regrets: Mapping[str, Array] | None,
) -> None:
    """Draw loss (or regret, if it is given by label), clipped and signed violation of several runs
    into three panels.

    `limits` has bounds by label and quantity. They are dashed, or written into the panel if they
    are far above the curves.
    """
    for (label, run), (colour, line) in zip(
        runs.items(), _colours(list(runs.values())), strict=True
    ):
        kept = np.unique(np.linspace(1, run.horizon, min(POINTS, run.horizon)).astype(int))
        excess = _recorded(run, "excess")
        total = np.cumsum(_recorded(run, "loss"), axis=-1) if regrets is None else regrets[label]
        series = (total, np.cumsum(np.maximum(excess, 0), axis=-1), np.cumsum(excess, axis=-1))
        bounds = limits.get(label, {})
        wanted = (
            bounds.get("regret") if regrets is not None else None,
            bounds.get("violation"),
            bounds.get("excess"),
        )
        for axes, values, bound in zip(panels, series, wanted, strict=True):
            curve(
                axes,
                kept,
                values[:, kept - 1],
                label or type(run.learner).__name__,
                color=colour,
                linestyle=line,
            )
            if bound is not None:
                _bound(axes, float(bound), float(np.max(np.abs(values))), colour, len(runs) > 1)
    symbols = (
        "\u03a3\u209c f\u209c(x\u209c)"
        + (" \u2212 \u03a3\u209c f\u209c(x*)" if regrets is not None else ""),
        "\u03a3\u209c [g(x\u209c)]\u208a",
        "\u03a3\u209c g(x\u209c)",
    )
    for axes, symbol in zip(panels, symbols, strict=True):
        axes.set(xlabel="round t", ylabel=symbol)
        axes.axhline(0, color="#999999", linewidth=0.7, zorder=1)
        if len(runs) > 1 and axes.texts:  # room for what is written above the curves
            low, high = axes.get_ylim()
            axes.set_ylim(low, high + (0.04 + 0.1 * len(axes.texts)) * (high - low))
    label_panels(
        panels, ["loss" if regrets is None else "regret", "clipped violation", "signed violation"]
    )


def _bound(axes: Axes, bound: float, reach: float, colour: Any, several: bool) -> None:
    """Draw a bound as a dashed line; write it down if it is far above what was measured."""
    drawn = max([reach, *(abs(limit) for limit in axes.get_ylim())]) if several else reach
    if bound <= 4 * drawn and not (several and bound > 2 * drawn):
        axes.axhline(
            bound, color=colour, linestyle=BOUND, linewidth=1.2, label="bound at the last round"
        )
        return
    count = len(axes.texts)
    if count < WRITTEN:
        where = (0.03, 0.95 - 0.08 * count)
        text = f"bound {bound:.3g}, off the top"
        axes.text(*where, text, transform=axes.transAxes, va="top", color=colour, fontsize=7.5)


def _recorded(run: Run, name: str) -> Array:
    if run.swept:
        raise TypeError(
            "runs: got a sweep of learners; expected one run, run[i], or several by label"
        )
    value: Array | None = getattr(run, name)
    if value is None:
        raise ValueError(
            f'runs: got a run without "{name}"; expected simulate(..., record=("loss", "excess"))'
        )
    return value


def _colours(runs: list[Run]) -> list[tuple[str, Any]]:
    """The family's colour for the first of a family, then what is left of the palette; lines differ
    too."""
    lines: list[Any] = ["-", (0, (4.5, 1.4)), (0, (1.2, 1.2)), (0, (5, 1.2, 1, 1.2))]
    left = list(FAMILIES.values())
    found = []
    for i, run in enumerate(runs):
        wanted = FAMILIES[_KINDS.get(type(run.learner).__name__, "other")]
        colour = wanted if wanted in left else (left or list(FAMILIES.values()))[0]
        if colour in left:
            left.remove(colour)
        found.append((colour, lines[i % len(lines)]))
    return found
