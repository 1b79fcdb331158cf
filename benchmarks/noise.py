"""`python -m benchmarks.noise`: what noisy constraint values do to the methods, as a table.
`python -m website.figures noise` writes it to docs/feedback.md and draws docs/noise.png.

The toy of the paper as four affine rows, each observed with errors between -0.3 and 0.3, for
horizons up to 2^14. Regret and clipped violation are those of the true constraints.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import taut
from taut.plots.families import family_of
from taut.plots.style import legend_below, new_figure, styled
from taut.runs import metrics

SIGNS = np.array([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]])
BALL = taut.Ball(1.0, shape=2)
CONSTANTS = taut.Constants(
    loss_lipschitz=1.0,
    constraint_lipschitz=2**0.5,
    loss_range=2.0,
    constraint_range=1.0,
    constraint_smoothness=0.0,
    slater=1.0,
)
ERROR = 0.3
SEEDS = 5
HORIZONS = tuple(2**k for k in range(8, 15))
LABELS = {
    "clipped-ogd": "Clipped-OGD",
    "half-space": "half-space",
    "yu-neely": "Yu-Neely",
    "bounded-game, max": "bounded game on the max",
    "averaged": "averaged rows",
    "drift-plus-penalty": "drift plus penalty",
    "bounded-game": "bounded game",
}
DASHES = {label: "-" for label in LABELS} | {
    "drift-plus-penalty": "--",
    "bounded-game": ":",
    "bounded-game, max": "-.",
}
"""Four of the methods are of one family, and have its colour."""


def loss(x: Any, z: Any) -> Any:
    return z["c"] @ x


def rows(x: Any) -> Any:
    return jnp.asarray(SIGNS, x.dtype) @ x - 1


def largest(x: Any, z: Any) -> Any:
    """The largest of the noisy rows: what a method gets that aggregates before it averages."""
    return jnp.max(jnp.asarray(SIGNS, x.dtype) @ x - 1 + z["error"])


TRUE = taut.Problem(loss, rows, BALL, CONSTANTS)
MAX = taut.Problem(loss, largest, BALL, CONSTANTS.with_values(constraint_count=1))


def stream(rounds: int) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    c = rng.uniform(size=(SEEDS, rounds, 2)) * np.array([1.2, 1.0])
    error = rng.uniform(-ERROR, ERROR, size=(SEEDS, rounds, 4))
    return {"c": c / np.linalg.norm(c, axis=-1, keepdims=True), "error": error}


def measured(label: str, rounds: int) -> tuple[float, float]:
    """Mean regret and mean clipped violation of a method."""
    data = stream(rounds)
    if label == "bounded-game, max":
        run = taut.simulate("bounded-game", MAX, data, seeds=SEEDS, score=TRUE, record=())
    else:
        options: dict[str, Any] = {"sigma": ERROR / 3**0.5} if label == "averaged" else {}
        learner = taut.learner(label, TRUE, horizon=rounds, **options)
        feedback = taut.Noisy(values=ERROR, distribution="uniform")
        run = taut.simulate(
            learner, TRUE, data, seeds=SEEDS, feedback=feedback, unproven=True, record=()
        )
    best = -np.abs(data["c"].sum(axis=1)).max(axis=1)  # linear losses on the square: a vertex
    found = metrics.measured(run, best)
    return float(found["regret"].mean()), float(found["violation"].mean())


def results(horizons: Sequence[int] = HORIZONS) -> dict[str, Any]:
    """Return mean regret and mean clipped violation of all methods for each horizon."""
    return {
        "horizons": list(horizons),
        "regret and violation": {
            label: [[round(value, 2) for value in measured(label, T)] for T in horizons]
            for label in LABELS
        },
    }


def table(data: dict[str, Any]) -> str:
    """Return every second horizon as a table in Markdown: regret / clipped violation."""
    horizons = data["horizons"][::2]
    lines = [
        "| method | " + " | ".join(f"T = {rounds:,}" for rounds in horizons) + " |",
        "|---|" + "---|" * len(horizons),
    ]
    for label, values in data["regret and violation"].items():
        cells = " | ".join(f"{regret:.0f} / {violation:.0f}" for regret, violation in values[::2])
        lines.append(f"| {LABELS[label]} | {cells} |".replace("-0 /", "0 /"))
    return "\n".join(lines) + "\n"


@styled
def draw(data: dict[str, Any], narrow: bool = False) -> Any:
    """Draw regret and clipped violation over the horizon."""
    figure, axes = new_figure(2, narrow=narrow, width=3.8, height=2.7)
    titles = ("regret: linear if values are clipped", "clipped violation")
    for axis, column, title in zip(axes, (0, 1), titles, strict=True):
        for label, values in data["regret and violation"].items():
            family = family_of(label.partition(",")[0])
            axis.plot(
                data["horizons"],
                [value[column] for value in values],
                marker=family.marker,
                linestyle=DASHES[label],
                color=family.colour,
                label=LABELS[label],
            )
        axis.set_xscale("log", base=2)
        axis.set_yscale("symlog", linthresh=10)
        axis.axhline(0, color="0.6", linewidth=0.8)
        if column == 1:
            axis.set_ylim(bottom=-2)
        axis.set_xlabel("horizon T")
        axis.set_title(title)
    legend_below(figure, axes, narrow)
    return figure


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="two short horizons")
    options = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    print(table(results(HORIZONS[:2] if options.quick else HORIZONS)), end="")


if __name__ == "__main__":
    main()
