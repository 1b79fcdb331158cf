"""Forty thousand advertising budgets as one fleet: each campaign buys shares of the traffic of four
channels, hour by hour, and must not spend more than its own budget in any hour.

After two days the traffic jumps: the same shares suddenly cost two and a half times as much. Some
campaigns end and others begin, some reports are missing or broken, and the process is started again
from its folder in the middle.

Run with `python examples/pacing/pacing.py [figure.png]`.
"""

from __future__ import annotations

import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd

import taut
from taut.plots.style import new_figure, styled

CAMPAIGNS, HOURS, CHANNELS = 40_000, 96, 4
JUMP, FACTOR = HOURS // 2, 2.5
DEFAULT = "#D55E00"  # the colour of the default learner in all figures
"""The hour before which the traffic jumps, and by how much."""

PACING = taut.Problem(
    loss=lambda x, z: -z["value"] @ jnp.log1p(4 * x),
    constraints=lambda x, z: z["cost"] @ x / z["budget"] - 1,  # spent, as a share of the budget
    domain=taut.Box(0.0, 1.0, shape=CHANNELS),
    constants=taut.Constants(constraint_count=1),
    coordinate_names=["search", "video", "social", "partners"],
)


class Market:
    """Value and cost of all traffic of an hour, which campaigns learn only afterwards."""

    def __init__(self, seed: int = 0) -> None:
        self._random = np.random.default_rng(seed)

    def hour(self, hour: int, campaigns: int) -> dict[str, Any]:
        """Return the reports of so many campaigns."""
        day = 1 + 0.4 * np.sin(2 * np.pi * (hour - 15) / 24)
        traffic = day * (FACTOR if hour >= JUMP else 1.0)
        noise = self._random.uniform(0.7, 1.3, (2, campaigns, CHANNELS))
        value = np.array([2.0, 1.4, 1.0, 0.6]) * traffic * noise[0]
        return {"value": value, "cost": np.array([1.0, 0.8, 0.7, 0.5]) * traffic * noise[1]}


def budgets(count: int, seed: int) -> pd.DataFrame:
    """Return the budgets of new campaigns per hour, most of them small."""
    names = [f"campaign {seed}-{i}" for i in range(count)]
    amounts = np.random.default_rng(seed).lognormal(-0.3, 0.5, count)
    return pd.DataFrame({"budget": amounts}, index=pd.Index(names, name="campaign"))


def played(folder: Path) -> pd.DataFrame:
    """Play all hours; return how much of their budgets campaigns spent, by hour."""
    first = budgets(CAMPAIGNS, seed=1)
    fleet = taut.Fleet("half-space", PACING, first.index, first, x1=np.zeros(CHANNELS))
    market, rows = Market(), []
    for hour in range(HOURS):
        if hour == JUMP // 2:  # one campaign in ten ends, and others begin in their place
            fleet.leave(fleet.ids[::10])
            new = budgets(len(range(0, CAMPAIGNS, 10)), seed=2)
            fleet.join(new.index, new)
        if hour == JUMP + 2:  # the process is started again
            fleet.save(folder)
            fleet = taut.Fleet.load(folder, PACING)
        reports = market.hour(hour, len(fleet))
        spent = np.sum(reports["cost"] * fleet.decisions(), axis=1)
        shares = spent / fleet.parameters()["budget"]
        silent = np.arange(len(fleet)) % 50 == hour % 50
        reports["cost"][~silent & (np.arange(len(fleet)) % 997 == hour)] = np.nan
        _observe(fleet, reports, silent)
        spread = np.quantile(shares, [0.05, 0.5, 0.95])
        rows.append([*spread, np.mean(shares > 1.0), np.mean(fleet.totals().peak)])
    columns = ["low", "median", "high", "above", "peak"]
    return pd.DataFrame(rows, columns=columns, index=pd.RangeIndex(HOURS, name="hour"))


def _observe(fleet: taut.Fleet, reports: dict[str, Any], silent: Any) -> None:
    """Tell the fleet what was reported. A silent campaign, and one whose report is broken, keeps
    its decision."""
    ids = np.array(fleet.ids)
    with warnings.catch_warnings():  # broken reports are expected here
        warnings.simplefilter("ignore", RuntimeWarning)
        refused = fleet.observe(
            ids[~silent], {name: rows[~silent] for name, rows in reports.items()}
        )
    fleet.skip([*ids[silent], *refused], reason="no usable report")


@styled
def figure(hours: pd.DataFrame) -> Any:
    """Draw what campaigns spent of their budgets, and how many spent too much."""
    made, (left, right) = new_figure(2, narrow=False)
    left.fill_between(
        hours.index, hours["low"], hours["high"], color=DEFAULT, alpha=0.25, linewidth=0
    )
    left.plot(hours.index, hours["median"], color=DEFAULT)
    left.axhline(1.0, color="black", linestyle="--", linewidth=1)
    left.set(
        title=f"(a) {CAMPAIGNS:,} campaigns: median and 90 %",
        xlabel="hour",
        ylabel="spent, share of the budget",
        ylim=(0, None),
    )
    right.plot(hours.index, 100 * hours["above"], color=DEFAULT)
    right.set(title="(b) campaigns above their budget", xlabel="hour", ylabel="per cent")
    return made


def main(path: Path) -> pd.DataFrame:
    """Play four days, print what happened around the jump, and draw the figure."""
    jax.config.update("jax_enable_x64", True)
    with tempfile.TemporaryDirectory() as folder:
        hours = played(Path(folder) / "fleet")
    print(hours.iloc[JUMP - 2 : JUMP + 6].round(3))
    figure(hours).savefig(path, dpi=150)
    return hours


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).with_suffix(".png"))
