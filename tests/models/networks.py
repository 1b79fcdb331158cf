"""Communication, transport and allocation."""

import cvxpy as cp
import numpy as np
from statement import accepted

ROUTES = np.array([[1.0, 1, 0], [0, 1, 1]])


@accepted
def water_filling(m):
    """Power over channels whose noise changes. CVXPY, examples: water filling (Boyd and
    Vandenberghe, example 5.2)."""
    x, alpha = m.variable("x", 3), m.data("alpha", 3, 0.5, 1.5)
    return cp.Problem(cp.Maximize(cp.sum(cp.log(alpha + x))), [x >= 0, cp.sum(x) - 1 == 0])


@accepted
def optimal_advertising(m):
    """Impressions shared out among ads, with capped revenue. CVXPY, examples: optimal
    advertising."""
    d, rate, traffic = (
        m.variable("D", (2, 2), bounds=[0, 1.5]),
        m.data("rate", (2, 2), 0, 1),
        m.data("traffic", 2, 1.0, 1.5),
    )
    revenue = [cp.minimum(rate[i] @ d[i], 0.6) for i in range(2)]
    return cp.Problem(
        cp.Maximize(sum(revenue)), [d.T @ np.ones(2) <= traffic, d @ np.ones(2) >= [0.2, 0.1]]
    )


@accepted
def network_utility(m):
    """Rates with logarithmic utility; link capacities change. Kelly, Maulloo and Tan, 1998;
    CVXPYgen: network."""
    rate, weight, capacity = (
        m.variable("rate", 3, bounds=[0.05, 2]),
        m.data("weight", 3, 0.5, 1.5, nonneg=True),
        m.data("capacity", 2, 1.4, 2),
    )
    return cp.Problem(cp.Maximize(weight @ cp.log(rate)), [ROUTES @ rate <= capacity])


@accepted
def max_min_fairness(m):
    """The smallest weighted rate is made large. Bertsekas and Gallager, 1992, section 6.5.2."""
    rate, weight = m.variable("rate", 3, nonneg=True), m.data("weight", 3, 0.5, 2)
    return cp.Problem(
        cp.Maximize(cp.min(cp.multiply(weight, rate))), [ROUTES @ rate <= np.array([1.0, 1.5])]
    )


@accepted
def gaussian_broadcast(m):
    """Power and bandwidth shared; rates are perspectives of the logarithm. CVXPY, examples: optimal
    power and bandwidth."""
    power, band = m.variable("power", 2, bounds=[0.05, 1]), m.variable("band", 2, bounds=[0.1, 1])
    weight = m.data("weight", 2, 0.5, 1.5, nonneg=True)
    rate = -cp.rel_entr(band, band + cp.multiply(np.array([2.0, 4.0]), power))
    return cp.Problem(cp.Maximize(weight @ rate), [cp.sum(power) <= 1, cp.sum(band) <= 1])


@accepted
def interference(m):
    """Signal to interference for given targets, linear in the powers. CVXPY, examples: power
    assignment, BV exercise 4.20."""
    p, gain = m.variable("p", 3, bounds=[0, 1]), m.data("gain", (3, 3), 0.0, 0.1)
    own = np.array([1.0, 0.8, 0.9])
    return cp.sum(p), [cp.multiply(own, p) - 0.5 * (gain @ p) >= 0.1]


@accepted
def channel_capacity(m):
    """Mutual information of a noisy channel. CVXPY, examples: channel capacity, BV exercise
    4.57."""
    x, cost = m.variable("x", 2), m.data("cost", 2, 0, 1)
    channel = np.array([[0.75, 0.25], [0.25, 0.75]])
    entropy = np.sum(channel * np.log2(channel), axis=0)
    gain = entropy @ x + cp.sum(cp.entr(channel @ x)) / np.log(2)
    return cp.Problem(cp.Maximize(gain - cost @ x), [x >= 0, cp.sum(x) == 1])
