r"""Experts over step sizes: N copies with steps eta 2^e, mixed by exponential weights, against
comparators u_t that move.

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
"""

from __future__ import annotations

import math

from ... import arguments

__all__ = ["step_experts_penalty_regret", "step_experts_regret"]


def step_experts_regret(
    *,
    horizon: int,
    eta: float,
    count: int,
    rate: float,
    penalty: float,
    radius: float,
    diameter: float,
    loss_lipschitz: float,
    constraint_lipschitz: float,
    path_length: float = 0.0,
) -> float:
    r"""Dynamic regret with cuts: min_e (copy) + (mixture) + mu G_g sqrt(T (cuts)), of order T^(3/4)
    unless mu = 0.

    It bounds sum_t p_t.(x_t - u_t), and with it sum_t f_t(x_t) - f_t(u_t). The last term is there
    because a copy may lie outside the cut; a statement without it, as O(sqrt(T (1 + P))), is proved
    for mu = 0 only. `eta` is the smallest step, `rate` is a.
    """
    game = _Checked(
        horizon,
        eta,
        count,
        rate,
        penalty,
        radius,
        diameter,
        loss_lipschitz,
        constraint_lipschitz,
        path_length,
    )
    rounds, across = game.horizon, game.diameter

    def along(step: float) -> float:
        outside = (
            game.start
            + 2 * step * loss_lipschitz * across * rounds
            + (step * loss_lipschitz) ** 2 * rounds
        )
        return game.copy(step, loss_lipschitz) + penalty * constraint_lipschitz * math.sqrt(
            rounds * outside
        )

    return min(along(step) for step in game.steps) + game.mixture


def step_experts_penalty_regret(
    *,
    horizon: int,
    eta: float,
    count: int,
    rate: float,
    penalty: float,
    radius: float,
    diameter: float,
    loss_lipschitz: float,
    constraint_lipschitz: float,
    path_length: float = 0.0,
) -> float:
    r"""Dynamic regret plus mu times the clipped violation, without cuts: min_e (copy with G_f + mu
    G_g) + (mixture).

    Every copy gets the gradient l_t = p_t + mu s_t 1[g_t(x_t) > 0] of the exact penalty, and the
    weights shrink by exp(-a l_t.x_e). l_t.(x_t - u_t) >= f_t(x_t) - f_t(u_t) + mu [g_t(x_t)]_+, so
    this is of order sqrt(T (1 + P)).
    """
    game = _Checked(
        horizon,
        eta,
        count,
        rate,
        penalty,
        radius,
        diameter,
        loss_lipschitz,
        constraint_lipschitz,
        path_length,
    )
    return min(game.copy(step, game.slope) for step in game.steps) + game.mixture


class _Checked:
    def __init__(
        self,
        horizon: int,
        eta: float,
        count: int,
        rate: float,
        penalty: float,
        radius: float,
        diameter: float,
        loss_lipschitz: float,
        constraint_lipschitz: float,
        path_length: float,
    ) -> None:
        self.horizon, count = arguments.count("horizon", horizon), arguments.count("count", count)
        self.diameter = arguments.positive("diameter", diameter)
        base, self.rate = arguments.positive("eta", eta), arguments.positive("rate", rate)
        self.steps = [base * 2**e for e in range(count)]
        weight = arguments.non_negative("penalty", penalty)
        self.slope = arguments.non_negative("loss_lipschitz", loss_lipschitz)
        self.slope += weight * arguments.non_negative("constraint_lipschitz", constraint_lipschitz)
        length = arguments.non_negative("path_length", path_length)
        self.start = arguments.positive("radius", radius) ** 2 + 2 * self.diameter * length

    def copy(self, step: float, slope: float) -> float:
        """The regret of one copy, on gradients of at most this length."""
        return self.start / (2 * step) + step * slope**2 * self.horizon / 2

    @property
    def mixture(self) -> float:
        """What the mixture loses against its best copy."""
        spread = self.diameter * self.slope
        return math.log(len(self.steps)) / self.rate + self.rate * self.horizon * spread**2 / 8
