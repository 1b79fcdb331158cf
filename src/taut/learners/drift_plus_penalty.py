r"""Drift-plus-penalty: virtual queues accumulate the linearised constraint excess and weight the
constraint gradients.

    x_{t+1} = Pi_B( x_t - (V df_t(x_t) + sum_k Q_{t,k} dg_k(x_t)) / (2 alpha) )
    Q_{t+1,k} = [Q_{t,k} + h_k]_+,   h_k = g_k(x_t) + dg_k(x_t).(x_{t+1} - x_t),   Q_1 = 0

x_{t+1} minimises V df_t.(x - x_t) + sum_k Q_k (g_k(x_t) + dg_k.(x - x_t)) + alpha |x - x_t|^2 over
B, a strongly convex function; together with |Q_{t+1}|^2 <= |Q_t + h|^2 this gives for every x in B,
b_t = |x_t - x|^2,

    (|Q_{t+1}|^2 - |Q_t|^2)/2 + V (f_t(x_t) - f_t(x)) <= Q_t.g_t(x) + alpha (b_t - b_{t+1}) + K,
        (*)
    K = max over 0 <= u <= diameter of  -alpha u^2 + V G_f u + m (D + G_g u)^2 / 2,

u standing for |x_{t+1} - x_t|, because |h_k| <= D + G_g u, D bounding |g|. Constraints may vary
from round to round. Guarantees are on the excess: nothing sublinear is known for the violation.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from .. import arguments
from ..problem.constants import Constants
from ..problem.rounds import Round
from .base import KeepsMultiplier, MultiplierState, learner_dataclass
from .card import ROOT, WITH_SLATER, Card, Growth
from .guarantee import Guarantee, Setting
from .protocols import StepsFromDecision
from .theorem import (
    Count,
    NonNegative,
    OutsideTheorem,
    Positive,
    diameter_of,
    formula_of,
    range_of_losses,
)


@learner_dataclass
class DriftPlusPenalty(StepsFromDecision, KeepsMultiplier):
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

    penalty: Positive
    proximity: Positive

    @classmethod
    def tuned(cls, constants: Constants, horizon: int) -> DriftPlusPenalty:
        """V = sqrt(T), alpha = T, as in the reference; the constants are not used."""
        horizon = arguments.count("horizon", horizon)
        return cls(math.sqrt(horizon), float(horizon))

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
        yield setting.evaluate("regret", drift_plus_penalty_regret, source, **numbers)
        excess = drift_plus_penalty_excess
        without = f"{source}, no Slater point"
        yield setting.evaluate("excess", excess, without, slater=None, **numbers)
        yield setting.evaluate("excess", excess, source, ("slater",), **numbers)

    def multiplier(self, state: MultiplierState, round: Round) -> jax.Array:
        """Return Q_t / V, the multiplier in units of the loss."""
        return state.multiplier / jnp.asarray(self.penalty, state.x.dtype)


@dataclass(frozen=True)
class _Game:
    horizon: Count
    penalty: Positive
    proximity: Positive
    radius: Positive
    loss_lipschitz: NonNegative
    constraint_lipschitz: NonNegative
    constraint_range: NonNegative
    constraint_count: Count
    diameter: Positive | None = None

    @property
    def across(self) -> float:
        return diameter_of(self.diameter, self.radius)

    @property
    def cost(self) -> float:
        """K: the largest value of a parabola in u on [0, diameter]."""
        m, slope, height = self.constraint_count, self.constraint_lipschitz, self.constraint_range
        square = m * slope**2 / 2 - self.proximity
        linear = self.penalty * self.loss_lipschitz + m * height * slope
        top = self.across if square >= 0 else min(self.across, linear / (-2 * square))
        return m * height**2 / 2 + linear * top + square * top**2

    def full_cost(self, loss_range: float | None) -> float:
        """c = V F + K."""
        spread = range_of_losses(loss_range, self.loss_lipschitz, 2 * self.radius)
        return self.penalty * spread + self.cost

    def queue(self, slater: float | None, cost: float) -> float:
        """At least |Q_t| for t = 1..T+1; with `slater` = epsilon, one u has g_{t,k}(u) <= -epsilon
        in all rounds t.

        sqrt(2 alpha r^2 + max(2 c, (c / epsilon)^2)), c = V F + K, r = diameter: by (*) at x = u
        the sum |Q_t|^2 / 2 + alpha |x_t - u|^2 changes by c - epsilon |Q_t| at most, so it falls
        while |Q_t| > c / epsilon. Without a Slater point, and where it is less,
        sqrt(2 (alpha R^2 + c T)), from (*) at the comparator.
        """
        plain = math.sqrt(2 * (self.proximity * self.radius**2 + cost * self.horizon))
        if slater is None:
            return plain
        if slater > self.constraint_range:
            raise OutsideTheorem(
                f"slater: got {slater:g}; expected at most constraint_range = "
                f"{self.constraint_range:g}, which bounds |g|"
            )
        level = cost / slater
        return min(plain, math.sqrt(2 * self.proximity * self.across**2 + max(2 * cost, level**2)))


@formula_of(_Game)
def drift_plus_penalty_regret(game: _Game) -> float:
    """Regret: (alpha R^2 + K T) / V, against decisions feasible in every round; no Slater point is
    needed.

    (*) summed, Q_t.g_t(x) <= 0. With constraints drawn afresh each round it holds in expectation
    against decisions feasible on average, Q_t being known before round t. At V = sqrt(T), alpha =
    T: (R^2 + K) sqrt(T).
    """
    return (game.proximity * game.radius**2 + game.cost * game.horizon) / game.penalty


@formula_of(_Game)
def drift_plus_penalty_excess(
    game: _Game, *, slater: Positive | None = None, loss_range: NonNegative | None = None
) -> float:
    r"""Sum over rounds of g_{t,k}(x_t), each k: O(sqrt(T)) with a Slater point for all rounds,
    O(T^(3/4)) without.

    Q_{T+1,k} >= sum_t (g_k(x_t) - G_g |x_{t+1} - x_t|), |x_{t+1} - x_t| <= (V G_f + sqrt(m) G_g
    |Q_t|) / (2 alpha), so at most Q + (G_g / (2 alpha))(V G_f T + sqrt(m) G_g sum_t |Q_t|), Q the
    bound on |Q_t|, and sum_t |Q_t| <= T Q, or (alpha r^2 + c T) / epsilon by (*) at the
    Slater point summed, whichever is less.
    """
    cost = game.full_cost(loss_range)
    queue = game.queue(slater, cost)
    queues = game.horizon * queue
    if slater is not None:
        queues = min(queues, (game.proximity * game.across**2 + cost * game.horizon) / slater)
    pull = math.sqrt(game.constraint_count) * game.constraint_lipschitz * queues
    moves = (game.penalty * game.loss_lipschitz * game.horizon + pull) / (2 * game.proximity)
    return queue + game.constraint_lipschitz * moves


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
