"""Simulate a learner on a problem over a stream: compiled, in chunks that can be checkpointed and
resumed."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .. import arguments
from ..display import counted
from ..engine import first_key, random_key, require_jax
from ..learners import Advised, Learner
from ..learners.protocols import is_random
from ..learners.registry import with_default
from ..problem.compatibility import first_decision
from ..problem.feedback import Feedback, as_feedback
from ..problem.problem import Problem
from ..problem.streams import Stream, as_stream
from ..problem.tables import index_of, warn_of_decreasing_times
from ..progress import Counter, counting
from ..runs.run import RECORDS, Run
from .advice import with_adviser
from .checkpoint import Checkpoint
from .simulation import FEW, SHORT, Simulation
from .with_feedback import as_played, check_covered

LOG = logging.getLogger(__name__)


def simulate(
    learner: Learner | str | Sequence[Learner] | Problem | None = None,
    problem: Problem | Any = None,
    stream: Any = None,
    *,
    horizon: int | None = None,
    seeds: int | None = None,
    key: jax.Array | None = None,
    x1: Any = None,
    record: Sequence[str] = ("loss", "excess"),
    every: int = 1,
    score: Problem | None = None,
    feedback: Feedback | None = None,
    unproven: bool = False,
    advice: Any = None,
    forecast: Any = None,
    chunk: int | None = None,
    checkpoint: str | Path | None = None,
    progress: bool = False,
) -> Run:
    """Play `problem` with `learner` over `stream`: `simulate(learner, problem, stream)` or
    `simulate(problem, stream)`.

    Arguments:
        learner: one learner, or several of one class with different parameters, which are simulated
            together; or the name of a method, which is tuned to the problem and the number of
            rounds. Without it, "half-space" plays; if constraints are observed with errors
            (`taut.Noisy`), an averaged learner does, which a log record and the run say.
        problem: loss, constraints and domain.
        stream: the data of all rounds: a pytree of arrays (also memory maps) with leading axis
            `round`, or `seed` then `round` if `seeds` is given; a function `chunk(start, length)`
            that returns such arrays for rounds start..start+length, counted from 0, the same ones
            however the stream is cut; or an adversary `reveal(round, decision, key)` that sees the
            decision (rounds counted from 1), written in jax.numpy and compiled like the rest, or
            with a state of its own, `taut.adversary(reveal, state)`. Tables of pandas, polars and
            xarray and lists of numbers are taken as arrays; the index of a table is kept in the
            run.
        horizon: number of rounds; needed for functions, at most the length of arrays.
        seeds: number of independent simulations.
        key: JAX random key for the adversary, the feedback and learners that draw random numbers,
            split over the seeds; by default `jax.random.key(0)`.
        x1: first decision; by default the centre of the domain. All computations use its float
            type.
        record: what to keep of every round, any of "loss", "excess", "decisions", "multipliers",
            and "weights" with advice. Totals are always kept.
        every: keep decisions, multipliers and weights of rounds every, 2 every, 3 every, ... only.
        score: another problem whose loss and constraints score the decisions, for example the one
            before a transform.
        feedback: what the learner sees of a round: `taut.FullInformation()` (the default),
            `taut.Noisy(...)` and others, see `docs/feedback.md`. Decisions are always scored with
            the true loss and constraints. A combination that no guarantee of the learner covers is
            refused.
        unproven: play such a combination all the same. The certificate then says that no guarantee
            covers it.
        advice: what your own controller would play in each round: an array (round, *decision), with
            an axis `adviser` before the decision if `taut.Advised(learner, advisers)` has several,
            and an axis `seed` first if each seed has its own. Missing advice is a masked row
            (`numpy.ma`), an empty row of a table of pandas, or None in a list with an entry for
            each round; NaN is refused. Or a function `advice(round, previous)` of the round,
            counted from 1, and the decision that was played before it, written in jax.numpy. It
            returns the decisions, or a pair of them and which advisers say something. A learner
            without advisers gets one.
        forecast: predictions of the data, like `stream`, or "last" for the data of the round
            before. The last adviser is then the decision that is best for the prediction: it
            minimises the loss over the domain, the kept cuts and the announced constraints;
            `advice` is for the others. Rounds whose entries are masked (`numpy.ma`) have no
            forecast; NaN is refused.
        chunk: number of rounds that are played at a time; by default chosen from the size of a
            round's data. Memory does not depend on the horizon, except for what is recorded.
        checkpoint: a folder. After each chunk all that is needed to continue is written there.
            Called again with the same arguments the simulation continues, and its result is bit for
            bit that of an uninterrupted one. A call with other arguments, functions or data is
            refused. Not noticed are changes of Python functions that a loss or constraint calls
            back while it runs (`jax.pure_callback`).
        progress: show a progress bar; where standard error is no terminal, write a line per minute.

    The horizon, parameters and data are traced: only a new problem, learner class or shape compiles
    again.

    >>> import jax.numpy as jnp, numpy as np, taut
    >>> toy = taut.Problem(
    ...     lambda x, c: c @ x, lambda x: jnp.abs(x).sum() - 1, taut.Ball(1.0, shape=2)
    ... )
    >>> run = taut.simulate(taut.ClippedOGD(eta=0.1, sigma=4.0), toy, np.tile([1.0, 0.0], (5, 1)))
    >>> run.loss.round(3).tolist()
    [[0.0, -0.1, -0.2, -0.3, -0.4]]
    """
    require_jax()
    unproven, shown = arguments.flag("unproven", unproven), arguments.flag("progress", progress)
    if not isinstance(learner, Learner):
        learner, problem, stream = with_default(learner, problem, stream)
    _check_problems(problem, score)
    index = None if isinstance(stream, np.ndarray) else index_of(stream)
    if index is not None:
        warn_of_decreasing_times(index)
    source = as_stream(problem.arrange(stream), horizon=horizon, seeds=seeds)
    feedback = None if feedback is None else as_feedback(feedback)
    learners, swept = _learners(learner, problem, source, feedback)
    if advice is not None or forecast is not None:
        learners = tuple(with_adviser(each, advice, forecast) for each in learners)
    if feedback is not None:
        for each in learners:
            check_covered(each, feedback, unproven)
    recorded = _record(record, learners[0])
    numbers = source.horizon * source.seeds * len(learners) * math.prod(problem.domain.shape)
    few = source.horizon <= FEW[-1] and numbers <= SHORT and not source.reacts
    if few and recorded and "decisions" not in recorded and chunk is None and checkpoint is None:
        recorded |= {"path"}  # for certificates, which would play such a run again otherwise
    simulation = Simulation(
        learners=learners,
        swept=swept,
        problem=problem,
        score=score,
        feedback=feedback,
        stream=source,
        record=recorded,
        every=arguments.count("every", every),
        first=first_decision(problem, x1),
        random_keys=random_keys(key, source, learners[0], feedback),
        chunk=chunk,
        advice=advice,
        forecast=forecast,
    )
    if LOG.isEnabledFor(logging.INFO):
        LOG.info(
            "simulating %s, %s, with %s",
            counted(source.horizon, "round"),
            counted(source.seeds, "seed"),
            _shown(learners),
        )
    with counting(True, source.horizon, "rounds") if shown else nullcontext() as counter:
        if checkpoint is None:
            run = simulation.run(partial(_report, source.horizon, counter))
        else:
            run = _continued(simulation, checkpoint, partial(_report, source.horizon, counter))
    return run if index is None else replace(run, index=index[: source.horizon])


def _continued(
    simulation: Simulation, folder: str | Path, report: Callable[[int, int], None]
) -> Run:
    """Play the chunks that are not in a checkpoint yet, and write each of them there."""
    # With the whole learner: the last digits must not depend on where a run is continued.
    simulation = simulation.whole()
    with Checkpoint(folder, simulation).open() as saved:
        carry, done = saved.resume()
        if carry is not None:
            LOG.info("continuing after round %d from the checkpoint in %s", done, folder)
            report(done, done)
        for chunk in simulation.play(carry, done):
            carry, done = chunk.carry, chunk.start + chunk.rounds
            saved.add(carry, chunk.records, chunk.data, chunk.start, done)
            report(chunk.rounds, done)
        return simulation.result(carry, saved.records())


def _report(horizon: int, counter: Counter | None, rounds: int, done: int) -> None:
    """Say that so many rounds were played, and stop if the time is up."""
    LOG.debug("played %d of %d rounds", done, horizon)
    if counter is not None:
        counter.advance(rounds)
    if done < horizon:
        check_deadline(done, horizon)


def _check_problems(problem: Any, score: Any) -> None:
    """Refuse problems that are none, and those whose decisions differ."""
    for name, value in (("problem", problem), ("score", score)):
        if not isinstance(value, Problem) and not (name == "score" and value is None):
            raise TypeError(
                f"{name}: got {arguments.shown(value)}; expected taut.Problem(...). The order is "
                "simulate(learner, problem, stream)"
            )
    if score is not None and score.domain.shape != problem.domain.shape:
        raise ValueError(
            f"score: got a problem with decisions of shape {score.domain.shape}; expected "
            f"{problem.domain.shape}, the shape of the problem that is played"
        )


def _learners(
    learner: Any, problem: Problem, source: Stream, feedback: Feedback | None
) -> tuple[tuple[Learner, ...], bool]:
    """Return the learners that play, and whether the user gave several."""
    data = None if source.reacts else source
    learner = as_played(learner, problem, feedback, data, source.horizon)
    if isinstance(learner, Learner):
        return (learner,), False
    if (
        not isinstance(learner, Sequence)
        or not learner
        or not all(isinstance(each, Learner) for each in learner)
    ):
        raise TypeError(
            f"learner: got {arguments.shown(learner)}; expected a taut learner, the name of one, "
            "or several learners, for example "
            'taut.learner("clipped-ogd", problem, horizon=1000). The order is simulate(learner, '
            "problem, stream)"
        )
    shapes = {
        (jax.tree.structure(each), tuple(map(np.shape, jax.tree.leaves(each)))) for each in learner
    }
    if len(shapes) > 1:
        kinds = " and ".join(sorted({type(each).__name__ for each in learner}))
        kinds = kinds if " and " in kinds else f"{len(shapes)} different structures of {kinds}"
        raise TypeError(
            "learner: all learners of a sweep need the same class, schedules and flags, and "
            f"parameters of the same shapes; got {kinds}. Use taut.sweep for different methods."
        )
    return tuple(learner), True


def _shown(learners: Sequence[Learner]) -> str:
    return (
        repr(learners[0])
        if len(learners) == 1
        else f"{len(learners)} learners of class {type(learners[0]).__name__}"
    )


def _record(record: Any, learner: Learner) -> frozenset[str]:
    if not isinstance(record, Iterable) or isinstance(record, jax.Array):
        raise TypeError(
            f"record: got {record!r}; expected names among {', '.join(map(repr, RECORDS))}, or () "
            "for none"
        )
    names = (record,) if isinstance(record, str) else tuple(record)
    if "weights" in names and not isinstance(learner, Advised):
        raise ValueError(
            f'record: got "weights" for {type(learner).__name__}; expected a learner with '
            "advisers, taut.Advised(learner)"
        )
    return frozenset(arguments.one_of("record", name, RECORDS) for name in names)


def random_keys(
    key: Any, stream: Stream, learner: Learner, feedback: Feedback | None
) -> jax.Array | None:
    """Return one random key per seed; None where neither adversary nor learner nor feedback
    draws."""
    random = is_random(learner) or (feedback is not None and feedback.random)
    key = None if key is None else random_key("key", key, usual=random)
    if not stream.reacts and not random:
        return None
    key = first_key() if key is None else key
    return jax.random.split(key, stream.seeds) if stream.seeds > 1 else jnp.expand_dims(key, 0)


_limit: ContextVar[tuple[float, float] | None] = ContextVar("deadline", default=None)


@contextmanager
def deadline(seconds: float | None) -> Iterator[None]:
    """Let simulations in this context and thread take `seconds` together; None for no limit."""
    limit = None if seconds is None else (time.monotonic() + seconds, seconds)
    token = _limit.set(limit)
    try:
        yield
    finally:
        _limit.reset(token)


def check_deadline(done: int, horizon: int) -> None:
    """Raise TimeoutError if the time is up, and say how far the simulation came."""
    limit = _limit.get()
    if limit is not None and time.monotonic() > limit[0]:
        raise TimeoutError(
            f"The time limit of {limit[1]:g} s ended after {done} of {horizon} rounds."
        )
