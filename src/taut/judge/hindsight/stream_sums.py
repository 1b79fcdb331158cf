"""Passes over a stream: the sum of all losses with its derivatives, for every prefix and every
seed.

A stream is read in blocks that end at the ends of prefixes, so that the sum after a block is the
sum of a prefix. Blocks are padded to one length, by repeating their last round: one compilation
serves every horizon and every prefix.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import jax
import numpy as np

from ...engine import Array
from ...problem.streams import Stream
from .scaling import ScaledConstraints, ScaledLoss, as_double

__all__ = [
    "Block",
    "StreamSums",
    "Taylor",
    "bad_round",
    "blocks",
    "mean_losses",
    "quadratic_sums",
    "worst_rounds",
]

BLOCK_BYTES = 4 * 2**20
LEAST_BLOCK, LARGEST_BLOCK = 16, 8192
CHEAP_BLOCK = 256
"""Rounds that take hardly longer than fewer rounds."""
PREFIX_BLOCKS = 16
"""A horizon is cut into at least this many blocks, so that padding at the ends of prefixes stays
cheap."""


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


@dataclass(frozen=True)
class StreamSums:
    """What one pass adds up, for each seed and prefix; `misfit` is the largest one of any round."""

    value: Array
    slope: Array
    curvature: Array | None
    misfit: Array


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


def mean_losses(
    loss: ScaledLoss,
    stream: Stream,
    ends: tuple[int, ...],
    u: Array,
    mask: Array,
    with_hessian: bool,
) -> Taylor:
    """Value, slope and, if `with_hessian`, curvature of each element's mean loss at its own point.

    Elements are ordered by seed, then prefix: `u` is (seed * prefix, size). `mask` marks those that
    are wanted.
    """
    seeds, size, count = stream.seeds, loss.scaling.size, len(ends)
    points = u.reshape(seeds, count, size)
    wanted = [bool(column.any()) for column in mask.reshape(seeds, count).T]
    value, slope = np.zeros((seeds, count)), np.zeros((seeds, count, size))
    curvature = (
        np.zeros((seeds, count, size, size)) if with_hessian else np.zeros((1, 1, size, size))
    )
    for block in blocks(stream, ends):
        for prefix in range(count):
            if wanted[prefix] and block.stop <= ends[prefix]:
                sums = loss.sums(points[:, prefix], block, with_hessian)
                value[:, prefix] += sums.value
                slope[:, prefix] += sums.slope
                if with_hessian:
                    curvature[:, prefix] += sums.hessian
    rounds_of = np.asarray(ends, float)[None, :]
    return Taylor(
        (value / rounds_of).ravel(),
        (slope / rounds_of[..., None]).reshape(-1, size),
        (curvature / rounds_of[..., None, None] if with_hessian else curvature).reshape(
            -1, size, size
        ),
    )


def quadratic_sums(
    loss: ScaledLoss,
    stream: Stream,
    ends: tuple[int, ...],
    common: Array | None,
    probes: Array,
) -> StreamSums:
    """One pass that adds up every loss's Taylor polynomial at the centre and checks that the loss
    equals its polynomial.

    Arguments:
        loss: the loss, believed to be quadratic in the decision.
        stream: the data.
        ends: the prefixes, ascending.
        common: the Hessian, if it is believed to be the same in all rounds; it is then not computed
            again.
        probes: random points (probe, size). Every round's loss is compared with its polynomial at
            one of them, which tells with probability one whether the Hessian of a quadratic loss
            differs from `common`.
    """
    seeds, size, count = stream.seeds, loss.scaling.size, len(ends)
    value, slope = np.zeros((seeds, count)), np.zeros((seeds, count, size))
    curvature = None if common is not None else np.zeros((seeds, count, size, size))
    misfit = np.zeros((seeds, count))
    second_orders = None if common is None else np.einsum("pi,ij,pj->p", probes, common, probes) / 2
    origin = np.zeros((seeds, size))

    for number, block in enumerate(blocks(stream, ends)):
        which, end = number % len(probes), int(np.searchsorted(ends, block.stop))
        second_order = None if second_orders is None else float(second_orders[which])
        sums = loss.sums(origin, block, common is None, probes[which], second_order)
        value[:, end] += sums.value
        slope[:, end] += sums.slope
        if curvature is not None:
            curvature[:, end] += sums.hessian
        misfit[:, end] = np.maximum(misfit[:, end], sums.misfit)
    if curvature is not None:
        curvature = np.cumsum(curvature, axis=1)
    return StreamSums(
        np.cumsum(value, axis=1),
        np.cumsum(slope, axis=1),
        curvature,
        np.maximum.accumulate(misfit, axis=1),
    )


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
