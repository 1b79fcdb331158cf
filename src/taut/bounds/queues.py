r"""Drift-plus-penalty: Yu, Neely and Wei (2017), Neely and Yu (2017), with explicit constants.

    x_{t+1} = P_B(x_t - (V df_t(x_t) + sum_k Q_k dg_k(x_t)) / (2 alpha)),
    Q_{t+1,k} = [Q_{t,k} + h_k]_+,   h_k = g_k(x_t) + dg_k(x_t).(x_{t+1} - x_t),   Q_1 = 0.

x_{t+1} minimises V df_t.(x - x_t) + sum_k Q_k (g_k(x_t) + dg_k.(x - x_t)) + alpha |x - x_t|^2 over B, which is strongly convex;
together with |Q_{t+1}|^2 <= |Q_t + h|^2 this gives for every x in B, with b_t = |x_t - x|^2 and u = |x_{t+1} - x_t|,

    (|Q_{t+1}|^2 - |Q_t|^2)/2 + V (f_t(x_t) - f_t(x)) <= Q_t.g_t(x) + alpha (b_t - b_{t+1}) + K,                (*)
    K = max over 0 <= u <= diameter of  -alpha u^2 + V G_f u + m (D + G_g u)^2 / 2,

for |h_k| <= D + G_g u. V is `penalty_weight`, alpha `proximal_weight`; the authors take V = sqrt(T), alpha = T. Constraints may
vary. Guarantees are on the excess; nothing sublinear is known for the violation.
"""

from __future__ import annotations

import math

from taut import errors

from .steps import range_of_losses

__all__ = [
    "drift_plus_penalty_excess",
    "drift_plus_penalty_expected_excess",
    "drift_plus_penalty_key_inequality",
    "drift_plus_penalty_queue",
    "drift_plus_penalty_regret",
]


def drift_plus_penalty_regret(
    *, horizon: int, penalty_weight: float, proximal_weight: float, radius: float, loss_lipschitz: float,
    constraint_lipschitz: float, constraint_range: float, constraint_count: int, diameter: float | None = None,
) -> float:  # fmt: skip
    """Regret: (alpha R^2 + K T) / V, against decisions feasible in every round; no Slater point is needed.

    (*) summed, Q_t.g_t(x) <= 0. With constraints drawn afresh each round it holds in expectation against
    decisions feasible on average, Q_t being known before round t. At V = sqrt(T), alpha = T: (R^2 + K) sqrt(T).
    """
    cost = _round_cost(penalty_weight, proximal_weight, radius, loss_lipschitz, constraint_lipschitz,
                       constraint_range, constraint_count, diameter)  # fmt: skip
    return (proximal_weight * radius**2 + cost * errors.count("horizon", horizon)) / penalty_weight


def drift_plus_penalty_key_inequality(
    *, regret: float, queue: float, horizon: int, penalty_weight: float, proximal_weight: float, radius: float,
    loss_lipschitz: float, constraint_lipschitz: float, constraint_range: float, constraint_count: int,
    diameter: float | None = None,
) -> float:  # fmt: skip
    """Left minus right of (*) summed: V regret + |Q_{T+1}|^2 / 2 <= alpha R^2 + K T, `queue` being |Q_{T+1}|.

    Never above zero (but for rounding) on any run, for regret against a decision feasible in every round.
    """
    cost = _round_cost(penalty_weight, proximal_weight, radius, loss_lipschitz, constraint_lipschitz,
                       constraint_range, constraint_count, diameter)  # fmt: skip
    return penalty_weight * regret + queue**2 / 2 - proximal_weight * radius**2 - cost * horizon


def drift_plus_penalty_queue(
    *, horizon: int, penalty_weight: float, proximal_weight: float, radius: float, loss_lipschitz: float,
    constraint_lipschitz: float, constraint_range: float, constraint_count: int, slater: float | None = None,
    loss_range: float | None = None, diameter: float | None = None,
) -> float:  # fmt: skip
    r"""Largest |Q_t| over t = 1..T+1, where g_{t,k}(u) <= -epsilon for one u and all rounds t (epsilon = `slater`).

    sqrt(2 alpha r^2 + max(2 c, (c / epsilon)^2)), c = V F + K, r = diameter: (*) at x = u says that
    |Q_t|^2 / 2 + alpha |x_t - u|^2 falls whenever |Q_t| > c / epsilon and otherwise grows by c - epsilon |Q_t| at most. Without
    a Slater point, and where it is less, sqrt(2 (alpha R^2 + c T)), from (*) at the comparator.
    """
    rounds = errors.count("horizon", horizon)
    cost, across = _cost_with_losses(penalty_weight, proximal_weight, radius, loss_lipschitz, constraint_lipschitz,
                                     constraint_range, constraint_count, loss_range, diameter)  # fmt: skip
    plain = math.sqrt(2 * (proximal_weight * radius**2 + cost * rounds))
    if slater is None:
        return plain
    margin = _margin(slater, constraint_range)
    return min(plain, math.sqrt(2 * proximal_weight * across**2 + max(2 * cost, (cost / margin) ** 2)))


def drift_plus_penalty_excess(
    *, horizon: int, penalty_weight: float, proximal_weight: float, radius: float, loss_lipschitz: float,
    constraint_lipschitz: float, constraint_range: float, constraint_count: int, slater: float | None = None,
    loss_range: float | None = None, diameter: float | None = None,
) -> float:  # fmt: skip
    r"""Sum over rounds of g_{t,k}(x_t), each k: O(sqrt(T)) with a Slater point for all rounds, O(T^(3/4)) without.

    Q_{T+1,k} >= sum_t (g_k(x_t) - G_g |x_{t+1} - x_t|) and |x_{t+1} - x_t| <= (V G_f + sqrt(m) G_g |Q_t|) / (2 alpha), so at most
    Q + (G_g / (2 alpha))(V G_f T + sqrt(m) G_g sum_t |Q_t|), Q from `drift_plus_penalty_queue`, and
    sum_t |Q_t| <= T Q, or (alpha r^2 + c T) / epsilon by (*) at the Slater point summed, whichever is less.
    """
    queue = drift_plus_penalty_queue(
        horizon=horizon, penalty_weight=penalty_weight, proximal_weight=proximal_weight, radius=radius,
        loss_lipschitz=loss_lipschitz, constraint_lipschitz=constraint_lipschitz,
        constraint_range=constraint_range, constraint_count=constraint_count, slater=slater,
        loss_range=loss_range, diameter=diameter,
    )  # fmt: skip
    queues = horizon * queue
    if slater is not None:
        cost, across = _cost_with_losses(penalty_weight, proximal_weight, radius, loss_lipschitz,
                                         constraint_lipschitz, constraint_range, constraint_count, loss_range,
                                         diameter)  # fmt: skip
        queues = min(queues, (proximal_weight * across**2 + cost * horizon) / slater)
    moves = penalty_weight * loss_lipschitz * horizon + math.sqrt(constraint_count) * constraint_lipschitz * queues
    return queue + constraint_lipschitz / (2 * proximal_weight) * moves


def drift_plus_penalty_expected_excess(
    *, horizon: int, penalty_weight: float, proximal_weight: float, radius: float, loss_lipschitz: float,
    constraint_lipschitz: float, constraint_range: float, constraint_count: int, slater: float,
    loss_range: float | None = None, diameter: float | None = None,
) -> float:  # fmt: skip
    r"""Expected sum over rounds of g_{t,k}(x_t), constraints drawn afresh each round, E g_k(u) <= -epsilon: O(sqrt(T)).

    As `drift_plus_penalty_excess`, with E|Q_{T+1}| bounded as follows. |Q| changes by B = sqrt(m)(D + G_g r) a round at most.
    Over s rounds (*) at u gives, if |Q_t| >= theta = B (s-1) + 2 c / epsilon + 2 alpha r^2 / (epsilon s), an expected
    change below -epsilon s / 2. By Hoeffding's lemma E exp(a |Q|), a = epsilon / (2 s B^2), then shrinks by
    w = exp(-epsilon^2 / (8 B^2)), so E|Q_t| <= theta + s B - ln(1 - w) / a for every t; s = ceil(sqrt(alpha)).
    """
    rounds = errors.count("horizon", horizon)
    cost, across = _cost_with_losses(penalty_weight, proximal_weight, radius, loss_lipschitz, constraint_lipschitz,
                                     constraint_range, constraint_count, loss_range, diameter)  # fmt: skip
    margin = _margin(slater, constraint_range)
    change = math.sqrt(constraint_count) * (constraint_range + constraint_lipschitz * across)
    window = math.ceil(math.sqrt(proximal_weight))
    threshold = change * (window - 1) + 2 * cost / margin + 2 * proximal_weight * across**2 / (margin * window)
    fade = -math.log(-math.expm1(-(margin**2) / (8 * change**2)))
    queue = threshold + window * change + 2 * window * change**2 / margin * fade
    queue = min(queue, math.sqrt(2 * (proximal_weight * radius**2 + cost * rounds)))
    queues = min(rounds * queue, (proximal_weight * across**2 + cost * rounds) / margin)
    moves = penalty_weight * loss_lipschitz * rounds + math.sqrt(constraint_count) * constraint_lipschitz * queues
    return queue + constraint_lipschitz / (2 * proximal_weight) * moves


def _round_cost(
    penalty_weight: float, proximal_weight: float, radius: float, loss_lipschitz: float,
    constraint_lipschitz: float, constraint_range: float, constraint_count: int, diameter: float | None,
) -> float:  # fmt: skip
    """K: the largest value of a parabola in u = |x_{t+1} - x_t| on [0, diameter]."""
    weight, alpha = errors.positive("penalty_weight", penalty_weight), errors.positive("proximal_weight", proximal_weight)
    loss = errors.non_negative("loss_lipschitz", loss_lipschitz)
    slope = errors.non_negative("constraint_lipschitz", constraint_lipschitz)
    height = errors.non_negative("constraint_range", constraint_range)
    count, across = errors.count("constraint_count", constraint_count), _across(radius, diameter)
    square, linear = count * slope**2 / 2 - alpha, weight * loss + count * height * slope
    top = across if square >= 0 else min(across, linear / (-2 * square))
    return count * height**2 / 2 + linear * top + square * top**2


def _cost_with_losses(
    penalty_weight: float, proximal_weight: float, radius: float, loss_lipschitz: float,
    constraint_lipschitz: float, constraint_range: float, constraint_count: int, loss_range: float | None,
    diameter: float | None,
) -> tuple[float, float]:  # fmt: skip
    """c = V F + K, and the diameter."""
    cost = _round_cost(penalty_weight, proximal_weight, radius, loss_lipschitz, constraint_lipschitz,
                       constraint_range, constraint_count, diameter)  # fmt: skip
    spread = range_of_losses(loss_range, loss_lipschitz, radius)
    return penalty_weight * spread + cost, _across(radius, diameter)


def _across(radius: float, diameter: float | None) -> float:
    radius = errors.positive("radius", radius)
    return 2 * radius if diameter is None else max(errors.positive("diameter", diameter), radius)


def _margin(slater: float, constraint_range: float) -> float:
    margin = errors.positive("slater", slater)
    if margin > constraint_range:
        raise ValueError(
            f"slater: got {margin:g}; expected at most constraint_range = {constraint_range:g}, which bounds |g|"
        )
    return margin
