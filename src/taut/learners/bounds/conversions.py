"""What one guarantee says about another quantity: conversions, tightening, restarts of doubling
length."""

from __future__ import annotations

import math
from collections.abc import Callable

from ... import arguments
from .theorem import OutsideTheorem

__all__ = [
    "doubling_bound",
    "doubling_epochs",
    "doubling_factor",
    "peak_from_squared",
    "squared_from_violation",
    "tightening_cost",
    "violation_from_squared",
]


def violation_from_squared(*, horizon: int, squared_violation: float) -> float:
    """Sum of violations from the sum of their squares: sqrt(T Q), by Cauchy-Schwarz (proof of
    Proposition 2)."""
    return math.sqrt(
        arguments.count("horizon", horizon)
        * arguments.non_negative("squared_violation", squared_violation)
    )


def peak_from_squared(*, squared_violation: float) -> float:
    """Largest violation from the sum of squares: sqrt(Q), for one square is at most all of them."""
    return math.sqrt(arguments.non_negative("squared_violation", squared_violation))


def squared_from_violation(*, violation: float, peak_violation: float) -> float:
    """Sum of squares from the sum of violations and the largest one (D at worst): their product."""
    return arguments.non_negative("violation", violation) * arguments.non_negative(
        "peak_violation", peak_violation
    )


def tightening_cost(
    *,
    horizon: int,
    margin: float,
    slater: float,
    loss_lipschitz: float,
    diameter: float,
    loss_range: float | None = None,
) -> float:
    r"""Regret lost when the learner is given g + rho instead of g: G_f D rho T / epsilon, rho =
    `margin` <= epsilon.

    With x* the best feasible decision and g_i(u) <= -epsilon, the decision (1 - rho/epsilon) x* +
    (rho/epsilon) u is feasible for g + rho and at most D rho / epsilon away from x*; by convexity
    its loss exceeds that of x* by at most F rho / epsilon too, whichever is less. Add this to the
    regret bound of the tightened problem. No violation at all follows if rho is at least the peak
    violation there, computed with the error bound of {g <= -rho}, not of {g <= 0}.
    """
    slater = arguments.positive("slater", slater)
    margin = arguments.non_negative("margin", margin)
    if margin > slater:
        raise OutsideTheorem(
            f"margin: got {margin:g}; expected at most slater = {slater:g}, else nothing may be "
            "feasible"
        )
    each = arguments.non_negative("loss_lipschitz", loss_lipschitz) * arguments.positive(
        "diameter", diameter
    )
    if loss_range is not None:
        each = min(each, arguments.non_negative("loss_range", loss_range))
    return each * margin / slater * arguments.count("horizon", horizon)


def doubling_epochs(horizon: int, first_length: int = 1) -> list[int]:
    """The lengths n, 2 n, 4 n, ... that restarts are tuned for, the last one perhaps cut short."""
    horizon, length = (
        arguments.count("horizon", horizon),
        arguments.count("first_length", first_length),
    )
    lengths, played = [], 0
    while played < horizon:
        lengths.append(length)
        played += length
        length *= 2
    return lengths


def doubling_bound(
    bound: Callable[[int], float], horizon: int, *, first_length: int = 1, combine: str = "sum"
) -> float:
    """The guarantee of a learner restarted for horizons 1, 2, 4, ...: `bound` of each epoch's
    length, summed.

    `bound(n)` is any guarantee of the learner tuned for n rounds that also holds if it is stopped
    early, as all bounds here do: with its parameters kept, none falls when rounds are added. Regret
    against one decision, violation and squared violation add up over epochs; a peak does not:
    `combine="max"`. Epochs that start where the last one ended, not at x_1, need a `bound` with 2 R
    for R. `first_length` is the length of the first epoch.
    """
    combine = arguments.one_of("combine", combine, ("sum", "max"))
    values = [float(bound(length)) for length in doubling_epochs(horizon, first_length)]
    return math.fsum(values) if combine == "sum" else max(values)


def doubling_factor(exponent: float = 0.5) -> float:
    """What doubling multiplies a bound c T^p by: at most 2^p / (2^p - 1), which is sqrt(2)/(sqrt(2)
    - 1) at p = 1/2.

    Epochs 0..K with 2^K <= T: sum_k 2^(k p) <= 2^(K p) 2^p / (2^p - 1).
    """
    power = 2 ** arguments.positive("exponent", exponent)
    return float(power / (power - 1))
