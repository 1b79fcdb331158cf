"""Random expressions of a CVXPY variable and a parameter of three numbers each."""

from __future__ import annotations

import cvxpy as cp
import numpy as np

MATRIX = np.random.default_rng(6).normal(size=(3, 3))
VECTORS = {
    "affine": lambda a, b: MATRIX @ a + 0.5,
    "minus": lambda a, b: -a,
    "sum": lambda a, b: a + b,
    "product": cp.multiply,
    "quotient": lambda a, b: a / (cp.abs(b) + 1),
    "abs": lambda a, b: cp.abs(a),
    "square": lambda a, b: cp.square(a),
    "power": lambda a, b: cp.power(cp.abs(a) + 0.1, 1.7),
    "root": lambda a, b: cp.sqrt(cp.abs(a) + 0.2),
    "inverse": lambda a, b: cp.inv_pos(cp.abs(a) + 0.4),
    "exp": lambda a, b: cp.exp(0.2 * a),
    "log": lambda a, b: cp.log(cp.abs(a) + 0.3),
    "log1p": lambda a, b: cp.log1p(cp.abs(a)),
    "logistic": lambda a, b: cp.logistic(a),
    "huber": lambda a, b: cp.huber(a, 0.6),
    "entropy": lambda a, b: cp.entr(cp.abs(a) + 0.1),
    "relative entropy": lambda a, b: cp.rel_entr(cp.abs(a) + 0.2, cp.abs(b) + 0.3),
    "divergence": lambda a, b: cp.kl_div(cp.abs(a) + 0.2, cp.abs(b) + 0.3),
    "xexp": lambda a, b: cp.xexp(0.2 * cp.abs(a)),
    "maximum": lambda a, b: cp.maximum(a, b, 0.1),
    "minimum": cp.minimum,
    "cumulative sum": lambda a, b: cp.cumsum(a),
    "cumulative maximum": lambda a, b: cp.cummax(a),
    "moved": lambda a, b: cp.hstack([a[1:], b[0]]),
    "convolution": lambda a, b: cp.convolve(np.array([1.0, -1.0]), a)[:3],
    "norms of rows": lambda a, b: cp.norm(cp.vstack([a, b, a - b]), 2, axis=1),
}
NUMBERS = {
    "total": lambda a, b: cp.sum(a),
    "norm 1": lambda a, b: cp.norm1(a),
    "norm 2": lambda a, b: cp.norm(a, 2),
    "norm 3": lambda a, b: cp.pnorm(a, 3),
    "norm 1.5": lambda a, b: cp.pnorm(a, 1.5),
    "norm inf": lambda a, b: cp.norm_inf(a),
    "largest": lambda a, b: cp.max(a),
    "smallest": lambda a, b: cp.min(a),
    "largest two": lambda a, b: cp.sum_largest(a, 2),
    "sorted": lambda a, b: cp.dotsort(a, [-1.0, 0.3, 2.0]),
    "log-sum-exp": lambda a, b: cp.log_sum_exp(a),
    "sum of squares": lambda a, b: cp.sum_squares(a),
    "over": lambda a, b: cp.quad_over_lin(a, cp.abs(b[0]) + 0.5),
    "quadratic form": lambda a, b: cp.quad_form(a, MATRIX @ MATRIX.T),
    "geometric mean": lambda a, b: cp.geo_mean(cp.abs(a) + 0.1),
    "eigenvalue": lambda a, b: cp.lambda_max(cp.diag(a) + 0.3 * (MATRIX + MATRIX.T)),
    "singular value": lambda a, b: cp.sigma_max(cp.vstack([a, 2 * a[::-1]])),
    "nuclear norm": lambda a, b: cp.normNuc(cp.vstack([a, b])),
    "determinant": lambda a, b: cp.log_det(cp.diag(cp.abs(a) + 1)),
    "trace of inverse": lambda a, b: cp.tr_inv(cp.diag(cp.abs(a) + 1)),
    "fraction": lambda a, b: cp.matrix_frac(a, cp.diag(cp.abs(b) + 1)),
}


def expression(random, x, p):
    """A composition of up to four vectors, and perhaps a number at the end."""
    pool = [x, x, p, x - p]
    for _ in range(int(random.integers(0, 5))):
        a, b = pool[-1], pool[int(random.integers(len(pool)))]
        pool.append(VECTORS[str(random.choice(list(VECTORS)))](a, b))
    if random.integers(4):
        a, b = pool[-1], pool[int(random.integers(len(pool)))]
        return NUMBERS[str(random.choice(list(NUMBERS)))](a, b)
    return pool[-1]
