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

from ... import arguments
from .step_sums import Steps, exact_difference
from .theorem import OutsideTheorem

__all__ = [
    "error_bound_contraction",
    "error_bound_distance",
    "error_bound_from_slater",
    "error_bound_peak_violation",
    "error_bound_squared_violation",
    "error_bound_violation",
]

_EXACT_ROUNDS = 4096  # rounds of (*) followed one by one before its limit takes over


def error_bound_from_slater(*, slater: float, distance: float) -> float:
    """The error bound that Slater's condition gives: epsilon / `distance`.

    If g(u) <= -epsilon and g(x) = v > 0, the point (epsilon x + v u) / (epsilon + v) is feasible,
    so d(x) <= |x - u| v / epsilon. `distance` is the largest |x - u| over the domain, at most its
    diameter.
    """
    return arguments.positive("slater", slater) / arguments.positive("distance", distance)


def error_bound_contraction(
    *, sigma: float, constraint_lipschitz: float, constraint_count: int, error_bound: float
) -> float:
    """The factor q by which a feasibility step brings a decision closer to the feasible set."""
    return _contraction(sigma, constraint_lipschitz, constraint_count, error_bound).q


def error_bound_distance(
    *,
    horizon: int,
    sigma: float,
    loss_lipschitz: float,
    constraint_lipschitz: float,
    constraint_count: int,
    error_bound: float,
    eta: float | None = None,
    beta: float = 0.0,
    strong_convexity: float | None = None,
    initial_distance: float = 0.0,
) -> float:
    r"""Distance to the feasible set in the single round t = `horizon`.

    (*) unrolled: q^(t-1) d_1 + G_f sum_{s<t} q^(t-1-s) eta_s, for a fixed step
    q^(t-1) d_1 + eta G_f (1 - q^(t-1)) / (1-q); in terms older than some thousand rounds, eta_1
    stands for eta_s.
    """
    recursion = _recursion(
        eta=eta,
        beta=beta,
        strong_convexity=strong_convexity,
        sigma=sigma,
        loss_lipschitz=loss_lipschitz,
        constraint_lipschitz=constraint_lipschitz,
        constraint_count=constraint_count,
        error_bound=error_bound,
    )
    return recursion.at(
        arguments.count("horizon", horizon),
        arguments.non_negative("initial_distance", initial_distance),
    )


def error_bound_peak_violation(
    *,
    horizon: int,
    sigma: float,
    loss_lipschitz: float,
    constraint_lipschitz: float,
    constraint_count: int,
    error_bound: float,
    eta: float | None = None,
    beta: float = 0.0,
    strong_convexity: float | None = None,
    initial_distance: float = 0.0,
) -> float:
    r"""Largest max_i [g_i(x_t)]_+ over all rounds: eta G_f G_g / (1 - q) for a fixed step from a
    feasible x_1.

    G_g times the largest value of (*). Once (*) has been followed for n rounds, no later value
    exceeds max(d_n, eta_n G_f / (1-q)), the steps not increasing.
    """
    recursion = _recursion(
        eta=eta,
        beta=beta,
        strong_convexity=strong_convexity,
        sigma=sigma,
        loss_lipschitz=loss_lipschitz,
        constraint_lipschitz=constraint_lipschitz,
        constraint_count=constraint_count,
        error_bound=error_bound,
    )
    return constraint_lipschitz * recursion.largest(horizon, initial_distance)


def error_bound_violation(
    *,
    horizon: int,
    sigma: float,
    loss_lipschitz: float,
    constraint_lipschitz: float,
    constraint_count: int,
    error_bound: float,
    eta: float | None = None,
    beta: float = 0.0,
    strong_convexity: float | None = None,
    initial_distance: float = 0.0,
) -> float:
    r"""Sum over rounds of max_i [g_i(x_t)]_+ (so of each): G_g (d_1 + G_f sum_{t<T} eta_t) / (1 -
    q) or less.

    (*) summed over rounds. For a fixed step the sum of the recursion itself,
    G_g (d_1 S + eta G_f (T - S) / (1 - q)) with S = (1 - q^T) / (1 - q); else T times the peak,
    where that is less. O(T^(1-beta)), and O(log T) with strongly convex steps.
    """
    recursion = _recursion(
        eta=eta,
        beta=beta,
        strong_convexity=strong_convexity,
        sigma=sigma,
        loss_lipschitz=loss_lipschitz,
        constraint_lipschitz=constraint_lipschitz,
        constraint_count=constraint_count,
        error_bound=error_bound,
    )
    return constraint_lipschitz * recursion.sum(horizon, initial_distance)


def error_bound_squared_violation(
    *,
    horizon: int,
    sigma: float,
    loss_lipschitz: float,
    constraint_lipschitz: float,
    constraint_count: int,
    error_bound: float,
    eta: float | None = None,
    beta: float = 0.0,
    strong_convexity: float | None = None,
    initial_distance: float = 0.0,
    total: bool = True,
) -> float:
    r"""Sum over rounds and constraints of [g_i(x_t)]_+^2; with `total=False`, of max_i
    [g_i(x_t)]_+^2 (m times less).

    m G_g^2 ((d_1 + G_f sqrt(sum_{t<T} eta_t^2)) / (1 - q))^2: (*) in the Euclidean norm of (d_1,
    ..., d_T); or T times the squared peak, where that is less. O(T^(1-2 beta)) for a fixed step ~
    T^-beta, O(1) with strongly convex steps.
    """
    recursion = _recursion(
        eta=eta,
        beta=beta,
        strong_convexity=strong_convexity,
        sigma=sigma,
        loss_lipschitz=loss_lipschitz,
        constraint_lipschitz=constraint_lipschitz,
        constraint_count=constraint_count,
        error_bound=error_bound,
    )
    peak = recursion.largest(horizon, initial_distance)
    length = math.sqrt(recursion.steps.sum_of_squares(horizon - 1))
    norm = (initial_distance + loss_lipschitz * length) / recursion.gap
    return (
        constraint_lipschitz**2
        * min(norm**2, horizon * peak**2)
        * (constraint_count if total else 1)
    )


@dataclass(frozen=True)
class _Contraction:
    """q and 1 - q^2, each computed without cancellation."""

    q: float
    lost: float


@dataclass(frozen=True)
class _Recursion:
    """(*): d_{t+1} = q d_t + eta_t G_f, with `lost` = 1 - q^2."""

    steps: Steps
    q: float
    lost: float
    loss_lipschitz: float

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

    def at(self, horizon: int, distance: float) -> float:
        """d_horizon."""
        last = horizon - 1
        recent = min(last, _EXACT_ROUNDS)
        pushes = math.fsum(self.q**n * self.steps.at(last - n) for n in range(recent))
        pushes += self.steps.at(1) * self.q**recent * self.faded(last - recent) / self.gap
        return self.q**last * distance + self.loss_lipschitz * pushes

    def largest(self, horizon: int, distance: float) -> float:
        """The largest of d_1, ..., d_horizon."""
        rounds = arguments.count("horizon", horizon)
        largest = distance = arguments.non_negative("initial_distance", distance)
        if (
            self.steps.exponent == 0
        ):  # d_t moves monotonically to its limit: the first or the last is the largest
            faded = self.faded(rounds - 1)
            return max(
                largest,
                (1 - faded) * distance + faded * self.steps.scale * self.loss_lipschitz / self.gap,
            )
        for t in range(1, min(rounds, _EXACT_ROUNDS)):
            distance = self.q * distance + self.steps.at(t) * self.loss_lipschitz
            largest = max(largest, distance)
        if rounds > _EXACT_ROUNDS:
            largest = max(largest, self.steps.at(_EXACT_ROUNDS) * self.loss_lipschitz / self.gap)
        return largest

    def sum(self, horizon: int, distance: float) -> float:
        """At least d_1 + ... + d_horizon."""
        rounds, distance = (
            arguments.count("horizon", horizon),
            arguments.non_negative("initial_distance", distance),
        )
        if self.steps.exponent > 0:
            total = (distance + self.loss_lipschitz * self.steps.sum(rounds - 1)) / self.gap
            return min(total, rounds * self.largest(rounds, distance))
        weight = self.faded(rounds) / self.gap
        pushes = (
            rounds * (rounds - 1) / 2
        )  # the limit q -> 1, which the difference below cannot resolve
        if rounds > 1 and rounds * self.gap > 1e-4:
            pushes = min(pushes, (rounds - weight) / self.gap)
        return distance * weight + self.loss_lipschitz * self.steps.scale * pushes


def _recursion(
    *,
    eta: float | None,
    beta: float,
    strong_convexity: float | None,
    sigma: float,
    loss_lipschitz: float,
    constraint_lipschitz: float,
    constraint_count: int,
    error_bound: float,
) -> _Recursion:
    if (eta is None) == (strong_convexity is None):
        raise OutsideTheorem(
            f"eta: got {eta!r} with strong_convexity={strong_convexity!r}; expected exactly one "
            "of the two"
        )
    if strong_convexity is not None:
        steps = Steps(1 / arguments.positive("strong_convexity", strong_convexity), 1.0, 1)
    else:
        steps = Steps(
            arguments.positive("eta", eta), 0.0 if beta == 0 else arguments.fraction("beta", beta)
        )
    found = _contraction(sigma, constraint_lipschitz, constraint_count, error_bound)
    return _Recursion(
        steps, found.q, found.lost, arguments.non_negative("loss_lipschitz", loss_lipschitz)
    )


def _contraction(
    sigma: float, constraint_lipschitz: float, constraint_count: int, error_bound: float
) -> _Contraction:
    """q and 1 - q^2 for p = m G_g^2 / sigma and c = kappa^2 / (m G_g^2), which is at most 1.

    1 - q^2 = c p (2 - p), and q^2 = (1 - c) + c (1 - p)^2 is a sum of positive numbers: 1 - c p (2
    - p) would lose half the digits of q where p and c are near 1.
    """
    sigma, lipschitz = (
        arguments.positive("sigma", sigma),
        arguments.positive("constraint_lipschitz", constraint_lipschitz),
    )
    count = arguments.count("constraint_count", constraint_count)
    part = count * lipschitz**2
    if sigma <= part / 2:
        raise OutsideTheorem(f"sigma: got {sigma:g}; expected more than m G_g^2 / 2 = {part / 2:g}")
    kappa = min(arguments.positive("error_bound", error_bound), lipschitz)
    share = kappa / lipschitz
    rest = ((count - 1) + (lipschitz - kappa) / lipschitz * (1 + share)) / count  # 1 - c
    squared = rest + share**2 / count * (exact_difference(sigma, count, lipschitz) / sigma) ** 2
    lost = kappa * (kappa / sigma) * (exact_difference(2 * sigma, count, lipschitz) / sigma)
    return _Contraction(math.sqrt(squared), min(lost, 1.0))
