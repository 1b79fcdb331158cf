"""What a learner may offer besides `init`, `step` and `guarantees`.

Each protocol is one such thing. A learner offers it by having its methods, and callers ask, for
example, `isinstance(learner, Announced)`. The functions at the end give the answer for every
learner, also for one that does not offer the thing.
"""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import jax
import jax.numpy as jnp

from ..problem.feedback import Feedback
from ..problem.rounds import FullInformation, Round


@runtime_checkable
class RequestFirst(Protocol):
    """A learner that decides after the round was revealed, as an answer to a request."""

    def decide(self, state: Any, round: Round) -> Any:
        """Return the state with the decision for this round as `state.x`.

        `step` must keep `state.x`, because the next decision is made when the next request is seen.
        """


@runtime_checkable
class Announced(Protocol):
    """A learner that moves its decision into constraints that are announced before it is played."""

    def heed(self, state: Any, round: FullInformation) -> Any:
        """Return the state with a decision that satisfies the announced constraints.

        The round's constraints are the announced ones; its loss is not known yet. If the problem
        depends on the previous decision, `round.data.previous` is it.
        """


@runtime_checkable
class Movable(Protocol):
    """A learner that goes on from a decision that was not its own."""

    def moved(self, state: Any, x: jax.Array) -> Any:
        """Return the state as if `x` had been the decision; `step` then goes on from there."""


class StepsFromDecision:
    """Makes a learner `Movable` whose next decision is a step from `state.x`, whatever that is."""

    def moved(self, state: Any, x: jax.Array) -> Any:
        """Return the state with another decision in the place of the learner's."""
        return state._replace(x=x)


@runtime_checkable
class Grows(Protocol):
    """A learner whose state may need more room while it plays. `simulate` doubles the room and
    plays the last rounds again."""

    def with_room(self, slots: int) -> Any:
        """Return the learner with a state of fixed size: `self` if it has one already."""

    def is_full(self, state: Any) -> bool:
        """Whether a state of any number of seeds may have lost something for lack of room."""


@runtime_checkable
class Shortens(Protocol):
    """A learner with a part that is slow to compile and seldom needed. `simulate` plays the learner
    without it first, and plays a chunk again in which it was needed."""

    def shortened(self) -> Any:
        """Return the learner without this part: a learner that has `fell_short`, or `self`."""


@runtime_checkable
class Shortened(Protocol):
    """A learner without a part of its own."""

    def fell_short(self, state: Any) -> jax.Array:
        """Whether the part was needed in the last round, so that the state is wrong."""


@runtime_checkable
class Random(Protocol):
    """A learner that may draw random numbers."""

    @property
    def random(self) -> bool:
        """Whether it does with these parameters."""

    def seeded(self, state: Any, key: jax.Array) -> Any:
        """Return the state before round 1 with the random key of one seed."""


@runtime_checkable
class Delayed(Protocol):
    """A learner that keeps apart which of its decisions a round belongs to that arrives later.

    Under delayed feedback a round is sent when it was played and arrives later, or never within the
    run. Any other learner takes a step with a round when it arrives.
    """

    def send(self, state: Any) -> tuple[Any, jax.Array]:
        """Return the state after a decision was played whose round will arrive later, and a tag for
        the round."""

    def arrived(self, state: Any, round: Round, tag: jax.Array) -> Any:
        """Return the state after a round arrived."""

    def advance(self, state: Any) -> Any:
        """Return the state at the end of a round, after all arrivals, with the next decision as
        `state.x`."""


@runtime_checkable
class LateRounds(Delayed, Protocol):
    """A learner for which rounds may come late in live use, or never."""

    @property
    def delay(self) -> int:
        """The number of rounds that may be on their way."""

    def give_up(self, state: Any, tag: jax.Array) -> Any:
        """Return the state in which the round with this tag is no longer waited for."""


@runtime_checkable
class PlaysPoints(Protocol):
    """A learner that plays several points in a round."""

    def points(self, state: Any) -> tuple[jax.Array, ...]:
        """Return the points that are played and scored."""


@runtime_checkable
class HasMultiplier(Protocol):
    """A learner with a multiplier for each constraint."""

    def multiplier(self, state: Any, round: Round) -> jax.Array:
        """Return lambda_t, one entry per constraint."""


@runtime_checkable
class CoversFeedback(Protocol):
    """A learner whose guarantees cover other feedback than full information."""

    def uncovered(self, feedback: Feedback) -> str:
        """Say why the guarantees do not hold under this feedback; empty if they do."""


def is_random(learner: Any) -> bool:
    """Return whether a learner draws random numbers."""
    # Several times faster than isinstance(learner, Random).
    return hasattr(learner, "seeded") and bool(getattr(learner, "random", False))


def seeded(learner: Any, state: Any, key: jax.Array) -> Any:
    """Return the state before round 1 with the random key of one seed, if the learner draws random
    numbers."""
    return learner.seeded(state, key) if is_random(learner) else state


def points_of(learner: Any, state: Any) -> tuple[jax.Array, ...]:
    """Return the points that are played and scored in a round: one, unless the learner plays
    several."""
    return learner.points(state) if isinstance(learner, PlaysPoints) else (state.x,)


def multiplier_of(learner: Any, state: Any, round: Round) -> jax.Array:
    """Return lambda_t, one entry per constraint; zero for a learner that has none."""
    if isinstance(learner, HasMultiplier):
        return learner.multiplier(state, round)
    return jnp.zeros_like(round.constraints(state.x).values)


def moved(learner: Any, state: Any, x: jax.Array) -> Any:
    """Return the state as if `x` had been the decision; refuse learners that do not go on from
    there."""
    if not isinstance(learner, Movable):
        raise TypeError(
            f"played: {type(learner).__name__} does not go on from a decision that is not its "
            "own; expected a learner whose next decision is a step from the last one, such as "
            "half-space"
        )
    return learner.moved(state, x)


def uncovered(learner: Any, feedback: Feedback) -> str:
    """Say why the guarantees do not hold under this feedback; empty if they do."""
    if isinstance(learner, CoversFeedback):
        return learner.uncovered(feedback)
    return f"the guarantees of {type(learner).__name__} are proven for full information only"
