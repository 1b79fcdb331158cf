"""Enclosures of CVXPY's atoms: values and gradients by CVXPY stay within them."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest
from cvxpy.atoms.affine.wraps import hermitian_wrap

from cvxpy_atoms import SUPPORTED
from taut.intervals.constants import Edges
from taut.intervals.of_cvxpy import RULES
from taut.modelling.constants.enclosures import enclosures


def rng_of(*seed):
    return np.random.default_rng(seed)


MATRIX = rng_of(1).normal(size=(3, 3))


class Leaves:
    """The part of a model that intervals ask for."""

    def __init__(self, variables, parameters):
        self.parameters, self.spans, start = parameters, {}, 0
        for variable in variables:
            self.spans[variable.id] = slice(start, start + variable.size)
            start += variable.size


def expressions(x, m, p):
    """Expressions of a vector x and a matrix m, both in [0.2, 1.5], and data p in [-1, 2]."""
    signed = MATRIX @ x - p
    definite = (m + m.T) / 2 + 9 * np.eye(3)
    return {
        "MatrixFrac": cp.matrix_frac(signed, definite),
        "MatrixFrac of matrices": cp.matrix_frac(m - 1, definite),
        "Trace": cp.trace(MATRIX @ m),
        "dotsort": cp.dotsort(signed, [-1.0, 0.5]),
        "imag": cp.imag(signed),
        "lambda_sum_largest": cp.lambda_sum_largest(m + m.T - 2, 2),
        "log_det": cp.log_det(definite),
        "tr_inv": cp.tr_inv(definite),
        "von_neumann_entr": cp.von_neumann_entr(hermitian_wrap(definite)),
        "AddExpression": x + p - 1,
        "Concatenate": cp.concatenate([x, signed]),
        "DivExpression": signed / 2.5,
        "GeoMean": cp.geo_mean(x, [0.2, 0.3, 0.5], approx=False),
        "GeoMeanApprox": cp.geo_mean(x, [1, 2, 1]),
        "Hstack": cp.hstack([x, signed]),
        "MulExpression": cp.multiply(p, x) @ np.ones(3) + p @ x,
        "MulExpression of matrices": MATRIX @ m @ MATRIX,
        "NegExpression": -signed,
        "Pnorm": cp.pnorm(signed, 2),
        "PnormApprox": cp.pnorm(signed, 3),
        "Pnorm below 2": cp.pnorm(signed, 1.5),
        "Pnorm of rows": cp.norm(m - 1, 2, axis=1),
        "Power": cp.power(x, 3),
        "Power that falls": cp.power(x, -1.5),
        "Power below 1": cp.power(x, 0.5),
        "Power of any sign": cp.square(signed),
        "QuadForm": cp.quad_form(signed, MATRIX @ MATRIX.T),
        "Sum": cp.sum(m, axis=0),
        "Vstack": cp.vstack([x, signed]),
        "abs": cp.abs(signed),
        "convolve": cp.convolve(np.array([1.0, -2.0]), x),
        "cummax": cp.cummax(signed),
        "cumsum": cp.cumsum(m - 1, axis=1),
        "diag_mat": cp.diag(m),
        "diag_vec": cp.diag(x),
        "entr": cp.entr(x),
        "exp": cp.exp(signed),
        "huber": cp.huber(signed, 0.7),
        "index": m[1:, ::2],
        "kl_div": cp.kl_div(x, m[0]),
        "kron": cp.kron(MATRIX[:2, :2], m),
        "lambda_max": cp.lambda_max(m + m.T - 2),
        "log": cp.log(x),
        "log1p": cp.log1p(x),
        "log_sum_exp": cp.log_sum_exp(signed),
        "logistic": cp.logistic(signed),
        "max": cp.max(signed),
        "maximum": cp.maximum(signed, x, 0.5),
        "min": cp.min(signed),
        "minimum": cp.minimum(signed, x),
        "multiply": cp.multiply(p, x),
        "norm1": cp.norm1(signed),
        "normNuc": cp.normNuc(m - 1),
        "norm_inf": cp.norm_inf(signed),
        "quad_over_lin": cp.quad_over_lin(signed, x[0] + 1),
        "rel_entr": cp.rel_entr(x, m[0]),
        "reshape": cp.reshape(m, (9,), order="F"),
        "sigma_max": cp.sigma_max(m - 1),
        "special_index": m[[0, 2], [1, 2]],
        "sum_largest": cp.sum_largest(signed, 2),
        "transpose": m.T,
        "upper_tri": cp.upper_tri(m),
        "xexp": cp.xexp(x),
    }


NAMES = list(expressions(cp.Variable(3), cp.Variable((3, 3)), cp.Parameter(3)))


def test_every_rule_is_tested_and_every_atom_has_a_rule():
    assert {kind.__name__ for kind in SUPPORTED} - set(RULES) == {
        "perspective"
    }  # which needs more than its arguments
    wraps = {name for name in RULES if name.endswith("wrap")} | {
        "Wrap",
        "Promote",
        "broadcast_to",
        "conj",
        "real",
        "conv",
    }
    assert set(RULES) - {name.split(" ")[0] for name in NAMES} - wraps == {"PowerApprox"}


@pytest.mark.parametrize("name", NAMES)
def test_values_and_gradients_stay_within_their_bounds(name):
    x, m, p = cp.Variable(3), cp.Variable((3, 3)), cp.Parameter(3)
    one = expressions(x, m, p)[name]
    random = rng_of(2, NAMES.index(name))
    for width in (1.0, 0.1):
        low = np.concatenate([np.full(12, 0.2), np.full(3, -1.0)])
        high = np.concatenate([np.full(12, 1.5), np.full(3, 2.0)])
        middle, half = random.uniform(low, high), width * random.uniform(0.2, 1, 15) * (high - low)
        low, high = np.maximum(middle - half, low), np.minimum(middle + half, high)
        bounds = enclosures(Leaves([x, m], [p]), Edges(low, high, 12)).of(one)
        assert bounds.shape == one.shape
        down, up = (edge.reshape(-1, 12) for edge in (bounds.gradient.low, bounds.gradient.high))
        for k in range(30):
            mix = random.uniform(size=15)
            point = low + (high - low) * (np.round(mix) if k % 2 else mix)
            x.value, m.value, p.value = point[:3], point[3:12].reshape(3, 3), point[12:]
            value = np.asarray(one.value, float).reshape(one.shape)
            room = 1e-9 * (1 + np.abs(value).max())
            assert np.all(value >= bounds.low - room)
            assert np.all(value <= bounds.high + room)
            slopes = _gradient(one, x, m)
            assert np.all(slopes >= down - 1e-7)
            assert np.all(slopes <= up + 1e-7)
            assert np.all(
                np.linalg.norm(slopes, axis=1) <= np.ravel(bounds.steep) * (1 + 1e-7) + 1e-7
            )


def _gradient(one, x, m):
    """CVXPY's own gradient, (entry in row order, entry of x and m in row order); CVXPY counts in
    column order."""
    rows = np.zeros((one.size, 12))
    turn = (
        np.arange(one.size).reshape(one.shape, order="F").ravel() if one.shape else np.zeros(1, int)
    )
    try:
        found = one.grad
    except (
        NotImplementedError,
        ValueError,
    ):  # CVXPY has no gradient of norm_inf, and a wrong one of cummax
        return _differences(one, x, m)
    for variable, places in (
        (x, np.arange(3)),
        (m, np.arange(3, 12).reshape(3, 3).ravel(order="F")),
    ):
        if variable in found:
            grad = found[variable]
            dense = np.asarray(grad.toarray() if hasattr(grad, "toarray") else grad, float).reshape(
                variable.size, -1
            )
            rows[:, places] = dense.T[turn]
    return rows


def _differences(one, x, m, step=1e-6):
    columns = []
    for variable in (x, m):
        here = variable.value
        for unit in np.eye(variable.size).reshape(-1, *variable.shape):
            ends = []
            for sign in (1, -1):
                variable.value = here + sign * step * unit
                ends.append(np.ravel(one.value))
            columns.append((ends[0] - ends[1]) / (2 * step))
        variable.value = here
    return np.stack(columns, axis=1)


def test_the_bound_of_a_monotone_function_is_attained():
    x, p = cp.Variable(2), cp.Parameter(2)
    low, high = np.array([-1.0, 0, -1, 2]), np.array([1.0, 2, 1, 3])
    bounds = enclosures(Leaves([x], [p]), Edges(low, high, 2)).of(cp.sum_squares(x + p))
    assert float(bounds.low) == 4.0  # x = p = 0 in the first entry, 0 + 2 in the second
    assert float(bounds.high) == 4 + 25
    np.testing.assert_array_equal(bounds.slopes.high, [4, 10])
    assert bounds.steep == pytest.approx(np.hypot(4, 10))


@pytest.mark.parametrize("edge", [-1.0, 0.0])
def test_what_cvxpy_returns_at_a_kink_on_the_edge_is_a_slope(edge):
    x = cp.Variable()
    for expression in (cp.abs(x), cp.maximum(x, -3 * x), cp.huber(x, 0.5)):
        box = Edges(np.array([edge]), np.array([edge + 1]), 1)
        bounds = enclosures(Leaves([x], []), box).of(expression)
        x.value = 0.0
        gradient = float(expression.grad[x])
        assert bounds.slopes.low <= gradient <= bounds.slopes.high
