"""Delayed feedback: what happened in round t is known at the end of round t + delay."""

from __future__ import annotations

from dataclasses import field
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from ... import arguments
from ..constraints import Linearisation
from ..rounds import Round, RoundSeen, with_jacobian
from .base import Feedback, feedback_dataclass


class Pending(NamedTuple):
    """Measurements that have not arrived yet, in a ring of `longest + 1` slots."""

    x: jax.Array
    """The decisions at which they were made."""
    loss: jax.Array
    gradient: jax.Array
    excess: jax.Array
    jacobian: jax.Array
    due: jax.Array
    """The round at whose end they arrive; 0 for an empty slot."""
    tag: jax.Array
    """What the learner wants to be told when they arrive."""


@feedback_dataclass
class Delayed(Feedback):
    """Rounds are revealed late, perhaps out of order.

    Arguments:
        rounds: the delay: a number of rounds (0 means none), or a function `delay(key, round)` in
            jax.numpy, whose results are cut to 0..longest. Rounds that arrive together are handed
            over in the order in which they were played.
        longest: the longest delay; needed for a function. Memory is that of so many measurements.

    The learner gets loss, gradient, constraint values and constraint gradients as they were at the
    decision of the round. If it
    has moved since, it gets their linear model at its present decision: a half-space of an old
    round still contains every feasible decision. `taut.DelayTolerant` makes a learner whose
    guarantees hold under delays out of any other.

    >>> import taut
    >>> taut.Delayed(16)
    Delayed(16)
    """

    kind: ClassVar[str] = "delayed"

    rounds: Any = field(metadata={"static": True})
    longest: int | None = field(default=None, metadata={"static": True})

    def __post_init__(self) -> None:
        if callable(self.rounds):
            if self.longest is None:
                raise ValueError(
                    "longest: got None; expected the longest delay, for example "
                    "taut.Delayed(function, longest=50)"
                )
            object.__setattr__(self, "longest", arguments.count("longest", self.longest, 0))
            return
        delay = arguments.count("rounds", self.rounds, 0)
        if self.longest is not None and arguments.count("longest", self.longest, 0) != delay:
            raise ValueError(
                f"longest: got {self.longest}; expected {delay}, the constant delay, or nothing"
            )
        object.__setattr__(self, "rounds", delay)
        object.__setattr__(self, "longest", delay)

    def __repr__(self) -> str:
        if not callable(self.rounds):
            return f"Delayed({self.rounds})"
        return f"Delayed({getattr(self.rounds, '__name__', 'a function')}, longest={self.longest})"

    @property
    def random(self) -> bool:
        """Whether delays are given by a function, which gets a random key."""
        return callable(self.rounds)

    @property
    def slots(self) -> int:
        """The number of measurements that are kept."""
        assert self.longest is not None
        return self.longest + 1

    def begin(self, x1: jax.Array, count: int) -> Pending:
        """Return empty slots."""
        many, dtype = self.slots, x1.dtype
        numbers = jnp.zeros((many,), jnp.int32)
        points = jnp.zeros((many, *x1.shape), dtype)
        rows = jnp.zeros((many, count), dtype)
        slopes = jnp.zeros((many, count, *x1.shape), dtype)
        return Pending(points, jnp.zeros((many,), dtype), points, rows, slopes, numbers, numbers)

    def deliver(
        self, learner: Any, state: Any, memory: Pending, round: Round, key: jax.Array, t: jax.Array
    ) -> tuple[Any, Pending]:
        """Store what round t showed, and hand over all that is due."""
        x = state.x
        state, tag = learner.send(state)
        memory = self._stored(memory, x, round, key, t, tag)
        if not callable(self.rounds):
            slot = jnp.mod(t, self.slots)  # of round t - delay
            after = learner.arrived(state, _at(memory, slot, round), memory.tag[slot])
            state = jax.tree.map(
                lambda new, old: jnp.where(t >= self.slots, new, old), after, state
            )
            return learner.advance(state), memory
        ages = jnp.arange(self.slots, dtype=jnp.int32)

        def waiting(due: jax.Array) -> jax.Array:
            return (due > 0) & (due <= t)

        def hand_over(carry: tuple[Any, jax.Array]) -> tuple[Any, jax.Array]:
            state, due = carry
            age = jnp.mod(t - 1 - ages, self.slots)  # of the round in each slot
            slot = jnp.argmax(jnp.where(waiting(due), age, -1))
            state = learner.arrived(state, _at(memory, slot, round), memory.tag[slot])
            return state, due.at[slot].set(0)

        state, due = lax.while_loop(
            lambda carry: jnp.any(waiting(carry[1])), hand_over, (state, memory.due)
        )
        return learner.advance(state), memory._replace(due=due)

    def _stored(
        self,
        memory: Pending,
        x: jax.Array,
        round: Round,
        key: jax.Array,
        t: jax.Array,
        tag: jax.Array,
    ) -> Pending:
        values, pull, _ = round.constraints(x)
        jacobian = jax.vmap(pull)(jnp.eye(values.shape[0], dtype=x.dtype))
        delay: Any = self.rounds
        if callable(delay):
            delay = jnp.clip(jnp.asarray(delay(key, t), jnp.int32), 0, self.slots - 1)
        slot = jnp.mod(t - 1, self.slots)
        new = Pending(x, round.loss(x), round.gradient(x), values, jacobian, t + delay, tag)
        return jax.tree.map(
            lambda array, value: lax.dynamic_update_index_in_dim(
                array, jnp.asarray(value, array.dtype), slot, 0
            ),
            memory,
            new,
        )


class DelayedRound(RoundSeen):
    """A round as it was measured: linear models of loss and constraints."""

    def __init__(self, measured: Pending, round: Round) -> None:
        super().__init__(round)
        self.measured = measured

    def loss(self, x: jax.Array) -> jax.Array:
        """The linear model of the loss."""
        return self.measured.loss + jnp.sum(self.measured.gradient * (x - self.measured.x))

    def gradient(self, x: jax.Array) -> jax.Array:
        """The gradient that was measured."""
        return self.measured.gradient

    def constraints(self, x: jax.Array) -> Linearisation:
        """The linear models of the constraints."""
        there = with_jacobian(self.measured.excess, self.measured.jacobian)
        return there._replace(values=there.values + there.pushforward(x - self.measured.x))


def _at(memory: Pending, slot: jax.Array, round: Round) -> DelayedRound:
    measured = jax.tree.map(
        lambda array: lax.dynamic_index_in_dim(array, slot, 0, keepdims=False), memory
    )
    return DelayedRound(measured, round)
