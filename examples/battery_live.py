"""A battery and a generator, live: ramps, a state of charge and a grid connection in CVXPY.

Every five minutes we fix the state of charge and the output of a generator. Then demand and price
are revealed. What is missing is bought from the grid, whose connection has a limit. The battery
and the generator can move only so far in a step, which is known before the decision (announced).

Run with `python examples/battery_live.py [figure.png or animation.gif]`.
"""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import Any

import cvxpy as cp
import jax
import numpy as np
from PIL import Image

import taut
from taut.arena.demand import packaged
from taut.plots.style import new_figure, styled

STEPS, STEPS_PER_DAY = 3 * 288, 288
BATTERY, GENERATOR, LINE = 2.0, 1.0, 2.2
START = np.array([1.0, 0.5])
ORANGE, BLUE, GREEN = "#D55E00", "#0072B2", "#1E6B43"


# The model: begin.
def model() -> Any:
    """Return the problem."""
    x = cp.Variable(2, name="x", bounds=[np.zeros(2), np.array([BATTERY, GENERATOR])])
    demand = cp.Parameter(name="demand", bounds=[0, 4])
    price = cp.Parameter(name="price", bounds=[-1, 1])  # relative to the usual price
    charge, output = x[0], x[1]
    stored = charge - taut.previous(x)[0]
    bought = demand + stored - output
    return taut.from_cvxpy(
        loss=price * bought + 0.2 * cp.square(output) + 0.02 * cp.square(bought),
        constraints=[bought <= LINE],
        announced=[cp.abs(stored) <= 0.1, cp.abs(output - taut.previous(x)[1]) <= 0.05],
        start=START,
        domain_binds=True,
    )


def live(problem: Any, data: dict[str, Any]) -> Any:
    """Play round by round, as a controller would; return decisions and purchases."""
    player = taut.Player(problem, x1=START)
    decisions = []
    for demand, price in zip(data["demand"], data["price"], strict=True):
        decisions.append(player.decision)  # send it to battery and generator
        player.observe({"demand": demand, "price": price})  # five minutes later
    return np.array(decisions), player


# The model: end.


def market() -> dict[str, Any]:
    """Return demand and price of each step; the price is high when the demand is."""
    demand = packaged().values[:STEPS] / 10_000
    return {"demand": demand, "price": np.clip(2.5 * (demand - demand.mean()), -1, 1)}


@styled
def figure(decisions: Any, data: dict[str, Any], until: int) -> Any:
    """Draw the first `until` rounds: what is bought and the limit, and the two decisions."""
    hours = np.arange(until) / 12
    before = np.concatenate([START[None], decisions[: until - 1]])
    bought = data["demand"][:until] + (decisions[:until, 0] - before[:, 0]) - decisions[:until, 1]
    made, (left, right) = new_figure(2, narrow=False, width=3.8, height=2.9)
    left.plot(hours, data["demand"][:until], color="black", linewidth=0.9)
    left.plot(hours, bought, color=ORANGE, linewidth=1.4)
    left.axhline(LINE, color="black", linestyle="--", linewidth=1)
    left.axhspan(LINE, 3.4, color="#B00020", alpha=0.06, linewidth=0)
    left.set(title="Demand (black), bought (orange), limit (dashed)", ylim=(0.8, 3.4))
    right.plot(hours, decisions[:until, 0], color=BLUE, label="battery, stored")
    right.plot(hours, decisions[:until, 1], color=GREEN, label="generator, output")
    right.legend(loc="upper right")
    right.set(title="Decisions, made before demand and price are known", ylim=(0, 2.1))
    for axes in (left, right):
        axes.set(xlabel="hour", xlim=(0, STEPS / 12))
    return made


def animate(decisions: Any, data: dict[str, Any], path: Path, frames: int = 48) -> None:
    """Store the animation: the rounds one after the other."""
    pictures = []
    for until in np.linspace(12, len(decisions), frames).astype(int):
        drawn = io.BytesIO()
        figure(decisions, data, int(until)).savefig(drawn, dpi=80)
        pictures.append(Image.open(drawn).convert("P", palette=Image.Palette.ADAPTIVE, colors=32))
    pictures[0].save(
        path, save_all=True, append_images=pictures[1:], duration=120, loop=0, optimize=True
    )


def main(path: Path) -> Any:
    """Play three days, print what was violated, and draw the figure or the animation."""
    jax.config.update("jax_enable_x64", True)
    data = market()
    decisions, player = live(model(), data)
    ramp = np.abs(np.diff(decisions, axis=0)).max(axis=0)
    print(f"largest step: battery {ramp[0]:.4f} of 0.1, generator {ramp[1]:.4f} of 0.05")
    total, peak = np.max(player.totals.violation), np.max(player.totals.peak)
    print(f"clipped violation {total:.3f}, peak violation {peak:.3f}")
    if path.suffix == ".gif":
        animate(decisions, data, path)
    else:
        figure(decisions, data, len(decisions)).savefig(path, dpi=150)
    return player


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).with_suffix(".png"))
