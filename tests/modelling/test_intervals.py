"""Bounds by interval arithmetic are never exceeded: atom by atom against CVXPY, and as constants of
models."""

from __future__ import annotations

import cvxpy as cp
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cvxpy.atoms.affine.wraps import hermitian_wrap
from model_helpers import rng_of

import taut
from taut.modelling.constants.interval_bounds import Box, Intervals, least_upper
from taut.modelling.constants.interval_rules import RULES
from taut.modelling.translation.atoms.table import SUPPORTED
from taut.problem.domains.support import bounding_box

pytestmark = pytest.mark.usefixtures("compile_quickly")

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
        span = Intervals(Leaves([x, m], [p]), Box(low, high, 12)).of(one)
        assert span.low.shape == one.shape
        for k in range(30):
            mix = random.uniform(size=15)
            point = low + (high - low) * (np.round(mix) if k % 2 else mix)
            x.value, m.value, p.value = point[:3], point[3:12].reshape(3, 3), point[12:]
            value = np.asarray(one.value, float).reshape(one.shape)
            room = 1e-9 * (1 + np.abs(value).max())
            assert np.all(value >= span.low - room)
            assert np.all(value <= span.high + room)
            slopes = _gradient(one, x, m)
            assert np.all(slopes >= span.down - 1e-7)
            assert np.all(slopes <= span.up + 1e-7)
            assert np.all(np.linalg.norm(slopes, axis=1) <= span.steep * (1 + 1e-7) + 1e-7)


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
    span = Intervals(Leaves([x], [p]), Box(low, high, 2)).of(cp.sum_squares(x + p))
    assert float(span.low) == 4.0  # x = p = 0 in the first entry, 0 + 2 in the second
    assert float(span.high) == 4 + 25
    np.testing.assert_array_equal(span.up, [[4, 10]])
    assert span.steep[0] == pytest.approx(np.hypot(4, 10))


def test_dividing_the_box_improves_a_loose_bound():
    box = Box(np.array([-1.0]), np.array([1.0]), 1)

    def bound(part):  # of x (x - 1) with each factor bounded apart, at most 2 in truth
        ends = [
            a * b for a in (part.low[0], part.high[0]) for b in (part.low[0] - 1, part.high[0] - 1)
        ]
        return max(ends)

    def loose(part):
        return bound(part) + 3 * (part.high[0] - part.low[0])

    assert loose(box) == 8.0
    assert 2.0 <= least_upper(loose, box, 2.0) <= 2.0 * 1.2
    assert least_upper(lambda part: 1.0, box, 2.0) == 2.0  # never below what is attained


def test_a_range_is_a_difference_of_decisions_which_may_be_in_different_parts_of_the_box():
    box = Box(np.array([-1.0, 0.0]), np.array([1.0, 3.0]), 1)  # a decision and a number of the data

    def bound(part):  # on x z - y z, twice too large
        return 2 * (part.high[0] - part.low[0]) * part.high[1]

    assert least_upper(bound, box, 6.0) < 6.5  # wrong: two decisions of the same part
    assert least_upper(bound, box, 6.0, data_only=True) == 12.0


def models():
    x, r = cp.Variable(3, name="x", bounds=[-1, 1]), rng_of(3)
    f, g = cp.Parameter((4, 3), name="f", bounds=[-3, 3]), cp.Parameter(4, name="g", bounds=[-5, 5])
    a = r.normal(size=(4, 3))
    w, m = cp.Variable(3, name="w", nonneg=True), cp.Variable((2, 2), name="m", symmetric=True)
    s, prices = (
        cp.Parameter((2, 2), name="s", symmetric=True, bounds=[-1, 1]),
        cp.Parameter(3, name="r", bounds=[-0.3, 0.3]),
    )
    return {
        "least squares, all data": (cp.sum_squares(f @ x - g), [cp.sum(x) <= 1]),
        "logistic": (cp.sum(cp.logistic(f @ x)), [cp.norm(x) <= 1]),
        "robust": (cp.sum(cp.huber(a @ x - g)) + 0.1 * cp.norm1(x), [cp.norm(a @ x - g[0]) <= 9]),
        "Kelly": (-cp.log(1 + prices @ w), [cp.sum(w) <= 1]),
        "quantiles": (
            cp.sum(cp.maximum(0.9 * (g[:3] - x), 0.1 * (x - g[:3]))),
            [cp.log_sum_exp(x) <= 1.5],
        ),
        "matrices": (
            cp.trace(s @ m) + cp.lambda_max(m - s),
            [cp.norm(m, "fro") <= 1, cp.sigma_max(m) <= 0.8],
        ),
    }


@pytest.mark.parametrize("name", models())
def test_constants_of_models_are_never_exceeded(name):
    loss, constraints = models()[name]
    model = taut.from_cvxpy(loss, constraints, "box")
    known, random = model.constants, rng_of(4)
    assert not known.estimated & {
        "loss_lipschitz",
        "loss_range",
        "constraint_lipschitz",
        "constraint_range",
    }
    low, high = bounding_box(model.domain)
    mix = random.uniform(size=(1000, model.size))
    mix[::2] = np.round(mix[::2])
    decisions = (low + mix * (high - low)).reshape(1000, *model.domain.shape)
    data = []
    for parameter in model.parameters:
        edges = parameter.attributes["bounds"]
        drawn = random.uniform(size=(1000, *parameter.shape))
        drawn[::3] = np.round(drawn[::3])
        drawn = edges[0] + drawn * (edges[1] - edges[0])
        data.append(
            (drawn + np.swapaxes(drawn, 1, 2)) / 2 if parameter.attributes["symmetric"] else drawn
        )

    def seen(x, y, *z):
        rows = jax.jacrev(model.constraints.values)(x, z)
        return (
            jnp.linalg.norm(jax.grad(model.loss)(x, z)),
            jnp.abs(model.loss(x, z) - model.loss(y, z)),
            jnp.max(jnp.linalg.norm(rows.reshape(rows.shape[0], -1), axis=1)),
            jnp.max(jnp.abs(model.constraints.values(x, z))),
        )

    measured = jax.jit(jax.vmap(seen))(decisions, decisions[::-1], *data)
    for constant, numbers in zip(
        ("loss_lipschitz", "loss_range", "constraint_lipschitz", "constraint_range"),
        measured,
        strict=True,
    ):
        assert float(jnp.max(numbers)) <= getattr(known, constant) * (1 + 1e-9), constant
        assert getattr(known, constant) <= 4 * float(jnp.max(numbers)), (
            constant
        )  # and not far above


def test_affine_functions_are_bounded_over_the_simplex_itself():
    b, r = cp.Variable(3, name="b"), cp.Parameter(3, name="r", bounds=[0.5, 2])
    known = taut.from_cvxpy(-cp.log(r @ b), [cp.sum(b) == 1, b >= 0]).constants
    assert not known.estimated
    assert known.loss_range == pytest.approx(
        np.log(4)
    )  # r @ b is between 0.5 and 2; over the box it is not above 0
    assert np.sqrt(8.25) / 0.5 <= known.loss_lipschitz <= 1.1 * np.sqrt(8.25) / 0.5


def test_a_loose_bound_is_noted_and_a_guess_stays_an_estimate():
    x, f = cp.Variable(5, name="x", bounds=[-1, 1]), cp.Parameter((9, 5), name="f", bounds=[-3, 3])
    notes = taut.from_cvxpy(cp.sum(cp.square(f @ x)), [cp.sum(x) <= 1]).notes
    assert any(
        note.startswith("loss_lipschitz: ") and "upper bound by interval arithmetic" in note
        for note in notes
    )
    c = cp.Parameter(5, name="c")
    assert "loss_lipschitz" in taut.from_cvxpy(cp.logistic(c @ x)).constants.estimated


def test_strong_convexity_is_not_taken_from_data_that_happen_to_bend():
    x, f = cp.Variable(2, name="x", bounds=[-1, 1]), cp.Parameter((4, 2), name="f", bounds=[-1, 1])
    assert (
        taut.from_cvxpy(cp.sum_squares(f @ x)).constants.strong_convexity == 0
    )  # f = 0 is admissible
