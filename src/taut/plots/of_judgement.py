"""The figures behind `plot()` of certificates, rates and comparisons. They return Matplotlib axes
and draw on given ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .. import arguments
from ..judge.guarantees import setting_of, translated
from ..learners import Learner
from ..learners.base import smallest
from .of_run import draw_runs
from .style import BOUND, FAMILIES, axes_for, curve, legend_below, log_axis, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from ..judge.certificate import Certificate
    from ..judge.compare import Comparison
    from ..judge.rates import Rates

__all__ = ["plot_certificate", "plot_comparison", "plot_rates"]

LEAST = 1e-6
"""Shares of a bound below this are drawn at the left edge."""


@styled
def plot_certificate(certificate: Certificate, ax: Any) -> Axes:
    """Draw the largest measured value of each quantity as a share of its bound, on a logarithmic
    axis."""
    (axes,) = axes_for(ax)
    rows = certificate.rows
    shares = [row.ratio for row in rows if row.ratio is not None and np.isfinite(row.ratio)]
    left = max(LEAST, min([0.01, *(share / 3 for share in shares if share > 0)]))
    for place, row in enumerate(reversed(rows)):
        if row.bound is None or row.ratio is None:
            said = "no bound" if row.worst is None else f"{row.worst:.4g}, no bound"
            axes.text(
                0.02,
                place,
                said,
                transform=axes.get_yaxis_transform(),
                va="center",
                color="#666666",
            )
            continue
        colour = (
            FAMILIES["ogd"]
            if row.holds is False
            else "#999999"
            if row.trivial
            else FAMILIES["strong"]
        )
        share = float(np.clip(row.ratio, LEAST, None))
        axes.plot([LEAST, share], [place, place], color=colour, linewidth=5, solid_capstyle="butt")
        text = f"{row.worst:.4g} of {row.bound:.4g}" + (", trivial" if row.trivial else "")
        axes.annotate(
            text,
            (max(share, left), place),
            (4, 0),
            textcoords="offset points",
            va="center",
            fontsize=7.5,
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 1.0},
        )
    axes.axvline(1.0, color="#222222", linestyle=BOUND, linewidth=1.2, zorder=1)
    axes.set_xscale("log")
    axes.set_xlim(left, max([20.0, *(30 * s for s in shares)]))
    axes.set_yticks(range(len(rows)), [row.quantity for row in reversed(rows)])
    axes.set_ylim(-0.6, len(rows) - 0.4)
    axes.set(xlabel="largest measured value / bound", title=certificate.outcome)
    axes.grid(visible=False, axis="y")
    return axes


@styled
def plot_rates(rates: Rates, quantity: str | None, ax: Any) -> Axes:
    """Draw measured values over the horizons on logarithmic axes, with the growth that theory
    allows dashed."""
    names = [rate.quantity for rate in rates.rates]
    wanted = names if quantity is None else [arguments.one_of("quantity", quantity, tuple(names))]
    (axes,) = axes_for(ax)
    horizons = np.asarray(rates.horizons, float)
    colours = dict(zip(names, FAMILIES.values(), strict=False))
    for name in wanted:
        rate, values = rates[name], np.atleast_2d(rates.values[name])
        if np.isnan(rate.exponent):
            continue
        curve(
            axes,
            horizons,
            values,
            f"{name}: T^{rate.exponent:.2f}",
            color=colours[name],
            marker="o",
        )
        if rate.theory is not None and np.isfinite(rate.theory):
            allowed = values.mean(axis=0)[0] * (horizons / horizons[0]) ** rate.theory
            axes.plot(horizons, allowed, color=colours[name], linestyle=BOUND, linewidth=1.0)
    axes.set(xscale="log", yscale="log", xlabel="horizon T", ylabel="value at the horizon")
    if any(rates[name].theory is not None for name in wanted):
        axes.set_title("dashed: growth of the bound")
    log_axis(axes.xaxis, rates.horizons if len(rates.horizons) < 7 else None)
    if axes.get_legend_handles_labels()[0]:
        axes.legend()
    return axes


@styled
def plot_comparison(comparison: Comparison, ax: Any, certificates: bool) -> Any:
    """Draw what `Comparison.plot` describes."""
    from ..judge.regret_curve import cumulative_regret

    panels = axes_for(ax, 3)
    runs, limits = dict(comparison.runs), {}
    for label, run in runs.items():
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
            found = smallest(translated(promised, run.played, run.problem, run.horizon, count))
            limits[label] = {one.quantity: one.bound for one in found.values() if not one.expected}
    regrets = None
    if comparison.best is not None and all(run.problem is not None for run in runs.values()):
        regrets = {label: cumulative_regret(run, comparison.best) for label, run in runs.items()}
    draw_runs(panels, runs, limits, regrets)
    if ax is None:
        legend_below(panels[0].figure, panels, narrow=False)  # type: ignore[arg-type]
    return np.array(panels, dtype=object)
