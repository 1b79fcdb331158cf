"""Losses with kinks: cutting planes for the aggregate itself, each plane one pass over the stream for all elements."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from .feasible_set import Region
from .lower_bound import Proof
from .program import Level
from .scaling import Array, least_over_domain, onto_domain
from .stream_sums import Model

__all__ = ["Cutting", "cutting_planes"]

STEPS = 1000
PATIENCE = 40
"""Steps without any progress after which more would not help."""


@dataclass
class Cutting:
    """Where cutting planes arrived: the best feasible points, mean losses there, lower bounds and multipliers."""

    u: Array
    value: Array
    lower: Array
    proofs: dict[int, Proof]
    steps: int = 0


def cutting_planes(
    losses: Callable[[Array, Array], Model], region: Region, start: Array, todo: Array, tolerance: float
) -> Cutting:
    """Kelley's method from `start` for the marked elements.

    The minimiser of the largest plane over the feasible set is where the next plane is taken. Its value is a lower
    bound, made rigorous by the multipliers. It ends when the best feasible point is within `tolerance` of it.
    """
    count, size = start.shape
    slopes = [np.zeros((0, size)) for _ in range(count)]
    offsets = [np.zeros(0) for _ in range(count)]
    best = Cutting(start.copy(), np.full(count, np.inf), np.full(count, -np.inf), {})
    u, working, idle = start.copy(), todo.copy(), np.zeros(count, int)
    while working.any() and best.steps < STEPS:
        best.steps += 1
        model, elements = losses(u, working), np.flatnonzero(working).tolist()
        if not (np.isfinite(model.slope[elements]).all() and np.isfinite(model.value[elements]).all()):
            raise ValueError("loss: got a value or gradient that is not finite inside the domain; expected numbers")
        idle += 1
        for e, share in zip(elements, region.tighten(elements, u), strict=True):
            slopes[e] = np.vstack([slopes[e], model.slope[e]])
            offsets[e] = np.append(offsets[e], model.slope[e] @ u[e] - model.value[e])
            if share <= 1 and model.value[e] < best.value[e]:
                best.u[e], best.value[e], idle[e] = u[e], model.value[e], 0
            lowest, bound, proof = _lowest(region, e, slopes[e], offsets[e])
            if not np.isfinite(lowest).all():
                idle[e] = PATIENCE
                continue
            u[e] = lowest
            if bound > best.lower[e]:
                best.lower[e], best.proofs[e], idle[e] = bound, proof, 0
        u[elements] = onto_domain(region.frame, u[elements])
        known = np.where(np.isfinite(best.value), np.abs(best.value), 0)
        near = best.value - best.lower <= tolerance / 2 * np.maximum(1 / region.rounds, known)
        working &= ~near & (idle < PATIENCE)
    return best


def _lowest(region: Region, e: int, slopes: Array, offsets: Array) -> tuple[Array, float, Proof]:
    """The feasible minimiser of the largest plane, a proven lower bound on its value, and the multipliers."""
    program, active, pool = region.with_planes(e, slopes, offsets)
    count = len(pool.keys)
    level = Level(np.zeros(len(program.rows)), np.zeros(0), np.append(np.zeros(count), np.ones(len(offsets))))
    answer = program.least_violation(level, active)
    weight = answer.weight if answer.weight > 0 else 1.0
    least = float(least_over_domain(region.frame, answer.slope[None], np.zeros((1, region.frame.size)))[0])
    proof = Proof.of(answer, pool.weights(answer.cuts[:count] / weight), answer.rows / region.lengths, weight)
    return answer.u, (least - answer.offset) / weight if answer.weight > 0 else -np.inf, proof
