"""A simulation in chunks: prepare it, play one chunk after the other, and assemble the run."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, NoReturn

import jax
import jax.numpy as jnp
import numpy as np

from .. import arguments
from ..engine import VERSION, Array, chosen_passes
from ..learners import Learner
from ..learners.advised import AdvisedState
from ..learners.protocols import Grows, Shortened, Shortens
from ..problem.compatibility import adversary_state, cast_data, count_constraints, round_shapes
from ..problem.feedback import Feedback
from ..problem.memory import shared_start
from ..problem.problem import Problem
from ..problem.programs import programs_of
from ..problem.streams import Adversary, Arrays, Stream
from ..runs.run import Run, advice_facts
from ..runs.totals import Totals
from .advice import (
    Advice,
    advice_of_rounds,
    check_advice_function,
    forecast_of_rounds,
    predicted_data,
)
from .announced import check_announced
from .buffers import Staging
from .compile import compiled
from .loop import RECORDS, Inputs, Shape, Span, begin_all, play_chunk
from .packing import as_arrays
from .round import Game, GameState, first_fault
from .with_feedback import through

__all__ = ["Carry", "Chunk", "Simulation", "chunk_of_any_length", "default_chunk_length"]

CHUNK_BYTES = 8 * 2**20
SHORTEST, LONGEST = 2**3, 2**15
FEW = 2**10, 2**13
"""Simulations of at most so many rounds have shorter chunks of their own, whose memory is filled in
less time."""


ROOM = 64
"""The first size of a state that may grow."""


class Carry(NamedTuple):
    """What is handed on from chunk to chunk, and written to checkpoints."""

    state: GameState
    """Arrays with the leading axes learner and seed; placeholders before the first chunk."""
    totals: Totals
    """Totals of all chunks so far, with the same axes."""


class Chunk(NamedTuple):
    """A chunk that has been played: its rounds after round `start`."""

    start: int
    rounds: int
    data: Any
    """Arrays (seed, round, ...); None if an adversary made them."""
    carry: Carry
    """State and totals after the chunk."""
    records: dict[str, Any]


@dataclass(frozen=True, kw_only=True, eq=False)
class Simulation:
    """A simulation that is ready to be played. `prepare` makes one; `play` and `result` carry it
    out."""

    learners: tuple[Learner, ...]
    swept: bool
    """Whether the user gave several learners, so that results have an axis `learner`."""
    problem: Problem
    score: Problem | None
    feedback: Feedback | None
    """What the learners see of a round; `None` for full information."""
    stream: Stream
    every: int
    first: jax.Array
    random_keys: jax.Array | None
    example: Any
    """Shapes and types of one round's data."""
    shape: Shape
    inputs: Inputs
    room: int
    """The size of states that may grow."""
    short: bool
    """Whether learners are played without parts that are seldom needed."""
    quick: bool = False
    """Whether to compile quickly rather than well, for a program that runs once."""
    advice: Advice | None = None
    """What advisers say in all rounds."""
    forecast: Any = None
    """A stream of predicted data, "last" for the data of the round before, or None."""

    @classmethod
    def prepare(
        cls,
        *,
        learners: tuple[Learner, ...],
        swept: bool,
        problem: Problem,
        score: Problem | None,
        feedback: Feedback | None,
        stream: Stream,
        record: frozenset[str],
        every: int,
        first: jax.Array,
        random_keys: jax.Array | None,
        chunk: int | None,
        quick: bool = False,
        advice: Any = None,
        forecast: Any = None,
    ) -> Simulation:
        """Check that learners, problem and data fit together, and lay them out for the loop."""
        example = round_shapes(stream, first, None if random_keys is None else random_keys[0])
        played = count_constraints(problem, first, problem.given(example, first), "stream")
        check_announced(learners, problem, stream, feedback)
        forecast = forecast_of_rounds(forecast, learners[0], problem, stream, feedback)
        predicted = forecast is not None
        advice = advice_of_rounds(advice, learners[0], problem, stream, feedback, predicted)
        function = None if isinstance(advice, Stream) else advice
        if function is not None:
            check_advice_function(function, learners[0], first, predicted)
        thinning = min(every, stream.horizon + 1)  # beyond the horizon nothing is kept
        shape = Shape(
            learners=len(learners),
            seeds=stream.seeds,
            counts=(played, _count_scored(problem, score, first, example, played)),
            length=0,
            record=tuple(name for name in RECORDS if name in record),
            every=thinning,
            reveal=stream.function if isinstance(stream, Adversary) else None,
            advice=function,
            advised=isinstance(advice, Stream) or predicted,
        )
        length = _chunk_length(shape, example, first.size, stream, chunk)
        short = chosen_passes() is None
        start = shared_start(problem, score, first)
        inputs = Inputs(
            game=jax.tree.map(lambda leaf: _number(leaf, first.dtype), Game.of(problem, score)),
            learner=_stacked(learners, feedback, first.dtype, ROOM, short),
            x1=np.asarray(first),
            start=None if start is None else np.asarray(start),
            adversary=adversary_state(stream, first.dtype),
        )
        return cls(
            learners=learners,
            swept=swept,
            problem=problem,
            score=score,
            feedback=feedback,
            stream=stream,
            every=every,
            first=first,
            random_keys=random_keys,
            example=example,
            # Whole groups of thinned rounds, so that none straddles two chunks.
            shape=shape._replace(length=-(-length // thinning) * thinning),
            inputs=inputs,
            room=ROOM,
            short=short,
            quick=quick,
            advice=advice,
            forecast=forecast,
        )

    def block(self, start: int, rounds: int) -> Any:
        """Return the data of a chunk, checked to be like those of the first round; None if they
        depend on decisions."""
        if self.stream.reacts:
            return None
        data = self.stream.block(start, rounds)
        like_first = _leaf_types(data, 2) == _leaf_types(self.example)
        if not isinstance(self.stream, Arrays) and not like_first:
            raise ValueError(
                f"stream: got {_described(data, 2)} for a round after round {start}; expected "
                f"{_described(self.example)}, as for the first"
            )
        return data

    def begin(self) -> Carry:
        """Return the carry before round 1."""
        leaves, structure = jax.tree.flatten((self.inputs, self.random_keys))
        types = tuple((leaf.shape, leaf.dtype) for leaf in leaves)

        def begin(*leaves: Any) -> GameState:
            return begin_all(self.shape, *jax.tree.unflatten(structure, leaves))

        def traced() -> GameState:  # from leaves: JAX keeps trees, and the user's functions in them
            states: GameState = jax.eval_shape(begin, *leaves)
            return states

        key = (begin_all, self.shape, structure, types)
        shapes = programs_of(self.problem).get(key, traced)
        return Carry(jax.tree.map(_zeros, shapes), Totals.zero(shapes.totals))

    def play(self, carry: Carry, done: int = 0) -> Iterator[Chunk]:
        """Play all rounds after the first `done`, chunk by chunk, and raise if a number is not
        finite."""
        simulation = self
        while done < self.stream.horizon:
            rounds = min(self.shape.length, self.stream.horizon - done)
            chunk = simulation._play_chunk(carry, self.block(done, rounds), done, rounds)
            if simulation._fell_short(chunk.carry):
                simulation = simulation.whole()
                continue
            if simulation._is_full(chunk.carry):
                simulation = simulation._larger()
                carry = simulation._padded(carry)
                continue
            yield chunk
            carry, done = chunk.carry, done + rounds

    def _is_full(self, carry: Carry) -> bool:
        if self.feedback is not None:
            return False
        state = carry.state.learner
        return any(isinstance(one, Grows) and one.is_full(state) for one in self.learners)

    def _fell_short(self, carry: Carry) -> bool:
        learner = self.inputs.learner
        if not isinstance(learner, Shortened):
            return False
        return bool(np.any(learner.fell_short(carry.state.learner)))

    def whole(self) -> Simulation:
        """Return the same simulation with all parts of its learners from the first round on."""
        return self._with_learners(self.room, short=False) if self.short else self

    def _larger(self) -> Simulation:
        """Return the same simulation with twice the room."""
        return self._with_learners(2 * self.room, self.short)

    def _with_learners(self, room: int, short: bool) -> Simulation:
        learner = _stacked(self.learners, self.feedback, self.first.dtype, room, short)
        inputs = replace(self.inputs, learner=learner)
        return replace(self, room=room, short=short, inputs=inputs)

    def _padded(self, carry: Carry) -> Carry:
        """Return the carry of a smaller simulation with zeros in the new room."""

        def padded(leaf: Any, like: Any) -> Any:
            short = zip(np.shape(leaf), np.shape(like), strict=True)
            return np.pad(leaf, [(0, wanted - size) for size, wanted in short])

        return carry._replace(state=jax.tree.map(padded, carry.state, self.begin().state))

    def _play_chunk(self, carry: Carry, data: Any, start: int, rounds: int) -> Chunk:
        staging = Staging()
        read = self._read_from(start)
        revealed = data if read == start else self.block(read, self.shape.length)
        if self.shape.advised:
            length = rounds if read == start else self.shape.length
            revealed = revealed, self._before_rounds(read, length)
        staged = self._staged(staging, revealed)
        span = Span(*(np.asarray(number, np.int32) for number in (start, rounds, start - read)))
        passed = (self.inputs, carry.state, staged, self.random_keys, span)
        executable = compiled(self.problem, play_chunk, self.shape, passed, quick=self.quick)
        state, records = executable(*passed)
        state, records = jax.tree.map(_host, (state, records))  # waits for the chunk
        staging.end()
        totals = carry.totals.plus(Totals.of_chunk(state.totals))
        self._check_finite(state.faults, totals, start + rounds)
        trimmed = {
            name: _first_rows(record, self.shape.rows(name, rounds))
            for name, record in records.items()
        }
        return Chunk(start, rounds, data, Carry(state, totals), trimmed)

    def _before_rounds(self, start: int, length: int) -> tuple[Any, Any]:
        """Return what advisers say and forecasts of some rounds, each with whether it is known;
        None for what there is not."""
        advice = self.advice.block(start, length) if isinstance(self.advice, Stream) else None
        if self.forecast is None:
            return advice, None
        return advice, predicted_data(self.forecast, self.stream, start, length)

    def _read_from(self, start: int) -> int:
        """Return the round before which a chunk's data begin.

        The last chunk is shorter than the others. If one seed's data lie in memory, it reads those
        of rounds before it too, so that they have the length that is compiled and need no copy.
        """
        long = self.stream.horizon >= self.shape.length
        in_memory = isinstance(self.stream, Arrays) and self.stream.seeds == 1
        return min(start, self.stream.horizon - self.shape.length) if long and in_memory else start

    def _staged(self, staging: Staging, data: Any) -> Any:
        """Return a chunk's data in the type and length that are compiled."""

        def staged(leaf: Any) -> Any:
            same = leaf.dtype == self.first.dtype
            array = leaf if same else cast_data("stream", leaf, self.first.dtype)
            return staging.copy(array, self.shape.length)

        return jax.tree.map(staged, data)

    def _check_finite(self, faults: Array, totals: Totals, done: int) -> None:
        bad = [first_fault(number) for number in faults.ravel().tolist()]
        first = min((fault for fault in bad if fault is not None), default=None)
        if first is not None:
            _raise_fault(*first)
        if not totals.finite():
            raise ValueError(
                f"loss: got totals that are not finite by round {done}; expected losses and "
                f"squared violations whose sums fit {self.first.dtype}"
            )

    def result(self, carry: Carry, records: dict[str, Array]) -> Run:
        """Assemble the run."""
        scored = self.score or self.problem
        entries: dict[str, Any] = {"final": np.asarray(carry.state.x), **records}
        for name in ("cuts_hold", "correction"):
            of_state = getattr(carry.state.learner, name, None)
            if of_state is not None:
                entries[name] = np.asarray(of_state)
        if isinstance(carry.state.learner, AdvisedState):
            entries["advised"] = advice_facts(carry.state.learner)
        return Run(
            learner=self.learners if self.swept else self.learners[0],
            played_by=self.learners if self.swept else self.learners[0],
            horizon=self.stream.horizon,
            seeds=self.stream.seeds,
            totals=carry.totals if self.swept else carry.totals[0],
            every=self.every,
            version=VERSION,
            first=np.asarray(self.first),
            problem=scored,
            played=self.problem,
            stream=self.stream,
            key=self.random_keys,
            feedback=self.feedback,
            reacts=self.stream.reacts,
            constraint_names=scored.names_for(self.first, scored.given(self.example, self.first)),
            coordinate_names=self.problem.coordinate_names,
            advice=self.advice,
            forecast=self.forecast,
            **{
                name: entry if self.swept else jax.tree.map(lambda array: array[0], entry)
                for name, entry in entries.items()
            },
        )


def _stacked(
    learners: tuple[Learner, ...], feedback: Feedback | None, dtype: Any, room: int, short: bool
) -> Any:
    """Return the learners as one tree of arrays, with room for their states.

    What they see must be the whole round: the state of another kind of feedback does not grow.
    """
    grow = feedback is None
    sized = [one.with_room(room) if grow and isinstance(one, Grows) else one for one in learners]
    if short and grow:
        sized = [one.shortened() if isinstance(one, Shortens) else one for one in sized]
    ready = [as_arrays(through(learner, feedback), dtype) for learner in sized]
    return jax.tree.map(lambda *leaves: np.stack(leaves), *ready)


def _raise_fault(round: int, name: str) -> NoReturn:
    if name == "next decision":
        raise ValueError(
            f"loss gradient: got a value that is not finite in round {round}; expected finite "
            "numbers as gradients of loss and constraints (jnp.linalg.norm, for example, has none "
            "at 0), and steps whose length floats can represent"
        )
    argument = "stream" if name == "data" else name
    raise ValueError(
        f"{argument}: got a value that is not finite in round {round}; expected finite numbers"
    )


def default_chunk_length(bytes_per_round: int) -> int:
    """Return the number of rounds to play at a time, so that data or records of a chunk take about
    8 MiB.

    The length is a power of two plus 8. With a power of two, the rows of all seeds would lie that
    far apart in memory and compete for the same few lines of the processor's cache.

    >>> default_chunk_length(8), default_chunk_length(2**10), default_chunk_length(2**30)
    (32776, 8200, 16)
    """
    most = CHUNK_BYTES // max(1, bytes_per_round)
    return (1 << (min(max(most, SHORTEST), LONGEST).bit_length() - 1)) + 8


def chunk_of_any_length(horizon: int) -> int | None:
    """Return the argument `chunk` with which short simulations use the same compiled program as
    long ones.

    By default simulations of few rounds have a program of their own, which is compiled in addition.
    """
    return LONGEST + 8 if horizon <= FEW[-1] else None


def _chunk_length(shape: Shape, example: Any, size: int, stream: Stream, chunk: Any) -> int:
    """Return the number of rounds to play at a time, chosen by the user or by the size of a
    round."""
    sizes = {"loss": 1, "excess": 1, "data": _size(example), "multipliers": shape.counts[0]}
    recorded = sum(sizes.get(name, size) // _thinning(shape, name) for name in shape.record)
    revealed = 0 if stream.reacts else _size(example)
    length = default_chunk_length(8 * shape.seeds * max(revealed, shape.learners * recorded))
    if chunk is not None:
        return min(arguments.count("chunk", chunk), max(length, stream.horizon))
    return min(length, *(few + 8 for few in FEW if stream.horizon <= few), LONGEST + 8)


def _thinning(shape: Shape, name: str) -> int:
    return shape.every if RECORDS[name].thinned else 1


def _count_scored(
    problem: Problem, score: Problem | None, x: jax.Array, example: Any, played: int
) -> int:
    """Return the number of constraints that score a decision, announced ones included."""
    if score is None and problem.announced is None:
        return played
    scored = (score or problem).whole()
    return count_constraints(scored, x, scored.given(example, x), "stream")


def _size(tree: Any) -> int:
    return sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(tree))


def _number(leaf: Any, floating: Any) -> Any:
    """Return a number of the game as an array; Python's floats in the type of the decision."""
    return np.asarray(leaf, floating) if isinstance(leaf, float) else np.asarray(leaf)


def _zeros(leaf: Any) -> Any:
    zeros = np.zeros if isinstance(leaf.dtype, np.dtype) else jnp.zeros  # random keys are JAX's
    return zeros(leaf.shape, leaf.dtype)


def _host(array: Any) -> Any:
    """Return an array in host memory. Random keys, whose type NumPy does not have, stay."""
    return np.asarray(array) if isinstance(array.dtype, np.dtype) else array


def _first_rows(tree: Any, rows: int) -> Any:
    """Return the first entries of the third axis, which is the round."""
    return jax.tree.map(lambda a: a[:, :, :rows], tree)


def _leaf_types(tree: Any, axes: int = 0) -> Any:
    return jax.tree.map(lambda leaf: (leaf.shape[axes:], leaf.dtype.kind), tree)


def _described(tree: Any, axes: int = 0) -> str:
    return str(jax.tree.map(lambda leaf: f"{leaf.dtype}{list(leaf.shape[axes:])}", tree))
