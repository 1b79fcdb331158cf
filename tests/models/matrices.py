"""Matrices: semidefinite programs, covariances, relaxations."""

import cvxpy as cp
import numpy as np
from statement import accepted


def _symmetric(random):
    half = random.uniform(-1, 1, (3, 3))
    return (half + half.T) / 2


@accepted
def maximum_cut(m):
    """Relaxation of the maximal cut with weights of the round. Goemans and Williamson, 1995; CVXPY,
    examples: SDP."""
    x, w = m.variable("X", (3, 3), PSD=True), m.data("W", (3, 3), -1, 1)
    return cp.Problem(cp.Minimize(cp.sum(cp.multiply(w, x))), [cp.diag(x) == 1])


@accepted(domain="Spectral")
def spectrahedron(m):
    """Density matrices, as in online PCA. Warmuth and Kuzmin, 2008; CVXPY: X >> 0, trace(X) ==
    1."""
    x, c = m.variable("X", (3, 3), symmetric=True), m.data("C", (3, 3), -1, 1)
    return cp.trace(c @ x), [x >> 0, cp.trace(x) == 1]


@accepted(estimated=("loss_lipschitz", "loss_range"))
def sparse_inverse_covariance(m):
    """Graphical lasso with eigenvalues bounded away from zero. CVXPY, examples: sparse covariance
    estimation."""
    s = m.variable("S", (2, 2), symmetric=True)
    y = m.data("Y", (2, 2), draw=lambda random: np.cov(random.uniform(-1, 1, (2, 6))), PSD=True)
    return -cp.log_det(s) + cp.trace(s @ y), [
        s >> 0.5 * np.eye(2),
        cp.lambda_max(s) <= 3,
        cp.sum(cp.abs(s)) <= 5,
    ]


@accepted
def matrix_completion(m):
    """Entries of a round, with a small nuclear norm. CVXPY: norm(X, "nuc"); Candes and Recht,
    2009."""
    x, y = m.variable("X", (2, 3)), m.data("Y", (2, 3), -1, 1)
    mask = np.array([[1.0, 0, 1], [0, 1, 1]])
    return cp.sum_squares(cp.multiply(mask, x - y)), [cp.norm(x, "nuc") <= 1.2]


@accepted
def fastest_mixing(m):
    """Symmetric transition matrices with a small second eigenvalue. Boyd, Diaconis and Xiao, 2004;
    CVXPY, examples: mixing."""
    p, c = m.variable("P", (3, 3), symmetric=True), m.data("C", (3, 3), 0, 1)
    return cp.sum(cp.multiply(c, p)) + cp.lambda_max(p - np.ones((3, 3)) / 3), [
        p >= 0,
        p <= 1,
        cp.sum(p, axis=1) <= 1.5,
    ]


@accepted
def symmetric_pattern(m):
    """Diagonal and symmetric variables together, largest eigenvalue below one. CVXPY, tutorial:
    attributes."""
    d, s = m.variable("D", (2, 2), diag=True), m.variable("S", (2, 2), symmetric=True)
    c = m.data("C", (2, 2), -1, 1)
    rows = [cp.lambda_max(s + d) <= 1, cp.abs(s) <= 1, cp.diag(d) <= 0.5, cp.diag(d) >= -0.5]
    return cp.sum_squares(s + d - c), rows


@accepted(estimated=("loss_lipschitz", "loss_range"))
def largest_eigenvalues(m):
    """The sum of the two largest eigenvalues of an affine function. Boyd and Vandenberghe, exercise
    3.26; lambda_sum_largest."""
    x, a = m.variable("x", 2, bounds=[-1, 1]), m.data("A", (3, 3), draw=_symmetric, symmetric=True)
    basis = [np.diag([1.0, -1, 0]), np.array([[0.0, 1, 0], [1, 0, 1], [0, 1, 0]])]
    return cp.lambda_sum_largest(a + x[0] * basis[0] + x[1] * basis[1], 2), [cp.sum(x) <= 1]


@accepted
def linear_matrix_inequality(m):
    """Decisions for which a matrix stays positive definite in every round. Boyd et al., 1994, LMI
    with data on the right."""
    x, c, a = m.variable("x", 2, bounds=[-1, 1]), m.data("c", 2, -1, 1), m.data("a", (), 0, 0.3)
    matrix = cp.bmat([[1 + x[0], x[1] + a], [x[1] + a, 1 - x[0]]])
    return c @ x, [matrix >> 0]
