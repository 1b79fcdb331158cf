"""The largest gradients, constraint values and loss differences that were seen in all rounds, with
their rounds."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ..engine import Array, default_float
from ..jaxpr.maxima import entry_of_largest
from ..learners.clipping import Clipping
from ..problem.rounds import MeasuredRound, Round
from ..runs.totals import Sum

NAMES = ("loss_lipschitz", "constraint_lipschitz", "constraint_range", "loss_range")
"""What is compared with the constants of the same names."""
COLUMNS = (*NAMES, "constraint_slope")
ALL_ROWS = 256
"""Entries of a Jacobian up to which the gradients of all constraints are looked at; else that of
the largest constraint."""


@dataclass(frozen=True)
class Extreme:
    """The largest value of something over all rounds (and seeds), and where it occurred."""

    value: float
    seed: int | None
    """None for a player."""
    round: int
    """Counted from 1."""
    decision: Array
    """x_t of that round."""

    @property
    def witness(self) -> dict[str, Any]:
        """Round, seed and decision, for a certificate."""
        seed = {} if self.seed is None else {"seed": self.seed}
        return {"round": self.round, **seed, "x": self.decision}


@dataclass(frozen=True)
class Extremes:
    """What a player has seen since round `since`; entries are None if nothing was seen."""

    since: int
    """The first round that was looked at: 1, or the first one on a changed problem."""
    rounds: int
    loss_lipschitz: Extreme | None
    """The largest |df_t(x_t)|."""
    constraint_lipschitz: Extreme | None
    """The largest gradient norm of a constraint at x_t; of many constraints, only that of the
    largest one is looked at."""
    constraint_range: Extreme | None
    """The largest |g_i(x_t)|."""
    loss_range: Extreme | None
    """The largest |f_t(x_t) - f_t(c)|, c being the centre of the domain."""
    constraint_slope: float
    """The largest gradient norm at x_t of the largest constraint of the round."""
    clipping: Clipping
    """What the learner accepted of the loss gradients."""


def round_extremes(
    round: Round, x: jax.Array, loss: jax.Array, gradient: jax.Array, centre: jax.Array
) -> jax.Array:
    """Return what a round adds, in the order of `COLUMNS`; a value that is not known is NaN."""
    values, pull, _ = round.constraints(x)
    weights = jnp.eye(values.shape[0], dtype=x.dtype)

    def length(row: jax.Array) -> jax.Array:
        return jnp.sqrt(jnp.sum(pull(row) ** 2))

    if values.shape[0] == 1:
        largest = slope = length(weights[0])
    elif values.size * x.size <= ALL_ROWS:
        # Row by row: together they are a product of matrices, which no kernel can contain.
        lengths = lax.map(length, weights)
        largest, slope = jnp.max(lengths), jnp.sum(entry_of_largest(values) * lengths)
    else:
        largest = slope = length(entry_of_largest(values))
    away = (
        jnp.full((), jnp.nan, x.dtype)
        if isinstance(round, MeasuredRound)
        else jnp.abs(loss - round.loss(centre))
    )
    return jnp.stack(
        [jnp.sqrt(jnp.sum(gradient**2)), largest, jnp.max(jnp.abs(values)), away, slope]
    ).astype(x.dtype)


class AcceptedSlopes(NamedTuple):
    """The numbers of `taut.learners.clipping.Clipping` for one player."""

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
    """What a player has seen in all its rounds: a part of its state."""

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

    def extremes(
        self, shape: tuple[int, ...], clip: float | None, since: int, rounds: int
    ) -> Extremes:
        """Return what was seen, with arrays of NumPy.

        Arguments:
            shape: of a decision.
            clip: how many times as long as the longest before it a loss gradient may be; None if
                the learner clips none.
            since: the first round that was looked at.
            rounds: the last one.
        """
        clipping, largest = Clipping(clip, 1), {}
        clipping.numbers = self.slopes.numbers()
        for i, name in enumerate(NAMES):
            value = float(self.values[i])
            at = int(self.rounds[i]), np.array(self.decisions[i], float).reshape(shape)
            largest[name] = Extreme(value, None, *at) if math.isfinite(value) else None
        slope = max(float(self.values[len(NAMES)]), 0.0)
        return Extremes(since, rounds, **largest, constraint_slope=slope, clipping=clipping)
