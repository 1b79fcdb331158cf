"""Play the arena: every learner that applies on every stream, resumable cell by cell, with bounds
checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from .. import arguments
from ..engine import VERSION, Array
from ..judge.certificate import Row
from ..judge.guarantees import setting_of, standing, translated, under_feedback
from ..judge.over_seeds import Interval
from ..learners import LEARNERS, Card, Guarantee
from ..learners.guarantee import Assumes
from . import oracles, results
from .comparators import comparator_loss
from .entrants import ENTRANTS
from .entries import THEORY, Entry, card_of, described, entries, stream_of
from .outside import OUTSIDE, Outside
from .registry import STREAMS
from .results import Result
from .stream import Stream
from .submission import measure

HORIZONS = (2**8, 2**10, 2**12, 2**14)
SEEDS = 10
QUICK: Mapping[str, Any] = {
    "horizons": (256, 512, 1024),
    "seeds": 3,
    "streams": ("toy", "toy-strong", "polytope", "pool-random", "nested-spheres", "ad-pacing"),
    "learners": (
        "half-space",
        "half-space-anytime",
        "clipped-ogd",
        "clipped-ogd-strong",
        "surrogate",
        "yu-neely",
        "dual-mirror",
        "drift-plus-penalty",
    ),
}
"""What `--quick` plays: less than two minutes on two cores, compilation included."""
MEASURED = ("violation", "squared violation", "peak violation", "excess", "violating rounds")
"""What a cell measures; regret is computed from its loss and the comparator's."""
ROUNDING = 1e-9
"""Relative error that rounding may have in a measured value, against the size of what is added
up."""


@dataclass(frozen=True)
class Played:
    """What a call of `play` did."""

    folder: Path
    cells: int
    new: int
    """Results that were not there before."""
    left_out: tuple[tuple[str, str, str], ...]
    """(stream, learner, reason)"""
    failed: tuple[str, ...]
    broken: tuple[str, ...]
    """Bounds that were exceeded; there must be none."""


def play(
    folder: str | Path,
    *,
    learners: Sequence[str | Card] | None = None,
    streams: Sequence[str | Stream] | None = None,
    horizons: Sequence[int] = HORIZONS,
    seeds: int = SEEDS,
    grid: bool = True,
    executor: Any = None,
    retry: bool = False,
    progress: bool | None = None,
) -> Played:
    """Play every learner that applies on every stream, and store one small file per cell.

    Arguments:
        folder: where results are kept. The same call continues where it was interrupted; other
            learners, streams, numbers of rounds and seeds are added.
        learners: names of registered learners, of entrants and baselines of the arena,
            "package:Name" for others, or cards; by default all that apply and do not take a hundred
            times as long as the others.
        streams: names of streams, or streams; by default all.
        horizons: numbers of rounds; a stream plays those that it has, and one that is too short for
            the largest also plays the largest power of two that it has.
        seeds: number of seeds; a stream of real data has one.
        grid: whether to play the grid of parameters as well, for the largest number of rounds.
        executor, retry, progress: as in `taut.sweep`. Results are written stream by stream, so that
            those of finished streams can be reported after an interruption.
    """
    from ..progress import counting
    from ..sweeps import sweep

    folder = arguments.path("folder", folder)
    arguments.flag("grid", grid)
    arguments.flag("retry", retry)
    if progress is not None:
        arguments.flag("progress", progress)
    grid_of = tuple(sorted({arguments.count("horizons", T) for T in horizons}))
    if not grid_of:
        raise ValueError("horizons: got none; expected at least one number of rounds")
    asked = (*LEARNERS, *ENTRANTS, *OUTSIDE) if learners is None else tuple(learners)
    cards = [
        learner if isinstance(learner, Card) else card_of(learner)
        for learner in asked
        if learner not in OUTSIDE
    ]
    baselines = [OUTSIDE[name] for name in asked if isinstance(name, str) and name in OUTSIDE]
    chosen = [
        stream if isinstance(stream, Stream) else stream_of(stream)
        for stream in (STREAMS if streams is None else streams)
    ]
    wanted, left_out = entries(
        chosen, cards, grid_of, arguments.count("seeds", seeds), grid, patient=learners is not None
    )
    outside = [
        (baseline, stream, T)
        for baseline in baselines
        for stream in chosen
        if not stream.missing()
        for T in reversed(stream.lengths(grid_of))  # the longest first; shorter ones may be part
        if baseline.plays(stream, T)
    ]
    count = len(wanted) + len(outside)
    if not count:
        return Played(folder, 0, 0, tuple(left_out), (), ())
    reasons = {f"{stream} / {name}": why for stream, name, why in left_out}
    results.update_json(folder / results.LEFT_OUT, reasons)
    results.write_machine(folder)
    new, failed, broken = 0, list[str](), list[str]()
    best: dict[tuple[str, int, bool], Array] = {}
    with counting(progress, count) as counter:
        for stream in dict.fromkeys(entry.stream for entry in wanted):
            # Results are written stream by stream, so that an interrupted run can be reported.
            here = [entry for entry in wanted if entry.stream is stream]
            done = sweep(
                [entry.cell() for entry in here],
                executor,
                folder=folder / "runs",
                retry=retry,
                progress=counter,
            )
            failed += [str(failure) for failure in done.failed]
            new += _stored(folder, here, done, best, broken)
        decided: dict[tuple[str, str], tuple[Array, float]] = {}
        for baseline, stream, T in outside:
            try:
                new += _play_outside(folder, baseline, stream, T, seeds, decided)
            except Exception as error:  # it is listed, as a cell that fails, and the others go on
                where = f"{stream.name} / {baseline.name} / {T}"
                failed.append(f"{where}: {type(error).__name__}: {error}")
            counter.advance()
    failed += _count_oracles(folder, wanted)
    if len(failed) < count:
        results.index(folder, results.read_all(folder).values())
    return Played(folder, count, new, tuple(left_out), tuple(failed), tuple(broken))


def _stored(
    folder: Path,
    played: Sequence[Entry],
    done: Any,
    best: dict[tuple[str, int, bool], Array],
    broken: list[str],
) -> int:
    """Store the results of a sweep, add bounds that were exceeded to `broken`, and return how many
    results are new."""
    rows: dict[str, list[dict[str, Any]]] = {}
    for row in done.rows():
        rows.setdefault(row["name"], []).append(row)
    new, times = 0, {}
    for entry in (entry for entry in played if entry.name in rows):
        result = _result(entry, rows[entry.name], _best(entry, best), _best(entry, best, True))
        broken += [f"{entry.name}: {text}" for text in result.broken]
        times[result.file] = rows[entry.name][0]["seconds"] / entry.horizon / entry.seeds
        new += results.write(folder, result)
    results.update_json(folder / results.TIMES, times)
    return new


def _play_outside(
    folder: Path,
    baseline: Outside,
    stream: Stream,
    rounds: int,
    stream_seeds: int,
    decided: dict[tuple[str, str], tuple[Array, float]],
) -> bool:
    """Play a baseline and store its result; return whether it is new.

    Decisions that do not depend on the number of rounds are taken from `decided`, which has those
    of longer horizons with the seconds per round and seed.
    """
    seeds = stream.seeds_of(stream_seeds)
    result = Result(
        stream=stream.name,
        stream_version=stream.version,
        learner=baseline.name,
        variant=THEORY,
        horizon=rounds,
        values=dict.fromkeys(("regret", "violation"), (0.0,) * seeds),
        parameters=baseline.title,
        version=VERSION,
    )
    if (folder / "results" / result.file).exists():  # the name does not depend on the values
        return False
    data, at = stream.data(seeds, rounds), (baseline.name, stream.name)
    if at not in decided or not (baseline.anytime and stream.cumulative):
        begin = perf_counter()
        decisions = baseline.play(stream, data, rounds)
        decided[at] = decisions, (perf_counter() - begin) / rounds / seeds
    decisions, seconds = decided[at]
    measured = measure(stream, data, decisions[:, :rounds])
    values = {name: tuple(map(float, column)) for name, column in measured.items()}
    results.update_json(folder / results.TIMES, {result.file: seconds})
    return results.write(folder, replace(result, values=values))


def _count_oracles(folder: Path, wanted: Sequence[Entry]) -> list[str]:
    """Count the calls of every learner on the first stream that it plays; return what failed."""
    path = folder / oracles.FILE
    known = results.read_json(path)
    first = {entry.card.name: entry for entry in reversed(wanted) if entry.variant == THEORY}
    failed, counted = [], {}
    for name, entry in first.items():
        if name in known:
            continue
        try:
            data = entry.stream.data(1, entry.horizon)
            counted[name] = oracles.count_calls(entry.learner, entry.problem, data)
        except Exception as error:  # it is listed, as a cell that fails, and the others go on
            failed.append(f"oracle calls of {name}: {type(error).__name__}: {error}")
    results.update_json(path, counted)
    return failed


def _best(
    entry: Entry, known: dict[tuple[str, int, bool], Array], shifting: bool = False
) -> Array | None:
    """The comparator's total loss, by seed; `None` for a comparator that the stream does not
    have."""
    if shifting and entry.stream.shifting is None:
        return None
    at = entry.stream.name, entry.horizon, shifting
    if at not in known:
        known[at] = comparator_loss(entry.stream, entry.recipe(), shifting=shifting)
    return known[at]


def _result(
    entry: Entry, rows: list[dict[str, Any]], best: Any, shifting: Array | None = None
) -> Result:
    losses = np.array([row["loss"] for row in rows])
    values = {"regret": losses - best}
    if shifting is not None:
        values["shifting regret"] = losses - shifting
    for name in MEASURED:
        values[name] = np.array([row[f"arena {name}"] for row in rows])
    applying = _bounds(entry)
    sizes = {
        "regret": float(np.max(np.abs(best)))
        + entry.horizon * (entry.stream.rows.constants.loss_range or 1.0)
    }
    broken = []
    for name, guarantee in applying.items():
        interval, worst = Interval.of(values[name]), float(values[name].max())
        half = interval.high - interval.mean if len(rows) > 1 else np.inf
        rounding = ROUNDING * max(1.0, sizes.get(name, 0.0))
        row = Row(name, interval.mean, worst, guarantee, rounding=rounding, half_interval=half)
        if row.holds is False:
            broken.append(f"{name} {worst:.6g} exceeds {guarantee.bound:.6g} ({guarantee.source})")
    return Result(
        stream=entry.stream.name,
        stream_version=entry.stream.version,
        learner=entry.card.name,
        variant=entry.variant,
        horizon=entry.horizon,
        values={name: tuple(map(float, column)) for name, column in values.items()},
        parameters=described(entry.learner),
        bounds={name: float(guarantee.bound or 0.0) for name, guarantee in applying.items()},
        broken=tuple(broken),
        version=VERSION,
    )


def _bounds(entry: Entry) -> dict[str, Guarantee]:
    """The smallest bound on each quantity whose assumptions hold on this stream.

    Bounds of a learner with parameters of the grid are left out: its theory was told a wrong
    constant.
    """
    if entry.variant != THEORY:
        return {}
    stream, problem = entry.stream, entry.problem
    count = stream.rows.constants.constraint_count or 1
    guarantees = under_feedback(
        entry.learner.guarantees(setting_of(problem), entry.horizon), entry.learner, entry.feedback
    )
    guarantees = translated(guarantees, problem, stream.rows, entry.horizon, count)
    refuted = set(stream.refuted)
    if (
        stream.setting != "requests"
    ):  # losses rotate, drift or switch; only some streams are known to be stochastic
        refuted.add(str(Assumes.STOCHASTIC))
    standings = standing(guarantees, refuted)
    return {
        name: row.guarantee
        for name, row in standings.items()
        if name in stream.bounded
        and row.guarantee is not None
        and not row.refuted
        and row.guarantee.bound is not None
    }
