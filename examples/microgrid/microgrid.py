"""A microgrid in live use: two generators and a battery follow a demand that is metered after each
decision, with ramp limits and a cap on emissions.

The operator has a controller already: CVXPY plans the next hour with yesterday's demand, corrected
by the last meter reading. It is the advice. Sometimes it does not answer, and from noon of the last
day on it is broken and plans for twice the demand. taut mixes it with its own learner, keeps the
ramps exactly, learns the cap from the rounds, and refuses a meter reading that cannot be true. In
the middle the process is started again from its file.

A decision is the power of both generators and the level of the battery after the step, so that the
battery's power is the difference to the previous decision.

Run with `python examples/microgrid/microgrid.py [figure.png]`.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import cvxpy as cp
import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd

import taut
from taut.arena.demand import packaged, rescaled
from taut.plots.style import new_figure, styled

DAY, ROUNDS, AHEAD = 288, 3 * 288, 12  # five-minute steps: of a day, in all, of a plan
COST, SLOPE, IMBALANCE = np.array([0.2, 0.14]), np.array([1.5, 0.6]), 10.0
LEVEL, HOLDING, WEAR = 6.0, 0.1, 0.2  # where the battery is kept, and what it costs
VALUE = 4.0  # of stored energy, about what the generators' last MW costs
EMISSION, CAP = np.array([0.26, 0.37]), 160.0
MOST, RAMP = np.array([22.0, 20.0, 12.0]), np.array([0.6, 0.8, 0.8])
START = pd.Series({"gas": 7.0, "diesel": 17.0, "level": 6.0})
COLOURS = ["#56B4E9", "#E69F00", "#009E73"]
DEFAULT = "#D55E00"  # the colour of the default learner in all figures
SILENT, BROKEN, ABSURD = 25, DAY // 2, 100
"""Every so many steps the controller does not answer; so many steps before the end it breaks; the
step with an absurd reading."""


def cost(x: jax.Array, z: Any, previous: jax.Array) -> jax.Array:
    """Return fuel, the energy taken from the battery with wear and holding cost, and the squared
    imbalance."""
    power, discharged = x[:2], previous[2] - x[2]
    fuel = jnp.sum(0.5 * COST * power**2 + SLOPE * power)
    battery = VALUE * discharged + HOLDING / 2 * (x[2] - LEVEL) ** 2 + WEAR / 2 * discharged**2
    return fuel + battery + IMBALANCE / 2 * (jnp.sum(power) + discharged - z["demand"]) ** 2


def ramps(x: jax.Array, z: Any, previous: jax.Array) -> dict[str, jax.Array]:
    """Return what the units would move beyond their ramps, which is known before a decision."""
    return {"up": x - previous - RAMP, "down": previous - x - RAMP}


GRID = taut.Problem(
    cost,
    lambda x: {"emissions": jnp.sum(EMISSION * x[:2] ** 2) / CAP - 1},
    taut.Box(np.zeros(3), MOST),
    previous=True,
    start=START.to_numpy(),
    announced=ramps,
    coordinate_names=list(START.index),
    domain_binds=True,
)


def meter() -> pd.DataFrame:
    """Return the readings by time: demand in MW, and what it was a day before."""
    series = packaged()
    values = rescaled(series, 26.0)[: ROUNDS + DAY]
    index = pd.DatetimeIndex(series.times[DAY : ROUNDS + DAY], name="time")
    return pd.DataFrame({"demand": values[DAY:], "day before": values[:ROUNDS]}, index=index)


class Controller:
    """The operator's own plan: the cheapest schedule for the demand that is expected."""

    def __init__(self) -> None:
        self._plan = cp.Variable((AHEAD, 3))
        self._before, self._expected = cp.Parameter(3), cp.Parameter(AHEAD)
        path = cp.vstack([cp.reshape(self._before, (1, 3), order="C"), self._plan])
        power, discharged = self._plan[:, :2], path[:-1, 2] - path[1:, 2]
        goal = cp.sum(cp.multiply(np.tile(0.5 * COST, (AHEAD, 1)), cp.square(power)))
        goal += cp.sum(power @ SLOPE) + WEAR / 2 * cp.sum_squares(discharged)
        goal += HOLDING / 2 * cp.sum_squares(self._plan[:, 2] - LEVEL) + VALUE * cp.sum(discharged)
        missing = cp.sum(power, axis=1) + discharged - self._expected
        emitted = cp.square(power) @ (EMISSION / CAP)
        goal += IMBALANCE / 2 * cp.sum_squares(missing) + 500 * cp.sum(cp.pos(emitted - 1))
        moved = cp.abs(path[1:] - path[:-1])
        limits = [self._plan >= 0, self._plan <= np.tile(MOST, (AHEAD, 1))]
        limits += [moved <= np.tile(RAMP, (AHEAD, 1))]
        self._problem = cp.Problem(cp.Minimize(goal), limits)

    def advice(self, t: int, readings: pd.DataFrame, previous: Any) -> Any:
        """Return what to play in step t, or None if there is no answer."""
        if t == 0 or t % SILENT == 0:
            return None
        yesterday = readings["day before"].to_numpy()
        error = readings["demand"].iloc[t - 1] - yesterday[t - 1]
        coming = yesterday[t : t + AHEAD]
        coming = np.pad(coming, (0, AHEAD - len(coming)), mode="edge")
        wrong = 2.0 if t >= ROUNDS - BROKEN else 1.0
        self._before.value, self._expected.value = previous, wrong * (coming + error)
        self._problem.solve(solver=cp.CLARABEL)
        plan = self._plan.value
        return None if plan is None else np.clip(plan[0], 0, MOST)


def operated(readings: pd.DataFrame, file: Path) -> tuple[taut.Player, pd.DataFrame]:
    """Play all steps; return the player, and the decisions with the weight of the advice."""
    learner = taut.Advised(taut.learner("half-space", GRID))
    limits = {"demand": taut.Limits(5.0, 60.0)}
    player = taut.Player(learner, GRID, x1=START.to_numpy(), limits=limits)
    controller, previous, rows = Controller(), START.to_numpy(), []
    for t, (time, reading) in enumerate(readings.iterrows()):
        if t == ROUNDS // 2:  # the process is started again
            player.save(file)
            player = taut.Player.load(file, GRID, learner, limits=limits)
        previous = player.decide(advice=controller.advice(t, readings, previous))
        weight = player.state()["weights"][1]
        if t == ABSURD:
            try:
                player.observe({"demand": 1e4})
            except ValueError as refused:
                print(f"{time}: {refused}")
        player.observe({"demand": reading["demand"]})
        rows.append([*previous, weight])
    columns = [*START.index, "weight"]
    return player, pd.DataFrame(rows, columns=columns, index=readings.index)


@styled
def figure(readings: pd.DataFrame, steps: pd.DataFrame) -> Any:
    """Draw what an operator looks at: power, battery and weight of the advice, emissions."""
    made, (left, middle, right) = new_figure(3, narrow=False)
    hours = np.arange(len(steps)) / 12
    level = np.concatenate([[START["level"]], steps["level"]])
    parts = [steps["gas"], steps["diesel"], np.maximum(-np.diff(level), 0)]
    left.stackplot(hours, parts, labels=["gas", "diesel", "battery"], colors=COLOURS)
    left.plot(hours, readings["demand"], color="black", linewidth=1, label="demand")
    left.set(title="(a) power", xlabel="hour", ylabel="MW", ylim=(0, 46))
    left.legend(loc="upper left", ncols=2, fontsize="small")
    middle.plot(hours, steps["level"] / MOST[2], color=COLOURS[2], label="battery level")
    middle.plot(hours, steps["weight"], color="#0072B2", label="weight of the advice")
    middle.axvline((ROUNDS - BROKEN) / 12, color="black", linestyle="--", linewidth=1)
    middle.set(title="(b) the controller breaks at the line", xlabel="hour", ylim=(-0.02, 1.35))
    middle.legend(loc="upper left", fontsize="small")
    emitted = (steps[["gas", "diesel"]].to_numpy() ** 2 @ EMISSION) / CAP
    right.plot(hours, emitted, color=DEFAULT)
    right.axhline(1.0, color="black", linestyle="--", linewidth=1)
    right.set(title="(c) emissions", xlabel="hour", ylabel="share of the cap")
    return made


def main(path: Path) -> pd.DataFrame:
    """Operate the grid, compare with the learner and the controller alone, and draw the figure."""
    jax.config.update("jax_enable_x64", True)
    readings = meter()
    with tempfile.TemporaryDirectory() as folder:
        player, steps = operated(readings, Path(folder) / "grid.npz")
    alone = taut.simulate(GRID, readings[["demand"]], x1=START.to_numpy())
    whole = _alone(readings)
    print(player.history.to_frame().tail(3).round(3))
    print(player.certificate())
    costs = {"advised": player.totals.loss, "learner alone": alone.totals.loss[0], **whole}
    for name, total in costs.items():
        print(f"{name}: {float(total):,.0f}")
    figure(readings, steps).savefig(path, dpi=150)
    return steps


def _alone(readings: pd.DataFrame) -> dict[str, float]:
    """Return what the controller costs alone; where it does not answer, its decision stays."""
    controller, previous, total = Controller(), START.to_numpy(), 0.0
    for t, demand in enumerate(readings["demand"]):
        told = controller.advice(t, readings, previous)
        x = previous if told is None else told
        total += float(cost(x, {"demand": demand}, previous))
        previous = x
    return {"controller alone": total}


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).with_suffix(".png"))
