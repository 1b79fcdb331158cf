"""The toy problem of the paper: linear losses under an l1 constraint in two dimensions (Fig. 1 and
appendix A)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ...arena.streams.toy import Choice, costs, problem
from ...engine import Array
from ...judge.hindsight import hindsight
from ...play.simulate import simulate
from ..contestants import FOR_CONVEX_LOSSES, Contestant, contest

if TYPE_CHECKING:
    import xarray

TRAJECTORY = 8000
CHOICES = (Choice(), Choice(2**0.5), Choice(1.2))


def play(
    choice: Choice,
    horizons: Sequence[int],
    seeds: int,
    contestants: Sequence[Contestant] = FOR_CONVEX_LOSSES,
) -> xarray.Dataset:
    """Simulate all learners for all horizons and sequences, and record the decisions on one
    sequence."""
    instance, c = problem(choice), costs(seeds, max(*horizons, TRAJECTORY))
    best = hindsight(instance, c, seeds=seeds, prefixes=list(horizons))
    data = contest(contestants, instance, c, horizons, seeds, best.loss)
    walk = min(TRAJECTORY, max(horizons))
    star = hindsight(instance, c[:1], seeds=1, horizon=walk).decision[0]
    runs = [
        simulate(
            contestant.make(instance.constants, walk), instance, c[0, :walk], record="decisions"
        )
        for contestant in contestants
    ]
    paths = np.stack([np.asarray(run.decisions)[0] for run in runs])
    data["trajectory"] = (("contestant", "round", "axis"), paths)
    data["star"] = (("axis",), star)
    for name, values in _habits(paths, star, choice.radius).items():
        data[f"walk_{name}"] = (("contestant",), values)
    data.attrs |= {"choice": choice.label, "radius": choice.radius, "walk": walk}
    return data


def _habits(paths: Array, star: Array, radius: float) -> dict[str, Array]:
    """Describe the trajectory of every learner by numbers, such as the share of rounds near the
    boundary."""
    g = np.abs(paths).sum(axis=-1) - 1
    habits: dict[str, list[float]] = {
        name: [] for name in ("near", "crossings", "high", "low", "share", "ring", "miss")
    }
    for path, excess in zip(paths, g, strict=True):
        touches = np.flatnonzero(excess >= -0.02)
        first = int(touches[0]) if touches.size else len(excess) - 1
        after = excess[first:]
        habits["near"].append(float(np.mean(np.abs(after) <= 0.05)))
        habits["crossings"].append(float(np.sum(np.diff(np.sign(after)) != 0)))
        habits["high"].append(float(after.max()))
        habits["low"].append(float(after.min()))
        habits["share"].append(float(np.mean(excess > 0)))
        # On the outer ball and clearly outside the constraint, because for R = 1 the optimum itself
        # is on the ball.
        ring = (np.linalg.norm(path, axis=-1) >= radius * (1 - 1e-3)) & (excess > 0.1)
        habits["ring"].append(float(np.mean(ring)))
        habits["miss"].append(float(np.linalg.norm(path[-len(path) // 20 :].mean(axis=0) - star)))
    return {name: np.asarray(values) for name, values in habits.items()}
