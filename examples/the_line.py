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

import matplotlib as mpl
import numpy as np

import taut
from taut.arena.demand import packaged, rescaled
from taut.arena.streams.dispatch import CAP, DAY, Choice, problem
from taut.plots.families import family_of
from taut.plots.style import new_figure, shade, styled

ROUNDS = 10 * DAY
EVERY = 3
"""Of so many rounds one is drawn, which is a quarter of an hour."""
METHODS = {
    "a-ogd": ("A-OGD (2016)", ":"),
    "ogd": ("OGD (2012)", "-"),
    "clipped-ogd": ("Clipped-OGD (2018)", "-"),
    "half-space": ("taut's default", "-"),
}
"""Names of the learners, what the figure calls them, and their dashes."""


def demand_and_game() -> tuple[Any, taut.Problem]:
    """Return the demand of all rounds, and the problem."""
    demand = rescaled(packaged(), Choice().mean_demand)[:ROUNDS]
    return demand, problem(Choice(domain="box"), float(demand.max()))


def play() -> tuple[dict[str, Any], float]:
    """Play all methods; return their runs and the mean cost of the best fixed decision."""
    demand, game = demand_and_game()
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


def summary(runs: dict[str, Any], best: float) -> dict[str, Any]:
    """Return what the figure shows: cost and worst excess of every method, and its emissions."""
    return {
        "cap": CAP,
        "best cost": round(best, 3),
        "rounds per day": DAY,
        "every": EVERY,
        "methods": {
            name: {
                "cost": round(float(run.loss[0].mean()), 3),
                "worst excess": float(f"{max(float(run.excess[0].max()), 0.0):.3g}"),
                "emissions": [round(float(v) + CAP, 2) for v in run.excess[0][EVERY - 1 :: EVERY]],
            }
            for name, run in runs.items()
        },
    }


@styled
def figure(data: dict[str, Any], narrow: bool = False) -> Any:
    """Draw the emissions of every method over time, with the side that is forbidden shaded."""
    width, height = (3.7, 4.0) if narrow else (7.6, 3.0)
    made, (axes,) = new_figure(1, narrow=False, width=width, height=height)
    cap, methods = data["cap"], data["methods"]
    days = (
        np.arange(1, len(methods["ogd"]["emissions"]) + 1) * data["every"] / data["rounds per day"]
    )
    top = 1.02 * max(max(one["emissions"]) for one in methods.values())
    axes.axhspan(cap, top, color="#E02040", alpha=0.08, linewidth=0)
    axes.axhline(cap, color=axes.xaxis.label.get_color(), linestyle="--", linewidth=1)
    for name, (_, dashes) in METHODS.items():
        bold = name == "half-space"
        axes.plot(
            days,
            methods[name]["emissions"],
            color=family_of(name).colour,
            linestyle=dashes,
            linewidth=2.0 if bold else 1.0,
            zorder=4 if bold else 3,
        )
    (_labels_below if narrow else _labels_beside)(axes, data, days[-1])
    axes.text(days[-1] / 2, top - 3, "forbidden", va="top", ha="center", color="#E02040")
    axes.set(
        title="Earlier methods exceed the cap;\ntaut lies on it"
        if narrow
        else "Earlier methods exceed the emission cap (dashed); taut lies on it",
        xlabel="day",
        ylabel="emissions per step",
        xlim=(0, days[-1]),
        ylim=(70, top),
    )
    return made


def _text(name: str, one: dict[str, Any]) -> str:
    return f"cost {one['cost']:.1f}, worst excess {one['worst excess']:.2g}"


def _text_colour(name: str) -> str:
    """Return the colour of a method's family, lighter on a dark page so that text is easy to
    read."""
    colour = family_of(name).colour
    return colour if mpl.rcParams["figure.facecolor"] == "white" else shade(colour, 0.35)


def _labels_beside(axes: Any, data: dict[str, Any], end: float) -> None:
    """Write name, cost and worst excess beside the end of each line, apart from each other."""
    ends = {name: one["emissions"][-1] for name, one in data["methods"].items()}
    ordered = sorted(ends, key=lambda name: ends[name])
    for height, name in zip(_apart([ends[name] for name in ordered]), ordered, strict=True):
        axes.annotate(
            f"{METHODS[name][0]}\n{_text(name, data['methods'][name])}",
            (end, height),
            (6, 0),
            textcoords="offset points",
            color=_text_colour(name),
            fontweight="bold" if name == "half-space" else "normal",
            va="center",
            annotation_clip=False,
        )


def _labels_below(axes: Any, data: dict[str, Any], end: float) -> None:
    """Write name, cost and worst excess in lines below the axes."""
    for place, name in enumerate(METHODS):
        axes.annotate(
            f"{METHODS[name][0]}: {_text(name, data['methods'][name])}",
            (0, 0),
            (0, -40 - 13 * place),
            xycoords="axes fraction",
            textcoords="offset points",
            color=_text_colour(name),
            fontweight="bold" if name == "half-space" else "normal",
            annotation_clip=False,
        )


def _apart(heights: list[float], gap: float = 9.0) -> list[float]:
    """Move ascending heights of labels up until they are `gap` apart, the lowest as far down."""
    moved = [heights[0] - gap]
    for height in heights[1:]:
        moved.append(max(height, moved[-1] + gap))
    return moved


def main(path: Path = Path("the_line.png")) -> Any:
    """Play, print cost and worst excess of every method, and draw the figure."""
    runs, best = play()
    data = summary(runs, best)
    for name, one in data["methods"].items():
        print(f"{name}: mean cost {one['cost']:.1f}, worst excess {one['worst excess']:.2g}")
    print(f"best fixed decision: mean cost {best:.1f}")
    print(runs["half-space"].certificate())
    figure(data).savefig(path, dpi=200)
    return runs


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:2]))
