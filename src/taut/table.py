"""The table: a game laid out for the referee, chunk by chunk, and the finished run taken from it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from . import archive, errors
from ._version import __version__
from .checkpoint import digest
from .diagnosis import blame
from .learners import Learner
from .opening import count_constraints, entered, one_round, settled
from .problem import Problem
from .referee import Board, Records, Rules, Sum, begin, play
from .rounds import FullInformation
from .run import RECORDS, Run, Totals
from .staging import STAGE, in_place
from .streams import Adversary, Arrays, Stream

__all__ = ["Table"]

THINNED = ("decisions", "multipliers")
CHUNK_BYTES = 8 * 2**20
SHORTEST, LONGEST = 2**8, 2**15
Array = np.ndarray[Any, Any]


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
        self.learner: Learner = _stacked(ready) if swept else ready[0]
        self.count = count_constraints(problem, first, self.example, "stream")
        self.scored = count_constraints(score or problem, first, self.example, "stream")
        self.rules = Rules(
            loss=problem.loss,
            scored_loss=(score or problem).loss,
            reveal=source.function if isinstance(source, Adversary) else None,
            record=record,
            every=every,
            length=self._length(record, every, chunk),
            swept=swept,
            seeded=source.seeds > 1,
        )
        self.lead = int(swept) + int(self.rules.seeded)
        self.key = jax.random.split(key, source.seeds) if key is not None and self.rules.seeded else key

    def _length(self, record: frozenset[str], every: int, chunk: int | None) -> int:
        if chunk is None:
            revealed = 0 if self.source.reacts else _size(self.example)
            kept = len(record & {"loss", "excess"})
            kept += (_size(self.first) * ("decisions" in record) + self.count * ("multipliers" in record)) // every
            bytes_a_round = 8 * self.source.seeds * max(revealed, len(self.learners) * kept)
            most = CHUNK_BYTES // max(1, bytes_a_round)
            # Not a power of two: the seeds' rows would lie that far apart, and all fight for the same few lines of the cache.
            chunk = (1 << (min(max(most, SHORTEST), LONGEST).bit_length() - 1)) + 8
        chunk = errors.count("chunk", chunk)
        return -(-chunk // every) * every  # whole groups, so that every-th rounds never straddle chunks

    def begin(self) -> Board:
        """Before round 1."""
        x1: Any = self.first
        if self.rules.seeded:
            x1 = np.broadcast_to(x1, (self.source.seeds, *x1.shape))
        board: Board = begin(self.rules, self.learner, x1, self.count, self.scored)
        return board

    def block(self, start: int, rounds: int) -> Any:
        """The chunk's data as they come, checked to be like the first round's; nothing if they depend on decisions."""
        if self.source.reacts:
            return None
        data = self.source.block(start, rounds)
        if _kinds(data, 2) != self.kinds:
            raise ValueError(
                f"stream: got {_described(data, 2)} for a round after round {start}; expected "
                f"{_described(self.example)}, as for the first"
            )
        return data

    def play(self, board: Board, data: Any, start: int, rounds: int) -> tuple[Board, dict[str, Array]]:
        """One chunk and what is to be recorded of it, or an error that names the first number that was not finite."""
        laid_out, skipped = self._laid_out(data, start, rounds)

        def played(rules: Rules) -> tuple[Board, Records, jax.Array]:
            out: tuple[Board, Records, jax.Array] = play(
                rules, self.problem.constraints, None if self.score is None else self.score.constraints,
                self.problem.domain, self.learner, board, laid_out, self.key,
                np.array([start, rounds, skipped], np.int32),
            )  # fmt: skip
            return out

        after, records, finite = played(self.rules)
        if not bool(finite):
            blame(self.rules, lambda rules: played(rules)[:2], data, self.key, start, rounds)
        kept = {name: getattr(records, name) for name in RECORDS if name in self.rules.record}
        rows = {name: rounds // (self.rules.every if name in THINNED else 1) for name in kept}
        return after, {
            name: np.asarray(a)[(slice(None),) * self.lead + (slice(rows[name]),)] for name, a in kept.items()
        }

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
        return jax.tree.unflatten(structure, leaves if self.rules.seeded else [leaf[0] for leaf in leaves])

    def result(self, board: Board, records: dict[str, Array]) -> Run:
        """The finished run."""

        def dims(a: Any) -> Array:
            array = np.asarray(a)
            if self.rules.seeded:
                return array
            return array[:, None] if self.rules.swept else array[None]

        def total(s: Sum) -> Array:
            value = np.asarray(s.value, np.float64)
            return dims(value if s.error is None else value + np.asarray(s.error, np.float64))

        score = board.score
        by_constraint = {n: total(getattr(score, n)) for n in ("excess", "violation", "squared")}
        worst = {
            f"worst_{n}": by_constraint[n][..., 0] if self.scored == 1 else total(getattr(score, f"worst_{n}"))
            for n in by_constraint
        }
        peak = dims(np.asarray(score.peak, np.float64))
        return Run(
            learner=self.learners if self.rules.swept else self.learners[0],
            horizon=self.source.horizon,
            seeds=self.source.seeds,
            totals=Totals(loss=total(score.loss), peak=peak, **by_constraint, **worst),
            final=dims(board.state.x),
            every=self.rules.every,
            version=__version__,
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
            "learner": [archive.pack(learner) for learner in self.learners],
            "problem (loss, constraints, domain)": [self.problem.domain.to_dict(), self._probed(data)],
            "stream": digest(data),
            "horizon": self.source.horizon,
            "number of seeds": self.source.seeds,
            "x1": digest(self.first),
            "key": None if self.key is None else digest(jax.random.key_data(self.key)),
            "record": sorted(self.rules.record),
            "every": self.rules.every,
            "chunk": self.rules.length,
            "version of taut or jax": [__version__, jax.__version__],
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
