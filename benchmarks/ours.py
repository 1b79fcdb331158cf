"""taut as a contender: the whole `taut.simulate` call, with its checks, totals and records."""

from __future__ import annotations

import taut

from .cases import Case
from .played import Play, Played


def prepare(case: Case, seeds: int, rounds: int) -> Play:
    """One stream without a seed axis, or several seeds at once."""
    data = case.data(seeds)[:, :rounds]
    learner = case.learner

    def play() -> Played:
        if seeds == 1:
            run = taut.simulate(learner, case.problem, data[0], x1=case.start)
        else:
            run = taut.simulate(learner, case.problem, data, seeds=seeds, x1=case.start)
        return Played(run.final, run.loss, run.excess, run.totals.violation)

    return play
