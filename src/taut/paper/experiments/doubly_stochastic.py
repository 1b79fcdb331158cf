"""Approximation by doubly stochastic matrices (Fig. 2). Losses are strongly convex; each equality
is two inequalities."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ...arena.streams.doubly_stochastic import Choice, permutations, problem
from ...engine import Array
from ...judge.hindsight import hindsight
from ...runs import metrics
from ...sweeps import Cell, sweep
from ..contestants import FOR_STRONGLY_CONVEX_LOSSES, Contestant, contest

if TYPE_CHECKING:
    import xarray


CHOICES = (Choice(), Choice(5), Choice(15))


def play(
    choice: Choice,
    horizons: Sequence[int],
    seeds: int,
    contestants: Sequence[Contestant] = FOR_STRONGLY_CONVEX_LOSSES,
) -> xarray.Dataset:
    """Simulate all learners for all horizons and sequences."""
    instance, orders = problem(choice), permutations(choice.size, seeds, max(horizons))
    best = hindsight(instance, orders, seeds=seeds, prefixes=list(horizons))
    data = contest(contestants, instance, orders, horizons, seeds, best.loss)
    data["excess"] = (data["violation"].dims, _signed(contestants, choice, orders, horizons, seeds))
    data.attrs |= {"choice": choice.label, "size": choice.size}
    return data


def _signed(
    contestants: Sequence[Contestant],
    choice: Choice,
    orders: Array,
    horizons: Sequence[int],
    seeds: int,
) -> Array:
    """Return the largest signed sum of a single constraint, by (contestant, seed, horizon).

    The aggregated constraint max(h, -h) is never negative, so its signed sum cannot cancel. The
    sums of single constraints can.
    """
    played, single = problem(choice), problem(choice, aggregated=False)
    cells = [
        Cell(
            contestant.make(played.constants, max(horizons) if contestant.anytime else horizon),
            played,
            orders,
            horizon=horizon,
            seeds=seeds,
            name=f"{contestant.name} / {horizon}",
            score=single,
        )
        for contestant in contestants
        for horizon in horizons
    ]
    result = sweep(cells, progress=False).check()
    columns = [
        [metrics.excess(result[f"{contestant.name} / {horizon}"]) for horizon in horizons]
        for contestant in contestants
    ]
    return np.moveaxis(np.asarray(columns), 1, -1)
