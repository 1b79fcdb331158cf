"""Break it: an adversary shows, in every round, the most violated of 64 half-spaces.

All half-spaces have a point in common, so a feasible decision exists. A method that only reacts is
led from one half-space to the next and violates for ever. A method that remembers half-spaces can
be surprised at most once by each of them, and a theorem (H6) says how much that costs at most.

Run with `python examples/break_it.py [figure.png]`. Put a method of your own into `MINE`.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import taut
from taut.plots.families import family_of
from taut.plots.style import new_figure, shade, styled

ROUNDS, DIMENSION, HALF_SPACES, SLACK = 8_192, 10, 64, 0.1

MINE: dict[str, Any] = {}
"""Your own methods by name, for example {"mine": MyLearner(...)}."""

METHODS = {
    "half-space": "half-space, 64 cuts for ever",
    "clipped-ogd": "Clipped-OGD (2018)",
    "surrogate-anytime": "surrogate (2024)",
    "recoo": "RECOO (2022)",
    "drift-plus-penalty": "drift plus penalty (2017)",
    "ogd": "OGD (2012)",
}
"""Names of learners, and what the figure calls them."""
DEFAULT = family_of("half-space").colour


def pool(seed: int = 0) -> tuple[Any, Any]:
    """Return the half-spaces rows @ x <= offsets. All of them hold at one point with some slack."""
    random = np.random.default_rng(seed)
    rows = random.normal(size=(HALF_SPACES, DIMENSION))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    common = random.uniform(-0.5, 0.5, DIMENSION) / np.sqrt(DIMENSION)
    return rows, rows @ common + SLACK


def game(rows: Any, offsets: Any) -> tuple[taut.Problem, Any]:
    """Return the problem, and the adversary that shows the most violated half-space."""

    def reveal(round: Any, decision: Any, key: Any) -> Any:
        worst = jnp.argmax(jnp.asarray(rows) @ decision - jnp.asarray(offsets))
        cost = jax.random.normal(key, (DIMENSION,)) - 1.0
        return {
            "cost": cost / jnp.linalg.norm(cost),
            "row": jnp.asarray(rows)[worst],
            "offset": jnp.asarray(offsets)[worst],
        }

    side = 1 / np.sqrt(DIMENSION)
    problem = taut.Problem(
        lambda x, z: z["cost"] @ x,
        lambda x, z: z["row"] @ x - z["offset"],
        taut.Box(-side, side, shape=DIMENSION),
        taut.Constants(
            loss_lipschitz=1.0,
            constraint_lipschitz=1.0,
            loss_range=2.0,
            constraint_range=1.0 + float(np.abs(offsets).max()),  # the box has the radius 1
            constraint_count=1,
            slater=SLACK,
        ),
    )
    return problem, reveal


def play() -> tuple[dict[str, Any], taut.Problem]:
    """Play all methods against their own adversary; return their runs and the problem."""
    problem, reveal = game(*pool())
    learners: dict[str, Any] = {
        name: taut.learner(name, problem, horizon=ROUNDS) for name in METHODS
    }
    learners["half-space"] = taut.learner(
        "half-space", problem, memory=HALF_SPACES, life=None
    )  # a slot for each half-space, kept for ever
    runs = {
        name: taut.simulate(learner, problem, reveal, horizon=ROUNDS, key=jax.random.key(0))
        for name, learner in (learners | MINE).items()
    }
    return runs, problem


def _colour(name: str) -> str:
    return "black" if name in MINE else family_of(name).colour


@styled
def figure(runs: dict[str, Any], bound: float) -> Any:
    """Draw the clipped violation of all methods over the rounds, on logarithmic axes."""
    made, (axes,) = new_figure(1, narrow=False, width=7.6, height=4.2)
    rounds = np.arange(1, ROUNDS + 1)
    axes.axhline(bound, color=DEFAULT, linestyle="--", linewidth=1)
    axes.text(1.2, bound * 1.1, "proven for half-space, for every number of rounds", color=DEFAULT)
    ends = {}
    for name, run in runs.items():
        total = np.cumsum(np.maximum(run.excess[0].reshape(ROUNDS, -1).max(axis=1), 0))
        style = ":" if name == "recoo" else "-"  # a half-space step, too
        colour = _colour(name)
        axes.plot(rounds, np.maximum(total, 1e-3), color=colour, linewidth=1.6, linestyle=style)
        ends[name] = total[-1]
    heights = _apart(sorted(np.log10(list(ends.values()))), 0.17)
    for height, name in zip(heights, sorted(ends, key=lambda name: ends[name]), strict=True):
        axes.annotate(
            f"{METHODS.get(name, name)}: {ends[name]:,.1f}",
            (ROUNDS, 10**height),
            (6, 0),
            textcoords="offset points",
            color=shade(_colour(name), -0.3),
            va="center",
            annotation_clip=False,
            fontweight="bold" if name == "half-space" else "normal",
        )
    axes.set(
        title="An adversary on 64 half-spaces: who stops violating?",
        xlabel="round",
        ylabel="clipped violation so far",
        xscale="log",
        yscale="log",
        xlim=(1, ROUNDS),
    )
    return made


def _apart(heights: list[float], gap: float) -> list[float]:
    """Move ascending heights of labels up until they are `gap` apart."""
    moved = [heights[0]]
    for height in heights[1:]:
        moved.append(max(height, moved[-1] + gap))
    return moved


def main(path: Path) -> dict[str, float]:
    """Play, print the violation of every method and the bound, and draw the figure."""
    jax.config.update("jax_enable_x64", True)
    runs, problem = play()
    bound = taut.bounds.kept_cuts_violation(
        half_spaces=HALF_SPACES,
        diameter=float(problem.domain.diameter),
        constraint_lipschitz=1.0,
    )
    violations = {name: float(run.totals.violation.max()) for name, run in runs.items()}
    for name, violation in sorted(violations.items(), key=lambda entry: entry[1]):
        peak = float(runs[name].totals.peak.max())
        print(f"{name}: clipped violation {violation:,.2f}, peak violation {peak:.3f}")
    print(f"proven for half-space: at most {bound:.1f}")
    figure(runs, bound).savefig(path, dpi=150)
    return violations | {"bound": bound}


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).with_suffix(".png"))
