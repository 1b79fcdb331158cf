r"""A signed accumulator with an exponential weight, for constraints without a Slater point (Yu, Lee
& Lee, 2026).

    gamma_t = min( 1 / (12 G_b sqrt(t)), 1 / (24 D G_g), 1 ),   phi_t = gamma_t exp(gamma_t Q_t)
    h_t = df_t(x_t) + phi_t dg_t(x_t),
        x_{t+1} = Pi_B( x_t - D h_t / sqrt(2 (1 + sum_{s<=t} |h_s|^2)) )
    Q_{t+1} = Q_t + g_t(x_t) - R_t,   R_t = 4 D G_g ( sqrt(z_t) - sqrt(z_{t-1}) ) / phi_t,
        z_t = sum_{s<=t} phi_s^2

G_b bounds |g|, D is the diameter of the domain, and g_t is the largest constraint. g is not
clipped, so Q may be negative.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import jax
import jax.numpy as jnp

from ..problem.constants import Constants
from ..problem.domains import Domain
from ..problem.rounds import Round
from .base import Learner, first_round, largest_row, learner_dataclass, sizes
from .card import Card, Growth
from .guarantee import Guarantee, Setting
from .surrogate import largest_exponent
from .theorem import Positive

LOWEST_EXPONENT, LEAST_WEIGHT = -50.0, 1e-12
"""The exponent and the weight are kept above these: with scaled parameters Q falls so far that phi
would vanish."""


class NoSlaterState(NamedTuple):
    """The state of the no-Slater learner."""

    x: jax.Array
    t: jax.Array
    queue: jax.Array
    """Q_t, which may be negative."""
    weights: jax.Array
    """z_{t-1}, the sum of phi^2."""
    squares: jax.Array
    """The sum of |h|^2."""


@learner_dataclass
class NoSlater(Learner):
    r"""x_{t+1} = Pi_B( x_t - eta_t (df_t(x_t) + phi_t dg_t(x_t)) ), phi_t = gamma_t exp(gamma_t
    Q_t), Q_t a signed sum.

    The published guarantee is O(sqrt(T)) expected regret and O(sqrt(T) log T) expected violation
    for independent, identically distributed constraints, without Slater's condition. Its constants
    are not specified, so there is no number. With the published parameters phi_t stays near zero at
    practical horizons: on all of taut's test streams the violation grows linearly up to T = 2^15.
    `gain=30, regulariser=0.1` reacts earlier; no theorem covers that.

    Arguments:
        constraint_range: G_b, a bound on |g|.
        constraint_lipschitz: G_g.
        diameter: D.
        gain: a factor on gamma_t; 1 in the reference.
        regulariser: a factor on R_t; 1 in the reference.

    Reference: Yu, Lee & Lee, 2026 (arXiv:2606.31480); the update is that of the first author's
    code.
    """

    constraint_range: Positive
    constraint_lipschitz: Positive
    diameter: Positive
    gain: Positive = 1.0
    regulariser: Positive = 1.0

    @classmethod
    def tuned(
        cls,
        constants: Constants,
        domain: Domain | None = None,
        gain: float = 1.0,
        regulariser: float = 1.0,
    ) -> NoSlater:
        """The published parameters; no horizon is needed."""
        reach, slope = constants.positive("constraint_range", "constraint_lipschitz")
        return cls(reach, slope, sizes(domain, constants)[1], gain, regulariser)

    def init(self, x1: jax.Array, count: int) -> NoSlaterState:
        """Play x1 first, with an empty accumulator."""
        zero = jnp.zeros((), x1.dtype)
        return NoSlaterState(x1, first_round(), zero, zero, zero)

    def step(self, state: NoSlaterState, round: Round) -> NoSlaterState:
        """First the decision with Q_t, then the accumulator with g_t(x_t)."""
        x, t, queue, weights, squares = state
        constraints = round.constraints(x)
        value, rows = largest_row(constraints)
        weight = self._weight(t, queue)
        slope = round.gradient(x) + constraints.pullback(rows * weight)
        squares = squares + jnp.sum(slope**2)
        across, bend, damping = (
            jnp.asarray(p, x.dtype)
            for p in (self.diameter, self.constraint_lipschitz, self.regulariser)
        )
        after = weights + weight**2
        pay = 4 * damping * across * bend * weight / (jnp.sqrt(after) + jnp.sqrt(weights))  # R_t
        moved = round.project(x - across * slope / jnp.sqrt(2 * (1 + squares)))
        return NoSlaterState(moved, t + 1, queue + value - pay, after, squares)

    def _weight(self, t: jax.Array, queue: jax.Array) -> jax.Array:
        """phi_t."""
        dtype = queue.dtype
        reach, bend, across, gain = (
            jnp.asarray(p, dtype)
            for p in (self.constraint_range, self.constraint_lipschitz, self.diameter, self.gain)
        )
        root = jnp.sqrt(t.astype(dtype))
        rate = gain * jnp.minimum(jnp.minimum(1 / (12 * reach * root), 1 / (24 * across * bend)), 1)
        exponent = jnp.clip(rate * queue, LOWEST_EXPONENT, largest_exponent(dtype))
        return jnp.maximum(rate * jnp.exp(exponent), LEAST_WEIGHT)

    def guarantees(self, setting: Setting, horizon: int) -> Iterator[Guarantee]:
        """Say that there is no number."""
        why = "the published bound holds in expectation and has constants that are not specified"
        if float(self.gain) != 1 or float(self.regulariser) != 1:
            why = "the published bound covers gain = 1 and regulariser = 1 only"
        yield Guarantee.none("regret", "Yu, Lee & Lee", why)
        yield Guarantee.none("excess", "Yu, Lee & Lee", why)

    def multiplier(self, state: NoSlaterState, round: Round) -> jax.Array:
        """Return phi_t for the largest constraint."""
        _, rows = largest_row(round.constraints(state.x))
        return rows * self._weight(state.t, state.queue)


_EXPECTED = (
    "rounds are independent and identically distributed, in expectation, with unspecified constants"
)

CARDS = (
    Card(
        "no-slater",
        NoSlater.tuned,
        "No Slater point",
        "Yu, Lee & Lee, 2026",
        needs=("radius", "constraint_lipschitz", "constraint_range"),
        growth={
            "regret": Growth("sqrt T", 0.5, _EXPECTED),
            "excess": Growth("sqrt T log T", 0.5, _EXPECTED),
        },
    ),
)
