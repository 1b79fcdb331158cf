"""Half-space learners: the formulas of docs/theory.md, H1 to H9 and F1 to F3, with their proofs
there.

The learner plays x_{t+1} = Q_t(x_t - eta_t p_t), p_t = df_t(x_t), where Q_t is a composition of
projections onto convex sets that contain every comparator x, the first being the half-space H_t =
{u : v_t + s_t.(u - x_t) <= 0} of the largest constraint. b_t = |x_t - x|^2, a_t = eta_t |p_t| is
the length of a gradient step, R the distance from x_1 to the farthest comparator and D the diameter
of the domain. Constraints may change in every round unless a formula says otherwise. Bounds on
violation are for the largest constraint; the sum over m constraints is at most m times as large.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ... import arguments
from ...engine import Array
from ..theorem import (
    Count,
    NonNegative,
    OutsideTheorem,
    Positive,
    Steps,
    diameter_of,
    formula,
    formula_of,
)


class StepLengths(NamedTuple):
    """Bounds on the lengths a_t = eta_t |p_t| of the gradient steps of rounds 1..T."""

    longest: float
    total: float | None
    """Of the sum of a_t; `None` if there is no bound."""
    squares: float | None
    """Of the sum of a_t^2."""
    each: Array | None = None
    """a_t itself, (seed, round), if it was observed."""

    def sums(self) -> tuple[float, float]:
        """The two sums, or the reason why they are not known."""
        if self.total is None or self.squares is None:
            raise OutsideTheorem(
                "the lengths of the steps depend on the gradients, which are known after the run"
            )
        return self.total, self.squares

    @classmethod
    def observed(cls, each: Array) -> StepLengths:
        """The lengths of the steps of a run, (seed, round): the largest of the seeds' sums."""
        sums, squares = each.sum(axis=1), np.square(each).sum(axis=1)
        return cls(float(each.max()), float(sums.max()), float(squares.max()), each)

    def beyond(self, room: float) -> StepLengths:
        """The steps without those that cannot leave the feasible set, because all steps up to them
        are together at most `room` long; all steps if they were not observed.

        While x_1, ..., x_t are feasible, |x_{t+1} - x_1| <= a_1 + ... + a_t, and by convexity
        g(x_{t+1}) <= g(x_1) + G_g |x_{t+1} - x_1|: the room is -g(x_1) / G_g.
        """
        if self.each is None or room <= 0:
            return self
        free = np.cumsum(self.each, axis=1) <= room
        return self.observed(np.where(free, 0.0, self.each))


@formula
def power_step_lengths(
    *,
    horizon: Count,
    eta: Positive,
    loss_lipschitz: NonNegative,
    beta: NonNegative = 0.0,
    shift: int = 0,
) -> StepLengths:
    """The lengths of the steps eta_t = eta / (t + shift)^beta, with |p_t| <= G_f."""
    steps, slope = Steps(eta, beta, shift), loss_lipschitz
    squares = slope**2 * steps.sum_of_squares(horizon)
    return StepLengths(slope * steps.at(1), slope * steps.sum(horizon), squares)


@formula
def adaptive_step_lengths(
    *,
    horizon: int,
    scale: Positive,
    start_up: NonNegative,
    loss_slope: float,
    squared_slopes: float,
    first_squared_slope: float,
) -> StepLengths:
    r"""The lengths of the steps scale / sqrt(S_t), S_t = w max_s |p_s|^2 + sum_s |p_s|^2, from
    observed gradients p_t (those that were accepted, if gradients were clipped).

    a_t^2 <= scale^2 / (1 + w), sum a_t^2 <= scale^2 (1 / (1 + w) + ln(S_T / S_tau)), tau the first
    round with p != 0, and sum a_t <= sqrt(T sum a_t^2) (H2).

    Arguments:
        loss_slope: the largest |p_t|.
        squared_slopes: the sum of |p_t|^2.
        first_squared_slope: |p_tau|^2; 0 if all gradients are zero.
    """
    weight = start_up
    if first_squared_slope == 0:
        return StepLengths(0.0, 0.0, 0.0)
    last = weight * loss_slope**2 + squared_slopes
    growth = 1 / (1 + weight) + math.log(max(last / ((1 + weight) * first_squared_slope), 1))
    squares = scale**2 * min(growth, horizon / (1 + weight))
    return StepLengths(scale / math.sqrt(1 + weight), math.sqrt(horizon * squares), squares)


@formula
def half_space_regret(
    *,
    horizon: Count,
    eta: Positive,
    radius: Positive,
    loss_lipschitz: NonNegative,
    beta: NonNegative = 0.0,
    diameter: Positive | None = None,
) -> float:
    """Regret with the step eta_t = eta / t^beta, beta < 1: (D^2 / eta_T - (D^2 - R^2) / eta_1) / 2
    + (G_f^2 / 2) sum eta_t (H1)."""
    steps, across = Steps(eta, beta), diameter_of(diameter, radius)
    return steps.distance_term(horizon, radius, across) + loss_lipschitz**2 * steps.sum(horizon) / 2


@formula
def strong_half_space_regret(
    *,
    horizon: Count,
    strong_convexity: Positive,
    radius: float,
    loss_lipschitz: NonNegative,
    shift: int = 0,
) -> float:
    """Regret with the step eta_t = 1 / (H (t + shift)) and losses of modulus H: H shift R^2 / 2 +
    (G_f^2 / (2 H)) sum 1 / (t + shift) (H1).

    In the sum of H1's inequality over 2 eta_t every b_t with t > 1 cancels.
    """
    steps = Steps(1 / strong_convexity, 1.0, shift)
    start = strong_convexity * shift * radius**2 / 2
    return start + loss_lipschitz**2 * steps.sum(horizon) / 2


@formula
def adaptive_half_space_regret(
    *,
    scale: Positive,
    start_up: NonNegative,
    radius: Positive,
    diameter: Positive,
    loss_slope: float,
    squared_slopes: float,
    first_squared_slope: float = 0.0,
    clipped_slopes: float = 0.0,
) -> float:
    r"""Regret with the step scale / sqrt(S_t), S_t = w max_s |q_s|^2 + sum_s |q_s|^2, for every T
    (H2).

    (D^2 sqrt(S_T) - (D^2 - R^2) sqrt(S_tau)) / (2 scale) + scale (sqrt(S_T) - sqrt(w) |q_tau|) +
    D sum_t (|p_t| - |q_t|), q_t what was accepted of the gradient p_t and tau the first round with
    q != 0. With scale = R = D / 2 it is at most 1.5 D sqrt(S_T) and the last term. All is observed;
    before a run, S_T <= (T + w) G_f^2 (with `first_squared_slope` 0), and `clipped_slopes_limit`
    bounds the rest.

    Arguments:
        loss_slope: the largest |q_t|.
        squared_slopes: the sum of |q_t|^2.
        first_squared_slope: |q_tau|^2, or 0.
        clipped_slopes: the sum of |p_t| - |q_t|.
    """
    weight, across = start_up, diameter_of(diameter, radius)
    last = math.sqrt(weight * loss_slope**2 + squared_slopes)
    first = math.sqrt((1 + weight) * first_squared_slope)
    distance = (across**2 * last - max(across**2 - radius**2, 0.0) * first) / (2 * scale)
    if math.isinf(clipped_slopes):
        raise OutsideTheorem("the length of a loss gradient is more than floats can represent")
    step = scale * (last - math.sqrt(weight * first_squared_slope))
    return distance + step + across * arguments.non_negative("clipped_slopes", clipped_slopes)


@formula
def clipped_slopes_limit(
    *, loss_lipschitz: NonNegative, first_slope: Positive, clip: float = 2.0
) -> float:
    """What clipping can cut off in total, in any number of rounds: G_f ceil(log(G_f / |p_tau|) /
    log(clip)), |p_tau| being that of the first gradient that is not zero (H2)."""
    if loss_lipschitz <= first_slope:
        return 0.0
    doublings = math.log(loss_lipschitz / first_slope) / math.log(clip)
    return loss_lipschitz * math.ceil(doublings * (1 - 1e-12))


@formula
def half_space_squared_violation(
    *, lengths: StepLengths, radius: float, diameter: float, constraint_lipschitz: NonNegative
) -> float:
    """Sum over rounds of the largest [g_{t,i}(x_t)]_+^2, for any steps and constraints that change
    at will: G_g^2 (R^2 + 2 D sum a_t + sum a_t^2) (H1)."""
    total, squares = lengths.sums()
    return constraint_lipschitz**2 * (radius**2 + 2 * diameter * total + squares)


@formula
def half_space_contraction(*, constraint_lipschitz: Positive, error_bound: Positive) -> float:
    """1 - q, q = sqrt(1 - kappa^2 / G_g^2): what a feasibility step gains on the distance d_t to
    the feasible set of fixed constraints, d_{t+1} <= q d_t + a_t (H3).

    A kappa above G_g says no more than kappa = G_g.
    """
    ratio = min(error_bound / constraint_lipschitz, 1.0) ** 2
    return ratio / (1 + math.sqrt(1 - ratio))


@dataclass(frozen=True)
class _Distances:
    """The distances d_1, ..., d_T to the feasible set."""

    lengths: StepLengths
    constraint_lipschitz: Positive
    error_bound: Positive
    initial_distance: float = 0.0

    @property
    def gain(self) -> float:
        """1 - q."""
        return half_space_contraction(
            constraint_lipschitz=self.constraint_lipschitz, error_bound=self.error_bound
        )

    def followed(self) -> tuple[float, float, float] | None:
        """Follow d_{t+1} = q d_t + a_t if the steps were observed: the largest distance, the sum,
        and the sum of squares, each of the seed in which it is largest."""
        if self.lengths.each is None:
            return None
        gain, distance = self.gain, np.full(len(self.lengths.each), float(self.initial_distance))
        largest, total, squares = distance.copy(), distance.copy(), distance**2
        for step in self.lengths.each[:, :-1].T:
            distance = (1 - gain) * distance + step
            np.maximum(largest, distance, out=largest)
            total += distance
            squares += distance**2
        return float(largest.max()), float(total.max()), float(squares.max())


@formula_of(_Distances)
def half_space_distance(game: _Distances) -> float:
    """G_g times the largest distance to the feasible set: a bound on the peak violation (H3).

    At most the larger of d_1 and a / (1 - q), a the longest step. If the steps were observed,
    d_{t+1} = q d_t + a_t is followed round by round.
    """
    if followed := game.followed():
        return game.constraint_lipschitz * followed[0]
    largest = max(game.initial_distance, game.lengths.longest / game.gain)
    return game.constraint_lipschitz * largest


@formula_of(_Distances)
def half_space_distance_violation(game: _Distances) -> float:
    """Clipped violation: G_g sum d_t <= G_g (d_1 + sum a_t) / (1 - q), a convolution with 1, q,
    q^2, ... (H3)."""
    if followed := game.followed():
        return game.constraint_lipschitz * followed[1]
    total = game.initial_distance + game.lengths.sums()[0]
    return game.constraint_lipschitz * total / game.gain


@formula_of(_Distances)
def half_space_distance_squared(game: _Distances) -> float:
    """Sum of squares of the largest constraint: G_g^2 (d_1^2 + sum a_t^2) / (1 - q)^2, the same
    convolution (H3)."""
    if followed := game.followed():
        return game.constraint_lipschitz**2 * followed[2]
    squares = game.initial_distance**2 + game.lengths.sums()[1]
    return (game.constraint_lipschitz / game.gain) ** 2 * squares


@dataclass(frozen=True)
class _Smooth:
    """One smooth fixed constraint and joint projections (H4)."""

    constraint_smoothness: NonNegative
    error_bound: Positive | None
    initial_violation: NonNegative = 0.0
    memory: bool = False

    def peak(self, a: float) -> float:
        """The larger of v_1 and the smaller fixed point of the map for steps of at most a."""
        bend, start = self.constraint_smoothness, self.initial_violation
        if bend == 0 or a == 0 == start:
            return start
        if self.error_bound is None:
            raise OutsideTheorem("error_bound (kappa) is not known, and neither is a Slater point")
        theta, most = bend * a / self.error_bound, 0.25 if self.memory else 1.0
        if theta > most:
            raise OutsideTheorem(
                f"the longest step is {a:g}; the theorem needs one of at most {most:g} kappa / L = "
                f"{most * self.error_bound / bend:g}"
            )
        root = math.sqrt(1 - 4 * theta) if self.memory else math.sqrt(1 - theta**2)
        low = bend * a**2 / (1 - 2 * theta + root if self.memory else 1 + root)
        high = self.error_bound**2 / bend
        high *= (1 - 2 * theta + root) / 4 if self.memory else 1 + root
        if start > high:
            raise OutsideTheorem(
                f"the first decision violates the constraint by {start:g}; the theorem allows "
                f"{high:g}"
            )
        return max(start, low)


@formula_of(_Smooth)
def smooth_half_space_peak(game: _Smooth, *, longest: NonNegative) -> float:
    r"""Peak violation: the larger of v_1 and the smaller fixed point of the map (H4).

    Without memory the fixed points are (kappa^2 / L)(1 -+ sqrt(1 - theta^2)), the smaller being L
    a^2 / (1 + sqrt(1 - theta^2)), at most L a^2. With memory they are (kappa^2 / 4L)(1 - 2 theta -+
    sqrt(1 - 4 theta)), the smaller being L a^2 / (1 - 2 theta + sqrt(1 - 4 theta)), at most 2 L
    a^2. An affine constraint (L = 0) is met from round 2 on, and needs no error bound.
    """
    return game.peak(longest)


@formula_of(_Smooth)
def smooth_half_space_violation(game: _Smooth, *, lengths: StepLengths) -> float:
    r"""Clipped violation: (v_1 + (L/2) sum a_t^2) / (1 - c), c < 1 from the peak V (H4).

    c = L V / (2 kappa^2) without memory, and c = 2 theta + 2 L V / kappa^2 with it. With the fixed
    step D / (G_f sqrt T) and a feasible start it is at most L D^2, whatever T is; with adaptive
    steps it grows like log T.
    """
    (_, squares), peak = lengths.sums(), game.peak(lengths.longest)
    bend, kappa, start = game.constraint_smoothness, game.error_bound, game.initial_violation
    if bend == 0 or peak == 0 or kappa is None:
        return peak
    part = bend * peak / kappa**2
    factor = 2 * bend * lengths.longest / kappa + 2 * part if game.memory else part / 2
    if factor >= 1:
        raise OutsideTheorem(
            f"the first decision violates the constraint by {start:g}, which is too much"
        )
    return (start + bend * squares / 2) / (1 - factor)


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

    With memory rho = 2 L a^2. Where T is too small for H4 the step is shortened: the longest step
    with L a D <= epsilon - L a^2, or with memory 4 L a D <= epsilon - 2 L a^2.
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


BASEL = math.pi**2 / 6 - 1
"""The sum of 1 / (t + 1)^2 over t = 1, 2, ..."""


@formula
def kept_cuts_violation(
    *, half_spaces: Count, diameter: float, constraint_lipschitz: float
) -> float:
    """Clipped violation if after every round all kept cuts hold within D / (t + 1)^2: (M + 0.65)
    G_g D (H6)."""
    return (half_spaces + BASEL) * constraint_lipschitz * diameter


@formula
def lifetimes_violation(
    *, half_spaces: Count, horizon: Count, life: Count, diameter: float, constraint_lipschitz: float
) -> float:
    r"""Clipped violation with cuts whose lives double, from `life` on: (M (1 + n) + 0.65 + 1e-9 T)
    G_g D, n the largest number with life (2^n - 1) + n <= T - 1 (F1)."""
    doublings = 0
    while life * (2 ** (doublings + 1) - 1) + doublings + 1 <= horizon - 1:
        doublings += 1
    most = half_spaces * (1 + doublings) + BASEL + 1e-9 * horizon
    return most * constraint_lipschitz * diameter


@formula
def lifetime_limit(*, life: Count, in_force: int) -> int:
    r"""Rounds after which a cut is not projected on any more, counted from the last round that
    confirmed it: life + in_force (F2).

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
    normals and looser rows only. `regret` is the bound of H1 or H2 with distances of D.
    """
    rounds = arguments.count("changed", changed, 0) + life
    return loss_lipschitz * diameter * rounds + regret


@formula
def path_violation(*, path: float, diameter: float, constraint_lipschitz: float) -> float:
    r"""Clipped violation from the path of the decisions, if every violated cut is stored and holds
    within D / (t + 1)^2 after its round: G_g (sum |x_{t+1} - x_t| + 0.65 D) (H9)."""
    return constraint_lipschitz * (path + BASEL * diameter)
