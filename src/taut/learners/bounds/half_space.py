r"""Half-space learners: regret, squared violation, and violation under an error bound
(docs/theory.md, H1 to H3).

The learner plays x_{t+1} = Q_t(x_t - eta_t p_t), p_t = df_t(x_t), where Q_t is a composition of
projections onto convex sets that contain every comparator x, the first being the half-space H_t =
{u : v_t + s_t.(u - x_t) <= 0} of the largest constraint. Write b_t = |x_t - x|^2, a_t = eta_t |p_t|
for the length of a gradient step, and r_t = v_t / |s_t| for the distance of x_t from H_t where v_t
> 0. Projections bring x_t closer to x, so

    b_{t+1} <= b_t - 2 eta_t p_t.(x_t - x) + eta_t^2 |p_t|^2,   (R)

and |Q_t(x_t) - x|^2 <= b_t - r_t^2 (the first projection) with |Q_t(x_t - eta_t p_t) - Q_t(x_t)| <=
a_t give

    b_{t+1} <= (sqrt(b_t - r_t^2) + a_t)^2 <= b_t - r_t^2 + 2 a_t sqrt(b_t) + a_t^2.   (Q)

Nothing here needs the constraints to be fixed, and neither does it matter how many cuts Q_t holds.
R is the distance from x_1 to the farthest comparator and D the diameter of the domain. Bounds on
violation are for the largest constraint; the sum over m constraints is at most m times as large.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ... import arguments
from ...engine import Array
from .step_sums import Steps, diameter_of
from .theorem import (
    Count,
    NonNegative,
    OutsideTheorem,
    Positive,
    formula,
    formula_of,
)

__all__ = [
    "StepLengths",
    "adaptive_half_space_regret",
    "adaptive_step_lengths",
    "clipped_slopes_limit",
    "half_space_contraction",
    "half_space_distance",
    "half_space_distance_squared",
    "half_space_distance_violation",
    "half_space_regret",
    "half_space_squared_violation",
    "power_step_lengths",
    "strong_half_space_regret",
]


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

    a_t^2 = scale^2 |p_t|^2 / S_t, at most scale^2 / (1 + w). Let tau be the first round with p !=
    0. For t > tau,
    |p_t|^2 / S_t <= 1 - S_{t-1} / S_t <= ln(S_t / S_{t-1}), so sum a_t^2 <= scale^2 Lam, Lam = 1 /
    (1 + w) + ln(S_T / S_tau); and sum a_t <= sqrt(T sum a_t^2).

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
    r"""Regret with the step eta_t = eta / t^beta, beta < 1 (H1).

    (R) divided by 2 eta_t and summed by parts: (D^2 / eta_T - (D^2 - R^2) / eta_1) / 2 + (G_f^2 /
    2) sum eta_t. With the fixed step R / (G_f sqrt T) it is G_f R sqrt T; with D / (G_f sqrt t) at
    most 1.5 G_f D sqrt T.
    """
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
    r"""Regret with the step eta_t = 1 / (H (t + shift)) and losses of modulus H (H1).

    f_t(x_t) - f_t(x) <= p_t.(x_t - x) - (H/2) b_t, so in the sum of (R) over 2 eta_t every b_t with
    t > 1 cancels and b_1 <= R^2 keeps the weight H shift / 2: H shift R^2 / 2 + (G_f^2 / (2 H)) sum
    1 / (t + shift).
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

    q_t = c_t p_t with 0 <= c_t <= 1 is what was accepted of the gradient p_t; without clipping it
    is p_t. Let tau be the first round with q != 0. Steps do not increase, so (R) for the q_t, over
    2 eta_t and summed by parts, is at most (D^2 sqrt(S_T) - (D^2 - R^2) sqrt(S_tau)) / (2 scale),
    and since S_t - S_{t-1} >= |q_t|^2, sum eta_t |q_t|^2 / 2 <= scale (sqrt(S_T) - sqrt(W_tau)),
    W_tau = w |q_tau|^2. With scale = R = D / 2 this is at most 1.5 D sqrt(S_T). The rest of the
    gradients adds at most D sum_t (|p_t| - |q_t|), because p_t.(x_t - x) <= q_t.(x_t - x) + |p_t -
    q_t| D. All is observed; before a run, S_T <= (T + w) G_f^2 (with `first_squared_slope` 0), and
    `clipped_slopes_limit` bounds the rest.

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
    log(clip)) (H2).

    Every round whose gradient is clipped multiplies the longest accepted gradient by `clip`, from
    |p_tau|, that of the first gradient that is not zero, to G_f at most; and it loses at most G_f.
    """
    if loss_lipschitz <= first_slope:
        return 0.0
    doublings = math.log(loss_lipschitz / first_slope) / math.log(clip)
    return loss_lipschitz * math.ceil(doublings * (1 - 1e-12))


@formula
def half_space_squared_violation(
    *, lengths: StepLengths, radius: float, diameter: float, constraint_lipschitz: NonNegative
) -> float:
    r"""Sum over rounds of the largest [g_{t,i}(x_t)]_+^2, for any steps and constraints that change
    at will (H1).

    (Q) summed: sum r_t^2 <= R^2 + 2 D sum a_t + sum a_t^2, and [g_t(x_t)]_+ <= G_g r_t.
    """
    total, squares = lengths.sums()
    return constraint_lipschitz**2 * (radius**2 + 2 * diameter * total + squares)


@formula
def half_space_contraction(*, constraint_lipschitz: Positive, error_bound: Positive) -> float:
    r"""1 - q, q = sqrt(1 - kappa^2 / G_g^2): what a feasibility step gains on the distance d_t to
    the feasible set (H3).

    Fixed constraints with max_i [g_i(x)]_+ >= kappa d(x). (Q) with the nearest feasible point for
    x, and r_t >= v_t / G_g >= (kappa / G_g) d_t: d_{t+1} <= q d_t + a_t. A kappa above G_g says no
    more than kappa = G_g.
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

    d_t <= q^(t-1) d_1 + (1 - q^(t-1)) a / (1 - q), a the longest step: at most the larger of d_1
    and a / (1 - q). If the steps were observed, d_{t+1} = q d_t + a_t is followed round by round.
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
