"""The referee: asks for the decision, scores it, then reveals the round. One compiled function for all horizons.

A game is played in chunks of a fixed length with a traced number of rounds, so that neither the horizon, nor a
parameter, nor the data ever recompiles anything. Totals are kept as the game goes; per-round records are optional.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from ..engine import COMPILER_OPTIONS
from ..learners import Learner
from ..problem.constraints import Constraints, Linearisation
from ..problem.domains import Domain
from ..problem.rounds import FullInformation
from .packing import Parcel
from .xla import lowered, once

__all__ = ["Board", "Fixed", "Layout", "Records", "Rules", "Score", "Shown", "Sum", "begin", "play"]


LANES = 4
"""Numbers in a vector register."""
SIDE_BY_SIDE = 1024
"""Numbers of all decisions played side by side, at most: their intermediate results should stay in the first cache."""


class Layout(NamedTuple):
    """Who plays: how many learners and seeds side by side (0: without an axis), and how many constraints are played and
    how many scored. Hashable."""

    fixed: Parcel
    """How `Fixed` travels."""
    learners: int
    seeds: int
    played: int
    scored: int

    @property
    def lead(self) -> int:
        """Number of leading axes."""
        return (self.learners > 0) + (self.seeds > 0)


class Rules(NamedTuple):
    """What is compiled into the game: functions, what to record, who plays. Hashable."""

    loss: Callable[[jax.Array, Any], Any]
    scored_loss: Callable[[jax.Array, Any], Any]
    reveal: Callable[[jax.Array, jax.Array, jax.Array], Any] | None
    record: frozenset[str]
    every: int
    length: int
    layout: Layout
    state: Parcel
    """How the learner's state travels."""
    score: Parcel
    """How the totals travel."""

    @property
    def head(self) -> int:
        """Numbers before the state when it comes back from a chunk: whether all is finite, and the chunk's totals."""
        return 1 + self.score.size


class Fixed(NamedTuple):
    """What stays the same through a game. The learner's numbers have a leading axis if several are swept."""

    constraints: Constraints
    scored: Constraints | None
    domain: Domain
    learner: Learner
    x1: Any


class Shown(FullInformation):
    """A round as the referee shows it: slopes that are not finite become NaN, which no projection can hide.

    An infinite one would be clipped away by a box, say, and the game would go on as if nothing had happened.
    """

    def gradient(self, x: jax.Array) -> jax.Array:
        """A subgradient of f_t at x."""
        return _spoilt(super().gradient(x))

    def constraints(self, x: jax.Array) -> Linearisation:
        """g_t(x) with its Jacobian products."""
        values, pull, push = super().constraints(x)
        return Linearisation(once(values), lambda weights: _spoilt(pull(weights)), push)

    def project(self, x: jax.Array) -> jax.Array:
        """The nearest point of the domain B."""
        return super().project(once(x))  # its length and its projection both need it


def _spoilt(slope: jax.Array) -> jax.Array:
    return slope + 0 * slope


class Sum(NamedTuple):
    """A running sum; in 32 bits with the rounding error carried along, so that 1e7 rounds keep their digits."""

    value: jax.Array
    error: jax.Array | None

    def add(self, term: jax.Array) -> Sum:
        """The sum with one more term (Knuth's two-sum where it is compensated)."""
        total = self.value + term
        if self.error is None:
            return Sum(total, None)
        virtual = total - self.value
        error = self.error + ((self.value - (total - virtual)) + (term - virtual))
        folded = total + error  # or the error itself would grow until it loses what is carried into it
        return Sum(folded, error - (folded - total))


class Score(NamedTuple):
    """Totals of a chunk. Those of each constraint, and those of the largest, which are not sums of them."""

    loss: Sum
    excess: Sum
    violation: Sum
    squared: Sum
    peak: jax.Array
    worst_excess: Sum
    worst_violation: Sum
    worst_squared: Sum


class Board(NamedTuple):
    """What a round changes: the learner's state, and the totals."""

    state: Any
    score: Any


class Records(NamedTuple):
    """Per-round records of one chunk; `None` where not asked for."""

    loss: jax.Array | None
    excess: jax.Array | None
    decisions: jax.Array | None
    multipliers: jax.Array | None


def begin(layout: Layout, learner: Learner, x1: jax.Array) -> Board:
    """The board before round 1, or with a given state before any chunk; batched like the game."""

    def one(learner: Learner, x1: jax.Array) -> Board:
        dtype, scored = x1.dtype, layout.scored

        def nothing(*shape: int) -> Sum:
            return Sum(jnp.zeros(shape, dtype), None if dtype.itemsize >= 8 else jnp.zeros(shape, dtype))

        score = Score(
            nothing(), nothing(scored), nothing(scored), nothing(scored), jnp.zeros((scored,), dtype),
            nothing(), nothing(), nothing(),
        )  # fmt: skip
        return Board(learner.init(x1, layout.played), score)

    if layout.seeds:
        one = jax.vmap(one, in_axes=(None, None), axis_size=layout.seeds)
    if layout.learners:
        one = jax.vmap(one, in_axes=(0, None))
    return one(learner, x1)


@partial(jax.jit, static_argnums=0, compiler_options=COMPILER_OPTIONS)
def play(
    rules: Rules, fixed: tuple[Any, ...], state: tuple[Any, ...], data: Any, key: jax.Array | None, span: jax.Array
) -> tuple[tuple[jax.Array, ...], Records]:
    """Play the rounds of a chunk: the state after it, with a head, and what is recorded of it.

    The `span` has three whole numbers: how many rounds were played before, how many to play, and how many of the chunk's
    to skip. Before round 1 the state is made here, and what came as one is not looked at.
    """
    start, rounds, skipped = span
    layout = rules.layout
    constraints, scored_constraints, domain, learner, x1 = layout.fixed.unwrap(fixed)
    first = begin(layout, learner, x1)
    given = rules.state.unwrap(state, rules.head)
    before = first._replace(state=jax.tree.map(partial(jnp.where, start == 0), first.state, given))
    learners, seeds = max(1, layout.learners), max(1, layout.seeds)
    room = SIDE_BY_SIDE // math.prod(domain.shape)
    seed_group = _divisor(seeds, room)
    learner_group = _divisor(learners, room // seeds) if seed_group == seeds else 1
    one_round = partial(_round, rules, constraints, scored_constraints, domain, start)

    def some_learners(learner: Learner, board: Board, swept: bool) -> Any:
        def some_seeds(board: Board, data: Any, key: Any, seeded: bool) -> Any:
            return _chunk(rules, one_round, learner, board, data, key, rounds, skipped, swept, seeded)

        return _in_groups(some_seeds, (board, data, key), seeds, seed_group, layout.seeds > 0)

    after, records, finite = _in_groups(some_learners, (learner, before), learners, learner_group, layout.learners > 0)
    (totals,) = rules.score.wrap(after.score, jnp.all(finite).astype(layout.fixed.floating)[None])
    return rules.state.wrap(after.state, totals), records


def _divisor(count: int, most: int) -> int:
    """The largest divisor of `count` that is at most `most`, or 1."""
    return next(k for k in range(max(1, min(count, most)), 0, -1) if count % k == 0)


def _in_groups(function: Callable[..., Any], batch: tuple[Any, ...], count: int, group: int, batched: bool) -> Any:
    """`function(*batch, batched)` for `group` entries of the leading axis at a time; a single one comes without it."""
    if not batched:
        return function(*batch, False)
    if group == count > 1:
        return function(*batch, True)
    if group == 1:
        return lax.map(lambda one: function(*one, False), batch)
    split = jax.tree.map(lambda a: a.reshape(count // group, group, *a.shape[1:]), batch)
    out = lax.map(lambda some: function(*some, True), split)
    return jax.tree.map(lambda a: a.reshape(count, *a.shape[2:]) if a.ndim > 1 else a, out)


def _chunk(
    rules: Rules, one_round: Callable[..., Any], learner: Learner, board: Board, data: Any, key: Any, rounds: jax.Array,
    skipped: jax.Array, swept: bool, seeded: bool,
) -> tuple[Board, Records, jax.Array]:  # fmt: skip
    """The rounds of a chunk one after the other, all plays side by side in each."""
    lead = int(swept) + int(seeded)
    x = board.state.x
    spare = _spare(x.shape[lead - 1], math.prod(x.shape[lead:])) if seeded and key is None else 0
    play_round = lowered(one_round)
    if seeded:
        play_round = jax.vmap(play_round, (None, 0, 0, 0, None))
    if swept:
        play_round = jax.vmap(play_round, (0, 0, None, None, None))

    def revealed(i: jax.Array) -> Any:
        now = jax.tree.map(lambda a: lax.dynamic_index_in_dim(a, skipped + i, int(seeded), keepdims=False), data)
        return _longer(now, 0, spare)

    def buffer(like: Any, length: int, number: int) -> Any:
        # Zeros that XLA cannot know to be alike: it would make one array of them and copy it for each record.
        zero = jnp.where(rounds < -number, 1, 0)
        return like if like is None else jnp.full((*like.shape[:lead], length, *like.shape[lead:]), zero, like.dtype)

    def put(buffer: Any, value: Any, i: jax.Array) -> Any:
        return buffer if buffer is None else lax.dynamic_update_index_in_dim(buffer, value, i, lead)

    def following(i: jax.Array, carry: tuple[Board, Records, Any]) -> tuple[Board, Records, Any]:
        (board, row), marked = play_round(learner, carry[0], revealed(i), key, i)
        kept = i // rules.every
        row = _longer(row, lead - 1, -spare)
        return board, Records(*map(put, carry[1], row, (i, i, kept, kept))), marked

    none = jnp.zeros_like(rounds)
    board = _longer(board, lead - 1, spare)
    (_, row), marked = jax.eval_shape(lambda: play_round(learner, board, revealed(none), key, none))
    row = jax.eval_shape(lambda: _longer(row, lead - 1, -spare))
    kept = -(-rules.length // rules.every)
    lengths = (rules.length, rules.length, kept, kept)
    records = Records(*map(buffer, row, lengths, range(1, 5)))
    blank = [jnp.zeros(one.shape, one.dtype) for one in marked]
    board, records, marked = lax.fori_loop(none, rounds, following, (board, records, blank))
    board, marked = _longer((board, marked), lead - 1, -spare)
    score = board.score
    finite = all_finite(board.state.x, score.loss.value, score.excess.value, score.squared.value, *marked)
    return board, records, finite


def _spare(seeds: int, size: int) -> int:
    """Seeds to play in vain so that numbers side by side fill whole vector registers, which makes the others faster.

    Loops over a few numbers that leave a rest are compiled into scalar instructions: 10 seeds of 3 numbers take longer
    than 12. With more numbers, or more than two seeds to add, it does not pay.
    """
    spare = -seeds % LANES
    return spare if spare <= 2 and LANES < seeds <= 32 and size < 8 and seeds * size % LANES else 0


def _longer(tree: Any, axis: int, by: int) -> Any:
    """All arrays with an axis longer by so many entries, which repeat the first ones, or shorter by so many.

    What is played in vain is thus a game that is played anyway: no other numbers could make a user's loop endless, or NaN.
    """

    def one(a: jax.Array) -> jax.Array:
        if by < 0:
            return lax.slice_in_dim(a, 0, a.shape[axis] + by, axis=axis)
        return lax.concatenate([a, lax.slice_in_dim(a, 0, by, axis=axis)], axis)

    return jax.tree.map(one, tree) if by else tree


def _round(
    rules: Rules, constraints: Constraints, scored_constraints: Constraints | None, domain: Domain, start: jax.Array,
    learner: Learner, board: Board, data: Any, key: Any, i: jax.Array,
) -> tuple[Board, Records]:  # fmt: skip
    """One round of one play: the board after it, and what to record of it."""
    (state, score), x = board, board.state.x
    z = data if rules.reveal is None else _answer(rules.reveal, (start + i + 1).astype(jnp.int32), x, key)
    round = Shown(rules.loss, constraints, domain, z)
    scored = round if scored_constraints is None else Shown(rules.scored_loss, scored_constraints, domain, z)
    after, hidden = _shown(learner.step(state, round), z)
    loss, excess = scored.loss(x) + _spoil(hidden, x.dtype), scored.constraints(x).values
    worst = jnp.max(excess)
    row = Records(
        loss if "loss" in rules.record else None,
        worst if "excess" in rules.record else None,
        x if "decisions" in rules.record else None,
        learner.multiplier(state, round).astype(x.dtype) if "multipliers" in rules.record else None,
    )
    return Board(after, _scored(score, loss, excess, worst, excess.shape[0])), row


def _shown(state: Any, z: Any) -> tuple[Any, list[jax.Array]]:
    """The state with NaN where data of the decision's shape are not finite, and the floats among the data that remain.

    Neither loss nor slopes need show that data are not finite (a maximum may hide it), so every number of them is added,
    times 0: to the decision where that takes no sum over it, which would cost as much as the loss itself.
    """
    floating = [leaf for leaf in jax.tree.leaves(z) if jnp.issubdtype(leaf.dtype, jnp.floating)]
    leaves, structure = jax.tree.flatten(state)
    if sum(leaf is state.x for leaf in leaves) != 1:
        return state, floating
    alike = [leaf for leaf in floating if leaf.shape == state.x.shape]
    marked = sum((0 * leaf.astype(state.x.dtype) for leaf in alike), state.x)
    rest = [leaf for leaf in floating if leaf.shape != state.x.shape]
    return jax.tree.unflatten(structure, [marked if leaf is state.x else leaf for leaf in leaves]), rest


def _spoil(floating: list[jax.Array], dtype: Any) -> jax.Array:
    """0, or NaN if a number is not finite."""
    return sum((jnp.sum(0 * leaf).astype(dtype) for leaf in floating), jnp.zeros((), dtype))


def all_finite(*arrays: jax.Array) -> jax.Array:
    """Whether every number is finite."""
    return jnp.all(jnp.stack([jnp.all(jnp.isfinite(a)) for a in arrays])) if arrays else jnp.asarray(True)


def _answer(reveal: Callable[..., Any], t: jax.Array, x: jax.Array, key: jax.Array) -> Any:
    """z_t as the adversary makes it, floats in the game's type."""
    z = reveal(t, x, jax.random.fold_in(key, t))
    return jax.tree.map(
        lambda a: jnp.asarray(a, x.dtype) if jnp.issubdtype(jnp.result_type(a), jnp.floating) else jnp.asarray(a), z
    )


def _scored(score: Score, loss: jax.Array, excess: jax.Array, worst: jax.Array, count: int) -> Score:
    violation = jnp.maximum(excess, 0)
    clipped = jnp.maximum(worst, 0)
    single = count == 1  # then the largest is the only one, and its totals are kept once
    return Score(
        score.loss.add(loss),
        score.excess.add(excess),
        score.violation.add(violation),
        score.squared.add(violation * violation),
        jnp.maximum(score.peak, violation),
        score.worst_excess if single else score.worst_excess.add(worst),
        score.worst_violation if single else score.worst_violation.add(clipped),
        score.worst_squared if single else score.worst_squared.add(clipped * clipped),
    )
