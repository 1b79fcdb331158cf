"""A sample of the problem of a run: a few numbers that tell another problem, or other data.

A run that was saved does not hold its problem. It holds values of loss and constraints at a few
decisions all over the domain. Rounds that are played again show what the problem is like at the
decisions of the run only.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from ..engine import Array, double_precision
from ..problem.evaluation import constraint_evaluation, loss_evaluation
from ..problem.problem import Problem
from ..problem.sampling import sample_decisions
from ..problem.streams import Stream

if TYPE_CHECKING:
    from .run import Run


POINTS = 8
"""Decisions of a sample."""
AGREE = 1e-6
"""Relative difference up to which numbers of two samples count as equal, at least. Domains whose
projections are computed by iterations are not more accurate."""

NUMBERS = 2**20
"""Numbers of the data that are read at a time."""
GOLDEN = 0.6180339887498949
"""Multiples of it, without their whole parts, are weights that differ from round to round."""

Sample = Mapping[str, Array]
"""The numbers of a sample, by the part of the problem that they belong to."""


def sample_of_run(run: Run) -> Sample | None:
    """Return the sample that a run was loaded with, or that of its problem; None if it has
    neither."""
    if run.sample is not None or run.problem is None or run.stream is None:
        return run.sample
    return sample_of(run.played or run.problem, run.problem, run.stream)


def sample_of(played: Problem, scored: Problem, stream: Stream) -> Sample:
    """Return a sample of the problem that was played and of the one that is scored.

    Weighted sums of all data tell a change of a single number, where rounding errors have grown so
    much that losses do not. Losses and constraints are evaluated with the data of the first, the
    middle and the last round of the first seed. An adversary has no data before it is played, so
    that only what takes no data is evaluated.
    """
    domain = played.domain
    points = sample_decisions(domain, np.random.default_rng(0), POINTS)
    along = np.random.default_rng(1).normal(size=points[0].size)
    extent = [float(domain.radius), float(domain.diameter)]
    parts = {"decisions of the domain": np.array([*extent, *(points.reshape(POINTS, -1) @ along)])}
    if not stream.reacts:
        parts["data"] = _weighted_sums(stream)
    problems = {"": scored} if played is scored else {"": scored, "played ": played}
    for name, problem in problems.items():
        for part, values in _values(problem.whole(), points, stream).items():
            parts[name + part] = values
    return parts


def _values(problem: Problem, points: Array, stream: Stream) -> dict[str, Array]:
    data = _rounds(stream)
    parts: dict[str, Array] = {}
    with double_precision():
        at = points.astype(float)[:, None]
        if data is not None and problem.previous:
            count = len(jax.tree.leaves(data)[0][0])
            data = problem.given(data, np.broadcast_to(points[0], (1, count, *points[0].shape)))
        if data is not None:
            parts["losses"] = loss_evaluation(problem).values(at, data).ravel()
        if data is not None or not problem.constraints.takes_data:
            round_data = data if problem.constraints.takes_data else None
            values = constraint_evaluation(problem).values(at, round_data)
            # Two numbers for each decision and round, however many constraints there are.
            pair = [values.max(axis=-1).ravel(), values.sum(axis=-1).ravel()]
            parts["constraint values"] = np.concatenate(pair)
    return parts


def _weighted_sums(stream: Stream) -> Array:
    """Return sums over all rounds of the data of each seed, and of their squares, with a weight of
    its own for each round and entry."""
    sums = np.zeros((2, stream.seeds))
    width = stream.width
    along = np.random.default_rng(2).uniform(1, 2, size=width)
    length = max(1, NUMBERS // max(1, width * stream.seeds))
    for start in range(0, stream.horizon, length):
        count = min(length, stream.horizon - start)
        leaves = jax.tree.leaves(stream.block(start, count))
        rounds = 1 + np.modf((start + np.arange(count)) * GOLDEN)[0]
        done = 0
        for leaf in leaves:
            rows = np.asarray(leaf, float).reshape(stream.seeds, count, -1)
            each = rows @ along[done : done + rows.shape[2]]
            sums += np.stack([each, each * each]) @ rounds
            done += rows.shape[2]
    return sums.ravel()


def _rounds(stream: Stream) -> Any:
    """Return the data of the first, the middle and the last round, arrays (1, round, ...)."""
    if stream.reacts:
        return None
    rounds = sorted({0, stream.horizon // 2, stream.horizon - 1})
    blocks = [jax.tree.map(lambda a: np.asarray(a)[:1], stream.block(t, 1)) for t in rounds]
    return jax.tree.map(lambda *leaves: np.concatenate(leaves, axis=1), *blocks)


def other_part(sample: Sample, own: Sample, tolerance: float) -> tuple[str, float, float] | None:
    """Return the first part in which two samples differ, with one number of each; None if they
    agree as far as both go."""
    for name in (name for name in own if name in sample):
        here, there = sample[name], own[name]
        if here.shape != there.shape:
            return f"the numbers of sampled {name}", here.size, there.size
        size = np.max(np.abs(there), initial=0, where=np.isfinite(there))
        equal = np.isclose(here, there, rtol=0, atol=max(AGREE, tolerance) * size, equal_nan=True)
        if not equal.all():
            at = int(np.argmin(equal))
            return f"the sampled {name}", float(here[at]), float(there[at])
    return None
