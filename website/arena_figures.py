"""The performance profile of the arena, as README shows it."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np

from taut.plots.families import family_of
from taut.plots.style import new_figure, styled

__all__ = ["draw", "profiles"]

FARTHEST = 1000.0
"""The largest factor that is drawn."""
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


def profiles(board: Path) -> dict[str, Any]:
    """Return, for every learner that is shown, the share of streams on which the sum of regret and
    violation, each in its unit, is within each factor of the smallest of all learners.

    Arguments:
        board: the file with all numbers of the arena's page, which `taut arena report --docs`
            writes.
    """
    data = json.loads(gzip.decompress(board.read_bytes()))
    view = data["groups"][0]["views"]["longest"]
    taus = [tau for tau in data["taus"] if tau <= FARTHEST]
    return {
        "board": data["groups"][0]["title"],
        "streams": len(view["streams"]),
        "taus": taus,
        "profiles": {
            name: view["profiles"]["sum"][name][: len(taus)]
            for name in NAMES
            if name in view["profiles"]["sum"]
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
            markevery=(place, 7),
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
    axes.set_xticks([1, 10, 100, 1000], ["1", "10", "100", "1,000"])
    axes.yaxis.set_major_formatter(PercentFormatter(1.0))
    figure.legend(
        loc="outside lower center" if narrow else "outside right center",
        ncols=2 if narrow else 1,
        reverse=True,
    )
    return figure


def _title(data: dict[str, Any], narrow: bool) -> str:
    at = int(np.argmin(np.abs(np.log(data["taus"]) - np.log(FACTOR))))
    ours, theirs = (data["profiles"][name][at] for name in ("half-space", "clipped-ogd"))
    if narrow:
        return (
            f"Streams with at most {FACTOR:g} times the best:\n"
            f"the default {100 * ours:.0f} %, Clipped-OGD {100 * theirs:.0f} %"
        )
    return (
        f"At most {FACTOR:g} times the best: the default on {100 * ours:.0f} % of the streams, "
        f"Clipped-OGD on {100 * theirs:.0f} %"
    )
