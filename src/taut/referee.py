"""The referee: asks for the decision, scores it, then reveals the round. One compiled function for all horizons.

A game is played in chunks of a fixed length with a traced number of rounds, so that neither the horizon, nor a
parameter, nor the data ever recompiles anything. Totals are kept as the game goes; per-round records are optional.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from .constraints import Constraints, Linearisation
from .domains import Domain
from .learners import Learner
from .rounds import FullInformation

__all__ = ["Board", "Records", "Rules", "Score", "Shown", "Sum", "begin", "play"]


class Rules(NamedTuple):
    """What is compiled into the game: functions, what to record, shapes of batches. Hashable."""

    loss: Callable[[jax.Array, Any], Any]
    scored_loss: Callable[[jax.Array, Any], Any]
    reveal: Callable[[jax.Array, jax.Array, jax.Array], Any] | None
    record: frozenset[str]
    every: int
    length: int
    swept: bool
    seeded: bool


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
        return Linearisation(values, lambda weights: _spoilt(pull(weights)), push)


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
    """Totals so far. Those of each constraint, and those of the largest, which are not sums of them."""

    loss: Sum
    excess: Sum
    violation: Sum
    squared: Sum
    peak: jax.Array
    worst_excess: Sum
    worst_violation: Sum
    worst_squared: Sum


class Board(NamedTuple):
    """Everything that the next chunk needs."""

    state: Any
    score: Score


class Records(NamedTuple):
    """Per-round records of one chunk; `None` where not asked for."""

    loss: jax.Array | None
    excess: jax.Array | None
    decisions: jax.Array | None
    multipliers: jax.Array | None


@partial(jax.jit, static_argnums=(0, 3, 4))
def begin(rules: Rules, learner: Learner, x1: jax.Array, count: int, scored: int) -> Board:
    """The board before round 1; batched like the game."""

    def one(learner: Learner, x1: jax.Array) -> Board:
        dtype = x1.dtype

        def nothing(*shape: int) -> Sum:
            return Sum(jnp.zeros(shape, dtype), None if dtype.itemsize >= 8 else jnp.zeros(shape, dtype))

        score = Score(
            nothing(), nothing(scored), nothing(scored), nothing(scored), jnp.zeros((scored,), dtype),
            nothing(), nothing(), nothing(),
        )  # fmt: skip
        return Board(learner.init(x1, count), score)

    if rules.seeded:
        one = jax.vmap(one, in_axes=(None, 0))
    if rules.swept:
        one = jax.vmap(one, in_axes=(0, None))
    return one(learner, x1)


@partial(jax.jit, static_argnums=0)
def play(
    rules: Rules,
    constraints: Constraints,
    scored_constraints: Constraints | None,
    domain: Domain,
    learner: Learner,
    board: Board,
    data: Any,
    key: jax.Array | None,
    start: jax.Array,
    rounds: jax.Array,
) -> tuple[Board, Records, jax.Array]:
    """Play `rounds` rounds of a chunk; also says whether every number stayed finite."""
    one = partial(_play_one, rules, constraints, scored_constraints, domain, start=start, rounds=rounds)
    if rules.seeded:
        one = jax.vmap(one, in_axes=(None, 0, 0, 0))
    if rules.swept:
        one = jax.vmap(one, in_axes=(0, 0, None, None))
    board, records, finite = one(learner, board, data, key)
    floating = (leaf for leaf in jax.tree.leaves(data) if jnp.issubdtype(leaf.dtype, jnp.floating))
    return board, records, jnp.all(finite) & all_finite(*floating)


def _play_one(
    rules: Rules,
    constraints: Constraints,
    scored_constraints: Constraints | None,
    domain: Domain,
    learner: Learner,
    board: Board,
    data: Any,
    key: jax.Array | None,
    *,
    start: jax.Array,
    rounds: jax.Array,
) -> tuple[Board, Records, jax.Array]:
    x1 = board.state.x
    count = board.score.peak.shape[0]

    def buffer(name: str, rows: int, *shape: int) -> jax.Array | None:
        return jnp.zeros((rows, *shape), x1.dtype) if name in rules.record else None

    kept = -(-rules.length // rules.every)
    played = jax.eval_shape(
        lambda s, z: learner.multiplier(s, Shown(rules.loss, constraints, domain, z)),
        board.state,
        _data_of(rules, data, key, jnp.asarray(0), start, x1),
    )
    records = Records(
        buffer("loss", rules.length),
        buffer("excess", rules.length),
        buffer("decisions", kept, *x1.shape),
        buffer("multipliers", kept, *played.shape),
    )

    def one_round(i: jax.Array, carry: tuple[Board, Records]) -> tuple[Board, Records]:
        (state, score), records = carry
        x = state.x
        z = _data_of(rules, data, key, i, start, x)
        round = Shown(rules.loss, constraints, domain, z)
        scored = round if scored_constraints is None else Shown(rules.scored_loss, scored_constraints, domain, z)
        loss, excess = scored.loss(x), scored.constraints(x).values
        worst = jnp.max(excess)
        records = Records(
            _put(records.loss, i, loss),
            _put(records.excess, i, worst),
            _put(records.decisions, i // rules.every, x),
            None
            if records.multipliers is None
            else _put(records.multipliers, i // rules.every, learner.multiplier(state, round)),
        )
        return Board(learner.step(state, round), _scored(score, loss, excess, worst, count)), records

    board, records = lax.fori_loop(jnp.zeros_like(rounds), rounds, one_round, (board, records))
    score = board.score
    return board, records, all_finite(board.state.x, score.loss.value, score.excess.value, score.squared.value)


def all_finite(*arrays: jax.Array) -> jax.Array:
    """Whether every number is finite."""
    return jnp.all(jnp.stack([jnp.all(jnp.isfinite(a)) for a in arrays])) if arrays else jnp.asarray(True)


def _data_of(rules: Rules, data: Any, key: jax.Array | None, i: jax.Array, start: jax.Array, x: jax.Array) -> Any:
    """z_t, from the chunk's arrays or from the adversary."""
    if rules.reveal is None:
        return jax.tree.map(lambda a: lax.dynamic_index_in_dim(a, i, keepdims=False), data)
    t = (start + i + 1).astype(jnp.int32)
    assert key is not None
    z = rules.reveal(t, x, jax.random.fold_in(key, t))
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


def _put(buffer: jax.Array | None, i: jax.Array, value: jax.Array) -> jax.Array | None:
    return None if buffer is None else lax.dynamic_update_index_in_dim(buffer, value.astype(buffer.dtype), i, 0)
