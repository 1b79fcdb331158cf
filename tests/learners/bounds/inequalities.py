"""The inequalities behind the guarantees: left minus right, never above zero (but for rounding) on
any run."""

import math

from taut import bounds
from taut.learners.clipped_bounds import Split
from taut.learners.theorem import Steps

SPLIT = ("sigma", "loss_lipschitz", "constraint_lipschitz", "constraint_count")


def clipped_master(*, regret, squared_violation, horizon, eta, radius, form="scale-aware", **known):
    """regret + (alpha / (sigma eta)) Q <= R^2 / (2 eta) + eta T A G_f^2 / 2 (Theorem 1).

    "sharp" takes all c at once: regret + (1 - k) Q / (sigma eta) <= R^2 / (2 eta) + P + 2 sqrt(k P
    Q / (sigma eta)), P = eta T G_f^2 / 2.
    """
    split = Split.checked(form, *(known[name] for name in SPLIT))
    half, m = radius**2 / (2 * eta), split.constraint_count
    loss = split.loss_lipschitz**2 * Steps(eta).sum(horizon) / 2
    weighted = squared_violation / (split.sigma * eta)
    k = split.constraint_part
    if form == "sharp":
        return regret + (1 - k) * weighted - half - loss - 2 * math.sqrt(k * loss * weighted)
    return regret + (1 - (m + 1) / m * k) * weighted - half - (m + 1) * loss


def clipped_step(*, weighted_regret, squared_violation, sum_of_squared_steps, radius, **known):
    """The sum of (*) for any step sizes: sum_t eta_t (f_t(x_t) - f_t(x)) + (alpha / sigma) Q <= R^2
    / 2 + (m+1) G_f^2 sum_t eta_t^2 / 2."""
    split = Split.checked("scale-aware", *(known[name] for name in SPLIT))
    m = split.constraint_count
    alpha = 1 - (m + 1) / m * split.constraint_part
    right = radius**2 / 2 + (m + 1) * split.loss_lipschitz**2 * sum_of_squared_steps / 2
    return weighted_regret + alpha / split.sigma * squared_violation - right


def mahdavi(*, regret, excess, **game):
    """regret + sum_i [sum_t g_i(x_t)]_+^2 / (2 (delta eta T + 1/eta)) <= the bound on regret."""
    squares = sum(max(float(total), 0.0) ** 2 for total in excess)
    weight = game["delta"] * game["eta"] * game["horizon"] + 1 / game["eta"]
    return regret + squares / (2 * weight) - bounds.mahdavi_regret(**game)


def jenatton(*, regret, excess, regret_bound, horizon, theta, beta):
    """regret + [sum_t g(x_t)]_+^2 / (2 (sum_t theta_t + theta_1)) <= the bound on regret."""
    weight = theta + Steps(theta, beta).sum(horizon)
    return regret + max(excess, 0.0) ** 2 / (2 * weight) - regret_bound


def drift_plus_penalty(*, regret, queue, **game):
    """V regret + |Q_{T+1}|^2 / 2 <= alpha R^2 + K T, V times the bound on regret."""
    bound = bounds.drift_plus_penalty_regret(**game)
    return game["penalty"] * (regret - bound) + queue**2 / 2
