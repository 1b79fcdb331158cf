"""A learner that sees rounds through feedback. It is a learner itself, so simulations and players
need not know of it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import jax

from .. import arguments
from ..engine import first_key, wrapped_key
from ..learners import Guarantee, Learner, Setting, learner_dataclass
from ..learners.base import first_round
from ..problem.feedback import Feedback
from ..problem.rounds import Round

__all__ = ["FeedbackState", "WithFeedback", "check_covered", "through"]

LEARNER, FEEDBACK = 2**31 - 1, 2**31 - 2
"""Folded into the key of a seed, so that learner and feedback do not share random numbers with the
adversary."""


class FeedbackState(NamedTuple):
    """The state of a learner and of the feedback through which it sees rounds."""

    x: jax.Array
    t: jax.Array
    inner: Any
    """The learner's own state."""
    memory: Any
    """What the feedback remembers."""
    key: jax.Array
    """The random key of the seed, as numbers."""


@learner_dataclass
class WithFeedback(Learner):
    """A learner together with the feedback through which it sees rounds."""

    learner: Learner
    feedback: Feedback

    @property
    def random(self) -> bool:
        """Whether learner or feedback draw random numbers."""
        return self.feedback.random or self.learner.random

    @property
    def side_by_side(self) -> bool:
        """As the learner."""
        return self.learner.side_by_side

    def init(self, x1: jax.Array, count: int) -> FeedbackState:
        """Begin with the state of the learner, and with a key that `seeded` replaces."""
        inner = self.learner.init(x1, count)
        memory, key = self.feedback.begin(x1, count), jax.random.key_data(first_key())
        return FeedbackState(inner.x, first_round(), inner, memory, key)

    def seeded(self, state: FeedbackState, key: jax.Array) -> FeedbackState:
        """Take the random key of one seed."""
        inner = state.inner
        if self.learner.random:
            inner = self.learner.seeded(inner, jax.random.fold_in(key, LEARNER))
        own = jax.random.key_data(jax.random.fold_in(key, FEEDBACK))
        return state._replace(x=inner.x, inner=inner, key=own)

    def step(self, state: FeedbackState, round: Round) -> FeedbackState:
        """Let the learner take its steps with what the feedback shows of the round."""
        key = jax.random.fold_in(wrapped_key(state.key), state.t)
        inner, memory = self.feedback.deliver(
            self.learner, self._playing(state), state.memory, round, key, state.t
        )
        return FeedbackState(inner.x, state.t + 1, inner, memory, state.key)

    def moved(self, state: FeedbackState, x: jax.Array) -> FeedbackState:
        """Let the learner go on from another decision, if it can."""
        return state._replace(x=x, inner=self.learner.moved(state.inner, x))

    def points(self, state: FeedbackState) -> tuple[jax.Array, ...]:
        """Return the points that the learner plays."""
        return self.learner.points(self._playing(state))

    def multiplier(self, state: FeedbackState, round: Round) -> jax.Array:
        """Return the multiplier that the learner would have with the true round."""
        return self.learner.multiplier(self._playing(state), round)

    def guarantees(self, setting: Setting, horizon: int) -> Iterable[Guarantee]:
        """Yield the guarantees of the learner; the certificate knows whether they cover the
        feedback."""
        return self.learner.guarantees(setting, horizon)

    def _playing(self, state: FeedbackState) -> Any:
        """The learner's state, its decision being the very array that is played: the round is then
        asked about it once."""
        return state.inner._replace(x=state.x)


def through(learner: Learner, feedback: Feedback | None) -> Learner:
    """Return the learner as it is played: with its feedback, or as it is under full information."""
    return learner if feedback is None else WithFeedback(learner, feedback)


def check_covered(learner: Learner, feedback: Feedback | None, unproven: bool) -> None:
    """Refuse feedback that no guarantee of the learner covers, unless the user asks for it."""
    arguments.flag("unproven", unproven)
    if feedback is None:
        return
    if learner.request_first:
        raise ValueError(
            f"feedback: got {feedback!r}; expected full information, because "
            f"{type(learner).__name__} sees a round before its decision"
        )
    why = "" if unproven else learner.uncovered(feedback)
    if why:
        raise ValueError(
            f"feedback: {why}; got {feedback!r}. Use a learner whose card names this feedback "
            "(see docs/feedback.md), or pass unproven=True to play without a guarantee"
        )
