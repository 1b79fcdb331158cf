"""Generators, storage and grids."""

import cvxpy as cp
import numpy as np
from statement import accepted

import taut


@accepted
def ramps(m):
    """Generators that can change their output by little from round to round. Wood and Wollenberg,
    economic dispatch."""
    x, demand = m.variable("x", 2, bounds=[0, 10]), m.data("demand", (), 6, 12)
    change = x - m.previous(x)
    return 0.1 * cp.sum_squares(x) + cp.abs(cp.sum(x) - demand), [
        change <= 2,
        change >= -2,
        cp.sum(x) <= 15,
    ]


@accepted
def imbalance_market(m):
    """A plan before the wind is known; shortage and surplus are settled afterwards. Pinson,
    Chevallier and Kariniotakis, 2007."""
    plan, wind = m.variable("plan", bounds=[0, 10]), m.data("wind", (), 0, 10)
    short, spilled = m.later("short", nonneg=True), m.later("spilled", nonneg=True)
    return 3 * short + spilled - 2 * plan, [
        spilled - short == wind - plan,
        taut.recourse(short, spilled),
    ]


@accepted
def newsvendor(m):
    """Orders before the demand is known, as a gain. Boyd and Vandenberghe, additional exercises;
    CVXPY stochastic examples."""
    order, demand = m.variable("order", 2, nonneg=True), m.data("demand", 2, 0, 4)
    sold = cp.minimum(order, demand)
    return cp.Problem(
        cp.Maximize(3 * cp.sum(sold) - np.array([1.0, 1.5]) @ order), [cp.sum(order) <= 5]
    )


@accepted
def battery(m):
    """Charge and discharge over four hours with losses, vectorised. CVXPY notebooks: arbitrage of a
    battery."""
    charge, discharge = (
        m.variable("charge", 4, bounds=[0, 1]),
        m.variable("discharge", 4, bounds=[0, 1]),
    )
    price = m.data("price", 4, 0.2, 1.0)
    level = 1.0 + cp.cumsum(0.95 * charge - discharge / 0.95)
    return price @ (charge - discharge) + 0.01 * cp.sum_squares(discharge), [
        level >= 0,
        level <= 2,
        level[3] >= 1.0,
    ]


@accepted(slow=True)
def storage_dynamics(m):
    """The same with the level as a variable and an equation per hour, in a loop. MPC of a home
    battery, two hours."""
    charge, level = m.variable("charge", 2, bounds=[-1, 1]), m.variable("level", 3, bounds=[0, 2])
    price = m.data("price", 2, 0.2, 1.0)
    rows = [level[0] == 1.0]
    for t in range(2):
        rows.append(level[t + 1] == level[t] + 0.9 * charge[t])
    return price @ charge + 0.1 * cp.sum_squares(charge), [rows, level[2] >= 0.8]


@accepted
def microgrid_loop(m):
    """Generator, battery and grid over three hours, written as a loop with the grid as what is
    left. Microgrid MPC tutorials."""
    diesel, charge = m.variable("diesel", 3, bounds=[0, 2]), m.variable("charge", 3, bounds=[-1, 1])
    load, solar = m.data("load", 3, 0.5, 2), m.data("solar", 3, 0, 1)
    cost, rows, level = 0, [], 1.0
    for t in range(3):
        grid = load[t] - solar[t] - diesel[t] + charge[t]
        cost += 0.5 * cp.pos(grid) + 0.1 * cp.neg(grid) + 0.2 * cp.square(diesel[t])
        level = level + charge[t]
        rows += [level >= 0, level <= 2]
    return cp.Problem(cp.Minimize(cost), [*rows, cp.sum(diesel) <= 4])


@accepted
def relaxed_commitment(m):
    """Unit commitment with the binary relaxed: output below capacity times commitment. Padhy,
    2004."""
    on, power = m.variable("on", 2, bounds=[0, 1]), m.variable("power", 2, nonneg=True)
    demand = m.data("demand", (), 1, 4)
    limits = [power <= cp.multiply([3.0, 2.0], on), power >= cp.multiply([0.5, 0.2], on)]
    return np.array([1.0, 0.4]) @ on + np.array([0.5, 0.9]) @ power + 4 * cp.pos(
        demand - cp.sum(power)
    ), [limits]


@accepted(slow=True)
def direct_current_flow(m):
    """Optimal power flow on a triangle with angles as variables. Wood and Wollenberg; MATPOWER's DC
    model."""
    power, angle = m.variable("power", 2, bounds=[0, 2]), m.variable("angle", 2, bounds=[-1, 1])
    price = m.data("price", 2, 0.5, 2)
    flow = [
        -2 * angle[0],
        -1 * angle[1],
        angle[0] - angle[1],
    ]  # from bus 0 to 1, from 0 to 2, from 1 to 2
    balance = [power[0] == flow[0] + flow[1], power[1] == -flow[0] + flow[2]]
    limits = [cp.abs(one) <= 0.8 for one in flow]
    demand = -(flow[1] + flow[2])
    return price @ power + 0.1 * cp.sum_squares(power) + 3 * cp.square(demand + 1.0), [
        balance,
        limits,
    ]


@accepted
def line_limits_change(m):
    """Capacities of lines depend on the weather of the round. Dynamic line rating, in the form of
    PowerModels' DC model."""
    x, rating, price = (
        m.variable("x", 3, bounds=[0, 2]),
        m.data("rating", 2, 1, 2, nonneg=True),
        m.data("price", 3, -1, 1),
    )
    shift = np.array([[0.6, -0.3, 0.2], [0.1, 0.5, -0.4]])
    return price @ x, [cp.abs(shift @ x) <= rating, cp.sum(x) >= 0.5]


@accepted
def reservoir(m):
    """Releases with a concave gain of power and a minimal flow. Hydro scheduling, Labadie, 2004."""
    release, inflow = m.variable("release", 3, bounds=[0.2, 2]), m.data("inflow", 3, 0.5, 1.5)
    level = 2 + cp.cumsum(inflow - release)
    return cp.Problem(cp.Maximize(cp.sum(cp.sqrt(release))), [level >= 0.5, cp.sum(release) <= 4])
