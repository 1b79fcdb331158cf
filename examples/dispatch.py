"""Economic dispatch: three generators serve California's demand in steps of five minutes under an
emission cap.

The demand of the next five minutes is not known when the set-points are fixed. The emission cap is
quadratic. The learner does not project onto it; it only clips decisions to the limits of the
generators.

Run with `python examples/dispatch.py [figure.png]`.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import cvxpy as cp
import jax
import numpy as np

import taut
from taut.arena.demand import packaged, rescaled
from taut.plots.style import new_figure, styled

COLOURS = ["#56B4E9", "#E69F00", "#009E73"]
DEFAULT = "#D55E00"

COST, SLOPE = np.array([0.2, 0.12, 0.14]), np.array([1.5, 1.0, 0.6])
EMISSION, CAP, LIMIT = np.array([0.26, 0.38, 0.37]), 100.0, np.array([20.0, 15.0, 18.0])
STEPS_PER_DAY = 288


def dispatch_problem(most: float) -> Any:
    """Return the problem: quadratic fuel costs, a cost of imbalance, the cap, and limits that
    become the domain."""
    x = cp.Variable(3, name="x", bounds=[np.zeros(3), LIMIT])
    demand = cp.Parameter(name="demand", bounds=[0, most])
    fuel = cp.sum(0.5 * cp.multiply(COST, cp.square(x)) + cp.multiply(SLOPE, x))
    return taut.from_cvxpy(
        loss=fuel + 0.5 * cp.square(cp.sum(x) - demand),
        constraints=[cp.sum(cp.multiply(EMISSION, cp.square(x))) <= CAP],
    )


@styled
def figure(run: Any, demand: Any, best: Any) -> Any:
    """Draw output and demand, emissions and their cap, and regret."""
    x, days = run.decisions[0], np.arange(len(demand)) / STEPS_PER_DAY
    made, (left, middle, right) = new_figure(3, narrow=False)
    left.stackplot(days, x.T, colors=COLOURS)
    for i, height in enumerate(np.cumsum(x[-1]) - x[-1] / 2):
        left.text(days[-1] - 0.2, height, f"generator {i + 1}", ha="right", va="center")
    left.plot(days, demand, color="black", linewidth=0.9)
    left.text(days[len(days) // 2], demand.max(), "demand", ha="center")
    left.set(title="(a) output and demand", xlabel="day", ylabel="MW, scaled")
    middle.plot(days, run.excess[0] + CAP, color=DEFAULT, linewidth=0.8)
    middle.axhline(CAP, color="black", linestyle="--", linewidth=1)
    middle.set(
        title="(b) emissions and their cap (dashed)", xlabel="day", ylabel="emissions per step"
    )
    right.plot(days, np.cumsum(run.loss[0] - best), color=DEFAULT)
    right.axhline(0, color="black", linewidth=0.7)
    right.set(title="(c) regret", xlabel="day", ylabel="cost beyond the best fixed set-points")
    return made


def main(path: Path) -> None:
    """Simulate ten days, print the certificate and draw the figure."""
    jax.config.update("jax_enable_x64", True)
    demand = rescaled(packaged(), 33.0)
    problem = dispatch_problem(float(demand.max()))
    run = taut.simulate(problem, {"demand": demand}, record=("loss", "excess", "decisions"))
    certificate = run.certificate()  # the best fixed decision is computed from the same expressions
    print(certificate)
    assert (
        certificate.comparator is not None
    )  # the stream is known, so there is a best fixed decision
    x = certificate.comparator.decision[0]
    fuel = np.sum(0.5 * COST * x**2 + SLOPE * x)
    figure(run, demand, fuel + 0.5 * (x.sum() - demand) ** 2).savefig(path, dpi=150)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).with_suffix(".png"))
