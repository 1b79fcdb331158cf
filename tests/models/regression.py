"""Regression and classification."""

import cvxpy as cp
import numpy as np
from statement import accepted

import taut


@accepted
def least_squares(m):
    """Least squares within bounds. CVXPY, front page: sum_squares(A @ x - b), 0 <= x <= 1."""
    a, b = m.data("A", (2, 3), -1, 1), m.data("b", 2, -2, 2)
    x = m.variable("x", 3)
    return cp.Problem(cp.Minimize(cp.sum_squares(a @ x - b)), [x >= 0, x <= 1])


@accepted(domain="Ball")
def ridge(m):
    """Ridge regression, the coefficients in a ball. CVXPY, examples: machine learning, ridge
    regression."""
    x, a, b = m.variable("x", 3), m.data("a", 3, -1, 1), m.data("b", (), -3, 3)
    return cp.square(a @ x - b) + 0.2 * cp.sum_squares(x), [cp.norm(x, 2) <= 2]


@accepted(domain="L1Ball")
def lasso(m):
    """Lasso in its constrained form. CVXPY, examples: machine learning, lasso regression."""
    x, a, b = m.variable("x", 5), m.data("a", 5, -1, 1), m.data("b", (), -3, 3)
    return cp.sum_squares(a @ x - b), [cp.norm1(x) <= 1.0]


@accepted
def huber(m):
    """Robust regression with an intercept. CVXPY, examples: Huber regression."""
    slope, offset = m.variable("slope", 3), m.variable("offset")
    a, b = m.data("a", 3, -1, 1), m.data("b", (), -3, 3)
    return cp.huber(a @ slope + offset - b, 0.5), [cp.norm(slope) <= 1.5, cp.abs(offset) <= 1]


@accepted
def quantile(m):
    """Pinball loss of the 90 % quantile. CVXPY, examples: quantile regression."""
    w, a, b = m.variable("w", 2), m.data("a", 2, -1, 1), m.data("b", (), -3, 3)
    miss = b - a @ w
    return 0.5 * cp.abs(miss) + (0.9 - 0.5) * miss, [cp.norm_inf(w) <= 2, w[0] >= w[1]]


@accepted(domain="L1Ball")
def logistic(m):
    """Logistic regression over a small batch, labels times scores. CVXPY, examples: logistic
    regression with l1."""
    beta = m.variable("beta", 3)
    x, y = m.data("X", (4, 3), -1, 1), m.data("Y", 4, 0, 1)
    likelihood = cp.sum(cp.multiply(y, x @ beta) - cp.logistic(x @ beta))
    return cp.Problem(cp.Maximize(likelihood / 4 - 0.05 * cp.norm(beta, 1)), [cp.norm1(beta) <= 2])


@accepted(domain="Ball")
def support_vector_machine(m):
    """Hinge loss with a little regularisation. CVXPY, examples: support vector machine with l1
    regularization."""
    w, z = m.variable("w", 3), m.data("z", 3, -1, 1)
    return cp.pos(1 - z @ w) + 0.05 * cp.norm1(w), [cp.norm(w, 2) <= 2]


@accepted(domain="Ball")
def slack_classifier(m):
    """The same with a slack for the margin, which is chosen after the sample is seen. Cortes and
    Vapnik, 1995."""
    w, slack, z = m.variable("w", 3), m.later("slack", nonneg=True), m.data("z", 3, -1, 1)
    return 0.1 * cp.sum_squares(w) + slack, [
        z @ w >= 1 - slack,
        cp.norm(w) <= 2,
        taut.recourse(slack),
    ]


@accepted
def poisson(m):
    """Counts with a log-linear rate; counts and features are both data (not DPP). McCullagh and
    Nelder, 1989."""
    w, a, count = m.variable("w", 2), m.data("a", 2, -1, 1), m.data("count", (), 0, 6, nonneg=True)
    return cp.exp(a @ w) - count * (a @ w), [cp.sum_squares(w) <= 2]


@accepted
def norm_of_residual(m):
    """A norm, not its square, plus a weighted norm. cvxpylayers, quick start: norm(F @ x - g) +
    lambd * norm(x), x >= 0."""
    x, f, g = m.variable("x", (2, 1)), m.data("F", (3, 2), -1, 1), m.data("g", (3, 1), -1, 1)
    lambd = m.data("lambd", (1, 1), 0, 1, nonneg=True)
    return cp.norm(f @ x - g) + cp.sum(lambd * cp.norm(x)), [x >= 0, x <= 2, cp.sum(x) <= 3]


@accepted
def least_absolute_deviations(m):
    """Absolute errors written with an epigraph variable. Boyd and Vandenberghe, section 6.1.1."""
    x, t = m.variable("x", 2, bounds=[-1, 1]), m.later("t")
    a, b = m.data("a", 2, -1, 1), m.data("b", (), -2, 2)
    return t, [a @ x - b <= t, b - a @ x <= t, cp.sum(x) <= 1]


@accepted
def trend_filter(m):
    """Piecewise linear trends. CVXPY, examples: l1 trend filtering, with the sparse matrix of
    second differences."""
    import scipy.sparse

    x, y = m.variable("x", 5), m.data("y", 5, -1, 1)
    second = scipy.sparse.diags_array([1.0, -2.0, 1.0], offsets=[0, 1, 2], shape=(3, 5)).tocsr()
    return 0.5 * cp.sum_squares(y - x) + 0.3 * cp.norm(second @ x, 1), [
        cp.abs(x) <= 1,
        cp.sum(x) <= 1,
    ]


@accepted
def softmax(m):
    """Multinomial logistic regression with the label as one-hot data (not DPP). Bishop, 2006,
    section 4.3.4."""
    w = m.variable("W", (3, 2), bounds=[-1, 1])
    x, label = (
        m.data("x", 2, -1, 1),
        m.data(
            "label",
            3,
            draw=lambda random: np.eye(3)[random.integers(3)],
            nonneg=True,
            bounds=[0, 1],
        ),
    )
    return cp.log_sum_exp(w @ x) - label @ (w @ x), [cp.norm(w, "fro") <= 1.5, cp.sum(w) <= 2]
