"""Cutting planes for losses with kinks. Each plane of the mean loss costs one pass over the stream for all elements."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ...engine import Array
from .feasible_set import Region
from .lower_bound import Proof
from .program import Level
from .result import relative_gap
from .stream_sums import Taylor
from .tolerances import PLANE_PATIENCE, PLANE_STEPS, STOP

__all__ = ["Cutting", "cutting_planes"]


@dataclass
class Cutting:
    """The result of cutting planes: the best feasible points, mean losses there, lower bounds and multipliers."""

    u: Array
    value: Array
    lower: Array
    proofs: dict[int, Proof]
    steps: int = 0


def cutting_planes(
    value_slope: Callable[[Array, Array], Taylor], region: Region, start: Array, mask: Array, tolerance: float
) -> Cutting:
    """Kelley's method from `start` for the marked elements.

    The minimiser of the largest plane over the feasible set is where the next plane is taken. Its value is a lower
    bound, made rigorous by the multipliers. It ends when the best feasible point is within `tolerance` of it.
    """
    count, size = start.shape
    slopes = [np.zeros((0, size)) for _ in range(count)]
    offsets = [np.zeros(0) for _ in range(count)]
    best = Cutting(start.copy(), np.full(count, np.inf), np.full(count, -np.inf), {})
    u, working, idle = start.copy(), mask.copy(), np.zeros(count, int)
    while working.any() and best.steps < PLANE_STEPS:
        best.steps += 1
        model, elements = value_slope(u, working), np.flatnonzero(working).tolist()
        if not (np.isfinite(model.slope[elements]).all() and np.isfinite(model.value[elements]).all()):
            raise ValueError("loss: got a value or gradient that is not finite inside the domain; expected numbers")
        idle += 1
        for e, relative_excess in zip(elements, region.tighten(elements, u), strict=True):
            slopes[e] = np.vstack([slopes[e], model.slope[e]])
            offsets[e] = np.append(offsets[e], model.slope[e] @ u[e] - model.value[e])
            if relative_excess <= 1 and model.value[e] < best.value[e]:
                best.u[e], best.value[e], idle[e] = u[e], model.value[e], 0
            lowest, bound, proof = _lowest(region, e, slopes[e], offsets[e])
            if not np.isfinite(lowest).all():
                idle[e] = PLANE_PATIENCE
                continue
            u[e] = lowest
            if bound > best.lower[e]:
                best.lower[e], best.proofs[e], idle[e] = bound, proof, 0
        u[elements] = region.scaling.project(u[elements])
        found = np.isfinite(best.value)
        gap = relative_gap(np.where(found, best.value, 0), best.lower, region.rounds)
        working &= ~(found & (gap <= STOP * tolerance)) & (idle < PLANE_PATIENCE)
    return best


def _lowest(region: Region, e: int, slopes: Array, offsets: Array) -> tuple[Array, float, Proof]:
    """The feasible minimiser of the largest plane, a proven lower bound on its value, and the multipliers."""
    program, active, pool = region.with_planes(e, slopes, offsets)
    count = len(pool.keys)
    level = Level(np.zeros(len(program.rows)), np.zeros(0), np.append(np.zeros(count), np.ones(len(offsets))))
    minimiser = program.least_violation(level, active)
    weight = minimiser.weight if minimiser.weight > 0 else 1.0
    least = float(region.scaling.least_change(minimiser.slope[None], np.zeros((1, region.scaling.size)))[0])
    proof = Proof.of(minimiser, pool.weights(minimiser.cuts[:count] / weight), minimiser.rows / region.lengths, weight)
    return minimiser.u, (least - minimiser.offset) / weight if minimiser.weight > 0 else -np.inf, proof
