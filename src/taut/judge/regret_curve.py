"""Regret over the rounds of a run: its losses minus those of the best fixed decision of all
rounds."""

from __future__ import annotations

import numpy as np

from .. import arguments
from ..engine import Array, double_precision
from ..play.replay import revealed_data
from ..problem.evaluation import loss_evaluation
from ..problem.memory import steady
from ..problem.problem import Problem
from ..problem.streams import Adversary, Stream, as_stream
from ..runs.run import Run
from .binding import check_same
from .hindsight import Hindsight, hindsight
from .hindsight.objective import Blocks


def cumulative_regret(run: Run, best: Hindsight | None = None) -> Array:
    """Return the regret after each round, with dims (seed, round). The last column is the regret of
    the run.

    For a problem with `previous=True` it is policy regret.

    Arguments:
        run: a run that recorded "loss", with its problem and its stream.
        best: the best fixed decision of all rounds, if it was computed before.
    """
    if run.loss is None:
        raise ValueError(
            'run: got a run without "loss"; expected simulate(..., record=("loss", "excess")), '
            "which is the default"
        )
    if run.problem is None or run.stream is None:
        raise ValueError(
            "run: got a run without problem and stream, which files do not hold; expected the "
            "result of taut.simulate. taut.certify(run, problem=..., stream=...) measures the "
            "regret of a loaded run"
        )
    problem, source = run.problem, run.stream
    if isinstance(source, Adversary):
        source = as_stream(problem.arrange(revealed_data(run)), seeds=run.seeds)
    check_same(run, run.played or problem, problem, source)
    found = hindsight(problem, source, horizon=run.horizon) if best is None else best
    arguments.instance("best", found, Hindsight, "the result of taut.hindsight(problem, stream)")
    if found.comparator != "fixed" or found.prefixes is not None:
        raise ValueError(
            "best: got decisions for prefixes or moving ones; expected taut.hindsight(problem, "
            "stream)"
        )
    fixed = steady(problem) if problem.previous else problem
    return np.cumsum(
        run.loss - losses_of(fixed, source, found.decision, run.horizon), axis=-1, dtype=np.float64
    )


def losses_of(problem: Problem, source: Stream, decisions: Array, horizon: int) -> Array:
    """Return the loss of one fixed decision per seed in every round, with dims (seed, round)."""
    found, loss = np.zeros((source.seeds, horizon)), loss_evaluation(problem)
    with double_precision():
        at = np.asarray(decisions, float)[:, None]
        for block in Blocks(source, (horizon,)).of():
            values = loss.repeated(block.repeats).values(at, block.data)
            found[:, block.start : block.stop] = values[:, : block.stop - block.start]
    return found
