"""The loop over the rounds of a chunk: initial state, one round, the loop, the result.

A simulation is played in chunks of a fixed length with a traced number of rounds, so that neither
the horizon, nor a parameter, nor the data compile anything again. Nothing here makes rounds faster;
`passes` does, without this file knowing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ..engine import Array, register_dataclass
from ..learners import Learner
from ..learners.advised import AdvisedState
from ..learners.protocols import Shortened, multiplier_of
from .advice import as_told
from .round import Game, GameState, Played, announce, init, reveal

SIDE_BY_SIDE = 1024
"""Numbers of all decisions computed side by side, at most: their intermediate results should stay
in the first cache."""


class Record(NamedTuple):
    """Something that can be recorded of every round."""

    value: Callable[[Played, Any, Any], Any]
    """Computes it from the played round, its data, and the learner's own decision before it was
    moved into the announced constraints."""
    thinned: bool
    """Whether it is recorded in every `every`-th round only."""


RECORDS = {
    "loss": Record(lambda played, z, proposed: played.loss, thinned=False),
    "excess": Record(lambda played, z, proposed: jnp.max(played.excess), thinned=False),
    "decisions": Record(lambda played, z, proposed: played.state.x, thinned=True),
    "multipliers": Record(
        lambda played, z, proposed: multiplier_of(
            played.learner, played.state, played.round
        ).astype(played.state.x.dtype),
        thinned=True,
    ),
    "data": Record(lambda played, z, proposed: z, thinned=False),
    "proposals": Record(lambda played, z, proposed: proposed, thinned=False),
    "own decisions": Record(lambda played, z, proposed: own_decision(played.state), thinned=False),
    "weights": Record(lambda played, z, proposed: played.state.weights, thinned=True),
    "path": Record(lambda played, z, proposed: played.state.x, thinned=False),
}


class Shape(NamedTuple):
    """What is compiled into the loop besides the functions of the game. Hashable."""

    learners: int
    seeds: int
    counts: tuple[int, int]
    """How many constraints are played and how many are scored."""
    length: int
    """The number of rounds for which arrays are laid out."""
    record: tuple[str, ...]
    every: int
    reveal: Callable[..., Any] | None
    """An adversary, or None."""
    advice: Callable[..., Any] | None = None
    """A function that advises, or None."""
    advised: bool = False
    """Whether the data of a round are pairs, of which the second is what advisers say and a
    forecast, each with whether it is known, or None."""

    def rows(self, name: str, rounds: int) -> int:
        """Return in how many of `rounds` rounds something is recorded."""
        return rounds // (self.every if RECORDS[name].thinned else 1)


@register_dataclass
@dataclass(frozen=True)
class Inputs:
    """What stays the same through a simulation."""

    game: Game
    learner: Learner
    """Its parameters have a leading axis `learner`."""
    x1: Any
    start: Any = None
    """The decision before round 1, for problems that depend on it."""
    adversary: Any = None
    """The adversary's state before round 1, if it has one."""


class Span(NamedTuple):
    """Which rounds a chunk plays."""

    begin: Any
    """Rounds before the chunk."""
    rounds: Any
    """Rounds to play, at most the chunk's length."""
    skipped: Any
    """Rounds of the chunk's data before the first that is played."""


Rewrite = Callable[[Callable[..., Any]], Callable[..., Any]]


def play_chunk(
    shape: Shape,
    rewrite: Rewrite,
    inputs: Inputs,
    data: Any,
    keys: jax.Array | None,
    span: Span,
    state: GameState,
) -> tuple[GameState, jax.Array, dict[str, Any]]:
    """Play the rounds of a chunk with all learners and seeds.

    Returns states without totals, the totals of the chunk alone, and records. All of them have the
    leading axes learner and seed.

    Arguments:
        shape: what is compiled.
        rewrite: replaces the function that plays one round by one that computes the same, faster.
        inputs: what stays the same through the simulation.
        data: arrays (seed, round, ...) of the chunk's length; None with an adversary.
        keys: random keys of adversary, feedback and learner, one per seed, or None.
        span: which rounds to play.
        state: the states after the chunk before, without totals. In the first chunk it is not
            looked at.
    """

    first = begin_all(shape, inputs, keys)
    going_on = state._replace(totals=first.totals)
    begun = jax.tree.map(partial(jnp.where, span.begin == 0), first, going_on)
    learners, seeds = (1, 1)
    if inputs.learner.side_by_side:
        learners, seeds = _side_by_side(shape, math.prod(inputs.game.domain.shape))

    def some_learners(swept: bool, learner: Learner, state: GameState) -> Any:
        games = partial(_play_rounds, shape, rewrite, inputs.game, span, swept, learner)
        axes = (int(swept), 0, 0)
        return _in_groups(games, (state, data, keys), axes, shape.seeds, seeds)

    batch = (inputs.learner, begun)
    after, records = _in_groups(some_learners, batch, (0, 0), shape.learners, learners)
    return after._replace(totals=None), after.totals.packed(jnp), records


def begin_all(shape: Shape, inputs: Inputs, keys: jax.Array | None) -> GameState:
    """Return the states before round 1 of all learners and seeds."""

    def begin(learner: Learner, key: Any) -> GameState:
        x1 = jnp.asarray(inputs.x1)
        return init(learner, inputs.game, x1, shape.counts, key, inputs.start, inputs.adversary)

    of_seeds = jax.vmap(begin, (None, None if keys is None else 0), axis_size=shape.seeds)
    return jax.vmap(of_seeds, (0, None), axis_size=shape.learners)(inputs.learner, keys)


def _play_rounds(
    shape: Shape,
    rewrite: Rewrite,
    game: Game,
    span: Span,
    swept: bool,
    learner: Learner,
    seeded: bool,
    state: GameState,
    data: Any,
    key: Any,
) -> tuple[GameState, dict[str, Any]]:
    """Play the rounds of a chunk one after the other.

    Several learners, if `swept`, and several seeds, if `seeded`, are played side by side: states
    and records then have leading axes for them.
    """
    one_round = rewrite(partial(_one_round, shape, game))
    if seeded:
        one_round = jax.vmap(one_round, in_axes=(None, 0, 0, 0))
    if swept:
        one_round = jax.vmap(one_round, in_axes=(0, 0, None, None))
    axis = int(swept) + int(seeded)  # of the rounds in records

    def revealed(i: Any) -> Any:
        at = span.skipped + i
        read = partial(lax.dynamic_index_in_dim, index=at, axis=int(seeded), keepdims=False)
        return jax.tree.map(read, data)

    def goes_on(carry: Any) -> jax.Array:
        i, state, _ = carry
        if isinstance(learner, Shortened):
            return (i < span.rounds) & ~jnp.any(learner.fell_short(state.learner))
        return i < span.rounds

    def body(carry: Any) -> Any:
        i, state, records = carry
        state, row = one_round(learner, state, revealed(i), key)
        for name, record in records.items():
            # A thinned record is overwritten until its last round comes.
            place = i // shape.every if RECORDS[name].thinned else i
            write = partial(lax.dynamic_update_index_in_dim, index=place, axis=axis)
            records[name] = jax.tree.map(write, record, row[name])
        return i + 1, state, records

    row = jax.eval_shape(lambda state: one_round(learner, state, revealed(0), key)[1], state)
    records = {}
    for name, model in row.items():
        rows = shape.rows(name, shape.length)
        records[name] = jax.tree.map(
            lambda leaf, rows=rows: jnp.zeros(
                (*leaf.shape[:axis], rows, *leaf.shape[axis:]), leaf.dtype
            ),
            model,
        )
    start = (jnp.zeros((), jnp.int32), state, records)
    _, state, records = lax.while_loop(goes_on, body, start)
    return state, records


def _one_round(
    shape: Shape, game: Game, learner: Learner, state: GameState, z: Any, key: Any
) -> tuple[GameState, dict[str, Any]]:
    """Play one round of one learner and one seed. Returns the state after it and its records."""
    proposed = own_decision(state.learner) if "proposals" in shape.record else None
    z, (said, predicted) = z if shape.advised else (z, (None, None))
    if shape.advice is not None:
        said = shape.advice(state.t, state.learner.previous)
    told = None
    if said is not None or predicted is not None:
        told = as_told(said, predicted, state.learner.advice)
    state = announce(learner, game, state, z, told)
    if shape.reveal is not None:
        state, z = _ask(shape.reveal, state, key)
    after, played = reveal(learner, game, state, z)
    records = {}
    for name in shape.record:
        records[name] = RECORDS[name].value(played, z, proposed)
    return after, records


def own_decision(state: Any) -> jax.Array:
    """Return the decision of a learner itself, not its mixture with advice."""
    own: jax.Array = (state.base if isinstance(state, AdvisedState) else state).x
    return own


def _ask(reveal: Callable[..., Any], state: GameState, key: jax.Array) -> tuple[GameState, Any]:
    """Return the state with what the adversary remembers, and the data that it chooses, with floats
    in the type of the decision."""
    t, x = state.t, state.x
    key = jax.random.fold_in(key, t)
    if state.adversary is None:
        after, z = None, reveal(t, x, key)
    else:
        after, z = reveal(state.adversary, t, x, key)

    def cast(a: Any) -> jax.Array:
        floating = jnp.issubdtype(jnp.result_type(a), jnp.floating)
        return jnp.asarray(a, x.dtype) if floating else jnp.asarray(a)

    after, z = jax.tree.map(cast, (after, z))
    return state._replace(adversary=after), z


def _side_by_side(shape: Shape, size: int) -> tuple[int, int]:
    """Return how many learners and seeds, with decisions of this size, to play side by side."""
    room = SIDE_BY_SIDE // size
    seeds = _divisor(shape.seeds, room)
    return _divisor(shape.learners, room // shape.seeds) if seeds == shape.seeds else 1, seeds


def _divisor(count: int, most: int) -> int:
    """Return the largest divisor of `count` that is at most `most`, or 1."""
    return next(k for k in range(max(1, min(count, most)), 0, -1) if count % k == 0)


def _in_groups(
    function: Callable[..., Any],
    batch: tuple[Any, ...],
    axes: tuple[int, ...],
    count: int,
    group: int,
) -> Any:
    """Apply a function to all entries of an axis of its arguments, `group` of them at a time.

    Arguments:
        function: its first argument says whether the others have the axis, or are single entries.
        batch: the other arguments.
        axes: where each argument has the axis. Results have it where the first argument does.
        count: the length of the axis. If it is neither 1 nor `group`, all axes are 0.
        group: a divisor of it.
    """
    if count == 1:
        entries = []
        for axis, tree in zip(axes, batch, strict=True):
            entries.append(jax.tree.map(partial(lax.squeeze, dimensions=(axis,)), tree))
        results = function(False, *entries)
        return jax.tree.map(lambda a: lax.expand_dims(a, (min(axes[0], a.ndim),)), results)
    if group == count:
        return function(True, *batch)
    if group == 1:
        return lax.map(lambda entry: function(False, *entry), batch)
    split = jax.tree.map(lambda a: a.reshape(count // group, group, *a.shape[1:]), batch)
    results = lax.map(lambda entries: function(True, *entries), split)
    return jax.tree.map(lambda a: a.reshape(count, *a.shape[2:]), results)


ROUND_AXIS = 2


class KeptRecords:
    """The records of the chunks played so far."""

    def __init__(self, shape: Shape, horizon: int) -> None:
        self.shape, self.horizon = shape, horizon
        self.records: dict[str, Array] = {}
        """Arrays for all rounds; the rounds after the chunks played so far are undefined."""

    def add(self, records: Mapping[str, Array], begun: int, done: int) -> None:
        """Copy the records of rounds begun..done to their place, so that the memory of the chunk
        can be used again."""
        if not begun and done == self.horizon:
            self.records = dict(records)
            return
        for name, array in records.items():
            if name not in self.records:
                shape = (
                    *array.shape[:ROUND_AXIS],
                    self.shape.rows(name, self.horizon),
                    *array.shape[ROUND_AXIS + 1 :],
                )
                self.records[name] = np.empty(shape, array.dtype)
            start = self.shape.rows(name, begun)
            self.records[name][:, :, start : start + array.shape[ROUND_AXIS]] = array
