r"""Lyapunov surrogates: Sinha and Vaze (2024), the quadratic potential, and the strongly convex
form.

    Q_t = Q_{t-1} + b_g [g_t(x_t)]_+,   w_t = Phi_t'(Q_t),
        h_t = V b_f df_t(x_t) + w_t b_g dg_t(x_t) 1[g_t(x_t) > 0]
    x_{t+1} = P_B(x_t - r h_t / sqrt(2 B_t)),   B_t = sum_{s<=t} |h_s|^2

The potential Phi_t is convex and increasing, and does not increase with t, so Phi_t(Q_t) -
Phi_{t-1}(Q_{t-1}) is at most w_t b_g [g_t(x_t)]_+, and [g_t(x_t)]_+ <= dg_t(x_t).(x_t - x) for
every x that is feasible in round t. The AdaGrad steps give sum_t h_t.(x_t - x) <= k sqrt(B_T) with
k = (D^2/r + r) / sqrt(2), D the diameter, and |h_t| <= V b_f G_f + w_t b_g G_g. With A = k b_f G_f,
the share of the loss, and C = k b_g G_g, that of the constraint, this is

    Phi_T(Q_T) + V b_f Regret_T <= A V sqrt(T) + C sqrt(sum_t w_t^2).   (#)

Tuned, r = D, b_f = 1 / (2 G_f D) and b_g = 1 / (2 G_g D), so A = C = 1/sqrt(2). Everything here
follows from (#) and from -Regret_T <= F T. Constraints may change in every round; [g] is the
largest one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from .step_sums import range_of_losses
from .theorem import Count, NonNegative, OutsideTheorem, Positive, formula_of

__all__ = [
    "anytime_surrogate_regret",
    "anytime_surrogate_violation",
    "strong_surrogate_regret",
    "strong_surrogate_violation",
    "surrogate_regret",
    "surrogate_violation",
]


@dataclass(frozen=True)
class _Game:
    horizon: Count
    penalty: Positive
    loss_scale: Positive
    constraint_scale: Positive
    reach: Positive
    diameter: Positive
    loss_lipschitz: NonNegative
    constraint_lipschitz: NonNegative

    @property
    def _factor(self) -> float:
        return (self.diameter**2 / self.reach + self.reach) / math.sqrt(2)

    @property
    def loss(self) -> float:
        """A."""
        return self._factor * self.loss_scale * self.loss_lipschitz

    @property
    def constraint(self) -> float:
        """C."""
        return self._factor * self.constraint_scale * self.constraint_lipschitz

    def theta(self, rate: float) -> float:
        """C lam sqrt(T), which the theorem needs to be at most 1."""
        theta = self.constraint * rate * math.sqrt(self.horizon)
        if theta > 1:
            raise OutsideTheorem(
                f"rate: got {rate:g}; expected at most {rate / theta:g} for {self.horizon} rounds, "
                "else the potential grows faster than the steps allow"
            )
        return theta


@formula_of(_Game)
def surrogate_regret(game: _Game, *, rate: Positive) -> float:
    r"""Regret with Phi(q) = exp(lam q) - 1: (A V sqrt(T) + theta) / (V b_f), theta = C lam sqrt(T),
    if theta <= 1.

    sum_t w_t^2 <= lam^2 T E^2 with E = exp(lam Q_T) >= 1, so (#) reads (1 - theta) E + V b_f Regret
    <= 1 + A V sqrt(T). Tuned with lam = 1 / (2 sqrt(T)): 2 G_f D (sqrt(T/2) + 0.354 / V). `rate` is
    lam, `reach` is r.
    """
    share = game.loss * game.penalty * math.sqrt(game.horizon)
    return (share + game.theta(rate)) / (game.penalty * game.loss_scale)


@formula_of(_Game)
def surrogate_violation(
    game: _Game, *, rate: Positive, loss_range: NonNegative | None = None
) -> float:
    r"""Clipped violation: ln((1 + A V sqrt(T) + V b_f F T) / (1 - theta)) / (lam b_g), if theta <
    1.

    Tuned: 4 G_g D sqrt(T) ln(1.55 (1 + V sqrt(T/2) + V T / 2)). F = `loss_range`, G_f times the
    diameter if it is unknown.
    """
    theta = game.theta(rate)
    if theta >= 1:
        raise OutsideTheorem(
            f"rate: got {rate:g}, which makes theta = {theta:g}; expected theta below 1"
        )
    spread = range_of_losses(loss_range, game.loss_lipschitz, game.diameter)
    gain = game.penalty * game.loss_scale * spread * game.horizon
    share = game.loss * game.penalty * math.sqrt(game.horizon)
    return math.log((1 + share + gain) / (1 - theta)) / (rate * game.constraint_scale)


@formula_of(_Game)
def anytime_surrogate_regret(game: _Game) -> float:
    r"""Regret with Phi_t(q) = q^2 / sqrt(t), for every T: sqrt(T) (A V + C^2 (1 + ln T)) / (V b_f).

    Q does not decrease, so sum_t w_t^2 = 4 sum_t Q_t^2 / t <= 4 Q_T^2 (1 + ln T); the largest value
    of 2 C sqrt(1 + ln T) Q - Q^2 / sqrt(T) over Q is C^2 (1 + ln T) sqrt(T).
    """
    total = game.loss * game.penalty + game.constraint**2 * (1 + math.log(game.horizon))
    return math.sqrt(game.horizon) * total / (game.penalty * game.loss_scale)


@formula_of(_Game)
def anytime_surrogate_violation(game: _Game, *, loss_range: NonNegative | None = None) -> float:
    r"""Clipped violation: Q / b_g, Q the root of q^2 - 2 c q = V (A T + b_f F T^(3/2)), c = C
    sqrt(T (1 + ln T))."""
    rounds = game.horizon
    middle = game.constraint * math.sqrt(rounds * (1 + math.log(rounds)))
    spread = range_of_losses(loss_range, game.loss_lipschitz, game.diameter)
    gain = game.loss_scale * spread * rounds**1.5
    root = math.sqrt(middle**2 + game.penalty * (game.loss * rounds + gain))
    return (middle + root) / game.constraint_scale


@dataclass(frozen=True)
class _Strong:
    horizon: Count
    penalty: Positive
    strong_convexity: Positive
    loss_lipschitz: NonNegative
    constraint_lipschitz: NonNegative

    def __post_init__(self) -> None:
        if self.share >= 1:
            least = 2 * self.constraint_lipschitz**2 * self._logarithm / self.strong_convexity
            raise OutsideTheorem(
                f"penalty: got {self.penalty:g}; expected more than 2 G_g^2 ln(eT) / H = "
                f"{least:g}, else the multiplier grows too fast for the step"
            )

    @property
    def _logarithm(self) -> float:
        return 1 + math.log(self.horizon)

    @property
    def share(self) -> float:
        """u."""
        part = 2 * self.constraint_lipschitz**2 * self._logarithm
        return part / (self.penalty * self.strong_convexity)

    @property
    def base(self) -> float:
        """a."""
        return self.loss_lipschitz**2 * self._logarithm / (2 * self.strong_convexity)


@formula_of(_Strong)
def strong_surrogate_regret(game: _Strong) -> float:
    r"""Regret with Phi(q) = q^2, x_{t+1} = P_B(x_t - h_t / (V H t)), Q_t = sum [g]_+: G_f^2 ln(eT)
    / (2 H (1 - u)).

    u = 2 G_g^2 ln(eT) / (V H) must be below 1. Strong convexity of V f_t cancels the distances,
    which leaves Q_T^2 + V Regret <= sum_t |h_t|^2 / (2 V H t) with |h_t|^2 <= (1 + c) V^2 G_f^2 +
    (1 + 1/c) 4 Q_T^2 G_g^2 for every c > 0; the best c makes (1 + 1/c) u = 1. At V = 8 G_g^2 ln(eT)
    / H that is 2/3 of Sinha and Vaze's (G_f^2 / H) ln(eT), c = 1.
    """
    return game.base / (1 - game.share)


@formula_of(_Strong)
def strong_surrogate_violation(
    game: _Strong, *, diameter: float, loss_range: NonNegative | None = None
) -> float:
    r"""Clipped violation: sqrt(V ((1 + c) a + F T) / (1 - (1 + 1/c) u)), a = G_f^2 ln(eT) / (2 H),
    at the best c > 0."""
    a, u, penalty = game.base, game.share, game.penalty
    gain = range_of_losses(loss_range, game.loss_lipschitz, diameter) * game.horizon
    if a == 0 or u == 0:  # c -> infinity, or c -> 0, costs nothing
        return math.sqrt(penalty * (a + gain) / (1 - u))
    c = (a * u + math.sqrt(a**2 * u**2 + a * (1 - u) * (a + gain) * u)) / (a * (1 - u))
    return math.sqrt(penalty * ((1 + c) * a + gain) / (1 - (1 + 1 / c) * u))
