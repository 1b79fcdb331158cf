"""A learner that sees rounds through feedback. It is a learner itself, so simulations and players
need not know of it."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from .. import arguments
from ..engine import first_key, wrapped_key
from ..learners import Guarantee, Learner, Setting, learner_dataclass
from ..learners.base import first_round
from ..learners.protocols import (
    Delayed,
    is_random,
    moved,
    multiplier_of,
    points_of,
    seeded,
    uncovered,
)
from ..learners.registry import DEFAULT, LEARNERS, as_learner
from ..problem.feedback import Feedback, Noisy
from ..problem.problem import Problem
from ..problem.rounds import Round
from .announced import check_announced

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


class Receiver(NamedTuple):
    """A learner as feedback sees it: it has an answer to all that feedback may ask."""

    learner: Learner

    def step(self, state: Any, round: Round) -> Any:
        """Return the state after a step with what the feedback shows of a round."""
        return self.learner.step(state, round)

    def points(self, state: Any) -> tuple[jax.Array, ...]:
        """Return the points that are played in the round."""
        return points_of(self.learner, state)

    def send(self, state: Any) -> tuple[Any, jax.Array]:
        """Return the state after a decision was played whose round will arrive later, and a tag for
        the round."""
        if isinstance(self.learner, Delayed):
            return self.learner.send(state)
        return state, jnp.zeros((), jnp.int32)

    def arrived(self, state: Any, round: Round, tag: jax.Array) -> Any:
        """Return the state after a delayed round arrived. By default a step is taken with it."""
        if isinstance(self.learner, Delayed):
            return self.learner.arrived(state, round, tag)
        return self.learner.step(state, round)

    def advance(self, state: Any) -> Any:
        """Return the state at the end of a round, after all arrivals."""
        return self.learner.advance(state) if isinstance(self.learner, Delayed) else state


@learner_dataclass
class WithFeedback(Learner):
    """A learner together with the feedback through which it sees rounds."""

    learner: Learner
    feedback: Feedback

    @property
    def random(self) -> bool:
        """Whether learner or feedback draw random numbers."""
        return self.feedback.random or is_random(self.learner)

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
        inner = seeded(self.learner, state.inner, jax.random.fold_in(key, LEARNER))
        own = jax.random.key_data(jax.random.fold_in(key, FEEDBACK))
        return state._replace(x=inner.x, inner=inner, key=own)

    def step(self, state: FeedbackState, round: Round) -> FeedbackState:
        """Let the learner take its steps with what the feedback shows of the round."""
        key = jax.random.fold_in(wrapped_key(state.key), state.t)
        inner, memory = self.feedback.deliver(
            Receiver(self.learner), self._playing(state), state.memory, round, key, state.t
        )
        return FeedbackState(inner.x, state.t + 1, inner, memory, state.key)

    def moved(self, state: FeedbackState, x: jax.Array) -> FeedbackState:
        """Let the learner go on from another decision, if it can."""
        return state._replace(x=x, inner=moved(self.learner, state.inner, x))

    def points(self, state: FeedbackState) -> tuple[jax.Array, ...]:
        """Return the points that the learner plays."""
        return points_of(self.learner, self._playing(state))

    def multiplier(self, state: FeedbackState, round: Round) -> jax.Array:
        """Return the multiplier that the learner would have with the true round."""
        return multiplier_of(self.learner, self._playing(state), round)

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
    why = "" if unproven else uncovered(learner, feedback)
    if why:
        raise ValueError(
            f"feedback: {why}; got {feedback!r}. Use a learner whose card names this feedback "
            "(see docs/feedback.md), or pass unproven=True to play without a guarantee"
        )


def as_played(
    learner: Any,
    problem: Problem,
    feedback: Feedback | None = None,
    stream: Any = None,
    horizon: int | None = None,
) -> Any:
    """Return the learner that plays where the user gave this one, a name, or None; anything else
    unchanged. The arguments are those of `default_learner`."""
    if learner is None:
        learner = default_learner(problem, feedback, stream, horizon)
    return as_learner(learner, problem, horizon)


def checked_learner(
    learner: Any,
    problem: Any,
    order: str,
    feedback: Feedback | None = None,
    unproven: bool = False,
) -> Learner:
    """Return the learner of a player or a fleet, after checking that it fits the problem and the
    feedback; `order` is the call with its arguments in order, for messages."""
    expected = f"taut.Problem(...). The order is {order}"
    arguments.instance("problem", problem, Problem, expected)
    made = as_played(learner, problem, feedback)
    if not isinstance(made, Learner):
        raise TypeError(
            f"learner: got {arguments.shown(made)}; expected a taut learner or the name of one. "
            f"The order is {order}"
        )
    check_covered(made, feedback, unproven)
    if problem.announced is not None:
        check_announced((made,), problem, feedback=feedback)
    return made


LOG = logging.getLogger(__name__)
ROUNDS = 10_000
"""The horizon of an averaged learner where the number of rounds is not known."""


def default_learner(
    problem: Problem, feedback: Feedback | None, stream: Any = None, horizon: int | None = None
) -> Learner | str:
    """Return the learner for a game in which none was named, or its name.

    It is `half-space`, unless constraint values or their gradients are observed with errors: kept
    cuts of noisy values exclude the best decision. Then it is an averaged learner, the one for the
    rows that are proven or stated: affine, smooth with a Slater point, or any convex ones. Averages
    need constraints that are the same in every round. If the data are known, constants are proven
    from them.
    """
    if (
        not isinstance(feedback, Noisy)
        or (feedback.values is None and feedback.gradients is None)
        or problem.constraints.takes_data
    ):
        return DEFAULT
    constants = problem.facts(stream, horizon=horizon).strengthened(problem.constants)
    name, smoothness = "averaged-blocks", constants.constraint_smoothness
    if smoothness == 0:
        name = "averaged"
    elif smoothness is not None and constants.slater is not None:
        name = "averaged-smooth"
    slope = 0.0 if feedback.gradients is None else feedback.gradients.sigma
    value = 0.0 if feedback.values is None else feedback.values.sigma
    options: dict[str, Any] = {}
    if value is not None and slope is not None:
        # The errors of the linear model at any other decision of the domain.
        options["sigma"] = math.hypot(value, slope * float(problem.domain.diameter))
    if slope:
        options["gradient_sigma"] = slope
    rounds = ROUNDS if horizon is None else horizon
    known = {key: value for key, value in options.items() if key in LEARNERS[name].options}
    LOG.warning(
        "constraints are observed with errors, so the learner is %s for %d rounds instead of %s",
        name,
        rounds,
        DEFAULT,
    )
    return LEARNERS[name].build(problem.with_constants(constants), rounds, **known)
