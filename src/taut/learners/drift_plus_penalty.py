r"""Drift-plus-penalty: virtual queues accumulate the linearised constraint excess and weight the
constraint gradients.

x_{t+1} = Pi_B( x_t - (1 / 2 alpha) (V df_t(x_t) + sum_i Q_{t,i} dg_i(x_t)) )
Q_{t+1} = [ Q_t + g(x_t) + dg(x_t)' (x_{t+1} - x_t) ]_+
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp

from .. import arguments
from ..problem.constants import Constants
from ..problem.rounds import Round
from . import bounds
from .base import Guarantee, Learner, MultiplierState, Setting, first_round, learner_dataclass
from .card import ROOT, WITH_SLATER, Card, Growth
from .protocols import StepsFromDecision
from .schedules import check_positive


@learner_dataclass
class DriftPlusPenalty(StepsFromDecision, Learner):
    r"""Minimise the linear models of loss and constraints, weighted by queues, plus a proximal
    term.

        x_{t+1} = argmin_{x in B} V <df_t, x> + <Q_t, dg(x_t) x> + alpha ||x - x_t||^2

    The queues Q_t add up the linearised excess.

    Guarantee: under Slater's condition, O(sqrt(T)) regret and signed violation. Negative excess
    offsets violations: the clipped sum can grow like T. Clipping g inside it would destroy Slater's
    condition, so there is no clipped form.

    Arguments:
        penalty: V, the weight of the loss.
        proximity: alpha, the weight of staying near x_t.

    Reference: Yu, Neely & Wei, "Online convex optimization with stochastic constraints", NeurIPS
    2017.

    >>> import taut
    >>> taut.DriftPlusPenalty.tuned(taut.Constants(), horizon=10_000)
    DriftPlusPenalty(penalty=100.0, proximity=10000.0)
    """

    penalty: Any
    proximity: Any

    def __post_init__(self) -> None:
        check_positive("penalty", self.penalty)
        check_positive("proximity", self.proximity)

    @classmethod
    def tuned(cls, constants: Constants, horizon: int) -> DriftPlusPenalty:
        """V = sqrt(T), alpha = T, as in the reference; the constants are not used."""
        horizon = arguments.count("horizon", horizon)
        return cls(math.sqrt(horizon), float(horizon))

    def init(self, x1: jax.Array, count: int) -> MultiplierState:
        """Return the state that plays x1 first, with empty queues."""
        return MultiplierState(x1, first_round(), jnp.zeros((count,), x1.dtype))

    def step(self, state: MultiplierState, round: Round) -> MultiplierState:
        """Update the decision with Q_t, then the queues with the new decision."""
        x, t, queue = state
        excess, pull, push = round.constraints(x)
        penalty, proximity = (jnp.asarray(p, x.dtype) for p in (self.penalty, self.proximity))
        x_next = round.project(x - (penalty * round.gradient(x) + pull(queue)) / (2 * proximity))
        return MultiplierState(x_next, t + 1, jnp.maximum(queue + excess + push(x_next - x), 0))

    def guarantees(self, setting: Setting, horizon: int) -> Iterator[Guarantee]:
        """Yield the bounds of Yu, Neely & Wei, with and without a Slater point."""
        source = "Yu, Neely & Wei"
        numbers: dict[str, Any] = {
            "horizon": horizon,
            "penalty": float(self.penalty),
            "proximity": float(self.proximity),
        }
        yield setting.evaluate("regret", bounds.drift_plus_penalty_regret, source, **numbers)
        excess = bounds.drift_plus_penalty_excess
        without = f"{source}, no Slater point"
        yield setting.evaluate("excess", excess, without, slater=None, **numbers)
        yield setting.evaluate("excess", excess, source, ("slater",), **numbers)

    def multiplier(self, state: MultiplierState, round: Round) -> jax.Array:
        """Return Q_t / V, the multiplier in units of the loss."""
        return state.multiplier / jnp.asarray(self.penalty, state.x.dtype)


CARDS = (
    Card(
        "drift-plus-penalty",
        DriftPlusPenalty.tuned,
        "Drift-plus-penalty",
        "Yu, Neely & Wei, NeurIPS 2017",
        assumptions=WITH_SLATER,
        oracles=frozenset({"gradient", "values", "pullback", "pushforward", "project"}),
        cost="1 projection, m constraint values, 1 vector-Jacobian and 1 Jacobian-vector product",
        separate=True,
        slater=True,
        growth={"regret": ROOT, "excess": Growth("sqrt T", 0.5, "Slater's condition holds")},
    ),
)
