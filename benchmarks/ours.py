"""The implementation in taut: a whole `taut.simulate` call with its checks, totals and records."""

from __future__ import annotations

from collections.abc import Sequence

import taut

from .cases import Case
from .played import Play, Played


def prepare(
    case: Case,
    seeds: int,
    rounds: int,
    record: Sequence[str] = ("loss", "excess"),
    floating: str = "float64",
    chunk: int | None = None,
) -> Play:
    """Return a function that simulates one stream, or several seeds together. The type of x_1 sets
    the precision."""
    data = case.placed(seeds, rounds, floating)
    x1 = case.start if floating == "float64" else case.first.astype(floating)
    stream = data[0] if seeds == 1 else data
    learner = case.learner

    def play() -> Played:
        if seeds == 1:
            run = taut.simulate(learner, case.problem, stream, x1=x1, record=record, chunk=chunk)
        else:
            run = taut.simulate(
                learner, case.problem, stream, seeds=seeds, x1=x1, record=record, chunk=chunk
            )
        return Played(run.final, run.loss, run.excess, run.totals.violation)

    return play


def fitted(case: Case, seeds: int, rounds: int) -> Play:
    """Return the same with a chunk as long as the horizon: the data are read in place, and another
    horizon is compiled again."""
    return prepare(case, seeds, rounds, chunk=rounds)
