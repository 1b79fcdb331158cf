"""The compiled step of a live game, shaped for short calls.

Parameters travel as one vector, made once, and the state as another, whose head tells all that the player wants to know
of the round.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp

from ..learners import Learner
from ..problem.rounds import Observed, Round
from .loop import Shown, all_finite
from .packing import Parcel

__all__ = ["FAULTS", "head", "measured_step", "revealed_step"]

Step = Callable[..., tuple[jax.Array, ...]]

FAULTS = ("z", "loss", "loss gradient", "constraints", "next decision")
"""What may not be finite, in the order of the bits in a head."""


def head(faults: Any, loss: Any, excess: jax.Array, decision: jax.Array) -> jax.Array:
    """What comes before the state: faults in bits, the loss, g_1..g_m, and the decision to play next."""
    start = jnp.stack([jnp.asarray(number, decision.dtype) for number in (faults, loss)])
    return jnp.concatenate([start, excess, decision.ravel()])


@lru_cache(maxsize=256)
def revealed_step(loss: Callable[[jax.Array, Any], Any], fixed: Parcel, state: Parcel, skip: int) -> Step:
    """(*fixed, *state, z) -> *state, where z is revealed."""

    @jax.jit
    def step(*arrays: Any) -> tuple[jax.Array, ...]:
        *given, z = arrays
        (constraints, domain, learner), before = _unwrapped(fixed, state, skip, given)
        floating = (leaf for leaf in jax.tree.leaves(z) if jnp.issubdtype(leaf.dtype, jnp.floating))
        return _step(learner, before, Shown(loss, constraints, domain, z), all_finite(*floating), state)

    return step


@lru_cache(maxsize=256)
def measured_step(fixed: Parcel, state: Parcel, skip: int) -> Step:
    """(*fixed, *state, loss, gradient, excess, jacobian) -> *state, from measurements."""

    @jax.jit
    def step(*arrays: Any) -> tuple[jax.Array, ...]:
        *given, loss, gradient, excess, jacobian = arrays
        (_, domain, learner), before = _unwrapped(fixed, state, skip, given)
        return _step(learner, before, Observed(loss, gradient, excess, jacobian, domain), jnp.asarray(True), state)

    return step


def _unwrapped(fixed: Parcel, state: Parcel, skip: int, arrays: list[jax.Array]) -> tuple[Any, Any]:
    return fixed.unwrap(tuple(arrays[: fixed.count])), state.unwrap(tuple(arrays[fixed.count :]), skip)


def _step(
    learner: Learner, state: Any, round: Round, data_are_finite: jax.Array, parcel: Parcel
) -> tuple[jax.Array, ...]:
    x = state.x
    loss, excess = round.loss(x), round.constraints(x).values
    after = learner.step(state, round)
    fine = (data_are_finite, *map(all_finite, (loss, round.gradient(x), excess, after.x)))
    faults = sum(jnp.where(good, 0, 2**bit) for bit, good in enumerate(fine))
    return parcel.wrap(after, head(faults, loss, excess, after.x))
