"""The contract of a learner: an immutable value with two pure functions, `init` and `step`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from .. import files
from ..problem.rounds import Round

__all__ = ["Learner", "State", "Weighted", "first_round"]


class State(NamedTuple):
    """What the next round needs of a learner without multipliers."""

    x: jax.Array
    """The decision to play in round t."""
    t: jax.Array
    """The round, from 1."""


class Weighted(NamedTuple):
    """What the next round needs of a learner that keeps a multiplier for each constraint."""

    x: jax.Array
    t: jax.Array
    multiplier: jax.Array


class Learner(ABC):
    """A method with its parameters: a frozen dataclass, registered as a pytree whose leaves are the parameters.

    A learner owns no loop, prints nothing, does not score itself and never sees the stream. Changing a parameter, or
    sweeping it with vmap, never recompiles. `tuned` and its sisters compute parameters from theory; plain construction
    takes them as given.
    """

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        files.add_class(cls)

    @abstractmethod
    def init(self, x1: jax.Array, count: int) -> Any:
        """The state before round 1: `state.x` is the decision to play, `count` the number of constraints."""

    @abstractmethod
    def step(self, state: Any, round: Round) -> Any:
        """Round t is revealed: prepare x_{t+1}."""

    def multiplier(self, state: Any, round: Round) -> jax.Array:
        """lambda_t, one entry a constraint; zero for a learner that has none."""
        return jnp.zeros_like(round.constraints(state.x).values)


def first_round() -> jax.Array:
    """t = 1, in a type that does not depend on the user's settings."""
    return jnp.asarray(1, jnp.int32)
