"""A simulation in chunks: prepare it, play one chunk after the other, and assemble the run."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import jax
import numpy as np

from .. import arguments
from ..engine import VERSION
from ..learners import Learner
from ..problem.compatibility import adversary_state, cast_data, count_constraints, round_shapes
from ..problem.feedback import Feedback
from ..problem.memory import shared_start
from ..problem.problem import Problem
from ..problem.programs import Programs, programs_of
from ..problem.streams import Adversary, Arrays, Stream
from .before_round import check_announced
from .buffers import BUFFERS, is_aligned
from .loop import RECORDS, BatchShape, Carry, CompileKey, Inputs, initial_carry, play
from .nonfinite import raise_first_nonfinite
from .packing import Packed, Packing, as_arrays
from .run import Run
from .totals import ChunkTotals, Totals
from .with_feedback import through

__all__ = ["Simulation", "chunk_of_any_length", "default_chunk_length", "replayed", "revealed_data"]

CHUNK_BYTES = 8 * 2**20
SHORTEST, LONGEST = 2**3, 2**15
FEW = 2**10
"""Simulations of at most so many rounds have a shorter chunk of their own, whose memory is filled in less time."""
QUICKLY = 2**19
"""Numbers in the decisions of all seeds and rounds up to which a run is played again by a program that is compiled quickly."""
SAME = 2.0**14
"""Units of rounding by which the last decision may then differ; otherwise it is played by the program of the simulation."""
SMALL = 64
"""Arrays of at most so many numbers may be compared by value before a call."""
Array = np.ndarray[Any, Any]


class Layout(NamedTuple):
    """How learners, problem and data are laid out for the compiled loop."""

    example: Any
    """Shapes and types of one round's data."""
    key: CompileKey
    inputs: Packed
    placeholder_state: Packed
    """Zeros in the shape of a state, for the first chunk."""
    is_maximum: Array
    """Which of the packed totals are maxima over rounds rather than sums."""
    kept: tuple[Any, ...]
    """Objects that a signature names by their identity, which must not be given to others."""

    @classmethod
    def of(
        cls, learners: tuple[Learner, ...], problem: Problem, score: Problem | None, feedback: Feedback | None,
        stream: Stream, record: frozenset[str], every: int, first: jax.Array, random_keys: jax.Array | None,
        chunk: int | None,
    ) -> Layout:  # fmt: skip
        """Check that learners, problem and data fit together, and lay them out."""
        programs = programs_of(problem)
        example = round_shapes(stream, first, None if random_keys is None else random_keys[0])
        ready = [as_arrays(through(learner, feedback), first.dtype) for learner in learners]
        count = count_constraints(problem, first, problem.given(example, first), "stream")
        start = shared_start(problem, score, first)
        check_announced(learners, problem, stream, feedback)
        apart = problem if score is None and problem.announced is not None else score  # scored by other constraints
        inputs = Inputs(
            constraints=problem.constraints,
            scored_constraints=None if apart is None else apart.scored_constraints,
            domain=problem.domain,
            learner=jax.tree.map(lambda *leaves: np.stack(leaves) if len(leaves) > 1 else leaves[0][None], *ready),
            x1=np.asarray(first),
            start=None if start is None else np.asarray(start),
            adversary=adversary_state(stream, first.dtype),
            announced=problem.announced,
        )
        batch = BatchShape(
            learners=len(learners),
            seeds=stream.seeds,
            played=count,
            scored=count if apart is None else _count_scored(apart, first, example),
        )
        packing = Packing.of(inputs, np.dtype(first.dtype))
        plan = programs.get((_plan, packing, batch), lambda: _plan(packing, batch))
        thinning = min(every, stream.horizon + 1)  # beyond the horizon nothing is kept
        sizes = {"loss": 1, "excess": 1, "data": _size(example), "decisions": _size(first), "multipliers": count}
        sizes["proposals"] = sizes["decisions"]
        always = sum(sizes[name] for name in record if not RECORDS[name].thinned)
        thinned = sum(sizes[name] for name in record if RECORDS[name].thinned)
        revealed = 0 if stream.reacts else _size(example)
        numbers = max(revealed, batch.learners * (always + thinned // thinning))
        length = default_chunk_length(8 * batch.seeds * numbers)
        if chunk is not None:
            length = min(arguments.count("chunk", chunk), max(length, stream.horizon))
        elif stream.horizon <= FEW:
            length = min(length, FEW + 8)
        key = CompileKey(
            loss=problem.loss,
            scored_loss=(score or problem).loss,
            reveal=stream.function if isinstance(stream, Adversary) else None,
            record=record,
            every=thinning,
            length=-(-length // thinning) * thinning,  # whole groups, so that every-th rounds never straddle chunks
            batch=batch,
            inputs=packing,
            state=plan.state,
            totals=plan.totals,
            previous=(problem.previous, (score or problem).previous),
        )
        scored = score and (score.loss, score.constraints)
        kept = (learners, problem.loss, problem.constraints, problem.domain, scored, feedback)
        packed = jax.device_put(packing.pack(inputs))  # otherwise every call would copy them
        return cls(example, key, packed, plan.placeholder_state, plan.is_maximum, kept)


@dataclass(frozen=True, kw_only=True, eq=False)
class Simulation:
    """A simulation that is ready to be played. `prepare` makes one; `play_chunk` and `result` carry it out."""

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
    programs: Programs
    layout: Layout

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
    ) -> Simulation:
        """Check that learners, problem and data fit together, and lay them out for the compiled loop."""
        programs = programs_of(problem)
        signature = _signature(learners, problem, score, feedback, stream, record, every, first, chunk)
        layout: Layout | None = None if signature is None else programs.layouts.find(signature)
        if layout is None:
            layout = Layout.of(learners, problem, score, feedback, stream, record, every, first, random_keys, chunk)
            if signature is not None and _is_constant(layout.kept):
                programs.layouts.keep(signature, layout)
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
            programs=programs,
            layout=layout,
        )

    @property
    def key(self) -> CompileKey:
        """What is compiled."""
        return self.layout.key

    def block(self, start: int, rounds: int) -> Any:
        """Return the data of a chunk, checked to be like those of the first round; None if they depend on decisions."""
        if self.stream.reacts:
            return None
        data = self.stream.block(start, rounds)
        if not isinstance(self.stream, Arrays) and _leaf_types(data, 2) != _leaf_types(self.layout.example):
            raise ValueError(
                f"stream: got {_described(data, 2)} for a round after round {start}; expected "
                f"{_described(self.layout.example)}, as for the first"
            )
        return data

    def begin(self) -> Carry:
        """Return the carry before round 1. Between chunks the state is packed, and the totals are one float64 vector."""
        return Carry(self.layout.placeholder_state, np.zeros(self.key.totals.size))

    def play_chunk(self, carry: Carry, data: Any, start: int, rounds: int) -> tuple[Carry, dict[str, Any]]:
        """Play one chunk. Returns the carry after it and the records, or raises if a number is not finite."""
        staged, skipped = self._stage(data, start, rounds)
        span = np.array([start, rounds, skipped], np.int32)
        passed = (self.layout.inputs, carry.state, staged, self.random_keys, span)
        state, records = play(self.programs, self.key, *passed)
        header = np.asarray(state[0])[: self.key.header]
        totals = np.where(self.layout.is_maximum, np.maximum(carry.totals, header[1:]), carry.totals + header[1:])
        if not header[0] or not np.isfinite(totals).all():
            raise_first_nonfinite(self.programs, self.key, passed, data)
        trimmed = {name: _first_rows(values, self.key.rows(name, rounds)) for name, values in records.items()}
        return Carry(state, totals), trimmed

    def _stage(self, data: Any, start: int, rounds: int) -> tuple[Any, int]:
        """Return a chunk's data in the type and length that are compiled, and how many of its rounds to skip.

        Arrays that XLA can use in place are not copied: an incomplete chunk is completed by the rounds before it.
        """
        length, floating = self.key.length, self.first.dtype
        leaves, structure = jax.tree.flatten(data)
        arrays = [cast_data("stream", leaf, floating) for leaf in leaves]
        skipped = length - rounds
        if isinstance(self.stream, Arrays) and 0 < skipped <= start:
            longer = [np.asarray(leaf) for leaf in jax.tree.leaves(self.stream.block(start - skipped, length))]
            if all(new.dtype == old.dtype and is_aligned(new) for new, old in zip(longer, arrays, strict=True)):
                return jax.tree.unflatten(structure, longer), skipped
        copied = [BUFFERS.copy(i, array, length) for i, array in enumerate(arrays)]
        return jax.tree.unflatten(structure, copied), 0

    def is_after(self, carry: Carry, final: Array) -> bool:
        """Return whether the next decision after a chunk is `final`, (seed, *shape), up to rounding."""
        vector, *others = carry.state
        x = np.asarray(self.key.state.unpack((np.asarray(vector), *others), self.key.header).x)[0]
        size = float(np.abs(final).max()) + float(self.problem.domain.radius)
        return float(np.abs(x - final).max()) <= SAME * float(np.finfo(final.dtype).eps) * size

    def result(self, carry: Carry, records: dict[str, Array]) -> Run:
        """Assemble the run."""
        vector, *others = carry.state
        state = self.key.state.unpack((np.asarray(vector), *others), self.key.header)
        chunks: ChunkTotals = self.key.totals.unpack((carry.totals,))
        totals = Totals.of(chunks)
        kept = {"final": np.asarray(state.x), **records}
        return Run(
            learner=self.learners if self.swept else self.learners[0],
            horizon=self.stream.horizon,
            seeds=self.stream.seeds,
            totals=totals if self.swept else totals[0],
            every=self.every,
            version=VERSION,
            first=np.asarray(self.first),
            problem=self.score or self.problem,
            played=self.problem,
            stream=self.stream,
            key=self.random_keys,
            feedback=self.feedback,
            constraint_names=names_of(self.score or self.problem, totals.peak.shape[-1]),
            coordinate_names=self.problem.coordinate_names,
            **{name: array if self.swept else array[0] for name, array in kept.items()},
        )


def names_of(problem: Problem, count: int) -> tuple[str, ...] | None:
    """Return the names of the constraints, unless their number depends on the data and differs."""
    names = problem.constraint_names
    return names if names is not None and len(names) == count else None


def default_chunk_length(bytes_per_round: int) -> int:
    """Return the number of rounds to play at a time, so that data or records of a chunk take about 8 MiB.

    The length is a power of two plus 8. With a power of two, the rows of all seeds would lie that far apart in memory and
    compete for the same few lines of the processor's cache.

    >>> default_chunk_length(8), default_chunk_length(2**10), default_chunk_length(2**30)
    (32776, 8200, 16)
    """
    most = CHUNK_BYTES // max(1, bytes_per_round)
    return (1 << (min(max(most, SHORTEST), LONGEST).bit_length() - 1)) + 8


def chunk_of_any_length(horizon: int) -> int | None:
    """Return the argument `chunk` with which short simulations use the same compiled program as long ones.

    By default simulations of few rounds have a program of their own, which is compiled in addition.
    """
    return LONGEST + 8 if horizon <= FEW else None


def revealed_data(run: Run) -> Any:
    """Return the data that the adversary of a run revealed, as a pytree of arrays (seed, round, ...).

    The simulation is played again, with the data recorded: learner, first decision and random keys determine it.
    """
    if not isinstance(run.stream, Adversary):
        raise ValueError(
            "run: got a run that has no adversary, or that was loaded from a file; expected the result of "
            "simulate(learner, problem, reveal)"
        )
    parts = [data for _, data in replayed(run, record=("data",))]
    return jax.tree.map(lambda *arrays: np.concatenate(arrays, axis=1), *parts)


def replayed(
    run: Run, problem: Problem | None = None, stream: Stream | None = None, record: Sequence[str] = ("decisions",)
) -> Iterator[tuple[Any, Any]]:
    """Play a run again and yield decisions and data of one chunk after the other, so that memory stays flat.

    Arguments:
        run: of one learner.
        problem: the problem that was played, for a run that was loaded from a file.
        stream: its data, in the same case, or what an adversary revealed.
        record: "decisions"; "data" alone for what an adversary revealed; or "proposals" for decisions before announced
            constraints were enforced.

    Decisions and data are arrays (seed, round, ...). Decisions that the run has recorded are not computed again.
    """
    learner, problem, stream = run.learner, problem or run.played, stream or run.stream
    if not isinstance(learner, Learner) or problem is None or stream is None or run.first is None:
        raise ValueError("run: got a run without its problem or its data; expected both, and one learner")
    kept = frozenset(record) | (frozenset(("data",)) if stream.reacts else frozenset())
    whole = Simulation.prepare(
        learners=(learner,),
        swept=False,
        problem=problem,
        score=None,
        feedback=run.feedback,
        stream=stream,
        record=kept,
        every=1,
        first=jax.numpy.asarray(run.first),
        random_keys=_keys_again(run, learner, stream),
        chunk=None,
    )
    known = run.decisions if run.every == 1 and not stream.reacts and "proposals" not in record else None
    if known is not None:
        for start in range(0, run.horizon, whole.key.length):
            count = min(whole.key.length, run.horizon - start)
            yield known[:, start : start + count], whole.block(start, count)
        return
    if not stream.reacts and stream.seeds * run.horizon * run.first.size <= QUICKLY:
        quick = replace(whole, layout=whole.layout._replace(key=whole.key._replace(quick=True)))
        *_, last = chunks = list(_played_again(quick, run.horizon))
        if quick.is_after(last.carry, run.final):
            yield from ((chunk.decisions, chunk.data) for chunk in chunks)
            return
    for chunk in _played_again(whole, run.horizon):
        yield chunk.decisions, chunk.data


class PlayedChunk(NamedTuple):
    """Decisions or proposals and data of a chunk, arrays (seed, round, ...), and the carry after it."""

    decisions: Any
    data: Any
    carry: Carry


def _played_again(simulation: Simulation, horizon: int) -> Iterator[PlayedChunk]:
    carry = simulation.begin()
    for start in range(0, horizon, simulation.key.length):
        count = min(simulation.key.length, horizon - start)
        data = simulation.block(start, count)
        carry, records = simulation.play_chunk(carry, data, start, count)
        first = jax.tree.map(lambda a: a[0], records)  # the axis `learner`
        decisions = first.get("decisions", first.get("proposals"))
        yield PlayedChunk(decisions, first["data"] if simulation.stream.reacts else data, carry)


def _count_scored(problem: Problem, x: jax.Array, example: Any) -> int:
    """Return the number of constraints that score a decision, announced ones included."""
    whole = problem.whole()
    return count_constraints(whole, x, whole.given(example, x), "stream")


def _signature(
    learners: tuple[Learner, ...], problem: Problem, score: Problem | None, feedback: Feedback | None, stream: Stream,
    record: frozenset[str], every: int, first: jax.Array, chunk: int | None,
) -> Any:  # fmt: skip
    """Return a key that is equal only for calls with the same layout; None if that cannot be told quickly.

    Learners, functions and domains are told apart by their identity.
    """
    if (
        not isinstance(stream, Arrays)
        or first.size > SMALL
        or problem.previous
        or (score is not None and score.previous)
    ):
        return None
    scored = None if score is None else (id(score.loss), id(score.constraints))
    leaves, structure = jax.tree.flatten(stream.data)
    lead = 2 if stream.seed_axis else 1
    data = (structure, *((leaf.shape[lead:], leaf.dtype) for leaf in leaves), stream.horizon, stream.seeds)
    played = (id(problem.loss), id(problem.constraints), id(problem.domain))
    x1 = (first.dtype, np.asarray(first).tobytes())
    return tuple(map(id, learners)), played, scored, id(feedback), data, record, every, x1, chunk


def _is_constant(tree: Any) -> bool:
    """Return whether no number of learners, constraints and domains can be changed in place."""
    arrays = (leaf for leaf in jax.tree.leaves(tree) if isinstance(leaf, np.ndarray))
    return not any(array.flags.writeable or not array.flags.owndata for array in arrays)


def _keys_again(run: Run, learner: Learner, stream: Stream) -> jax.Array | None:
    """Return the random keys of a run that is played again, if anything is drawn."""
    if not stream.reacts and not through(learner, run.feedback).random:
        return None
    if run.key is None:
        raise ValueError("run: got a run without its random keys; expected the run that taut.simulate returned")
    return run.key


class Plan(NamedTuple):
    """How state and totals are packed."""

    state: Packing
    totals: Packing
    placeholder_state: Packed
    is_maximum: Array


def _plan(inputs: Packing, batch: BatchShape) -> Plan:
    def begun(*leaves: Any) -> Carry:
        fixed: Inputs = jax.tree.unflatten(inputs.structure, leaves)
        return initial_carry(batch, fixed)

    shapes = jax.eval_shape(begun, *(jax.ShapeDtypeStruct(*leaf_type) for leaf_type in inputs.leaf_types))
    state, totals = (Packing.of(part, inputs.floating) for part in shapes)
    zeros: ChunkTotals = jax.tree.map(lambda a: np.zeros(a.shape), shapes.totals)
    peak: Any = np.ones(shapes.totals.peak.shape)
    (is_maximum,) = totals.pack(zeros._replace(peak=peak))
    return Plan(state, totals, state.zeros(1 + totals.size), is_maximum > 0)


def _first_rows(tree: Any, rows: int) -> Any:
    """Return the first entries of the third axis, which is the round."""
    if isinstance(tree, jax.Array):  # the usual case, several times faster
        return np.asarray(tree)[:, :, :rows]
    return jax.tree.map(lambda a: np.asarray(a)[:, :, :rows], tree)


def _size(tree: Any) -> int:
    return sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(tree))


def _leaf_types(tree: Any, axes: int = 0) -> Any:
    return jax.tree.map(lambda leaf: (leaf.shape[axes:], leaf.dtype.kind), tree)


def _described(tree: Any, axes: int = 0) -> str:
    return str(jax.tree.map(lambda leaf: f"{leaf.dtype}{list(leaf.shape[axes:])}", tree))
