"""The compiled steps of a player: a round is revealed or measured, announced constraints are
enforced, or another decision takes the place of the learner's.

Parameters are packed into one vector, once. The state is another vector, whose first entries (the
header) hold all that the player reads: each further array would cost as much as the step.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from ..learners import Learner
from ..learners.half_space.announced import relative_violation
from ..learners.protocols import LateRounds, moved
from ..play.advice import as_told
from ..play.compile import Executables
from ..play.round import (
    FAULTS,
    Game,
    GameState,
    Played,
    announce,
    announced_round,
    fault,
    faults_of,
    floats_of,
    play_round,
    reveal,
)
from ..problem.problem import Problem
from ..problem.rounds import MeasuredRound, Round
from .extremes import COLUMNS, NAMES, round_extremes
from .layout import Layout

__all__ = [
    "FAULTY",
    "REFUTED",
    "VIOLATED",
    "Steps",
    "header",
    "heeded_step",
    "late_step",
    "measured_step",
    "moved_step",
    "revealed_step",
    "skipped_step",
]

FAULTY = 2 ** len(FAULTS)
"""Flags below this are those of numbers that are not finite."""
REFUTED, VIOLATED = FAULTY, 2 * FAULTY
"""Flags of a round that exceeds a stated constant, or the tolerated violation."""


class Steps:
    """The compiled steps of one player. Each is compiled when it is first taken.

    Arguments:
        problem: what is played; it owns the compiled functions.
        learner: as it is played.
        layout: how arrays are packed.
        fixed: game and learner, packed.
    """

    def __init__(
        self, problem: Problem, learner: Learner, layout: Layout, fixed: tuple[Any, ...]
    ) -> None:
        self._executables, self._fixed = Executables(problem, layout), fixed

    def fix(self, fixed: tuple[Any, ...]) -> None:
        """Replace what is packed as game, learner and thresholds."""
        self._fixed = fixed

    def take(self, step: Callable[..., Any], state: tuple[Any, ...], *given: Any) -> Any:
        """Return the packed state after a step from a packed state."""
        # Announced data may be other ones in every round, and so may data after a refused round.
        passed = (*self._fixed, *state, *given)
        return self._executables.call(_rewritten, step, passed, given)


def _rewritten(
    static: tuple[Callable[..., Any], Layout], rewrite: Callable[..., Any], *arrays: Any
) -> Any:
    step, layout = static
    return rewrite(partial(step, layout))(*arrays)


def _opened(layout: Layout, arrays: Any) -> tuple[Game, Learner, jax.Array, GameState]:
    """Return game, learner, what the extremes of a round are compared with, and the state."""
    count = layout.fixed.count
    game, learner, stated = layout.fixed.unpack(tuple(arrays[:count]))
    state, previous = layout.unpack(arrays[count:])
    nothing = jnp.asarray(0, jnp.int32)
    return game, learner, stated, GameState(state, None, nothing, nothing, previous)


def header(
    faults: Any, loss: Any, excess: jax.Array, decision: jax.Array, extremes: Any = None
) -> jax.Array:
    """Return the first entries of the state vector: error flags, loss, constraint values, next
    decision, extremes."""
    extremes = jnp.zeros(len(COLUMNS), decision.dtype) if extremes is None else extremes
    start = jnp.stack([jnp.asarray(number, decision.dtype) for number in (faults, loss)])
    return jnp.concatenate([start, excess, decision.ravel(), extremes])


def revealed_step(layout: Layout, *arrays: Any) -> tuple[jax.Array, ...]:
    """(*fixed, *state, z) -> *state: play a round whose data are revealed."""
    *given, z = arrays
    game, learner, stated, state = _opened(layout, given)
    after, played = reveal(learner, game, state, z)
    return _packed(layout, stated, game, after, played, after.faults)


def measured_step(layout: Layout, *arrays: Any) -> tuple[jax.Array, ...]:
    """(*fixed, *state, loss, gradient, excess, jacobian) -> *state: play a round of which
    measurements are known."""
    *given, loss, gradient, excess, jacobian = arrays
    game, learner, stated, state = _opened(layout, given)
    round = MeasuredRound(loss, gradient, excess, jacobian, game.domain)
    played, learned = play_round(learner, state.learner, round, round)
    after = state._replace(
        learner=learned, previous=None if state.previous is None else played.state.x
    )
    faults = fault("constraints", excess) | fault("next decision", after.x)
    return _packed(layout, stated, game, after, played, faults)


def late_step(layout: Layout, *arrays: Any) -> tuple[jax.Array, ...]:
    """(*fixed, *state, z, tag, x, previous) -> *state: a round arrives that was skipped, in which
    `x` was played after `previous`. The decision of the present round stays."""
    *given, z, tag, x, previous = arrays
    game, learner, stated, state = _opened(layout, given)
    assert isinstance(learner, LateRounds)  # others were refused before
    round = game.played_round(z, previous)
    scored = game.scored_round(z, previous) or round
    after = state._replace(learner=learner.arrived(state.learner, round, tag))
    loss, excess = scored.loss(x), scored.constraints(x).values
    played = Played(learner, round, state.learner._replace(x=x), loss, excess)
    # The decision of the present round does not show a gradient that is not finite.
    unusable = [jnp.where(jnp.isnan(leaf), leaf, 0) for leaf in floats_of(after.learner)]
    faults = faults_of(z, loss, excess, after.x) | fault("next decision", *unusable)
    return _packed(layout, stated, game, after, played, faults)


def skipped_step(layout: Layout, *arrays: Any) -> tuple[jax.Array, ...]:
    """(*fixed, *state, lost) -> *state: nothing is known of the round. The header has the tag of
    the round, for a learner to which it may come late; `lost` is the tag of a round that it no
    longer waits for, -1 for none."""
    *given, lost = arrays
    _, learner, _, state = _opened(layout, given)
    inner, tag = state.learner, jnp.zeros((), jnp.int32)
    if isinstance(learner, LateRounds):
        inner, tag = learner.send(inner)
        inner = learner.advance(learner.give_up(inner, lost))
    previous = None if state.previous is None else state.x
    return _unplayed(layout, state._replace(learner=inner, previous=previous), tag)


def _packed(
    layout: Layout,
    stated: jax.Array,
    game: Game,
    after: GameState,
    played: Played,
    faults: jax.Array,
) -> tuple[jax.Array, ...]:
    """Return the packed state after a round, with all that the player reads in its header."""
    round: Round = played.round
    x = played.state.x
    gradient = round.gradient(x)
    centre = jnp.asarray(game.domain.centre, x.dtype)
    extremes = round_extremes(round, x, played.loss, gradient, centre)
    refuted = jnp.any(extremes[: len(NAMES)] > stated[: len(NAMES)])
    violated = jnp.max(played.excess) > stated[len(NAMES)]
    bits = faults % FAULTY | fault("loss gradient", gradient)
    bits = bits | jnp.where(refuted, REFUTED, 0) | jnp.where(violated, VIOLATED, 0)
    read = header(bits, played.loss, played.excess, after.x, extremes)
    return layout.pack((after.learner, after.previous), read)


def heeded_step(layout: Layout, *arrays: Any) -> tuple[jax.Array, ...]:
    """(*fixed, *state, z, said, predicted) -> *state: take advice and a forecast, as `as_told` does
    it, and enforce announced constraints. The header has their largest relative violation."""
    *given, z, said, predicted = arrays
    game, learner, _, state = _opened(layout, given)
    told = None
    if said is not None or predicted is not None:
        told = as_told(said, predicted, state.learner.advice)
    after = announce(learner, game, state, z, told)
    if game.announced is None:
        return _unplayed(layout, after)
    return _unplayed(layout, after, relative_violation(after.x, announced_round(game, state, z)))


def moved_step(layout: Layout, *arrays: Any) -> tuple[jax.Array, ...]:
    """(*fixed, *state, x) -> *state: put another decision in the place of the learner's."""
    *given, x = arrays
    _, learner, _, state = _opened(layout, given)
    return _unplayed(layout, state._replace(learner=moved(learner, state.learner, x)))


def _unplayed(layout: Layout, state: GameState, tag: Any = 0) -> tuple[jax.Array, ...]:
    """Return the packed state of a round that was not played yet; the number `tag` is in the place
    of the loss."""
    nothing = jnp.zeros(layout.header - 2 - state.x.size - len(COLUMNS), state.x.dtype)
    read = header(state.faults % FAULTY, tag, nothing, state.x)
    return layout.pack((state.learner, state.previous), read)
