"""Ramp limits: five generators follow California's demand, and none may change its output faster
than it can.

How far a generator can move in five minutes depends on where it is, so the limits of a round are
known before the set-points are chosen: they are announced constraints, which the learner enforces
before it plays. The emission cap is an ordinary constraint. For comparison the same learner plays
without knowing of the limits and is scored with them.

Run with `python examples/ramps.py [figure.png]`.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import taut
from taut.arena.demand import packaged, rescaled
from taut.plots.style import new_figure, styled

NAMES = ["coal", "gas 1", "gas 2", "hydro", "peaker"]
COST, SLOPE = np.array([0.10, 0.14, 0.16, 0.12, 0.40]), np.array([0.4, 0.8, 0.9, 0.6, 2.0])
EMISSION, CAP = np.array([0.40, 0.22, 0.22, 0.02, 0.30]), 60.0
MOST = np.array([14.0, 12.0, 12.0, 9.0, 8.0])
RAMP = np.array([0.03, 0.10, 0.10, 0.40, 0.30])  # per step of five minutes
START = np.array([8.0, 6.0, 6.0, 5.0, 1.0])
STEPS_PER_DAY, DAYS = 288, 10
COLOURS = ["#56565B", "#0072B2", "#56B4E9", "#009E73", "#D55E00"]


def cost(x: jax.Array, demand: jax.Array) -> jax.Array:
    """Fuel, and half the square of the imbalance."""
    return jnp.sum(0.5 * COST * x**2 + SLOPE * x) + 0.5 * (jnp.sum(x) - demand) ** 2


def emissions(x: jax.Array) -> jax.Array:
    """Emissions above the cap, in units of the cap."""
    return jnp.sum(EMISSION * x**2) / CAP - 1


def ramps(x: jax.Array, demand: jax.Array, previous: jax.Array) -> dict[str, jax.Array]:
    """How far each generator moves beyond its limit."""
    return {"up": x - previous - RAMP, "down": previous - x - RAMP}


@styled
def figure(with_limits: Any, without: Any, demand: Any) -> Any:
    """Draw output and demand, the largest move of each step in units of its limit, and the cost of
    both runs."""
    days = np.arange(len(demand)) / STEPS_PER_DAY
    made, (left, middle, right) = new_figure(3, narrow=False)
    left.stackplot(days, with_limits.decisions[0].T, colors=COLOURS, labels=NAMES)
    left.plot(days, demand, color="black", linewidth=0.9)
    left.legend(loc="lower right", fontsize=6)
    left.set(title="(a) output and demand", xlabel="day", ylabel="MW, scaled")
    for run, colour, name in (
        (without, COLOURS[4], "not enforced"),
        (with_limits, COLOURS[1], "enforced"),
    ):
        path = np.concatenate([START[None], run.decisions[0]])
        middle.plot(
            days,
            np.max(np.abs(np.diff(path, axis=0)) / RAMP, axis=1),
            color=colour,
            label=name,
            linewidth=0.7,
        )
        right.plot(
            days, np.cumsum(run.loss[0]) / np.arange(1, 1 + len(days)), color=colour, label=name
        )
    middle.axhline(1, color="black", linestyle="--", linewidth=1)
    middle.set(
        title="(b) largest move over its limit",
        xlabel="day",
        ylabel="limit = 1",
        yscale="log",
        ylim=(1e-2, 1e2),
    )
    right.set(title="(c) mean cost so far", xlabel="day", ylabel="cost per step")
    right.legend()
    return made


def main(path: Path) -> None:
    """Simulate ten days with and without the limits, print what was violated, and draw the
    figure."""
    jax.config.update("jax_enable_x64", True)
    demand = rescaled(packaged(), 33.0)[: STEPS_PER_DAY * DAYS]
    box = taut.Box(np.zeros(5), MOST)
    problem = taut.Problem(
        cost,
        emissions,
        box,
        previous=True,
        start=START,
        announced=ramps,
        domain_binds=True,
        coordinate_names=NAMES,
    )
    plain = taut.Problem(cost, emissions, box, domain_binds=True, coordinate_names=NAMES)
    everything = ("loss", "excess", "decisions")
    run = taut.simulate("half-space", problem, demand, x1=START, record=everything)
    without = taut.simulate(run.learner, plain, demand, x1=START, score=problem, record=everything)
    for name, one in (("enforced", run), ("not enforced", without)):
        peak, mean = one.totals.peak[0], one.totals.loss[0] / one.horizon
        print(
            f"ramps {name}: peak violation of the cap {peak[0]:.2g}, of the ramps "
            f"{peak[1:].max():.2g}; cost {mean:.3f}"
        )
    assert run.totals.peak[0, 1:].max() == 0  # exactly
    print(run.certificate().conclusion)
    figure(run, without, demand).savefig(path, dpi=150)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).with_suffix(".png"))
