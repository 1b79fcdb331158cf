"""Projected online gradient descent: x_{t+1} = P_S(x_t - eta_t df_t(x_t)), the violation-free
yardstick.

Both results sum 2 eta_t df_t(x_t).(x_t - x) <= b_t - b_{t+1} + eta_t^2 G_f^2, b_t = |x_t - x|^2.
Only the distance of x_1 to the comparator (`radius`) and between two feasible decisions
(`diameter`) enter. The violation is zero from the second round on, and in the first if x_1 is
feasible.
"""

from __future__ import annotations

import math

from .step_sums import Steps, diameter_of
from .theorem import Count, NonNegative, Positive, Power, formula

__all__ = ["hazan_regret", "projected_regret"]


@formula
def projected_regret(
    *,
    horizon: Count,
    eta: Positive,
    radius: Positive,
    loss_lipschitz: NonNegative,
    beta: Power = 0.0,
    diameter: Positive | None = None,
) -> float:
    r"""Regret for any step eta_t = eta / t^beta, beta in [0, 1): Zinkevich's inequality without
    tuning.

    (D^2 / eta_T - (D^2 - R^2) / eta_1) / 2 + (G_f^2 / 2) sum_t eta_t; with a fixed step (beta = 0),
    R^2 / (2 eta) + eta T G_f^2 / 2. D = `diameter`, 2 R where it is not given. With R = D and the
    steps D / (G_f sqrt(t)) it is at most 1.5 G_f D sqrt(T) for every T; with the fixed step D /
    (G_f sqrt(T)), G_f D sqrt(T).
    """
    steps, across = Steps(eta, beta), diameter_of(diameter, radius)
    return steps.distance_term(horizon, radius, across) + loss_lipschitz**2 * steps.sum(horizon) / 2


@formula
def hazan_regret(
    *, horizon: Count, strong_convexity: Positive, loss_lipschitz: NonNegative
) -> float:
    """Hazan, Agarwal and Kale (2007), H-strongly convex losses, eta_t = 1 / (H t): (G_f^2 / (2
    H))(1 + ln T).

    Strong convexity adds -H b_t; with these steps the coefficients of every b_t vanish, the first
    included, so no distance enters; the steps sum to at most (1 + ln T) / H.
    """
    return loss_lipschitz**2 / (2 * strong_convexity) * (1 + math.log(horizon))
