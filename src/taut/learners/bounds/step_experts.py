r"""Mixtures of experts: copies with different steps, and a learner with advisers.

N copies with steps eta 2^e are mixed by exponential weights, against comparators u_t that move.

All copies get the gradient p_t and the cut H_t = {u : g_t(x_t) + s_t.(u - x_t) <= 0} of the common
decision x_t = sum_e w_{t,e} x_{t,e}, and move to P_B(P_H(x_{t,e} - eta_e p_t)). Weights shrink by
exp(-a l_{t,e}) with l_{t,e} = p_t.(x_{t,e} - x_t) + mu [g_t(x_t) + s_t.(x_{t,e} - x_t)]_+. Let u_t
be feasible in round t, P = sum_t |u_{t+1} - u_t|, R >= |x_1 - u_1| and D the diameter. Then, for
every copy,

    sum_t p_t.(x_{t,e} - u_t) <= (R^2 + 2 D P) / (2 eta_e) + eta_e G_f^2 T / 2   (copy)
    sum_t dist(x_{t,e}, H_t)^2 <= R^2 + 2 D P + 2 eta_e G_f D T + eta_e^2 G_f^2 T   (cuts)

and, as l spans at most D (G_f + mu G_g), and its mean is at least mu [g_t(x_t)]_+ by Jensen's
inequality,

    mu sum_t [g_t(x_t)]_+ - sum_t l_{t,e} <= ln N / a + a T D^2 (G_f + mu G_g)^2 / 8.   (mixture)

Advisers are mixed with a learner by AdaHedge (de Rooij, van Erven, Grunwald & Koolen, 2014;
docs/theory.md, C1). With s_t the range of the K experts' losses in round t and S the largest of
them, the mixture is behind its best expert by at most Delta_{T-1} + Delta_T <= sqrt(ln K sum_t
s_t^2) + 2 S. Losses with gradients of at most G_f over a domain of diameter D have s_t <= G_f D.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from .theorem import Count, NonNegative, OutsideTheorem, Positive, formula, formula_of

__all__ = ["advice_regret", "step_experts_penalty_regret", "step_experts_regret"]


@dataclass(frozen=True)
class _Game:
    horizon: Count
    eta: Positive
    count: Count
    rate: Positive
    penalty: NonNegative
    radius: Positive
    diameter: Positive
    loss_lipschitz: NonNegative
    constraint_lipschitz: NonNegative
    path_length: NonNegative = 0.0

    @property
    def steps(self) -> list[float]:
        return [self.eta * 2**e for e in range(self.count)]

    @property
    def slope(self) -> float:
        """G_f + mu G_g."""
        return self.loss_lipschitz + self.penalty * self.constraint_lipschitz

    @property
    def start(self) -> float:
        """R^2 + 2 D P."""
        return self.radius**2 + 2 * self.diameter * self.path_length

    def copy(self, step: float, slope: float) -> float:
        """The regret of one copy, on gradients of at most this length."""
        return self.start / (2 * step) + step * slope**2 * self.horizon / 2

    @property
    def mixture(self) -> float:
        """What the mixture loses against its best copy."""
        spread = self.diameter * self.slope
        return math.log(self.count) / self.rate + self.rate * self.horizon * spread**2 / 8


@formula_of(_Game)
def step_experts_regret(game: _Game) -> float:
    r"""Dynamic regret with cuts: min_e (copy) + (mixture) + mu G_g sqrt(T (cuts)), of order T^(3/4)
    unless mu = 0.

    It bounds sum_t p_t.(x_t - u_t), and with it sum_t f_t(x_t) - f_t(u_t). The last term is there
    because a copy may lie outside the cut; a statement without it, as O(sqrt(T (1 + P))), is proved
    for mu = 0 only. `eta` is the smallest step, `rate` is a.
    """
    rounds, slope = game.horizon, game.loss_lipschitz
    weight = game.penalty * game.constraint_lipschitz

    def along(step: float) -> float:
        outside = game.start + 2 * step * slope * game.diameter * rounds
        outside += (step * slope) ** 2 * rounds
        return game.copy(step, slope) + weight * math.sqrt(rounds * outside)

    return min(along(step) for step in game.steps) + game.mixture


@formula_of(_Game)
def step_experts_penalty_regret(game: _Game) -> float:
    r"""Dynamic regret plus mu times the clipped violation, without cuts: min_e (copy with G_f + mu
    G_g) + (mixture).

    Every copy gets the gradient l_t = p_t + mu s_t 1[g_t(x_t) > 0] of the exact penalty, and the
    weights shrink by exp(-a l_t.x_e). l_t.(x_t - u_t) >= f_t(x_t) - f_t(u_t) + mu [g_t(x_t)]_+, so
    this is of order sqrt(T (1 + P)).
    """
    return min(game.copy(step, game.slope) for step in game.steps) + game.mixture


@formula
def advice_regret(
    *, horizon: Count, experts: Count, diameter: Positive, loss_lipschitz: NonNegative
) -> float:
    r"""G_f D (sqrt(T ln K) + 2), before a run; afterwards the observed Delta_{T-1} + Delta_T is
    smaller.

    Arguments:
        horizon: T.
        experts: K, the learner and the advisers.
        diameter: D, of the domain.
        loss_lipschitz: G_f.

    >>> round(advice_regret(horizon=100, experts=2, diameter=2.0, loss_lipschitz=1.0), 3)
    20.651
    """
    if experts < 2:
        raise OutsideTheorem(f"experts: got {experts}; expected the learner and an adviser")
    return loss_lipschitz * diameter * (math.sqrt(horizon * math.log(experts)) + 2)
