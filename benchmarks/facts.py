"""What facts are worth: the share of certificates whose bounds on regret and on violation say
something, without and with the facts that taut proves by itself, and what finding them takes.

Run with `python -m benchmarks.facts [--models N] [--json]`. The default learner plays the zoo of
`taut.testing`, the streams of the arena (the paper's problems are among them) and models of
`tests/models`, every N-th of them. Constants that were stated for zoo and arena are dropped. A
bound says something if it is below what every learner satisfies.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Iterator
from importlib import import_module
from typing import Any, NamedTuple
from unittest import mock

import numpy as np

import taut
from taut.arena.registry import STREAMS
from taut.judge import certify
from taut.judge.facts.find import Facts
from taut.testing.problems import PROBLEMS

from .results import report
from .setting import ROOT

ROUNDS, MODEL_ROUNDS, SEEDS = 1_000, 200, 2
QUANTITIES = ("regret", "violation", "peak violation")
TARGET = 0.3
"""Seconds of processor time that finding facts may take, in the median."""


class Game(NamedTuple):
    """A problem with the data of its rounds."""

    group: str
    name: str
    problem: taut.Problem
    data: Any
    seeds: int | None


def zoo() -> Iterator[Game]:
    """The problems of `taut.testing` without their constants."""
    for known in PROBLEMS:
        rng = np.random.default_rng(0)
        data = known.draw(rng, ROUNDS)
        yield Game("zoo", known.name, known.problem.with_constants(taut.Constants()), data, None)


def arena() -> Iterator[Game]:
    """The streams of the arena without their constants."""
    for stream in STREAMS.values():
        full = stream.feedback is None and not stream.request_first
        if stream.missing() or not full or not stream.feasible_rounds:
            continue
        rounds = min(ROUNDS, stream.longest or ROUNDS)
        seeds = stream.seeds_of(SEEDS)
        problem = stream.rows.with_constants(taut.Constants())
        yield Game("arena", stream.name, problem, stream.data(seeds, rounds), seeds)


def models(every: int) -> Iterator[Game]:
    """Every so many-th model of `tests/models`."""
    sys.path.insert(0, str(ROOT / "tests" / "models"))
    for field in import_module("test_models").FIELDS:
        import_module(field)
    accepted = import_module("test_models").ACCEPTED
    for case in accepted[::every]:
        played = import_module("checks").Played(case)
        data = played.stream(MODEL_ROUNDS) or np.zeros(MODEL_ROUNDS)
        yield Game("models", case.name, played.problem, data, None)


def useful(certificate: taut.Certificate) -> dict[str, bool]:
    """Which quantities have a bound that stands and says something."""
    names = {"adaptive-adversary regret": "regret"}
    found = dict.fromkeys(QUANTITIES, False)
    for row in certificate.rows:
        name = names.get(row.quantity, row.quantity)
        if name in found and row.bound is not None and not row.trivial:
            found[name] = True
    return found


def measured(game: Game) -> dict[str, Any]:
    """One row: what is useful without and with facts, and the time that finding them takes."""
    run = taut.simulate(game.problem, game.data, seeds=game.seeds)
    with mock.patch.object(certify, "facts_of", return_value=Facts()):
        before = useful(run.certificate())
    spent: list[float] = []

    def timed(*given: Any) -> Facts:
        start = time.process_time()
        facts = found_by(*given)
        spent.append(time.process_time() - start)
        return facts

    found_by = certify.facts_of
    with mock.patch.object(certify, "facts_of", timed):
        certificate = run.certificate()
    after = useful(certificate)
    return {
        "group": game.group,
        "problem": game.name,
        **{f"{name} before": before[name] for name in QUANTITIES},
        **{f"{name} after": after[name] for name in QUANTITIES},
        "seconds": sum(spent),
        "outcome": certificate.outcome,
    }


def summary(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Shares in per cent, and the median time, of each group and of all."""
    groups = [*dict.fromkeys(row["group"] for row in rows), "all"]
    table = []
    for group in groups:
        mine = [row for row in rows if group in (row["group"], "all")]
        line: dict[str, Any] = {"group": group, "problems": len(mine)}
        for name in QUANTITIES:
            before, after = (
                round(100 * sum(row[f"{name} {when}"] for row in mine) / len(mine))
                for when in ("before", "after")
            )
            line[f"{name}, %"] = f"{before} -> {after}"
        line["median s"] = statistics.median(row["seconds"] for row in mine)
        line["largest s"] = max(row["seconds"] for row in mine)
        table.append(line)
    return table


def games(every: int) -> Iterator[Game]:
    """All games."""
    yield from zoo()
    yield from arena()
    yield from models(every)


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--models", type=int, default=4, help="take every N-th model")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    rows = []
    for game in games(given.models):
        try:
            rows.append(measured(game))
        except ValueError as error:  # such as hindsight without a solution
            print(f"{game.group} {game.name}: {error}", file=sys.stderr)
            continue
        print(rows[-1], file=sys.stderr)
    title = f"useful bounds before -> after; facts within {TARGET} s of processor time (median)"
    report("facts", summary(rows), given.json, title)


if __name__ == "__main__":
    main()
