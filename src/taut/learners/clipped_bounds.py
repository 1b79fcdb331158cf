r"""Clipped-OGD: Theorems 1 and 2, Propositions 2 and 3 and Lemma 1 of Yuan and Lamperski (2018),
and the anytime version of Theorem 1.

The learner plays x_{t+1} = P_B(x_t - eta_t df_t(x_t) - (1/sigma) sum_i [g_i(x_t)]_+ dg_i(x_t)).
Write b_t for |x_t - x|^2, s_t^2 for sum_i [g_i(x_t)]_+^2, and x for any decision with g_i(x) <= 0.
Projections do not expand, dg_i(x_t).(x_t - x) >= g_i(x_t), and the squared step splits as in
`Split`; so, in every round,

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
apart) or "sharp" (the best constant c of `Split`; never larger than "scale-aware", and
free of the factor m + 1).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from .. import arguments
from .theorem import (
    Count,
    NonNegative,
    OutsideTheorem,
    Positive,
    Power,
    Steps,
    diameter_of,
    formula,
    formula_of,
    range_of_losses,
)

FORMS = ("paper", "scale-aware", "sharp")
_EXACT_ROUNDS = 4096  # rounds of (+) followed one by one before its limit takes over


@dataclass(frozen=True)
class Split:
    r"""How the squared norm of a Clipped-OGD step is split into a loss part and a constraint part.

    With a = the loss gradient, b = sum_i lambda_i dg_i, |b|^2 <= m G_g^2 |lambda|^2 and any c > 0

        |a + b|^2 <= (1 + 1/c) G_f^2 + (1 + c) m G_g^2 |lambda|^2,

    so the loss is charged A = 1 + 1/c times and the slack left for the violation is
    alpha = 1 - (1 + c) k, k = m G_g^2 / (2 sigma). The paper's choice is c = 1/m, giving A = m + 1
    and alpha = 1 - (m+1) G_g^2 / (2 sigma), with G_f = G_g = G = max(G_f, G_g) in the form "paper".
    The form "sharp" takes the best c for each result: the learner does not depend on c, so neither
    must its guarantee.
    """

    form: str
    sigma: float
    loss_lipschitz: float
    constraint_lipschitz: float
    constraint_count: int

    @classmethod
    def checked(
        cls,
        form: str,
        sigma: float,
        loss_lipschitz: float,
        constraint_lipschitz: float,
        constraint_count: int,
    ) -> Split:
        """The split, refused where the theorem says nothing about its numbers."""
        form, count = arguments.one_of("form", form, FORMS), constraint_count
        loss, constraint = loss_lipschitz, constraint_lipschitz
        if form == "paper":
            loss = constraint = max(loss, constraint)
        factor, name = (count, "m") if form == "sharp" else (count + 1, "(m + 1)")
        least = factor * constraint**2 / 2
        if sigma <= least:
            raise OutsideTheorem(
                f"sigma: got {sigma:g}; expected more than {name} G^2 / 2 = {least:g}, else the "
                f"feasibility step overshoots and the theorem (form {form!r}) says nothing"
            )
        return cls(form, sigma, loss, constraint, count)

    @property
    def constraint_part(self) -> float:
        """k = m G_g^2 / (2 sigma)."""
        return self.constraint_count * self.constraint_lipschitz**2 / (2 * self.sigma)

    @property
    def slack(self) -> float:
        """1 - k, or 1 - (m + 1) k / m unless the form is "sharp"."""
        factor = self.constraint_count if self.form == "sharp" else self.constraint_count + 1
        return exact_difference(2 * self.sigma, factor, self.constraint_lipschitz) / (
            2 * self.sigma
        )

    @property
    def loss_factor(self) -> float:
        """A for a bound on the regret alone, where the violation may use up the whole slack."""
        if self.form == "sharp":  # alpha = 0 at c = (1 - k) / k
            return 1 / self.slack
        return self.constraint_count + 1.0

    def over_slack(self, fixed: float, charged: float) -> float:
        """(fixed + A charged) / alpha; in the form "sharp" the least such value over c."""
        k, slack = self.constraint_part, self.slack
        if self.form != "sharp":
            return (fixed + (self.constraint_count + 1) * charged) / slack
        if charged == 0 or k == 0:  # c -> 0 costs nothing, or c -> infinity does
            return (fixed + charged) / slack
        # d/dc (P + Q/c) / (1 - k - kc) = 0  <=>  k P c^2 + 2 k Q c - (1 - k) Q = 0, P = fixed +
        # charged. With the root S below, c = (1 - k) Q / (k Q + S), 1 - k - kc = (1 - k) S / (k Q +
        # S) and Q / c = (k Q + S) / (1 - k).
        part, total = k * charged, fixed + charged
        root = math.sqrt(part * (part + slack * total))
        return (total + (part + root) / slack) * (part + root) / (slack * root)


def exact_difference(value: float, factor: int, root: float) -> float:
    """value - factor * root^2, rounded once: a rounded square would leave few digits of a small
    difference."""
    return float(Fraction(value) - factor * Fraction(root) ** 2)


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

    def squared(self, steps: Steps, spread: float) -> float:
        """(*) summed as it stands, with f_t(x_t) - f_t(x) >= -spread."""
        split = self.split
        fixed = self.radius**2 / 2 + spread * steps.sum(self.horizon)
        charged = split.loss_lipschitz**2 * steps.sum_of_squares(self.horizon) / 2
        return split.sigma * split.over_slack(fixed, charged)


@formula_of(_Game)
def clipped_regret(
    game: _Game, *, eta: Positive, beta: Power = 0.0, diameter: Positive | None = None
) -> float:
    r"""Regret of Clipped-OGD with the step eta_t = eta / t^beta, 0 for a fixed one (Theorem 1,
    Proposition 3; every horizon at once if beta > 0).

    (D^2 / eta_T - (D^2 - R^2) / eta_1) / 2 + (A G_f^2 / 2) sum_t eta_t, D = `diameter` of the
    domain, 2 R where it is not given: R^2 / (2 eta) + eta T A G_f^2 / 2 with a fixed step. A = m +
    1, and in the form "sharp" A = 2 sigma / (2 sigma - m G_g^2), which is below 2 for sigma >= m
    G_g^2. At eta = R / (G_f sqrt((m+1) T)) the value is R G_f sqrt((m+1) T). The step printed in
    Theorem 1, 1 / (G sqrt((m+1) R T)), has a wrong power of R: it makes the value
    (G sqrt((m+1) T) / 2)(R^(5/2) + R^(-1/2)); both follow from this formula.
    """
    split, steps, across = game.split, Steps(eta, beta), diameter_of(diameter, game.radius)
    loss = split.loss_lipschitz**2 * steps.sum(game.horizon) / 2
    return steps.distance_term(game.horizon, game.radius, across) + split.loss_factor * loss


@formula_of(_Game)
def clipped_squared_violation(
    game: _Game, *, eta: Positive, beta: Power = 0.0, loss_range: NonNegative | None = None
) -> float:
    r"""Sum over all rounds and constraints of [g_i(x_t)]_+^2, so also for one i, with the step
    eta_t = eta / t^beta (Theorem 1, Proposition 3).

    (sigma / alpha)(R^2 / 2 + (A G_f^2 / 2) sum_t eta_t^2 + F sum_t eta_t), alpha = 1 - (m+1) G_g^2
    / (2 sigma). Summing (*) divided by eta_t and undoing the weights by Abel summation gives the
    same but for an extra term in log T.
    """
    return game.squared(Steps(eta, beta), game.spread(loss_range))


@formula_of(_Game)
def clipped_violation(
    game: _Game, *, eta: Positive, beta: Power = 0.0, loss_range: NonNegative | None = None
) -> float:
    """Sum over rounds of [g_i(x_t)]_+, for each i, and of max_i [g_i(x_t)]_+
        (Propositions 2 and 3).

    sqrt(T Q), Q the bound on the squared violation, by Cauchy-Schwarz; max_i [g_i]_+^2 <= sum_i
    [g_i]_+^2. The sum over all i and t is at most sqrt(m) times this number.
    """
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


@dataclass(frozen=True)
class _Recursion:
    r"""Violation proportional to the step, in every round, without smoothness.

    Fixed constraints with max_i [g_i(x)]_+ >= kappa d(x), d(x) the distance to the feasible set S:
    true of every polyhedron (Hoffman), and under Slater's condition (`error_bound_from_slater`).
    Let p be the projection of x_t on S and d_t = d(x_t). From dg_i(x_t).(x_t - p) >= g_i(x_t),

        |x_t - (1/sigma) sum_i [g_i]_+ dg_i - p|^2
            <= d_t^2 - (sum_i [g_i]_+^2 / sigma)(2 - m G_g^2 / sigma) <= q^2 d_t^2,
        q^2 = 1 - kappa^2 (2 - m G_g^2 / sigma) / sigma,   hence   d_{t+1} <= q d_t + eta_t G_f,
        (+)

    and [g_i(x_t)]_+ <= G_g d_t. Only sigma > m G_g^2 / 2 is needed. Steps are eta_t = eta / t^beta
    (beta = 0: fixed), or, where `strong_convexity` = H is given in place of eta, 1 / (H (t + 1)). A
    kappa above G_g says no more than kappa = G_g. The distance of the first decision to S is d_1 =
    `initial_distance`.
    """

    horizon: Count
    sigma: Positive
    loss_lipschitz: NonNegative
    constraint_lipschitz: Positive
    constraint_count: Count
    error_bound: Positive
    eta: Positive | None = None
    beta: Power = 0.0
    strong_convexity: Positive | None = None
    initial_distance: NonNegative = 0.0

    def __post_init__(self) -> None:
        if (self.eta is None) == (self.strong_convexity is None):
            raise OutsideTheorem(
                f"eta: got {self.eta!r} with strong_convexity={self.strong_convexity!r}; expected "
                "exactly one of the two"
            )
        least = self.constraint_count * self.constraint_lipschitz**2 / 2
        if self.sigma <= least:
            raise OutsideTheorem(
                f"sigma: got {self.sigma:g}; expected more than m G_g^2 / 2 = {least:g}"
            )

    @cached_property
    def steps(self) -> Steps:
        if self.strong_convexity is not None:
            return Steps(1 / self.strong_convexity, 1.0, 1)
        return Steps(self.eta or 0.0, self.beta)

    @property
    def _kappa(self) -> float:
        return min(self.error_bound, self.constraint_lipschitz)

    @cached_property
    def q(self) -> float:
        """q^2 = (1 - c) + c (1 - p)^2 with p = m G_g^2 / sigma and c = kappa^2 / (m G_g^2): a sum
        of positive numbers. 1 - c p (2 - p) would lose half the digits where p and c are near 1."""
        count, lipschitz, kappa = self.constraint_count, self.constraint_lipschitz, self._kappa
        share = kappa / lipschitz
        rest = ((count - 1) + (lipschitz - kappa) / lipschitz * (1 + share)) / count  # 1 - c
        part = exact_difference(self.sigma, count, lipschitz) / self.sigma
        return math.sqrt(rest + share**2 / count * part**2)

    @cached_property
    def lost(self) -> float:
        """1 - q^2 = c p (2 - p)."""
        part = exact_difference(2 * self.sigma, self.constraint_count, self.constraint_lipschitz)
        return min(self._kappa * (self._kappa / self.sigma) * (part / self.sigma), 1.0)

    @property
    def gap(self) -> float:
        """1 - q, without cancellation."""
        return self.lost / (1 + self.q)

    def faded(self, rounds: int) -> float:
        """1 - q^rounds, without cancellation."""
        if rounds == 0 or self.q == 0:
            return float(rounds > 0)
        logarithm = math.log(self.q) if self.lost > 0.5 else math.log1p(-self.lost) / 2
        return -math.expm1(rounds * logarithm)

    def largest(self) -> float:
        """The largest of d_1, ..., d_T."""
        largest = distance = self.initial_distance
        if self.steps.exponent == 0:
            # d_t moves monotonically to its limit: the first or the last is the largest.
            faded = self.faded(self.horizon - 1)
            limit = faded * self.steps.scale * self.loss_lipschitz / self.gap
            return max(largest, (1 - faded) * distance + limit)
        for t in range(1, min(self.horizon, _EXACT_ROUNDS)):
            distance = self.q * distance + self.steps.at(t) * self.loss_lipschitz
            largest = max(largest, distance)
        if self.horizon > _EXACT_ROUNDS:
            largest = max(largest, self.steps.at(_EXACT_ROUNDS) * self.loss_lipschitz / self.gap)
        return largest

    def sum(self) -> float:
        """At least d_1 + ... + d_T."""
        rounds, distance = self.horizon, self.initial_distance
        if self.steps.exponent > 0:
            total = (distance + self.loss_lipschitz * self.steps.sum(rounds - 1)) / self.gap
            return min(total, rounds * self.largest())
        weight = self.faded(rounds) / self.gap
        # The limit q -> 1, which the difference below cannot resolve.
        pushes = rounds * (rounds - 1) / 2
        if rounds > 1 and rounds * self.gap > 1e-4:
            pushes = min(pushes, (rounds - weight) / self.gap)
        return distance * weight + self.loss_lipschitz * self.steps.scale * pushes


@formula_of(_Recursion)
def error_bound_peak_violation(recursion: _Recursion) -> float:
    r"""Largest max_i [g_i(x_t)]_+ over all rounds: eta G_f G_g / (1 - q) for a fixed step from a
    feasible x_1.

    G_g times the largest value of (+). Once (+) has been followed for n rounds, no later value
    exceeds max(d_n, eta_n G_f / (1-q)), the steps not increasing.
    """
    return recursion.constraint_lipschitz * recursion.largest()


@formula_of(_Recursion)
def error_bound_violation(recursion: _Recursion) -> float:
    r"""Sum over rounds of max_i [g_i(x_t)]_+ (so of each): G_g (d_1 + G_f sum_{t<T} eta_t) / (1 -
    q) or less.

    (+) summed over rounds. For a fixed step the sum of the recursion itself,
    G_g (d_1 S + eta G_f (T - S) / (1 - q)) with S = (1 - q^T) / (1 - q); else T times the peak,
    where that is less. O(T^(1-beta)), and O(log T) with strongly convex steps.
    """
    return recursion.constraint_lipschitz * recursion.sum()


@formula_of(_Recursion)
def error_bound_squared_violation(recursion: _Recursion, *, total: bool = True) -> float:
    r"""Sum over rounds and constraints of [g_i(x_t)]_+^2; with `total=False`, of max_i
    [g_i(x_t)]_+^2 (m times less).

    m G_g^2 ((d_1 + G_f sqrt(sum_{t<T} eta_t^2)) / (1 - q))^2: (+) in the Euclidean norm of (d_1,
    ..., d_T); or T times the squared peak, where that is less. O(T^(1-2 beta)) for a fixed step ~
    T^-beta, O(1) with strongly convex steps.
    """
    length = math.sqrt(recursion.steps.sum_of_squares(recursion.horizon - 1))
    pushed = recursion.initial_distance + recursion.loss_lipschitz * length
    largest = min((pushed / recursion.gap) ** 2, recursion.horizon * recursion.largest() ** 2)
    rows = recursion.constraint_count if total else 1
    return recursion.constraint_lipschitz**2 * largest * rows
