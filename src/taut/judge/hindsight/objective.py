"""Mean losses of all elements (seed, prefix), with their derivatives.

`QuadraticObjective` is a closed polynomial, for losses that are all affine or quadratic.
`StreamObjective` passes over the stream for every evaluation. Both have `value_slope_curvature(u,
mask)` and `value_slope(u, mask)`.
"""

from __future__ import annotations

import math

import jax
import numpy as np

from ...engine import Array
from ...problem.problem import Problem
from ...problem.streams import Stream
from .scaling import ScaledLoss, Scaling, as_double, sample_points
from .stream_sums import Taylor, mean_losses, quadratic_sums
from .structure import loss_kind
from .tolerances import MISFIT

__all__ = ["Objective", "QuadraticObjective", "StreamObjective", "objective_of"]

GROUPS = 64
"""The largest number of groups of rounds that have cutting planes of their own."""
FEW = 2**21
"""Numbers in the data of all rounds and in their gradients up to which they are kept in memory, so
that there are groups."""
PROBES = 8
"""Random decisions at which the rounds' losses are compared with their polynomials, one per
block."""


class _Elements:
    """The elements (seed, prefix), ordered by seed, then prefix."""

    def __init__(
        self, problem: Problem, scaling: Scaling, stream: Stream, ends: tuple[int, ...]
    ) -> None:
        self.loss, self.scaling = ScaledLoss(problem, scaling), scaling
        self.stream, self.ends = stream, ends
        self.count = stream.seeds * len(ends)
        self.rounds = np.tile(np.asarray(ends, float), stream.seeds)


class QuadraticObjective(_Elements):
    """Mean losses that are quadratic polynomials: evaluations cost nothing, and one Newton step
    ends the search."""

    quadratic = True

    def __init__(
        self,
        problem: Problem,
        scaling: Scaling,
        stream: Stream,
        ends: tuple[int, ...],
        kind: str,
        at_centre: Taylor,
    ) -> None:
        super().__init__(problem, scaling, stream, ends)
        self.kind, self.at_centre = kind, at_centre

    def value_slope_curvature(self, u: Array, mask: Array) -> Taylor:
        """The polynomial expanded at each element's own point; all elements are evaluated, whatever
        the mask."""
        base = self.at_centre
        common = len(base.curvature) == 1
        hessian_u = u @ base.curvature[0] if common else np.einsum("eij,ej->ei", base.curvature, u)
        slope = base.slope + hessian_u
        return Taylor(
            base.value + np.sum((base.slope + slope) / 2 * u, axis=1), slope, base.curvature
        )

    value_slope = value_slope_curvature


class StreamObjective(_Elements):
    """Mean losses that are evaluated by a pass over the stream; `kind` is "smooth" or "kinked"."""

    quadratic = False

    def __init__(
        self,
        problem: Problem,
        scaling: Scaling,
        stream: Stream,
        ends: tuple[int, ...],
        kind: str = "smooth",
    ) -> None:
        super().__init__(problem, scaling, stream, ends)
        self.kind = kind

    def value_slope_curvature(self, u: Array, mask: Array) -> Taylor:
        """The Taylor polynomial around each marked element's own point."""
        return mean_losses(self.loss, self.stream, self.ends, u, mask, with_hessian=True)

    def value_slope(self, u: Array, mask: Array) -> Taylor:
        """The same without second derivatives, which are returned as zero."""
        return mean_losses(self.loss, self.stream, self.ends, u, mask, with_hessian=False)

    def tangents(self, u: Array, mask: Array) -> dict[int, tuple[Array, Array]]:
        """Values (group,) and slopes (group, entry) of groups of rounds, whose sums are those of
        each marked element's mean loss.

        There is one group, unless rounds are few: a plane for every group says more than one for
        all of them.
        """
        elements, last = np.flatnonzero(mask).tolist(), self.ends[-1]
        width = self.scaling.size + sum(
            math.prod(leaf.shape[2:]) for leaf in jax.tree.leaves(self.stream.block(0, 1))
        )
        if self.stream.seeds * last * width > FEW:
            taylor = self.value_slope(u, mask)
            return {e: (taylor.value[[e]], taylor.slope[[e]]) for e in elements}
        data, found = jax.tree.map(as_double, self.stream.block(0, last)), {}
        for e in elements:
            seed, end = e // len(self.ends), self.ends[e % len(self.ends)]
            own = jax.tree.map(lambda a, seed=seed, end=end: a[seed, :end], data)
            values, slopes = (part[0] for part in self.loss.lines(u[e][None], own))
            starts = (
                np.arange(min(GROUPS, end)) * end // min(GROUPS, end)
            )  # the same groups for every point
            found[e] = (
                np.add.reduceat(values, starts) / end,
                np.add.reduceat(slopes, starts, axis=0) / end,
            )
        return found


Objective = QuadraticObjective | StreamObjective


def objective_of(
    problem: Problem,
    scaling: Scaling,
    stream: Stream,
    ends: tuple[int, ...],
    rng: np.random.Generator,
    known: tuple[str, Array | None] | None = None,
) -> Objective:
    """The mean loss of each element: a polynomial if every round is affine or quadratic, else
    passes over the stream.

    `known` is the result of `loss_kind`, if it is known; every round is checked against it all the
    same.
    """
    loss = ScaledLoss(problem, scaling)
    kind, common = known or loss_kind(loss, stream, ends, rng)
    if kind not in ("affine", "quadratic"):
        return StreamObjective(problem, scaling, stream, ends, kind)
    probes = sample_points(scaling, rng, 1 + PROBES)[1:]
    sums = quadratic_sums(loss, stream, ends, common, probes)
    if np.any(sums.misfit > MISFIT):  # some round is not quadratic
        return StreamObjective(problem, scaling, stream, ends)
    size, rounds = scaling.size, np.tile(np.asarray(ends, float), stream.seeds)
    summed = sums.curvature
    if summed is not None:
        common = summed.reshape(-1, size, size) / rounds[:, None, None]
    curvature = np.asarray(common).reshape(-1, size, size)
    at_centre = Taylor(
        sums.value.ravel() / rounds, sums.slope.reshape(-1, size) / rounds[:, None], curvature
    )
    return QuadraticObjective(problem, scaling, stream, ends, kind, at_centre)
