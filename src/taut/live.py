"""The compiled step of a live game, shaped for short calls.

What a call costs is the number of arrays that go in and come out, not the step. So parameters travel as one vector,
made once, and the state as another, whose head tells all that the player wants to know of the round.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .learners import Learner
from .referee import Shown, all_finite
from .rounds import Observed, Round

__all__ = ["FAULTS", "Parcel", "head", "measured_step", "revealed_step"]

Step = Callable[..., tuple[jax.Array, ...]]

FAULTS = ("z", "loss", "loss gradient", "constraints", "next decision")
"""What may not be finite, in the order of the bits in a head."""


@dataclass(frozen=True)
class Parcel:
    """How a pytree travels: leaves that the game's float type holds exactly in one vector, the others each apart."""

    structure: Any
    kinds: tuple[tuple[tuple[int, ...], np.dtype[Any]], ...]
    floating: np.dtype[Any]

    @classmethod
    def of(cls, tree: Any, floating: np.dtype[Any]) -> Parcel:
        """The parcel for trees like this one."""
        leaves, structure = jax.tree.flatten(tree)
        return cls(structure, tuple((jnp.shape(leaf), jnp.result_type(leaf)) for leaf in leaves), floating)

    def _held(self, dtype: np.dtype[Any]) -> bool:
        small = dtype.kind in "iub" and dtype.itemsize <= 4 and self.floating.itemsize >= 8
        return dtype == self.floating or small

    def wrap(self, tree: Any, head: jax.Array | None = None) -> tuple[jax.Array, ...]:
        """The vector, after `head`, then the leaves that do not fit into it."""
        parts, apart = [] if head is None else [head], []
        for leaf, (_, dtype) in zip(jax.tree.leaves(tree), self.kinds, strict=True):
            if self._held(dtype):
                parts.append(jnp.ravel(jnp.asarray(leaf, self.floating)))
            else:
                apart.append(jnp.asarray(leaf))
        return (jnp.concatenate(parts) if parts else jnp.zeros(0, self.floating), *apart)

    def unwrap(self, arrays: tuple[jax.Array, ...], skip: int = 0) -> Any:
        """The tree again, the vector's first `skip` entries being its head."""
        vector, *apart = arrays
        leaves = []
        for shape, dtype in self.kinds:
            if self._held(dtype):
                size = int(np.prod(shape))
                leaves.append(vector[skip : skip + size].reshape(shape).astype(dtype))
                skip += size
            else:
                leaves.append(apart.pop(0))
        return jax.tree.unflatten(self.structure, leaves)

    @property
    def count(self) -> int:
        """Number of arrays."""
        return 1 + sum(not self._held(dtype) for _, dtype in self.kinds)


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
