"""The decision whose largest constraint value is smallest, for elements (seed, prefix) without a
feasible decision."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ...engine import Array
from .program import Level
from .tolerances import LEAST_VIOLATION, TANGENTS_AT_ONCE, VIOLATION_STEPS

if TYPE_CHECKING:
    from .cuts import Key
    from .feasible_set import Region

__all__ = ["LeastViolation", "least_violation"]


class LeastViolation(NamedTuple):
    """The least-violating point that was found, its largest constraint value, and a proven lower
    bound on that value."""

    u: Array
    violation: float
    bound: float


def least_violation(region: Region, e: int, weights: Array) -> LeastViolation:
    """Kelley's method for min over the domain of max_i g_i / w_i, with weights w (over all rounds
    of element `e`, if constraints change).

    The minimiser over the tangents known so far is where the next tangents are taken. Multipliers
    bound its value from below.
    """
    pool, program = region.group_of(e).pool, region.group_of(e).outer.copy()
    rows = weights[region.structure.affine[region.row_of]] / region.lengths
    best = LeastViolation(np.zeros(region.scaling.size), np.inf, -np.inf)
    for _ in range(VIOLATION_STEPS):
        program.set_cuts(*pool.arrays())
        active = pool.active(int(region.rounds[e])) if region.varying else None
        cuts = weights[[i for i, _ in pool.keys]] / np.asarray(pool.lengths)
        level = Level(rows, np.zeros(0), cuts)
        minimiser = program.least_violation(level, active)
        least = float(
            region.scaling.least_change(minimiser.slope[None], np.zeros((1, region.scaling.size)))[
                0
            ]
        )
        if minimiser.weight > 0:
            best = best._replace(
                bound=max(best.bound, (least - minimiser.offset) / minimiser.weight)
            )
        if not np.isfinite(minimiser.u).all():
            break
        u = region.scaling.project(minimiser.u[None])[0]
        violation, keys = _above(region, e, u, weights, best.bound)
        if violation < best.violation:
            best = best._replace(u=u, violation=violation)
        if best.violation - best.bound <= LEAST_VIOLATION * max(1.0, abs(best.violation)):
            break
        points = np.repeat(u[None], len(keys), axis=0)
        tangents = region.oracle.tangents(keys, points, [int(region.seeds[e])] * len(keys))
        if not any([pool.add(tangent) for tangent in tangents]):
            break
    return best


def _above(
    region: Region, e: int, u: Array, weights: Array, level: float
) -> tuple[float, list[Key]]:
    """The largest weighted value of the element's constraints at `u`, and the constraints above the
    level, largest first."""
    values, rounds = region.worst(e, u)
    values = values / weights
    order = np.argsort(values, axis=None)[::-1][:TANGENTS_AT_ONCE]
    picked = [np.unravel_index(int(i), values.shape) for i in order if values.flat[i] > level]
    return float(values.max()), [(int(i), int(rounds[block, i])) for block, i in picked]
