r"""Clipped-OGD for strongly convex losses: Theorem 2 of Yuan and Lamperski (2018), and its squared
version.

Steps eta_t = 1 / (H (t + 1)), feasibility step 1/sigma (the paper: sigma = (m+1) G^2). Strong
convexity adds -(H/2) eta_t b_t to the right of the one-round inequality of `clipped_ogd`, with b_t
= |x_t - x|^2:

    eta_t (f_t(x_t) - f_t(x)) + (alpha/sigma) s_t^2 <= (b_t - b_{t+1})/2 - H eta_t b_t / 2 +
    (eta_t^2/2) A G_f^2.  (*)

Constraints may vary from round to round, R and `form` are as in `clipped_ogd`.

A loss that is H-strongly convex and G_f-Lipschitz cannot be far below the comparator's:
f_t(x) - f_t(x_t) <= G_f sqrt(b_t) - H b_t / 2 <= G_f^2 / (2 H), so F is never taken larger than
that.
"""

from __future__ import annotations

import math

from ... import arguments
from .step_sums import Split, Steps, range_of_losses

__all__ = ["strong_clipped_regret", "strong_clipped_squared_violation", "strong_clipped_violation"]


def strong_clipped_regret(
    *,
    horizon: int,
    strong_convexity: float,
    sigma: float,
    radius: float,
    loss_lipschitz: float,
    constraint_lipschitz: float,
    constraint_count: int,
    form: str = "scale-aware",
) -> float:
    r"""Regret: (H/2) R^2 + (A G_f^2 / (2 H)) ln(T + 1)  (Theorem 2).

    (*) divided by eta_t and summed: the coefficient of b_1 is H - H/2 and those of b_2, b_3, ...
    vanish; the steps sum to at most ln(T+1) / H. The paper has b_1 H for the first term (twice too
    much, harmless) and log(T) for the second (too little: zero at T = 1, where the sum is 1/2).
    """
    split = Split.checked(form, sigma, loss_lipschitz, constraint_lipschitz, constraint_count)
    rounds, radius, curvature = _checked(horizon, radius, strong_convexity)
    loss = split.loss_lipschitz**2 * math.log(rounds + 1) / (2 * curvature)
    return curvature * radius**2 / 2 + split.loss_factor * loss


def strong_clipped_squared_violation(
    *,
    horizon: int,
    strong_convexity: float,
    sigma: float,
    radius: float,
    loss_lipschitz: float,
    constraint_lipschitz: float,
    constraint_count: int,
    loss_range: float | None = None,
    form: str = "scale-aware",
) -> float:
    r"""Sum over rounds and constraints of [g_i(x_t)]_+^2: O(log T), which Theorem 2 does not have.

    (sigma/alpha)(R^2/2 + (A G_f^2 / 2) sum_t eta_t^2 + F' sum_t eta_t): (*) summed as it stands.
    Here F' = min(F, G_f^2 / (4H)), for df_t(x_t).(x_t - x) >= H b_t - G_f sqrt(b_t) >= -G_f^2 /
    (4H).
    """
    split = Split.checked(form, sigma, loss_lipschitz, constraint_lipschitz, constraint_count)
    rounds, radius, curvature = _checked(horizon, radius, strong_convexity)
    steps = Steps(1 / curvature, 1.0, 1)
    spread = min(
        range_of_losses(loss_range, loss_lipschitz, radius), loss_lipschitz**2 / (4 * curvature)
    )
    fixed = radius**2 / 2 + spread * steps.sum(rounds)
    return sigma * split.over_slack(
        fixed, split.loss_lipschitz**2 * steps.sum_of_squares(rounds) / 2
    )


def strong_clipped_violation(
    *,
    horizon: int,
    strong_convexity: float,
    sigma: float,
    radius: float,
    loss_lipschitz: float,
    constraint_lipschitz: float,
    constraint_count: int,
    loss_range: float | None = None,
    form: str = "scale-aware",
) -> float:
    r"""Sum over rounds of [g_i(x_t)]_+, each i, and of max_i [g_i(x_t)]_+: O(sqrt(T log T))
        (Theorem 2).

    (*) divided by eta_t and summed bounds sum_t s_t^2 / eta_t by (sigma/alpha)(H R^2 / 2 + A G_f^2
    ln(T+1) / (2H) + F T), and (sum_t s_t)^2 <= sum_t eta_t sum_t s_t^2 / eta_t. The paper's
    constants are those of alpha = 1/2.
    """
    split = Split.checked(form, sigma, loss_lipschitz, constraint_lipschitz, constraint_count)
    rounds, radius, curvature = _checked(horizon, radius, strong_convexity)
    spread = min(
        range_of_losses(loss_range, loss_lipschitz, radius), loss_lipschitz**2 / (2 * curvature)
    )
    sum_of_steps = math.log(rounds + 1) / curvature
    fixed = curvature * radius**2 / 2 + spread * rounds
    return math.sqrt(
        sum_of_steps * sigma * split.over_slack(fixed, split.loss_lipschitz**2 * sum_of_steps / 2)
    )


def _checked(horizon: int, radius: float, strong_convexity: float) -> tuple[int, float, float]:
    return (
        arguments.count("horizon", horizon),
        arguments.positive("radius", radius),
        arguments.positive("strong_convexity", strong_convexity),
    )
