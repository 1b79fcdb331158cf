"""Mean losses of all elements (seed, prefix) with their derivatives, by passes over the stream.

If all losses are affine or quadratic, one pass adds them up into a polynomial, and evaluations cost
nothing. Otherwise every evaluation is a pass.

A stream is read in blocks that end at the ends of prefixes, so that the sum after a block is the
sum of a prefix. Blocks are padded to one length, by repeating their last round: one compilation
serves every horizon and every prefix.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import jax
import numpy as np

from ...engine import Array
from ...problem.problem import Problem
from ...problem.streams import Stream
from .scaling import ScaledConstraints, ScaledLoss, Scaling, as_double, sample_points
from .structure import loss_kind
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


class Block(NamedTuple):
    """Rounds start..stop (counted from 0) of all seeds, padded."""

    start: int
    stop: int
    data: Any
    blocks: int
    """How many blocks the stream has."""


class Taylor(NamedTuple):
    """Mean losses around one point for each element (seed, prefix): second-order Taylor
    polynomials."""

    value: Array
    """(element,)"""
    slope: Array
    """(element, size)"""
    curvature: Array
    """(element, size, size), or (1, size, size) if it is the same for all."""

    def hessian(self, element: int) -> Array:
        """The Hessian of one element."""
        return np.asarray(self.curvature[element if len(self.curvature) > 1 else 0])

    def at(self, u: Array) -> Taylor:
        """The same polynomials, expanded at the rows of `u`."""
        common = len(self.curvature) == 1
        hessian_u = u @ self.curvature[0] if common else np.einsum("eij,ej->ei", self.curvature, u)
        slope = self.slope + hessian_u
        value = self.value + np.sum((self.slope + slope) / 2 * u, axis=1)
        return Taylor(value, slope, self.curvature)


def blocks(stream: Stream, ends: tuple[int, ...]) -> Iterator[Block]:
    """The stream in blocks up to the last of `ends`, cut at each of them."""
    length = _length(stream, ends[-1])
    edges = sorted({*range(0, ends[-1], length), *ends})
    padded = partial(_padded, length=length)
    for start, stop in pairwise(edges):
        data = jax.tree.map(padded, stream.block(start, stop - start))
        yield Block(start, stop, data, len(edges) - 1)


def bad_round(stream: Stream, ends: tuple[int, ...]) -> int | None:
    """The first round, counted from 1, whose data are not finite numbers; None if there is none."""
    for block in blocks(stream, ends):
        for leaf in jax.tree.leaves(block.data):
            if np.issubdtype(leaf.dtype, np.floating) and not np.isfinite(leaf).all():
                bad = ~np.isfinite(np.moveaxis(leaf, 1, 0))
                return block.start + 1 + int(np.argmax(bad.reshape(len(bad), -1).any(axis=1)))
    return None


class Objective:
    """The mean losses of the elements (seed, prefix), ordered by seed, then prefix.

    `kind` is that of the losses: "affine", "quadratic", "smooth" or "kinked".
    """

    def __init__(
        self,
        problem: Problem,
        scaling: Scaling,
        stream: Stream,
        ends: tuple[int, ...],
        rng: np.random.Generator,
    ) -> None:
        self.loss, self.scaling = ScaledLoss(problem, scaling), scaling
        self.stream, self.ends = stream, ends
        self.count = stream.seeds * len(ends)
        self.rounds = np.tile(np.asarray(ends, float), stream.seeds)
        self.kind, common = loss_kind(self.loss, stream, ends, rng)
        self._polynomial: Taylor | None = None
        if self.kind in ("affine", "quadratic"):
            self._polynomial = self._added_up(common, sample_points(scaling, rng, 1 + PROBES)[1:])
            self.kind = "smooth" if self._polynomial is None else self.kind

    @property
    def quadratic(self) -> bool:
        """Whether the mean losses are polynomials, so that one Newton step ends the search."""
        return self._polynomial is not None

    def value_slope_curvature(self, u: Array, mask: Array) -> Taylor:
        """The Taylor polynomial around each marked element's own point."""
        return self._passed(u, mask, True) if self._polynomial is None else self._polynomial.at(u)

    def value_slope(self, u: Array, mask: Array) -> Taylor:
        """The same without second derivatives, which are returned as zero if they need a pass."""
        return self._passed(u, mask, False) if self._polynomial is None else self._polynomial.at(u)

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

    def _passed(self, u: Array, mask: Array, with_hessian: bool) -> Taylor:
        """One pass over the stream, which serves all marked elements."""
        seeds, size, count = self.stream.seeds, self.scaling.size, len(self.ends)
        points = u.reshape(seeds, count, size)
        wanted = mask.reshape(seeds, count).any(axis=0)
        value, slope = np.zeros((seeds, count)), np.zeros((seeds, count, size))
        curvature = np.zeros((seeds, count, size, size) if with_hessian else (1, 1, size, size))
        for block in blocks(self.stream, self.ends):
            for prefix in np.flatnonzero(wanted & (block.stop <= np.asarray(self.ends))):
                sums = self.loss.sums(points[:, prefix], block, with_hessian)
                value[:, prefix] += sums.value
                slope[:, prefix] += sums.slope
                if with_hessian:
                    curvature[:, prefix] += sums.hessian
        return self._means(value, slope, curvature)

    def _added_up(self, common: Array | None, probes: Array) -> Taylor | None:
        """The polynomials at the centre, in one pass that checks that every round's loss equals its
        own; None if one does not.

        Arguments:
            common: the Hessian, if it is believed to be the same in all rounds; it is then not
                computed again.
            probes: random points (probe, size). Every round's loss is compared with its polynomial
                at one of them, which tells with probability one whether the Hessian of a quadratic
                loss differs from `common`.
        """
        seeds, size, count = self.stream.seeds, self.scaling.size, len(self.ends)
        value, slope = np.zeros((seeds, count)), np.zeros((seeds, count, size))
        curvature = np.zeros((seeds, count, size, size) if common is None else (1, 1, size, size))
        origin = np.zeros((seeds, size))
        for number, block in enumerate(blocks(self.stream, self.ends)):
            probe, end = probes[number % len(probes)], int(np.searchsorted(self.ends, block.stop))
            second_order = None if common is None else float(probe @ common @ probe) / 2
            sums = self.loss.sums(origin, block, common is None, probe, second_order)
            if np.any(sums.misfit > MISFIT):  # some round is not quadratic
                return None
            value[:, end] += sums.value
            slope[:, end] += sums.slope
            if common is None:
                curvature[:, end] += sums.hessian
        added = self._means(*(np.cumsum(part, axis=1) for part in (value, slope, curvature)))
        return added if common is None else added._replace(curvature=common[None])

    def _means(self, value: Array, slope: Array, curvature: Array) -> Taylor:
        """Mean losses from sums (seed, prefix, ...); a curvature that is zero has one element."""
        size, rounds = self.scaling.size, self.rounds
        curvature = curvature.reshape(-1, size, size)
        if len(curvature) == self.count:
            curvature = curvature / rounds[:, None, None]
        return Taylor(value.ravel() / rounds, slope.reshape(-1, size) / rounds[:, None], curvature)


def worst_rounds(
    constraints: ScaledConstraints,
    stream: Stream,
    ends: tuple[int, ...],
    u: Array,
    mask: Array,
) -> tuple[Array, Array]:
    """The largest value of every constraint in every block, and its round, at each element's own
    point.

    Returns arrays (element, block, constraint); blocks that an element's prefix does not contain
    hold -inf.
    """
    seeds, count = stream.seeds, len(ends)
    points = u.reshape(seeds, count, constraints.scaling.size)
    wanted = [bool(column.any()) for column in mask.reshape(seeds, count).T]
    values: list[Array] = []
    rounds: list[Array] = []
    for block in blocks(stream, ends):
        block_values, block_rounds = None, None
        for prefix in range(count):
            if wanted[prefix] and block.stop <= ends[prefix]:
                highest, when = constraints.worst(points[:, prefix], block)
                if block_values is None or block_rounds is None:
                    block_values = np.full((seeds, count, highest.shape[-1]), -np.inf)
                    block_rounds = np.zeros((seeds, count, highest.shape[-1]), int)
                block_values[:, prefix] = highest
                block_rounds[:, prefix] = np.minimum(block.start + when, block.stop - 1)
        if block_values is not None and block_rounds is not None:
            values.append(block_values.reshape(seeds * count, -1))
            rounds.append(block_rounds.reshape(seeds * count, -1))
    return np.stack(values, axis=1), np.stack(rounds, axis=1)


def _length(stream: Stream, horizon: int) -> int:
    numbers = sum(int(np.prod(leaf.shape[2:])) for leaf in jax.tree.leaves(stream.block(0, 1)))
    by_memory = BLOCK_BYTES // max(1, 8 * stream.seeds * numbers)
    by_prefix = max(-(-horizon // PREFIX_BLOCKS), CHEAP_BLOCK)
    wanted = int(
        np.clip(min(by_memory, by_prefix, horizon), min(LEAST_BLOCK, horizon), LARGEST_BLOCK)
    )
    return 1 << (wanted - 1).bit_length()


def _padded(a: Array, length: int) -> Array:
    a = as_double(a)
    short = length - a.shape[1]
    return a if short == 0 else np.concatenate([a, np.repeat(a[:, -1:], short, axis=1)], axis=1)
