"""taut as a contender: the whole `taut.simulate` call, with its checks, totals and records."""

from __future__ import annotations

from collections.abc import Sequence

import jax

import taut

from .cases import Case
from .played import Play, Played


def prepare(case: Case, seeds: int, rounds: int, record: Sequence[str] = ("loss", "excess")) -> Play:
    """One stream without a seed axis, or several seeds at once."""
    data = jax.device_put(case.data(seeds)[:, :rounds])  # aligned, so read in place
    stream = data[0] if seeds == 1 else data
    learner = case.learner

    def play() -> Played:
        if seeds == 1:
            run = taut.simulate(learner, case.problem, stream, x1=case.start, record=record)
        else:
            run = taut.simulate(learner, case.problem, stream, seeds=seeds, x1=case.start, record=record)
        return Played(run.final, run.loss, run.excess, run.totals.violation)

    return play
