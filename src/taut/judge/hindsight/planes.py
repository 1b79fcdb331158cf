"""Cutting planes for losses with kinks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from ...engine import Array
from .cuts import Proof
from .feasible_set import Region
from .program import Level
from .result import relative_gap
from .tolerances import PLANE_PATIENCE, PLANE_STEPS, STOP, VALUE_ROUNDING


@dataclass
class Cutting:
    """The result of cutting planes: the best feasible points, mean losses there, lower bounds and
    multipliers."""

    u: Array
    value: Array
    lower: Array
    proofs: dict[int, Proof]
    steps: int = 0


@dataclass
class _Planes:
    """The planes of one element: slope @ y - offset is at most the loss of a group of rounds."""

    slopes: Array
    offsets: Array = field(default_factory=lambda: np.zeros(0))
    groups: Array = field(default_factory=lambda: np.zeros(0, int))

    def add(self, u: Array, values: Array, slopes: Array) -> None:
        """Add the planes that touch the groups' losses at `u`, where they are above the planes that
        are known."""
        known = np.full(len(values), -np.inf)
        np.maximum.at(known, self.groups, self.slopes @ u - self.offsets)
        new = np.flatnonzero(~(values <= known + VALUE_ROUNDING * np.abs(values)))
        self.slopes = np.concatenate([self.slopes, slopes[new]])
        self.offsets = np.concatenate([self.offsets, slopes[new] @ u - values[new]])
        self.groups = np.concatenate([self.groups, new])


def cutting_planes(
    tangents: Callable[[Array, Array], dict[int, tuple[Array, Array]]],
    region: Region,
    start: Array,
    mask: Array,
    tolerance: float,
) -> Cutting:
    """Kelley's method from `start` for the marked elements, with planes for groups of rounds.

    The minimiser of the sum of each group's largest plane over the feasible set is where the next
    planes are taken. Its value is a lower bound, made rigorous by the multipliers. It ends when the
    best feasible point is within `tolerance` of it.
    """
    count, size = start.shape
    planes = [_Planes(np.zeros((0, size))) for _ in range(count)]
    best = Cutting(start.copy(), np.full(count, np.inf), np.full(count, -np.inf), {})
    u, working, idle = start.copy(), mask.copy(), np.zeros(count, int)
    while working.any() and best.steps < PLANE_STEPS:
        best.steps += 1
        touching, elements = tangents(u, working), np.flatnonzero(working).tolist()
        if not all(np.isfinite(part).all() for both in touching.values() for part in both):
            raise ValueError(
                "loss: got a value or gradient that is not finite inside the domain; expected "
                "numbers"
            )
        idle += 1
        for e, relative_excess in zip(elements, region.tighten(elements, u), strict=True):
            values, slopes = touching[e]
            planes[e].add(u[e], values, slopes)
            value = float(values.sum())
            if relative_excess <= 1 and value < best.value[e]:
                best.u[e], best.value[e], idle[e] = u[e], value, 0
            lowest, bound, proof = _lowest(region, e, planes[e])
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


def _lowest(region: Region, e: int, planes: _Planes) -> tuple[Array, float, Proof]:
    """The feasible minimiser of the sum of the groups' largest planes, a proven lower bound on its
    value, and the multipliers.

    The multipliers of each group's planes add up to 1 if they are exact. Divided by their sum, they
    are weights of a mean of planes, which the group's loss is not below.
    """
    program, active, pool = region.with_planes(e, planes.slopes, planes.offsets)
    count = len(pool.keys)
    which = np.concatenate([np.zeros(count, int), planes.groups])
    relaxed = np.concatenate([np.zeros(count), np.ones(len(planes.offsets))])
    level = Level(np.zeros(len(program.rows)), np.zeros(len(program.quadratics)), relaxed, which)
    minimiser = program.least_violation(level, active)
    weights = minimiser.cuts[count:]
    sums = np.bincount(planes.groups, weights, level.levels)
    proof = Proof(minimiser, region.weights(pool, minimiser, minimiser.cuts[:count]))
    if not np.all(sums > 0):
        return minimiser.u, -np.inf, proof
    change = weights / sums[planes.groups] - weights
    slope, offset = (
        minimiser.slope + change @ planes.slopes,
        minimiser.offset + float(change @ planes.offsets),
    )
    least = float(region.scaling.least_change(slope[None], np.zeros((1, region.scaling.size)))[0])
    return minimiser.u, least - offset, proof
