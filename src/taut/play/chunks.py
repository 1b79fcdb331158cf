"""A simulation in chunks: prepare it, play one chunk after the other, and assemble the run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import numpy as np

from ..engine import VERSION, Array
from ..learners import Learner
from ..problem.compatibility import cast_data
from ..problem.feedback import Feedback
from ..problem.problem import Problem
from ..problem.programs import Programs, programs_of
from ..problem.streams import Arrays, Stream
from ..runs.run import Run
from ..runs.totals import Totals
from .buffers import Staging, is_aligned
from .compile_key import BLOCK_TOTALS, Carry, CompileKey
from .deadline import check_deadline
from .kept_records import KeptRecords
from .layout import Layout
from .loop import play
from .nonfinite import raise_first_nonfinite
from .packing import Packed

__all__ = ["Chunk", "Simulation", "names_of"]

SAME = 2.0**14
"""Units of rounding by which a decision may differ between two programs that play the same
rounds."""


class StartedChunk(NamedTuple):
    """A chunk that is being played."""

    start: int
    rounds: int
    data: Any
    staging: Staging
    passed: Any
    """The arguments of the compiled loop."""
    state: Packed
    """The state after the chunk, behind a header; perhaps not computed yet, as are the records."""
    records: dict[str, Any]


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
        saved: bool = False,
    ) -> Simulation:
        """Check that learners, problem and data fit together, and lay them out for the compiled
        loop.

        One that is `saved` between chunks may be continued with data that lie elsewhere, so its
        chunks do not depend on that.
        """
        layout = Layout.of(
            learners,
            problem,
            score,
            feedback,
            stream,
            record,
            every,
            first,
            random_keys,
            chunk,
            not saved,
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
            layout=layout,
        )

    def placed(self) -> Simulation:
        """Return the simulation with longer chunks if its data are used in place."""
        layout = self.layout.for_data(self.stream)
        return self if layout is self.layout else replace(self, layout=layout)

    @property
    def programs(self) -> Programs:
        """Where compiled programs are kept."""
        return programs_of(self.problem)

    @property
    def key(self) -> CompileKey:
        """What is compiled."""
        return self.layout.key

    def by_seed(self) -> list[Simulation]:
        """Return one simulation per seed if seeds are better played one after the other, otherwise
        this one."""
        if self.layout.one_seed is None or not isinstance(self.stream, Arrays):
            return [self]
        streams, layout = (
            (self.stream.of_seed(seed) for seed in range(self.stream.seeds)),
            self.layout.one_seed,
        )
        return [replace(self, stream=stream, layout=layout.for_data(stream)) for stream in streams]

    def block(self, start: int, rounds: int) -> Any:
        """Return the data of a chunk, checked to be like those of the first round; None if they
        depend on decisions."""
        if self.stream.reacts:
            return None
        data = self.stream.block(start, rounds)
        if not isinstance(self.stream, Arrays) and _leaf_types(data, 2) != _leaf_types(
            self.layout.example
        ):
            raise ValueError(
                f"stream: got {_described(data, 2)} for a round after round {start}; expected "
                f"{_described(self.layout.example)}, as for the first"
            )
        return data

    def begin(self) -> Carry:
        """Return the carry before round 1. Between chunks the state is packed, and the totals are
        one float64 vector."""
        return Carry(self.layout.placeholder_state, np.zeros(self.key.totals.size))

    def in_memory(self) -> Run:
        """Play all rounds and save nothing."""
        horizon, carry = self.stream.horizon, self.begin()
        if horizon <= self.key.length:
            started = self._start(carry.state, self.block(0, horizon), 0, horizon)
            return self.result(*self._finish(carry.totals, started))
        kept = KeptRecords(self.key, horizon)
        for chunk in self.play(carry):
            carry, done = chunk.carry, chunk.start + chunk.rounds
            kept.add(chunk.records, chunk.start, done)
            if done < horizon:
                check_deadline(done, horizon)
        return self.result(carry, kept.records)

    def play(self, carry: Carry, done: int = 0) -> Iterator[Chunk]:
        """Play all rounds after the first `done`, chunk by chunk, and raise if a number is not
        finite.

        A chunk is started before the results of the one before are looked at, so that Python works
        while compiled code runs. If the data come from a function of the user, it may overwrite the
        arrays that it returned before; then nothing overlaps.
        """
        overlapping = isinstance(self.stream, Arrays) or self.stream.reacts
        running: StartedChunk | None = None
        state, totals, error = carry.state, carry.totals, None
        while running is not None or done < self.stream.horizon:
            following = None
            if done < self.stream.horizon and (overlapping or running is None):
                rounds = min(self.key.length, self.stream.horizon - done)
                try:
                    following = self._start(state, self.block(done, rounds), done, rounds)
                    state, done = following.state, done + rounds
                except (
                    BaseException
                ) as raised:  # the chunk before comes first, with its errors, and may be saved
                    if running is None:
                        raise
                    error = raised
            if running is not None:
                after, records = self._finish(totals, running)
                totals = after.totals
                yield Chunk(running.start, running.rounds, running.data, after, records)
            if error is not None:
                raise error
            running = following

    def _start(self, state: Packed, data: Any, start: int, rounds: int) -> StartedChunk:
        """Start to play a chunk from a state, perhaps before that has been computed."""
        staging = Staging()
        staged, skipped = self._stage(staging, data, start, rounds)
        span = np.array([start, rounds, skipped], np.int32) if start else _first_span(rounds)
        passed = (self.layout.inputs, state, staged, self.random_keys, span)
        after, records = play(programs_of(self.problem), self.layout.key, *passed)
        return StartedChunk(start, rounds, data, staging, passed, after, records)

    def _finish(self, totals: Array, started: StartedChunk) -> tuple[Carry, dict[str, Any]]:
        """Wait for a chunk. Returns the carry after it and the records, or raises if a number is
        not finite."""
        key = self.layout.key
        header = np.asarray(started.state[0])[: key.header]
        totals = self._added(
            totals, header[None, 1:] if key.blocks == 1 else started.records.pop(BLOCK_TOTALS)
        )
        if not header[0] or not np.isfinite(totals).all():
            raise_first_nonfinite(programs_of(self.problem), key, started.passed, started.data)
        started.staging.end()
        trimmed = {
            name: _first_rows(values, key.rows(name, started.rounds))
            for name, values in started.records.items()
        }
        return Carry(started.state, totals), trimmed

    def _added(self, totals: Array, blocks: Any) -> Array:
        """Return packed totals with those of one block after the other, so that blocks and chunks
        are added in the same order."""
        rows = np.concatenate((totals[None], blocks), dtype=totals.dtype)
        added: Array = np.add.accumulate(rows)[-1]
        np.copyto(added, np.maximum.reduce(rows), where=self.layout.is_maximum)
        return added

    def _stage(self, staging: Staging, data: Any, start: int, rounds: int) -> tuple[Any, int]:
        """Return a chunk's data in the type and length that are compiled, and how many of its
        rounds to skip.

        Arrays that XLA can use in place are not copied: an incomplete chunk is completed by the
        rounds before it.
        """
        length, floating = self.layout.key.length, self.first.dtype
        skipped = length - rounds
        completed = isinstance(self.stream, Arrays) and 0 < skipped <= start
        longer = self.stream.block(start - skipped, length) if completed else None
        usual = type(data) is np.ndarray and data.dtype == floating
        if usual and longer is not None and is_aligned(longer):
            return longer, skipped
        if usual:  # several times faster than what follows
            return staging.copy(data, length), 0
        leaves, structure = jax.tree.flatten(data)
        arrays = [
            leaf if leaf.dtype == floating else cast_data("stream", leaf, floating)
            for leaf in leaves
        ]
        if longer is not None:
            all_rounds = [np.asarray(leaf) for leaf in jax.tree.leaves(longer)]
            if all(
                new.dtype == old.dtype and is_aligned(new)
                for new, old in zip(all_rounds, arrays, strict=True)
            ):
                return jax.tree.unflatten(structure, all_rounds), skipped
        copied = [staging.copy(array, length) for array in arrays]
        return jax.tree.unflatten(structure, copied), 0

    def is_after(self, carry: Carry, final: Array) -> bool:
        """Return whether the next decision after a chunk is `final`, (seed, *shape), up to
        rounding."""
        x = self.layout.decision.read(np.asarray(carry.state[0]))[0]
        size = float(np.abs(final).max()) + float(self.problem.domain.radius)
        return float(np.abs(x - final).max()) <= SAME * float(np.finfo(final.dtype).eps) * size

    def result(self, carry: Carry, records: dict[str, Array]) -> Run:
        """Assemble the run."""
        final = self.layout.decision.read(np.asarray(carry.state[0]))
        totals = Totals.of(carry.totals, self.layout.totals, ... if self.swept else 0)
        kept = {"final": final, **records}
        return Run(
            learner=self.learners if self.swept else self.learners[0],
            horizon=self.stream.horizon,
            seeds=self.stream.seeds,
            totals=totals,
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


@lru_cache(16)
def _first_span(rounds: int) -> jax.Array:
    """Return the rounds of a first chunk, for `play`, as an array that a compiled function takes
    without a copy."""
    return jax.device_put(np.array([0, rounds, 0], np.int32))


def names_of(problem: Problem, count: int) -> tuple[str, ...] | None:
    """Return the names of the constraints, unless their number depends on the data and differs."""
    names = problem.constraint_names
    return names if names is not None and len(names) == count else None


def _first_rows(tree: Any, rows: int) -> Any:
    """Return the first entries of the third axis, which is the round."""
    if isinstance(tree, jax.Array):  # the usual case, several times faster
        return np.asarray(tree)[:, :, :rows]
    return jax.tree.map(lambda a: np.asarray(a)[:, :, :rows], tree)


def _leaf_types(tree: Any, axes: int = 0) -> Any:
    return jax.tree.map(lambda leaf: (leaf.shape[axes:], leaf.dtype.kind), tree)


def _described(tree: Any, axes: int = 0) -> str:
    return str(jax.tree.map(lambda leaf: f"{leaf.dtype}{list(leaf.shape[axes:])}", tree))
