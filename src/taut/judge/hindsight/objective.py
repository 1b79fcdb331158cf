"""Mean losses with their derivatives, by passes over the stream.

An *element* is a pair (seed, prefix): every element has a mean loss and a best decision of its own.
If all losses are affine or quadratic, one pass adds them up into one polynomial for each element,
and evaluations cost nothing. Otherwise every evaluation is a pass over the element's rounds.

A stream is read in blocks that end at the ends of prefixes, so that the sum after a block is the
sum of a prefix. Blocks are padded to one length, by repeating their last round: one compilation
serves every horizon and every prefix.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, NamedTuple

import jax
import numpy as np

from ...engine import Array
from ...problem.problem import Problem
from ...problem.streams import Stream
from .scaling import ScaledLoss, Scaling, as_double, sample_points
from .structure import loss_kind, refuse_concave_loss
from .tolerances import MISFIT

BLOCK_BYTES = 4 * 2**20
LEAST_BLOCK, LARGEST_BLOCK = 16, 8192
CHEAP_BLOCK = 256
"""Rounds that take hardly longer than fewer rounds."""
PREFIX_BLOCKS = 16
"""A horizon is cut into at least this many blocks, so that padding at the ends of prefixes stays
cheap."""
GROUPS = 64
"""The largest number of groups of rounds that have cutting planes of their own."""
FEW = 2**21
"""Numbers in the data of all rounds and in their gradients up to which they are kept in memory, so
that there are groups."""
PROBES = 8
"""Random decisions at which the rounds' losses are compared with their polynomials, one per
block."""


class Element(NamedTuple):
    """The first `rounds` rounds of one seed."""

    seed: int
    rounds: int


class Block(NamedTuple):
    """Rounds start..stop (counted from 0) of all seeds, or of one, padded."""

    start: int
    stop: int
    data: Any
    repeats: int
    """How many blocks of this kind are evaluated, as far as it is known."""

    @property
    def rounds(self) -> int:
        """The number of rounds; the others are padding."""
        return self.stop - self.start


class Taylor(NamedTuple):
    """The second-order Taylor polynomial of a mean loss around some point."""

    value: float
    slope: Array
    curvature: Array

    def at(self, shift: Array) -> Taylor:
        """The same polynomial, expanded at the point moved by `shift`."""
        slope = self.slope + self.curvature @ shift
        return Taylor(self.value + float((self.slope + slope) @ shift) / 2, slope, self.curvature)


def relative_gap(value: float, lower: float, rounds: int) -> float:
    """(value - lower) / max(1 / rounds, |value|) for mean losses in units; for totals that is (loss
    - bound) / max(unit, |loss|)."""
    return (value - lower) / max(1 / rounds, abs(value))


class Blocks:
    """A stream in blocks up to the last of `ends`, cut at each of them."""

    def __init__(self, stream: Stream, ends: tuple[int, ...]) -> None:
        self.stream, self.ends = stream, ends
        by_memory = BLOCK_BYTES // max(1, 8 * stream.seeds * stream.width)
        by_prefix = max(-(-ends[-1] // PREFIX_BLOCKS), CHEAP_BLOCK)
        least = min(LEAST_BLOCK, ends[-1])
        wanted = int(np.clip(min(by_memory, by_prefix, ends[-1]), least, LARGEST_BLOCK))
        self.length = 1 << (wanted - 1).bit_length()
        self.edges = sorted({*range(0, ends[-1], self.length), *ends})

    def of(self, element: Element | None = None) -> Iterator[Block]:
        """The blocks of all seeds and rounds, or of those of an element."""
        seeds = slice(None) if element is None else slice(element.seed, element.seed + 1)
        repeats = (len(self.edges) - 1) * (1 if element is None else self.stream.seeds)

        def padded(a: Array) -> Array:
            a = as_double(a[seeds])
            short = self.length - a.shape[1]
            last = np.repeat(a[:, -1:], short, axis=1)
            return a if short == 0 else np.concatenate([a, last], axis=1)

        for start, stop in pairwise(self.edges):
            if element is not None and stop > element.rounds:
                return
            data = jax.tree.map(padded, self.stream.block(start, stop - start))
            yield Block(start, stop, data, repeats)

    def bad_round(self) -> int | None:
        """The first round, counted from 1, whose data are not finite numbers; None if there is
        none."""
        for block in self.of():
            for leaf in jax.tree.leaves(block.data):
                if np.issubdtype(leaf.dtype, np.floating) and not np.isfinite(leaf).all():
                    bad = ~np.isfinite(np.moveaxis(leaf, 1, 0))
                    return block.start + 1 + int(np.argmax(bad.reshape(len(bad), -1).any(axis=1)))
        return None


class Objective:
    """The mean losses of the elements. `kind` is that of the losses: "affine", "quadratic" or
    "other"."""

    def __init__(
        self,
        problem: Problem,
        scaling: Scaling,
        stream: Stream,
        ends: tuple[int, ...],
        rng: np.random.Generator,
    ) -> None:
        self.loss, self.scaling = ScaledLoss(problem, scaling), scaling
        self.blocks = Blocks(stream, ends)
        self.elements = [Element(seed, end) for seed in range(stream.seeds) for end in ends]
        self.kind, common = loss_kind(self.loss, stream, ends, rng)
        self._polynomials: dict[Element, Taylor] | None = None
        if self.kind in ("affine", "quadratic"):
            self._polynomials = self._added_up(common, sample_points(scaling, rng, 1 + PROBES)[1:])
        self.quadratic = self._polynomials is not None
        """Whether the mean losses are polynomials, so that one Newton step ends the search."""
        self.kinked = False
        """Whether losses were seen to have kinks, so that they have no Hessians."""

    def taylor(self, element: Element, u: Array, second: bool = True) -> Taylor:
        """The Taylor polynomial around `u`. Without `second` its curvature is zero if it needs a
        pass."""
        if self._polynomials is not None:
            return self._polynomials[element].at(u)
        value, slope, curvature = 0.0, np.zeros(len(u)), np.zeros((len(u), len(u)))
        for block in self.blocks.of(element):
            sums = self.loss.sums(u[None], block.data, block.rounds, block.repeats, second)
            value, slope = value + float(sums.value[0]), slope + sums.slope[0]
            if second:
                curvature = curvature + sums.hessian[0]
        rounds = element.rounds
        return Taylor(value / rounds, slope / rounds, curvature / rounds)

    def tangents(self, element: Element, u: Array) -> tuple[Array, Array]:
        """Values (group,) and slopes (group, entry) of groups of rounds, whose sums are those of
        the mean loss.

        There is one group, unless rounds are few: a plane for every group says more than one for
        all of them.
        """
        stream, last = self.blocks.stream, self.blocks.ends[-1]
        if stream.seeds * last * (stream.width + len(u)) > FEW:
            taylor = self.taylor(element, u, second=False)
            return np.array([taylor.value]), taylor.slope[None]
        seed, end = element
        own = jax.tree.map(lambda a: as_double(a[seed, :end]), stream.block(0, last))
        values, slopes = (part[0] for part in self.loss.lines(u[None], own))
        count = min(GROUPS, end)
        starts = np.arange(count) * end // count  # the same groups for every point
        return np.add.reduceat(values, starts) / end, np.add.reduceat(slopes, starts, axis=0) / end

    def _added_up(self, common: Array | None, probes: Array) -> dict[Element, Taylor] | None:
        """The polynomials at the centre, in one pass that checks that every round's loss equals its
        own; None if one does not.

        Arguments:
            common: the Hessian, if it is believed to be the same in all rounds; it is then not
                computed again.
            probes: random points (probe, size). Every round's loss is compared with its polynomial
                at one of them, which tells with probability one whether the Hessian of a quadratic
                loss differs from `common`.
        """
        seeds, size, second = self.blocks.stream.seeds, self.scaling.size, common is None
        origin, polynomials = np.zeros((seeds, size)), {}
        value, slope, curvature = np.zeros(seeds), origin, np.zeros((seeds, size, size))
        for number, block in enumerate(self.blocks.of()):
            probe = probes[number % len(probes)]
            known = None if common is None else float(probe @ common @ probe) / 2
            sums = self.loss.sums(
                origin, block.data, block.rounds, block.repeats, second, probe, known
            )
            if np.any(sums.misfit > MISFIT):  # some round is not quadratic
                return None
            value, slope = value + sums.value, slope + sums.slope
            curvature = curvature + sums.hessian if second else curvature
            for seed in range(seeds) if block.stop in self.blocks.ends else ():
                rounds = block.stop
                mean = curvature[seed] / rounds if common is None else common
                polynomials[Element(seed, rounds)] = Taylor(
                    float(value[seed]) / rounds, slope[seed] / rounds, mean
                )
        for element, polynomial in polynomials.items():
            refuse_concave_loss(
                polynomial.curvature, polynomial.slope, self.scaling, element.rounds
            )
            if common is not None:
                break  # all have the same Hessian
        return polynomials
