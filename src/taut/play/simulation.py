"""A simulation in chunks: prepare it, play one chunk after the other, and assemble the run."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import replace
from operator import itemgetter
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
from ..problem.feasibility import check_feasible
from ..problem.feedback import Feedback
from ..problem.memory import shared_start
from ..problem.problem import Problem
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
from .buffers import give_back, in_place
from .compile import compiled
from .loop import RECORDS, Inputs, KeptRecords, Shape, Span, begin_all, play_chunk
from .packing import as_arrays
from .round import Game, GameState, first_fault
from .with_feedback import WithFeedback

CHUNK_BYTES = 8 * 2**20
SHORTEST, LONGEST = 2**3, 2**15
FEW = 2**10, 2**13
"""Simulations of at most so many rounds have shorter chunks of their own, whose memory is filled in
less time."""


ROOM = 64
"""The first size of a state that may grow."""
SHORT = 2**19
"""Numbers in the decisions of all seeds and rounds up to which they are kept for a certificate, and
up to which a run is played again by a program that is compiled quickly."""


class Carry(NamedTuple):
    """What is handed on from chunk to chunk, and written to checkpoints."""

    state: GameState
    """Arrays with the leading axes learner and seed; without totals."""
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


class Simulation:
    """A simulation that is ready to be played: learners, problem and data fit together, and are
    laid out for the loop. `play` and `result` carry it out.

    The learners are of one class; if the user gave several (`swept`), results have an axis
    `learner`. `quick` compiles quickly rather than well, for a program that runs once.
    """

    def __init__(
        self,
        *,
        learners: tuple[Any, ...],
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
    ) -> None:
        self.learners, self.swept, self.feedback = learners, swept, feedback
        self.problem, self.score, self.stream, self.every = problem, score, stream, every
        self.first, self.random_keys, self.quick = first, random_keys, quick
        self.example = round_shapes(stream, first, None if random_keys is None else random_keys[0])
        """Shapes and types of one round's data."""
        given = problem.given(self.example, first)
        played = scored = count_constraints(problem, first, given, "stream")
        if score is not None or problem.announced is not None:
            all_rows = (score or problem).whole()
            given = all_rows.given(self.example, first)
            scored = count_constraints(all_rows, first, given, "stream")
        if problem.announced is not None:
            check_announced(learners, problem, stream, feedback)
        predicted = forecast is not None
        if predicted:
            forecast = forecast_of_rounds(forecast, learners[0], problem, stream, feedback)
        if advice is not None:
            advice = advice_of_rounds(advice, learners[0], problem, stream, feedback, predicted)
        function = None if isinstance(advice, Stream) else advice
        if function is not None:
            check_advice_function(function, learners[0], first, predicted)
        self.advice: Advice | None = advice
        self.forecast: Stream | str | None = forecast
        thinning = min(every, stream.horizon + 1)  # beyond the horizon nothing is kept
        shape = Shape(
            learners=len(learners),
            seeds=stream.seeds,
            counts=(played, scored),
            length=0,
            record=tuple([name for name in RECORDS if name in record]),
            every=thinning,
            reveal=stream.function if isinstance(stream, Adversary) else None,
            advice=function,
            advised=isinstance(advice, Stream) or predicted,
        )
        length = _chunk_length(shape, self.example, first.size, stream, chunk)
        # Whole groups of thinned rounds, so that none straddles two chunks.
        self.shape = shape._replace(length=-(-length // thinning) * thinning)
        # What a learner sees through feedback is not its own state, which neither grows nor stops.
        own, kind = feedback is None, type(learners[0])
        grows = own and issubclass(kind, Grows)
        self.room = (
            ROOM if grows and any(each.with_room(1) is not each for each in learners) else None
        )
        """The size of states that may grow; None if they do not."""
        self.short = own and chosen_passes() is None and issubclass(kind, Shortens)
        """Whether learners are played without parts that are seldom needed."""
        stacked = _stacked(learners, feedback, first.dtype, self.room, self.short)
        self.short = self.short and isinstance(stacked, Shortened)
        remembers = problem.previous or (score is not None and score.previous)
        start = shared_start(problem, score, first) if remembers else None

        def number(leaf: Any) -> Any:  # Python's floats in the type of the decision
            return np.asarray(leaf, first.dtype) if isinstance(leaf, float) else np.asarray(leaf)

        self.inputs = Inputs(
            game=jax.tree.map(number, Game.of(problem, score)),
            learner=stacked,
            x1=np.asarray(first),
            start=None if start is None else np.asarray(start),
            adversary=None if shape.reveal is None else adversary_state(stream, first.dtype),
        )

    def block(self, start: int, rounds: int) -> Any:
        """Return the data of a chunk, checked to be like those of the first round; None if they
        depend on decisions."""
        if self.stream.reacts:
            return None
        data = self.stream.block(start, rounds)
        if isinstance(self.stream, Arrays):
            return data
        if _leaf_types(data, 2) != _leaf_types(self.example):
            raise ValueError(
                f"stream: got {_described(data, 2)} for a round after round {start}; expected "
                f"{_described(self.example)}, as for the first"
            )
        return data

    def blank(self) -> GameState:
        """Return a state of zeros, of which only shapes and types matter."""
        leaves, structure = jax.tree.flatten((self.inputs, self.random_keys))

        def begin(*leaves: Any) -> GameState:
            return begin_all(self.shape, *jax.tree.unflatten(structure, leaves))

        shapes = jax.eval_shape(begin, *leaves)  # of leaves: JAX keeps trees, and their functions
        return jax.tree.map(_zeros, shapes._replace(totals=None))

    def begin(self) -> Carry:
        """Return a carry of zeros, of which only shapes and types matter."""
        count = self.shape.counts[1]
        sums = np.zeros((self.shape.learners, self.shape.seeds, 4 + 4 * count))
        return Carry(self.blank(), Totals.of_packed(sums, count))

    def run(self, report: Callable[[int, int], None] | None = None) -> Run:
        """Play all rounds and return the run; after each chunk `report` is called with its number
        of rounds and that of all so far."""
        records = KeptRecords(self.shape, self.stream.horizon)
        for chunk in self.play():
            done = chunk.start + chunk.rounds
            records.add(chunk.records, chunk.start, done)
            if report is not None:
                report(chunk.rounds, done)
        return self.result(chunk.carry, records.records)

    def play(self, carry: Carry | None = None, done: int = 0) -> Iterator[Chunk]:
        """Play all rounds after the first `done`, chunk by chunk.

        A chunk in which the learner lacked something, a part of itself or room for its state, is
        played again with it. A number that is not finite is an error, and so are constraints that
        no decision satisfies.
        """
        simulation = self
        while done < self.stream.horizon:
            rounds = min(self.shape.length, self.stream.horizon - done)
            chunk = simulation._play_chunk(carry, self.block(done, rounds), done, rounds)
            state, learner = chunk.carry.state.learner, simulation.inputs.learner
            if simulation.short and np.any(learner.fell_short(state)):  # type: ignore[attr-defined]
                simulation = simulation.whole()
                continue
            room = simulation.room
            if room is not None and any(each.is_full(state) for each in self.learners):
                simulation = simulation._with_learners(2 * room, simulation.short)
                carry = None if carry is None else simulation._padded(carry)
                continue
            excess = chunk.records.get("excess")
            if not done and (self.score is not None or excess is None or (excess > 0).all()):
                check_feasible(self.problem)  # unless a decision was played that is feasible
            yield chunk
            carry, done = chunk.carry, done + rounds

    def whole(self) -> Simulation:
        """Return the same simulation with all parts of its learners from the first round on."""
        return self._with_learners(self.room, short=False) if self.short else self

    def _with_learners(self, room: int | None, short: bool) -> Simulation:
        other = copy.copy(self)
        other.room, other.short = room, short
        learner = _stacked(self.learners, self.feedback, self.first.dtype, room, short)
        other.inputs = replace(self.inputs, learner=learner)
        return other

    def _padded(self, carry: Carry) -> Carry:
        """Return the carry of a smaller simulation with zeros in the new room."""

        def padded(leaf: Any, like: Any) -> Any:
            short = zip(np.shape(leaf), np.shape(like), strict=True)
            return np.pad(leaf, [(0, wanted - size) for size, wanted in short])

        return carry._replace(state=jax.tree.map(padded, carry.state, self.blank()))

    def _play_chunk(self, carry: Carry | None, data: Any, start: int, rounds: int) -> Chunk:
        shape, horizon, floating = self.shape, self.stream.horizon, self.first.dtype
        read, revealed = start, data
        in_memory = isinstance(self.stream, Arrays) and shape.seeds == 1
        if rounds < shape.length <= horizon and in_memory:
            # The last chunk reads rounds before it too, in place, instead of a copy of compiled
            # length.
            read = horizon - shape.length
            revealed = self.block(read, shape.length)
        if shape.advised:  # what is said before a round, each with whether it is known, or None
            span = read, start - read + rounds
            said = self.advice.block(*span) if isinstance(self.advice, Stream) else None
            predicted: Any = None
            if self.forecast is not None:
                predicted = predicted_data(self.forecast, self.stream, *span)
            revealed = revealed, (said, predicted)
        borrowed: list[Array] = []

        def staged(leaf: Any) -> Any:
            leaf = leaf if leaf.dtype == floating else cast_data("stream", leaf, floating)
            return in_place(leaf, shape.length, borrowed)

        which = Span(np.int32(start), np.int32(rounds), np.int32(start - read))
        passed = self.inputs, jax.tree.map(staged, revealed), self.random_keys, which
        program = compiled(self.problem, play_chunk, shape, passed, self.quick, blank=self.blank)
        played = program(*passed, program.blank if carry is None else carry.state)
        state, sums, records = jax.tree.map(_host, played)  # waits for the chunk
        give_back(borrowed)
        if state.faults.any():  # the least is the first round's
            _raise_fault(*first_fault(state.faults[state.faults > 0].min()))
        totals = Totals.of_packed(sums, shape.counts[1])
        if carry is not None:
            totals = carry.totals.plus(totals)
        if not (np.isfinite(sums).all() and (carry is None or totals.finite())):
            raise ValueError(
                f"loss: got totals that are not finite by round {start + rounds}; expected losses "
                f"and squared violations whose sums fit {floating}"
            )
        if rounds < shape.length:
            for name, record in records.items():
                rows = shape.rows(name, rounds)
                records[name] = jax.tree.map(lambda array, rows=rows: array[:, :, :rows], record)
        return Chunk(start, rounds, data, Carry(state, totals), records)

    def result(self, carry: Carry, records: dict[str, Array]) -> Run:
        """Assemble the run."""
        scored, state = self.score or self.problem, carry.state.learner
        arrays: dict[str, Any] = {"final": np.asarray(carry.state.x), **records}
        arrays["totals"] = carry.totals
        for name in ("cuts_hold", "correction"):
            if getattr(state, name, None) is not None:
                arrays[name] = np.asarray(getattr(state, name))
        if isinstance(state, AdvisedState):
            arrays["advised"] = advice_facts(state)
        if not self.swept:
            arrays = jax.tree.map(itemgetter(0), arrays)
        learner = self.learners if self.swept else self.learners[0]
        return Run(
            learner=learner,
            played_by=learner,
            horizon=self.stream.horizon,
            seeds=self.stream.seeds,
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
            **arrays,
        )


def _stacked(
    learners: tuple[Learner, ...],
    feedback: Feedback | None,
    dtype: Any,
    room: int | None,
    short: bool,
) -> Any:
    """Return the learners as one tree of arrays, with room for their states."""
    ready: list[Any] = []
    for learner in learners:
        played: Any = learner
        if room is not None:
            played = played.with_room(room)
        if short:
            played = played.shortened()
        if feedback is not None:
            played = WithFeedback(learner, feedback)
        ready.append(as_arrays(played, dtype))
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
    data = sum(map(np.size, jax.tree.leaves(example)))
    sizes = {"loss": 1, "excess": 1, "data": data, "multipliers": shape.counts[0]}
    recorded = 0
    for name in shape.record:
        recorded += sizes.get(name, size) // (shape.every if RECORDS[name].thinned else 1)
    revealed = 0 if stream.reacts else data
    length = default_chunk_length(8 * shape.seeds * max(revealed, shape.learners * recorded))
    if chunk is not None:
        return min(arguments.count("chunk", chunk), max(length, stream.horizon))
    for few in FEW:
        if stream.horizon <= few:
            length = min(length, few + 8)
    return length


def _zeros(leaf: Any) -> Any:
    if isinstance(leaf.dtype, np.dtype):
        return jax.device_put(np.zeros(leaf.shape, leaf.dtype))  # nothing is compiled
    return jnp.zeros(leaf.shape, leaf.dtype)  # random keys


def _host(array: Any) -> Any:
    """Return an array in host memory. Random keys, whose type NumPy does not have, stay."""
    return np.asarray(array) if isinstance(array.dtype, np.dtype) else array


def _leaf_types(tree: Any, axes: int = 0) -> Any:
    return jax.tree.map(lambda leaf: (leaf.shape[axes:], leaf.dtype.kind), tree)


def _described(tree: Any, axes: int = 0) -> str:
    return str(jax.tree.map(lambda leaf: f"{leaf.dtype}{list(leaf.shape[axes:])}", tree))
