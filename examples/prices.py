"""Prices with a service level: find prices of three products when only sales and waiting times at
the tried prices are seen.

Every day two price lists are tried, one in each half of the shops. Demand falls with the price, at
a rate that nobody knows; orders of a day must stay within what can be delivered. Neither demand
curves nor gradients are observed: only the revenue and the load at the two lists. A two-point
bandit learner estimates gradients from the difference.

Run with `python examples/prices.py [figure.png]`.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import taut
from taut.plots.style import new_figure, styled

DAYS, SEEDS, CAPACITY = 4000, 4, 1.0
BASE, FALL = np.array([1.0, 0.8, 0.6]), np.array([0.6, 0.5, 0.4])
COLOURS = ["#0072B2", "#D55E00", "#009E73"]


def days() -> dict[str, Any]:
    """Return the size of the market on every day, (seed, day)."""
    random = np.random.default_rng(0)
    return {"market": random.uniform(0.7, 1.3, size=(SEEDS, DAYS))}


def loss(price: Any, day: Any) -> Any:
    """Minus the revenue: price times demand, which falls linearly with the price."""
    return -day["market"] * price @ (BASE - FALL * price)


def load(price: Any) -> Any:
    """Mean orders beyond what can be delivered in time: the service level."""
    return jnp.sum(BASE - FALL * price) - CAPACITY


def pricing() -> taut.Problem:
    """Return the problem with bounds on its slopes: prices lie between 0.4 and 1.5."""
    steep = 1.3 * float(np.linalg.norm(2 * FALL * 1.5 - BASE))
    known = taut.Constants(
        loss_lipschitz=steep,
        constraint_lipschitz=float(np.linalg.norm(FALL)),
        constraint_smoothness=0.0,
        slater=0.5,
    )
    return taut.Problem(loss, load, taut.Box(0.4, 1.5, shape=3), known, domain_binds=True)


@styled
def figure(run: taut.Run, best: Any) -> Any:
    """Draw the prices of one seed, the mean regret and the load beyond capacity."""
    made, (left, middle, right) = new_figure(3, narrow=False)
    rounds = np.arange(1, DAYS + 1)
    assert run.decisions is not None
    assert run.loss is not None
    assert run.excess is not None
    for i, colour in enumerate(COLOURS):
        left.plot(rounds, run.decisions[0, :, i], color=colour, label=f"product {i + 1}")
        left.axhline(best.decision[0][i], color=colour, linestyle="--", linewidth=1)
    left.set(title="(a) prices, dashed: best fixed ones", xlabel="day", ylabel="price")
    left.legend(loc="lower left")
    middle.plot(rounds, -np.cumsum(run.loss, axis=1).mean(axis=0) / rounds, color=COLOURS[0])
    middle.axhline(-np.mean(best.loss) / DAYS, color="black", linestyle="--", linewidth=1)
    middle.set(title="(b) mean revenue so far", xlabel="day", ylabel="revenue per day")
    right.plot(rounds, np.cumsum(np.maximum(run.excess, 0), axis=1).mean(axis=0), color=COLOURS[1])
    right.set(title="(c) orders beyond capacity, clipped", xlabel="day", ylabel="orders")
    return made


def main(path: Path) -> None:
    """Simulate, print the certificate and draw the figure."""
    jax.config.update("jax_enable_x64", True)
    problem, data = pricing(), days()
    learner = taut.learner("two-point", problem, horizon=DAYS, penalty=4.0)
    record = ("loss", "excess", "decisions")
    run = taut.simulate(
        learner, problem, data, seeds=SEEDS, feedback=taut.Bandit(points=2), record=record
    )
    best = taut.hindsight(problem, data, seeds=SEEDS)
    print(run.certificate(best=best))
    figure(run, best).savefig(path, dpi=150)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).with_suffix(".png"))
