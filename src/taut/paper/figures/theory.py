"""Growth with the horizon compared with the theorems: measured values and bounds, fitted and
allowed exponents.

Every function takes the stored dataset of the theory experiment and returns a Figure. Measured
means are solid lines, shaded areas their range over the sequences, and bounds dashed lines of the
same colour; larger beta is darker.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ...plots.style import (
    BOUND,
    curve,
    label_panels,
    legend_below,
    log_axis,
    new_figure,
    styled,
)
from ..datasets import bounds_of, cases
from .style import CONTESTANTS, fraction, shades

if TYPE_CHECKING:
    import xarray
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


_QUANTITIES = {
    "regret": "regret",
    "violation": "clipped violation",
    "squared": "squared violation",
    "peak": "largest violation",
}
_SYMBOLS = {
    "regret": "\u03a3\u209c f\u209c(x\u209c) \u2212 \u03a3\u209c f\u209c(x*)",
    "violation": "\u03a3\u209c [g(x\u209c)]\u208a",
    "squared": "\u03a3\u209c [g(x\u209c)]\u208a\u00b2",
    "peak": "max\u209c [g(x\u209c)]\u208a",
}
_FAMILY = {
    "theorem-1": "clipped",
    "paper-step": "clipped",
    "worst-case": "clipped",
    "lemma-1": "clipped",
    "proposition-1": "clipped",
    "theorem-2": "strong",
    "proposition-4": "ogd",
    "proposition-5": "a-ogd",
    "clipped-worst": "ogd",
    "squares-4": "ogd",
    "squares-5": "a-ogd",
}
_VARIANTS = {
    "paper-step": ", paper's step",
    "worst-case": ", worst case",
    "clipped-worst": ", worst case",
}


class Panel(NamedTuple):
    """The growth of a quantity in all cases whose names begin with a prefix."""

    title: str
    quantity: str
    prefix: str
    family: str = "clipped"
    log: bool = True
    """Whether the vertical axis is logarithmic."""
    slope: bool = False
    """Whether a dotted line shows the exponent that theory allows."""


CLIPPED = (
    Panel("regret: Theorem 1", "regret", "theorem-1-"),
    Panel("clipped violation: Propositions 2, 3", "violation", "theorem-1-"),
    Panel("squared violation: Theorem 1", "squared", "theorem-1-"),
    Panel("largest violation of a round: Lemma 1", "peak", "lemma-1-"),
)
REGRET = (
    Panel("regret, random losses", "regret", "paper-step-"),
    Panel("regret, worst-case losses", "regret", "worst-case-"),
)
STRONG = (
    Panel("regret: Theorem 2", "regret", "theorem-2", "strong", log=False),
    Panel("clipped violation: Theorem 2", "violation", "theorem-2", "strong"),
    Panel("largest violation: Prop. 1", "peak", "proposition-1", slope=True),
)
BASELINES = (
    Panel("OGD clipped: Proposition 4", "violation", "proposition-4", "ogd"),
    Panel("A-OGD clipped: Proposition 5", "violation", "proposition-5-", "a-ogd"),
)


@styled
def growth(
    data: xarray.Dataset, panels: Sequence[Panel], narrow: bool = False, **size: Any
) -> Figure:
    """Draw one panel per quantity; `size` is that of a panel, as in `new_figure`."""
    from matplotlib.lines import Line2D

    figure, places = new_figure(len(panels), narrow, **size)
    for axes, panel in zip(places, panels, strict=True):
        _growth(axes, data, panel)
    label_panels(places, [panel.title for panel in panels])
    dashed: dict[str, Any] = {"color": "#555555", "linestyle": BOUND, "linewidth": 1.2}
    key = Line2D([], [], label="bound, where it is not trivial", **dashed)
    legend_below(figure, places, narrow, [key])
    return figure


@styled
def exponents(data: xarray.Dataset, narrow: bool = False) -> Figure:
    """Draw the measured growth exponents with their confidence intervals and the exponents that
    theory allows."""
    from matplotlib.lines import Line2D

    order = [case for prefix in _FAMILY for case in cases(data, prefix) if _prefix(case) == prefix]
    known = {q: np.isfinite(data[f"measured_{q}"].sel(case=order).values) for q in _QUANTITIES}
    heights = [max(4, int(ok.sum())) for ok in known.values()] if narrow else None
    figure, panels = new_figure(
        4, narrow, width=2.6, height=6.4, sharey=not narrow, height_ratios=heights
    )
    tick: dict[str, Any] = {"color": "black", "marker": "|", "markersize": 11}
    tick |= {"markeredgewidth": 1.8, "linestyle": "none"}
    for axes, (quantity, title) in zip(panels, _QUANTITIES.items(), strict=True):
        rows = [case for case, ok in zip(order, known[quantity], strict=True) if ok or not narrow]
        for row, case in enumerate(rows):
            selected = data.sel(case=case)
            middle, low, high, allowed = (
                float(selected[f"{p}_{quantity}"]) for p in ("measured", "low", "high", "theory")
            )
            if not np.isfinite(middle):
                continue
            colour = CONTESTANTS[_FAMILY[_prefix(case)]]
            axes.plot([low, high], [row, row], color=colour, linewidth=2.2)
            face = colour if middle <= allowed + 0.02 else "white"
            axes.plot(middle, row, "o", color=colour, markerfacecolor=face, markersize=5)
            axes.plot(allowed, row, **tick)
        axes.set(xlabel="exponent of T", ylim=(len(rows) - 0.4, -0.6), title=title)
        axes.set_yticks(range(len(rows)), [_name(data, case) for case in rows])
        axes.grid(axis="y", visible=False)
    grey: dict[str, Any] = {"color": "#555555", "marker": "o", "markersize": 5, "linewidth": 2.2}
    key = [
        Line2D([], [], label="measured, with interval", **grey),
        Line2D([], [], label="measured above theory", **grey | {"markerfacecolor": "white"}),
        Line2D([], [], label="theory: at most", **tick),
    ]
    legend_below(figure, [], narrow, key)
    return figure


def _growth(axes: Axes, data: xarray.Dataset, panel: Panel) -> None:
    """Plot measured means, ranges and bounds as functions of T. Regret can be negative; then its
    axis is symlog."""
    horizon, quantity, chosen = data["horizon"].values, panel.quantity, cases(data, panel.prefix)
    signed = quantity == "regret" and bool((data[quantity].sel(case=chosen) <= 0).any())
    points: dict[str, Any] = {"marker": "o", "markersize": 3}
    dashed: dict[str, Any] = {"linestyle": BOUND, "linewidth": 1.2}
    for case, colour in zip(chosen, shades(panel.family, len(chosen)), strict=True):
        values = data[quantity].sel(case=case).transpose("seed", "horizon").values
        positive = panel.log and not signed
        curve(axes, horizon, values, _short(data, case), positive, color=colour, **points)
        axes.plot(horizon, bounds_of(data, quantity).sel(case=case), color=colour, **dashed)
        if panel.slope:
            exponent = float(data[f"theory_{quantity}"].sel(case=case))
            guide = values.mean(axis=0)[0] * (horizon / horizon[0]) ** exponent
            text = f"slope {fraction(exponent)}"
            axes.plot(horizon, guide, ":", color="#555555", linewidth=1.2, label=text)
    axes.set_xscale("log")
    log_axis(axes.xaxis, horizon[:: max(1, len(horizon) // 3)])
    if panel.log:
        axes.set_yscale("symlog", linthresh=10) if signed else axes.set_yscale("log")
        log_axis(axes.yaxis)
    axes.set(xlabel="horizon T (rounds)", ylabel=_SYMBOLS[quantity])
    if signed or (quantity == "regret" and not panel.log):
        axes.axhline(0, color="#999999", linewidth=0.7, zorder=1)


def _prefix(case: str) -> str:
    return "-".join(case.split("-")[:2])


def _short(data: xarray.Dataset, case: str) -> str:
    """Return the legend text of a case: its beta if the panel shows several, otherwise its
    label."""
    grid = _prefix(case) in ("theorem-1", "paper-step", "worst-case", "lemma-1", "proposition-5")
    return (
        f"\u03b2 = {fraction(float(data['beta'].sel(case=case)))}"
        if grid
        else str(data["label"].sel(case=case).item())
    )


def _name(data: xarray.Dataset, case: str) -> str:
    """Return the label of a row: the result, and beta or the variant."""
    result = str(data["result"].sel(case=case).item()).split(",")[0]
    beta = float(data["beta"].sel(case=case))
    if np.isfinite(beta):
        return f"{result}{_VARIANTS.get(_prefix(case), '')}, \u03b2 = {fraction(beta)}"
    return result + (", inside" if case.endswith("inside") else _VARIANTS.get(_prefix(case), ""))
