"""Long decisions are carried from round to round as the step before the projection and the number
that projects it.

The projection onto a ball around zero multiplies the step by one number. A round that reads `step *
scale` wherever it needs the decision passes over its memory once less than one that stores the
product, and needs no second array for it: steps are stored in place. The numbers stay the same.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeGuard

import jax
import jax.numpy as jnp

from ..problem.domains import Ball, Domain
from .wide_rounds import is_wide

__all__ = ["Scaled", "carried", "decided", "projects_by_scaling"]


class Scaled(NamedTuple):
    """A decision, as the loop over rounds carries it."""

    step: jax.Array
    """The decision before it was projected."""
    scale: jax.Array
    """The number by which the projection multiplies it."""

    def decision(self, nothing: jax.Array) -> jax.Array:
        """Return the decision.

        Arguments:
            nothing: -0.0, which the compiler must not know. Otherwise it may leave out the rounding
                of the product where a sum follows, and results would depend on the length of
                chunks.
        """
        seeds_first = self.scale.reshape(
            *self.scale.shape, *(1 for _ in self.step.shape[self.scale.ndim :])
        )
        return self.step * seeds_first + nothing.astype(self.step.dtype)


def projects_by_scaling(domain: Domain, x: jax.Array) -> TypeGuard[Ball]:
    """Return whether the domain is a ball around zero, which a subclass need not be, and x a wide
    decision."""
    around_zero = type(domain) is Ball and domain.origin is None
    return around_zero and is_wide(x.shape) and x.shape == domain.shape and x.dtype.itemsize >= 4


def carried(state: Any, batch_ndim: int) -> Any:
    """Return a learner's state whose decision is `Scaled`, with so many axes for learners and
    seeds."""
    return state._replace(x=Scaled(state.x, jnp.ones(state.x.shape[:batch_ndim], state.x.dtype)))


def decided(state: Any, nothing: jax.Array) -> Any:
    """Return a learner's state whose decision is an array."""
    return state._replace(x=state.x.decision(nothing)) if isinstance(state.x, Scaled) else state
