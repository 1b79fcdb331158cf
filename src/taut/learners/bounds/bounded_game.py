r"""The bounded-multiplier game: gradient descent in x against gradient ascent in lambda on {lambda
>= 0, sum lambda <= M}.

    x_{t+1} = P_B(x_t - eta_t (df_t(x_t) + lambda_t.dg_t(x_t))),
        lambda_{t+1} = P(lambda_t + mu_t g_t(x_t)),   lambda_1 = 0,

with eta_t = eta / t^b and mu_t = mu / t^b, b in [0, 1). Let A be the regret bound of the first
player, whose gradients are at most G_f + M G_g long, and C that of the second, whose gradients are
at most sqrt(m) max|g| long on a set of diameter M (sqrt(2) M for several constraints). Adding the
two gives for every lambda in the set and every x with lambda_t.g_t(x) <= 0 for all t

    Regret_T + lambda . sum_t g_t(x_t) <= A + C.   (*)
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from .step_sums import Steps, range_of_losses
from .theorem import Count, NonNegative, OutsideTheorem, Positive, Power, formula_of

__all__ = ["bounded_game_expected_excess", "bounded_game_regret"]


@dataclass(frozen=True)
class _Game:
    horizon: Count
    eta: Positive
    mu: Positive
    limit: Positive
    radius: Positive
    diameter: Positive
    loss_lipschitz: NonNegative
    constraint_lipschitz: NonNegative
    constraint_range: NonNegative
    constraint_count: Count
    beta: Power = 0.5

    @property
    def total(self) -> float:
        """A + C."""
        rounds, most = self.horizon, self.limit
        slope = self.loss_lipschitz + most * self.constraint_lipschitz
        height = math.sqrt(self.constraint_count) * self.constraint_range
        down, up = Steps(self.eta, self.beta), Steps(self.mu, self.beta)
        first = down.distance_term(rounds, self.radius, max(self.radius, self.diameter))
        first += slope**2 * down.sum(rounds) / 2
        width = most if self.constraint_count == 1 else math.sqrt(2) * most
        return first + up.distance_term(rounds, most, width) + height**2 * up.sum(rounds) / 2


@formula_of(_Game)
def bounded_game_regret(game: _Game) -> float:
    r"""Regret: A + C, against decisions that are feasible in every round; (*) at lambda = 0.

    For rounds that are independent and identically distributed it holds in expectation against
    decisions that are feasible on average. `limit` is M. Tuned with b = 1/2: at most 1.5 ((G_f + M
    G_g) D + M max|g|) sqrt(T) for one constraint.
    """
    return game.total


@formula_of(_Game)
def bounded_game_expected_excess(
    game: _Game, *, slater: Positive, loss_range: NonNegative | None = None
) -> float:
    r"""Expected sum over rounds of g_{t,k}(x_t), each k, for i.i.d. rounds with E g_k(u) <=
    -epsilon: (A + C) / (M - F / epsilon).

    Let f, g be the expected loss and constraints, and y the expectation of the mean decision.
    Jensen's inequality gives E Regret >= T (f(y) - f(x)) and T g_k(y) <= e_k, the expected sum.
    Lagrange multipliers of the expected problem add up to at most F / epsilon, so f(y) - f(x) >=
    -(F / epsilon) max_k [g_k(y)]_+, and (*) at lambda = M times the k-th unit vector, in
    expectation, is M e_k <= A + C + (F / epsilon) max_k [e_k]_+.
    """
    multiplier = range_of_losses(loss_range, game.loss_lipschitz, game.diameter) / slater
    if game.limit <= multiplier:
        raise OutsideTheorem(
            f"limit: got {game.limit:g}; expected more than loss_range / slater = "
            f"{multiplier:g}, which bounds the optimal multipliers"
        )
    return game.total / (game.limit - multiplier)
