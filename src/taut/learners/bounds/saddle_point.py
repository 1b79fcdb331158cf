r"""Saddle-point learners: Mahdavi, Jin and Yang (2012); Jenatton, Huang and Archambeau (2016);
clipped versions.

Both take one gradient step down in x and one up in the multiplier of L_t = f_t + lambda.g -
(theta_t/2)|lambda|^2. Their guarantees are on the excess sum_t g_i(x_t), which can cancel.
Propositions 4 and 5 of Yuan and Lamperski (2018): with g replaced by [g]_+ in both steps the same
proof, hence the same number, bounds sum_t [g_i(x_t)]_+, since it uses only lambda >= 0, g(x*) <= 0,
|dg| <= G_g and |g| <= D, all true of [g]_+. Functions named `*_excess` therefore also bound the
violation when the learner clips. Constraints may vary from round to round. D bounds |g_i|, not g_i:
the gradient in lambda contains g_i^2 (the paper writes max g_i).
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from ... import arguments
from .step_sums import Steps, diameter_of, range_of_losses
from .theorem import OutsideTheorem

__all__ = [
    "jenatton_excess",
    "jenatton_key_inequality",
    "jenatton_regret",
    "jenatton_strong_excess",
    "jenatton_strong_regret",
    "mahdavi_excess",
    "mahdavi_key_inequality",
    "mahdavi_least_delta",
    "mahdavi_regret",
    "mahdavi_total_violation",
]

_ROUNDING = 1e-9  # delta may be the exact root of its own condition, computed in floating point


def mahdavi_least_delta(*, eta: float, constraint_lipschitz: float, constraint_count: int) -> float:
    """The least delta with delta >= K + 2 delta^2 eta^2, K = (m+1) G_g^2; exists if and only if 8
    eta^2 K <= 1.

    (1 - sqrt(1 - 8 eta^2 K)) / (4 eta^2), written without cancellation; it lies between K and 2 K.
    """
    eta = arguments.positive("eta", eta)
    count = arguments.count("constraint_count", constraint_count)
    part = (count + 1) * arguments.non_negative("constraint_lipschitz", constraint_lipschitz) ** 2
    if 8 * eta**2 * part > 1 + _ROUNDING:
        raise OutsideTheorem(
            f"eta: got {eta:g}; expected at most {1 / math.sqrt(8 * part):g} = 1 / sqrt(8 (m + 1) "
            "G_g^2), else no delta satisfies delta >= (m + 1) G_g^2 + 2 delta^2 eta^2"
        )
    return 2 * part / (1 + math.sqrt(max(0.0, 1 - 8 * eta**2 * part)))


def mahdavi_regret(
    *,
    horizon: int,
    eta: float,
    delta: float,
    radius: float,
    loss_lipschitz: float,
    constraint_lipschitz: float,
    constraint_range: float,
    constraint_count: int,
) -> float:
    r"""Regret: R^2 / (2 eta) + (eta T / 2)((m+1) G_f^2 + 2 m D^2)  (Mahdavi et al., Theorem 4).

    Steps up and down by eta, theta = delta eta, multipliers from zero. The squared step lengths are
    at most (m+1)(G_f^2 + G_g^2 |lambda|^2) and 2 m D^2 + 2 delta^2 eta^2 |lambda|^2, and
    |lambda_t|^2 cancels for delta >= (m+1) G_g^2 + 2 delta^2 eta^2 (checked). At eta = R^2 / (a
    sqrt(T)) with a = R sqrt((m+1) G^2 + 2 m D^2) the value is a sqrt(T).
    """
    _check_delta(eta, delta, constraint_lipschitz, constraint_count)
    rounds, radius = arguments.count("horizon", horizon), arguments.positive("radius", radius)
    loss = (constraint_count + 1) * arguments.non_negative("loss_lipschitz", loss_lipschitz) ** 2
    dual = 2 * constraint_count * arguments.non_negative("constraint_range", constraint_range) ** 2
    return radius**2 / (2 * eta) + eta * rounds * (loss + dual) / 2


def mahdavi_excess(
    *,
    horizon: int,
    eta: float,
    delta: float,
    radius: float,
    loss_lipschitz: float,
    constraint_lipschitz: float,
    constraint_range: float,
    constraint_count: int,
    loss_range: float | None = None,
) -> float:
    r"""Sum over rounds of g_i(x_t), each i; of [g_i(x_t)]_+ when the learner clips (Theorem 4;
    Proposition 4).

    sqrt(2 (delta eta T + 1/eta)(regret bound + F T)), from `mahdavi_key_inequality` with regret >=
    -F T.
    """
    right = mahdavi_regret(
        horizon=horizon,
        eta=eta,
        delta=delta,
        radius=radius,
        loss_lipschitz=loss_lipschitz,
        constraint_lipschitz=constraint_lipschitz,
        constraint_range=constraint_range,
        constraint_count=constraint_count,
    )
    spread = range_of_losses(loss_range, loss_lipschitz, radius)
    return math.sqrt(2 * (delta * eta * horizon + 1 / eta) * (right + spread * horizon))


def mahdavi_total_violation(
    *,
    horizon: int,
    eta: float,
    delta: float,
    radius: float,
    loss_lipschitz: float,
    constraint_lipschitz: float,
    constraint_range: float,
    constraint_count: int,
    loss_range: float | None = None,
) -> float:
    """Sum over rounds and constraints of [g_i(x_t)]_+, so also of the largest, when the learner
    clips.

    sqrt(m) times `mahdavi_excess`, which bounds the Euclidean norm of the m sums over rounds.
    """
    each = mahdavi_excess(
        horizon=horizon,
        eta=eta,
        delta=delta,
        radius=radius,
        loss_lipschitz=loss_lipschitz,
        loss_range=loss_range,
        constraint_lipschitz=constraint_lipschitz,
        constraint_range=constraint_range,
        constraint_count=constraint_count,
    )
    return math.sqrt(constraint_count) * each


def mahdavi_key_inequality(
    *,
    regret: float,
    excess: Iterable[float],
    horizon: int,
    eta: float,
    delta: float,
    radius: float,
    loss_lipschitz: float,
    constraint_lipschitz: float,
    constraint_range: float,
    constraint_count: int,
) -> float:
    r"""Left minus right of Mahdavi et al.'s key inequality; never above zero (but for rounding) on
    any run.

    regret + sum_i [sum_t g_i(x_t)]_+^2 / (2 (delta eta T + 1/eta)) <= the bound of
    `mahdavi_regret`. `excess` holds the m measured sums over rounds (of [g_i]_+ when the learner
    clips). Yuan and Lamperski quote m/eta for 1/eta; the multipliers' telescoping sum is |lambda|^2
    / (2 eta), so 1/eta is right and stronger.
    """
    squares = sum(max(float(total), 0.0) ** 2 for total in excess)
    right = mahdavi_regret(
        horizon=horizon,
        eta=eta,
        delta=delta,
        radius=radius,
        loss_lipschitz=loss_lipschitz,
        constraint_lipschitz=constraint_lipschitz,
        constraint_range=constraint_range,
        constraint_count=constraint_count,
    )
    return regret + squares / (2 * (delta * eta * horizon + 1 / eta)) - right


def _check_delta(
    eta: float, delta: float, constraint_lipschitz: float, constraint_count: int
) -> None:
    eta, delta = arguments.positive("eta", eta), arguments.positive("delta", delta)
    count = arguments.count("constraint_count", constraint_count)
    part = (count + 1) * arguments.non_negative("constraint_lipschitz", constraint_lipschitz) ** 2
    if delta * (1 + _ROUNDING) < part + 2 * delta**2 * eta**2:
        raise OutsideTheorem(
            f"delta: got {delta:g}; expected delta >= (m + 1) G_g^2 + 2 delta^2 eta^2, which is "
            f"{part + 2 * delta**2 * eta**2:g} here; 2 (m + 1) G_g^2 = {2 * part:g} satisfies it "
            f"once 8 eta^2 (m + 1) G_g^2 = {8 * eta**2 * part:g} is at most 1"
        )


def jenatton_regret(
    *,
    horizon: int,
    eta: float,
    theta: float,
    beta: float,
    radius: float,
    loss_lipschitz: float,
    constraint_lipschitz: float,
    constraint_range: float,
    diameter: float | None = None,
) -> float:
    r"""Regret of A-OGD, eta_t = eta / t^beta, theta_t = theta / t^beta, mu_t = 1 / (theta_t (t+1)),
    one constraint.

    (Q^2 / eta_T - (Q^2 - R^2) / eta_1) / 2 + sum_t (eta_t G_f^2 + mu_t D^2), Q = `diameter` (2 R if
    not given), and sum_t mu_t <= T^beta / (beta theta). Needs theta >= 6 eta G_g^2 (checked), which
    is Jenatton et al.'s condition eta_t G^2 + mu_t theta_t^2 <= theta_t / 2 from round 2 on; the
    multiplier of round 1 is zero. Theirs are eta = R/G, theta = 6 R G. The constant quoted for
    them, R G T^beta + 2 R G T^(1-beta) / (1-beta) + D^2 T^beta / (6 beta R G), charges the
    distances only R G T^beta; a learner at one end of the domain when the losses turn pays up to 2
    R G T^beta, so for beta > 1/2 that constant is exceeded and is not used here.
    """
    eta, slope = (
        arguments.positive("eta", eta),
        arguments.non_negative("constraint_lipschitz", constraint_lipschitz),
    )
    _check_theta(theta, 6 * eta * slope**2, "6 eta G_g^2")
    steps, rounds = (
        Steps(eta, arguments.fraction("beta", beta)),
        arguments.count("horizon", horizon),
    )
    loss = arguments.non_negative("loss_lipschitz", loss_lipschitz) ** 2 * steps.sum(rounds)
    dual = _dual_cost(rounds, theta, beta, constraint_range)
    return steps.distance_term(rounds, radius, diameter_of(diameter, radius)) + loss + dual


def jenatton_excess(
    *,
    horizon: int,
    eta: float,
    theta: float,
    beta: float,
    radius: float,
    loss_lipschitz: float,
    constraint_lipschitz: float,
    constraint_range: float,
    diameter: float | None = None,
    loss_range: float | None = None,
) -> float:
    r"""Sum over rounds of g(x_t), g = max_i g_i; of [g(x_t)]_+ when the learner clips (Proposition
    5).

    sqrt(2 (sum_t theta_t + theta_1)(regret bound + F T)), from `jenatton_key_inequality` with
    regret >= -F T. It is at most their sqrt(24 R G / (1-beta) (regret bound + F T) T^(1-beta)) for
    their parameters.
    """
    right = jenatton_regret(
        horizon=horizon,
        eta=eta,
        theta=theta,
        beta=beta,
        radius=radius,
        loss_lipschitz=loss_lipschitz,
        constraint_lipschitz=constraint_lipschitz,
        constraint_range=constraint_range,
        diameter=diameter,
    )
    spread = range_of_losses(loss_range, loss_lipschitz, radius)
    return math.sqrt(2 * _jenatton_weight(horizon, theta, beta) * (right + spread * horizon))


def jenatton_strong_regret(
    *,
    horizon: int,
    theta: float,
    beta: float,
    strong_convexity: float,
    loss_lipschitz: float,
    constraint_lipschitz: float,
    constraint_range: float,
) -> float:
    r"""Regret of A-OGD with eta_t = 1 / (H t): (G_f^2 / H)(1 + ln T) + D^2 T^beta / (beta theta).

    As `jenatton_regret`, the distances cancelling as in `hazan_regret`. Needs theta >= 6 G_g^2 / H
    (checked); theirs is theta = 6 G^2 / H.
    """
    curvature = arguments.positive("strong_convexity", strong_convexity)
    slope = arguments.non_negative("constraint_lipschitz", constraint_lipschitz)
    _check_theta(theta, 6 * slope**2 / curvature, "6 G_g^2 / H")
    rounds, beta = arguments.count("horizon", horizon), arguments.fraction("beta", beta)
    loss = (
        arguments.non_negative("loss_lipschitz", loss_lipschitz) ** 2
        / curvature
        * (1 + math.log(rounds))
    )
    return loss + _dual_cost(rounds, theta, beta, constraint_range)


def jenatton_strong_excess(
    *,
    horizon: int,
    theta: float,
    beta: float,
    strong_convexity: float,
    loss_lipschitz: float,
    constraint_lipschitz: float,
    constraint_range: float,
    radius: float,
    loss_range: float | None = None,
) -> float:
    """Sum over rounds of g(x_t) with eta_t = 1 / (H t); of [g(x_t)]_+ when the learner clips
    (Proposition 5).

    As `jenatton_excess`, with F never larger than G_f^2 / (2 H) (see `strong`).
    """
    right = jenatton_strong_regret(
        horizon=horizon,
        theta=theta,
        beta=beta,
        strong_convexity=strong_convexity,
        loss_lipschitz=loss_lipschitz,
        constraint_lipschitz=constraint_lipschitz,
        constraint_range=constraint_range,
    )
    spread = range_of_losses(loss_range, loss_lipschitz, radius)
    spread = min(spread, loss_lipschitz**2 / (2 * strong_convexity))
    return math.sqrt(2 * _jenatton_weight(horizon, theta, beta) * (right + spread * horizon))


def jenatton_key_inequality(
    *, regret: float, excess: float, regret_bound: float, horizon: int, theta: float, beta: float
) -> float:
    r"""Left minus right of the inequality behind A-OGD's guarantee; never above zero (but for
    rounding) on any run.

    regret + [sum_t g(x_t)]_+^2 / (2 (sum_t theta_t + theta_1)) <= `regret_bound`, the value of
    `jenatton_regret` or of `jenatton_strong_regret`. The multiplier's distances telescope since
    1/mu_t - 1/mu_{t-1} <= theta_t.
    """
    rounds, pull = arguments.count("horizon", horizon), arguments.positive("theta", theta)
    weight = _jenatton_weight(rounds, pull, arguments.fraction("beta", beta))
    return regret + max(excess, 0.0) ** 2 / (2 * weight) - regret_bound


def _check_theta(theta: float, least: float, formula: str) -> None:
    if arguments.positive("theta", theta) * (1 + _ROUNDING) < least:
        raise OutsideTheorem(f"theta: got {theta:g}; expected at least {formula} = {least:g}")


def _dual_cost(rounds: int, theta: float, beta: float, constraint_range: float) -> float:
    """At least D^2 sum_t mu_t: mu_t = t^beta / (theta (t + 1)) <= t^(beta - 1) / theta."""
    return (
        arguments.non_negative("constraint_range", constraint_range) ** 2
        * math.pow(rounds, beta)
        / (beta * theta)
    )


def _jenatton_weight(horizon: int, theta: float, beta: float) -> float:
    """At least theta_1 + sum_t theta_t."""
    return theta + Steps(theta, beta).sum(horizon)
