"""Rounds in groups, whose data lie between their smallest and their largest values."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np

from ...engine import Array
from ...intervals.enclosure import Space
from ...intervals.of_jaxpr import work
from ...problem.streams import Stream

__all__ = ["groups"]

AT_A_TIME = 2_000_000
"""Slopes that are computed at a time."""


def groups(
    function: Any, space: Space, source: Stream, horizon: int, most: int
) -> Iterator[tuple[Any, Any, Array]]:
    """Data of all rounds as intervals, (seed, group, ...), with the number of rounds in each group.

    Rounds are put into groups so that at most so many slopes are computed in all.
    """
    one = jax.tree.map(lambda a: np.asarray(a)[0, 0], source.block(0, 1))
    each = max(1, work(function, space, one))
    length = max(1, math.ceil(each * horizon * source.seeds / most))  # rounds per group
    step = length * max(1, AT_A_TIME // (each * source.seeds))
    for start in range(0, horizon, step):
        stop = min(start + step, horizon)
        data = jax.tree.map(np.asarray, source.block(start, stop - start))
        if length == 1:
            yield data, data, np.ones(stop - start)
            continue
        starts = np.arange(0, stop - start, length)
        yield (
            jax.tree.map(lambda a, at=starts: np.minimum.reduceat(a, at, axis=1), data),
            jax.tree.map(lambda a, at=starts: np.maximum.reduceat(a, at, axis=1), data),
            np.diff(np.append(starts, stop - start)).astype(float),
        )
