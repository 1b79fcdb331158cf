r"""Averaged constraint rows under noise: regret is unchanged, violation is a sum of margins
(docs/theory.md, N1 to N3).

A row g_i is observed with zero-mean errors. The learner keeps an estimate with an error of at most
margin_t (with high probability, in all rounds and for all m rows) and plays

    x_{t+1} = Pi( x_t - eta_t df_t(x_t) )   onto   B and {u : estimate_i(u) <= margin_t for all i}.

Every feasible decision lies in that set, so regret is that of half-space learners (H1, H2). The
next decision satisfies the estimates, so g_i(x_{t+1}) is at most twice the margin. Averages of t
sigma-sub-Gaussian errors exceed sigma sqrt(2 ln(m T^2) / t) with probability at most 2 / (m T^2);
all rows and rounds together give the probability 1 - 2/T.
"""

from __future__ import annotations

import math

from .theorem import Count, NonNegative, OutsideTheorem, Positive, formula

__all__ = [
    "averaged_block_violation",
    "averaged_margin",
    "averaged_smooth_violation",
    "averaged_violation",
]

LEFT_OVER = math.pi**2 / 6 - 1
"""The sum over t >= 1 of 1 / (t + 1)^2: sweeps stop when all rows hold within D / (t + 1)^2."""
LONGEST = 2**20
"""Rounds for which the recursion of N2 is evaluated at most."""


@formula
def averaged_margin(
    *, sigma: NonNegative, horizon: Count, constraint_count: Count, rate: float
) -> float:
    r"""sigma sqrt(2 rate ln(m T^2)): the margin of an average whose squared weights add up to
    `rate`, 1/t for a mean."""
    return sigma * math.sqrt(2 * rate * math.log(constraint_count * horizon**2))


@formula
def averaged_violation(
    *,
    horizon: Count,
    sigma: NonNegative,
    constraint_count: Count,
    initial_violation: NonNegative,
    gradient_sigma: NonNegative = 0.0,
    size: int = 1,
    radius: float = 0.0,
    left_over: float = 0.0,
) -> float:
    r"""Violation of m affine rows: v_1 + 4 sigma sqrt(2 T ln(m T^2)), with probability 1 - 2/T
    (N1).

    v_{t+1} <= 2 margin_t and sum_t 1/sqrt(t) <= 2 sqrt(T). If gradients are noisy too, the estimate
    must be right at x_{t+1}, which depends on the noise: the error of the mean gradient adds 2 R
    gamma sqrt(2 d T ln(d m T^2)), gamma being its parameter in each of d coordinates, and the
    probability is 1 - 4/T.

    Arguments:
        sigma: the errors of the observed linear model at any one decision are sigma-sub-Gaussian.
        gradient_sigma: gamma.
        size: d.
        radius: the largest distance of a decision from the domain's centre.
        left_over: the sum over rounds of what sweeps over several rows leave of the estimated rows;
            0 for one row.
    """
    margins = averaged_margin(
        sigma=sigma, horizon=horizon, constraint_count=constraint_count, rate=1.0
    )
    margins = margins * 2 * math.sqrt(horizon)
    if gradient_sigma > 0:
        log = math.log(size * constraint_count * horizon**2)
        margins += radius * gradient_sigma * math.sqrt(2 * size * log) * math.sqrt(horizon)
    return initial_violation + 2 * margins + left_over


@formula
def averaged_smooth_violation(
    *,
    horizon: Count,
    sigma: NonNegative,
    constraint_count: Count,
    initial_violation: NonNegative,
    constraint_smoothness: NonNegative,
    slater: Positive,
    diameter: Positive,
    longest: float,
    rate: Positive,
    several: bool = False,
    constraint_lipschitz: float = 0.0,
) -> float:
    r"""Violation of L-smooth rows with exact gradients, with probability 1 - 4/T (N2): O(T^(2/3)
    sqrt(log T)) for rate T^(-2/3).

    The recursion of docs/theory.md, N2, evaluated round by round: bounds on u_t = [estimate -
    margin]_+, on the bias of the estimate, on the move and on the violation. All of its maps
    increase, so upper bounds stay upper bounds.

    Arguments:
        slater: e, the slack of one decision in all rows.
        longest: the longest gradient step, eta G_f.
        rate: a, the least weight of the newest value; weights are max(a, 1/t).
        several: whether sweeps over several rows replace the exact projection.
        constraint_lipschitz: G_g, for what the sweeps leave.
    """
    if horizon > LONGEST:
        raise OutsideTheorem(
            f"the bound is a recursion over rounds, which is evaluated for at most {LONGEST} of "
            "them"
        )
    if rate > 1:
        raise ValueError(f"rate: got {rate:g}; expected at most 1, the weight of the newest value")
    bend, width = constraint_smoothness, diameter
    unit = averaged_margin(
        sigma=sigma, horizon=horizon, constraint_count=constraint_count, rate=1.0
    )
    v = u = initial_violation
    bias, weight, total = 0.0, 1.0, v
    for t in range(1, horizon):
        margin = bias + unit * math.sqrt(weight)
        back = width * u / (u + slater)
        left = constraint_lipschitz * width / (t + 1) ** 2 if several else 0.0
        move = (longest + 2 * back) ** 2 if several else longest**2 + back**2
        weight = max(rate, 1 / (t + 1))
        v = 2 * margin + bend * move / 2 + left
        u = min(v, (1 - weight) * (3 * bend * move / 8 + left) + weight * (v + unit))
        bias = (1 - weight) * (bias + bend * move / 8)
        total += v
    return total


@formula
def averaged_block_violation(
    *,
    horizon: Count,
    block: Count,
    sigma: NonNegative,
    constraint_count: Count,
    violation: NonNegative,
) -> float:
    r"""Violation in blocks of B rounds: B (2 N margin + V_N), N = ceil(T / B), margin = sigma
    sqrt(2 ln(m T^2) / B) (N3).

    In block k the largest row is at most 2 margin + G_g r_k, r_k the distance of the decision from
    the half-space of its estimate, and V_N bounds G_g sum r_k: H1's bound on the violation over N
    rounds.
    """
    blocks = -(-horizon // block)
    margin = averaged_margin(
        sigma=sigma, horizon=horizon, constraint_count=constraint_count, rate=1 / block
    )
    return block * (2 * blocks * margin + violation)
