"""The table: a game laid out for the referee, chunk by chunk, and the finished run taken from it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from .. import arguments, files
from ..engine import VERSION
from ..learners import Learner
from ..problem.compatibility import count_constraints, entered, one_round
from ..problem.problem import Problem
from ..problem.rounds import FullInformation
from ..problem.streams import Adversary, Arrays, Stream
from .buffers import STAGE, in_place
from .checkpoint import digest
from .loop import Board, Fixed, Layout, Records, Rules, Score, Sum, begin, play
from .nonfinite import blame
from .packing import Parcel, settled
from .run import RECORDS, Run, Totals

__all__ = ["Table"]

THINNED = ("decisions", "multipliers")
CHUNK_BYTES = 8 * 2**20
SHORTEST, LONGEST = 2**8, 2**15
Array = np.ndarray[Any, Any]
Packed = tuple[jax.Array, ...]
"""A learner's state as it travels."""


class Table:
    """The game laid out: rules, batched learner and first decision, and how a chunk is played."""

    def __init__(
        self, learners: tuple[Learner, ...], swept: bool, problem: Problem, score: Problem | None, source: Stream,
        record: frozenset[str], every: int, first: jax.Array, key: jax.Array | None, chunk: int | None,
    ) -> None:  # fmt: skip
        self.learners, self.problem, self.score, self.source, self.first = learners, problem, score, source, first
        self.example = one_round(source, first, key)
        self.kinds = _kinds(self.example)
        ready = [settled(learner, first.dtype) for learner in learners]
        count = count_constraints(problem, first, self.example, "stream")
        scored = count if score is None else count_constraints(score, first, self.example, "stream")
        fixed = Fixed(
            problem.constraints, None if score is None else score.constraints, problem.domain,
            _stacked(ready) if swept else ready[0], np.asarray(first),
        )  # fmt: skip
        parcel = Parcel.of(fixed, np.dtype(first.dtype))
        self.fixed = parcel.pack(fixed)
        seeds = source.seeds if source.seeds > 1 else 0
        self.layout = Layout(parcel, len(learners) if swept else 0, seeds, count, scored)
        self.plan = _plan(self.layout)
        self.rules = Rules(
            loss=problem.loss,
            scored_loss=(score or problem).loss,
            reveal=source.function if isinstance(source, Adversary) else None,
            record=record,
            every=every,
            length=self._length(record, every, chunk),
            layout=self.layout,
            state=self.plan.state,
            score=self.plan.score,
        )
        self.key = jax.random.split(key, seeds) if key is not None and seeds else key

    def _length(self, record: frozenset[str], every: int, chunk: int | None) -> int:
        if chunk is None:
            revealed = 0 if self.source.reacts else _size(self.example)
            kept = len(record & {"loss", "excess"})
            kept += (
                _size(self.first) * ("decisions" in record) + self.layout.played * ("multipliers" in record)
            ) // every
            bytes_a_round = 8 * self.source.seeds * max(revealed, len(self.learners) * kept)
            most = CHUNK_BYTES // max(1, bytes_a_round)
            # Not a power of two: the seeds' rows would lie that far apart, and all fight for the same few lines of the cache.
            chunk = (1 << (min(max(most, SHORTEST), LONGEST).bit_length() - 1)) + 8
        chunk = arguments.count("chunk", chunk)
        return -(-chunk // every) * every  # whole groups, so that every-th rounds never straddle chunks

    def block(self, start: int, rounds: int) -> Any:
        """The chunk's data as they come, checked to be like the first round's; nothing if they depend on decisions."""
        if self.source.reacts:
            return None
        data = self.source.block(start, rounds)
        if not isinstance(self.source, Arrays) and _kinds(data, 2) != self.kinds:
            raise ValueError(
                f"stream: got {_described(data, 2)} for a round after round {start}; expected "
                f"{_described(self.example)}, as for the first"
            )
        return data

    def begin(self) -> Board:
        """Before round 1. Between chunks the state is packed, and the totals are one vector, added up in 64 bits."""
        return Board(self.plan.blank, np.zeros(self.plan.score.size))

    def play(self, board: Board, data: Any, start: int, rounds: int) -> tuple[Board, dict[str, Array]]:
        """One chunk and what is to be recorded of it, or an error that names the first number that was not finite."""
        laid_out, skipped = self._laid_out(data, start, rounds)
        span = np.array([start, rounds, skipped], np.int32)

        def played(rules: Rules) -> tuple[Packed, Records]:
            out: tuple[Packed, Records] = play(rules, self.fixed, board.state, laid_out, self.key, span)
            return out

        after, records = played(self.rules)
        finite, scored = self._head(after)
        totals = np.where(self.plan.peaks, np.maximum(board.score, scored), board.score + scored)
        if not finite or not np.isfinite(totals).all():
            blame(self.rules, lambda rules: self._replayed(*played(rules)), data, self.key, start, rounds)
        kept = {name: getattr(records, name) for name in RECORDS if name in self.rules.record}
        rows = {name: rounds // (self.rules.every if name in THINNED else 1) for name in kept}
        lead = (slice(None),) * self.layout.lead
        return Board(after, totals), {name: np.asarray(a)[(*lead, slice(rows[name]))] for name, a in kept.items()}

    def _head(self, state: Packed) -> tuple[bool, Array]:
        vector = np.asarray(state[0])
        return bool(vector[0]), vector[1 : self.rules.head]

    def _replayed(self, state: Packed, records: Records) -> tuple[Any, Records]:
        return self.rules.state.unwrap(state, self.rules.head), records

    def _laid_out(self, data: Any, start: int, rounds: int) -> tuple[Any, int]:
        """A chunk's data in the game's type and of the compiled length, and how many of its rounds to skip.

        Arrays that can be read in place are: the rounds before an incomplete chunk then complete it.
        """
        length, floating = self.rules.length, self.first.dtype
        leaves, structure = jax.tree.flatten(data)
        arrays = [entered("stream", leaf, floating) for leaf in leaves]
        skipped = length - rounds
        if isinstance(self.source, Arrays) and 0 < skipped <= start:
            longer = [np.asarray(leaf) for leaf in jax.tree.leaves(self.source.block(start - skipped, length))]
            if all(new.dtype == old.dtype and in_place(new) for new, old in zip(longer, arrays, strict=True)):
                return self._seeded(structure, longer), skipped
        return self._seeded(structure, [STAGE.place(i, array, length) for i, array in enumerate(arrays)]), 0

    def _seeded(self, structure: Any, leaves: list[Array]) -> Any:
        return jax.tree.unflatten(structure, leaves if self.layout.seeds else [leaf[0] for leaf in leaves])

    def result(self, board: Board, records: dict[str, Array]) -> Run:
        """The finished run."""
        vector, *apart = board.state
        state = self.rules.state.unwrap((np.asarray(vector), *apart), self.rules.head)
        score: Score = self.rules.score.unwrap((board.score,))

        def dims(a: Any) -> Array:
            array = np.asarray(a)
            if self.layout.seeds:
                return array
            return array[:, None] if self.layout.learners else array[None]

        def total(s: Sum) -> Array:
            return dims(s.value if s.error is None else s.value + s.error)

        by_constraint = {n: total(getattr(score, n)) for n in ("excess", "violation", "squared")}
        worst = {
            f"worst_{n}": by_constraint[n][..., 0] if self.layout.scored == 1 else total(getattr(score, f"worst_{n}"))
            for n in by_constraint
        }
        return Run(
            learner=self.learners if self.layout.learners else self.learners[0],
            horizon=self.source.horizon,
            seeds=self.source.seeds,
            totals=Totals(loss=total(score.loss), peak=dims(score.peak), **by_constraint, **worst),
            final=dims(state.x),
            every=self.rules.every,
            version=VERSION,
            first=np.asarray(self.first),
            problem=self.score or self.problem,
            played=self.problem,
            stream=self.source,
            key=self.key,
            **{name: dims(a) for name, a in records.items()},
        )

    def facts(self) -> dict[str, Any]:
        """What a checkpoint must have been made by. Functions are known by their values at a few decisions."""
        data = self.block(0, min(self.rules.length, self.source.horizon))
        return {
            "learner": [files.pack(learner) for learner in self.learners],
            "problem (loss, constraints, domain)": [self.problem.domain.to_dict(), self._probed(data)],
            "stream": digest(data),
            "horizon": self.source.horizon,
            "number of seeds": self.source.seeds,
            "x1": digest(self.first),
            "key": None if self.key is None else digest(jax.random.key_data(self.key)),
            "record": sorted(self.rules.record),
            "every": self.rules.every,
            "chunk": self.rules.length,
            "version of taut or jax": [VERSION, jax.__version__],
        }

    def _probed(self, data: Any) -> str:
        score = self.score or self.problem
        key = jax.random.key(0)
        sampled = [self.problem.domain.sample(k) for k in jax.random.split(key)]
        points = jnp.stack([jnp.asarray(x, self.first.dtype) for x in (self.first, *sampled)])
        z = None if data is None else jax.tree.map(lambda a: a[0, 0], data)
        functions = (self.rules.loss, self.rules.scored_loss, self.rules.reveal)
        games = (self.problem.constraints, score.constraints, self.problem.domain)
        return digest(_probe(functions, games, points, z, key))


class Plan(NamedTuple):
    """How state and totals of a layout travel."""

    state: Parcel
    score: Parcel
    blank: Packed
    """A state of the right shape, which stands for the one that is made in round 1."""
    peaks: Array
    """Which of the totals are maxima and no sums."""


@lru_cache(maxsize=256)
def _plan(layout: Layout) -> Plan:
    def begun(*leaves: Any) -> Board:
        fixed: Fixed = jax.tree.unflatten(layout.fixed.structure, leaves)
        return begin(layout, fixed.learner, fixed.x1)

    shapes = jax.eval_shape(begun, *(jax.ShapeDtypeStruct(*kind) for kind in layout.fixed.kinds))
    state, score = (Parcel.of(part, layout.fixed.floating) for part in shapes)
    zeros: Score = jax.tree.map(lambda a: np.zeros(a.shape), shapes.score)
    peak: Any = np.ones(shapes.score.peak.shape)
    (peaks,) = score.pack(zeros._replace(peak=peak))
    return Plan(state, score, state.blank(1 + score.size), peaks > 0)


@partial(jax.jit, static_argnums=0)
def _probe(functions: tuple[Any, Any, Any], games: Any, points: jax.Array, data: Any, key: jax.Array) -> Any:
    """Values and slopes of the played game, and values of the one that scores it, at a few decisions."""
    loss, scored_loss, reveal = functions
    constraints, scored_constraints, domain = games

    def probe(x: jax.Array) -> Any:
        z = data if reveal is None else reveal(jnp.asarray(1, jnp.int32), x, key)
        played = FullInformation(loss, constraints, domain, z)
        scored = FullInformation(scored_loss, scored_constraints, domain, z)
        values, pull, _ = played.constraints(x)
        return played.loss(x), played.gradient(x), pull(values), values, scored.loss(x), scored.constraints(x).values

    return jax.vmap(probe)(points)


def _stacked(learners: Sequence[Learner]) -> Learner:
    return jax.tree.map(lambda *leaves: np.stack(leaves), *learners)


def _size(tree: Any) -> int:
    return sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(tree))


def _kinds(tree: Any, axes: int = 0) -> Any:
    return jax.tree.map(lambda leaf: (leaf.shape[axes:], leaf.dtype.kind), tree)


def _described(tree: Any, axes: int = 0) -> str:
    return str(jax.tree.map(lambda leaf: f"{leaf.dtype}{list(leaf.shape[axes:])}", tree))
