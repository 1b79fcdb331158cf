"""How learners, problem and data are laid out for the compiled loop, and how many rounds are played
at a time."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import jax
import numpy as np

from .. import arguments
from ..engine import Array
from ..jax_internals import marks_calls
from ..learners import Learner
from ..problem.compatibility import adversary_state, count_constraints, round_shapes
from ..problem.feedback import Feedback
from ..problem.memory import shared_start
from ..problem.problem import Problem
from ..problem.programs import programs_of
from ..problem.streams import Adversary, Arrays, Stream
from ..runs.totals import ChunkTotals
from .announced import check_announced
from .buffers import is_aligned
from .compile_key import RECORDS, BatchShape, Carry, CompileKey, Inputs
from .loop import initial_carry, plays_alone
from .packing import Packed, Packing, Place, as_arrays
from .wide_rounds import HUGE
from .with_feedback import through

__all__ = ["Layout", "chunk_of_any_length", "default_chunk_length"]

CHUNK_BYTES = 8 * 2**20
SHORTEST, LONGEST = 2**3, 2**15
FEW = 2**10, 2**13
"""Simulations of at most so many rounds have shorter chunks of their own, whose memory is filled in
less time."""
BLOCKS = 4
"""Blocks of a long chunk, if data are used in place: the data need no memory then, and each chunk
costs time."""
LARGE = 2**20
"""Bytes of records whose filling takes a noticeable part of a call."""


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
    decision: Place
    """Where the decision lies in the packed state."""
    totals: Any
    """`ChunkTotals` with the place of each number among the packed ones."""
    stream: tuple[int, int, bool]
    """Rounds and seeds of the data, and whether arrays have an axis for the seed."""
    kept: tuple[Any, ...]
    """Objects whose numbers are laid out."""
    one_seed: Layout | None = None
    """The layout for a single seed, if seeds are better played one after the other."""
    long: Layout | None = None
    """The layout with long chunks, for data that are used in place."""

    def for_data(self, stream: Stream) -> Layout:
        """Return the layout with long chunks if there is one and all data are used in place,
        otherwise this one."""
        if self.long is None or not isinstance(stream, Arrays):
            return self
        in_place = (
            leaf.dtype == self.key.inputs.floating and is_aligned(leaf)
            for leaf in jax.tree.leaves(stream.data)
        )
        return self.long if all(in_place) else self

    @classmethod
    def of(
        cls,
        learners: tuple[Learner, ...],
        problem: Problem,
        score: Problem | None,
        feedback: Feedback | None,
        stream: Stream,
        record: frozenset[str],
        every: int,
        first: jax.Array,
        random_keys: jax.Array | None,
        chunk: int | None,
        long: bool = True,
    ) -> Layout:
        """Check that learners, problem and data fit together, and lay them out; `long` allows long
        chunks."""
        programs = programs_of(problem)
        example = round_shapes(stream, first, None if random_keys is None else random_keys[0])
        ready = [as_arrays(through(learner, feedback), first.dtype) for learner in learners]
        count = count_constraints(problem, first, problem.given(example, first), "stream")
        start = shared_start(problem, score, first)
        check_announced(learners, problem, stream, feedback)
        apart = (
            problem if score is None and problem.announced is not None else score
        )  # scored by other constraints
        inputs = Inputs(
            constraints=problem.constraints,
            scored_constraints=None if apart is None else apart.scored_constraints,
            domain=problem.domain,
            learner=jax.tree.map(
                lambda *leaves: np.stack(leaves) if len(leaves) > 1 else leaves[0][None], *ready
            ),
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
        sizes = {
            "loss": 1,
            "excess": 1,
            "data": _size(example),
            "decisions": _size(first),
            "multipliers": count,
        }
        sizes["proposals"] = sizes["decisions"]
        always = sum(sizes[name] for name in record if not RECORDS[name].thinned)
        thinned = sum(sizes[name] for name in record if RECORDS[name].thinned)
        revealed = 0 if stream.reacts else _size(example)
        recorded = batch.learners * (always + thinned // thinning)
        length = default_chunk_length(8 * batch.seeds * max(revealed, recorded))
        if chunk is not None:
            length = min(arguments.count("chunk", chunk), max(length, stream.horizon))
        else:
            length = min(length, *(few + 8 for few in FEW if stream.horizon <= few), LONGEST + 8)
            length = without_waste(length, stream.horizon, 8 * batch.seeds * recorded)
        key = CompileKey(
            loss=problem.loss,
            scored_loss=(score or problem).loss,
            reveal=stream.function if isinstance(stream, Adversary) else None,
            record=record,
            every=thinning,
            length=-(-length // thinning)
            * thinning,  # whole groups, so that every-th rounds never straddle chunks
            batch=batch,
            inputs=packing,
            state=plan.state,
            totals=plan.totals,
            previous=(problem.previous, (score or problem).previous),
            whole=marks_calls() and _size(first) <= HUGE,
        )
        scored = score and (score.loss, score.constraints)
        kept = (learners, problem.loss, problem.constraints, problem.domain, scored, feedback)
        packed = jax.device_put(packing.pack(inputs))  # otherwise every call would copy them
        lengths = (stream.horizon, stream.seeds, getattr(stream, "seed_axis", False))
        alone = None
        if (
            isinstance(stream, Arrays)
            and stream.seed_axis
            and random_keys is None
            and plays_alone(batch, _size(first))
        ):
            rest = score, feedback, stream.of_seed(0), record, every, first, None, chunk, long
            alone = cls.of(learners, problem, *rest)
        usual = cls(example, key, packed, *plan[2:], lengths, kept, alone)
        if not long or chunk is not None or not isinstance(stream, Arrays) or stream.seed_axis:
            return usual
        longer = key._replace(length=BLOCKS * key.length, blocks=BLOCKS)
        fits = longer.length <= min(
            stream.horizon, default_chunk_length(8 * batch.seeds * recorded)
        )
        return usual._replace(long=usual._replace(key=longer)) if fits else usual


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


def without_waste(length: int, horizon: int, bytes_per_round: int) -> int:
    """Return the length of the only chunk of a simulation, shorter than `length` if its records are
    large.

    All of a chunk's records are filled before its rounds are played, and kept with the run. Large
    ones are therefore at most a quarter longer than the horizon. There are four lengths between two
    powers of two, so few horizons need another program.

    >>> without_waste(32776, 20_000, 160), without_waste(32776, 20_000, 16)
    (20488, 32776)
    """
    if horizon > length or length * bytes_per_round <= LARGE:
        return length
    step = max(1, (1 << (horizon - 1).bit_length()) // 8)
    return min(length, -(-horizon // step) * step + 8)


def chunk_of_any_length(horizon: int) -> int | None:
    """Return the argument `chunk` with which short simulations use the same compiled program as
    long ones.

    By default simulations of few rounds have a program of their own, which is compiled in addition.
    """
    return LONGEST + 8 if horizon <= FEW[-1] else None


def _count_scored(problem: Problem, x: jax.Array, example: Any) -> int:
    """Return the number of constraints that score a decision, announced ones included."""
    whole = problem.whole()
    return count_constraints(whole, x, whole.given(example, x), "stream")


class Plan(NamedTuple):
    """How state and totals are packed."""

    state: Packing
    totals: Packing
    placeholder_state: Packed
    is_maximum: Array
    decision: Place
    places: Any


def _plan(inputs: Packing, batch: BatchShape) -> Plan:
    def begun(*leaves: Any) -> Carry:
        fixed: Inputs = jax.tree.unflatten(inputs.structure, leaves)
        return initial_carry(batch, fixed)

    shapes = jax.eval_shape(
        begun, *(jax.ShapeDtypeStruct(*leaf_type) for leaf_type in inputs.leaf_types)
    )
    state, totals = (Packing.of(part, inputs.floating) for part in shapes)
    zeros: ChunkTotals = jax.tree.map(lambda a: np.zeros(a.shape), shapes.totals)
    peak: Any = np.ones(shapes.totals.peak.shape)
    (is_maximum,) = totals.pack(zeros._replace(peak=peak))
    header = 1 + totals.size
    return Plan(
        state,
        totals,
        state.zeros(header + 1),
        is_maximum > 0,
        state.where(header).x,
        totals.where(),
    )


def _size(tree: Any) -> int:
    return sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(tree))
