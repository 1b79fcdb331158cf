"""Economic dispatch: three generators serve the demand under an emission cap (Fig. 3)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ...arena import demand as _demand
from ...arena.streams.dispatch import (
    BALANCE,
    CAP,
    COST,
    DAY,
    EMISSION,
    LIMIT,
    SLOPE,
    Choice,
    problem,
)
from ...engine import Array
from ...judge.hindsight import hindsight
from ...problem.constants import SYMBOLS
from ..contestants import Contestant, coordinates, for_convex_losses, runs_of

if TYPE_CHECKING:
    import xarray

__all__ = [
    "BALANCE",
    "CAP",
    "CHOICES",
    "COST",
    "DAY",
    "EMISSION",
    "LIMIT",
    "SLOPE",
    "Choice",
    "play",
    "problem",
]

CHOICES = (Choice(), Choice(40.0), Choice(30.0), Choice(emission_slope=0.2), Choice(domain="box"))


def play(
    choice: Choice,
    series: _demand.Demand | None = None,
    contestants: Sequence[Contestant] | None = None,
) -> xarray.Dataset:
    """Simulate all learners over the ten days and return cost and largest excess per round."""
    import xarray as xr

    contestants = for_convex_losses() if contestants is None else contestants
    series = _demand.packaged() if series is None else series
    d = _demand.rescaled(series, choice.mean_demand)
    instance = problem(choice, float(d.max()))
    best = hindsight(instance, d)
    runs = runs_of(contestants, instance, d, len(d), ("loss", "excess"))
    return xr.Dataset(
        {
            "cost": (("contestant", "round"), np.concatenate([run.loss for run in runs])),
            "excess": (("contestant", "round"), np.concatenate([run.excess for run in runs])),
            "best_cost": (("round",), _cost_of(best.decision[0], d)),
            "best": (("generator",), best.decision[0]),
            "demand": (("round",), d),
            "demand_mw": (("round",), series.values),
            "hours": (("round",), np.asarray(series.elapsed, float)),
        },
        coords=coordinates(contestants, instance, len(d)) | {"round": np.arange(1, len(d) + 1)},
        attrs={
            "choice": choice.label,
            "source": series.source,
            "mean_demand": choice.mean_demand,
            "constants": ", ".join(
                f"{SYMBOLS[n]} = {v:.4g}"
                for n in SYMBOLS
                if (v := getattr(instance.constants, n)) is not None
            ),
        },
    )


def _cost_of(x: Array, d: Array) -> Array:
    return np.asarray(np.sum(0.5 * COST * x * x + SLOPE * x) + BALANCE * (np.sum(x) - d) ** 2)
