"""Conversions that arrive days later: choose daily bids before the sales of the last days are
known.

Every day we choose how strongly to bid on five keywords. Sales that a click of today leads to, and
what it cost in the end, are reported after a delay of up to fourteen days, at random and out of
order. The cost of a day must not exceed its budget. A learner that keeps fifteen copies of itself
has a proven bound; a single learner that uses late reports as they come has none and learns faster.

Run with `python examples/conversions.py [figure.png]`.
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

DAYS, KEYWORDS, BUDGET, LONGEST, SEEDS = 3 * 365, 5, 1.0, 14, 4
COLOURS = {"without delays": "#999999", "15 copies": "#0072B2", "late steps": "#D55E00"}


def sales() -> dict[str, Any]:
    """Return sales per bid and price per bid, (seed, day, keyword), with a yearly cycle."""
    random = np.random.default_rng(0)
    season = 1 + 0.3 * np.sin(2 * np.pi * np.arange(DAYS)[:, None] / 365)
    shape = (SEEDS, DAYS, KEYWORDS)
    value = np.array([1.6, 1.2, 0.9, 0.6, 0.4]) * season * random.uniform(0.5, 1.5, shape)
    price = np.array([0.9, 0.7, 0.6, 0.4, 0.3]) * random.uniform(0.7, 1.0, shape)
    return {"value": value, "price": price}


def loss(bid: Any, day: Any) -> Any:
    """Minus the sales, which grow as log(1 + 3 bid)."""
    return -day["value"] @ jnp.log1p(3 * bid)


def cost(bid: Any, day: Any) -> Any:
    """The cost of a day beyond its budget."""
    return day["price"] @ bid - BUDGET


def reports(key: Any, day: Any) -> Any:
    """The delay of a day's report: usually a few days, two weeks at most."""
    return jnp.minimum(jax.random.geometric(key, 0.25), LONGEST)


def bidding() -> taut.Problem:
    """Return the problem with the constants that bounds need."""
    steepest = 3 * np.linalg.norm(np.array([1.6, 1.2, 0.9, 0.6, 0.4]) * 1.3 * 1.5)
    known = taut.Constants(
        loss_lipschitz=float(steepest),
        constraint_lipschitz=float(np.linalg.norm([0.9, 0.7, 0.6, 0.4, 0.3])),
        constraint_smoothness=0.0,
        constraint_count=1,
        slater=BUDGET,
    )
    return taut.Problem(loss, cost, taut.Box(0.0, 1.0, shape=KEYWORDS), known)


@styled
def figure(runs: dict[str, taut.Run], best: Any) -> Any:
    """Draw regret and clipped violation over the days, and the distribution of delays."""
    made, (left, middle, right) = new_figure(3, narrow=False)
    days = np.arange(1, DAYS + 1)
    for label, run in runs.items():
        fixed = np.array(
            [
                -np.sum(v * np.log1p(3 * x), axis=1)
                for v, x in zip(DATA["value"], best.decision, strict=True)
            ]
        )
        assert run.loss is not None
        assert run.excess is not None
        regret = np.cumsum(run.loss - fixed, axis=1).mean(axis=0)
        left.plot(days, regret, color=COLOURS[label], label=label)
        middle.plot(
            days, np.cumsum(np.maximum(run.excess, 0), axis=1).mean(axis=0), color=COLOURS[label]
        )
    left.set(title="(a) regret", xlabel="day", ylabel="sales lost")
    left.legend(loc="best")
    middle.set(title="(b) cost beyond the budget, clipped", xlabel="day", ylabel="money")
    delays = jax.vmap(reports)(jax.random.split(jax.random.key(1), 2000), jnp.arange(2000))
    right.hist(np.asarray(delays), bins=[day + 0.5 for day in range(LONGEST + 1)], color="#0072B2")
    right.set(title="(c) delay of a report", xlabel="days", ylabel="reports of 2,000")
    return made


DATA: dict[str, Any] = {}


def main(path: Path) -> None:
    """Simulate three years, print the certificate of the delay-tolerant learner and draw the
    figure."""
    jax.config.update("jax_enable_x64", True)
    problem, late = bidding(), taut.Delayed(reports, longest=LONGEST)
    DATA.update(sales())
    alone = taut.learner("half-space", problem)
    copies = taut.learner("delay-tolerant", problem, horizon=DAYS, delay=LONGEST)
    nothing, record = np.zeros(KEYWORDS), ("loss", "excess")
    runs = {
        "without delays": taut.simulate(
            alone, problem, DATA, seeds=SEEDS, x1=nothing, record=record
        ),
        "15 copies": taut.simulate(
            copies, problem, DATA, seeds=SEEDS, x1=nothing, record=record, feedback=late
        ),
        "late steps": taut.simulate(
            alone,
            problem,
            DATA,
            seeds=SEEDS,
            x1=nothing,
            record=record,
            feedback=late,
            unproven=True,
        ),
    }
    best = taut.hindsight(problem, DATA, seeds=SEEDS)
    print(runs["15 copies"].certificate(best=best))
    for label, run in runs.items():
        regret, violation = (
            np.mean(run.totals.loss - best.loss),
            np.mean(run.totals.worst_violation),
        )
        print(f"{label:15} regret {regret:8.1f}   clipped violation {violation:8.2f}")
    figure(runs, best).savefig(path, dpi=150)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).with_suffix(".png"))
