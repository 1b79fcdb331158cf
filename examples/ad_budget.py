"""An advertising budget: buy traffic on four channels every hour without spending more than a limit
in any hour.

Every hour we decide which share of each channel's traffic to buy. Only afterwards do we learn the
value and the price of the traffic. Spending too much in one hour is not offset by a cheap hour
later, so the clipped violation has to stay small. The default learner remembers
the prices of the last days, and violates the limit only when a price is new.

Run with `python examples/ad_budget.py [figure.png]`.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import cvxpy as cp
import jax
import numpy as np

import taut
from taut.plots.style import new_figure, styled

COLOURS = ["#56B4E9", "#E69F00", "#009E73", "#CC79A7"]
DEFAULT = "#D55E00"
"""The colour of the default learner in all figures."""
HOURS, CHANNELS, LIMIT = 24 * 90, 4, 1.0


def market(seed: int = 0) -> tuple[Any, Any]:
    """Return value and price of all traffic, (hour, channel), with a daily cycle, expensive
    evenings, and noise."""
    random = np.random.default_rng(seed)
    evening = 1 + 0.4 * np.sin(2 * np.pi * (np.arange(HOURS)[:, None] - 15) / 24)
    value = np.array([2.0, 1.4, 1.0, 0.6]) * evening * random.uniform(0.6, 1.4, (HOURS, CHANNELS))
    price = np.array([1.0, 0.8, 0.7, 0.5]) * evening * random.uniform(0.8, 1.2, (HOURS, CHANNELS))
    return np.clip(value, 0, 4), np.clip(price, 0, 2)


def budget_problem() -> Any:
    """Return the problem: the gain grows as log(1 + 4 share), and the cost of an hour must not
    exceed the limit."""
    share = cp.Variable(CHANNELS, name="share", bounds=[0, 1])
    value = cp.Parameter(CHANNELS, name="value", nonneg=True, bounds=[0, 4])
    price = cp.Parameter(CHANNELS, name="price", bounds=[0, 2])
    return taut.from_cvxpy(
        loss=-value @ cp.log(1 + 4 * share),
        constraints=[price @ share <= LIMIT, share[0] <= cp.sum(share[1:])],
    )


@styled
def figure(run: Any, value: Any, price: Any, best: Any) -> Any:
    """Draw the cost per hour and its limit, the spending per channel, and the gain compared with
    hindsight."""
    shares, days = run.decisions[0], np.arange(HOURS // 24) + 0.5
    spent = _by_day(price * shares)
    bill, gain = spent.sum(axis=2), _by_day(-run.loss[0])
    fixed = _by_day(np.sum(value * np.log(1 + 4 * best), axis=1))
    made, (left, middle, right) = new_figure(3, narrow=False)
    left.fill_between(
        days, bill.min(axis=1), bill.max(axis=1), color=DEFAULT, alpha=0.25, linewidth=0
    )
    left.plot(days, bill.mean(axis=1), color=DEFAULT)
    left.axhline(LIMIT, color="black", linestyle="--", linewidth=1)
    left.text(days[-1], LIMIT + 0.02, "limit", ha="right", va="bottom")
    left.set(
        title="(a) cost per hour: mean and range of each day",
        xlabel="day",
        ylabel="money",
        ylim=(0, None),
    )
    bands = middle.stackplot(days, spent.mean(axis=1).T, colors=COLOURS)
    heights = np.cumsum(spent[-20:].mean(axis=(0, 1))) - spent[-20:].mean(axis=(0, 1)) / 2
    for i, height in enumerate(heights[: len(bands)]):
        middle.text(days[-3], height, f"channel {i + 1}", ha="right", va="center", fontsize="small")
    middle.set(title="(b) spending per channel", xlabel="day", ylabel="money per hour")
    right.plot(days, gain.mean(axis=1), color=DEFAULT, label="default learner")
    right.plot(
        days,
        fixed.mean(axis=1),
        color="black",
        linestyle="--",
        linewidth=1,
        label="best fixed shares",
    )
    right.set(
        title="(c) gain per hour: mean of each day", xlabel="day", ylabel="gain", ylim=(0, None)
    )
    right.legend(loc="lower right")
    return made


def _by_day(values: Any) -> Any:
    return values.reshape(-1, 24, *values.shape[1:])


def main(path: Path) -> None:
    """Simulate ninety days, print the certificate and draw the figure."""
    jax.config.update("jax_enable_x64", True)
    value, price = market()
    problem = budget_problem()
    data = {"value": value, "price": price}
    nothing = np.zeros(CHANNELS)  # buy nothing in the first hour
    run = taut.simulate(problem, data, x1=nothing, record=("loss", "excess", "decisions"))
    best = taut.hindsight(problem, data)
    print(run.certificate(best=best))
    figure(run, value, price, best.decision[0]).savefig(path, dpi=150)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).with_suffix(".png"))
