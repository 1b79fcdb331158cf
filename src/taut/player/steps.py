"""The compiled steps of a player: a round is revealed or measured, announced constraints are
enforced, or another decision takes the place of the learner's.

Parameters are packed into one vector, once. The state is another vector, whose first entries (the
header) hold all that the player reads: each further array would cost as much as the step.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from ..learners import Learner
from ..learners.protocols import moved
from ..play.compile import Executable, compiled, facts_of
from ..play.packing import Packing
from ..play.round import Game, GameState, announce, fault, play_round, reveal
from ..problem.problem import Problem
from ..problem.programs import programs_of
from ..problem.rounds import MeasuredRound, Round
from .extremes import COLUMNS, round_extremes

__all__ = [
    "Layout",
    "Steps",
    "header",
    "heeded_step",
    "measured_step",
    "moved_step",
    "revealed_step",
]


class Layout(NamedTuple):
    """How a player's arrays are packed. Hashable."""

    fixed: Packing
    """Of the pair (game, learner)."""
    state: Packing
    """Of the pair (learner's state, previous decision or None)."""
    header: int
    """Entries before the packed state."""

    def unpack(self, arrays: tuple[Any, ...]) -> tuple[Game, Learner, GameState]:
        """Return game, learner and state from the packed arrays of both."""
        game, learner = self.fixed.unpack(arrays[: self.fixed.count])
        state, previous = self.state.unpack(arrays[self.fixed.count :], self.header)
        nothing = jnp.asarray(0, jnp.int32)
        return game, learner, GameState(state, None, nothing, nothing, previous)

    def pack(self, state: GameState, header: jax.Array) -> tuple[jax.Array, ...]:
        """Return the packed state behind its header."""
        return self.state.pack_traced((state.learner, state.previous), header)


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
        self._problem, self._layout, self._fixed = problem, layout, fixed
        self._facts = facts_of(learner, problem.domain, seeds=1)
        self._compiled: dict[Any, Executable] = {}

    def take(self, step: Callable[..., Any], state: tuple[Any, ...], *given: Any) -> Any:
        """Return the packed state after a step from a packed state."""
        leaves, structure = jax.tree.flatten(given)
        # Announced data may be other ones in every round, and so may data after a refused round.
        key = (step, structure, *((leaf.shape, leaf.dtype) for leaf in leaves))
        executable = self._compiled.get(key)
        if executable is None:
            programs, passed = programs_of(self._problem), (*self._fixed, *state, *given)
            executable = compiled(programs, _rewritten, (step, self._layout), self._facts, passed)
            self._compiled[key] = executable
        return executable(*self._fixed, *state, *given)


def _rewritten(
    static: tuple[Callable[..., Any], Layout], rewrite: Callable[..., Any], *arrays: Any
) -> Any:
    step, layout = static
    return rewrite(partial(step, layout))(*arrays)


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
    game, learner, state = layout.unpack(tuple(given))
    after, played = reveal(learner, game, state, z)
    return _packed(layout, game, after, played, after.faults)


def measured_step(layout: Layout, *arrays: Any) -> tuple[jax.Array, ...]:
    """(*fixed, *state, loss, gradient, excess, jacobian) -> *state: play a round of which
    measurements are known."""
    *given, loss, gradient, excess, jacobian = arrays
    game, learner, state = layout.unpack(tuple(given))
    round = MeasuredRound(loss, gradient, excess, jacobian, game.domain)
    played, learned = play_round(learner, state.learner, round, round)
    after = state._replace(
        learner=learned, previous=None if state.previous is None else played.state.x
    )
    faults = fault("constraints", excess) | fault("next decision", after.x)
    return _packed(layout, game, after, played, faults)


def _packed(
    layout: Layout, game: Game, after: GameState, played: Any, faults: jax.Array
) -> tuple[jax.Array, ...]:
    """Return the packed state after a round, with all that the player reads in its header."""
    round: Round = played.round
    x = played.state.x
    gradient = round.gradient(x)
    centre = jnp.asarray(game.domain.centre, x.dtype)
    extremes = round_extremes(round, x, played.loss, gradient, centre)
    bits = faults % 2**5 | fault("loss gradient", gradient)
    return layout.pack(after, header(bits, played.loss, played.excess, after.x, extremes))


def heeded_step(layout: Layout, *arrays: Any) -> tuple[jax.Array, ...]:
    """(*fixed, *state, z, advice, forecast) -> *state: take advice, enforce announced
    constraints."""
    *given, z, advice, forecast = arrays
    game, learner, state = layout.unpack(tuple(given))
    return _unplayed(layout, announce(learner, game, state, z, advice, forecast))


def moved_step(layout: Layout, *arrays: Any) -> tuple[jax.Array, ...]:
    """(*fixed, *state, x) -> *state: put another decision in the place of the learner's."""
    *given, x = arrays
    _, learner, state = layout.unpack(tuple(given))
    return _unplayed(layout, state._replace(learner=moved(learner, state.learner, x)))


def _unplayed(layout: Layout, state: GameState) -> tuple[jax.Array, ...]:
    """Return the packed state of a round that was not played yet."""
    nothing = jnp.zeros(layout.header - 2 - state.x.size - len(COLUMNS), state.x.dtype)
    return layout.pack(state, header(0, 0, nothing, state.x))
