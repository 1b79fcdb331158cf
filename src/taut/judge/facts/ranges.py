"""Lipschitz constants, ranges, smoothness and strong convexity by interval arithmetic."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np

from ...engine import Array, default_float
from ...intervals.constants import curvature, lipschitz, size, variation
from ...intervals.enclosure import Space, Unknown
from ...intervals.of_jaxpr import enclose, work
from ...problem.evaluation import loss_of_round
from ...problem.problem import Problem
from ...problem.streams import Stream
from .half_spaces import has_usual_derivatives

__all__ = [
    "Ranges",
    "constraint_curvature",
    "constraint_ranges",
    "groups",
    "loss_curvature",
    "loss_ranges",
]


WORK = 1_000_000
"""Slopes that are computed, at most; beyond that several rounds share one bound."""
CURVED = 24
"""Entries of a decision up to which second derivatives are bounded."""


class Ranges(NamedTuple):
    """The largest norm of a gradient, and the largest difference (of a loss) or absolute value (of
    a constraint)."""

    lipschitz: float
    range: float


def loss_ranges(problem: Problem, stream: Stream) -> Ranges:
    """Of the losses of all rounds. Raises `Unknown` if there is no bound."""
    return _ranges(_loss(problem), problem, stream, variation)


def constraint_ranges(problem: Problem, stream: Stream | None) -> Ranges:
    """Of the constraints, in all rounds if they change. Raises `Unknown` if there is no bound."""
    return _ranges(problem.constraints.values, problem, stream, size)


def loss_curvature(problem: Problem, stream: Stream) -> tuple[float, float]:
    """Bounds on all eigenvalues of second derivatives of all losses. Raises `Unknown`."""
    low, high = _hull(stream)
    return _curvature(_loss(problem), problem, low, high)


def constraint_curvature(
    problem: Problem, stream: Stream | None, count: int
) -> tuple[float, float]:
    """The same of all constraints."""
    low, high = (None, None) if stream is None else _hull(stream)

    def row(i: int) -> Callable[[jax.Array, Any], jax.Array]:
        return lambda x, z: problem.constraints.values(x, z)[i]

    bounds = np.array([_curvature(row(i), problem, low, high) for i in range(count)])
    return float(bounds[:, 0].min()), float(bounds[:, 1].max())


def _loss(problem: Problem) -> Callable[[jax.Array, Any], jax.Array]:
    return partial(loss_of_round, problem.loss)


def _honest(function: Callable[..., Any], problem: Problem, data: Any) -> None:
    x = jax.ShapeDtypeStruct(problem.domain.shape, default_float())
    like = jax.tree.map(lambda a: jax.ShapeDtypeStruct(np.shape(a), np.asarray(a).dtype), data)
    if not has_usual_derivatives(jax.make_jaxpr(function)(x, like)):
        raise Unknown("a function has a derivative of its own")


def _ranges(
    function: Callable[..., Any],
    problem: Problem,
    stream: Stream | None,
    spread: Callable[[Any], float],
) -> Ranges:
    space = Space.of(problem.domain, gradients=True)
    steep, wide = 0.0, 0.0
    for rows, low, high in _blocks(function, problem, space, stream):
        bounds = enclose(rows, space, low, high)
        steep, wide = max(steep, lipschitz(bounds)), max(wide, spread(bounds))
    return Ranges(steep, wide)


def _blocks(
    function: Callable[..., Any], problem: Problem, space: Space, stream: Stream | None
) -> Iterator[tuple[Callable[..., Any], Any, Any]]:
    if stream is None:
        _honest(function, problem, None)
        yield function, None, None
        return
    _honest(function, problem, jax.tree.map(lambda a: np.asarray(a)[0, 0], stream.block(0, 1)))
    rows = jax.vmap(jax.vmap(function, (None, 0)), (None, 0))
    for low, high, _ in groups(function, space, stream, stream.horizon, WORK):
        yield rows, low, high


def _hull(stream: Stream) -> tuple[Any, Any]:
    """The smallest and the largest of all data, entry by entry."""
    low: Any = None
    high: Any = None
    step = max(1, WORK // max(1, _size(stream)))
    for start in range(0, stream.horizon, step):
        data = jax.tree.map(np.asarray, stream.block(start, min(step, stream.horizon - start)))
        least = jax.tree.map(lambda a: a.min(axis=(0, 1)), data)
        most = jax.tree.map(lambda a: a.max(axis=(0, 1)), data)
        low = least if low is None else jax.tree.map(np.minimum, low, least)
        high = most if high is None else jax.tree.map(np.maximum, high, most)
    return low, high


def _size(stream: Stream) -> int:
    return sum(np.asarray(leaf).size for leaf in jax.tree.leaves(stream.block(0, 1)))


def _curvature(
    function: Callable[..., Any], problem: Problem, low: Any, high: Any
) -> tuple[float, float]:
    if int(np.prod(problem.domain.shape)) > CURVED:
        raise Unknown("the decision has many entries")
    _honest(function, problem, low)
    return curvature(function, Space.of(problem.domain, gradients=True), low, high)


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
