"""The state of a player, and what happens to it: a round is revealed or measured, comes late or is
skipped, announced constraints and advice are taken, another decision is put in place.

Each of these is a pure function, which players and fleets compile. Parameters are packed into one
vector, once. The state is another vector, behind a header with all that a player reads after a
round: each further array would cost as much as the step.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ..engine import Array
from ..learners import Learner
from ..learners.clipping import clip_of
from ..learners.half_space.announced import relative_violation
from ..learners.protocols import LateRounds, Shortened, moved
from ..play import round as rounds
from ..play.advice import as_told
from ..play.compile import Executables
from ..play.packing import Packing
from ..play.round import BITS, Game, GameState, Played, fault, floats_of
from ..problem.problem import Problem
from ..problem.rounds import MeasuredRound
from ..runs.totals import round_terms
from .extremes import COLUMNS, NAMES, Seen, round_extremes

FAULTY = 2**BITS
"""Flags below this are those of numbers that are not finite."""
REFUTED, VIOLATED, SHORT = FAULTY, 2 * FAULTY, 4 * FAULTY
"""Flags of a round that exceeds a stated constant or the tolerated violation, and of one that has
to be played again with all parts of the learner."""


class PlayerState(NamedTuple):
    """All that changes from round to round in a player, or in a member of a fleet."""

    x: jax.Array
    """The decision to play."""
    game: GameState
    """Its round counts observed rounds only."""
    seen: Seen
    skipped: jax.Array
    """The number of rounds that are over and that totals do not contain."""


class Outcome(NamedTuple):
    """What a step tells: the header of the state after it."""

    flags: Any
    loss: Any
    """The loss, or the number that a step without a loss tells."""
    excess: jax.Array
    x: jax.Array
    """The decision that was played."""
    extremes: jax.Array
    """As `round_extremes` returns them."""


Step = Callable[..., tuple[PlayerState, Outcome]]
"""(learner, game, stated, state, *given) -> the state afterwards, and what happened. `stated` is
what the extremes of a round are compared with, or None."""


class Layout(NamedTuple):
    """How a state is packed, and what its steps are compiled for. Hashable."""

    fixed: Packing
    """Of game, learner, and what the extremes of a round are compared with."""
    state: Packing
    header: int
    """Entries of the first array before the packed state."""

    def unpack(self, arrays: Any) -> PlayerState:
        """Return the state in packed arrays."""
        state: PlayerState = self.state.unpack(tuple(arrays), self.header)
        return state


class Steps:
    """The compiled steps of one player. Each is compiled when it is first taken.

    A learner with a part that is slow to compile and seldom needed plays without it first. A round
    that needs the part is played again with all parts.

    Arguments:
        problem: what is played; it owns the compiled functions.
        layout: how arrays are packed, with the learner as it is played first.
        whole: the same with all parts of the learner.
        fixed: game, learner and thresholds, packed.
    """

    def __init__(
        self, problem: Problem, layout: Layout, whole: Layout, fixed: tuple[Any, ...]
    ) -> None:
        self._first, self._whole = Executables(problem, layout), Executables(problem, whole)
        self.fixed = fixed

    def take(self, step: Step, state: tuple[Any, ...], *given: Any) -> tuple[Any, Array]:
        """Return the packed state after a step from a packed state, and its first array in NumPy,
        with the header."""
        passed = (self.fixed, state, given)
        arrays = self._first.call(_of_player, step, passed, given)
        report = np.asarray(arrays[0])  # all that is read in one array: each transfer costs time
        if report[0] >= SHORT:
            arrays = self._whole.call(_of_player, step, passed, given)
            report = np.asarray(arrays[0])
        return arrays, report


def _of_player(
    static: tuple[Step, Layout], rewrite: Callable[..., Any], fixed: Any, state: Any, given: Any
) -> Any:
    return rewrite(partial(_packed, *static))(fixed, state, given)


def _packed(step: Step, layout: Layout, fixed: Any, state: Any, given: Any) -> tuple[Any, ...]:
    """Take a step from packed arrays to packed arrays."""
    after, told = taken(step, layout, fixed, state, given)
    flags, loss = (jnp.asarray(number, after.x.dtype)[None] for number in told[:2])
    header = jnp.concatenate([flags, loss, told.excess, told.x.ravel(), told.extremes])
    return layout.state.pack_traced(after, header)


def taken(
    step: Step, layout: Layout, fixed: Any, state: Any, given: Any
) -> tuple[PlayerState, Outcome]:
    """Take a step from packed arrays."""
    game, learner, stated = layout.fixed.unpack(tuple(fixed))
    return step(learner, game, stated, layout.unpack(state), *given)


def begun(game: GameState) -> PlayerState:
    """Return the state before the first round."""
    x = jnp.asarray(game.x)
    return PlayerState(x, game, Seen.nothing(x), jnp.asarray(0, jnp.int32))


def revealed(
    learner: Learner, game: Game, stated: Any, state: PlayerState, z: Any
) -> tuple[PlayerState, Outcome]:
    """Play a round whose data are revealed. Announced constraints were enforced before."""
    after, played = rounds.reveal(learner, game, state.game, z)
    round = state.game.t + state.skipped
    return _scored(learner, game, stated, state, after, played, after.faults, round)


def measured(
    learner: Learner, game: Game, stated: Any, state: PlayerState, *measurements: Any
) -> tuple[PlayerState, Outcome]:
    """Play a round of which loss, gradient, excess and Jacobian were measured. The loss may be
    NaN."""
    loss, slope, excess, jacobian = measurements
    round = MeasuredRound(loss, slope, excess, jacobian, game.domain)
    played, learned = rounds.play_round(learner, state.game.learner, round, round)
    previous = None if state.game.previous is None else played.state.x
    after = _added(state.game, played)._replace(learner=learned, previous=previous)
    faults = fault("constraints", played.excess) | fault("next decision", after.x)
    number = state.game.t + state.skipped
    return _scored(learner, game, stated, state, after, played, faults, number)


def late(
    learner: Learner,
    game: Game,
    stated: Any,
    state: PlayerState,
    z: Any,
    number: Any,
    tag: Any,
    x: jax.Array,
    previous: Any,
) -> tuple[PlayerState, Outcome]:
    """A round arrives that was skipped, in which `x` was played after `previous`. The decision of
    the present round stays."""
    assert isinstance(learner, LateRounds)  # others were refused before
    round = game.played_round(z, previous)
    scored = game.scored_round(z, previous) or round
    loss, excess = scored.loss(x), scored.constraints(x).values
    played = Played(learner, round, state.game.learner._replace(x=x), loss, excess)
    after = _added(state.game, played)
    after = after._replace(learner=learner.arrived(state.game.learner, round, tag))
    # The decision of the present round does not show a gradient that is not finite.
    unusable = [jnp.where(jnp.isnan(leaf), leaf, 0) for leaf in floats_of(after.learner)]
    faults = rounds.faults_of(z, loss, excess, after.x) | fault("next decision", *unusable)
    fewer = state._replace(skipped=state.skipped - 1)
    return _scored(learner, game, stated, fewer, after, played, faults, number)


def _added(state: GameState, played: Played) -> GameState:
    """Return the state with one more round in its totals."""
    assert state.totals is not None
    terms = round_terms(jnp, played.loss, played.excess)
    return state._replace(totals=state.totals.add(terms), t=state.t + 1)


def _scored(
    learner: Learner,
    game: Game,
    stated: Any,
    state: PlayerState,
    after: GameState,
    played: Played,
    faults: jax.Array,
    round: Any,
) -> tuple[PlayerState, Outcome]:
    """Return the state after a round, with what was seen in it."""
    x = played.state.x
    gradient = played.round.gradient(x)
    centre = jnp.asarray(game.domain.centre, x.dtype)
    found = round_extremes(played.round, x, played.loss, gradient, centre)
    flags = faults % FAULTY | fault("loss gradient", gradient)
    if stated is not None:
        refuted = jnp.any(found[: len(NAMES)] > stated[: len(NAMES)])
        violated = jnp.max(played.excess) > stated[len(NAMES)]
        flags = flags | jnp.where(refuted, REFUTED, 0) | jnp.where(violated, VIOLATED, 0)
    if isinstance(learner, Shortened):
        flags = flags | jnp.where(learner.fell_short(after.learner), SHORT, 0)
    seen = state.seen.add(found, round, x, clip_of(learner))
    following = PlayerState(after.x, after, seen, state.skipped)
    return following, Outcome(flags, played.loss, played.excess, x, found)


def skipped(
    learner: Learner, game: Game, stated: Any, state: PlayerState, lost: Any
) -> tuple[PlayerState, Outcome]:
    """Nothing is known of the round. It tells the tag of the round, for a learner to which it may
    come late; `lost` is the tag of a round that it no longer waits for, -1 for none."""
    inner, tag = state.game.learner, jnp.zeros((), jnp.int32)
    if isinstance(learner, LateRounds):
        inner, tag = learner.send(inner)
        inner = learner.advance(learner.give_up(inner, lost))
    previous = None if state.game.previous is None else state.game.x
    after = state.game._replace(learner=inner, previous=previous)
    following = state._replace(x=after.x, game=after, skipped=state.skipped + 1)
    return following, _unplayed(state, 0, tag)


def heeded(
    learner: Learner, game: Game, stated: Any, state: PlayerState, z: Any, said: Any, predicted: Any
) -> tuple[PlayerState, Outcome]:
    """Take advice and a forecast, as `as_told` does it, and enforce announced constraints. It tells
    their largest relative violation."""
    heard = None
    if said is not None or predicted is not None:
        heard = as_told(said, predicted, state.game.learner.advice)
    after = rounds.announce(learner, game, state.game, z, heard)
    left: Any = 0
    if game.announced is not None:
        left = relative_violation(after.x, rounds.announced_round(game, state.game, z))
    flags = after.faults % FAULTY | fault("data", *floats_of(z)) | fault("next decision", after.x)
    following = state._replace(x=after.x, game=after)
    return following, _unplayed(following, flags, left)


def replaced(
    learner: Learner, game: Game, stated: Any, state: PlayerState, x: jax.Array
) -> tuple[PlayerState, Outcome]:
    """Put another decision in the place of the learner's."""
    inner = moved(learner, state.game.learner, x)
    following = state._replace(x=inner.x, game=state.game._replace(learner=inner))
    return following, _unplayed(following, 0, 0)


def _unplayed(state: PlayerState, flags: Any, number: Any) -> Outcome:
    """Return the outcome of a step in which no round was scored."""
    assert state.game.totals is not None
    none = jnp.zeros(state.game.totals.peak.shape, state.x.dtype)
    return Outcome(flags, number, none, state.x, jnp.zeros(len(COLUMNS), state.x.dtype))
