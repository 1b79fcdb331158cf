"""`python -m benchmarks.feedback`: what late data and values without gradients cost, as a table.

The toy of the paper as four affine rows, with exact values, at one horizon. `python -m
website.figures feedback` writes the table to docs/feedback.md.
"""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

import taut
from taut.runs import metrics

from . import noise

ROUNDS, DELAY = 4096, 16
CASES: tuple[tuple[str, str, Any, dict[str, Any]], ...] = (
    ("nothing is hidden", "half-space", None, {}),
    (f"data come {DELAY} rounds late", "half-space", taut.Delayed(DELAY), {}),
    (f"data come {DELAY} rounds late", "delay-tolerant", taut.Delayed(DELAY), {"delay": DELAY}),
    ("two values per round", "two-point", taut.Bandit(points=2), {}),
    ("two values per round", "two-point", taut.Bandit(points=2), {"penalty": 2.0}),
    ("one value per round", "one-point", taut.Bandit(points=1), {}),
)
"""What the learner sees, the learner, the feedback, and options."""


def measured(name: str, feedback: Any, options: dict[str, Any], rounds: int) -> list[float]:
    """Return mean regret and mean clipped violation over seeds."""
    data = {"c": noise.stream(rounds)["c"]}
    learner = taut.learner(name, noise.TRUE, horizon=rounds, **options)
    run = taut.simulate(
        learner,
        noise.TRUE,
        data,
        seeds=noise.SEEDS,
        feedback=feedback,
        unproven=feedback is not None,
        record=(),
    )
    best = -np.abs(data["c"].sum(axis=1)).max(axis=1)  # linear losses on the square: a vertex
    found = metrics.measured(run, best)
    return [round(float(found[name].mean()), 1) for name in ("regret", "violation")]


def results(rounds: int = ROUNDS) -> dict[str, Any]:
    """Return the rows of the table."""
    rows = []
    for sees, name, feedback, options in CASES:
        shown = "".join(f", {option}={value:g}" for option, value in options.items())
        rows.append([sees, f"`{name}`{shown}", *measured(name, feedback, options, rounds)])
    return {"rounds": rounds, "rows": rows}


def table(data: dict[str, Any]) -> str:
    """Return the results as a table in Markdown."""
    lines = [
        f"| what is seen, T = {data['rounds']:,} | learner | regret | clipped violation |",
        "|---|---|---:|---:|",
        *(f"| {sees} | {name} | {r:,.0f} | {v:.2g} |" for sees, name, r, v in data["rows"]),
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    print(table(results()), end="")
