"""Comparators that move: the best decision of every round, or of every segment of rounds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import jax
import numpy as np

from ...engine import Array
from ...problem.feasibility import NoFeasibleDecision
from ...problem.problem import Problem
from ...problem.streams import Arrays, Stream
from .result import Found

__all__ = ["Moving", "best_of_each_round", "best_with_breakpoints"]

BATCH = 256
"""Rounds that are solved side by side by the per-round comparator."""

Solve = Callable[[Stream, tuple[int, ...]], Found]
"""The best fixed decisions of a stream for prefixes."""


@dataclass(frozen=True)
class Moving:
    """A comparator that moves, for every seed."""

    decision: Array
    """(seed, round or segment, *shape)"""
    loss: Array
    """(seed, round or segment)"""
    slack: Array
    """(seed,) How far the total loss may be above the smallest one that a comparator of this kind
    can have."""
    violation: Array
    """(seed, round or segment) The largest constraint value in the rounds for which the decision is
    used."""
    solver: str
    unit: float
    """See `Hindsight.unit`."""


def best_of_each_round(problem: Problem, stream: Stream, length: int, solve: Solve) -> Moving:
    """For every round, the decision that minimises its loss under its own constraints. Equal rounds
    are solved once."""
    data = jax.tree.map(np.asarray, stream.block(0, length))
    leaves, tree = jax.tree.flatten(data)
    count = stream.seeds * length
    flat = [leaf.reshape(count, *leaf.shape[2:]) for leaf in leaves]
    table = np.concatenate([leaf.reshape(count, -1).astype(float) for leaf in flat], axis=1)
    _, first, which = np.unique(table, axis=0, return_index=True, return_inverse=True)
    parts: list[Found] = []
    for start in range(0, len(first), BATCH):
        chosen = first[start : start + BATCH]
        padded = (
            np.concatenate([chosen, np.repeat(chosen[-1:], BATCH - len(chosen))])
            if len(first) > BATCH
            else chosen
        )
        rounds = jax.tree.unflatten(tree, [leaf[padded][:, None] for leaf in flat])
        try:
            found = solve(Arrays(rounds, 1, len(padded), True), (1,))
        except NoFeasibleDecision as error:
            seed, number = divmod(int(padded[error.seed or 0]), length)
            error.add_note(f"This is round {number + 1} of seed {seed}, on its own.")
            raise
        parts.append(_first(found, len(chosen)))
    shape = (stream.seeds, length)
    which = which.reshape(-1)
    loss, slack, violation = (
        np.concatenate([getattr(part, name) for part in parts])[which].reshape(shape)
        for name in ("loss", "slack", "violation")
    )
    decision = np.concatenate([part.decision for part in parts])[which].reshape(
        *shape, *problem.domain.shape
    )
    return Moving(
        decision,
        loss,
        slack.sum(axis=1),
        violation,
        f"{len(first)} programs, {parts[0].solver}",
        max(part.unit for part in parts),
    )


def best_with_breakpoints(
    problem: Problem, stream: Stream, length: int, solve: Solve, breakpoints: Sequence[int]
) -> Moving:
    """The best fixed decision between every two breakpoints (numbers of rounds before the decision
    may change)."""
    edges = [0, *breakpoints, length]
    found = [solve(_Part(stream, start, stop), (stop - start,)) for start, stop in pairwise(edges)]
    loss, slack, violation = (
        np.stack([getattr(one, name) for one in found], axis=1)
        for name in ("loss", "slack", "violation")
    )
    decision = np.stack([one.decision for one in found], axis=1)
    return Moving(
        decision.reshape(stream.seeds, len(found), *problem.domain.shape),
        loss,
        slack.sum(axis=1),
        violation,
        f"{len(found)} segments, {found[0].solver}",
        max(one.unit for one in found),
    )


@dataclass(frozen=True)
class _Part(Stream):
    """Rounds start..stop of a stream."""

    whole: Stream
    start: int
    stop: int

    @property
    def horizon(self) -> int:  # type: ignore[override]
        """The number of rounds."""
        return self.stop - self.start

    @property
    def seeds(self) -> int:  # type: ignore[override]
        """As many as the whole stream has."""
        return self.whole.seeds

    def block(self, start: int, length: int) -> Any:
        """A block of the whole stream."""
        return self.whole.block(self.start + start, length)


def _first(found: Found, count: int) -> Found:
    return Found(
        found.decision[:count],
        found.loss[:count],
        found.gap[:count],
        found.violation[:count],
        None,
        found.solver,
        found.unit,
    )
