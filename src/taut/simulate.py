"""Simulation: a learner plays a problem over a stream, compiled, in chunks that can be checkpointed and resumed."""

from __future__ import annotations

import hashlib
import json
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from . import archive, errors
from ._version import __version__
from .engine import default_float
from .feasibility import check_feasible
from .learners import Learner
from .problem import Problem
from .referee import Board, Records, Rules, Sum, begin, play
from .run import Run, Totals
from .streams import Adversary, Stream, as_stream

__all__ = ["first_decision", "simulate"]

RECORDS = ("loss", "excess", "decisions", "multipliers")
CHUNK_BYTES = 16 * 2**20
CHECKPOINT_FORMAT = 1


def simulate(
    learner: Learner | Sequence[Learner],
    problem: Problem,
    stream: Any,
    *,
    horizon: int | None = None,
    seeds: int | None = None,
    key: jax.Array | None = None,
    x1: Any = None,
    record: Sequence[str] = ("loss", "excess"),
    every: int = 1,
    score: Problem | None = None,
    chunk: int | None = None,
    checkpoint: str | Path | None = None,
    progress: bool = False,
) -> Run:
    """Play `problem` with `learner` over `stream`.

    Arguments:
        learner: one learner, or several of one kind with different parameters, played side by side.
        problem: the game.
        stream: the data of all rounds: a pytree of arrays (also memory maps) with leading axis `round`, or `seed` then
            `round` if `seeds` is given; a function `chunk(start, length)` that returns such arrays for rounds
            start..start+length, counted from 0; or an adversary `reveal(round, decision, key)` that sees the decision
            (rounds counted from 1), written in jax.numpy and compiled like the rest.
        horizon: number of rounds; needed for functions, at most the length of arrays.
        seeds: number of independent plays.
        key: JAX random key for the adversary, split over the seeds; by default `jax.random.key(0)`.
        x1: first decision; by default the centre of the domain. Its float type is that of the whole game.
        record: what to keep for every round, any of "loss", "excess", "decisions", "multipliers". Totals always are.
        every: keep decisions and multipliers of every so-many-th round only.
        score: another problem to score the decisions by, for example the one before a transform.
        chunk: rounds compiled together; by default from the size of a round's data. Memory does not depend on the horizon.
        checkpoint: a folder. After each chunk all that is needed to go on is written there; called again with the same
            arguments the simulation continues, and ends bit for bit as if it had never stopped.
        progress: show a progress bar.

    The horizon, parameters and data are traced: only a new problem, learner class or shape compiles again.
    """
    learners, swept = _learners(learner)
    if not isinstance(problem, Problem):
        raise TypeError(f"problem: got {problem!r}; expected taut.Problem(...)")
    if score is not None and not isinstance(score, Problem):
        raise TypeError(f"score: got {score!r}; expected taut.Problem(...)")
    source = as_stream(stream, horizon=horizon, seeds=seeds)
    if horizon is not None and horizon > source.horizon:
        raise ValueError(f"horizon: got {horizon}; expected at most the {source.horizon} rounds of the stream")
    rounds = horizon or source.horizon
    wanted = _record(record)
    every = errors.count("every", every)
    first = first_decision(problem, x1)
    check_feasible(problem)
    if key is None:
        key = jax.random.key(0)
    table = _Table(learners, swept, problem, score, source, rounds, wanted, every, first, key, chunk)
    chapters = _Chapters(checkpoint, table)
    board, done = chapters.resume()
    with _bar(progress, rounds, done) as advance:
        while done < rounds:
            count = min(table.rules.length, rounds - done)
            after, records = table.play(board, done, count)
            done += count
            chapters.add(after, records, done)
            board = after
            advance(count)
    return table.result(board, chapters.records())


class _Table:
    """The game laid out: rules, batched learner and first decision, and how a chunk is played."""

    def __init__(
        self, learners: tuple[Learner, ...], swept: bool, problem: Problem, score: Problem | None, source: Stream,
        horizon: int, record: frozenset[str], every: int, first: jax.Array, key: jax.Array, chunk: int | None,
    ) -> None:  # fmt: skip
        self.learners, self.problem, self.score, self.source, self.horizon = learners, problem, score, source, horizon
        self.first = first
        example = self._example(key)
        length = _chunk_length(example, problem, source, len(learners), record, every, chunk)
        self.rules = Rules(
            loss=problem.loss,
            scored_loss=(score or problem).loss,
            reveal=source.function if isinstance(source, Adversary) else None,
            record=record,
            every=every,
            length=length,
            swept=swept,
            seeded=source.seeds > 1,
            rescored=score is not None,
        )
        self.learner = jax.tree.map(lambda *a: np.stack([np.asarray(one, float) for one in a]), *learners) if swept else learners[0]
        self.count = _count(problem, first, example)
        self.scored = _count(score or problem, first, example)
        self.key = None
        if self.rules.reveal is not None:
            self.key = jax.random.split(key, source.seeds) if self.rules.seeded else key

    def _example(self, key: jax.Array) -> Any:
        """Shapes of one round's data."""
        if isinstance(self.source, Adversary):
            try:
                return jax.eval_shape(self.source.function, jnp.asarray(1, jnp.int32), self.first, key)
            except TypeError as error:
                raise TypeError(f"stream: reveal(round, decision, key) failed when called: {error}") from error
        block = self.source.block(0, 1)
        return jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape[2:], self._cast(a.dtype)), block)

    def _cast(self, dtype: Any) -> Any:
        return self.first.dtype if np.issubdtype(dtype, np.floating) else dtype

    def begin(self) -> Board:
        """Before round 1."""
        x1 = self.first
        if self.rules.seeded:
            x1 = jnp.broadcast_to(x1, (self.source.seeds, *x1.shape))
        return begin(self.rules, self.learner, x1, self.count, self.scored)

    def data(self, start: int, rounds: int) -> Any:
        """The chunk's data on the device, padded to the compiled length."""
        if self.rules.reveal is not None:
            return None

        def lay_out(a: np.ndarray[Any, Any]) -> jax.Array:
            if a.shape[1] < self.rules.length:
                padded = np.zeros((a.shape[0], self.rules.length, *a.shape[2:]), self._cast(a.dtype))
                padded[:, : a.shape[1]] = a
                a = padded
            return jnp.asarray(a if self.rules.seeded else a[0], self._cast(a.dtype))

        return jax.tree.map(lay_out, self.source.block(start, rounds))

    def play(self, board: Board, start: int, rounds: int, rules: Rules | None = None) -> tuple[Board, Records]:
        """One chunk, or an error that names the first number that was not finite."""
        after, records, finite = play(
            rules or self.rules, self.problem.constraints,
            self.score.constraints if self.score is not None else None,
            self.problem.domain, self.learner, board, self.data(start, rounds), self.key,
            jnp.asarray(start, jnp.int32), jnp.asarray(rounds, jnp.int32),
        )  # fmt: skip
        if rules is None and not bool(finite):
            self._blame(board, start, rounds)
        return after, records

    def _blame(self, board: Board, start: int, rounds: int) -> None:
        """Play the chunk again with everything recorded to find what was not finite first."""
        everything = self.rules._replace(record=frozenset(("loss", "excess", "decisions")), every=1)
        _, records = self.play(board, start, rounds, everything)
        lead = int(self.rules.swept) + int(self.rules.seeded)

        def first_bad(array: Any) -> int:
            bad = ~np.isfinite(np.asarray(array))
            bad = np.moveaxis(bad, lead, 0)[:rounds]
            hits = np.flatnonzero(bad.reshape(bad.shape[0], -1).any(axis=1))
            return int(hits[0]) if hits.size else rounds

        when = {name: first_bad(getattr(records, name)) for name in ("loss", "excess", "decisions")}
        if self.rules.reveal is None:
            for leaf in jax.tree.leaves(self.source.block(start, rounds)):
                bad = ~np.isfinite(np.moveaxis(leaf, 1, 0)) if np.issubdtype(leaf.dtype, np.floating) else None
                if bad is not None and bad.any():
                    round = int(np.flatnonzero(bad.reshape(bad.shape[0], -1).any(axis=1))[0])
                    raise ValueError(f"stream: got a value that is not finite in round {start + round + 1}; expected finite numbers")
        name = min(when, key=lambda n: when[n])
        round = start + when[name] + 1
        if name == "decisions" or when[name] == rounds:
            raise ValueError(
                f"loss gradient: got a value that is not finite in round {round - 1}; expected finite subgradients of loss and "
                "constraints at every decision (jnp.linalg.norm, for one, has none at 0)"
            )
        what = "loss" if name == "loss" else "constraints"
        raise ValueError(f"{what}: got a value that is not finite in round {round}; expected finite numbers")

    def result(self, board: Board, records: dict[str, np.ndarray[Any, Any]]) -> Run:
        """The finished run."""

        def dims(a: Any) -> np.ndarray[Any, Any]:
            array = np.asarray(a)
            return array if self.rules.seeded else np.expand_dims(array, 1 if self.rules.swept else 0)

        def total(s: Sum) -> np.ndarray[Any, Any]:
            value = np.asarray(s.value, np.float64)
            return dims(value if s.error is None else value + np.asarray(s.error, np.float64))

        score = board.score
        by_constraint = {n: total(getattr(score, n)) for n in ("excess", "violation", "squared")}
        worst = {
            f"worst_{n}": by_constraint[n][..., 0] if self.scored == 1 else total(getattr(score, f"worst_{n}"))
            for n in by_constraint
        }
        peak = dims(np.asarray(score.peak, np.float64))
        totals = Totals(loss=total(score.loss), peak=peak, **by_constraint, **worst)
        return Run(
            learner=self.learners if self.rules.swept else self.learners[0],
            horizon=self.horizon,
            seeds=self.source.seeds,
            totals=totals,
            final=dims(board.state.x),
            every=self.rules.every,
            version=__version__,
            problem=self.score or self.problem,
            stream=self.source,
            **{name: dims(a) for name, a in records.items()},
        )

    def fingerprint(self) -> str:
        """What a checkpoint must have been made by: everything but the code of the functions."""
        rules = self.rules._replace(loss=None, scored_loss=None, reveal=None, record=None)  # type: ignore[arg-type]
        facts = {
            "learners": [archive.pack(learner) for learner in self.learners],
            "domain": self.problem.domain.to_dict(),
            "rules": [*map(str, rules), sorted(self.rules.record)],
            "sizes": [self.horizon, self.source.seeds, self.count, self.scored],
            "x1": [str(self.first.dtype), np.asarray(self.first).tolist()],
            "key": None if self.key is None else np.asarray(jax.random.key_data(self.key)).tolist(),
        }
        digest = hashlib.sha256(json.dumps(facts, sort_keys=True).encode())
        if self.rules.reveal is None:
            for leaf in jax.tree.leaves(self.source.block(0, min(self.rules.length, self.horizon))):
                digest.update(np.ascontiguousarray(leaf).tobytes())
        return digest.hexdigest()


class _Chapters:
    """The records of the chunks played so far, in memory or in a checkpoint folder."""

    def __init__(self, folder: str | Path | None, table: _Table) -> None:
        self.folder = None if folder is None else Path(folder)
        self.table = table
        self.parts: list[dict[str, np.ndarray[Any, Any]]] = []
        self.fingerprint = table.fingerprint() if folder is not None else ""

    def resume(self) -> tuple[Board, int]:
        """Where the last call stopped, or the beginning."""
        board = self.table.begin()
        if self.folder is None or not (self.folder / "board.npz").exists():
            return board, 0
        header, arrays = archive.read_arrays(self.folder / "board.npz")
        if header.get("format") != CHECKPOINT_FORMAT or header.get("fingerprint") != self.fingerprint:
            raise ValueError(
                f"checkpoint: got {self.folder}, written by another learner, problem, stream or call; expected this "
                "call's own checkpoint or an empty folder"
            )
        leaves, structure = jax.tree.flatten(board)
        board = jax.tree.unflatten(structure, [jnp.asarray(arrays[str(i)], leaf.dtype) for i, leaf in enumerate(leaves)])
        for end in header["ends"]:
            self.parts.append(archive.read_arrays(self.folder / f"records-{end}.npz")[1])
        self.ends = list(header["ends"])
        return board, int(header["done"])

    ends: list[int]

    def add(self, board: Board, records: Records, done: int) -> None:
        """Keep a chunk's records; with a folder, write them and then the board, so that no half chunk is ever seen."""
        rules = self.table.rules
        lead = int(rules.swept) + int(rules.seeded)
        begun = (done - 1) // rules.length * rules.length
        part = {}
        for name in RECORDS:
            buffer = getattr(records, name)
            if buffer is not None:
                rows = (done - begun) // (1 if name in ("loss", "excess") else rules.every)
                part[name] = np.asarray(buffer)[(slice(None),) * lead + (slice(0, rows),)]
        self.parts.append(part)
        if self.folder is None:
            return
        self.ends = [*getattr(self, "ends", []), done] if part else []
        if part:
            archive.write_arrays(self.folder / f"records-{done}.npz", {}, part)
        header = {"format": CHECKPOINT_FORMAT, "fingerprint": self.fingerprint, "done": done, "ends": self.ends}
        leaves = {str(i): np.asarray(leaf) for i, leaf in enumerate(jax.tree.leaves(board))}
        archive.write_arrays(self.folder / "board.npz", header, leaves)

    def records(self) -> dict[str, np.ndarray[Any, Any]]:
        """All chunks joined."""
        lead = int(self.table.rules.swept) + int(self.table.rules.seeded)
        names = [name for name in RECORDS if name in self.table.rules.record]
        return {name: np.concatenate([part[name] for part in self.parts], axis=lead) for name in names}


def _learners(learner: Any) -> tuple[tuple[Learner, ...], bool]:
    if isinstance(learner, Learner):
        return (learner,), False
    if not isinstance(learner, Sequence) or not learner or not all(isinstance(one, Learner) for one in learner):
        raise TypeError(f"learner: got {learner!r}; expected a learner or a sequence of learners")
    if len({jax.tree.structure(one) for one in learner}) > 1:
        kinds = ", ".join(sorted({type(one).__name__ for one in learner}))
        raise TypeError(
            f"learner: got learners of different structure ({kinds}); expected one kind that differs in numbers only"
        )
    return tuple(learner), True


def _record(record: Any) -> frozenset[str]:
    names = (record,) if isinstance(record, str) else tuple(record)
    for name in names:
        errors.one_of("record", name, RECORDS)
    return frozenset(names)


def first_decision(problem: Problem, x1: Any) -> jax.Array:
    """The user's first decision, checked, or the centre of the domain."""
    if x1 is None:
        return jnp.asarray(problem.domain.centre, default_float())
    given = errors.finite("x1", x1)
    if given.shape != problem.domain.shape:
        raise ValueError(f"x1: got shape {given.shape}; expected {problem.domain.shape}, that of the domain")
    first = jnp.asarray(x1, given.dtype if np.issubdtype(given.dtype, np.floating) else default_float())
    if not bool(problem.domain.contains(first)):
        raise ValueError("x1: got a point outside the domain; expected one inside")
    return first


_counts: weakref.WeakKeyDictionary[Problem, dict[Any, int]] = weakref.WeakKeyDictionary()


def _count(problem: Problem, x: jax.Array, z: Any) -> int:
    """The number of constraints, after checking that loss and constraints fit the decision and the data."""
    known = _counts.setdefault(problem, {})
    shapes = tuple((leaf.shape, leaf.dtype) for leaf in jax.tree.leaves((x, z)))
    if shapes not in known:
        known[shapes] = _traced_count(problem, x, z)
    return known[shapes]


def _traced_count(problem: Problem, x: jax.Array, z: Any) -> int:
    shape = jax.eval_shape(lambda x, z: jnp.asarray(problem.loss(x, z)), x, z)
    if shape.shape != ():
        raise ValueError(
            f"loss: got an array of shape {shape.shape} for one round's data; expected a scalar (if the stream's leading "
            "axis is the seed, say how many with seeds=...)"
        )
    if not jnp.issubdtype(shape.dtype, jnp.floating):
        raise TypeError(f"loss: got a value of type {shape.dtype}; expected a real number")
    return int(jax.eval_shape(problem.constraints.values, x, z).shape[0])


def _chunk_length(
    example: Any, problem: Problem, source: Stream, learners: int, record: frozenset[str], every: int, chunk: int | None
) -> int:
    if chunk is None:
        numbers = sum(int(np.prod(leaf.shape)) for leaf in jax.tree.leaves(example)) if not source.reacts else 0
        kept = len(record & {"loss", "excess"})
        kept += int(np.prod(problem.domain.shape)) * len(record & {"decisions", "multipliers"}) // every
        bytes_a_round = 8 * source.seeds * (numbers + learners * kept)
        chunk = int(np.clip(CHUNK_BYTES // max(1, bytes_a_round), 256, 16384))
        chunk = 1 << (chunk.bit_length() - 1)
    chunk = errors.count("chunk", chunk)
    return -(-chunk // every) * every  # whole groups, so that every-th rounds never straddle chunks


@contextmanager
def _bar(show: bool, rounds: int, done: int) -> Iterator[Any]:
    if not show:
        yield lambda count: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    with Progress(TextColumn("rounds"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()) as bars:
        bar = bars.add_task("rounds", total=rounds, completed=done)
        yield lambda count: bars.advance(bar, count)
