r"""Drift-plus-penalty: Yu, Neely and Wei (2017), Neely and Yu (2017), with explicit constants.

    x_{t+1} = P_B(x_t - (V df_t(x_t) + sum_k Q_k dg_k(x_t)) / (2 alpha)),
    Q_{t+1,k} = [Q_{t,k} + h_k]_+,   h_k = g_k(x_t) + dg_k(x_t).(x_{t+1} - x_t),   Q_1 = 0.

x_{t+1} minimises V df_t.(x - x_t) + sum_k Q_k (g_k(x_t) + dg_k.(x - x_t)) + alpha |x - x_t|^2 over
B, a strongly convex function; together with |Q_{t+1}|^2 <= |Q_t + h|^2 this gives for every x in B,
b_t = |x_t - x|^2,

    (|Q_{t+1}|^2 - |Q_t|^2)/2 + V (f_t(x_t) - f_t(x)) <= Q_t.g_t(x) + alpha (b_t - b_{t+1}) + K,
        (*)
    K = max over 0 <= u <= diameter of  -alpha u^2 + V G_f u + m (D + G_g u)^2 / 2,

u standing for |x_{t+1} - x_t|, because |h_k| <= D + G_g u. V is `penalty`, alpha is `proximity`;
the authors take V = sqrt(T), alpha = T. D bounds |g|. Constraints may vary from round to round.
Guarantees are on the excess: nothing sublinear is known for the violation.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ... import arguments
from .step_sums import diameter_of, range_of_losses
from .theorem import OutsideTheorem

__all__ = [
    "drift_plus_penalty_excess",
    "drift_plus_penalty_expected_excess",
    "drift_plus_penalty_key_inequality",
    "drift_plus_penalty_queue",
    "drift_plus_penalty_regret",
]


def drift_plus_penalty_regret(
    *,
    horizon: int,
    penalty: float,
    proximity: float,
    radius: float,
    loss_lipschitz: float,
    constraint_lipschitz: float,
    constraint_range: float,
    constraint_count: int,
    diameter: float | None = None,
) -> float:
    """Regret: (alpha R^2 + K T) / V, against decisions feasible in every round; no Slater point is
    needed.

    (*) summed, Q_t.g_t(x) <= 0. With constraints drawn afresh each round it holds in expectation
    against decisions feasible on average, Q_t being known before round t. At V = sqrt(T), alpha =
    T: (R^2 + K) sqrt(T).
    """
    game = _Game(
        penalty,
        proximity,
        radius,
        loss_lipschitz,
        constraint_lipschitz,
        constraint_range,
        constraint_count,
        diameter_of(diameter, radius),
    )
    return (proximity * radius**2 + game.cost * arguments.count("horizon", horizon)) / penalty


def drift_plus_penalty_key_inequality(
    *,
    regret: float,
    queue: float,
    horizon: int,
    penalty: float,
    proximity: float,
    radius: float,
    loss_lipschitz: float,
    constraint_lipschitz: float,
    constraint_range: float,
    constraint_count: int,
    diameter: float | None = None,
) -> float:
    """Left minus right of (*) summed: V regret + |Q_{T+1}|^2 / 2 <= alpha R^2 + K T, `queue` being
    |Q_{T+1}|.

    Never above zero (but for rounding) on any run, for regret against a decision feasible in every
    round.
    """
    game = _Game(
        penalty,
        proximity,
        radius,
        loss_lipschitz,
        constraint_lipschitz,
        constraint_range,
        constraint_count,
        diameter_of(diameter, radius),
    )
    return (
        penalty * regret
        + queue**2 / 2
        - proximity * radius**2
        - game.cost * arguments.count("horizon", horizon)
    )


def drift_plus_penalty_queue(
    *,
    horizon: int,
    penalty: float,
    proximity: float,
    radius: float,
    loss_lipschitz: float,
    constraint_lipschitz: float,
    constraint_range: float,
    constraint_count: int,
    slater: float | None = None,
    loss_range: float | None = None,
    diameter: float | None = None,
) -> float:
    r"""Largest |Q_t| over t = 1..T+1; with `slater` = epsilon, one u has g_{t,k}(u) <= -epsilon in
    all rounds t.

    sqrt(2 alpha r^2 + max(2 c, (c / epsilon)^2)), c = V F + K, r = diameter: by (*) at x = u the
    sum
    |Q_t|^2 / 2 + alpha |x_t - u|^2 changes by c - epsilon |Q_t| at most, so it falls while |Q_t| >
    c / epsilon. Without a Slater point, and where it is less, sqrt(2 (alpha R^2 + c T)), from (*)
    at the comparator.
    """
    game = _Game(
        penalty,
        proximity,
        radius,
        loss_lipschitz,
        constraint_lipschitz,
        constraint_range,
        constraint_count,
        diameter_of(diameter, radius),
    )
    cost = penalty * range_of_losses(loss_range, loss_lipschitz, radius) + game.cost
    plain = math.sqrt(2 * (proximity * radius**2 + cost * arguments.count("horizon", horizon)))
    if slater is None:
        return plain
    level = cost / _margin(slater, constraint_range)
    return min(plain, math.sqrt(2 * proximity * game.diameter**2 + max(2 * cost, level**2)))


def drift_plus_penalty_excess(
    *,
    horizon: int,
    penalty: float,
    proximity: float,
    radius: float,
    loss_lipschitz: float,
    constraint_lipschitz: float,
    constraint_range: float,
    constraint_count: int,
    slater: float | None = None,
    loss_range: float | None = None,
    diameter: float | None = None,
) -> float:
    r"""Sum over rounds of g_{t,k}(x_t), each k: O(sqrt(T)) with a Slater point for all rounds,
    O(T^(3/4)) without.

    Q_{T+1,k} >= sum_t (g_k(x_t) - G_g |x_{t+1} - x_t|), |x_{t+1} - x_t| <= (V G_f + sqrt(m) G_g
    |Q_t|) / (2 alpha), so at most Q + (G_g / (2 alpha))(V G_f T + sqrt(m) G_g sum_t |Q_t|), Q from
    `drift_plus_penalty_queue`, and sum_t |Q_t| <= T Q, or (alpha r^2 + c T) / epsilon by (*) at the
    Slater point summed, whichever is less.
    """
    queue = drift_plus_penalty_queue(
        horizon=horizon,
        penalty=penalty,
        proximity=proximity,
        radius=radius,
        loss_lipschitz=loss_lipschitz,
        constraint_lipschitz=constraint_lipschitz,
        constraint_range=constraint_range,
        constraint_count=constraint_count,
        slater=slater,
        loss_range=loss_range,
        diameter=diameter,
    )
    game = _Game(
        penalty,
        proximity,
        radius,
        loss_lipschitz,
        constraint_lipschitz,
        constraint_range,
        constraint_count,
        diameter_of(diameter, radius),
    )
    cost = penalty * range_of_losses(loss_range, loss_lipschitz, radius) + game.cost
    return queue + game.drag(horizon, game.sum_of_queues(horizon, queue, cost, slater))


def drift_plus_penalty_expected_excess(
    *,
    horizon: int,
    penalty: float,
    proximity: float,
    radius: float,
    loss_lipschitz: float,
    constraint_lipschitz: float,
    constraint_range: float,
    constraint_count: int,
    slater: float,
    loss_range: float | None = None,
    diameter: float | None = None,
) -> float:
    r"""Expected sum over rounds of g_{t,k}(x_t), constraints drawn afresh each round, E g_k(u) <=
    -epsilon: O(sqrt(T)).

    As `drift_plus_penalty_excess`, with E|Q_{T+1}| bounded as follows. |Q| changes by B = sqrt(m)(D
    + G_g r) per round at most. Over s rounds (*) at u gives, if |Q_t| >= theta = B (s-1) + 2 c /
    epsilon + 2 alpha r^2 / (epsilon s), an expected change below -epsilon s / 2. By Hoeffding's
    lemma E exp(a |Q|), a = epsilon / (2 s B^2), then shrinks by w = exp(-epsilon^2 / (8 B^2)), so
    E|Q_t| <= theta + s B - ln(1 - w) / a for every t and every s; the best s is taken, of the order
    of sqrt(alpha). Where it is less, sqrt(2 (alpha R^2 + c T)).
    """
    game = _Game(
        penalty,
        proximity,
        radius,
        loss_lipschitz,
        constraint_lipschitz,
        constraint_range,
        constraint_count,
        diameter_of(diameter, radius),
    )
    rounds, margin = arguments.count("horizon", horizon), _margin(slater, constraint_range)
    cost = penalty * range_of_losses(loss_range, loss_lipschitz, radius) + game.cost
    change = math.sqrt(constraint_count) * (constraint_range + constraint_lipschitz * game.diameter)
    fade = -math.log(-math.expm1(-(margin**2) / (8 * change**2)))
    growing = 2 * change + 2 * change**2 / margin * fade  # times s
    falling = 2 * proximity * game.diameter**2 / margin  # divided by s
    window = math.ceil(math.sqrt(falling / growing))
    queue = growing * window + falling / window - change + 2 * cost / margin
    queue = min(queue, math.sqrt(2 * (proximity * radius**2 + cost * rounds)))
    return queue + game.drag(rounds, game.sum_of_queues(rounds, queue, cost, margin))


@dataclass(frozen=True)
class _Game:
    penalty: float
    proximity: float
    radius: float
    loss_lipschitz: float
    constraint_lipschitz: float
    constraint_range: float
    constraint_count: int
    diameter: float

    def __post_init__(self) -> None:
        for name in ("penalty", "proximity"):
            arguments.positive(name, getattr(self, name))
        for name in ("loss_lipschitz", "constraint_lipschitz", "constraint_range"):
            arguments.non_negative(name, getattr(self, name))
        arguments.count("constraint_count", self.constraint_count)

    @property
    def cost(self) -> float:
        """K: the largest value of a parabola in u on [0, diameter]."""
        m, slope, height = self.constraint_count, self.constraint_lipschitz, self.constraint_range
        square, linear = (
            m * slope**2 / 2 - self.proximity,
            self.penalty * self.loss_lipschitz + m * height * slope,
        )
        top = self.diameter if square >= 0 else min(self.diameter, linear / (-2 * square))
        return m * height**2 / 2 + linear * top + square * top**2

    def sum_of_queues(self, horizon: int, queue: float, cost: float, slater: float | None) -> float:
        """At least sum_t |Q_t|, or its expectation, given the same for each |Q_t|."""
        if slater is None:
            return horizon * queue
        return min(horizon * queue, (self.proximity * self.diameter**2 + cost * horizon) / slater)

    def drag(self, horizon: int, queues: float) -> float:
        """At least G_g sum_t |x_{t+1} - x_t|, from sum_t |Q_t|."""
        pull = math.sqrt(self.constraint_count) * self.constraint_lipschitz * queues
        moves = (self.penalty * self.loss_lipschitz * horizon + pull) / (2 * self.proximity)
        return self.constraint_lipschitz * moves


def _margin(slater: float, constraint_range: float) -> float:
    margin = arguments.positive("slater", slater)
    if margin > constraint_range:
        raise OutsideTheorem(
            f"slater: got {margin:g}; expected at most constraint_range = {constraint_range:g}, "
            "which bounds |g|"
        )
    return margin
