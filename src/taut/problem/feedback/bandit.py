"""Bandit feedback: only the values of loss and constraints, at the points that were played."""

from __future__ import annotations

from dataclasses import field
from typing import Any, ClassVar, NoReturn

import jax

from ... import arguments
from ..constraints import Linearisation
from ..rounds import Round, RoundSeen
from .base import Feedback, feedback_dataclass


@feedback_dataclass
class Bandit(Feedback):
    """The learner sees the values of loss and constraints at the points that it played, and no
    gradients.

    Arguments:
        points: how many points are played in each round, 1 or 2. The loss of a round is the mean
            over its points, and each constraint counts with its larger value.

    >>> import taut
    >>> taut.Bandit(points=2)
    Bandit(points=2)
    """

    kind: ClassVar[str] = "bandit"

    points: int = field(default=2, metadata={"static": True})

    def __post_init__(self) -> None:
        object.__setattr__(self, "points", arguments.count("points", self.points, 1, 2))

    def deliver(
        self, learner: Any, state: Any, memory: Any, round: Round, key: jax.Array, t: jax.Array
    ) -> tuple[Any, Any]:
        """Show the values at the points that were played."""
        return learner.step(state, BanditRound(round, learner.points(state))), memory


class BanditRound(RoundSeen):
    """A round that answers questions about the values at some points, and no others."""

    def __init__(self, round: Round, points: tuple[jax.Array, ...]) -> None:
        super().__init__(round)
        self.points = points

    def loss(self, x: jax.Array) -> jax.Array:
        """f_t(x) at a point that was played."""
        return self.round.loss(self._played(x))

    def gradient(self, x: jax.Array) -> NoReturn:
        """Bandit feedback has none."""
        _refuse()

    def constraints(self, x: jax.Array) -> Linearisation:
        """g_t(x) at a point that was played, without Jacobian products."""
        return Linearisation(self.round.constraints(self._played(x)).values, _refuse, _refuse)

    def _played(self, x: jax.Array) -> jax.Array:
        if not any(x is point for point in self.points):
            raise TypeError(
                "feedback: bandit feedback shows values at the points that were played, and at "
                "no others"
            )
        return x


def _refuse(*operands: Any) -> NoReturn:
    raise TypeError(
        "feedback: bandit feedback has no gradients; expected a learner that estimates them from "
        "values, such as taut.TwoPoint"
    )
