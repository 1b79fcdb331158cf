"""Programs in two stages: some variables are decided before the data of a round are known, others
are chosen afterwards."""

import cvxpy as cp
import numpy as np
from statement import accepted

import taut


@accepted
def newsvendor_network(m):
    """Stocks before demands, sales and overtime on a shared line afterwards. Van Mieghem and Rudi,
    2002: newsvendor networks."""
    stock, demand = m.variable("stock", 3, bounds=[0, 5]), m.data("demand", 3, 0, 4)
    sold, overtime = m.later("sold", 3, nonneg=True), m.later("overtime", nonneg=True)
    loss = np.array([1.0, 1.2, 0.8]) @ stock - np.array([3.0, 4.0, 2.5]) @ sold + 1.5 * overtime
    rows = [sold <= stock, sold <= demand, cp.sum(sold) <= 6 + overtime, cp.sum(stock) <= 9]
    return loss, [*rows, taut.recourse(sold, overtime)]


@accepted
def adjusted_dispatch(m):
    """Base load before wind and demand, units, curtailment and load shedding afterwards. Morales et
    al., 2014, chapter 3."""
    base, demand, wind = (
        m.variable("base", 2, bounds=[0, 5]),
        m.data("demand", (), 6, 14),
        m.data("wind", (), 0, 4),
    )
    units, curtailed, shed = (
        m.later("units", 3, bounds=[0, 2]),
        m.later("curtailed", nonneg=True),
        m.later("shed", nonneg=True),
    )
    loss = (
        np.array([1.0, 1.3]) @ base
        + np.array([2.0, 3.0, 5.0]) @ units
        + 0.1 * curtailed
        + 20 * shed
    )
    balance = cp.sum(base) + cp.sum(units) + shed + wind - curtailed == demand
    return loss, [
        balance,
        curtailed <= wind,
        cp.sum(base) <= 8,
        taut.recourse(units, curtailed, shed),
    ]


@accepted
def transport_after_demand(m):
    """Stocks at two depots before demands, flows to three places afterwards. Williams, 1963; Birge
    and Louveaux, 2011, 1.5."""
    stock, demand = m.variable("stock", 2, bounds=[0, 6]), m.data("demand", 3, 0, 3)
    flow, missing = m.later("flow", (2, 3), nonneg=True), m.later("missing", 3, nonneg=True)
    costs = np.array([[1.0, 2.0, 3.0], [2.5, 1.5, 1.0]])
    loss = 0.5 * cp.sum(stock) + cp.sum(cp.multiply(costs, flow)) + 8 * cp.sum(missing)
    rows = [
        cp.sum(flow, axis=1) <= stock,
        cp.sum(flow, axis=0) + missing == demand,
        cp.sum(stock) <= 8,
    ]
    return loss, [*rows, taut.recourse(flow, missing)]


@accepted
def backlog_and_lost_sales(m):
    """An order before the demand; what is left, backlogged up to a limit, or lost afterwards.
    Zipkin, 2000, section 6."""
    order, demand = m.variable("order", 2, bounds=[0, 8]), m.data("demand", 2, 0, 6)
    left, late, lost = (m.later(name, 2, nonneg=True) for name in ("left", "late", "lost"))
    loss = cp.sum(order) + 0.3 * cp.sum(left) + 1.5 * cp.sum(late) + 4 * cp.sum(lost)
    return loss, [
        left - late - lost == order - demand,
        cp.sum(late) <= 3,
        cp.sum(order) <= 10,
        taut.recourse(left, late, lost),
    ]


@accepted
def farmer(m):
    """Acres before yields, purchases and sales with a quota afterwards. Birge and Louveaux, 2011,
    section 1.1, in units of 100."""
    acres = m.variable("acres", 3, nonneg=True)
    wheat, corn, beets = (
        m.data(*given)
        for given in (("wheat", (), 2, 3), ("corn", (), 2.4, 3.6), ("beets", (), 16, 24))
    )
    bought, sold, above = (
        m.later("bought", 2, nonneg=True),
        m.later("sold", 3, nonneg=True),
        m.later("above", nonneg=True),
    )
    loss = (
        np.array([1.5, 2.3, 2.6]) @ acres
        + np.array([2.38, 2.1]) @ bought
        - np.array([1.7, 1.5, 0.36]) @ sold
        - 0.1 * above
    )
    rows = [
        wheat * acres[0] + bought[0] - sold[0] >= 2,
        corn * acres[1] + bought[1] - sold[1] >= 2.4,
    ]
    rows += [sold[2] + above <= beets * acres[2], sold[2] <= 60, cp.sum(acres) <= 5]
    return loss, [*rows, taut.recourse(bought, sold, above)]


@accepted
def quadratic_units_and_spot_price(m):
    """Units with quadratic costs and a market whose price is data, after the demand. Wood and
    Wollenberg; Morales et al., 2014."""
    base, demand, price = (
        m.variable("base", bounds=[0, 5]),
        m.data("demand", (), 2, 9),
        m.data("price", (), 1, 4),
    )
    unit, bought, shed = (
        m.later("unit", bounds=[0, 3]),
        m.later("bought", bounds=[0, 2]),
        m.later("shed", nonneg=True),
    )
    loss = 1.2 * base + unit + 0.4 * cp.square(unit) + price * bought + 9 * shed
    return loss, [
        base + unit + bought + shed >= demand,
        base <= 4,
        taut.recourse(unit, bought, shed),
    ]
