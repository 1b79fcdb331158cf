r"""Yu and Neely (2020), fixed affine constraints g(x) = A x - b, with explicit constants.

    q = gamma g,   Q_{t+1} = max(-q(x_t), Q_t + q(x_t)),   Q_1 = 0
    x_{t+1} minimises  df_t(x_t).x + (Q_{t+1} + q(x_t)).q(x) + alpha |x - x_t|^2  over the domain.

Q_{t+1} >= |q(x_t)| in every row, so the weights Q_{t+1} + q(x_t) are not negative, and
(|Q_{t+1}|^2 - |Q_t|^2) / 2 <= Q_t.q(x_t) + |q(x_t)|^2. The minimised function is 2 alpha strongly
convex. With 2 q(x_t).q(x_{t+1}) >= |q(x_t)|^2 + |q(x_{t+1})|^2 - gamma^2 |A|^2 |x_{t+1} - x_t|^2
and c = alpha - gamma^2 |A|^2 / 2 > 0 this gives, for every x of the domain,

    (|Q_{t+2}|^2 - |q(x_{t+1})|^2) / 2 - (|Q_{t+1}|^2 - |q(x_t)|^2) / 2 + df_t(x_t).(x_t - x)
        <= (Q_{t+1} + q(x_t)).q(x) + alpha (|x_t - x|^2 - |x_{t+1} - x|^2) + G_f^2 / (4 c).   (*)

The brackets on the left are never negative, and the first one is zero, because Q_2 = |q(x_1)|.
"""

from __future__ import annotations

import math

from .step_sums import range_of_losses
from .theorem import Count, NonNegative, OutsideTheorem, Positive, formula

__all__ = ["yu_neely_excess", "yu_neely_regret"]


@formula
def yu_neely_regret(
    *,
    horizon: Count,
    gain: Positive,
    proximity: Positive,
    norm: NonNegative,
    radius: Positive,
    loss_lipschitz: NonNegative,
) -> float:
    r"""Regret: alpha R^2 + G_f^2 T / (4 c); no Slater point is needed.

    (*) summed at a feasible x. `gain` is gamma, `proximity` alpha and `norm` |A|, the operator
    norm. At gamma = T^(1/4), alpha = (|A|^2 + 1) sqrt(T) / 2: ((|A|^2 + 1) R^2 + G_f^2) sqrt(T) /
    2.
    """
    room = _room(gain, proximity, norm)
    return proximity * radius**2 + loss_lipschitz**2 * horizon / (4 * room)


@formula
def yu_neely_excess(
    *,
    horizon: Count,
    gain: Positive,
    proximity: Positive,
    norm: NonNegative,
    radius: Positive,
    diameter: Positive,
    loss_lipschitz: NonNegative,
    constraint_range: NonNegative,
    constraint_count: Count,
    slater: Positive | None = None,
    loss_range: NonNegative | None = None,
) -> float:
    r"""Sum over rounds of g_k(x_t), each k: O(1) with a Slater point at the authors' parameters,
    O(T^(1/4)) without.

    The sum is at most Q_{T+1,k} / gamma. Let C = F + G_f^2 / (4 c) and let G = gamma sqrt(m) max|g|
    bound |q|. Without a Slater point (*) summed gives |Q_{T+1}|^2 <= G^2 + 2 alpha R^2 + 2 C T.
    With g <= -epsilon at some x, W_t = (|Q_{t+1}|^2 - |q(x_t)|^2) / 2 + alpha |x_t - x|^2 changes
    by at most C - gamma epsilon (|Q_{t+1}| - G), so it falls while
    |Q_{t+1}| > theta = C / (gamma epsilon) + G, and |Q_{T+1}|^2 <= G^2 + 2 alpha D^2 + max(theta^2,
    2 C + 2 gamma epsilon G).
    """
    largest = gain * math.sqrt(constraint_count) * constraint_range
    reach = range_of_losses(loss_range, loss_lipschitz, diameter)
    cost = reach + loss_lipschitz**2 / (4 * _room(gain, proximity, norm))
    square = 2 * proximity * radius**2 + 2 * cost * horizon
    if slater is not None:
        margin = gain * slater
        if margin > gain * constraint_range:
            raise OutsideTheorem(
                f"slater: got {slater:g}; expected at most constraint_range = "
                f"{constraint_range:g}, which bounds |g|"
            )
        level = max((cost / margin + largest) ** 2, 2 * cost + 2 * margin * largest)
        square = min(square, 2 * proximity * diameter**2 + level)
    return math.sqrt(largest**2 + square) / gain


def _room(gain: float, proximity: float, norm: float) -> float:
    """c."""
    least = gain**2 * norm**2 / 2
    if proximity <= least:
        raise OutsideTheorem(
            f"proximity: got {proximity:g}; expected more than gain^2 |A|^2 / 2 = {least:g}, else "
            "the constraint's step overshoots"
        )
    return proximity - least
