"""A stream in blocks of rounds that end at the ends of prefixes, so that the sum after a block is
the sum of a prefix.

Blocks are padded to one length, by repeating their last round: one compilation serves every horizon
and every prefix.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import jax
import numpy as np

from ...engine import Array
from ...problem.streams import Stream
from .scaling import as_double

__all__ = ["Block", "bad_round", "blocks"]

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
