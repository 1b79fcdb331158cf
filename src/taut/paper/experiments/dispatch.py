"""Economic dispatch: three generators serve the demand under an emission cap (Fig. 3)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ...arena import demand as _demand
from ...arena.streams.dispatch import (
    BALANCE,
    COST,
    SLOPE,
    Choice,
    problem,
)
from ...judge.hindsight import hindsight
from ...play.simulate import simulate
from ...problem.constants import SYMBOLS
from ..contestants import FOR_CONVEX_LOSSES, Contestant, coordinates

if TYPE_CHECKING:
    import xarray

CHOICES = (Choice(), Choice(40.0), Choice(30.0), Choice(emission_slope=0.2), Choice(domain="box"))


def play(
    choice: Choice,
    series: _demand.Demand | None = None,
    contestants: Sequence[Contestant] = FOR_CONVEX_LOSSES,
) -> xarray.Dataset:
    """Simulate all learners over the ten days and return cost and largest excess per round."""
    import xarray as xr

    series = _demand.packaged() if series is None else series
    d = _demand.rescaled(series, choice.mean_demand)
    instance = problem(choice, float(d.max()))
    best = hindsight(instance, d).decision[0]
    runs = [
        simulate(
            contestant.make(instance.constants, len(d)), instance, d, record=("loss", "excess")
        )
        for contestant in contestants
    ]
    cost_of_best = np.sum(0.5 * COST * best**2 + SLOPE * best) + BALANCE * (np.sum(best) - d) ** 2
    return xr.Dataset(
        {
            "cost": (("contestant", "round"), np.concatenate([run.loss for run in runs])),
            "excess": (("contestant", "round"), np.concatenate([run.excess for run in runs])),
            "best_cost": (("round",), cost_of_best),
            "demand": (("round",), d),
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
