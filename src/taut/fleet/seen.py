"""What a member of a fleet has seen in all its rounds: the largest values, and the gradients that
its learner accepted."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ..engine import Array, default_float
from ..player.extremes import COLUMNS, NAMES
from ..runs.totals import Sum

__all__ = ["AcceptedSlopes", "Seen"]


class AcceptedSlopes(NamedTuple):
    """The numbers of `taut.learners.clipping.Clipping` for one member."""

    largest: jax.Array
    squares: Sum
    first_square: jax.Array
    excess: Sum
    clipped: jax.Array

    def add(self, slope: jax.Array, clip: float | None) -> AcceptedSlopes:
        """Return the numbers after a round with a loss gradient of this length."""
        slope = slope.astype(self.largest.dtype)
        above, accepted = jnp.asarray(False), slope
        if clip is not None:
            limit = clip * self.largest
            above = jnp.isposinf(slope) | ((self.largest > 0) & (slope > limit))
            accepted = jnp.where(jnp.isposinf(slope), 0, jnp.where(above, limit, slope))
        square = accepted * accepted
        return AcceptedSlopes(
            jnp.maximum(self.largest, accepted),
            self.squares.add(square),
            jnp.where(self.first_square > 0, self.first_square, square),
            self.excess.add(slope - accepted),
            self.clipped + above,
        )

    def numbers(self) -> Array:
        """Return the numbers of a `Clipping` with one seed."""
        sums = (self.largest, self.squares, self.first_square, self.excess, self.clipped)
        return np.array([[_number(each)] for each in sums])


def _number(value: Any) -> float:
    """A number, or the value of a compensated sum."""
    if not isinstance(value, Sum):
        return float(value)
    return float(value.value) + (0.0 if value.error is None else float(value.error))


class Seen(NamedTuple):
    """What a member has seen in all its rounds, as `taut.player.extremes` describes it."""

    values: jax.Array
    """The largest value of each of `COLUMNS`; minus infinity if none is known."""
    rounds: jax.Array
    """For each of `NAMES`, the round in which it was largest."""
    decisions: jax.Array
    """The flat decisions of these rounds."""
    slopes: AcceptedSlopes
    """What the learner accepted of the loss gradients."""

    @classmethod
    def nothing(cls, x: jax.Array) -> Seen:
        """Return what is known before round 1."""
        wide = jnp.promote_types(x.dtype, default_float())
        return cls(
            jnp.full(len(COLUMNS), -jnp.inf, x.dtype),
            jnp.zeros(len(NAMES), jnp.int32),
            jnp.zeros((len(NAMES), x.size), x.dtype),
            AcceptedSlopes(
                jnp.zeros((), wide),
                Sum.zero((), wide),
                jnp.zeros((), wide),
                Sum.zero((), wide),
                jnp.zeros((), jnp.int32),
            ),
        )

    def add(
        self, found: jax.Array, round: jax.Array, x: jax.Array, clip: float | None = None
    ) -> Seen:
        """Return what is known after one more round of a learner that clips gradients so."""
        known = jnp.where(jnp.isfinite(found), found, -jnp.inf)
        larger = known > self.values
        ours = larger[: len(NAMES)]
        return Seen(
            jnp.where(larger, known, self.values),
            jnp.where(ours, round, self.rounds),
            jnp.where(ours[:, None], x.ravel()[None], self.decisions),
            self.slopes.add(found[0], clip),
        )
