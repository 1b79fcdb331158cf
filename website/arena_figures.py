"""The performance profile of the arena, as README shows it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from taut.plots.families import family_of
from taut.plots.style import new_figure, styled

__all__ = ["draw", "profiles"]

TAUS = 10.0 ** np.linspace(0, 3, 61)
"""The factors of the profile."""
FACTOR = 10.0
"""The factor that the title speaks of."""
NAMES = {
    "half-space": "half-space (default)",
    "clipped-ogd": "Clipped-OGD (2018)",
    "ogd": "OGD (2012)",
    "surrogate": "surrogate (2024)",
    "recoo": "RECOO (2022)",
    "drift-plus-penalty": "drift plus penalty (2017)",
}
"""The learners that are shown: the default, and the best-known method of each paper that the first
board has. Others are on the page of the arena."""


def profiles(results: Path) -> dict[str, Any]:
    """Return, for every learner that is shown, the share of streams on which the sum of regret and
    violation, each in its unit, is within each factor of the smallest of all learners."""
    from taut.arena import results as stored
    from taut.arena import statistics
    from taut.arena.report.tables import groups
    from taut.arena.score import boards_of, field_of

    title, group = groups(boards_of(stored.read_all(results)))[0]
    field = field_of(group)
    means = [
        np.stack([values[:, s, :count].mean(axis=1) for s, count in enumerate(field.seeds)], axis=1)
        for values in (field.regret, field.violation)
    ]
    factors = statistics.ratios(means[0] + means[1])
    curves = statistics.profile(factors, statistics.weights_of(field.families), TAUS)
    by_name = dict(zip(field.names, curves, strict=True))
    return {
        "board": title,
        "streams": len(group),
        "families": len(set(field.families)),
        "seeds": max(field.seeds),
        "rounds": max(one.horizon for one in group),
        "taus": [round(float(tau), 4) for tau in TAUS],
        "profiles": {
            name: [round(float(share), 4) for share in by_name[name]]
            for name in NAMES
            if name in by_name
        },
    }


@styled
def draw(data: dict[str, Any], narrow: bool) -> Any:
    """Draw the profiles, each named at its end."""
    from matplotlib.ticker import PercentFormatter

    figure, (axes,) = new_figure(1, False, 3.7 if narrow else 7.6, 3.6 if narrow else 2.7)
    taus = np.asarray(data["taus"])
    ordered = sorted(data["profiles"], key=lambda name: sum(data["profiles"][name]))
    for place, name in enumerate(ordered):
        family, bold = family_of(name), name == "half-space"
        axes.plot(
            taus,
            data["profiles"][name],
            color=family.colour,
            linestyle=":" if name == "recoo" else "-",
            linewidth=2.2 if bold else 1.2,
            marker=family.marker,
            markevery=(2 * place, 12),
            zorder=4 if bold else 3,
            label=NAMES[name],
        )
    axes.set_xscale("log")
    axes.set(
        xlim=(taus[0], taus[-1]),
        ylim=(0, 1.02),
        xlabel="regret + violation, as a multiple of the smallest",
        ylabel="share of streams",
        title=_title(data, narrow),
    )
    axes.yaxis.set_major_formatter(PercentFormatter(1.0))
    figure.legend(
        loc="outside lower center" if narrow else "outside right center",
        ncols=2 if narrow else 1,
        reverse=True,
    )
    return figure


def _title(data: dict[str, Any], narrow: bool) -> str:
    at = int(np.argmin(np.abs(np.asarray(data["taus"]) - FACTOR)))
    ours, theirs = (data["profiles"][name][at] for name in ("half-space", "clipped-ogd"))
    if narrow:
        return (
            f"Share of streams with at most {FACTOR:g} times the best:\n"
            f"the default {100 * ours:.0f} %, Clipped-OGD {100 * theirs:.0f} %"
        )
    return (
        f"At most {FACTOR:g} times the best: the default on {100 * ours:.0f} % of the streams, "
        f"Clipped-OGD on {100 * theirs:.0f} %"
    )
