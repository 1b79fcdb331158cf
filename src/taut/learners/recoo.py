r"""RECOO with the linear model: a half-space step whose length is capped by a growing penalty.

    y       = x_t - eta_t df_t(x_t),   eta_t = 1 / (2 alpha_t),   alpha_t = sqrt(t) G_f / D
    Q_t     = max( Q_{t-1} + gamma_t [g_t(x_t)]_+, sqrt(t) ),     gamma_t = t^0.6,   Q_0 = 1
    x_{t+1} = Pi_B( y - min( Q_t gamma_t / (2 alpha_t), [l_t]_+ / |s_t|^2 ) s_t ),
        l_t = g_t(x_t) + s_t.(y - x_t)

It minimises <df_t, u> + Q_t gamma_t [g_t(x_t) + s_t.(u - x_t)]_+ + alpha_t |u - x_t|^2 over all u,
and then projects.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from ..problem.constants import Constants
from ..problem.domains import Domain
from ..problem.rounds import Round
from .base import Learner, first_round, largest_row, learner_dataclass, sizes
from .card import Card
from .protocols import StepsFromDecision
from .theorem import Positive

GROWTH = 0.6
"""gamma_t = t^0.6."""


class RecooState(NamedTuple):
    """The state of RECOO."""

    x: jax.Array
    t: jax.Array
    queue: jax.Array
    """Q, which bounds the penalty of the next round from below."""


@learner_dataclass
class Recoo(StepsFromDecision, Learner):
    r"""A half-space step that is capped by Q_t gamma_t / (2 alpha_t).

    No guarantee is stated: the published proof needs the constraint itself, not its linear model,
    in the minimisation. In our measurements the cap is never active, and the method then equals
    `half-space-anytime` without memory.

    Arguments:
        scale: D / (2 G_f), so that eta_t = scale / sqrt t.

    Reference: Guo, Liu, Wei & Ying, "Online convex optimization with hard constraints", NeurIPS
    2022.

    >>> import taut
    >>> taut.learner("recoo", taut.Constants(radius=1.0, loss_lipschitz=1.0))
    Recoo(scale=1.0)
    """

    scale: Positive

    @classmethod
    def tuned(cls, constants: Constants, domain: Domain | None = None) -> Recoo:
        """alpha_t = sqrt(t) G_f / D."""
        (slope,) = constants.positive("loss_lipschitz")
        return cls(sizes(domain, constants)[1] / (2 * slope))

    def init(self, x1: jax.Array, count: int) -> RecooState:
        """Play x1 first, with a queue of 1."""
        return RecooState(x1, first_round(), jnp.ones((), x1.dtype))

    def step(self, state: RecooState, round: Round) -> RecooState:
        """Step on the loss, then at most the cap along the largest constraint."""
        x, t, queue = state
        constraints = round.constraints(x)
        excess, row = largest_row(constraints)
        time = t.astype(x.dtype)
        eta = jnp.asarray(self.scale, x.dtype) / jnp.sqrt(time)
        growth = time**GROWTH
        queue = jnp.maximum(queue + growth * jnp.maximum(excess, 0), jnp.sqrt(time))
        y = x - eta * round.gradient(x)
        slope = constraints.pullback(row)
        squared = jnp.sum(jnp.square(slope))
        model = excess + jnp.sum(slope * (y - x))
        length = jnp.where(
            squared > 0, jnp.maximum(model, 0) / jnp.where(squared > 0, squared, 1), 0
        )
        return RecooState(
            round.project(y - jnp.minimum(queue * growth * eta, length) * slope), t + 1, queue
        )


CARDS = (
    Card(
        "recoo",
        Recoo.tuned,
        "RECOO (linear model)",
        "Guo, Liu, Wei & Ying, NeurIPS 2022, with a linear model",
        needs=("loss_lipschitz",),
    ),
)
