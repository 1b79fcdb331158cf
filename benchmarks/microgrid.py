"""Advice in live use: three generators with ramp limits follow a demand that is known only after
the decision.

Rows are the default learner, forecasts as advice (the last demand, that of the day before, the true
one), advice that an adversary chose, and CVXPY, which minimises the predicted cost in each round
with the emission cap known. The ratio is that of the mixture to the better of its two parts, each
alone.

Run: python -m benchmarks.microgrid [--rounds N] [--json]
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import cvxpy as cp
import jax
import numpy as np

jax.config.update("jax_enable_x64", True)

import jax.numpy as jnp  # noqa: E402

import taut  # noqa: E402
from taut.arena.demand import packaged, read, rescaled  # noqa: E402

from .results import report  # noqa: E402

COST, SLOPE, IMBALANCE = np.array([0.2, 0.12, 0.14]), np.array([1.5, 1.0, 0.6]), 10.0
EMISSION, CAP = np.array([0.26, 0.38, 0.37]), 100.0
MOST, RAMP, START = (
    np.array([20.0, 15.0, 18.0]),
    np.array([0.6, 0.4, 0.8]),
    np.array([8.0, 9.0, 9.0]),
)
DAY, ROUNDS, MEAN = 288, 2880, 26.0
FOLDER = Path(__file__).parents[2] / "shared" / "data"
"""Where further series may be; they are skipped where they are not."""
SERIES = ("caiso_5min_demand_20190424_20190503.csv", "isone_hourly_20180424_20180503.csv")


def problem() -> taut.Problem:
    """Return the problem: fuel, the squared imbalance, a cap, and ramps that are announced."""

    def cost(x: jax.Array, demand: jax.Array) -> jax.Array:
        return jnp.sum(0.5 * COST * x**2 + SLOPE * x) + IMBALANCE / 2 * (jnp.sum(x) - demand) ** 2

    def ramps(x: jax.Array, demand: jax.Array, previous: jax.Array) -> dict[str, jax.Array]:
        return {"up": x - previous - RAMP, "down": previous - x - RAMP}

    return taut.Problem(
        cost,
        lambda x: jnp.sum(EMISSION * x**2) / CAP - 1,
        taut.Box(np.zeros(3), MOST),
        previous=True,
        start=START,
        announced=ramps,
        domain_binds=True,
    )


def series(rounds: int) -> dict[str, Any]:
    """Return the demand series that are there, scaled to the same mean."""
    found = {"packaged": rescaled(packaged(), MEAN)[:rounds]}
    for name in SERIES:
        if (FOLDER / name).is_file():
            found[name.partition("_20")[0]] = rescaled(read(FOLDER / name), MEAN)[:rounds]
    return found


def forecasts(demand: Any) -> dict[str, Any]:
    """Return predictions of every round, from the rounds before it unless they are perfect."""
    last = np.concatenate([[np.nan], demand[:-1]])
    day_before = np.where(np.arange(len(demand)) < DAY, last, np.roll(demand, DAY))
    return {"persistence": last, "seasonal": day_before, "perfect": demand}


def adversarial(demand: Any) -> Any:
    """Return advice that moves every generator to where the true cost of the round grows."""
    known = jnp.asarray(demand)

    def worst(t: jax.Array, previous: jax.Array) -> jax.Array:
        slope = COST * previous + SLOPE + IMBALANCE * (jnp.sum(previous) - known[t - 1])
        return previous + jnp.where(slope > 0, 1.0, -1.0) * RAMP

    return worst


def with_cvxpy(demand: Any, forecast: Any) -> tuple[float, float]:
    """Return cost and clipped violation of the controller that minimises the predicted cost."""
    x, before, expected = cp.Variable(3), cp.Parameter(3), cp.Parameter()
    fuel = cp.sum(0.5 * cp.multiply(COST, cp.square(x)) + cp.multiply(SLOPE, x))
    limits = [x >= 0, x <= MOST, cp.abs(x - before) <= RAMP]
    cap = cp.sum(cp.multiply(EMISSION / CAP, cp.square(x))) <= 1
    goal = cp.Minimize(fuel + IMBALANCE / 2 * cp.square(cp.sum(x) - expected))
    model = cp.Problem(goal, [*limits, cap])
    fallback = cp.Problem(goal, limits)  # while the cap is out of reach
    decision, total, violation = START, 0.0, 0.0
    for z, predicted in zip(demand, forecast, strict=True):
        if np.isfinite(predicted):
            before.value, expected.value = decision, predicted
            model.solve(solver=cp.CLARABEL)
            if x.value is None:
                fallback.solve(solver=cp.CLARABEL)
            decision = np.clip(x.value, 0, MOST)
        total += np.sum(0.5 * COST * decision**2 + SLOPE * decision)
        total += IMBALANCE / 2 * (np.sum(decision) - z) ** 2
        violation += max(float(np.sum(EMISSION * decision**2)) / CAP - 1, 0.0)
    return float(total), violation


def measure(rounds: int = ROUNDS, alone: bool = True) -> list[dict[str, Any]]:
    """Return one row per series and kind of advice; `alone` solves with CVXPY in every round."""
    game, rows = problem(), []
    learner = taut.learner("half-space", game)
    advised = taut.Advised(learner)
    for name, demand in series(rounds).items():
        own = taut.simulate(learner, game, demand, x1=START)
        base = float(own.totals.loss[0])
        rows.append(_row(name, "none (default)", own, None, None))
        for kind, forecast in forecasts(demand).items():
            run = taut.simulate(advised, game, demand, x1=START, forecast=forecast)
            part = with_cvxpy(demand, forecast) if alone else None
            rows.append(_row(name, kind, run, base, part))
        run = taut.simulate(advised, game, demand, x1=START, advice=adversarial(demand))
        rows.append(_row(name, "adversarial", run, base, None))
    return rows


def _row(
    name: str, kind: str, run: Any, base: float | None, part: tuple[float, float] | None
) -> dict[str, Any]:
    loss = float(run.totals.loss[0])
    alone, beyond = ("", "") if part is None else part
    better = loss if base is None else min(base, np.inf if part is None else part[0])
    return {
        "series": name,
        "advice": kind,
        "cost": loss,
        "violation": float(run.totals.violation[0, 0]),
        "CVXPY alone": alone,
        "its violation": beyond,
        "ratio": f"{loss / better:.4f}",
    }


def main() -> None:
    """Measure and print the table."""
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("--rounds", type=int, default=ROUNDS)
    words.add_argument("--json", action="store_true")
    asked = words.parse_args()
    title = "Cost with advice, ratio to the better of learner and advice alone"
    report("microgrid", measure(asked.rounds), asked.json, title)


if __name__ == "__main__":
    main()
