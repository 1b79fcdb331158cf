"""The best decision of each round of an energy balance, for all rounds at once."""

from __future__ import annotations

import numpy as np

from ...engine import Array

__all__ = ["best_of_each_round"]

HALVINGS = 50
"""Halvings of the interval of the multiplier of the cap."""


def best_of_each_round(
    cost: Array,
    slope: Array,
    limit: Array,
    demand: Array,
    balance: float,
    linear: Array,
    quadratic: Array,
    cap: float,
) -> Array:
    """Return argmin sum_i c_i x_i^2 / 2 + s_i x_i + balance (sum x - d_t)^2 / 2 over 0 <= x <=
    limit with sum_i a_{t,i} x_i + E_{t,i} x_i^2 <= cap, for every round t, (round, i).

    With the price p = balance (d_t - sum x) and the multiplier mu of the cap, the optimum is x_i =
    clip((p - s_i - mu a_i) / (c_i + 2 mu E_i), 0, limit_i). p + balance sum x is piecewise linear
    and increases with p, so p is found between two kinks. What the cap limits decreases with mu,
    which is found by bisection.
    """

    def balanced(mu: Array) -> Array:
        curvature = cost + 2 * mu[:, None] * quadratic
        low = slope + mu[:, None] * linear
        high = low + limit * curvature
        kinks = np.sort(np.concatenate([low, high], axis=1), axis=1)
        at_kinks = np.clip((kinks[:, :, None] - low[:, None]) / curvature[:, None], 0, limit)
        surplus = kinks + balance * (at_kinks.sum(axis=2) - demand[:, None])
        below = np.maximum((surplus <= 0).sum(axis=1) - 1, 0)[:, None]
        kink, short = (np.take_along_axis(a, below, axis=1) for a in (kinks, surplus))
        moving = (low <= kink) & (kink < high) & (short <= 0)  # to the left of all kinks none does
        price = kink - short / (1 + balance * (moving / curvature).sum(axis=1, keepdims=True))
        return np.asarray(np.clip((price - low) / curvature, 0, limit))

    def over(x: Array) -> Array:
        return np.asarray((linear * x + quadratic * x**2).sum(axis=1) > cap)

    none = np.zeros(len(demand))
    low, high = none, np.ones(len(demand))
    while np.any(outside := over(balanced(high))):
        high = np.where(outside, 4 * high, high)
    free = ~over(balanced(none))
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        outside = over(balanced(middle))
        low, high = np.where(outside, middle, low), np.where(outside, high, middle)
    return balanced(np.where(free, 0.0, high))
