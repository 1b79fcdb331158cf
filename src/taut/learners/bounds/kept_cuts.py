r"""The memory of cuts on polyhedra: violation that does not grow with the horizon (docs/theory.md,
H6, H7 and H9).

Every round's constraints are positive multiples c (a_i.x - b_i), c <= G_g, |a_i| = 1, of some of M
half-spaces, which an adversary chooses. One row that is violated most is revealed; it is stored if
v_t > 0 or if its half-space excludes the point after the gradient step. The memory holds at least M
cuts, so a stored cut stays.
"""

from __future__ import annotations

import math

from ... import arguments
from .half_space import half_space_contraction
from .theorem import Count, NonNegative, Positive, formula

__all__ = [
    "kept_cuts_sweeps_violation",
    "kept_cuts_violation",
    "kept_rows_violation",
    "lifetime_limit",
    "lifetimes_violation",
    "path_violation",
    "recovery_regret",
]

BASEL = math.pi**2 / 6 - 1
"""The sum of 1 / (t + 1)^2 over t = 1, 2, ..."""


@formula
def kept_cuts_violation(
    *, half_spaces: Count, diameter: float, constraint_lipschitz: float
) -> float:
    r"""Clipped violation if after every round all kept cuts hold within D / (t + 1)^2: (M + 0.65)
    G_g D (H6).

    If the revealed row was stored before, v_t <= G_g D / t^2; these sum to at most 0.65 G_g D,
    because no cut is stored before round 1. Otherwise it is stored now, which happens at most M
    times, and v_t <= G_g D since the row holds at x.
    """
    return (half_spaces + BASEL) * constraint_lipschitz * diameter


@formula
def lifetimes_violation(
    *,
    half_spaces: Count,
    horizon: Count,
    life: Count,
    diameter: float,
    constraint_lipschitz: float,
) -> float:
    r"""Clipped violation with cuts whose lives double, from `life` on: (M (1 + n) + 0.65 + 1e-9 T)
    G_g D, n the largest number with life (2^n - 1) + n <= T - 1 (F1).

    Fix a normal with q offsets. While its cut is alive, a violated row has a smaller offset, which
    becomes that of the cut: at most q violations in a period. A period after the first that holds a
    violation doubles the life once. The period before it ended with a life of at least life 2^(i-1)
    rounds without confirmation, and a round begins it: life (2^n - 1) + n <= T - 1 for n doublings.
    The rest is what a decision may exceed cuts by, D / t^2, and the tolerance of distances.
    """
    doublings = 0
    while life * (2 ** (doublings + 1) - 1) + doublings + 1 <= horizon - 1:
        doublings += 1
    most = half_spaces * (1 + doublings) + BASEL + 1e-9 * horizon
    return most * constraint_lipschitz * diameter


@formula
def lifetime_limit(*, life: Count, in_force: int) -> int:
    r"""Rounds after which a cut is not projected on any more, counted from the last round that
    confirmed it: life + in_force (F2).

    The n-th doubling happens in round t_n >= first + life (2^n - 1), so that the life is at most
    life + t_n - first <= life + last - first.

    Arguments:
        life: the first life.
        in_force: rounds from the first in which the normal was stored to the last that confirmed
            the cut.
    """
    return life + arguments.count("in_force", in_force, 0)


@formula
def recovery_regret(
    *, changed: int, life: Count, diameter: Positive, loss_lipschitz: NonNegative, regret: float
) -> float:
    r"""Regret of the rounds after round t_0 = `changed`, against a decision that need be feasible
    in those rounds only: G_f D (t_0 + life) + `regret` (F3).

    Half-spaces that were revealed up to round t_0 must not come back: after it there are new
    normals and looser rows only. By F2 all old cuts are gone after t_0 + life further rounds, each
    of which costs at most G_f D. After them every set that is projected on contains the comparator,
    and `regret`, the bound of H1 or H2 with distances of D, holds on every interval.
    """
    rounds = arguments.count("changed", changed, 0) + life
    return loss_lipschitz * diameter * rounds + regret


@formula
def kept_cuts_sweeps_violation(
    *,
    half_spaces: Count,
    diameter: float,
    constraint_lipschitz: float,
    regularity: Positive,
    sweeps: Count,
    total_length: float,
) -> float:
    r"""Clipped violation with a fixed number n of sweeps: G_g (M D + gamma^n sum a_t) / (1 -
    gamma^n) (H6).

    gamma = sqrt(1 - kappa^2 / (M + 1)), kappa = `regularity`: for every set of rows, the largest
    distance to one of them or to the domain is at least kappa times the distance to their
    intersection. In one sweep the squared distance e to the intersection falls by the sum of the
    squared moves, and each row's distance is at most the sum of the moves, so e shrinks by gamma.
    e_{t+1} <= gamma^n (e_t + a_t), but for the M rounds that add a row, where e_{t+1} <= gamma^n (D
    + a_t).
    """
    shrink = math.sqrt(1 - min(regularity, 1.0) ** 2 / (half_spaces + 1)) ** sweeps
    return constraint_lipschitz * (half_spaces * diameter + shrink * total_length) / (1 - shrink)


@formula
def kept_rows_violation(
    *,
    horizon: Count,
    longest: float,
    constraint_count: Count,
    constraint_lipschitz: float,
    constraint_smoothness: float,
    error_bound: float,
) -> float:
    r"""Clipped violation on the maximum of m smooth fixed rows, of which one maximal row is
    revealed per round (H7).

    The latest linear model of every row is kept, projections are exact, and the start is feasible.
    Peak V = G_g a / (1-q) (H3). A row that is maximal now and was so last at x_tau has v <= (L/2)
    |x_t - x_tau|^2 <= sqrt(V L / 2) |x_t - x_tau|, and these distances sum to at most m times the
    path length sum (a_t + d_t) <= T a (2-q) / (1-q). First appearances cost m V.
    """
    gain = half_space_contraction(
        constraint_lipschitz=constraint_lipschitz, error_bound=error_bound
    )
    peak = constraint_lipschitz * longest / gain
    path = horizon * longest * (1 + gain) / gain
    return constraint_count * (peak + math.sqrt(constraint_smoothness * peak / 2) * path)


@formula
def path_violation(*, path: float, diameter: float, constraint_lipschitz: float) -> float:
    r"""Clipped violation from the path of the decisions, if every violated cut is stored and holds
    within D / (t + 1)^2 after its round: G_g (sum |x_{t+1} - x_t| + 0.65 D) (H9).

    v_t <= G_g dist(x_t, H_t), and x_{t+1} is within D / (t + 1)^2 of H_t.
    """
    return constraint_lipschitz * (path + BASEL * diameter)
