"""Growth with the horizon compared with the theorems: measured values and bounds, fitted and
allowed exponents.

Every function takes the stored dataset of the theory experiment and returns a Figure. Measured
means are solid lines, shaded areas their range over the sequences, and bounds dashed lines of the
same colour; larger beta is darker.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

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


@styled
def clipped(data: xarray.Dataset, narrow: bool = False) -> Figure:
    """Draw Theorem 1 with Propositions 2 and 3 on the toy problem, and Lemma 1 with a smooth
    constraint."""
    figure, panels = new_figure(4, narrow, width=4.6, height=2.7, columns=2)
    toy, smooth = cases(data, "theorem-1-"), cases(data, "lemma-1-")
    for axes, quantity, chosen in zip(
        panels, ("regret", "violation", "squared", "peak"), (toy, toy, toy, smooth), strict=True
    ):
        _growth(axes, data, quantity, chosen, "clipped")
    label_panels(
        panels,
        [
            "regret: Theorem 1",
            "clipped violation: Propositions 2, 3",
            "squared violation: Theorem 1",
            "largest violation of a round: Lemma 1",
        ],
    )
    legend_below(figure, panels, narrow, _key())
    return figure


@styled
def regret(data: xarray.Dataset, narrow: bool = False) -> Figure:
    """Draw the regret of Theorem 1 and Proposition 3 with the paper's step, on random and on
    worst-case losses."""
    figure, panels = new_figure(2, narrow, width=4.6)
    for axes, prefix in zip(panels, ("paper-step-", "worst-case-"), strict=True):
        _growth(axes, data, "regret", cases(data, prefix), "clipped")
    label_panels(panels, ["regret, random losses", "regret, worst-case losses"])
    legend_below(figure, panels, narrow, _key())
    return figure


@styled
def strong(data: xarray.Dataset, narrow: bool = False) -> Figure:
    """Draw regret and violation of Theorem 2, and the largest violation of Proposition 1 with a
    temperature."""
    figure, panels = new_figure(3, narrow, width=3.4)
    second = cases(data, "theorem-2")
    for axes, quantity in zip(panels, ("regret", "violation"), strict=False):
        _growth(axes, data, quantity, second, "strong", log=quantity != "regret")
    _growth(panels[2], data, "peak", cases(data, "proposition-1"), "clipped")
    for case in cases(data, "proposition-1"):
        selected = data.sel(case=case)
        horizon, first = data["horizon"].values, float(selected["peak"].mean("seed")[0])
        guide = first * (horizon / horizon[0]) ** float(selected["theory_peak"])
        text = f"slope {fraction(float(selected['theory_peak']))}"
        panels[2].plot(horizon, guide, ":", color="#555555", linewidth=1.2, label=text)
    label_panels(
        panels, ["regret: Theorem 2", "clipped violation: Theorem 2", "largest violation: Prop. 1"]
    )
    legend_below(figure, panels, narrow, _key())
    return figure


@styled
def baselines(data: xarray.Dataset, narrow: bool = False) -> Figure:
    """Draw Propositions 4 and 5: the earlier methods with the clipped Lagrangian."""
    figure, panels = new_figure(2, narrow, width=4.4)
    _growth(panels[0], data, "violation", cases(data, "proposition-4"), "ogd")
    _growth(panels[1], data, "violation", cases(data, "proposition-5-"), "a-ogd")
    label_panels(panels, ["OGD clipped: Proposition 4", "A-OGD clipped: Proposition 5"])
    legend_below(figure, panels, narrow, _key())
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
            axes.plot(allowed, row, "|", color="black", markersize=11, markeredgewidth=1.8)
        axes.set(xlabel="exponent of T", ylim=(len(rows) - 0.4, -0.6), title=title)
        axes.set_yticks(range(len(rows)), [_name(data, case) for case in rows])
        axes.grid(axis="y", visible=False)
    grey: dict[str, Any] = {"color": "#555555", "marker": "o", "markersize": 5, "linewidth": 2.2}
    key = [
        Line2D([], [], label="measured, with interval", **grey),
        Line2D([], [], label="measured above theory", **grey | {"markerfacecolor": "white"}),
        Line2D(
            [],
            [],
            label="theory: at most",
            color="black",
            marker="|",
            markersize=11,
            markeredgewidth=1.8,
            linestyle="none",
        ),
    ]
    legend_below(figure, [], narrow, key)
    return figure


def _growth(
    axes: Axes,
    data: xarray.Dataset,
    quantity: str,
    chosen: Sequence[str],
    family: str,
    log: bool = True,
) -> None:
    """Plot measured means, ranges and bounds as functions of T. Regret can be negative; then its
    axis is symlog."""
    horizon = data["horizon"].values
    signed = quantity == "regret" and bool((data[quantity].sel(case=list(chosen)) <= 0).any())
    for case, colour in zip(chosen, shades(family, len(chosen)), strict=True):
        selected = data.sel(case=case)
        values = selected[quantity].transpose("seed", "horizon").values
        positive = log and not signed
        curve(
            axes,
            horizon,
            values,
            _short(data, case),
            positive,
            color=colour,
            marker="o",
            markersize=3,
        )
        axes.plot(
            horizon,
            bounds_of(data, quantity).sel(case=case).values,
            color=colour,
            linestyle=BOUND,
            linewidth=1.2,
        )
    axes.set_xscale("log")
    log_axis(axes.xaxis, horizon[:: max(1, len(horizon) // 3)])
    if log:
        axes.set_yscale("symlog", linthresh=10) if signed else axes.set_yscale("log")
        log_axis(axes.yaxis)
    axes.set(xlabel="horizon T (rounds)", ylabel=_SYMBOLS[quantity])
    if signed or (quantity == "regret" and not log):
        axes.axhline(0, color="#999999", linewidth=0.7, zorder=1)


def _key() -> list[Any]:
    from matplotlib.lines import Line2D

    return [
        Line2D(
            [],
            [],
            color="#555555",
            linestyle=BOUND,
            linewidth=1.2,
            label="bound, where it is not trivial",
        )
    ]


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
