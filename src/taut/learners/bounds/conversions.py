r"""What one guarantee says about another quantity or another comparator.

Comparators that move: let the proof of a regret bound sum inequalities

    f_t(x_t) - f_t(u) <= (|x_t - u|^2 - |x_{t+1} - u|^2) / (2 eta_t) + (terms without u),   (S)

each of which holds for all u that are feasible in round t, with steps eta_t that do not increase.
With u = u_t in round t, the sum by parts contains |x_t - u_t|^2 in place of |x_t - u_{t-1}|^2. The
two differ by

    <u_t - u_{t-1}, u_t + u_{t-1} - 2 x_t> <= |u_t - u_{t-1}| (|x_t - u_t| + |x_t - u_{t-1}|) <= 2 D
    |u_t - u_{t-1}|,

so the regret exceeds the bound by at most sum_{t>1} D |u_t - u_{t-1}| / eta_t <= D P / eta_T, P
being the length of the path. Strong convexity of modulus H subtracts H |x_t - u_t|^2 / 2 in (S).
With eta_t = 1 / (H (t + shift)) the weight of
|x_t - u_t|^2 is then 1 / (2 eta_{t-1}), and the cost is at most D P / eta_{T-1}.
"""

from __future__ import annotations

import math

from ... import arguments
from .step_sums import range_of_losses
from .theorem import Count, NonNegative, OutsideTheorem, Positive, formula

__all__ = ["path_cost", "peak_from_squared", "tightening_cost", "violation_from_squared"]


@formula
def violation_from_squared(*, horizon: Count, squared_violation: NonNegative) -> float:
    """Sum of violations from the sum of their squares: sqrt(T Q), by Cauchy-Schwarz (proof of
    Proposition 2)."""
    return math.sqrt(horizon * squared_violation)


@formula
def peak_from_squared(*, squared_violation: NonNegative) -> float:
    """Largest violation from the sum of squares: sqrt(Q), for one square is at most all of them."""
    return math.sqrt(squared_violation)


@formula
def tightening_cost(
    *,
    horizon: Count,
    margin: NonNegative,
    slater: Positive,
    loss_lipschitz: NonNegative,
    diameter: Positive,
    loss_range: NonNegative | None = None,
) -> float:
    r"""Regret lost when the learner is given g + rho instead of g: G_f D rho T / epsilon, rho =
    `margin` <= epsilon.

    With x* the best feasible decision and g_i(u) <= -epsilon, the decision (1 - rho/epsilon) x* +
    (rho/epsilon) u is feasible for g + rho and at most D rho / epsilon away from x*; by convexity
    its loss exceeds that of x* by at most F rho / epsilon too, whichever is less. Add this to the
    regret bound of the tightened problem. No violation at all follows if rho is at least the peak
    violation there, computed with the error bound of {g <= -rho}, not of {g <= 0}.
    """
    if margin > slater:
        raise OutsideTheorem(
            f"margin: got {margin:g}; expected at most slater = {slater:g}, else nothing may be "
            "feasible"
        )
    each = range_of_losses(loss_range, loss_lipschitz, diameter)
    return each * margin / slater * horizon


@formula
def path_cost(*, path_length: NonNegative, diameter: Positive, last_step: float) -> float:
    r"""D P / eta: what a comparator that moves along a path of length P adds to a bound on regret
    against a fixed one.

    Arguments:
        path_length: P = sum_t |u_{t+1} - u_t|; u_t must be feasible in round t.
        diameter: D, the largest distance between two points of the domain.
        last_step: the smallest step that counts: eta_T, or eta_{T-1} for strongly convex losses
            with eta_t = 1 / (H (t + shift)).

    >>> path_cost(path_length=3.0, diameter=2.0, last_step=0.1)
    60.0
    """
    if path_length == 0:
        return 0.0
    return diameter * path_length / arguments.positive("last_step", last_step)
