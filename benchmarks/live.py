"""Advice in live use: two generators and a battery with ramp limits follow a demand that is known
only after the decision.

A decision is the power of both generators and the level of the battery after the round, so the loss
depends on the previous decision. Ramps are announced; a cap on emissions is revealed by the rounds.
Rows are the default learner alone, then mixtures of it with an adviser: the best decision for a
forecast (the last demand, that of the day before, the true one, the last demand missing in 30 % of
the rounds, the last demand with the cap announced too), advice that an adversary chose, and advice
that is 1.5 times too large and infeasible.

"advice alone" is what the adviser costs by itself: CVXPY minimises the predicted cost in each
round, with the cap known; other advice is moved into domain and ramps. "ratio" is the cost of the
mixture divided by the cheaper of learner alone and advice alone.

Each row is printed to the standard error as it is measured, and the table at the end.

Run: python -m benchmarks.live [--rounds N] [--series NAME] [--json] [--page]; with --page the
table of docs/guides/advice.md is written.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cvxpy as cp
import jax
import numpy as np

jax.config.update("jax_enable_x64", True)

import jax.numpy as jnp  # noqa: E402

import taut  # noqa: E402
from taut.arena.demand import packaged, read, rescaled  # noqa: E402

from . import page, setting  # noqa: E402
from .results import cell, report  # noqa: E402

COST, SLOPE, IMBALANCE = np.array([0.2, 0.14]), np.array([1.5, 0.6]), 10.0
LEVEL, HOLDING, WEAR = 6.0, 0.1, 0.2
"""The level at which the battery is worth most, and what being elsewhere and moving cost."""
EMISSION, CAP = np.array([0.26, 0.37]), 130.0
MOST, RAMP = np.array([22.0, 20.0, 12.0]), np.array([0.6, 0.8, 0.8])
START = np.array([12.0, 14.0, 6.0])
DAY, ROUNDS, MEAN, MISSING = 288, 2880, 26.0, 0.3
TITLE = "Cost with advice, ratio to the better of learner and advice alone"
GUIDE = setting.ROOT / "docs" / "guides" / "advice.md"
LIMIT = 1.01
"""The ratio that no row may exceed."""
FOLDER = Path(__file__).parents[2] / "shared" / "data"
"""Where further series may be."""
FILES = {
    "CAISO, five minutes": "caiso_5min_demand_20190424_20190503.csv",
    "ISO-NE, hourly": "isone_hourly_20180424_20180503.csv",
}


def cost(x: Any, demand: Any, previous: Any) -> Any:
    """Return fuel, wear and holding cost of the battery, and the squared imbalance."""
    power, discharged = x[:2], previous[2] - x[2]
    fuel = jnp.sum(0.5 * COST * power**2 + SLOPE * power)
    battery = HOLDING / 2 * (x[2] - LEVEL) ** 2 + WEAR / 2 * discharged**2
    return fuel + battery + IMBALANCE / 2 * (jnp.sum(power) + discharged - demand) ** 2


def emissions(x: Any) -> Any:
    """Return by how much the cap is exceeded, as a share of it."""
    return jnp.sum(EMISSION * x[:2] ** 2) / CAP - 1


def problem(announced_cap: bool = False) -> taut.Problem:
    """Return the problem, in which the cap is revealed by the rounds or announced with the
    ramps."""

    def ramps(x: jax.Array, demand: jax.Array, previous: jax.Array) -> dict[str, jax.Array]:
        known = {"up": x - previous - RAMP, "down": previous - x - RAMP}
        return known | {"cap": emissions(x)} if announced_cap else known

    return taut.Problem(
        cost,
        (lambda x: emissions(x) - 1) if announced_cap else emissions,
        taut.Box(np.zeros(3), MOST),
        previous=True,
        start=START,
        announced=ramps,
        domain_binds=True,
    )


def series(rounds: int) -> dict[str, Any]:
    """Return the demand series that are there, scaled to the same mean."""
    made = {"packaged": rescaled(packaged(), MEAN)[:rounds]}
    for name, file in FILES.items():
        if (FOLDER / file).is_file():
            made[name] = rescaled(read([FOLDER / file]), MEAN)[:rounds]
        else:
            print(
                f"The series {name} is skipped: there is no file {file} in ../shared/data.",
                file=sys.stderr,
            )
    return made


def forecasts(demand: Any) -> dict[str, Any]:
    """Return predictions of every round, from the rounds before it unless they are perfect. Rounds
    without one are masked."""
    rounds = np.arange(len(demand))
    last = np.ma.array(np.roll(demand, 1), mask=rounds < 1)
    day_before = np.ma.array(
        np.where(rounds < DAY, last.data, np.roll(demand, DAY)), mask=last.mask
    )
    lost = np.random.default_rng(0).random(len(demand)) < MISSING
    return {
        "persistence": last,
        "seasonal": day_before,
        "perfect": np.ma.array(demand),
        "persistence, 30 % missing": np.ma.array(last.data, mask=last.mask | lost),
    }


def adversarial(demand: Any) -> Any:
    """Return advice that raises the cost of the round, as a function of its number, from 1, and of
    the previous decision."""
    known = jnp.asarray(demand)

    def advice(t: jax.Array, previous: jax.Array) -> jax.Array:
        slope = jax.grad(cost)(previous, known[t - 1], previous)
        return previous + jnp.where(slope > 0, 1.0, -1.0) * RAMP

    return advice


def infeasible(demand: Any) -> Any:
    """Return 1.5 times the decisions that are best for the last demand without limits. Round 1 has
    none: it is masked."""
    room, shift = np.sum(1 / COST), np.sum(SLOPE / COST)
    price = IMBALANCE * (np.roll(demand, 1) + shift) / (1 + IMBALANCE * room)
    power = (price[:, None] - SLOPE) / COST
    best = np.column_stack([power, np.full(len(demand), LEVEL)])
    made = np.ma.array(1.5 * best + 0.5)
    made[0] = np.ma.masked
    return made


class Alone:
    """A controller that plays without a learner, and what it costs."""

    def __init__(self) -> None:
        self.decision, self.cost, self.violation = START, 0.0, 0.0

    def play(self, decision: Any, demand: float) -> None:
        """Play a round."""
        x = np.clip(decision, 0, MOST)
        power, discharged = x[:2], self.decision[2] - x[2]
        self.cost += float(np.sum(0.5 * COST * power**2 + SLOPE * power))
        self.cost += HOLDING / 2 * (x[2] - LEVEL) ** 2 + WEAR / 2 * discharged**2
        self.cost += IMBALANCE / 2 * (np.sum(power) + discharged - demand) ** 2
        self.violation += max(float(np.sum(EMISSION * power**2)) / CAP - 1, 0.0)
        self.decision = x


def with_cvxpy(demand: Any, forecast: Any) -> Alone:
    """Play the decision that minimises the predicted cost; the last one where nothing is predicted.

    The cap is not a constraint of a round in which ramps make it unattainable.
    """
    x, before, expected = cp.Variable(3), cp.Parameter(3), cp.Parameter()
    power, discharged = x[:2], before[2] - x[2]
    goal = cp.sum(0.5 * cp.multiply(COST, cp.square(power)) + cp.multiply(SLOPE, power))
    goal += HOLDING / 2 * cp.square(x[2] - LEVEL) + WEAR / 2 * cp.square(discharged)
    goal += IMBALANCE / 2 * cp.square(cp.sum(power) + discharged - expected)
    limits = [x >= 0, x <= MOST, cp.abs(x - before) <= RAMP]
    cap = cp.sum(cp.multiply(EMISSION / CAP, cp.square(power))) <= 1
    model = cp.Problem(cp.Minimize(goal), [*limits, cap])
    uncapped = cp.Problem(cp.Minimize(goal), limits)
    alone = Alone()
    known = ~np.ma.getmaskarray(forecast)
    for z, predicted, said in zip(demand, forecast.data, known, strict=True):
        decision = alone.decision
        if said:
            before.value, expected.value = decision, predicted
            for chosen in (model, uncapped):
                chosen.solve(solver=cp.CLARABEL)
                if chosen.status in ("optimal", "optimal_inaccurate"):
                    decision = x.value
                    break
        alone.play(decision, z)
    return alone


def moved_inside(demand: Any, advice: Any) -> Alone:
    """Play advice that is moved into domain and ramps; the last decision where there is none."""
    alone = Alone()
    told = jax.jit(advice) if callable(advice) else lambda t, previous: advice[t - 1]
    for t, z in enumerate(demand, start=1):
        advised = told(t, alone.decision)
        said = not np.ma.getmaskarray(advised).any()
        move = np.clip(np.asarray(advised) - alone.decision, -RAMP, RAMP) if said else 0
        alone.play(alone.decision + move, z)
    return alone


def measure(rounds: int = ROUNDS, only: str | None = None) -> Iterator[dict[str, Any]]:
    """Yield one row per series and kind of advice; `only` for one series.

    All series share the same problems and learners, so that a program is compiled once for all
    series of the same length.
    """
    game, announced = problem(), problem(announced_cap=True)
    learner = taut.learner("half-space", game)
    advised = taut.Advised(learner)
    told = taut.Advised(taut.learner("half-space", announced))
    for name, demand in series(rounds).items():
        if only is not None and only != name:
            continue
        own = taut.simulate(learner, game, demand, x1=START)
        base = float(own.totals.loss[0])
        yield _row(name, "none (default)", own, base, None)
        alone: dict[str, Alone] = {}
        predicted = forecasts(demand)
        for kind, forecast in predicted.items():
            run = taut.simulate(advised, game, demand, x1=START, forecast=forecast)
            alone[kind] = with_cvxpy(demand, forecast)
            yield _row(name, kind, run, base, alone[kind])
        last = predicted["persistence"]
        run = taut.simulate(told, announced, demand, x1=START, forecast=last)
        yield _row(name, "persistence, cap announced", run, base, alone["persistence"])
        for kind, advice in (
            ("adversarial", adversarial(demand)),
            ("infeasible", infeasible(demand)),
        ):
            run = taut.simulate(advised, game, demand, x1=START, advice=advice)
            yield _row(name, kind, run, base, moved_inside(demand, advice))


def _row(name: str, kind: str, run: Any, base: float, alone: Alone | None) -> dict[str, Any]:
    loss = float(run.totals.loss[0])
    better = base if alone is None else min(base, alone.cost)
    return {
        "series": name,
        "advice": kind,
        "cost": loss,
        "violation": float(run.totals.violation[0, [0, -1]].max()),
        "advice alone": "" if alone is None else alone.cost,
        "its violation": "" if alone is None else alone.violation,
        "ratio": f"{loss / better:.4f}",
        "within 1 %": bool(loss <= LIMIT * better),
    }


def write(rows: list[dict[str, Any]]) -> None:
    """Write the table into the guide, and what infeasible advice costs beside the learner alone."""
    told = [row for row in rows if row["advice"] == "infeasible"]
    base = {row["series"]: row["cost"] for row in rows if row["advice"] == "none (default)"}
    ratios = ", ".join(f"{row['cost'] / base[row['series']]:.4f} ({row['series']})" for row in told)
    head = page.written_by("live", setting.machine())
    largest = max(rows, key=lambda row: float(row["ratio"]))
    note = f"The largest ratio is {largest['ratio']} ({largest['series']}, {largest['advice']}). "
    note += f"With infeasible advice the mixture costs, divided by the learner alone: {ratios}."
    page.put("live", "\n\n".join([head, page.table(TITLE, rows), note]), GUIDE)


def main() -> None:
    """Measure and print the table."""
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("--rounds", type=int, default=ROUNDS)
    words.add_argument("--series", help="one of packaged, " + ", ".join(FILES))
    words.add_argument("--json", action="store_true")
    words.add_argument("--page", action="store_true", help="write the table into the guide")
    asked = words.parse_args()
    rows = []
    for row in measure(asked.rounds, asked.series):
        rows.append(row)
        print(*map(cell, row.values()), sep=" | ", file=sys.stderr, flush=True)
    report("live", rows, asked.json, TITLE)
    if asked.page:
        write(rows)


if __name__ == "__main__":
    main()
