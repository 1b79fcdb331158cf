"""Beyond the paper: the default learner and all other methods of the registry on the paper's own
experiments.

This is no claim of the paper, so it is stored, printed and drawn apart from its claims.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import files
from ..arena import demand as _demand
from ..engine import Array
from ..judge.hindsight import hindsight
from ..learners import LEARNERS, Card
from ..problem.problem import Problem
from ..runs import metrics
from ..sweeps import Cell, sweep
from .experiments import dispatch, doubly_stochastic, toy

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["FILE", "PICTURE", "compare", "contest", "draw", "games"]

FILE, PICTURE = "beyond.json", "beyond-the-paper"
FEW = ("half-space", "clipped-ogd", "ogd-clipped", "a-ogd-clipped")
"""The default learner and the paper's methods; with `quick` only these play."""
SMALLEST = 1e-6
"""Violations below this are drawn at it, because the axis is logarithmic."""
TITLES = {
    "toy": "toy",
    "doubly-stochastic": "doubly stochastic matrices",
    "dispatch": "economic dispatch",
}


def games(quick: bool = False) -> Iterator[tuple[str, Problem, Array]]:
    """Yield the three experiments with the main choice of what the paper does not specify: name,
    problem, data."""
    rounds = 1000 if quick else 20_000
    yield "toy", toy.problem(), toy.costs(1, rounds)[0]
    yield (
        "doubly-stochastic",
        doubly_stochastic.problem(),
        doubly_stochastic.permutations(10, 1, rounds)[0],
    )
    d = _demand.rescaled(_demand.packaged(), dispatch.CHOICES[0].mean_demand)
    yield "dispatch", dispatch.problem(dispatch.CHOICES[0], float(d.max())), d


def contest(
    problem: Problem, data: Array, names: tuple[str, ...] | None = None
) -> list[dict[str, Any]]:
    """Play every method that applies (or those named) and return mean loss, clipped violation and
    peak, by method.

    The first row is the best fixed decision.
    """
    best = hindsight(problem, data)
    rows = [
        {
            "learner": "best fixed decision",
            "loss": float(best.loss[0]) / len(data),
            "violation": 0.0,
            "peak": 0.0,
        }
    ]
    cells = []
    for name, card in LEARNERS.items():
        if (names is not None and name not in names) or not _applies(card, problem):
            continue
        try:
            cells.append(Cell(card.build(problem, len(data)), problem, data, name=name))
        except ValueError:
            continue  # the method needs a constant that is not known
    found = sweep(cells, progress=False).check()
    for name in found:
        run = found[name]
        rows.append(
            {
                "learner": name,
                "loss": float(run.totals.loss[0]) / len(data),
                "violation": float(metrics.violation(run)[0]),
                "peak": float(metrics.peak_violation(run)[0]),
            }
        )
    return rows


def _applies(card: Card, problem: Problem) -> bool:
    strong = card.losses == "convex" or problem.constants.strong_convexity > 0
    return strong and not card.needs_feasible and not card.request_first


def compare(out: Path, quick: bool = False) -> dict[str, list[dict[str, Any]]]:
    """Play all three experiments, store the rows in `beyond.json` and draw them; return the rows by
    experiment."""
    found = {
        name: contest(problem, data, FEW if quick else None) for name, problem, data in games(quick)
    }
    files.write_atomically(out / FILE, json.dumps(found, indent=1).encode())
    (out / "figures").mkdir(parents=True, exist_ok=True)
    draw(found).savefig(out / "figures" / f"{PICTURE}.png", dpi=150)
    draw(found, narrow=True).savefig(out / "figures" / f"{PICTURE}-narrow.png", dpi=150)
    return found


LABELS = {
    "half-space": (-4, -12),
    "clipped-ogd": (5, 5),
    "half-space-strong": (-6, 4),
    "clipped-ogd-strong": (5, -11),
}
"""Methods that are named in the figure, and where; the strongly convex ones where all losses are
strongly convex."""


def draw(found: dict[str, list[dict[str, Any]]], narrow: bool = False) -> Figure:
    """Draw mean loss against clipped violation, one panel per experiment and one point per method.

    The vertical range is that of the named methods; a method outside of it is drawn as a triangle
    at the edge. With `narrow` the panels are one below the other.
    """
    from matplotlib.figure import Figure

    rows, columns = (len(found), 1) if narrow else (1, len(found))
    figure = Figure(figsize=(4.2 * columns, 3.7 * rows), layout="constrained")
    panels = np.ravel(figure.subplots(rows, columns, squeeze=False))
    for axes, (name, methods) in zip(panels, found.items(), strict=True):
        best, *played = methods
        labels = {
            key: at
            for key, at in LABELS.items()
            if name == "doubly-stochastic" or "strong" not in key
        }
        reach = max(
            [abs(row["loss"] - best["loss"]) for row in played if row["learner"] in labels],
            default=0.0,
        )
        reach = 1.4 * reach if reach > 0 else 1.0
        axes.axhline(best["loss"], color="0.6", lw=1, ls="--")
        axes.annotate(
            "best fixed decision",
            (0.02, best["loss"]),
            xycoords=("axes fraction", "data"),
            xytext=(0, -9),
            textcoords="offset points",
            fontsize=7,
            color="0.45",
        )
        for row in played:
            ours = row["learner"].startswith("half-space")
            paper = row["learner"].startswith("clipped-ogd")
            colour, size = ("#D55E00", 42) if ours else ("#0072B2", 30) if paper else ("0.65", 18)
            x, offset = max(row["violation"], SMALLEST), row["loss"] - best["loss"]
            y = best["loss"] + float(np.clip(offset, -reach, reach))
            marker = "o" if abs(offset) <= reach else "^" if offset > 0 else "v"
            axes.scatter(
                x,
                y,
                color=colour,
                s=size,
                zorder=3 if ours else 2,
                lw=0,
                marker=marker,
                clip_on=False,
            )
            if row["learner"] in labels:
                axes.annotate(
                    row["learner"],
                    (x, y),
                    xytext=labels[row["learner"]],
                    textcoords="offset points",
                    fontsize=8,
                    color=colour,
                    ha="right" if ours else "left",
                )
        axes.set_xscale("log")
        axes.set_xlim(SMALLEST / 2, None)
        axes.set_ylim(best["loss"] - reach, best["loss"] + reach)
        axes.set(xlabel="clipped violation", ylabel="mean loss per round")
        axes.set_title(TITLES.get(name, name), pad=10)
        axes.spines[["top", "right"]].set_visible(False)
    return figure
