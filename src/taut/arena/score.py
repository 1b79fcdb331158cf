"""Scores, ranks, growth exponents and Pareto fronts of stored results.

The score of a method is the share of targets that it hits. A target is a pair (r, v): regret at
most r G_f D sqrt(T) and violation at most v G_g D sqrt(T), for all r and v on a logarithmic grid.
Shares are averaged over seeds, over the streams of a family, and over families. All these means are
arithmetic, so the share that is hit and the shares that are missed for either reason add up to 1.
Negative regret hits all targets of regret. No floor and no exchange rate enters, and one stream can
change the score by no more than its weight.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from ..engine import Array
from ..judge.over_seeds import Interval
from ..judge.rates import Rate, fit
from ..plots.families import Family, family_of
from . import statistics
from .entries import THEORY
from .registry import STREAMS
from .results import Result
from .statistics import Shares
from .stream import Stream

Key = tuple[str, str, str, int]
FLOORS = (1e-2, 1e-3, 1e-4, 1e-6)
"""Floors of a geometric mean, for `sensitivity`."""
GRIDS = ((-3, 1), (-6, 1), (-4, 0))
"""Other grids of targets, as powers of ten, for `sensitivity`."""


def parts(stream: Stream, result: Result) -> tuple[Array, Array]:
    """Regret / (G_f D sqrt(T)) and violation / (G_g D sqrt(T)) by seed, both at least 0. The stream
    says which regret and which violation count."""
    loss, constraint = stream.scale
    root = np.sqrt(result.horizon)
    regret = np.maximum(np.asarray(result.values[stream.scored_regret]), 0) / (loss * root)
    violation = np.maximum(np.asarray(result.values[stream.scored]), 0) / (constraint * root)
    return regret, violation


@dataclass(frozen=True)
class Line:
    """One learner on one stream for a number of rounds."""

    learner: str
    result: Result
    regret: Array
    """Scaled regret by seed."""
    violation: Array
    """Scaled violation by seed."""

    @cached_property
    def shares(self) -> Shares:
        """The shares of targets, by seed."""
        return statistics.shares(self.regret, self.violation)

    @property
    def score(self) -> float:
        """The share of targets that is hit, the mean over seeds; larger is better."""
        return float(self.shares.hit.mean())

    def interval(self, quantity: str) -> Interval:
        """Mean and 95 % interval over seeds of a measured quantity."""
        return Interval.of(np.asarray(self.result.values[quantity]))


@dataclass(frozen=True)
class Board:
    """All learners on one stream, the best score first."""

    stream: Stream
    horizon: int
    lines: tuple[Line, ...]

    def __getitem__(self, learner: str) -> Line:
        return next(line for line in self.lines if line.learner == learner)

    @cached_property
    def by_learner(self) -> dict[str, Line]:
        """The lines by name."""
        return {line.learner: line for line in self.lines}


@dataclass(frozen=True)
class Standing:
    """One learner over several streams."""

    learner: str
    score: Interval
    """The share of targets that is hit, with a 95 % interval of the bootstrap over streams and
    seeds."""
    missed_regret: float
    """The share that is missed because of the regret alone."""
    missed_violation: float
    """The share that is missed because of the violation alone."""
    missed_both: float
    streams: int
    """The number of streams that the learner played."""
    columns: Mapping[str, float]
    """Means with the same weights: "feasible rounds" (a share), "violating rounds", and "peak
    violation" in units of G_g D."""
    rank: int | None
    """1 + the number of learners that are better in at least 97.5 % of the bootstrap's samples;
    `None` for a learner that did not play on all streams."""
    ranks: tuple[int, int] = (0, 0)
    """The 95 % interval of the place in the bootstrap's samples."""
    mean_rank: float = np.nan
    """The mean over families of the place."""
    same: float = np.nan
    """The p-value of Wilcoxon's paired test against the learner with the smallest mean rank, after
    Holm's correction."""

    @property
    def family(self) -> Family:
        """The family of the learner."""
        return family_of(self.learner)

    @property
    def headline(self) -> bool:
        """Whether the learner represents its family."""
        return self.family.representative in ("", self.learner)


@dataclass(frozen=True)
class Leaderboard:
    """The learners over several streams: those that played on all of them first."""

    standings: tuple[Standing, ...]
    streams: tuple[str, ...]
    families: tuple[str, ...]
    """Of the streams."""
    difference: float
    """The critical difference of mean ranks (Nemenyi), over families."""
    friedman: float
    """The p-value of the hypothesis that all learners are alike."""
    better: Mapping[tuple[str, str], float]
    """(first, second) -> the share of the bootstrap's samples in which the first is better."""

    def __getitem__(self, learner: str) -> Standing:
        return next(standing for standing in self.standings if standing.learner == learner)

    @property
    def ranked(self) -> tuple[Standing, ...]:
        """The learners that played on all streams."""
        return tuple(standing for standing in self.standings if standing.rank is not None)


def board(
    results: Mapping[Key, Result], stream: Stream, tuned: bool = False, horizon: int | None = None
) -> Board | None:
    """Return the learners on one stream; `None` if there is no result.

    With `tuned`, each learner has the parameters of the grid, theory's among them, with the largest
    score, for the number of rounds for which the grid was played. They are chosen with the results
    themselves, which no learner can do. Otherwise the number of rounds is `horizon`, by default the
    largest.
    """
    here = [
        result
        for result in results.values()
        if result.stream == stream.name
        and result.stream_version == stream.version
        and stream.scored_regret in result.values
    ]
    grid = [result.horizon for result in here if result.variant != THEORY] if tuned else []
    chosen = (
        max(grid or [result.horizon for result in here], default=0) if horizon is None else horizon
    )
    lines: dict[str, Line] = {}
    for result in here:
        if result.horizon != chosen or (result.variant != THEORY and not tuned):
            continue
        line = Line(result.learner, result, *parts(stream, result))
        known = lines.get(result.learner)
        if known is None or _order(line) < _order(known):
            lines[result.learner] = line
    if not lines:
        return None
    return Board(stream, chosen, tuple(sorted(lines.values(), key=_order)))


def _order(line: Line) -> tuple[float, float, str, str]:
    """The best score first; between equal ones the smaller sum of both parts."""
    total = float(np.mean(line.regret + line.violation))
    return -line.score, total, line.learner, line.result.variant


@dataclass(frozen=True)
class Field:
    """The numbers of all learners on several streams, as arrays (method, stream, seed). A stream
    with fewer seeds than others has zeros where it has no seed, and a learner that did not play
    has NaN."""

    names: tuple[str, ...]
    families: tuple[str, ...]
    seeds: tuple[int, ...]
    regret: Array
    violation: Array

    @property
    def weights(self) -> Array:
        """The weights (stream, seed) of the mean over seeds, streams of a family, and families."""
        used = np.arange(self.regret.shape[2]) < np.array(self.seeds)[:, None]
        by_stream = statistics.weights_of(self.families) / np.array(self.seeds)
        return np.asarray(used * by_stream[:, None])

    def mean(self, values: Array) -> Array:
        """The mean of values (method, stream, seed) over what each method played."""
        played = ~np.isnan(values[:, :, 0])
        weights = self.weights[None] * played[:, :, None]
        total = weights.sum(axis=(1, 2))
        return np.asarray((np.nan_to_num(values) * weights).sum(axis=(1, 2)) / total)


def field_of(boards: Sequence[Board]) -> Field:
    """Return the numbers of several boards as arrays."""
    names = tuple(dict.fromkeys(line.learner for board in boards for line in board.lines))
    seeds = tuple(max(len(line.regret) for line in board.lines) for board in boards)
    shape = len(names), len(boards), max(seeds)
    regret, violation = np.full(shape, np.nan), np.full(shape, np.nan)
    for s, board in enumerate(boards):
        for m, name in enumerate(names):
            line = board.by_learner.get(name)
            if line is None:
                continue
            # A result from elsewhere may have fewer seeds: they are repeated.
            regret[m, s], violation[m, s] = 0.0, 0.0
            regret[m, s, : seeds[s]] = np.resize(line.regret, seeds[s])
            violation[m, s, : seeds[s]] = np.resize(line.violation, seeds[s])
    return Field(names, tuple(board.stream.family for board in boards), seeds, regret, violation)


def leaderboard(boards: Iterable[Board]) -> Leaderboard:
    """Return the learners by their score over these streams; those that played on all of them
    first, and only they are ranked."""
    boards = tuple(board for board in boards if board.stream.ranked)
    if not boards:
        return Leaderboard((), (), (), 0.0, 1.0, {})
    field = field_of(boards)
    shares = statistics.shares(field.regret, field.violation)
    means = {
        name: field.mean(getattr(shares, name))
        for name in ("hit", "missed_regret", "missed_violation", "missed_both")
    }
    samples = statistics.draw_weights(field.families, field.seeds, field.regret.shape[2])
    scores = _sampled(samples, shares.hit)
    played = ~np.isnan(field.regret[:, :, 0])
    standings = [
        Standing(
            name,
            Interval(float(means["hit"][m]), *_quantiles(scores[:, m])),
            missed_regret=float(means["missed_regret"][m]),
            missed_violation=float(means["missed_violation"][m]),
            missed_both=float(means["missed_both"][m]),
            streams=int(played[m].sum()),
            columns=_columns(boards, name),
            rank=None,
        )
        for m, name in enumerate(field.names)
    ]
    complete = [m for m in range(len(standings)) if played[m].all()]
    order = sorted(complete, key=lambda m: (-standings[m].score.mean, standings[m].learner))
    pairs = {}
    tests = None
    if complete:
        wins = statistics.better(scores[:, complete])
        blocks = by_family(field, shares.hit)[complete]
        tests = statistics.rank_tests(blocks)
        places = _places(scores[:, complete])
        for i, m in enumerate(complete):
            beaten_by = np.sum(wins[:, i] >= 1 - statistics.LEVEL / 2)
            low, high = np.quantile(places[:, i], [0.025, 0.975], method="closest_observation")
            standings[m] = replace(
                standings[m],
                rank=1 + int(beaten_by),
                ranks=(int(low), int(high)),
                mean_rank=float(tests.ranks[i]),
                same=float(tests.wilcoxon[i]),
            )
            for j, other in enumerate(complete):
                pairs[field.names[m], field.names[other]] = float(wins[i, j])
    rest = sorted(
        (m for m in range(len(standings)) if m not in complete),
        key=lambda m: (-standings[m].streams, -standings[m].score.mean),
    )
    return Leaderboard(
        tuple(standings[m] for m in (*order, *rest)),
        tuple(board.stream.name for board in boards),
        field.families,
        0.0 if tests is None else tests.difference,
        1.0 if tests is None else tests.friedman,
        pairs,
    )


def by_family(field: Field, values: Array) -> Array:
    """The mean of values (method, stream, seed) on each family of streams, (method, family)."""
    names = list(dict.fromkeys(field.families))
    weights = field.weights
    blocks = np.empty((len(values), len(names)))
    for f, name in enumerate(names):
        inside = weights * (np.array(field.families) == name)[:, None]
        blocks[:, f] = np.einsum("msk,sk->m", values, inside / inside.sum())
    return blocks


def _sampled(samples: Array, values: Array) -> Array:
    """The mean of values (method, stream, seed) in every sample, (draw, method), over the streams
    that a method played; 0 in a sample that has none of them."""
    there = ~np.isnan(values[:, :, 0])
    total = np.einsum("dsk,ms->dm", samples, there.astype(float))
    mean = np.einsum("dsk,msk->dm", samples, np.nan_to_num(values))
    return np.asarray(mean / np.where(total > 0, total, 1.0))


def _quantiles(values: Array) -> tuple[float, float]:
    low, high = np.quantile(values, [statistics.LEVEL / 2, 1 - statistics.LEVEL / 2])
    return float(low), float(high)


def _places(scores: Array) -> Array:
    """The place of each method in each sample, (draw, method); equal scores share the best one."""
    ahead = scores[:, None, :] > scores[:, :, None]
    return np.asarray(1 + ahead.sum(axis=2))


def _columns(boards: Sequence[Board], learner: str) -> dict[str, float]:
    """Further means of a learner, with the weights of the score."""
    mine = [board for board in boards if learner in board.by_learner]
    weights = statistics.weights_of([board.stream.family for board in mine])
    values: dict[str, list[float]] = {}
    for board in mine:
        result = board[learner].result
        if "violating rounds" in result.values:
            count = float(np.mean(result.values["violating rounds"]))
            values.setdefault("violating rounds", []).append(count)
            values.setdefault("feasible rounds", []).append(1 - count / board.horizon)
        if "peak violation" in result.values:
            peak = float(np.mean(result.values["peak violation"])) / board.stream.scale[1]
            values.setdefault("peak violation", []).append(peak)
    return {
        name: float(weights @ column) for name, column in values.items() if len(column) == len(mine)
    }


def sensitivity(boards: Iterable[Board]) -> list[tuple[str, str, int]]:
    """Return (choice, who leads, place of the leader of the board) for other ways to score.

    The ways differ in the grid of targets, in the weights of streams and families, and in the kind
    of mean. Only learners that played on all streams take part.
    """
    boards = tuple(board for board in boards if board.stream.ranked)
    if not boards:
        return []
    field = field_of(boards)
    complete = [m for m in range(len(field.names)) if not np.isnan(field.regret[m]).any()]
    if not complete:
        return []
    names = [field.names[m] for m in complete]
    regret, violation = field.regret[complete], field.violation[complete]
    field = replace(field, names=tuple(names), regret=regret, violation=violation)
    hit = statistics.shares(regret, violation).hit
    alike = replace(field, families=tuple(map(str, range(len(boards)))))
    total = regret + violation
    ways: dict[str, Array] = {"as ranked: share of targets hit": field.mean(hit)}
    for low, high in GRIDS:
        grid = 10.0 ** np.linspace(low, high, 5 * (high - low) + 1)
        shares = statistics.shares(regret, violation, grid).hit
        ways[f"targets from 1e{low} to 1e{high}"] = field.mean(shares)
    ways["one vote per stream"] = alike.mean(hit)
    ways["mean rank over families"] = -statistics.mean_ranks(by_family(field, hit))
    ways["mean of regret part + violation part"] = -field.mean(total)
    # Places of seeds that a stream does not have are zeros, so sums are divided by its own number.
    typical = np.median(total.sum(axis=2) / np.array(field.seeds), axis=0)
    ways["the same, in units of the median learner of each stream"] = -field.mean(
        total / np.where(typical > 0, typical, 1.0)[:, None]
    )
    for floor in FLOORS:
        logs = np.log(np.maximum(total, floor))
        ways[f"geometric mean of their sum, floor {floor:g}"] = -field.mean(logs)
    votes = list(dict.fromkeys(field.families))
    for left_out in votes if len(votes) > 1 else ():
        stay = [s for s, name in enumerate(field.families) if name != left_out]
        fewer = Field(
            field.names,
            tuple(field.families[s] for s in stay),
            tuple(field.seeds[s] for s in stay),
            regret[:, stay],
            violation[:, stay],
        )
        ways[f"without the family {left_out}"] = fewer.mean(hit[:, stay])
    first = names[int(np.argmax(ways["as ranked: share of targets hit"]))]
    mine = names.index(first)
    return [
        (way, names[int(np.argmax(values))], 1 + int(np.sum(values > values[mine])))
        for way, values in ways.items()
    ]


def front(lines: Collection[Line]) -> set[str]:
    """The learners that no other one beats in mean regret and in mean violation at once."""
    points = {
        line.learner: tuple(
            float(np.mean(line.result.values[name])) for name in ("regret", "violation")
        )
        for line in lines
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
        T: result
        for (s, name, variant, T), result in results.items()
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


def boards_of(
    results: Mapping[Key, Result], tuned: bool = False, horizon: int | None = None
) -> tuple[Board, ...]:
    """The boards of all streams that have results, in the order of the registry."""
    boards = (board(results, stream, tuned, horizon) for stream in STREAMS.values())
    return tuple(board for board in boards if board is not None)
