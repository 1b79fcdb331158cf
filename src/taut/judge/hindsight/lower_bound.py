"""Lower bounds on losses, proven by multipliers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...engine import Array
from .cuts import Key, Oracle
from .program import ProvenMinimiser
from .tolerances import NEGLIGIBLE

__all__ = ["Proof", "lower_bounds"]


@dataclass(frozen=True)
class Proof:
    """The inequality that an element's multipliers prove: slope @ y <= offset for all feasible
    y."""

    slope: Array
    offset: float
    row_slope: Array
    row_offset: float
    weights: dict[Key, float]
    """Multipliers of everything but rows, by constraint and round."""
    rows: Array
    """Multipliers of the rows, in the constraints' own units."""

    @classmethod
    def of(
        cls, minimiser: ProvenMinimiser, weights: dict[Key, float], rows: Array, unit: float = 1.0
    ) -> Proof:
        """The proof that a minimiser comes with, all multipliers divided by `unit`."""
        row_slope, row_offset = minimiser.row_slope / unit, minimiser.row_offset / unit
        return cls(
            minimiser.slope / unit,
            minimiser.offset / unit,
            row_slope,
            row_offset,
            weights,
            rows / unit,
        )


def lower_bounds(
    oracle: Oracle,
    seeds: Sequence[int],
    u: Array,
    value: Array,
    slope: Array,
    proofs: Sequence[Proof],
    enough: Array,
) -> Array:
    r"""Lower bounds on convex functions over the feasible set, from value and gradient at each row
    of `u`.

    For every feasible y, with p @ y <= o proven by multipliers: f(y) >= f(u) + <f'(u), y - u> + (p
    @ y - o), which is affine in y and minimised over the domain. The tangents that p is made of may
    touch elsewhere than at u; if the bound is further than `enough` from the value, new ones that
    touch at u are tried with the same multipliers.
    """

    def bound(planes: Array, offsets: Array) -> Array:
        with np.errstate(
            over="ignore", invalid="ignore"
        ):  # multipliers that grow without bound prove nothing
            low = (
                value
                + np.sum(planes * u, axis=1)
                - offsets
                + oracle.scaling.least_change(slope + planes, u)
            )
        return np.where(np.isnan(low), -np.inf, low)

    best = bound(
        np.stack([one.slope for one in proofs]), np.asarray([one.offset for one in proofs])
    )
    if np.all(np.abs(value - best) <= enough):
        return best
    parts = []
    for i, proof in enumerate(proofs):
        least = NEGLIGIBLE * max(proof.weights.values(), default=0.0)
        parts += [(i, key, weight) for key, weight in proof.weights.items() if weight > least]
    if not parts:
        return best
    whose = [i for i, _, _ in parts]
    touching = oracle.tangents([key for _, key, _ in parts], u[whose], [seeds[i] for i in whose])
    planes = np.stack([one.row_slope for one in proofs])
    offsets = np.asarray([one.row_offset for one in proofs])
    for (i, _, weight), tangent in zip(parts, touching, strict=True):
        planes[i] += weight * tangent.slope
        offsets[i] += weight * (tangent.slope @ tangent.u - tangent.value)
    return np.maximum(best, bound(planes, offsets))
