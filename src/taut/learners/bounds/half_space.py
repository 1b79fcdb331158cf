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
from typing import NamedTuple

import numpy as np

from ... import arguments
from ...engine import Array
from .step_sums import Steps, diameter_of
from .theorem import OutsideTheorem

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
    "half_space_violation",
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


def power_step_lengths(
    *, horizon: int, eta: float, loss_lipschitz: float, beta: float = 0.0, shift: int = 0
) -> StepLengths:
    """The lengths of the steps eta_t = eta / (t + shift)^beta, with |p_t| <= G_f."""
    steps = Steps(arguments.positive("eta", eta), arguments.non_negative("beta", beta), shift)
    slope = arguments.non_negative("loss_lipschitz", loss_lipschitz)
    horizon = arguments.count("horizon", horizon)
    return StepLengths(
        slope * steps.at(1), slope * steps.sum(horizon), slope**2 * steps.sum_of_squares(horizon)
    )


def adaptive_step_lengths(
    *,
    horizon: int,
    scale: float,
    start_up: float,
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
    scale, weight = arguments.positive("scale", scale), arguments.non_negative("start_up", start_up)
    if first_squared_slope == 0:
        return StepLengths(0.0, 0.0, 0.0)
    last = weight * loss_slope**2 + squared_slopes
    growth = 1 / (1 + weight) + math.log(max(last / ((1 + weight) * first_squared_slope), 1))
    squares = scale**2 * min(growth, horizon / (1 + weight))
    return StepLengths(scale / math.sqrt(1 + weight), math.sqrt(horizon * squares), squares)


def half_space_regret(
    *,
    horizon: int,
    eta: float,
    radius: float,
    loss_lipschitz: float,
    beta: float = 0.0,
    diameter: float | None = None,
) -> float:
    r"""Regret with the step eta_t = eta / t^beta, beta < 1 (H1).

    (R) divided by 2 eta_t and summed by parts: (D^2 / eta_T - (D^2 - R^2) / eta_1) / 2 + (G_f^2 /
    2) sum eta_t. With the fixed step R / (G_f sqrt T) it is G_f R sqrt T; with D / (G_f sqrt t) at
    most 1.5 G_f D sqrt T.
    """
    steps = Steps(arguments.positive("eta", eta), arguments.non_negative("beta", beta))
    slope = arguments.non_negative("loss_lipschitz", loss_lipschitz)
    horizon, across = arguments.count("horizon", horizon), diameter_of(diameter, radius)
    return steps.distance_term(horizon, radius, across) + slope**2 * steps.sum(horizon) / 2


def strong_half_space_regret(
    *, horizon: int, strong_convexity: float, radius: float, loss_lipschitz: float, shift: int = 0
) -> float:
    r"""Regret with the step eta_t = 1 / (H (t + shift)) and losses of modulus H (H1).

    f_t(x_t) - f_t(x) <= p_t.(x_t - x) - (H/2) b_t, so in the sum of (R) over 2 eta_t every b_t with
    t > 1 cancels and b_1 <= R^2 keeps the weight H shift / 2: H shift R^2 / 2 + (G_f^2 / (2 H)) sum
    1 / (t + shift).
    """
    modulus = arguments.positive("strong_convexity", strong_convexity)
    slope = arguments.non_negative("loss_lipschitz", loss_lipschitz)
    steps = Steps(1 / modulus, 1.0, shift)
    return (
        modulus * shift * radius**2 / 2
        + slope**2 * steps.sum(arguments.count("horizon", horizon)) / 2
    )


def adaptive_half_space_regret(
    *,
    scale: float,
    start_up: float,
    radius: float,
    diameter: float,
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
    scale, weight = arguments.positive("scale", scale), arguments.non_negative("start_up", start_up)
    across = diameter_of(diameter, radius)
    last = math.sqrt(weight * loss_slope**2 + squared_slopes)
    first = math.sqrt((1 + weight) * first_squared_slope)
    distance = (across**2 * last - max(across**2 - radius**2, 0.0) * first) / (2 * scale)
    if math.isinf(clipped_slopes):
        raise OutsideTheorem("the length of a loss gradient is more than floats can represent")
    rest = across * arguments.non_negative("clipped_slopes", clipped_slopes)
    return distance + scale * (last - math.sqrt(weight * first_squared_slope)) + rest


def clipped_slopes_limit(*, loss_lipschitz: float, first_slope: float, clip: float = 2.0) -> float:
    """What clipping can cut off in total, in any number of rounds: G_f ceil(log(G_f / |p_tau|) /
    log(clip)) (H2).

    Every round whose gradient is clipped multiplies the longest accepted gradient by `clip`, from
    |p_tau|, that of the first gradient that is not zero, to G_f at most; and it loses at most G_f.
    """
    slope = arguments.non_negative("loss_lipschitz", loss_lipschitz)
    first = arguments.positive("first_slope", first_slope)
    if slope <= first:
        return 0.0
    return slope * math.ceil(math.log(slope / first) / math.log(clip) * (1 - 1e-12))


def half_space_squared_violation(
    *, lengths: StepLengths, radius: float, diameter: float, constraint_lipschitz: float
) -> float:
    r"""Sum over rounds of the largest [g_{t,i}(x_t)]_+^2, for any steps and constraints that change
    at will (H1).

    (Q) summed: sum r_t^2 <= R^2 + 2 D sum a_t + sum a_t^2, and [g_t(x_t)]_+ <= G_g r_t.
    """
    total, squares = lengths.sums()
    slope = arguments.non_negative("constraint_lipschitz", constraint_lipschitz)
    return slope**2 * (radius**2 + 2 * diameter * total + squares)


def half_space_violation(
    *,
    horizon: int,
    lengths: StepLengths,
    radius: float,
    diameter: float,
    constraint_lipschitz: float,
) -> float:
    """Sum over rounds of the largest [g_{t,i}(x_t)]_+: sqrt(T Q), Q the bound on the squares
    (H1)."""
    squared = half_space_squared_violation(
        lengths=lengths, radius=radius, diameter=diameter, constraint_lipschitz=constraint_lipschitz
    )
    return math.sqrt(arguments.count("horizon", horizon) * squared)


def half_space_contraction(*, constraint_lipschitz: float, error_bound: float) -> float:
    r"""1 - q, q = sqrt(1 - kappa^2 / G_g^2): what a feasibility step gains on the distance d_t to
    the feasible set (H3).

    Fixed constraints with max_i [g_i(x)]_+ >= kappa d(x). (Q) with the nearest feasible point for
    x, and r_t >= v_t / G_g >= (kappa / G_g) d_t: d_{t+1} <= q d_t + a_t. A kappa above G_g says no
    more than kappa = G_g.
    """
    slope = arguments.positive("constraint_lipschitz", constraint_lipschitz)
    ratio = min(arguments.positive("error_bound", error_bound) / slope, 1.0) ** 2
    return ratio / (1 + math.sqrt(1 - ratio))


def half_space_distance(
    *,
    lengths: StepLengths,
    constraint_lipschitz: float,
    error_bound: float,
    initial_distance: float = 0.0,
) -> float:
    """G_g times the largest distance to the feasible set: a bound on the peak violation (H3).

    d_t <= q^(t-1) d_1 + (1 - q^(t-1)) a / (1 - q), a the longest step: at most the larger of d_1
    and a / (1 - q). If the steps were observed, d_{t+1} = q d_t + a_t is followed round by round.
    """
    gain = half_space_contraction(
        constraint_lipschitz=constraint_lipschitz, error_bound=error_bound
    )
    if lengths.each is not None:
        return constraint_lipschitz * _followed(lengths.each, gain, initial_distance).largest
    return constraint_lipschitz * max(initial_distance, lengths.longest / gain)


def half_space_distance_violation(
    *,
    lengths: StepLengths,
    constraint_lipschitz: float,
    error_bound: float,
    initial_distance: float = 0.0,
) -> float:
    """Clipped violation: G_g sum d_t <= G_g (d_1 + sum a_t) / (1 - q), a convolution with 1, q,
    q^2, ... (H3)."""
    gain = half_space_contraction(
        constraint_lipschitz=constraint_lipschitz, error_bound=error_bound
    )
    if lengths.each is not None:
        return constraint_lipschitz * _followed(lengths.each, gain, initial_distance).total
    return constraint_lipschitz * (initial_distance + lengths.sums()[0]) / gain


def half_space_distance_squared(
    *,
    lengths: StepLengths,
    constraint_lipschitz: float,
    error_bound: float,
    initial_distance: float = 0.0,
) -> float:
    """Sum of squares of the largest constraint: G_g^2 (d_1^2 + sum a_t^2) / (1 - q)^2, the same
    convolution (H3)."""
    gain = half_space_contraction(
        constraint_lipschitz=constraint_lipschitz, error_bound=error_bound
    )
    if lengths.each is not None:
        return constraint_lipschitz**2 * _followed(lengths.each, gain, initial_distance).squares
    return (constraint_lipschitz / gain) ** 2 * (initial_distance**2 + lengths.sums()[1])


class _Distances(NamedTuple):
    """Of the distances d_1, ..., d_T of the seed in which they are largest."""

    largest: float
    total: float
    squares: float


def _followed(each: Array, gain: float, first: float) -> _Distances:
    """Follow d_{t+1} = (1 - gain) d_t + a_t for every seed, from d_1 = `first`."""
    distance = np.full(len(each), float(first))
    largest, total, squares = distance.copy(), distance.copy(), distance**2
    for step in each[:, :-1].T:
        distance = (1 - gain) * distance + step
        np.maximum(largest, distance, out=largest)
        total += distance
        squares += distance**2
    return _Distances(float(largest.max()), float(total.max()), float(squares.max()))
