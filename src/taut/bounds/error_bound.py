r"""Clipped-OGD under an error bound: violation proportional to the step, in every round, without smoothness.

Fixed constraints with max_i [g_i(x)]_+ >= kappa d(x), d(x) the distance to the feasible set S: true of every
polyhedron (Hoffman), and under Slater's condition (`error_bound_from_slater`). Let p be the projection of x_t on S
and d_t = d(x_t). From dg_i(x_t).(x_t - p) >= g_i(x_t),

    |x_t - (1/sigma) sum_i [g_i]_+ dg_i - p|^2 <= d_t^2 - (sum_i [g_i]_+^2 / sigma)(2 - m G_g^2 / sigma) <= q^2 d_t^2,
    q^2 = 1 - kappa^2 (2 - m G_g^2 / sigma) / sigma,     hence     d_{t+1} <= q d_t + eta_t G_f,                   (*)

and [g_i(x_t)]_+ <= G_g d_t. Only sigma > m G_g^2 / 2 is needed. Steps are eta_t = eta / t^beta (beta = 0: fixed), or, where
`strong_convexity` = H is given in place of eta, 1 / (H (t + 1)). A kappa above G_g says no more than kappa = G_g.
"""

from __future__ import annotations

import math
from typing import Any

from taut import errors

from .steps import Steps

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

    If g(u) <= -epsilon and g(x) = v > 0, the point (epsilon x + v u) / (epsilon + v) is feasible, so
    d(x) <= |x - u| v / epsilon. `distance` is the largest |x - u| over the domain, at most its diameter.
    """
    return errors.positive("slater", slater) / errors.positive("distance", distance)


def error_bound_contraction(
    *, sigma: float, constraint_lipschitz: float, constraint_count: int, error_bound: float
) -> float:
    """The factor q by which a feasibility step brings a decision closer to the feasible set."""
    return math.sqrt(1 - _shrinkage(sigma, constraint_lipschitz, constraint_count, error_bound))


def error_bound_distance(
    *, horizon: int, sigma: float, loss_lipschitz: float, constraint_lipschitz: float, constraint_count: int,
    error_bound: float, eta: float | None = None, beta: float = 0.0, strong_convexity: float | None = None,
    initial_distance: float = 0.0,
) -> float:  # fmt: skip
    r"""Distance to the feasible set in round `horizon`, d_1 = `initial_distance` in round 1.

    (*) unrolled: q^(t-1) d_1 + G_f sum_{s<t} q^(t-1-s) eta_s, which is q^(t-1) d_1 + eta G_f (1 - q^(t-1)) / (1-q) for a
    fixed step; the terms older than some thousand rounds are replaced by eta_1 G_f q^n / (1-q).
    """
    steps, q, gap = _recursion(eta, beta, strong_convexity, sigma, constraint_lipschitz, constraint_count, error_bound)
    lipschitz = errors.non_negative("loss_lipschitz", loss_lipschitz)
    last = errors.count("horizon", horizon) - 1
    recent = min(last, _EXACT_ROUNDS)
    value = q**last * errors.non_negative("initial_distance", initial_distance)
    value += lipschitz * sum(q**n * steps.at(last - n) for n in range(recent))
    if last > recent:
        value += lipschitz * steps.at(1) * q**recent * -math.expm1((last - recent) * math.log1p(-gap)) / gap
    return value


def error_bound_peak_violation(
    *, horizon: int, sigma: float, loss_lipschitz: float, constraint_lipschitz: float, constraint_count: int,
    error_bound: float, eta: float | None = None, beta: float = 0.0, strong_convexity: float | None = None,
    initial_distance: float = 0.0,
) -> float:  # fmt: skip
    r"""Largest max_i [g_i(x_t)]_+ over all rounds: eta G_f G_g / (1 - q) for a fixed step from a feasible x_1.

    G_g times the largest value of (*). Once (*) has been followed for n rounds, no later value exceeds
    max(d_n, eta_n G_f / (1-q)), the steps not increasing.
    """
    distance, _, _ = _largest_distance(
        horizon, sigma, loss_lipschitz, constraint_lipschitz, constraint_count, error_bound, eta, beta,
        strong_convexity, initial_distance,
    )  # fmt: skip
    return constraint_lipschitz * distance


def error_bound_violation(
    *, horizon: int, sigma: float, loss_lipschitz: float, constraint_lipschitz: float, constraint_count: int,
    error_bound: float, eta: float | None = None, beta: float = 0.0, strong_convexity: float | None = None,
    initial_distance: float = 0.0,
) -> float:  # fmt: skip
    r"""Sum over rounds of max_i [g_i(x_t)]_+ (so of each): G_g (d_1 + G_f sum_{t<T} eta_t) / (1 - q).

    (*) summed over rounds; or T times the peak, where that is less. O(T^(1-beta)), and O(log T) with strongly
    convex steps.
    """
    peak, steps, gap = _largest_distance(
        horizon, sigma, loss_lipschitz, constraint_lipschitz, constraint_count, error_bound, eta, beta,
        strong_convexity, initial_distance,
    )  # fmt: skip
    total = (initial_distance + loss_lipschitz * steps.sum(horizon - 1)) / gap
    return constraint_lipschitz * min(total, horizon * peak)


def error_bound_squared_violation(
    *, horizon: int, sigma: float, loss_lipschitz: float, constraint_lipschitz: float, constraint_count: int,
    error_bound: float, eta: float | None = None, beta: float = 0.0, strong_convexity: float | None = None,
    initial_distance: float = 0.0, total: bool = True,
) -> float:  # fmt: skip
    r"""Sum over rounds and constraints of [g_i(x_t)]_+^2; with `total=False`, of max_i [g_i(x_t)]_+^2 (m times less).

    m G_g^2 ((d_1 + G_f sqrt(sum_{t<T} eta_t^2)) / (1 - q))^2: (*) in the Euclidean norm of (d_1, ..., d_T); or T times
    the squared peak, where that is less. O(T^(1-2 beta)) for a fixed step ~ T^-beta, O(1) with strongly convex steps.
    """
    peak, steps, gap = _largest_distance(
        horizon, sigma, loss_lipschitz, constraint_lipschitz, constraint_count, error_bound, eta, beta,
        strong_convexity, initial_distance,
    )  # fmt: skip
    norm = (initial_distance + loss_lipschitz * math.sqrt(steps.sum_of_squares(horizon - 1))) / gap
    return constraint_lipschitz**2 * min(norm**2, horizon * peak**2) * (constraint_count if total else 1)


def _largest_distance(
    horizon: int, sigma: float, loss_lipschitz: float, constraint_lipschitz: float, constraint_count: int,
    error_bound: float, eta: float | None, beta: float, strong_convexity: float | None, initial_distance: float,
) -> tuple[float, Steps, float]:  # fmt: skip
    """The largest value of (*), the steps, and 1 - q."""
    steps, q, gap = _recursion(eta, beta, strong_convexity, sigma, constraint_lipschitz, constraint_count, error_bound)
    lipschitz = errors.non_negative("loss_lipschitz", loss_lipschitz)
    rounds = errors.count("horizon", horizon)
    distance = largest = errors.non_negative("initial_distance", initial_distance)
    if steps.exponent == 0:  # (*) is monotone: the largest value is the first or the last
        faded = 0.0 if q == 0 else math.exp((rounds - 1) * math.log1p(-gap))
        last = faded * distance + steps.scale * lipschitz * (1 - faded) / gap
        return max(largest, last if rounds > 1 else largest), steps, gap
    for t in range(1, min(rounds, _EXACT_ROUNDS)):
        distance = q * distance + steps.at(t) * lipschitz
        largest = max(largest, distance)
    if rounds > _EXACT_ROUNDS:
        largest = max(largest, steps.at(_EXACT_ROUNDS) * lipschitz / gap)
    return largest, steps, gap


def _recursion(
    eta: float | None, beta: float, strong_convexity: float | None, *shrinkage: Any
) -> tuple[Steps, float, float]:
    """The steps, q, and 1 - q without cancellation."""
    if (eta is None) == (strong_convexity is None):
        raise ValueError(
            f"eta: got {eta!r} with strong_convexity={strong_convexity!r}; expected exactly one of the two"
        )
    if strong_convexity is not None:
        steps = Steps(1 / errors.positive("strong_convexity", strong_convexity), 1.0, 1)
    else:
        steps = Steps(errors.positive("eta", eta), 0.0 if beta == 0 else errors.fraction("beta", beta))
    lost = _shrinkage(*shrinkage)
    q = math.sqrt(1 - lost)
    return steps, q, lost / (1 + q)


def _shrinkage(sigma: float, constraint_lipschitz: float, constraint_count: int, error_bound: float) -> float:
    """1 - q^2."""
    sigma, lipschitz = errors.positive("sigma", sigma), errors.positive("constraint_lipschitz", constraint_lipschitz)
    part = errors.count("constraint_count", constraint_count) * lipschitz**2
    if sigma <= part / 2:
        raise ValueError(f"sigma: got {sigma:g}; expected more than m G_g^2 / 2 = {part / 2:g}")
    kappa = min(errors.positive("error_bound", error_bound), lipschitz)
    return min(kappa**2 * (2 - part / sigma) / sigma, 1.0)
