r"""Parameters of Clipped-OGD that minimise its own guarantee: regret plus a weight times
violation."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from ..problem.constants import Constants
from .card import COUNTED
from .clipped_bounds import Split, clipped_regret, clipped_violation, error_bound_violation
from .theorem import Count, Positive, Steps, error_bound_from_slater, formula, range_of_losses


class ClippedParameters(NamedTuple):
    """The step size and the feasibility step's 1/sigma of Clipped-OGD."""

    eta: float
    sigma: float


@formula
def clipped_objective(
    *,
    eta: float,
    sigma: float,
    constants: Constants,
    horizon: int,
    weight: Positive,
    initial_distance: float | None = None,
) -> float:
    """What `optimal_parameters` minimises, for given parameters.

    `clipped_regret` plus `weight` times `clipped_violation`, both in the form "sharp". With
    `initial_distance`, the distance of x_1 to the feasible set (0 if x_1 is feasible), and an error
    bound that is known or follows from Slater's condition, `error_bound_violation` replaces the
    latter where it is less; that needs constraints which do not change.
    """
    radius, loss, slope, count = constants.need(*COUNTED)
    common = {
        "sigma": sigma,
        "loss_lipschitz": loss,
        "constraint_lipschitz": slope,
        "constraint_count": count,
    }
    regret = clipped_regret(horizon=horizon, eta=eta, radius=radius, form="sharp", **common)
    violation = clipped_violation(
        horizon=horizon,
        eta=eta,
        radius=radius,
        loss_range=constants.loss_range,
        form="sharp",
        **common,
    )
    kappa = _error_bound(constants, radius)
    if initial_distance is not None and kappa is not None:
        sharper = error_bound_violation(
            horizon=horizon, eta=eta, error_bound=kappa, initial_distance=initial_distance, **common
        )
        violation = min(violation, sharper)
    return regret + weight * violation


@formula
def optimal_parameters(
    constants: Constants, horizon: Count, weight: Positive, *, initial_distance: float | None = None
) -> ClippedParameters:
    r"""The (eta, sigma) with the least bound on regret + `weight` times the violation summed over
    the horizon.

    Without an error bound (see `clipped_objective`) the sum to minimise is, with k = m G_g^2 / (2
    sigma),

        R^2 / (2 eta) + eta T G_f^2 / (2 (1-k)) + weight sqrt(T sigma W),
        W = min over c of (R^2 / 2 + eta F T + (1 + 1/c) eta^2 T G_f^2 / 2) / (1 - k - k c):

    sums, products, powers and 1/(1 - a sum of products) of positive quantities, so a geometric
    programme, convex in (ln eta, ln sigma); two nested golden-section searches find the minimum.
    Compared with a point where the sum is J, any eta below R^2 / (2 J), any eta above R / (G_f
    sqrt(T)) and any sigma above 2 (J / (weight R))^2 / T is worse, which brackets the search. With
    an error bound the sum is R^2 / (2 eta) + a eta + b, a and b depending on sigma alone, so the
    best eta is R / sqrt(2 a); sigma is found by a scan and a golden-section search, and the better
    of the two optima is returned.
    """
    radius, loss, slope, count = constants.need(*COUNTED)
    loss, slope = constants.positive("loss_lipschitz", "constraint_lipschitz")
    spread = range_of_losses(constants.loss_range, loss, 2 * radius)
    least = count * slope**2 / 2

    def split(sigma: float) -> Split:
        return Split("sharp", sigma, loss, slope, count)

    def bound(eta: float, sigma: float) -> float:
        steps, part = Steps(eta), split(sigma)
        regret = radius**2 / (2 * eta) + part.loss_factor * loss**2 * steps.sum(horizon) / 2
        fixed = radius**2 / 2 + spread * steps.sum(horizon)
        squared = sigma * part.over_slack(fixed, loss**2 * steps.sum_of_squares(horizon) / 2)
        return regret + weight * math.sqrt(horizon * squared)

    top = radius / (loss * math.sqrt(horizon))
    start = bound(top, 2 * least)
    low_eta, high_sigma = radius**2 / (2 * start), 2 * (start / (weight * radius)) ** 2 / horizon

    def best_eta(sigma: float) -> float:
        return _golden(lambda eta: bound(eta, sigma), low_eta, top)

    # below sigma = m G_g^2 both bounds only grow
    sigma = _golden(
        lambda value: bound(best_eta(value), value), 2 * least, max(high_sigma, 4 * least)
    )
    candidates = [ClippedParameters(best_eta(sigma), sigma)]
    kappa = _error_bound(constants, radius)
    if initial_distance is not None and kappa is not None:
        common: dict[str, Any] = {"horizon": horizon, "eta": 1.0, "error_bound": kappa}
        common |= {"constraint_lipschitz": slope, "constraint_count": count}

        def affine(sigma: float) -> tuple[float, float]:
            """The eta that is best for this sigma, and the objective there: R^2 / (2 eta) + a eta +
            b."""
            per_eta = error_bound_violation(sigma=sigma, loss_lipschitz=loss, **common)
            rest = error_bound_violation(
                sigma=sigma, loss_lipschitz=0.0, initial_distance=initial_distance, **common
            )
            a = split(sigma).loss_factor * loss**2 * horizon / 2 + weight * per_eta
            return radius / math.sqrt(2 * a), radius * math.sqrt(2 * a) + weight * rest

        sigma = _scan(lambda value: affine(value)[1], 2 * least, 1e8 * least)
        candidates.append(ClippedParameters(affine(sigma)[0], sigma))
    return min(
        candidates,
        key=lambda p: clipped_objective(
            eta=p.eta,
            sigma=p.sigma,
            constants=constants,
            horizon=horizon,
            weight=weight,
            initial_distance=initial_distance,
        ),
    )


def _error_bound(constants: Constants, radius: float) -> float | None:
    """The error bound, or the one that Slater's condition gives for a domain of at most twice the
    radius."""
    if constants.error_bound is not None or constants.slater is None:
        return constants.error_bound
    return error_bound_from_slater(slater=constants.slater, distance=2 * radius)


_GOLDEN = (math.sqrt(5) - 1) / 2


def _golden(function: Callable[[float], float], low: float, high: float, rounds: int = 48) -> float:
    """The minimiser of a function that is unimodal in the logarithm of its argument, to about 1e-8
    relative.

    The interval shrinks to 1e-10 of its length, but nearer to the minimum the values differ by
    rounding only.
    """
    a, b = math.log(low), math.log(high)
    c, d = b - _GOLDEN * (b - a), a + _GOLDEN * (b - a)
    at_c, at_d = function(math.exp(c)), function(math.exp(d))
    for _ in range(rounds):
        if at_c <= at_d:
            b, d, at_d = d, c, at_c
            c = b - _GOLDEN * (b - a)
            at_c = function(math.exp(c))
        else:
            a, c, at_c = c, d, at_d
            d = a + _GOLDEN * (b - a)
            at_d = function(math.exp(d))
    return math.exp((a + b) / 2)


def _scan(function: Callable[[float], float], low: float, high: float, points: int = 200) -> float:
    """The minimiser of a function on a logarithmic grid, refined between its neighbours."""
    ratio = (high / low) ** (1 / (points - 1))
    grid = [low * ratio**i for i in range(points)]
    values = [function(value) for value in grid]
    best = values.index(min(values))
    return _golden(function, grid[max(best - 1, 0)], grid[min(best + 1, points - 1)])
