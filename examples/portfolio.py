"""A portfolio that is adapted every day, stays close to an index and is not too concentrated.

The mandate sets two limits: the turnover from the index to the portfolio must not exceed 15 %, and
the two largest positions together must not exceed 50 %. The weights of the index change with
prices, so the first constraint changes every day and is known only after the day's decision.

Run with `python examples/portfolio.py [figure.png]`.
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

COLOURS = ["#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9"]
RISK = 0.1
"""Cost per unit of daily variance."""

DAYS, STOCKS, TURNOVER, LARGEST_TWO = 1500, 5, 0.15, 0.5
QUARTER = 60


def market(seed: int = 0) -> tuple[Any, Any, Any]:
    """Return daily returns in percent (day, stock), their covariance, and index weights, equal at
    the start of a quarter."""
    random = np.random.default_rng(seed)
    factors = random.normal(size=(STOCKS, 2)) * 0.5
    covariance = factors @ factors.T + np.diag(random.uniform(0.3, 1.0, STOCKS))
    trend = np.linspace(-0.06, 0.14, STOCKS)
    returns = trend + random.multivariate_normal(np.zeros(STOCKS), covariance, size=DAYS)
    growth = np.cumprod(1 + returns.reshape(-1, QUARTER, STOCKS) / 100, axis=1)
    before = np.concatenate([np.ones_like(growth[:, :1]), growth[:, :-1]], axis=1).reshape(
        DAYS, STOCKS
    )
    index = before / before.sum(axis=1, keepdims=True)
    return np.clip(returns, -3, 3), covariance, index


def portfolio_problem(covariance: Any) -> Any:
    """Return the problem: minus the day's return plus a cost of risk; the simplex keeps the
    portfolio fully invested."""
    weights = cp.Variable(STOCKS, name="weights", nonneg=True)
    returns = cp.Parameter(STOCKS, name="returns", bounds=[-3, 3])
    index = cp.Parameter(STOCKS, name="index", bounds=[0, 1])
    return taut.from_cvxpy(
        loss=-returns @ weights + 0.5 * RISK * cp.quad_form(weights, covariance),
        constraints=[
            cp.norm1(weights - index) / 2 <= TURNOVER,
            cp.sum_largest(weights, 2) <= LARGEST_TWO,
        ],
        domain=taut.Simplex(STOCKS),
    )


@styled
def figure(run: Any, index: Any, best: Any) -> Any:
    """Draw the weights, the two limits, and regret."""
    weights, days = run.decisions[0], np.arange(DAYS)
    turnover = np.abs(weights - index).sum(axis=1) / 2
    largest = np.sort(weights, axis=1)[:, -2:].sum(axis=1)
    made, (left, middle, right) = new_figure(3, narrow=False)
    left.stackplot(days, weights.T, colors=COLOURS)
    for i, height in enumerate(np.cumsum(weights[-1]) - weights[-1] / 2):
        left.text(days[-30], height, f"stock {i + 1}", ha="right", va="center")
    left.set(title="(a) portfolio", xlabel="day", ylabel="weight", ylim=(0, 1))
    for values, limit, colour, label in (
        (turnover, TURNOVER, COLOURS[0], "turnover from the index"),
        (largest, LARGEST_TWO, COLOURS[3], "two largest positions"),
    ):
        middle.plot(days, values, color=colour, linewidth=0.8)
        middle.axhline(limit, color=colour, linestyle="--", linewidth=1)
        middle.text(days[-1], limit + 0.02, label, ha="right", va="bottom", color=colour)
    middle.set(
        title="(b) the two constraints and their limits (dashed)",
        xlabel="day",
        ylabel="share of the portfolio",
        ylim=(0, 0.6),
    )
    right.plot(days, np.cumsum(run.loss[0] - best), color="#D55E00")
    right.axhline(0, color="black", linewidth=0.7)
    right.set(title="(c) regret", xlabel="day", ylabel="per cent beyond the best weights")
    return made


def main(path: Path) -> None:
    """Simulate six years, print the certificate and draw the figure."""
    jax.config.update("jax_enable_x64", True)
    returns, covariance, index = market()
    problem = portfolio_problem(covariance)
    data = {"returns": returns, "index": index}
    run = taut.simulate(problem, data, record=("loss", "excess", "decisions"))
    best = taut.hindsight(problem, data)
    print(run.certificate(best=best))
    w = best.decision[0]
    figure(run, index, -returns @ w + 0.5 * RISK * w @ covariance @ w).savefig(path, dpi=150)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).with_suffix(".png"))
