"""The figures behind `plot()` of certificates, rates and comparisons. They return Matplotlib axes
and draw on given ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import arguments
from ..judge.guarantees import setting_of, translated
from ..learners import Learner
from ..learners.guarantee import smallest
from .curves import CUMULATIVE, Curves, looks
from .style import (
    BOUND,
    ENTRIES,
    EXCEEDED,
    HOLDS,
    INK,
    SILENT,
    axes_for,
    curve,
    empty,
    handles_of,
    label_panels,
    legend_below,
    log_axis,
    log_axis_with_zero,
    styled,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from ..judge.certificate import Certificate, Row
    from ..judge.compare import Comparison
    from ..judge.rates import Rates


LEAST = 1e-6
"""Shares of a bound below this are drawn as zero."""
MARKERS = "osD^vPX*h"
GROWTH = "growth of the bound"


@styled
def plot_certificate(
    certificate: Certificate, quantities: Sequence[str] | None, log: bool, ax: Any
) -> Axes:
    """Draw the largest measured value of each quantity as a share of its bound."""
    names = tuple(row.quantity for row in certificate.rows)
    rows = [certificate.rows[names.index(name)] for name in _chosen(quantities, names)]
    (axes,) = axes_for(ax)
    shares = [max(row.ratio, 0.0) for row in rows if row.ratio is not None]
    for place, row in enumerate(reversed(rows)):
        if row.bound is None or row.ratio is None:
            remark = "no bound" if row.worst is None else f"{row.worst:.4g}, no bound"
            place_of: dict[str, Any] = {"transform": axes.get_yaxis_transform(), "va": "center"}
            axes.text(0.02, place, remark, color="#666666", **place_of)
            continue
        share = 0.0 if log and row.ratio < LEAST else max(float(row.ratio), 0.0)
        axes.plot(
            [0, share], [place, place], color=_colour(row), linewidth=5, solid_capstyle="butt"
        )
        text = f"{row.worst:.4g} of {row.bound:.4g}" + (", says nothing" if row.trivial else "")
        axes.annotate(
            text,
            (share, place),
            (4, 0),
            textcoords="offset points",
            va="center",
            fontsize=7.5,
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 1.0},
        )
    axes.axvline(1.0, color=INK, linestyle=BOUND, linewidth=1.2, zorder=1, label="bound")
    finite = [share for share in shares if np.isfinite(share)]
    if log:
        drawn = [share for share in finite if share >= LEAST]
        log_axis_with_zero(axes, axes.xaxis, [np.array([0.01, 1.0, *drawn])])
    axes.set_xlim(0, max([20.0, *(30 * s for s in finite)]) if log else 1.6 * max([1.0, *finite]))
    axes.set_yticks(range(len(rows)), [row.quantity for row in reversed(rows)])
    axes.set_ylim(-0.6, max(len(rows), 1) - 0.4)
    axes.set(
        xlabel="largest measured value / bound",
        title=f"{certificate.outcome}: measured values and their bounds (dashed)",
    )
    axes.grid(visible=False, axis="y")
    if not rows:
        empty(axes, "nothing was measured")
    return axes


def _colour(row: Row) -> str:
    return EXCEEDED if row.holds is False else SILENT if row.trivial else HOLDS


def _chosen(quantities: Sequence[str] | None, known: tuple[str, ...]) -> list[str]:
    """Return the quantities that are drawn: those that are asked for, or all."""
    if quantities is None:
        return list(known)
    listed = [quantities] if isinstance(quantities, str) else list(quantities)
    return [arguments.one_of("quantities", name, known) for name in listed]


@styled
def plot_rates(rates: Rates, quantities: Sequence[str] | None, log: bool, ax: Any) -> Axes:
    """Draw measured values over the horizons, with the growth that theory allows dashed."""
    names = tuple(rate.quantity for rate in rates.rates)
    (axes,) = axes_for(ax)
    horizons = np.asarray(rates.horizons, float)
    left_out = []
    for name in _chosen(quantities, names):
        rate, values = rates[name], np.atleast_2d(rates.values[name])
        if np.isnan(rate.exponent):
            left_out.append(name)
            continue
        k = names.index(name)
        style: dict[str, Any] = {
            "color": ENTRIES[k % len(ENTRIES)],
            "marker": MARKERS[k % len(MARKERS)],
        }
        curve(axes, horizons, values, f"{name}: T^{rate.exponent:.2f}", **style)
        if rate.theory is not None and np.isfinite(rate.theory):
            allowed = values.mean(axis=0)[0] * (horizons / horizons[0]) ** rate.theory
            dashes: dict[str, Any] = {"linestyle": BOUND, "linewidth": 1.0}
            axes.plot(horizons, allowed, color=style["color"], label=GROWTH, **dashes)
    axes.set(xlabel="horizon T", ylabel="value at the horizon")
    axes.set_title("Measured growth, and what theory allows (dashed)")
    if log:
        axes.set(xscale="log", yscale="log")
        log_axis(axes.xaxis, rates.horizons if len(rates.horizons) < 7 else None)
    handles = handles_of([axes])
    if handles:
        axes.legend(list(handles.values()), list(handles), fontsize=7)
    if left_out and not handles:
        empty(axes, f"{', '.join(left_out)}: not positive, so there is no growth to measure")
    return axes


@styled
def plot_comparison(
    comparison: Comparison,
    quantities: Sequence[str] | None,
    log: bool | None,
    ax: Any,
    certificates: bool,
) -> Any:
    """Draw what `Comparison.plot` describes."""
    from ..judge.regret_curve import cumulative_regret

    runs = dict(comparison.runs)
    known = comparison.best is not None and all(run.problem is not None for run in runs.values())
    usual = ("regret" if known else "loss", "violation", "excess")
    chosen = _chosen(quantities, CUMULATIVE) if quantities is not None else list(usual)
    panels = axes_for(ax, len(chosen))
    missing = {}
    if not known:
        why = comparison.notes[0] if comparison.notes else "there is no best fixed decision"
        missing["regret"] = f"no regret: {why}"
    regrets = None
    if known and "regret" in chosen:
        regrets = {label: cumulative_regret(run, comparison.best) for label, run in runs.items()}
    shown = Curves(runs, regrets, _limits(comparison, certificates), log, missing)
    for axes, name in zip(panels, chosen, strict=True):
        shown.draw(axes, name, looks(runs))
    label_panels(panels, [shown.title(name) for name in chosen])
    if ax is None:
        legend_below(panels[0].figure, panels, narrow=False)  # type: ignore[arg-type]
    return np.array(panels, dtype=object)


def _limits(comparison: Comparison, certificates: bool) -> dict[str, dict[str, float | None]]:
    """Return the bounds of all learners, as they stand or as certificates have checked them."""
    limits: dict[str, dict[str, float | None]] = {}
    for label, run in comparison.runs.items():
        if certificates:
            rows = comparison.certificate(label).rows
            limits[label] = {row.quantity: row.bound for row in rows if not row.expected}
        elif run.problem is not None and run.problem.previous:
            continue  # bounds for such problems rest on what only a certificate checks
        elif (
            run.played is not None and run.problem is not None and isinstance(run.learner, Learner)
        ):
            promised = run.learner.guarantees(setting_of(run.played, run.first), run.horizon)
            count = run.totals.excess.shape[-1]
            guarantees = smallest(translated(promised, run.played, run.problem, run.horizon, count))
            limits[label] = {g.quantity: g.bound for g in guarantees.values() if not g.expected}
    return limits
