"""Comparators that move: the best decision of every round, and the best sequence with a given
number of switches."""

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

__all__ = ["Moving", "best_of_each_round", "best_with_breakpoints", "best_with_switches"]

BATCH = 256
"""Rounds that are solved side by side by the per-round comparator."""
GRID = 24
"""The number of cells into which the rounds are cut if the switches are not given; costs grow with
its square."""

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
    switches: Array
    """(seed, switch) The numbers of rounds before the decision changes."""
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
    switches = np.tile(np.arange(1, length), (stream.seeds, 1))
    return Moving(
        decision,
        loss,
        slack.sum(axis=1),
        violation,
        switches,
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
        np.tile(np.asarray(breakpoints, int), (stream.seeds, 1)),
        f"{len(found)} segments, {found[0].solver}",
        max(one.unit for one in found),
    )


def best_with_switches(
    problem: Problem, stream: Stream, length: int, solve: Solve, switches: int, cells: int
) -> Moving:
    """The best sequence with `switches` switches at the edges of `cells` equal cells, by dynamic
    programming.

    A lower bound for sequences that switch anywhere follows from a second recursion: a cell in
    which a switch happens costs at least the sum of its rounds' own minima, and all other cells lie
    in segments with one decision.
    """
    edges = np.unique(np.round(np.linspace(0, length, min(cells, length) + 1)).astype(int))
    tables = [_segments(problem, stream, seed, edges, solve) for seed in range(stream.seeds)]
    paths = [_cheapest(table.loss, switches) for table in tables]
    slack = np.zeros(stream.seeds)
    if len(edges) <= length:  # otherwise every round is an edge, and nothing lies between
        each = best_of_each_round(problem, stream, length, solve)
        for seed, (table, path) in enumerate(zip(tables, paths, strict=True)):
            own = np.add.reduceat(each.loss[seed], edges[:-1])
            least = _least(table.loss - table.slack, own, switches) - each.slack[seed]
            slack[seed] = sum(table.loss[i, j] for i, j in path) - least
    else:
        for seed, (table, path) in enumerate(zip(tables, paths, strict=True)):
            slack[seed] = sum(table.slack[i, j] for i, j in path)

    def picked(name: str) -> Array:
        return np.stack(
            [
                np.stack([getattr(table, name)[i, j] for i, j in path])
                for table, path in zip(tables, paths, strict=True)
            ]
        )

    chosen = (
        np.stack([[edges[j] for _, j in path[:-1]] for path in paths])
        .reshape(stream.seeds, switches)
        .astype(int)
    )
    name = f"{switches} switches at the edges of {len(edges) - 1} cells, {tables[0].solver}"
    decision = picked("decision").reshape(stream.seeds, switches + 1, *problem.domain.shape)
    unit = max(table.unit for table in tables)
    loss, violation = picked("loss"), picked("violation")
    return Moving(decision, loss, np.maximum(slack, 0), violation, chosen, name, unit)


@dataclass(frozen=True)
class _Part(Stream):
    """Rounds start..stop of a stream, of one seed or of all."""

    whole: Stream
    start: int
    stop: int
    seed: int | None = None

    @property
    def horizon(self) -> int:  # type: ignore[override]
        """The number of rounds."""
        return self.stop - self.start

    @property
    def seeds(self) -> int:  # type: ignore[override]
        """One, or all of the whole stream's."""
        return self.whole.seeds if self.seed is None else 1

    def block(self, start: int, length: int) -> Any:
        """A block of the whole stream."""
        block, seed = self.whole.block(self.start + start, length), self.seed
        return block if seed is None else jax.tree.map(lambda a: a[seed : seed + 1], block)


@dataclass
class _Table:
    """The best fixed decision from edge i to edge j, for all i < j; losses are infinite where none
    is feasible."""

    decision: Array
    loss: Array
    slack: Array
    violation: Array
    solver: str
    unit: float


def _segments(problem: Problem, stream: Stream, seed: int, edges: Array, solve: Solve) -> _Table:
    count, size = len(edges), int(np.prod(problem.domain.shape))
    table = _Table(
        np.zeros((count, count, size)),
        np.full((count, count), np.inf),
        np.zeros((count, count)),
        np.zeros((count, count)),
        "",
        0.0,
    )
    for i in range(count - 1):
        part = _Part(stream, int(edges[i]), int(edges[-1]), seed)
        ends = [int(edge - edges[i]) for edge in edges[i + 1 :]]
        found = None
        while ends and found is None:
            try:
                found = solve(part, tuple(ends))
            except (
                NoFeasibleDecision
            ) as error:  # more rounds have more constraints: no longer segment is feasible either
                if error.rounds is None or error.rounds <= ends[0]:
                    error.add_note(
                        f"These are rounds {edges[i] + 1} to {edges[i + 1]} of seed {seed}; use a "
                        "finer grid."
                    )
                    if len(ends) == 1 or error.rounds is None:
                        raise
                ends = [end for end in ends if end < (error.rounds or 0)]
                last = error
        if found is None:
            raise last
        span = slice(i + 1, i + 1 + len(ends))
        table.decision[i, span], table.loss[i, span] = found.decision, found.loss
        table.slack[i, span], table.unit = found.slack, max(table.unit, found.unit)
        table.violation[i, span], table.solver = found.violation, found.solver
    return table


def _cheapest(loss: Array, switches: int) -> list[tuple[int, int]]:
    """The segments (i, j) of the cheapest path from the first edge to the last with `switches`
    switches."""
    last = len(loss) - 1
    best, came = [loss[0]], []
    for _ in range(switches):
        total = best[-1][:, None] + loss
        came.append(np.argmin(total, axis=0))
        best.append(np.min(total, axis=0))
    if not np.isfinite(best[-1][last]):
        raise ValueError(
            f"switches: got {switches}; no sequence with so few switches at the edges of the grid "
            "is feasible in all rounds. Use more switches or a finer grid"
        )
    path, edge = [], last
    for previous in came[::-1]:
        path.append((int(previous[edge]), edge))
        edge = int(previous[edge])
    return [(0, edge), *path[::-1]]


def _least(lower: Array, own: Array, switches: int) -> float:
    """A lower bound on the loss of every sequence with at most `switches` switches, anywhere.

    `lower[i, j]` bounds the loss of one decision from edge i to edge j, `own[j]` that of any
    decisions in cell j.
    """
    count = len(lower)
    segment = np.where(np.eye(count, dtype=bool), 0.0, lower)
    start = np.full(count, np.inf)
    start[0] = 0.0
    least = float(segment[0, -1])
    for _ in range(switches):
        ended = np.min(start[:, None] + segment, axis=0)  # a segment has ended at the edge
        start = np.minimum(
            ended, np.append(np.inf, ended[:-1] + own)
        )  # the switch is there, or inside the next cell
        least = min(least, float(np.min(start + segment[:, -1])))
    return least


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
