r"""Clipped-OGD: Theorems 1 and 2, Propositions 2 and 3 and Lemma 1 of Yuan and Lamperski (2018),
and the anytime version of Theorem 1.

The learner plays x_{t+1} = P_B(x_t - eta_t df_t(x_t) - (1/sigma) sum_i [g_i(x_t)]_+ dg_i(x_t)).
Write b_t for |x_t - x|^2, s_t^2 for sum_i [g_i(x_t)]_+^2, and x for any decision with g_i(x) <= 0.
Projections do not expand, dg_i(x_t).(x_t - x) >= g_i(x_t), and the squared step splits as in
`step_sums.Split`; so, in every round,

    eta_t (f_t(x_t) - f_t(x)) + (alpha/sigma) s_t^2 <= (b_t - b_{t+1}) / 2 + (eta_t^2 / 2) A G_f^2.
        (*)

Everything here is (*) summed, either divided by eta_t (regret) or as it stands (squared violation).
Losses of modulus H subtract H eta_t b_t / 2 on the right (Theorem 2, eta_t = 1 / (H (t + 1))).
Nothing in it needs g to be the same in every round: with constraints that vary, each formula holds
word for word for [g_t(x_t)]_+ against decisions x with g_t(x) <= 0 for all t, the multiplier being
computed after the reveal.

R is the distance from x_1 to the farthest decision that counts as a comparator; the domain's
largest distance from x_1 always does. No ball is needed. After replacing the constraints by their
maximum, m = 1. F is `loss_range`, 2 R G_f where it is not known.

`form` chooses the split: "paper" (one G for losses and constraints), "scale-aware" (G_f and G_g
apart) or "sharp" (the best constant c of `step_sums.Split`; never larger than "scale-aware", and
free of the factor m + 1).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from .step_sums import Split, Steps, diameter_of, range_of_losses
from .theorem import (
    Count,
    NonNegative,
    OutsideTheorem,
    Positive,
    Share,
    formula,
    formula_of,
)

__all__ = [
    "clipped_anytime_regret",
    "clipped_anytime_squared_violation",
    "clipped_anytime_violation",
    "clipped_regret",
    "clipped_squared_violation",
    "clipped_violation",
    "smooth_peak_violation",
    "strong_clipped_regret",
    "strong_clipped_squared_violation",
    "strong_clipped_violation",
]


@dataclass(frozen=True)
class _Game:
    horizon: Count
    sigma: Positive
    radius: Positive
    loss_lipschitz: NonNegative
    constraint_lipschitz: NonNegative
    constraint_count: Count
    form: str = "scale-aware"

    @property
    def split(self) -> Split:
        slopes = (self.loss_lipschitz, self.constraint_lipschitz)
        return Split.checked(self.form, self.sigma, *slopes, self.constraint_count)

    def spread(self, loss_range: float | None) -> float:
        """F."""
        return range_of_losses(loss_range, self.loss_lipschitz, 2 * self.radius)

    def regret(self, steps: Steps, diameter: float | None = None) -> float:
        """(*) divided by eta_t and summed by parts, with the violation's term dropped."""
        split, across = self.split, diameter_of(diameter, self.radius)
        loss = split.loss_lipschitz**2 * steps.sum(self.horizon) / 2
        return steps.distance_term(self.horizon, self.radius, across) + split.loss_factor * loss

    def squared(self, steps: Steps, spread: float) -> float:
        """(*) summed as it stands, with f_t(x_t) - f_t(x) >= -spread."""
        split = self.split
        fixed = self.radius**2 / 2 + spread * steps.sum(self.horizon)
        charged = split.loss_lipschitz**2 * steps.sum_of_squares(self.horizon) / 2
        return split.sigma * split.over_slack(fixed, charged)


@formula_of(_Game)
def clipped_regret(game: _Game, *, eta: Positive) -> float:
    r"""Regret of Clipped-OGD with a fixed step: R^2 / (2 eta) + eta T A G_f^2 / 2
        (Theorem 1, Proposition 3).

    A = m + 1, and in the form "sharp" A = 2 sigma / (2 sigma - m G_g^2), which is below 2 for
    sigma >= m G_g^2. At eta = R / (G_f sqrt((m+1) T)) the value is R G_f sqrt((m+1) T). The step
    printed in Theorem 1, 1 / (G sqrt((m+1) R T)), has a wrong power of R: it makes the value
    (G sqrt((m+1) T) / 2)(R^(5/2) + R^(-1/2)); both follow from this formula.
    """
    return game.regret(Steps(eta))


@formula_of(_Game)
def clipped_squared_violation(
    game: _Game, *, eta: Positive, loss_range: NonNegative | None = None
) -> float:
    r"""Sum over all rounds and constraints of [g_i(x_t)]_+^2
        (Theorem 1, Proposition 3); so also for one i.

    (sigma eta / alpha)(R^2 / (2 eta) + eta T A G_f^2 / 2 + F T), alpha = 1 - (m+1) G_g^2 / (2
    sigma).
    """
    return game.squared(Steps(eta), game.spread(loss_range))


@formula_of(_Game)
def clipped_violation(
    game: _Game, *, eta: Positive, loss_range: NonNegative | None = None
) -> float:
    """Sum over rounds of [g_i(x_t)]_+, for each i, and of max_i [g_i(x_t)]_+
        (Propositions 2 and 3).

    sqrt(T Q), Q the bound on the squared violation, by Cauchy-Schwarz; max_i [g_i]_+^2 <= sum_i
    [g_i]_+^2. The sum over all i and t is at most sqrt(m) times this number.
    """
    return math.sqrt(game.horizon * game.squared(Steps(eta), game.spread(loss_range)))


@formula_of(_Game)
def clipped_anytime_regret(
    game: _Game, *, eta: Positive, beta: Share = 0.5, diameter: Positive | None = None
) -> float:
    r"""Regret with the step eta_t = eta / t^beta, for every horizon at once.

    (D^2 / eta_T - (D^2 - R^2) / eta_1) / 2 + (A G_f^2 / 2) sum_t eta_t, D = `diameter` of the
    domain, 2 R where it is not given. At beta = 1/2 the sum is at most 2 eta sqrt(T).
    """
    return game.regret(Steps(eta, beta), diameter)


@formula_of(_Game)
def clipped_anytime_squared_violation(
    game: _Game, *, eta: Positive, beta: Share = 0.5, loss_range: NonNegative | None = None
) -> float:
    r"""Sum over rounds and constraints of [g_i(x_t)]_+^2 with the step eta_t = eta / t^beta, every
    horizon.

    (sigma / alpha)(R^2 / 2 + (A G_f^2 / 2) sum_t eta_t^2 + F sum_t eta_t). Summing (*) divided by
    eta_t and undoing the weights by Abel summation gives the same but for an extra term in log T.
    """
    return game.squared(Steps(eta, beta), game.spread(loss_range))


@formula_of(_Game)
def clipped_anytime_violation(
    game: _Game, *, eta: Positive, beta: Share = 0.5, loss_range: NonNegative | None = None
) -> float:
    """Sum over rounds of [g_i(x_t)]_+, each i, and of the largest, with the step eta_t = eta /
    t^beta."""
    return math.sqrt(game.horizon * game.squared(Steps(eta, beta), game.spread(loss_range)))


@formula_of(_Game)
def strong_clipped_regret(game: _Game, *, strong_convexity: Positive) -> float:
    r"""Regret for strongly convex losses: (H/2) R^2 + (A G_f^2 / (2 H)) ln(T + 1)  (Theorem 2).

    (*) divided by eta_t and summed: the coefficient of b_1 is H - H/2 and those of b_2, b_3, ...
    vanish; the steps sum to at most ln(T+1) / H. The paper has b_1 H for the first term (twice too
    much, harmless) and log(T) for the second (too little: zero at T = 1, where the sum is 1/2).
    """
    split = game.split
    loss = split.loss_lipschitz**2 * math.log(game.horizon + 1) / (2 * strong_convexity)
    return strong_convexity * game.radius**2 / 2 + split.loss_factor * loss


@formula_of(_Game)
def strong_clipped_squared_violation(
    game: _Game, *, strong_convexity: Positive, loss_range: NonNegative | None = None
) -> float:
    r"""Sum over rounds and constraints of [g_i(x_t)]_+^2: O(log T), which Theorem 2 does not have.

    (sigma/alpha)(R^2/2 + (A G_f^2 / 2) sum_t eta_t^2 + F' sum_t eta_t). Here F' = min(F, G_f^2 /
    (4H)), for df_t(x_t).(x_t - x) >= H b_t - G_f sqrt(b_t) >= -G_f^2 / (4H).
    """
    spread = min(game.spread(loss_range), game.loss_lipschitz**2 / (4 * strong_convexity))
    return game.squared(Steps(1 / strong_convexity, 1.0, 1), spread)


@formula_of(_Game)
def strong_clipped_violation(
    game: _Game, *, strong_convexity: Positive, loss_range: NonNegative | None = None
) -> float:
    r"""Sum over rounds of [g_i(x_t)]_+, each i, and of max_i [g_i(x_t)]_+: O(sqrt(T log T))
        (Theorem 2).

    (*) divided by eta_t and summed bounds sum_t s_t^2 / eta_t by (sigma/alpha)(H R^2 / 2 + A G_f^2
    ln(T+1) / (2H) + F' T), and (sum_t s_t)^2 <= sum_t eta_t sum_t s_t^2 / eta_t. A loss that is
    H-strongly convex and G_f-Lipschitz cannot be far below the comparator's: F' = min(F, G_f^2 / (2
    H)). The paper's constants are those of alpha = 1/2.
    """
    split = game.split
    spread = min(game.spread(loss_range), game.loss_lipschitz**2 / (2 * strong_convexity))
    sum_of_steps = math.log(game.horizon + 1) / strong_convexity
    fixed = strong_convexity * game.radius**2 / 2 + spread * game.horizon
    charged = split.loss_lipschitz**2 * sum_of_steps / 2
    return math.sqrt(sum_of_steps * game.sigma * split.over_slack(fixed, charged))


@formula
def smooth_peak_violation(
    *,
    eta: Positive,
    sigma: Positive,
    radius: Positive,
    loss_lipschitz: NonNegative,
    constraint_lipschitz: NonNegative,
    constraint_smoothness: NonNegative,
    initial_violation: NonNegative = 0.0,
    centre_feasible: bool = True,
) -> float:
    r"""Largest [g(x_t)]_+ of Clipped-OGD with a fixed step and one constraint whose gradient is
    L-Lipschitz (Lemma 1).

    max(e + C eta, [g(x_1)]_+), C = G_f G_g, e = (2 C sigma r^2 eta)^(1/3), valid if L times that
    number is at most sigma (checked). r is the largest distance from a feasible decision u to a
    point of the domain: R if x_1 itself is feasible, else 2 R (`centre_feasible=False`); a feasible
    decision must exist.

    Proof, inside the domain B throughout (the paper evaluates g outside it, and needs a ball
    centred at a feasible x_1 for g(P_B(y)) <= g(y); neither is necessary). Let gamma = g(x_t)/sigma
    > 0 and z = P_B(x_t - gamma dg(x_t)), so |x_{t+1} - z| <= eta G_f and g(x_{t+1}) <= g(z) + C
    eta. For gamma L <= 1 the two inequalities of projected gradient descent are g(z) <= g(x_t) -
    (1/gamma - L/2)|z - x_t|^2 and g(z) <= g(u) + (x_t - z).(x_t - u)/gamma <= r |x_t - z|/gamma;
    hence g(z) <= g(x_t) - g(x_t) g(z)^2 / (2 sigma r^2). Either g(z) < e, or the decrease is at
    least e^3 / (2 sigma r^2) = C eta and g(x_{t+1}) <= g(x_t). A round with g(x_t) <= 0 adds C eta
    at most. With the steps of Theorem 1 the number falls like T^(-1/6).
    `error_bound_peak_violation` is O(eta) wherever it applies.
    """
    constant = loss_lipschitz * constraint_lipschitz
    reach = radius * (1 if centre_feasible and initial_violation == 0 else 2)
    level = max(
        math.cbrt(2 * constant * sigma * reach**2 * eta) + constant * eta, initial_violation
    )
    if constraint_smoothness * level > sigma:
        raise OutsideTheorem(
            f"constraint_smoothness: got {constraint_smoothness:g}; expected at most sigma / "
            f"{level:g} = {sigma / level:g}, else the feasibility step may overshoot; a longer "
            "horizon (smaller eta) or a larger sigma helps"
        )
    return level
