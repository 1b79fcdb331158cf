"""Functions that are quadratic in decision and data together: fitted from gradients, bounded in
closed form."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import NamedTuple

import numpy as np

from ...engine import Array
from ...problem.domains import Box
from .search import Probe, Seen

SAME = 1e-9
"""Gradients that miss their linear prediction by less than this share of their size are taken to
follow it."""
CHECKS = 6
"""Random points at which the fit is checked."""
CORNERS = 10
"""Up to this many entries that matter, the largest gradient over a box is computed at its corners,
where it is attained."""
MOST = 20_000_000
"""The largest number of entries of second derivatives."""


class Quadratics(NamedTuple):
    """k functions, each a quadratic of w around the middle of its range; affine ones, if `bend` is
    None."""

    probe: Probe
    value: Array
    slope: Array
    bend: Array | None

    def steepest(self) -> Array:
        """For each function a bound on the norm of its gradient in the decision; attained over
        small boxes."""
        probe, n = self.probe, self.probe.size
        if self.bend is None:
            return np.linalg.norm(self.slope[:, :n], axis=1)
        spread = np.abs(self.bend[:, :n]) @ probe.half
        boxed = np.linalg.norm(np.abs(self.slope[:, :n]) + spread, axis=1)
        centre = np.ravel(np.asarray(probe.domain.centre, float)) - probe.middle[:n]
        there = np.linalg.norm(self.slope[:, :n] + self.bend[:, :n, :n] @ centre, axis=1)
        turn = np.linalg.norm(np.abs(self.bend[:, :n, n:]) @ probe.half[n:], axis=1)
        round_ = there + self.curvature() * float(probe.domain.radius) + turn
        bound = np.minimum(boxed, round_)
        moving = np.flatnonzero(np.any(self.bend[:, :n], axis=(0, 1)) & (probe.half > 0))
        if isinstance(probe.domain, Box) and len(moving) <= CORNERS:
            corners = np.array(list(product((-1.0, 1.0), repeat=len(moving)))).reshape(
                2 ** len(moving), -1
            )
            steps = corners * probe.half[moving]
            slopes = self.slope[:, None, :n] + np.einsum(
                "kij,cj->kci", self.bend[:, :n, moving], steps
            )
            bound = np.minimum(bound, np.linalg.norm(slopes, axis=2).max(axis=1))
        return bound

    def curvature(self) -> Array:
        """For each function the largest second derivative in the decision."""
        n = self.probe.size
        if self.bend is None:
            return np.zeros(len(self.value))
        return np.abs(np.linalg.eigvalsh(self.bend[:, :n, :n])).max(axis=1)

    def modulus(self) -> Array:
        """For each function the smallest second derivative in the decision's entries that are free
        to move."""
        free = np.flatnonzero(self.probe.half[: self.probe.size] > 0)
        if not free.size or self.bend is None:
            return np.zeros(len(self.value))
        return np.linalg.eigvalsh(self.bend[:, free[:, None], free])[:, 0]

    def largest(self) -> Array:
        """For each function a bound on its absolute value."""
        half = self.probe.half
        linear = np.abs(self.slope) @ half
        if self.bend is None:
            return np.abs(self.value) + linear
        bent = np.einsum("kij,i,j->k", np.abs(self.bend), half, half) / 2
        convex = np.linalg.eigvalsh(self.bend)[:, 0] >= -SAME * np.abs(self.bend).max(initial=0)
        low = self.value - linear - np.where(convex, 0, bent)
        return np.maximum(np.abs(self.value + linear + bent), np.abs(low))

    def range(self) -> Array:
        """For each function, convex in the decision, a bound on how much it varies over decisions
        for the same data."""
        n, half = self.probe.size, self.probe.half
        if self.bend is None:
            return 2 * np.abs(self.slope[:, :n]) @ half[:n]
        slope = np.abs(self.slope[:, :n]) + np.abs(self.bend[:, :n, n:]) @ half[n:]
        bent = np.einsum("kij,i,j->k", np.abs(self.bend[:, :n, :n]), half[:n], half[:n]) / 2
        return np.minimum(
            2 * slope @ half[:n] + bent, self.steepest() * float(self.probe.domain.diameter)
        )

    def moved_by(self, entries: Array) -> bool:
        """Whether any gradient in the decision depends on these entries of w."""
        return self.bend is not None and bool(
            np.any(self.bend[:, : self.probe.size][:, :, entries])
        )

    def shifted_by(self, entries: Array) -> bool:
        """Whether any value or gradient depends on these entries of w."""
        return bool(np.any(self.slope[:, entries])) or (
            self.bend is not None and bool(np.any(self.bend[:, entries]))
        )


def fitted(
    probe: Probe, entries: Callable[[Seen], tuple[Array, Array]], takes_data: bool
) -> Quadratics | None:
    """Functions whose values and gradients are among `entries`, or None if they are not all
    quadratic in decision and data together.

    Second derivatives are differences of gradients, exact for quadratics, and are then checked at
    random points.
    """
    width, moving = probe.width, probe.width if takes_data else probe.size
    steps = np.where(probe.half > 0, probe.half, 1.0)
    random = np.random.default_rng(0)
    checks = random.uniform(-1, 1, size=(CHECKS, width)) * steps
    value, slope = entries(probe(probe.middle[None]))
    if slope.shape[1] * width * width > MOST or not np.all(np.isfinite(slope)):
        return None
    bend = np.zeros((slope.shape[1], width, width))
    _, moved = entries(probe(probe.middle + np.diag(steps)[:moving]))
    bend[:, :, :moving] = np.moveaxis(moved - slope, 0, -1) / steps[:moving]
    bend = (bend + np.swapaxes(bend, 1, 2)) / 2
    # Rounding would count as dependence.
    bend[np.abs(bend) <= 1e-12 * np.abs(bend).max(initial=0)] = 0
    values, there = entries(probe(probe.middle + checks))
    turn = np.einsum("kij,pj->pki", bend, checks)
    size = np.abs(slope).max() + np.abs(bend).max(initial=0) * np.abs(steps).max() + 1e-300
    fits = np.abs(there - slope - turn).max() <= SAME * size
    predicted = value + np.einsum("pki,pi->pk", slope + turn / 2, checks)
    fits &= np.abs(values - predicted).max() <= SAME * (
        np.abs(predicted).max() + size * np.abs(steps).max()
    )
    return Quadratics(probe, value[0], slope[0], bend) if fits else None
