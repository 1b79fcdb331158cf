"""The contract of feedback: the round that a learner sees is the true round, seen through the
feedback."""

from __future__ import annotations

from abc import ABC
from dataclasses import dataclass
from typing import Any, ClassVar, dataclass_transform

import jax

from ... import arguments, files
from ...engine import register_dataclass
from ..rounds import Round


class Feedback(ABC):
    """What a learner gets to see. A frozen dataclass, registered as a pytree: its numbers are
    traced, its functions static.

    A subclass defines `seen`, the round that the learner gets in place of the true one. One that
    hands rounds over later, or several of them at once, defines `begin` and `deliver` instead.
    """

    kind: ClassVar[str]
    """The word by which cards say which feedback a guarantee covers."""

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        files.add_class(cls)

    @property
    def random(self) -> bool:
        """Whether a simulation needs a random key for each seed."""
        return False

    def begin(self, x1: jax.Array, count: int) -> Any:
        """Return what to remember before round 1; `count` is the number of constraints."""
        return ()

    def seen(self, round: Round, key: jax.Array, t: jax.Array) -> Round:
        """Return the round that the learner sees.

        Arguments:
            round: the true round.
            key: a random key for this round alone.
            t: the round's number, counted from 1.
        """
        return round

    def deliver(
        self, learner: Any, state: Any, memory: Any, round: Round, key: jax.Array, t: jax.Array
    ) -> tuple[Any, Any]:
        """Let the learner step at the end of round t; return its state, and the memory."""
        return learner.step(state, self.seen(round, key, t)), memory


@dataclass_transform(frozen_default=True)
def feedback_dataclass(kind: Any) -> Any:
    """Make a class a kind of feedback: a frozen dataclass that is registered as a JAX pytree."""
    return register_dataclass(dataclass(frozen=True)(kind))


@feedback_dataclass
class FullInformation(Feedback):
    """The loss and the constraints themselves are revealed after each decision. This is the
    default.

    >>> import taut
    >>> taut.FullInformation()
    FullInformation()
    """

    kind: ClassVar[str] = "full"


def as_feedback(value: Any) -> Feedback | None:
    """Return the user's feedback; None for full information, which needs no code."""
    if value is None or isinstance(value, FullInformation):
        return None
    return arguments.instance(
        "feedback",
        value,
        Feedback,
        "taut.FullInformation(), taut.Noisy(values=0.1) or another kind of feedback",
    )
