r"""Clipped-OGD: Theorem 1 and Propositions 2 and 3 of Yuan and Lamperski (2018), and their anytime
version.

The learner plays x_{t+1} = P_B(x_t - eta_t df_t(x_t) - (1/sigma) sum_i [g_i(x_t)]_+ dg_i(x_t)).
Write b_t for
|x_t - x|^2, s_t^2 for sum_i [g_i(x_t)]_+^2, and x for any decision with g_i(x) <= 0. Projections do
not expand, dg_i(x_t).(x_t - x) >= g_i(x_t), and the squared step splits as in `step_sums.Split`;
so, in every round,

    eta_t (f_t(x_t) - f_t(x)) + (alpha/sigma) s_t^2 <= (b_t - b_{t+1}) / 2 + (eta_t^2 / 2) A G_f^2.
        (*)

Everything here is (*) summed, either divided by eta_t (regret) or as it stands (squared violation).
Nothing in it needs g to be the same in every round: with constraints that vary, each formula holds
word for word for [g_t(x_t)]_+ against decisions x with g_t(x) <= 0 for all t, the multiplier being
computed after the reveal.

R is the distance from x_1 to the farthest decision that counts as a comparator; the domain's
largest distance from x_1 always does. No ball is needed. After replacing the constraints by their
maximum, m = 1.

`form` chooses the split: "paper" (one G for losses and constraints), "scale-aware" (G_f and G_g
apart) or "sharp" (the best constant c of `step_sums.Split`; never larger than "scale-aware", and
free of the factor m + 1).
"""

from __future__ import annotations

import math

from ... import arguments
from .step_sums import Split, Steps, diameter_of, range_of_losses

__all__ = [
    "clipped_anytime_regret",
    "clipped_anytime_squared_violation",
    "clipped_anytime_violation",
    "clipped_master_inequality",
    "clipped_regret",
    "clipped_squared_violation",
    "clipped_step_inequality",
    "clipped_violation",
]


def clipped_regret(
    *,
    horizon: int,
    eta: float,
    sigma: float,
    radius: float,
    loss_lipschitz: float,
    constraint_lipschitz: float,
    constraint_count: int,
    form: str = "scale-aware",
) -> float:
    r"""Regret of Clipped-OGD with a fixed step: R^2 / (2 eta) + eta T A G_f^2 / 2
        (Theorem 1, Proposition 3).

    (*) divided by eta and summed, with the violation's term dropped. A = m + 1, and in the form
    "sharp" A = 2 sigma / (2 sigma - m G_g^2), which is below 2 for sigma >= m G_g^2. At eta = R /
    (G_f sqrt((m+1) T)) the value is R G_f sqrt((m+1) T). The step printed in Theorem 1, 1 / (G
    sqrt((m+1) R T)), has a wrong power of R: it makes the value (G sqrt((m+1) T) / 2)(R^(5/2) +
    R^(-1/2)); both follow from this formula.
    """
    split = Split.checked(form, sigma, loss_lipschitz, constraint_lipschitz, constraint_count)
    return _regret(_fixed(eta), split, horizon, radius, None)


def clipped_squared_violation(
    *,
    horizon: int,
    eta: float,
    sigma: float,
    radius: float,
    loss_lipschitz: float,
    constraint_lipschitz: float,
    constraint_count: int,
    loss_range: float | None = None,
    form: str = "scale-aware",
) -> float:
    r"""Sum over all rounds and constraints of [g_i(x_t)]_+^2
        (Theorem 1, Proposition 3); so also for one i.

    (sigma eta / alpha)(R^2 / (2 eta) + eta T A G_f^2 / 2 + F T): (*) summed, f_t(x_t) - f_t(x) >=
    -F. alpha = 1 - (m+1) G_g^2 / (2 sigma). An unknown F is replaced by 2 R G_f.
    """
    split = Split.checked(form, sigma, loss_lipschitz, constraint_lipschitz, constraint_count)
    return _squared(
        _fixed(eta), split, horizon, radius, range_of_losses(loss_range, loss_lipschitz, radius)
    )


def clipped_violation(
    *,
    horizon: int,
    eta: float,
    sigma: float,
    radius: float,
    loss_lipschitz: float,
    constraint_lipschitz: float,
    constraint_count: int,
    loss_range: float | None = None,
    form: str = "scale-aware",
) -> float:
    """Sum over rounds of [g_i(x_t)]_+, for each i, and of max_i [g_i(x_t)]_+
        (Propositions 2 and 3).

    sqrt(T Q), Q the bound on the squared violation, by Cauchy-Schwarz; max_i [g_i]_+^2 <= sum_i
    [g_i]_+^2. The sum over all i and t is at most sqrt(m) times this number.
    """
    split = Split.checked(form, sigma, loss_lipschitz, constraint_lipschitz, constraint_count)
    squared = _squared(
        _fixed(eta), split, horizon, radius, range_of_losses(loss_range, loss_lipschitz, radius)
    )
    return math.sqrt(horizon * squared)


def clipped_master_inequality(
    *,
    regret: float,
    squared_violation: float,
    horizon: int,
    eta: float,
    sigma: float,
    radius: float,
    loss_lipschitz: float,
    constraint_lipschitz: float,
    constraint_count: int,
    form: str = "scale-aware",
) -> float:
    r"""Left minus right of the inequality behind Theorem 1; never above zero (but for rounding) on
    any run.

    regret + (alpha / (sigma eta)) Q <= R^2 / (2 eta) + eta T A G_f^2 / 2, Q the measured sum over
    rounds and constraints of [g_i(x_t)]_+^2 and `regret` measured against any feasible decision.
    "sharp" takes all c at once: regret + (1 - k) Q / (sigma eta) <= R^2 / (2 eta) + P + 2 sqrt(k P
    Q / (sigma eta)), P = eta T G_f^2 / 2.
    """
    split = Split.checked(form, sigma, loss_lipschitz, constraint_lipschitz, constraint_count)
    horizon, steps = arguments.count("horizon", horizon), _fixed(eta)
    half = arguments.positive("radius", radius) ** 2 / (2 * eta)
    loss = split.loss_lipschitz**2 * steps.sum(horizon) / 2
    weighted = arguments.non_negative("squared_violation", squared_violation) / (sigma * eta)
    k, m = split.constraint_part, split.constraint_count
    if form == "sharp":
        return regret + (1 - k) * weighted - half - loss - 2 * math.sqrt(k * loss * weighted)
    return regret + (1 - (m + 1) / m * k) * weighted - half - (m + 1) * loss


def clipped_step_inequality(
    *,
    weighted_regret: float,
    squared_violation: float,
    sum_of_squared_steps: float,
    sigma: float,
    radius: float,
    loss_lipschitz: float,
    constraint_lipschitz: float,
    constraint_count: int,
) -> float:
    r"""Left minus right of (*) summed, for any step sizes at all; never above zero (but for
    rounding).

    sum_t eta_t (f_t(x_t) - f_t(x)) + (alpha / sigma) Q <= R^2 / 2 + (m+1) G_f^2 sum_t eta_t^2 / 2.
    """
    split = Split.checked(
        "scale-aware", sigma, loss_lipschitz, constraint_lipschitz, constraint_count
    )
    m = split.constraint_count
    alpha = 1 - (m + 1) / m * split.constraint_part
    right = radius**2 / 2 + (m + 1) * split.loss_lipschitz**2 * sum_of_squared_steps / 2
    return weighted_regret + alpha / sigma * squared_violation - right


def clipped_anytime_regret(
    *,
    horizon: int,
    eta: float,
    sigma: float,
    radius: float,
    loss_lipschitz: float,
    constraint_lipschitz: float,
    constraint_count: int,
    beta: float = 0.5,
    diameter: float | None = None,
    form: str = "scale-aware",
) -> float:
    r"""Regret with the step eta_t = eta / t^beta, for every horizon at once.

    (*) divided by eta_t and summed by parts: (D^2 / eta_T - (D^2 - R^2) / eta_1) / 2 + (A G_f^2 /
    2) sum_t eta_t, D = `diameter` of the domain, 2 R where it is not given. At beta = 1/2 the sum
    is at most 2 eta sqrt(T).
    """
    split = Split.checked(form, sigma, loss_lipschitz, constraint_lipschitz, constraint_count)
    return _regret(_power(eta, beta), split, horizon, radius, diameter)


def clipped_anytime_squared_violation(
    *,
    horizon: int,
    eta: float,
    sigma: float,
    radius: float,
    loss_lipschitz: float,
    constraint_lipschitz: float,
    constraint_count: int,
    beta: float = 0.5,
    loss_range: float | None = None,
    form: str = "scale-aware",
) -> float:
    r"""Sum over rounds and constraints of [g_i(x_t)]_+^2 with the step eta_t = eta / t^beta, every
    horizon.

    (sigma / alpha)(R^2 / 2 + (A G_f^2 / 2) sum_t eta_t^2 + F sum_t eta_t): (*) summed as it stands.
    Summing (*) divided by eta_t and undoing the weights by Abel summation gives the same but for an
    extra term in log T.
    """
    split = Split.checked(form, sigma, loss_lipschitz, constraint_lipschitz, constraint_count)
    return _squared(
        _power(eta, beta),
        split,
        horizon,
        radius,
        range_of_losses(loss_range, loss_lipschitz, radius),
    )


def clipped_anytime_violation(
    *,
    horizon: int,
    eta: float,
    sigma: float,
    radius: float,
    loss_lipschitz: float,
    constraint_lipschitz: float,
    constraint_count: int,
    beta: float = 0.5,
    loss_range: float | None = None,
    form: str = "scale-aware",
) -> float:
    """Sum over rounds of [g_i(x_t)]_+, each i, and of the largest, with the step eta_t = eta /
    t^beta."""
    split = Split.checked(form, sigma, loss_lipschitz, constraint_lipschitz, constraint_count)
    squared = _squared(
        _power(eta, beta),
        split,
        horizon,
        radius,
        range_of_losses(loss_range, loss_lipschitz, radius),
    )
    return math.sqrt(horizon * squared)


def _fixed(eta: float) -> Steps:
    return Steps(arguments.positive("eta", eta))


def _power(eta: float, beta: float) -> Steps:
    return Steps(arguments.positive("eta", eta), arguments.fraction("beta", beta))


def _regret(
    steps: Steps, split: Split, horizon: int, radius: float, diameter: float | None
) -> float:
    horizon, across = arguments.count("horizon", horizon), diameter_of(diameter, radius)
    loss = split.loss_lipschitz**2 * steps.sum(horizon) / 2
    return steps.distance_term(horizon, radius, across) + split.loss_factor * loss


def _squared(steps: Steps, split: Split, horizon: int, radius: float, spread: float) -> float:
    horizon = arguments.count("horizon", horizon)
    fixed = radius**2 / 2 + spread * steps.sum(horizon)
    charged = split.loss_lipschitz**2 * steps.sum_of_squares(horizon) / 2
    return split.sigma * split.over_slack(fixed, charged)
