"""Battery arbitrage: buy energy when it is cheap, sell it when it is expensive, with losses on both
ways.

The decision is the state of charge after the step, so the energy that is bought is its difference
to the previous decision. What the inverter can do in five minutes is known before the decision: an
announced constraint. The price of the step is not known before; it follows California's demand
here. Stored energy is valued at the mean price of the last day, otherwise a loss of one round would
never be a reason to buy.

Run with `python examples/battery.py [figure.png]`.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import taut
from taut.arena.demand import packaged
from taut.plots.style import new_figure, styled

CAPACITY, POWER, EFFICIENCY = (
    4.0,
    1.0,
    0.95,
)  # MWh, MW, share that is left after charging, and after discharging
STEP, STEPS_PER_DAY, DAYS = 1 / 12, 288, 10  # hours
START = np.array([0.5 * CAPACITY])
BLUE, ORANGE, GREEN = "#0072B2", "#E69F00", "#009E73"


def paid(x: Any, price: Any, previous: Any) -> Any:
    """What the step costs: energy bought at the price, or minus what selling earns."""
    change = x - previous
    return price * jnp.maximum(change / EFFICIENCY, change * EFFICIENCY)


def cost(x: jax.Array, z: jax.Array, previous: jax.Array) -> jax.Array:
    """What was paid, minus the value of the energy that was added."""
    price, usual = z
    return jnp.sum(paid(x, price, previous) - usual * (x - previous))


def inverter(x: jax.Array, z: jax.Array, previous: jax.Array) -> jax.Array:
    """Energy moved in the step beyond what the inverter can move."""
    return jnp.abs(x - previous) - POWER * STEP


def prices() -> Any:
    """Return a price per MWh for each step, higher with demand, and the mean of the day before
    it."""
    demand = packaged().values[: STEPS_PER_DAY * DAYS]
    price = 20 + 80 * ((demand - demand.min()) / np.ptp(demand)) ** 2
    sums = np.concatenate([[0.0], np.cumsum(price)])
    before = np.maximum(np.arange(len(price)) - STEPS_PER_DAY, 0)
    count = np.maximum(np.arange(len(price)) - before, 1)
    usual = (sums[: len(price)] - sums[before]) / count
    usual[0] = price[0]
    return np.stack([price, usual], axis=1)


@styled
def figure(run: Any, z: Any, earned: Any) -> Any:
    """Draw prices, the state of charge, and what was earned."""
    days = np.arange(len(z)) / STEPS_PER_DAY
    made, (left, middle, right) = new_figure(3, narrow=False)
    left.plot(days, z[:, 0], color=ORANGE, label="price", linewidth=0.8)
    left.plot(
        days, z[:, 1], color="black", linestyle="--", linewidth=0.8, label="mean of the last day"
    )
    left.legend()
    left.set(title="(a) prices", xlabel="day", ylabel="per MWh")
    middle.plot(days, run.decisions[0, :, 0], color=BLUE, linewidth=0.8)
    middle.set(title="(b) state of charge", xlabel="day", ylabel="MWh", ylim=(0, CAPACITY))
    right.plot(days, np.cumsum(earned), color=GREEN)
    right.axhline(0, color="black", linewidth=0.7)
    right.set(title="(c) earned so far", xlabel="day", ylabel="money")
    return made


def main(path: Path) -> None:
    """Simulate ten days, print what was earned and violated, and draw the figure."""
    jax.config.update("jax_enable_x64", True)
    z = prices()
    domain = taut.Box(np.zeros(1), np.full(1, CAPACITY))
    problem = taut.Problem(
        cost, None, domain, previous=True, start=START, announced=inverter, domain_binds=True
    )
    learner = taut.HalfSpace(
        eta=POWER * STEP / 10, diameter=CAPACITY
    )  # full power if price and value differ by 10 or more
    run: Any = taut.simulate(learner, problem, z, x1=START, record=("loss", "excess", "decisions"))
    charge = np.concatenate([START, run.decisions[0, :, 0]])
    earned = -np.asarray(paid(charge[1:], z[:, 0], charge[:-1]))
    left = z[-1, 1] * (charge[-1] - START[0])
    print(
        f"earned {earned.sum():.1f} in {len(z) // STEPS_PER_DAY} days; energy worth {left:.1f} "
        "more than at the start is left"
    )
    print(f"peak violation of the inverter's limit: {run.totals.peak[0, 0]:.2g}")
    best = taut.hindsight(problem, z)  # a fixed state of charge neither buys nor sells
    print(
        f"policy regret {taut.metrics.regret(run, best)[0]:.1f}: negative, because no fixed state "
        "of charge earns anything"
    )
    figure(run, z, earned).savefig(path, dpi=150)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).with_suffix(".png"))
