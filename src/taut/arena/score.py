"""Scores, ranks, growth exponents and Pareto fronts of stored results."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from ..engine import Array
from ..judge.over_seeds import Interval
from ..judge.rates import Rate, fit
from .entries import THEORY
from .registry import STREAMS
from .results import Result
from .stream import Stream

__all__ = [
    "SMALLEST",
    "Board",
    "Line",
    "Standing",
    "board",
    "exponents",
    "front",
    "leaderboard",
    "parts",
    "ranks",
]

SMALLEST = 1e-3
"""The score of a stream is at least this, so that one stream without regret and violation does not
decide the geometric mean."""

Key = tuple[str, str, str, int]


def parts(stream: Stream, result: Result) -> tuple[Array, Array]:
    """The two parts of the score, by seed: regret / (G_f D sqrt(T)) and violation / (G_g D
    sqrt(T)), both at least 0."""
    loss, constraint = stream.scale
    root = np.sqrt(result.horizon)
    regret = np.maximum(np.asarray(result.values["regret"]), 0) / (loss * root)
    violation = np.maximum(np.asarray(result.values[stream.scored]), 0) / (constraint * root)
    return regret, violation


@dataclass(frozen=True)
class Line:
    """One learner on one stream, for the largest number of rounds."""

    learner: str
    result: Result
    regret: Array
    """The first part of the score, by seed."""
    violation: Array
    """The second part."""

    @property
    def score(self) -> Array:
        """The sum of the parts, at least `SMALLEST`, by seed."""
        return np.maximum(self.regret + self.violation, SMALLEST)

    def interval(self, quantity: str) -> Interval:
        """Mean and 95 % interval of a measured quantity."""
        return Interval.of(np.asarray(self.result.values[quantity]))


@dataclass(frozen=True)
class Board:
    """All learners on one stream, the best score first."""

    stream: Stream
    horizon: int
    lines: tuple[Line, ...]

    def __getitem__(self, learner: str) -> Line:
        return next(line for line in self.lines if line.learner == learner)


@dataclass(frozen=True)
class Standing:
    """One learner over several streams."""

    learner: str
    score: Interval
    """The geometric mean over the streams of the sum of both parts."""
    regret: float
    """The mean over the streams of the first part."""
    violation: float
    streams: int
    """The number of streams that the learner played."""
    rank: int | None
    """1 + the number of learners whose interval lies below; `None` for a learner that did not play
    on all streams."""


def board(results: Mapping[Key, Result], stream: Stream, tuned: bool = False) -> Board | None:
    """Return the learners on one stream for its largest number of rounds; `None` if there is no
    result.

    With `tuned`, each learner has the parameters of the grid, theory's among them, with the
    smallest mean score, for the number of rounds for which the grid was played. They are chosen
    with the results themselves, which no learner can do.
    """
    here = [
        one
        for one in results.values()
        if one.stream == stream.name and one.stream_version == stream.version
    ]
    if not here:
        return None
    grid = [one.horizon for one in here if one.variant != THEORY] if tuned else []
    horizon = max(grid or [one.horizon for one in here])
    lines: dict[str, Line] = {}
    for one in here:
        if one.horizon != horizon or (one.variant != THEORY and not tuned):
            continue
        line = Line(one.learner, one, *parts(stream, one))
        known = lines.get(one.learner)
        if known is None or (line.score.mean(), line.result.variant) < (
            known.score.mean(),
            known.result.variant,
        ):
            lines[one.learner] = line
    return Board(
        stream,
        horizon,
        tuple(sorted(lines.values(), key=lambda line: (line.score.mean(), line.learner))),
    )


def leaderboard(boards: Iterable[Board]) -> tuple[Standing, ...]:
    """Return the learners by their score over these streams; those that played on all of them
    first, and only they are ranked."""
    ranked = [one for one in boards if one.stream.ranked]
    seeds = max((len(line.regret) for one in ranked for line in one.lines), default=0)
    found: list[tuple[str, Array, float, float, int]] = []
    for learner in dict.fromkeys(line.learner for one in ranked for line in one.lines):
        mine = [line for one in ranked for line in one.lines if line.learner == learner]
        logs = np.mean([np.log(_spread(line.score, seeds)) for line in mine], axis=0)
        halves = (
            float(np.mean([np.mean(getattr(line, part)) for line in mine]))
            for part in ("regret", "violation")
        )
        found.append((learner, np.exp(logs), *halves, len(mine)))
    complete = {name: scores for name, scores, *_, count in found if count == len(ranked)}
    places = ranks(complete)
    standings = [
        Standing(name, Interval.of(scores), regret, violation, count, places.get(name))
        for name, scores, regret, violation, count in found
    ]
    return tuple(
        sorted(
            standings,
            key=lambda one: (
                one.rank is None,
                -one.streams if one.rank is None else 0,
                one.score.mean,
            ),
        )
    )


def ranks(scores: Mapping[str, Array]) -> dict[str, int]:
    """1 + the number of learners whose 95 % interval lies entirely below. Learners whose intervals
    overlap can share a rank."""
    intervals = {name: Interval.of(values) for name, values in scores.items()}
    return {
        name: 1 + sum(bool(other.high < one.low) for other in intervals.values())
        for name, one in intervals.items()
    }


def front(lines: Collection[Line]) -> set[str]:
    """The learners that no other one beats in mean regret and in mean violation at once."""
    points = {
        one.learner: (one.interval("regret").mean, one.interval("violation").mean) for one in lines
    }
    return {
        name
        for name, (x, y) in points.items()
        if not any(
            a <= x and b <= y and (a < x or b < y)
            for other, (a, b) in points.items()
            if other != name
        )
    }


def exponents(results: Mapping[Key, Result], stream: str, learner: str) -> dict[str, Rate]:
    """Growth exponents of regret and violation over the upper half of the horizons, with 95 %
    intervals over seeds."""
    mine = {
        T: one
        for (s, name, variant, T), one in results.items()
        if (s, name, variant) == (stream, learner, THEORY)
    }
    horizons = sorted(mine)[len(mine) // 2 :]
    if len(horizons) < 2 or len({mine[T].seeds for T in horizons}) > 1:
        return {}
    values = {
        name: np.array([mine[T].values[name] for T in horizons]).T
        for name in ("regret", "violation")
    }
    return {name: fit(name, horizons, column) for name, column in values.items()}


def boards_of(results: Mapping[Key, Result], tuned: bool = False) -> tuple[Board, ...]:
    """The boards of all streams that have results, in the order of the registry."""
    found = (board(results, stream, tuned) for stream in STREAMS.values())
    return tuple(one for one in found if one is not None)


def _spread(values: Array, seeds: int) -> Array:
    """The values of all seeds; those of a stream with one seed, or fewer than others have, are
    repeated."""
    return np.resize(values, seeds)
