"""Play a run again, to find what was not recorded: its decisions, or the data that an adversary
revealed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..learners import Learner
from ..learners.protocols import is_random
from ..problem.problem import Problem
from ..problem.streams import Adversary, Stream, as_stream
from ..runs.run import RECORDS, Run
from .simulation import SHORT, Chunk, Simulation, default_chunk_length


def revealed_data(run: Run) -> Any:
    """Return the data that the adversary of a run revealed, as a pytree of arrays (seed, round,
    ...).

    The simulation is played again, with the data recorded: learner, first decision and random keys
    determine it.
    """
    if not isinstance(run.stream, Adversary):
        raise ValueError(
            "run: got a run that has no adversary, or that was loaded from a file; expected the "
            "result of simulate(learner, problem, reveal)"
        )
    parts = [data for _, data in replayed(run, record=("data",))]
    return jax.tree.map(lambda *arrays: np.concatenate(arrays, axis=1), *parts)


def replayed(
    run: Run,
    problem: Problem | None = None,
    stream: Stream | None = None,
    record: Sequence[str] = ("decisions",),
) -> Iterator[tuple[Any, Any]]:
    """Play a run again and yield decisions and data of one chunk after the other, so that memory
    stays flat.

    Arguments:
        run: of one learner.
        problem: the problem that was played, for a run that was loaded from a file.
        stream: its data, in the same case, or what an adversary revealed.
        record: "decisions"; "data" alone for what an adversary revealed; "proposals" for the
            learner's own decisions before announced constraints were enforced, or "own decisions"
            for those after it.

    Decisions and data are arrays (seed, round, ...). Decisions that the run has recorded are not
    computed again.
    """
    known, source = known_decisions(run), stream or run.stream
    if known is not None and source is not None and not source.reacts and "decisions" in record:
        length = default_chunk_length(8 * run.seeds * max(source.width, run.final[0].size))
        for start in range(0, run.horizon, length):
            count = min(length, run.horizon - start)
            yield known[:, start : start + count], source.block(start, count)
        return
    again = _prepared(run, problem, stream, record=frozenset(record))
    yield from (_decisions(again, chunk) for chunk in again.play())


def known_decisions(run: Run) -> Any:
    """Return the decisions of all rounds, (seed, round, ...), if the run has them, or None."""
    return run.decisions if run.decisions is not None and run.every == 1 else run.path


def played_again(
    run: Run,
    problem: Problem,
    score: Problem,
    stream: Stream,
    *,
    quick: bool = False,
    learners: tuple[Learner, ...] = (),
) -> Run:
    """Play a run again with this problem and these data, and return what that gives, with the
    decisions of a short run if `quick`.

    Arguments:
        run: of one learner; the same is recorded again.
        problem: the problem that was played.
        score: the problem that scores.
        stream: the data.
        quick: whether to compile quickly. Without it a run that still has its problem is played by
            the program that played it first.
        learners: other learners to play side by side instead of the run's.
    """
    recorded = {name for name in RECORDS if getattr(run, name) is not None}
    again = _prepared(
        run,
        problem,
        stream,
        score=None if score is problem else score,
        record=frozenset(recorded | {"path"} if quick and is_short(run) else recorded),
        every=run.every,
        quick=quick,
        learners=learners,
    )
    return again.run()


def _prepared(
    run: Run,
    problem: Problem | None,
    stream: Stream | None,
    *,
    record: frozenset[str],
    score: Problem | None = None,
    every: int = 1,
    quick: bool = True,
    learners: tuple[Learner, ...] = (),
) -> Simulation:
    """Return the simulation that plays a run again, compiled quickly if it is short and `quick`."""
    learner, problem, stream = run.learner, problem or run.played, stream or run.stream
    if not isinstance(learner, Learner) or problem is None or stream is None or run.first is None:
        raise ValueError(
            "run: got a run without its problem or its data; expected both, and one learner"
        )
    stream = as_stream(stream, horizon=run.horizon)
    return Simulation(
        learners=learners or (learner,),
        swept=bool(learners),
        problem=problem,
        score=score,
        feedback=run.feedback,
        stream=stream,
        record=record | (frozenset(("data",)) if stream.reacts else frozenset()),
        every=every,
        first=jnp.asarray(run.first),
        random_keys=_keys_again(run, learner, stream),
        chunk=None,
        quick=quick and not stream.reacts and is_short(run),
        advice=run.advice,
        forecast=run.forecast,
    )


def is_short(run: Run) -> bool:
    """Whether all decisions of a run are few numbers."""
    return run.final[0].size * run.seeds * run.horizon <= SHORT


def _decisions(simulation: Simulation, chunk: Chunk) -> tuple[Any, Any]:
    """Return decisions of one kind and data of a chunk, arrays (seed, round, ...)."""
    first = jax.tree.map(lambda a: a[0], chunk.records)  # the axis `learner`
    data = first["data"] if simulation.stream.reacts else chunk.data
    kinds = ("decisions", "proposals", "own decisions")
    return next((first[kind] for kind in kinds if kind in first), None), data


def _keys_again(run: Run, learner: Learner, stream: Stream) -> jax.Array | None:
    """Return the random keys of a run that is played again, if anything is drawn."""
    random = is_random(learner) or (run.feedback is not None and run.feedback.random)
    if not stream.reacts and not random:
        return None
    if run.key is None:
        raise ValueError(
            "run: got a run without its random keys; expected the run that taut.simulate returned"
        )
    return run.key
