"""An ad-budget pacer: buy on four channels, hour by hour, and never let an hour cost more than the pace allows.

Every hour the pacer fixes how much of each channel's traffic it wants to buy. Only afterwards it learns what the traffic
was worth and what it cost. Money overspent in one hour is not won back by a cheap hour later, so it is the clipped
overspend that has to stay small, and that is what Clipped-OGD is for.

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
from taut.play.style import new_figure, styled

COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7"]
HOURS, CHANNELS, PACE = 24 * 90, 4, 1.0


def market(seed: int = 0) -> tuple[Any, Any]:
    """Worth and price of all traffic, (hour, channel): a daily cycle, dear evenings, and noise."""
    random = np.random.default_rng(seed)
    evening = 1 + 0.4 * np.sin(2 * np.pi * (np.arange(HOURS)[:, None] - 15) / 24)
    worth = np.array([2.0, 1.4, 1.0, 0.6]) * evening * random.uniform(0.6, 1.4, (HOURS, CHANNELS))
    price = np.array([1.0, 0.8, 0.7, 0.5]) * evening * random.uniform(0.8, 1.2, (HOURS, CHANNELS))
    return np.clip(worth, 0, 4), np.clip(price, 0, 2)


def game() -> Any:
    """Returns diminish, like log(1 + 4 share); the hour's bill must not exceed the pace."""
    share = cp.Variable(CHANNELS, name="share", bounds=[0, 1])
    worth = cp.Parameter(CHANNELS, name="worth", nonneg=True, bounds=[0, 4])
    price = cp.Parameter(CHANNELS, name="price", bounds=[0, 2])
    return taut.from_cvxpy(
        loss=-worth @ cp.log(1 + 4 * share),
        constraints=[price @ share <= PACE, share[0] <= cp.sum(share[1:])],
    )


@styled
def figure(run: Any, worth: Any, price: Any, best: Any) -> Any:
    """Every day's bills against the pace, where the money went, and the gain against hindsight."""
    shares, days = run.decisions[0], np.arange(HOURS // 24) + 0.5
    spent = _by_day(price * shares)
    bill, gain = spent.sum(axis=2), _by_day(-run.loss[0])
    fixed = _by_day(np.sum(worth * np.log(1 + 4 * best), axis=1))
    made, (left, middle, right) = new_figure(3, narrow=False)
    left.fill_between(days, bill.min(axis=1), bill.max(axis=1), color=COLOURS[0], alpha=0.25, linewidth=0)
    left.plot(days, bill.mean(axis=1), color=COLOURS[0])
    left.axhline(PACE, color="black", linestyle="--", linewidth=1)
    left.text(days[-1], PACE + 0.02, "pace", ha="right", va="bottom")
    left.set(title="(a) bill of an hour: mean and range of each day", xlabel="day", ylabel="money", ylim=(0, None))
    bands = middle.stackplot(days, spent.mean(axis=1).T, colors=COLOURS)
    heights = np.cumsum(spent[-20:].mean(axis=(0, 1))) - spent[-20:].mean(axis=(0, 1)) / 2
    for i, height in enumerate(heights[: len(bands)]):
        middle.text(days[-3], height, f"channel {i + 1}", ha="right", va="center", color="white")
    middle.set(title="(b) where the money goes", xlabel="day", ylabel="money an hour")
    right.plot(days, gain.mean(axis=1), color=COLOURS[0], label="pacer")
    right.plot(days, fixed.mean(axis=1), color="black", linestyle="--", linewidth=1, label="best shares for all hours")
    right.set(title="(c) gain of an hour: mean of each day", xlabel="day", ylabel="gain", ylim=(0, None))
    right.legend(loc="lower right")
    return made


def _by_day(values: Any) -> Any:
    return values.reshape(-1, 24, *values.shape[1:])


def main(path: Path) -> None:
    """Play ninety days, print the certificate, draw."""
    jax.config.update("jax_enable_x64", True)
    worth, price = market()
    problem = game()
    data = {"worth": worth, "price": price}
    learner = taut.ClippedOGD.tuned(problem.constants, horizon=HOURS)
    nothing = np.zeros(CHANNELS)  # a careful first hour
    run = taut.simulate(learner, problem, data, x1=nothing, record=("loss", "excess", "decisions"))
    best = taut.hindsight(problem, data)
    print(run.certificate(best=best))
    figure(run, worth, price, best.decision[0]).savefig(path, dpi=150)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).with_suffix(".png"))
