"""Cones, robust constraints, entropies, and constraints that change with the round."""

import cvxpy as cp
import numpy as np
from statement import accepted

import taut


@accepted
def robust_linear_program(m):
    """Rows known up to an ellipsoid. CVXPY, examples: second-order cone program; Ben-Tal and
    Nemirovski, 1999."""
    x, c = m.variable("x", 2), m.data("c", 2, -1, 1)
    rows = [np.array([0.8, 0.6]), np.array([-0.5, 1.0]), np.array([0.3, -0.9])]
    return c @ x, [[cp.SOC(1 - row @ x, 0.3 * x) for row in rows], cp.norm_inf(x) <= 2]


@accepted
def second_order_cones(m):
    """Many cones in one constraint, by columns. CVXPY, tutorial: cp.SOC(t, X, axis=0)."""
    x, t, c = m.variable("X", (2, 3)), m.variable("t", 3, bounds=[0, 1]), m.data("C", (2, 3), -1, 1)
    return cp.sum(cp.multiply(c, x)) + 0.1 * cp.sum(t), [cp.SOC(t, x), cp.abs(x) <= 1]


@accepted(cones=True)
def exponential_cone(m):
    """y exp(x / y) <= z, entry by entry. CVXPY, advanced constraints: cp.ExpCone."""
    x, z, c = (
        m.variable("x", 2, bounds=[-1, 1]),
        m.variable("z", 2, bounds=[0.5, 4]),
        m.data("c", 2, -1, 1),
    )
    return cp.sum(z) + c @ x, [cp.ExpCone(x, np.ones(2), z)]


@accepted(cones=True)
def power_cone(m):
    """x^a y^(1-a) >= |z|. CVXPY, advanced constraints: cp.PowCone3D."""
    x, y, z = (
        m.variable("x", bounds=[0.5, 2]),
        m.variable("y", bounds=[0.5, 2]),
        m.variable("z", bounds=[-2, 2]),
    )
    c = m.data("c", (), 0.2, 1)
    return x + y - c * z, [cp.PowCone3D(x, y, z, 0.4), x + y <= 3]


@accepted
def relative_entropy(m):
    """Distributions near that of the round. CVXPY, examples: maximum entropy; kl_div with data and
    a lower bound."""
    p, q = m.variable("p", 3, bounds=[0.05, 1]), m.data("q", 3, 0.1, 1, nonneg=True)
    return cp.sum(cp.kl_div(p, q)), [cp.sum(p) == 1, np.array([1.0, 0.0, -1.0]) @ p <= 0.2]


@accepted
def perspective(m):
    """Perspectives of a square in the loss and of an exponential in a constraint. CVXPY, atoms:
    cp.perspective."""
    x, s, c = m.variable("x"), m.variable("s", nonneg=True), m.data("c", (), -1, 1)
    walls = [cp.abs(x) <= 1, s >= 0.5, s <= 2]
    return cp.perspective(cp.square(x), s) + c * x, [
        walls,
        x + s <= 2,
        cp.perspective(cp.exp(x), s) <= 3,
    ]


@accepted
def p_norms(m):
    """Norms of several orders in one model. CVXPY, tutorial: functions; the 4-norm of kurtosis
    portfolios."""
    x, y = m.variable("x", 3, bounds=[-1, 1]), m.data("y", 3, -1, 1)
    return cp.pnorm(x - y, 4) + 0.2 * cp.norm_inf(x), [cp.pnorm(x, 1.5) <= 1.2]


@accepted
def shortfall_limit(m):
    """A limit on the mean of the worst scenarios. CVXPY, atoms: cp.cvar; Rockafellar and Uryasev,
    2000."""
    w, r = m.variable("w", 3, nonneg=True), m.data("r", 3, -0.3, 0.4)
    scenarios = np.array([[0.1, 0.2, -0.3], [0.2, -0.2, 0.3], [-0.3, 0.1, 0.1], [0.0, 0.3, 0.2]])
    return -r @ w, [cp.sum(w) == 1, cp.sum_largest(-scenarios @ w, 2) / 2 <= 0.05]


@accepted
def changing_budget(m):
    """A budget and a floor that change with the round. Mannor, Tsitsiklis and Yu, 2009; linear rows
    with data on both sides."""
    x = m.variable("x", 3, bounds=[0, 1])
    price, budget, c = m.data("price", 3, 0.2, 1), m.data("budget", (), 1, 2), m.data("c", 3, -1, 1)
    return c @ x + 0.2 * cp.sum_squares(x), [price @ x <= budget, cp.sum(x) >= 0.3]


@accepted
def bounds_from_parameters(m):
    """Bounds of a variable that are parameters, one per round and one constant. CVXPY:
    Variable(bounds=[0, limit])."""
    limit, cap = m.data("limit", (), 0.5, 1, nonneg=True), m.constant("cap", 0.8)
    x, c = m.variable("x", 2, bounds=[0, limit]), m.data("c", 2, -1, 1)
    return c @ x, [x[0] <= cap, cp.sum(x) <= 1.2]


@accepted
def second_stage(m):
    """Capacity before demand, operation afterwards: recourse in two stages. Birge and Louveaux,
    2011, section 1.3."""
    capacity, demand = m.variable("capacity", 2, bounds=[0, 3]), m.data("demand", 2, 0, 3)
    missing = m.later("missing", 2, nonneg=True)
    return cp.sum(capacity) + 4 * cp.sum(missing), [
        missing >= demand - capacity,
        cp.sum(capacity) <= 5,
        taut.recourse(missing),
    ]


@accepted
def nested_and_scalar(m):
    """Constraints in nested lists, a comparison of numbers, a scaled identity. CVXPY users' forum
    style."""
    x, c = m.variable("x", 2), m.data("c", 2, -1, 1)
    walls = [[x[i] <= 1, [x[i] >= -1]] for i in range(2)]
    return c @ x, [walls, (cp.norm(2 * np.eye(2) @ x) <= 2.5,), bool(np.all(np.eye(2) >= 0))]


@accepted
def scalar_products(m):
    """Parameters multiplied by one another and by a variable (not DPP). CVXPY, tutorial:
    disciplined parametrized programming."""
    x, a, b = (
        m.variable("x", 2, bounds=[0, 1]),
        m.data("a", (), 0, 1, nonneg=True),
        m.data("b", 2, -1, 1),
    )
    return a * (b @ x) + a * a * cp.sum_squares(x), [cp.sum(x) <= 1.5, a * x[0] <= 0.7]
