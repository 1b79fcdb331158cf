r"""Gradient descent on an exact penalty, as a package that adds a method to taut.

    x_{t+1} = Pi_B( x_t - eta_t (df_t(x_t) + weight * d max_i [g_i(x_t)]_+) ),    eta_t = D / ((G_f
    + weight G_g) sqrt(t))

The penalised loss is convex with slope G_f + weight G_g, and the penalty of a feasible decision is
zero. Zinkevich's theorem therefore bounds regret plus weight times the clipped violation by 1.5
(G_f + weight G_g) D sqrt(T), for every T.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax.numpy as jnp

import taut
from taut.learners import State

NEEDS = ("loss_lipschitz", "constraint_lipschitz")


def regret_bound(
    *,
    horizon: int,
    diameter: float,
    weight: float,
    loss_lipschitz: float,
    constraint_lipschitz: float,
) -> float:
    """Bound regret plus weight times violation; regret alone is smaller."""
    return float(1.5 * (loss_lipschitz + weight * constraint_lipschitz) * diameter * horizon**0.5)


def violation_bound(
    *,
    horizon: int,
    diameter: float,
    weight: float,
    loss_lipschitz: float,
    constraint_lipschitz: float,
) -> float:
    """Bound the clipped violation: regret is never below -G_f D T."""
    numbers = {"loss_lipschitz": loss_lipschitz, "constraint_lipschitz": constraint_lipschitz}
    total = regret_bound(horizon=horizon, diameter=diameter, weight=weight, **numbers)
    return (total + loss_lipschitz * diameter * horizon) / weight


@taut.learner_dataclass
class ExactPenalty(taut.Learner):
    """Descend along the loss plus `weight` times the largest violation; `eta` is the first step
    size."""

    eta: float
    weight: float

    @classmethod
    def tuned(
        cls, constants: taut.Constants, domain: taut.Domain, weight: float = 1.0
    ) -> ExactPenalty:
        """Compute the step size from the constants G_f and G_g and the domain's diameter."""
        loss_slope, slope = constants.need(*NEEDS)
        return cls(float(domain.diameter) / (loss_slope + weight * slope), weight)

    def init(self, x1: Any, count: int) -> State:
        """Start at x1."""
        return State(x1, jnp.asarray(1, jnp.int32))

    def step(self, state: Any, round: Any) -> State:
        """Take a subgradient step on the penalised loss."""
        x, t = state
        eta, weight = (
            jnp.asarray(parameter, x.dtype) for parameter in (self.eta, self.weight)
        )  # 32 bits stay 32 bits
        values, pullback, _ = round.constraints(x)
        worst = (jnp.arange(values.shape[0]) == jnp.argmax(values)) & (values > 0)
        slope = round.gradient(x) + pullback(weight * worst.astype(x.dtype))
        return State(round.project(x - eta / jnp.sqrt(t.astype(x.dtype)) * slope), t + 1)

    def guarantees(self, setting: taut.Setting, horizon: int) -> Iterator[taut.Guarantee]:
        """Yield Zinkevich's bound for the penalised losses."""
        numbers: dict[str, Any] = {
            "horizon": horizon,
            "diameter": setting.diameter,
            "weight": float(self.weight),
        }
        yield setting.evaluate("regret", regret_bound, "Zinkevich, penalised", NEEDS, **numbers)
        yield setting.evaluate(
            "violation", violation_bound, "Zinkevich, penalised", NEEDS, **numbers
        )


CARD = taut.Card(
    "exact-penalty",
    ExactPenalty.tuned,
    title="Exact penalty",
    reference="Zinkevich, ICML 2003, for a penalised loss",
    needs=NEEDS,
    growth={"regret": taut.Growth("sqrt T", 0.5), "violation": taut.Growth("T", 1.0)},
)
