"""Projected online gradient descent: x_{t+1} = P_S(x_t - eta_t df_t(x_t)), the violation-free
yardstick.

Both results sum 2 eta_t df_t(x_t).(x_t - x) <= b_t - b_{t+1} + eta_t^2 G_f^2, b_t = |x_t - x|^2.
Only the distance of x_1 to the comparator (`radius`) and between two feasible decisions
(`diameter`) enter. The violation is zero from the second round on, and in the first if x_1 is
feasible.
"""

from __future__ import annotations

import math

from ... import arguments
from .step_sums import Steps, diameter_of

__all__ = ["hazan_regret", "projected_regret", "zinkevich_regret"]


def zinkevich_regret(
    *, horizon: int, diameter: float, loss_lipschitz: float, anytime: bool = True
) -> float:
    """Zinkevich (2003), steps tuned: 1.5 G_f D sqrt(T) for eta_t = D / (G_f sqrt(t)), every T at
    once.

    With `anytime=False`, the fixed step eta = D / (G_f sqrt(T)): G_f D sqrt(T). D also bounds |x_1
    - x|.
    """
    factor = 1.5 if anytime else 1.0
    across, lipschitz = (
        arguments.positive("diameter", diameter),
        arguments.non_negative("loss_lipschitz", loss_lipschitz),
    )
    return factor * lipschitz * across * math.sqrt(arguments.count("horizon", horizon))


def projected_regret(
    *,
    horizon: int,
    eta: float,
    radius: float,
    loss_lipschitz: float,
    beta: float = 0.0,
    diameter: float | None = None,
) -> float:
    r"""Regret for any step eta_t = eta / t^beta, beta in [0, 1): Zinkevich's inequality without
    tuning.

    (D^2 / eta_T - (D^2 - R^2) / eta_1) / 2 + (G_f^2 / 2) sum_t eta_t; with a fixed step (beta = 0),
    R^2 / (2 eta) + eta T G_f^2 / 2. D = `diameter`, 2 R where it is not given.
    """
    power = 0.0 if beta == 0 else arguments.fraction("beta", beta)
    steps, rounds = (
        Steps(arguments.positive("eta", eta), power),
        arguments.count("horizon", horizon),
    )
    across = diameter_of(diameter, radius)
    loss = arguments.non_negative("loss_lipschitz", loss_lipschitz) ** 2 * steps.sum(rounds) / 2
    return steps.distance_term(rounds, radius, across) + loss


def hazan_regret(*, horizon: int, strong_convexity: float, loss_lipschitz: float) -> float:
    """Hazan, Agarwal and Kale (2007), H-strongly convex losses, eta_t = 1 / (H t): (G_f^2 / (2
    H))(1 + ln T).

    Strong convexity adds -H b_t; with these steps the coefficients of every b_t vanish, the first
    included, so no distance enters; the steps sum to at most (1 + ln T) / H.
    """
    curvature = arguments.positive("strong_convexity", strong_convexity)
    lipschitz = arguments.non_negative("loss_lipschitz", loss_lipschitz)
    return lipschitz**2 / (2 * curvature) * (1 + math.log(arguments.count("horizon", horizon)))
