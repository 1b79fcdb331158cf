"""Control, estimation and filter design."""

import cvxpy as cp
import numpy as np
from statement import accepted

import taut

A, B = np.array([[1.0, 0.5], [0.0, 0.9]]), np.array([0.1, 0.5])


@accepted
def condensed_control(m):
    """Model predictive control with states eliminated; the initial state is data. CVXPYgen,
    examples: MPC."""
    u, x0 = m.variable("u", 3, bounds=[-1, 1]), m.data("x0", 2, -1, 1)
    state, cost = x0, 0
    for t in range(3):
        state = A @ state + B * u[t]
        cost += cp.sum_squares(state) + 0.1 * cp.square(u[t])
    return cost, [cp.abs(cp.diff(u)) <= 0.5]


@accepted
def states_after_the_data(m):
    """The same with states as variables, defined by equations with data. CVXPY, tutorial: control;
    cvxpylayers: constrained MPC."""
    u, x0 = m.variable("u", 2, bounds=[-1, 1]), m.data("x0", 2, -1, 1)
    x = m.later("x", (2, 3))
    rows = [x[:, 0] == x0] + [x[:, t + 1] == A @ x[:, t] + B * u[t] for t in range(2)]
    return cp.sum_squares(x) + 0.1 * cp.sum_squares(u), [rows, taut.recourse(x), cp.norm1(u) <= 1.5]


@accepted
def robust_kalman(m):
    """Measurements with outliers, in one step of a filter. CVXPY, examples: robust Kalman
    filtering."""
    x, y, prior = (
        m.variable("x", 2, bounds=[-2, 2]),
        m.data("y", (), -3, 3),
        m.data("prior", 2, -1, 1),
    )
    return cp.sum_squares(x - prior) + cp.huber(y - np.array([1.0, 0.5]) @ x, 0.3), [
        cp.norm1(x) <= 2.5
    ]


@accepted
def landing(m):
    """Thrust vectors in cones, with a position that must be reached on average. CVXPY, short
    course: landing with SOC."""
    f, wind = m.variable("f", (2, 2), bounds=[-2, 2]), m.data("wind", 2, -0.5, 0.5)
    cone = [cp.SOC(0.9 * f[t, 1], f[t, :1]) for t in range(2)]
    final = cp.sum(f, axis=0) + wind
    return cp.sum(cp.norm(f, axis=1)) + cp.sum_squares(final - np.array([0.2, 1.0])), [
        cone,
        cp.norm(f[0] - f[1]) <= 1,
    ]


@accepted
def filter_design(m):
    """The largest deviation from a response at several frequencies. CVXPY, examples: Chebyshev
    design of a filter."""
    h, wanted = m.variable("h", 3), m.data("wanted", 4, -1, 1)
    cosines = np.cos(np.outer(np.linspace(0, np.pi, 4), np.arange(3)))
    return cp.max(cp.abs(cosines @ h - wanted)), [
        cp.norm(h, 1) <= 1.5,
        cp.abs(cosines[3] @ h) <= 0.5,
    ]


@accepted
def stiffness(m):
    """Energy of springs with a budget of stiffness: a fraction with a variable below. cvxpylayers:
    stiffness constants."""
    k, load = m.variable("k", 3, bounds=[0.3, 2]), m.data("load", 3, -1, 1)
    energy = sum(cp.quad_over_lin(load[i], k[i]) for i in range(3))
    return energy, [cp.sum(k) <= 3]
