r"""CVV-Pro: constraints on the velocity of the decision, all violated ones together.

    V_t     = {u : alpha eta_t g_i(x_t) + dg_i(x_t).(u - x_t) <= 0 for every i with g_i(x_t) >= 0}
    x_{t+1} = Pi_B( Pi_{V_t}( x_t - eta_t df_t(x_t) ) ),     eta_t = 1 / (alpha sqrt t)

The decision approaches the feasible set at the rate alpha instead of in one step. The projection
onto V_t is a small quadratic program, solved in the dual one multiplier at a time (Hildreth). With
the largest constraint alone the method fails (its violation then grows like T), so it must not be
played on `taut.max_of(problem)` of several constraints.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from ..problem.constants import Constants
from ..problem.domains import Domain
from ..problem.domains.base import finfo
from ..problem.rounds import Round
from .base import Learner, State, first_round, learner_dataclass, sizes
from .card import Card
from .protocols import StepsFromDecision
from .theorem import Positive

PASSES = 200
"""Passes over the multipliers at most."""


@learner_dataclass
class CVVPro(StepsFromDecision, Learner):
    r"""x_{t+1} = Pi_B( projection of x_t - eta_t df_t(x_t) onto the velocity constraints of all
    violated rows ).

    Guarantee in the reference: O(sqrt T) regret and violation if constraints change by O(1/t) from
    round to round. No bound with explicit constants is known to us, so certificates show none.

    Arguments:
        rate: alpha.

    Reference: Kolev, Martius & Muehlebach, "Online learning under adversarial nonlinear
    constraints", NeurIPS 2023.

    >>> import taut
    >>> taut.learner("cvv-pro", taut.Constants(radius=1.0, loss_lipschitz=1.0))
    CVVPro(rate=1.0)
    """

    rate: Positive

    @classmethod
    def tuned(cls, constants: Constants, domain: Domain | None = None) -> CVVPro:
        """alpha = 2 G_f / D."""
        (slope,) = constants.positive("loss_lipschitz")
        return cls(2 * slope / sizes(domain, constants)[1])

    def init(self, x1: jax.Array, count: int) -> State:
        """Play x1 first."""
        return State(x1, first_round())

    def step(self, state: State, round: Round) -> State:
        """Step on the loss, then project on the velocity constraints of all rows that are not
        satisfied strictly."""
        x, t = state
        constraints = round.constraints(x)
        values, slopes = constraints.values, constraints.jacobian()
        rate = jnp.asarray(self.rate, x.dtype)
        root = jnp.sqrt(t.astype(x.dtype))
        step = round.gradient(x) / (rate * root)
        # Of the velocity constraints at y.
        excess = values / root - jnp.sum(slopes * step.reshape(1, -1), axis=1)
        weights = _multipliers(slopes, excess, values >= 0)
        move = jnp.sum(weights[:, None] * slopes, axis=0).reshape(x.shape)
        return State(round.project(x - step - move), t + 1)


def _multipliers(slopes: jax.Array, excess: jax.Array, used: jax.Array) -> jax.Array:
    """Return the multipliers w >= 0 of the projection y - w slopes onto the rows that are used."""
    products = slopes @ slopes.T
    squared = jnp.diagonal(products)
    used = used & (squared > 0)
    inverse = jnp.where(used, 1 / jnp.where(used, squared, 1), 0)
    limit = 16 * finfo(excess.dtype).eps * jnp.max(jnp.where(used, jnp.abs(excess) * inverse, 0))

    def one(j: jax.Array, weights: jax.Array) -> jax.Array:
        better = weights[j] + (excess[j] - jnp.sum(products[j] * weights)) * inverse[j]
        return weights.at[j].set(jnp.maximum(better, 0))

    def once(carry: tuple[Any, ...]) -> tuple[Any, ...]:
        count, before, _ = carry
        after = lax.fori_loop(0, excess.shape[0], one, before)
        return count + 1, after, jnp.max(jnp.abs(after - before)) > limit

    start = (jnp.zeros((), jnp.int32), jnp.zeros_like(excess), jnp.any(used & (excess > 0)))
    return lax.while_loop(lambda carry: (carry[0] < PASSES) & carry[2], once, start)[1]


CARDS = (
    Card(
        "cvv-pro",
        CVVPro.tuned,
        "CVV-Pro",
        "Kolev, Martius & Muehlebach, NeurIPS 2023",
        cost="1 projection, m constraint values, m vector-Jacobian products, a small quadratic "
        "program",
        needs=("loss_lipschitz",),
        separate=True,
        solves_program=True,
    ),
)
