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
from dataclasses import dataclass

from .step_sums import Steps, diameter_of, range_of_losses
from .theorem import Count, NonNegative, OutsideTheorem, Positive, Share, formula_of

__all__ = [
    "jenatton_excess",
    "jenatton_regret",
    "jenatton_strong_excess",
    "jenatton_strong_regret",
    "mahdavi_excess",
    "mahdavi_regret",
    "mahdavi_total_violation",
]

_ROUNDING = 1e-9  # delta may be the exact root of its own condition, computed in floating point


@dataclass(frozen=True)
class _Mahdavi:
    horizon: Count
    eta: Positive
    delta: Positive
    radius: Positive
    loss_lipschitz: NonNegative
    constraint_lipschitz: NonNegative
    constraint_range: NonNegative
    constraint_count: Count

    def __post_init__(self) -> None:
        delta, part = self.delta, (self.constraint_count + 1) * self.constraint_lipschitz**2
        if delta * (1 + _ROUNDING) < part + 2 * delta**2 * self.eta**2:
            raise OutsideTheorem(
                f"delta: got {delta:g}; expected delta >= (m + 1) G_g^2 + 2 delta^2 eta^2, which "
                f"is {part + 2 * delta**2 * self.eta**2:g} here; 2 (m + 1) G_g^2 = {2 * part:g} "
                f"satisfies it once 8 eta^2 (m + 1) G_g^2 = {8 * self.eta**2 * part:g} is at most 1"
            )

    @property
    def regret(self) -> float:
        loss = (self.constraint_count + 1) * self.loss_lipschitz**2
        dual = 2 * self.constraint_count * self.constraint_range**2
        return self.radius**2 / (2 * self.eta) + self.eta * self.horizon * (loss + dual) / 2

    def excess(self, loss_range: float | None) -> float:
        spread = range_of_losses(loss_range, self.loss_lipschitz, 2 * self.radius)
        weight = self.delta * self.eta * self.horizon + 1 / self.eta
        return math.sqrt(2 * weight * (self.regret + spread * self.horizon))


@formula_of(_Mahdavi)
def mahdavi_regret(game: _Mahdavi) -> float:
    r"""Regret: R^2 / (2 eta) + (eta T / 2)((m+1) G_f^2 + 2 m D^2)  (Mahdavi et al., Theorem 4).

    Steps up and down by eta, theta = delta eta, multipliers from zero. The squared step lengths are
    at most (m+1)(G_f^2 + G_g^2 |lambda|^2) and 2 m D^2 + 2 delta^2 eta^2 |lambda|^2, and
    |lambda_t|^2 cancels for delta >= (m+1) G_g^2 + 2 delta^2 eta^2 (checked). At eta = R^2 / (a
    sqrt(T)) with a = R sqrt((m+1) G^2 + 2 m D^2) the value is a sqrt(T).
    """
    return game.regret


@formula_of(_Mahdavi)
def mahdavi_excess(game: _Mahdavi, *, loss_range: NonNegative | None = None) -> float:
    r"""Sum over rounds of g_i(x_t), each i; of [g_i(x_t)]_+ when the learner clips (Theorem 4;
    Proposition 4).

    sqrt(2 (delta eta T + 1/eta)(regret bound + F T)), from Mahdavi et al.'s key inequality
    regret + sum_i [sum_t g_i(x_t)]_+^2 / (2 (delta eta T + 1/eta)) <= regret bound, and regret >=
    -F T. Yuan and Lamperski quote m/eta for 1/eta; the multipliers' telescoping sum is |lambda|^2
    / (2 eta), so 1/eta is right and stronger.
    """
    return game.excess(loss_range)


@formula_of(_Mahdavi)
def mahdavi_total_violation(game: _Mahdavi, *, loss_range: NonNegative | None = None) -> float:
    """Sum over rounds and constraints of [g_i(x_t)]_+, so also of the largest, when the learner
    clips.

    sqrt(m) times `mahdavi_excess`, which bounds the Euclidean norm of the m sums over rounds.
    """
    return math.sqrt(game.constraint_count) * game.excess(loss_range)


@dataclass(frozen=True)
class _Jenatton:
    """A-OGD: theta_t = theta / t^beta, mu_t = 1 / (theta_t (t+1)), one constraint."""

    horizon: Count
    theta: Positive
    beta: Share
    loss_lipschitz: NonNegative
    constraint_lipschitz: NonNegative
    constraint_range: NonNegative

    def require(self, least: float, formula: str) -> None:
        """Refuse a theta that is too small for the theorem."""
        if self.theta * (1 + _ROUNDING) < least:
            raise OutsideTheorem(
                f"theta: got {self.theta:g}; expected at least {formula} = {least:g}"
            )

    @property
    def dual_cost(self) -> float:
        """At least D^2 sum_t mu_t: mu_t = t^beta / (theta (t + 1)) <= t^(beta - 1) / theta."""
        power = math.pow(self.horizon, self.beta)
        return self.constraint_range**2 * power / (self.beta * self.theta)

    def regret(self, eta: float, radius: float, diameter: float | None) -> float:
        self.require(6 * eta * self.constraint_lipschitz**2, "6 eta G_g^2")
        steps, across = Steps(eta, self.beta), diameter_of(diameter, radius)
        loss = self.loss_lipschitz**2 * steps.sum(self.horizon)
        return steps.distance_term(self.horizon, radius, across) + loss + self.dual_cost

    def strong_regret(self, modulus: float) -> float:
        self.require(6 * self.constraint_lipschitz**2 / modulus, "6 G_g^2 / H")
        loss = self.loss_lipschitz**2 / modulus * (1 + math.log(self.horizon))
        return loss + self.dual_cost

    def excess(self, regret: float, spread: float) -> float:
        """sqrt(2 (sum_t theta_t + theta_1)(regret bound + F T))."""
        weight = self.theta + Steps(self.theta, self.beta).sum(self.horizon)
        return math.sqrt(2 * weight * (regret + spread * self.horizon))


@formula_of(_Jenatton)
def jenatton_regret(
    game: _Jenatton, *, eta: Positive, radius: Positive, diameter: Positive | None = None
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
    return game.regret(eta, radius, diameter)


@formula_of(_Jenatton)
def jenatton_excess(
    game: _Jenatton,
    *,
    eta: Positive,
    radius: Positive,
    diameter: Positive | None = None,
    loss_range: NonNegative | None = None,
) -> float:
    r"""Sum over rounds of g(x_t), g = max_i g_i; of [g(x_t)]_+ when the learner clips (Proposition
    5).

    sqrt(2 (sum_t theta_t + theta_1)(regret bound + F T)), from regret + [sum_t g(x_t)]_+^2 / (2
    (sum_t theta_t + theta_1)) <= regret bound and regret >= -F T: the multiplier's distances
    telescope since 1/mu_t - 1/mu_{t-1} <= theta_t. It is at most their sqrt(24 R G / (1-beta)
    (regret bound + F T) T^(1-beta)) for their parameters.
    """
    spread = range_of_losses(loss_range, game.loss_lipschitz, 2 * radius)
    return game.excess(game.regret(eta, radius, diameter), spread)


@formula_of(_Jenatton)
def jenatton_strong_regret(game: _Jenatton, *, strong_convexity: Positive) -> float:
    r"""Regret of A-OGD with eta_t = 1 / (H t): (G_f^2 / H)(1 + ln T) + D^2 T^beta / (beta theta).

    As `jenatton_regret`, the distances cancelling as in `hazan_regret`. Needs theta >= 6 G_g^2 / H
    (checked); theirs is theta = 6 G^2 / H.
    """
    return game.strong_regret(strong_convexity)


@formula_of(_Jenatton)
def jenatton_strong_excess(
    game: _Jenatton,
    *,
    strong_convexity: Positive,
    radius: Positive,
    loss_range: NonNegative | None = None,
) -> float:
    """Sum over rounds of g(x_t) with eta_t = 1 / (H t); of [g(x_t)]_+ when the learner clips
    (Proposition 5).

    As `jenatton_excess`, with F never larger than G_f^2 / (2 H).
    """
    spread = range_of_losses(loss_range, game.loss_lipschitz, 2 * radius)
    spread = min(spread, game.loss_lipschitz**2 / (2 * strong_convexity))
    return game.excess(game.strong_regret(strong_convexity), spread)
