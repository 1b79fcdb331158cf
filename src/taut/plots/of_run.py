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
    """Cumulative loss (or regret), clipped violation and excess of one run or several over the
    rounds. With several constraints the third panel shows the largest excess of each round, summed.

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
        label: {row.quantity: row.bound for row in one.rows if not row.expected}
        for label, one in promised.items()
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
    """Draw loss (or regret, if it is given by label), clipped violation and excess of several runs
    into three panels.

    `limits` has bounds by label and quantity. They are dashed, or written into the panel if they
    are far above the curves of all runs. A panel shows only bounds on the quantity that it is
    called after.
    """
    quantities = (
        _regret(runs) if regrets is not None else "loss",
        "violation",
        "excess" if all(_single(run) for run in runs.values()) else "largest excess",
    )
    bounds: list[list[tuple[float, str]]] = [[], [], []]
    reach = [0.0, 0.0, 0.0]
    for (label, run), style in zip(runs.items(), _styles(list(runs.values())), strict=True):
        kept = np.unique(np.linspace(1, run.horizon, min(POINTS, run.horizon)).astype(int))
        excess = _recorded(run, "excess")
        total = np.cumsum(_recorded(run, "loss"), axis=-1) if regrets is None else regrets[label]
        series = (total, np.cumsum(np.maximum(excess, 0), axis=-1), np.cumsum(excess, axis=-1))
        for k, (axes, values) in enumerate(zip(panels, series, strict=True)):
            name = label or type(run.learner).__name__
            curve(axes, kept, values[:, kept - 1], name, **style)
            reach[k] = max(reach[k], float(np.max(np.abs(values))))
            bound = limits.get(label, {}).get(quantities[k])
            if bound is not None:
                bounds[k].append((float(bound), style["color"]))
    difference = " \u2212 \u03a3\u209c f\u209c(x*)" if regrets is not None else ""
    symbols = (
        f"\u03a3\u209c f\u209c(x\u209c){difference}",
        "\u03a3\u209c [g(x\u209c)]\u208a",
        "\u03a3\u209c g(x\u209c)"
        if quantities[2] == "excess"
        else "\u03a3\u209c max\u1d62 g\u1d62(x\u209c)",
    )
    for k, (axes, symbol) in enumerate(zip(panels, symbols, strict=True)):
        axes.set(xlabel="round t", ylabel=symbol)
        axes.axhline(0, color="#999999", linewidth=0.7, zorder=1)
        _draw_bounds(axes, bounds[k], (2 if len(runs) > 1 else 4) * reach[k])
    label_panels(panels, [quantities[0], "clipped violation", quantities[2]])


def _regret(runs: Mapping[str, Run]) -> str:
    """Which regret is drawn: it is policy regret if the problem depends on the previous
    decision."""
    remembers = any(run.problem is not None and run.problem.previous for run in runs.values())
    return "policy regret" if remembers else "regret"


def _single(run: Run) -> bool:
    """Return whether there is one constraint. Otherwise a run does not record the constraint whose
    sum is largest, and the sum of the largest value of each round is another number."""
    return run.totals.excess.shape[-1] == 1


def _draw_bounds(axes: Axes, bounds: list[tuple[float, str]], highest: float) -> None:
    """Draw the bounds up to `highest` as dashed lines, and write down those that are off the top of
    the axis when all is drawn."""
    low, top = axes.get_ylim()
    written = sorted(bounds)
    while True:
        lines = min(len(written), WRITTEN)  # each takes 8 % of the height, below 95 % of it
        room = 1 / (0.93 - 0.08 * lines) - 1 if lines else 0.0
        end = top + room * (top - low)
        inside = [one for one in written if one[0] <= max(highest, end)]
        if not inside:
            break
        for bound, colour in inside:
            written.remove((bound, colour))
            axes.axhline(
                bound, color=colour, linestyle=BOUND, linewidth=1.2, label="bound at the last round"
            )
        low, top = axes.get_ylim()
    axes.set_ylim(low, end)
    for place, (bound, colour) in enumerate(written[:WRITTEN]):
        where = (0.03, 0.95 - 0.08 * place)
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


def _styles(runs: list[Run]) -> list[dict[str, Any]]:
    """Return colour, dashes and marker of each run. No two of the first 32 have the same colour and
    the same marker.

    The first of a family has the family's colour, the others what is left of the palette. Where the
    palette is used again, lines have other markers.
    """
    dashes: list[Any] = ["-", (0, (4.5, 1.4)), (0, (1.2, 1.2)), (0, (5, 1.2, 1, 1.2))]
    markers = [None, "o", "s", "^"]
    palette = list(FAMILIES.values())
    left: list[str] = []
    found = []
    for i, run in enumerate(runs):
        again = i // len(palette)
        left = left or list(palette)
        wanted = FAMILIES[_KINDS.get(type(run.learner).__name__, "other")]
        colour = wanted if wanted in left else left[0]
        left.remove(colour)
        style = {
            "color": colour,
            "linestyle": dashes[i % len(dashes)],
            "marker": markers[again % len(markers)],
        }
        found.append(style | ({"markevery": 0.12} if again else {}))
    return found
