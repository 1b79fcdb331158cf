r"""Clipped-OGD under an error bound: violation proportional to the step, in every round, without
smoothness.

Fixed constraints with max_i [g_i(x)]_+ >= kappa d(x), d(x) the distance to the feasible set S: true
of every polyhedron (Hoffman), and under Slater's condition (`error_bound_from_slater`). Let p be
the projection of x_t on S and d_t = d(x_t). From dg_i(x_t).(x_t - p) >= g_i(x_t),

    |x_t - (1/sigma) sum_i [g_i]_+ dg_i - p|^2
        <= d_t^2 - (sum_i [g_i]_+^2 / sigma)(2 - m G_g^2 / sigma) <= q^2 d_t^2,
    q^2 = 1 - kappa^2 (2 - m G_g^2 / sigma) / sigma,   hence   d_{t+1} <= q d_t + eta_t G_f,   (*)

and [g_i(x_t)]_+ <= G_g d_t. Only sigma > m G_g^2 / 2 is needed. Steps are eta_t = eta / t^beta
(beta = 0: fixed), or, where `strong_convexity` = H is given in place of eta, 1 / (H (t + 1)). A
kappa above G_g says no more than kappa = G_g. The distance of the first decision to S is d_1 =
`initial_distance`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

from .step_sums import Steps, exact_difference
from .theorem import Count, NonNegative, OutsideTheorem, Positive, Power, formula, formula_of

__all__ = [
    "error_bound_distance",
    "error_bound_from_slater",
    "error_bound_peak_violation",
    "error_bound_squared_violation",
    "error_bound_violation",
]

_EXACT_ROUNDS = 4096  # rounds of (*) followed one by one before its limit takes over


@formula
def error_bound_from_slater(*, slater: Positive, distance: Positive) -> float:
    """The error bound that Slater's condition gives: epsilon / `distance`.

    If g(u) <= -epsilon and g(x) = v > 0, the point (epsilon x + v u) / (epsilon + v) is feasible,
    so d(x) <= |x - u| v / epsilon. `distance` is the largest |x - u| over the domain, at most its
    diameter.
    """
    return slater / distance


@dataclass(frozen=True)
class _Recursion:
    """(*): d_{t+1} = q d_t + eta_t G_f, from d_1."""

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

    def last(self) -> float:
        """d_T."""
        last = self.horizon - 1
        recent = min(last, _EXACT_ROUNDS)
        pushes = math.fsum(self.q**n * self.steps.at(last - n) for n in range(recent))
        pushes += self.steps.at(1) * self.q**recent * self.faded(last - recent) / self.gap
        return self.q**last * self.initial_distance + self.loss_lipschitz * pushes

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
def error_bound_distance(recursion: _Recursion) -> float:
    r"""Distance to the feasible set in the single round t = `horizon`.

    (*) unrolled: q^(t-1) d_1 + G_f sum_{s<t} q^(t-1-s) eta_s, for a fixed step
    q^(t-1) d_1 + eta G_f (1 - q^(t-1)) / (1-q); in terms older than some thousand rounds, eta_1
    stands for eta_s.
    """
    return recursion.last()


@formula_of(_Recursion)
def error_bound_peak_violation(recursion: _Recursion) -> float:
    r"""Largest max_i [g_i(x_t)]_+ over all rounds: eta G_f G_g / (1 - q) for a fixed step from a
    feasible x_1.

    G_g times the largest value of (*). Once (*) has been followed for n rounds, no later value
    exceeds max(d_n, eta_n G_f / (1-q)), the steps not increasing.
    """
    return recursion.constraint_lipschitz * recursion.largest()


@formula_of(_Recursion)
def error_bound_violation(recursion: _Recursion) -> float:
    r"""Sum over rounds of max_i [g_i(x_t)]_+ (so of each): G_g (d_1 + G_f sum_{t<T} eta_t) / (1 -
    q) or less.

    (*) summed over rounds. For a fixed step the sum of the recursion itself,
    G_g (d_1 S + eta G_f (T - S) / (1 - q)) with S = (1 - q^T) / (1 - q); else T times the peak,
    where that is less. O(T^(1-beta)), and O(log T) with strongly convex steps.
    """
    return recursion.constraint_lipschitz * recursion.sum()


@formula_of(_Recursion)
def error_bound_squared_violation(recursion: _Recursion, *, total: bool = True) -> float:
    r"""Sum over rounds and constraints of [g_i(x_t)]_+^2; with `total=False`, of max_i
    [g_i(x_t)]_+^2 (m times less).

    m G_g^2 ((d_1 + G_f sqrt(sum_{t<T} eta_t^2)) / (1 - q))^2: (*) in the Euclidean norm of (d_1,
    ..., d_T); or T times the squared peak, where that is less. O(T^(1-2 beta)) for a fixed step ~
    T^-beta, O(1) with strongly convex steps.
    """
    length = math.sqrt(recursion.steps.sum_of_squares(recursion.horizon - 1))
    pushed = recursion.initial_distance + recursion.loss_lipschitz * length
    largest = min((pushed / recursion.gap) ** 2, recursion.horizon * recursion.largest() ** 2)
    rows = recursion.constraint_count if total else 1
    return recursion.constraint_lipschitz**2 * largest * rows
