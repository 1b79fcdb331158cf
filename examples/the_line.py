"""The line: emissions of a grid against their cap, for three earlier methods and the default.

Three generators serve ten days of California's demand in steps of five minutes. Their set-points
are fixed before the demand is known, and their emissions should never exceed the cap. The earlier
methods go above it; the default lies taut on it.

Run with `python examples/the_line.py [figure.png]`.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np

import taut
from taut.arena.demand import packaged, rescaled
from taut.arena.streams.dispatch import CAP, DAY, Choice, problem
from taut.plots.style import new_figure, styled

ROUNDS = 10 * DAY
METHODS = {
    "a-ogd": ("A-OGD (2016)", "#CC79A7"),
    "ogd": ("OGD (2012)", "#009E73"),
    "clipped-ogd": ("Clipped-OGD (2018)", "#0072B2"),
    "half-space": ("taut's default", "#D55E00"),
}
"""Names of the learners, what the figure calls them, and their colours."""


def play() -> tuple[dict[str, Any], float]:
    """Play all methods; return their runs and the mean cost of the best fixed decision."""
    demand = rescaled(packaged(), Choice().mean_demand)[:ROUNDS]
    game = problem(Choice(domain="box"), float(demand.max()))
    runs = {
        name: taut.simulate(
            taut.learner(name, game, horizon=len(demand)),
            game,
            demand,
            record=("loss", "excess"),
        )
        for name in METHODS
    }
    return runs, float(taut.hindsight(game, demand).loss[0]) / len(demand)


@styled
def figure(runs: dict[str, Any]) -> Any:
    """Draw the emissions of every method over time, with the side that is forbidden shaded."""
    made, (axes,) = new_figure(1, narrow=False, width=7.6, height=3.0)
    days = np.arange(1, len(next(iter(runs.values())).excess[0]) + 1) / DAY
    top = CAP + 1.08 * max(float(run.excess[0].max()) for run in runs.values())
    axes.axhspan(CAP, top, color="#B00020", alpha=0.06, linewidth=0)
    axes.axhline(CAP, color="black", linestyle="--", linewidth=1)
    ends = {name: float(run.excess[0][-1]) + CAP for name, run in runs.items()}
    for height, name in zip(
        _apart(sorted(ends.values())), sorted(ends, key=lambda name: ends[name]), strict=True
    ):
        label, colour = METHODS[name]
        cost, worst = measured(runs[name])
        width = 2.0 if name == "half-space" else 1.0
        axes.plot(days, runs[name].excess[0] + CAP, color=colour, linewidth=width)
        text = f"{label}\ncost {cost:.1f}, worst excess {worst:.2g}"
        weight = "bold" if name == "half-space" else "normal"
        axes.annotate(
            text,
            (days[-1], height),
            (6, 0),
            textcoords="offset points",
            color=colour,
            fontweight=weight,
            va="center",
            annotation_clip=False,
        )
    axes.text(days[0], top, " forbidden", va="top", color="#B00020")
    axes.set(
        title="Earlier methods exceed the emission cap (dashed); taut lies on it",
        xlabel="day",
        ylabel="emissions per step",
        xlim=(0, days[-1]),
        ylim=(70, top),
    )
    return made


def _apart(heights: list[float], gap: float = 9.0) -> list[float]:
    """Move ascending heights of labels up until they are `gap` apart, the lowest as far down."""
    moved = [heights[0] - gap]
    for height in heights[1:]:
        moved.append(max(height, moved[-1] + gap))
    return moved


def measured(run: Any) -> tuple[float, float]:
    """Return mean cost and worst excess over the cap."""
    return float(run.loss[0].mean()), max(float(run.excess[0].max()), 0.0)


def main(path: Path = Path("the_line.png")) -> Any:
    """Play, print cost and worst excess of every method, and draw the figure."""
    runs, best = play()
    for name, run in runs.items():
        cost, worst = measured(run)
        print(f"{name}: mean cost {cost:.1f}, worst excess {worst:.2g}")
    print(f"best fixed decision: mean cost {best:.1f}")
    print(runs["half-space"].certificate())
    figure(runs).savefig(path, dpi=200)
    return runs


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:2]))
