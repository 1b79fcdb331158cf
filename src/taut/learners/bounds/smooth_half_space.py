r"""Half-space learners on one smooth fixed constraint: violation that does not grow with the
horizon (docs/theory.md, H4, H5).

g is fixed, convex and L-smooth, with [g(x)]_+ >= kappa d(x), d the distance to the feasible set S,
and the last projection of every round is onto the domain and H_t together. Then x_{t+1} meets the
linear model of g at x_t, so

    v_{t+1} <= (L/2) |x_{t+1} - x_t|^2.

Without memory x_{t+1} is the projection of x_t - eta_t p_t onto one set C that contains S, and
|P_C(y) - x|^2 <= |y - x|^2 + dist(x, C)^2 for any x, y (test the optimality of P_C(y) with P_C(x));
dist(x_t, C) <= v_t / kappa:

    v_{t+1} <= (L/2) (a_t^2 + v_t^2 / kappa^2).   (without memory)

With memory, x_{t+1} = Q(y) for a composition Q of projections onto sets that contain S. |Q(y) -
Q(x)| <= a_t, and Q(x_t) is no farther from P_S(x_t) than x_t is, so |Q(x_t) - x_t| <= 2 d(x_t):

    v_{t+1} <= (L/2) (a_t + 2 v_t / kappa)^2.   (with memory)

Both maps increase in v and a. With a the longest step and theta = L a / kappa they have two fixed
points if theta <= 1 (without memory) or theta <= 1/4 (with memory); from a start below the larger
one, v_t never exceeds the larger of v_1 and the smaller one. A margin rho that is at least the
smaller one leaves no violation of g itself.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from .half_space import StepLengths, half_space_contraction
from .theorem import Count, NonNegative, OutsideTheorem, Positive, formula

__all__ = [
    "Margin",
    "half_space_margin",
    "margin_cost",
    "margin_holds",
    "smooth_half_space_margin",
    "smooth_half_space_peak",
    "smooth_half_space_violation",
]


@formula
def smooth_half_space_peak(
    *,
    longest: NonNegative,
    constraint_smoothness: NonNegative,
    error_bound: Positive | None,
    initial_violation: NonNegative = 0.0,
    memory: bool = False,
) -> float:
    r"""Peak violation: the larger of v_1 and the smaller fixed point of the map (H4).

    Without memory the fixed points are (kappa^2 / L)(1 -+ sqrt(1 - theta^2)), the smaller being L
    a^2 / (1 + sqrt(1 - theta^2)), at most L a^2. With memory they are (kappa^2 / 4L)(1 - 2 theta -+
    sqrt(1 - 4 theta)), the smaller being L a^2 / (1 - 2 theta + sqrt(1 - 4 theta)), at most 2 L
    a^2. An affine constraint (L = 0) is met from round 2 on, and needs no error bound.
    """
    bend, a, start = constraint_smoothness, longest, initial_violation
    if bend == 0 or a == 0 == start:
        return start
    if error_bound is None:
        raise OutsideTheorem("error_bound (kappa) is not known, and neither is a Slater point")
    theta, most = bend * a / error_bound, 0.25 if memory else 1.0
    if theta > most:
        raise OutsideTheorem(
            f"the longest step is {a:g}; the theorem needs one of at most {most:g} kappa / L = "
            f"{most * error_bound / bend:g}"
        )
    root = math.sqrt(1 - 4 * theta) if memory else math.sqrt(1 - theta**2)
    low = bend * a**2 / (1 - 2 * theta + root if memory else 1 + root)
    high = error_bound**2 / bend * ((1 - 2 * theta + root) / 4 if memory else 1 + root)
    if start > high:
        raise OutsideTheorem(
            f"the first decision violates the constraint by {start:g}; the theorem allows {high:g}"
        )
    return max(start, low)


@formula
def smooth_half_space_violation(
    *,
    lengths: StepLengths,
    constraint_smoothness: float,
    error_bound: float | None,
    initial_violation: float = 0.0,
    memory: bool = False,
) -> float:
    r"""Clipped violation: (v_1 + (L/2) sum a_t^2) / (1 - c), c < 1 from the peak V (H4).

    In the map, v_t^2 <= V v_t: c = L V / (2 kappa^2) without memory, and c = 2 theta + 2 L V /
    kappa^2 with it. With the fixed step D / (G_f sqrt T) and a feasible start it is at most L D^2,
    whatever T is; with adaptive steps it grows like log T.
    """
    longest, (_, squares) = lengths.longest, lengths.sums()
    peak = smooth_half_space_peak(
        longest=longest,
        initial_violation=initial_violation,
        constraint_smoothness=constraint_smoothness,
        error_bound=error_bound,
        memory=memory,
    )
    bend = constraint_smoothness
    if bend == 0 or peak == 0 or error_bound is None:
        return peak
    part = bend * peak / error_bound**2
    kept = 2 * bend * longest / error_bound + 2 * part if memory else part / 2
    if kept >= 1:
        raise OutsideTheorem(
            f"the first decision violates the constraint by {initial_violation:g}, which is too "
            "much"
        )
    return (initial_violation + bend * squares / 2) / (1 - kept)


class Margin(NamedTuple):
    """A step and a margin with which no decision violates the constraints."""

    eta: float
    margin: float


@formula
def smooth_half_space_margin(
    *,
    horizon: Count,
    radius: float,
    diameter: float,
    loss_lipschitz: Positive,
    constraint_smoothness: NonNegative,
    slater: Positive,
    memory: bool = False,
) -> Margin:
    r"""Step and margin for one smooth fixed constraint (H5): eta = R / (G_f sqrt T), rho = L a^2, a
    = eta G_f.

    H4 for g + rho, whose feasible set has the error bound kappa = (epsilon - rho) / D, gives
    [g(x_t) + rho]_+ <= rho if theta <= 1 (with memory: rho = 2 L a^2 and theta <= 1/4). Where T is
    too small for that the step is shortened: the longest step with L a D <= epsilon - L a^2, or 4 L
    a D <= epsilon - 2 L a^2.
    """
    bend, a = constraint_smoothness, radius / math.sqrt(horizon)
    factor, across = (2.0, 4 * diameter) if memory else (1.0, diameter)
    if bend > 0:  # the positive root of factor a^2 + across a = slater / bend
        ratio = slater / bend
        a = min(a, 2 * ratio / (across + math.sqrt(across**2 + 4 * factor * ratio)) * (1 - 1e-9))
    return Margin(a / loss_lipschitz, factor * bend * a**2)


@formula
def half_space_margin(
    *,
    horizon: Count,
    diameter: Positive,
    loss_lipschitz: Positive,
    constraint_lipschitz: Positive,
    slater: Positive,
) -> Margin:
    r"""Step and margin for fixed constraints that need not be smooth (H5).

    rho = min(epsilon / 2, sqrt(D G_g epsilon / (2 (1-q) T))), eta = (1-q) rho / (G_f G_g), q =
    sqrt(1 - kappa^2 / G_g^2), kappa = epsilon / (2 D), the error bound that a Slater point gives
    for every level down to -epsilon / 2.
    """
    bend, kappa = constraint_lipschitz, slater / (2 * diameter)
    gain = half_space_contraction(constraint_lipschitz=bend, error_bound=kappa)
    rho = min(slater / 2, math.sqrt(diameter * bend * slater / (2 * gain * horizon)))
    return Margin(gain * rho / (loss_lipschitz * bend), rho)


@formula
def margin_holds(
    *,
    longest: float,
    margin: Positive,
    diameter: Positive,
    slater: Positive,
    constraint_lipschitz: float,
    initial_excess: float,
) -> float:
    r"""Peak violation of a learner with a margin, which is 0 under the conditions of H5.

    H3 for g + rho: d_t, the distance to {g <= -rho}, stays at most max(d_1, a / (1-q)), with the
    error bound (epsilon - rho) / D. If that is at most rho / G_g, g(x_t) <= -rho + G_g d_t <= 0.
    """
    if margin >= slater:
        raise OutsideTheorem(
            f"the margin is {margin:g}; expected less than the Slater slack {slater:g}"
        )
    kappa = (slater - margin) / diameter
    gain = half_space_contraction(constraint_lipschitz=constraint_lipschitz, error_bound=kappa)
    reach = max(max(initial_excess + margin, 0.0) / kappa, longest / gain)
    if constraint_lipschitz * reach > margin * (1 + 1e-9):
        raise OutsideTheorem(
            f"decisions may be {reach:g} away from the feasible set with margin; the theorem "
            f"allows {margin / constraint_lipschitz:g}"
        )
    return 0.0


@formula
def margin_cost(
    *, horizon: int, margin: float, slater: float, diameter: float, loss_lipschitz: float
) -> float:
    """What a margin adds to regret: G_f D T rho / epsilon (H5).

    Regret is bounded against decisions with g <= -rho, and (1 - rho/epsilon) x + (rho/epsilon) u is
    one, u the Slater point.
    """
    if margin == 0:
        return 0.0
    if margin > slater:
        raise OutsideTheorem(
            f"the margin is {margin:g}; expected at most the Slater slack {slater:g}"
        )
    return loss_lipschitz * diameter * horizon * margin / slater
