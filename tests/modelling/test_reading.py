"""Models as people write them: problems, gains, nested lists, cones, bounds by parameters, sparse
constants."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest
from model_helpers import excess, rng_of
from scipy import sparse

import taut

pytestmark = pytest.mark.usefixtures("compile_quickly")


def test_a_problem_is_its_objective_and_constraints():
    x, c = cp.Variable(2, name="x"), cp.Parameter(2, name="c", bounds=[-1, 1])
    loss, box = cp.sum_squares(x - c), [[x >= -1], [x <= 1, [cp.sum(x) <= 1]]]
    wanted = taut.from_cvxpy(loss, [x >= -1, x <= 1, cp.sum(x) <= 1])
    z = (np.array([0.5, -1.0]),)
    for model in (
        taut.from_cvxpy(cp.Problem(cp.Minimize(loss), [x >= -1, x <= 1, cp.sum(x) <= 1])),
        taut.from_cvxpy(cp.Problem(cp.Maximize(-loss), [x >= -1, x <= 1]), [cp.sum(x) <= 1]),
        taut.from_cvxpy(cp.Maximize(-loss), box),
        taut.from_cvxpy(loss, (one for one in [*box, True, np.True_])),
    ):
        np.testing.assert_array_equal(model.domain.lower, wanted.domain.lower)
        point = np.array([0.3, 0.9])
        assert model.loss(point, z) == pytest.approx(wanted.loss(point, z))
        np.testing.assert_allclose(excess(model, point), excess(wanted, point))


def test_what_is_no_model_is_refused():
    x = cp.Variable(2, name="x")
    with pytest.raises(
        ValueError, match="constraints: got False, a comparison of numbers that does not hold"
    ):
        taut.from_cvxpy(cp.sum_squares(x), [x <= 1, [False]])
    with pytest.raises(
        TypeError, match=r"loss: got list; expected a CVXPY expression or a cp\.Problem"
    ):
        taut.from_cvxpy([cp.sum_squares(x)])


def cones():
    x = cp.Variable(3, name="x", bounds=[0.5, 2])
    return {
        "exponential": (
            x,
            lambda v: v[1] * np.exp(v[0] / v[1]) - v[2],
            [cp.ExpCone(x[0], x[1], 4 * x[2])],
            4.0,
        ),
        "power": (
            x,
            lambda v: abs(v[2]) - v[0] ** 0.3 * v[1] ** 0.7,
            [cp.PowCone3D(x[0], x[1], x[2], 0.3)],
            1.0,
        ),
        "power of several": (
            x,
            lambda v: abs(v[2] - 0.5) - np.prod(v ** [0.2, 0.3, 0.5]),
            [cp.PowConeND(x, x[2] - 0.5, np.array([0.2, 0.3, 0.5]))],
            1.0,
        ),
        "second order": (x, lambda v: np.linalg.norm(v[:2]) - v[2], [cp.SOC(x[2], x[:2])], 1.0),
    }


@pytest.mark.parametrize("name", cones())
def test_cones_are_what_they_say(name):
    x, value, constraints, scale = cones()[name]
    c = cp.Parameter(3, name="c", bounds=[-1, 1])
    model = taut.from_cvxpy(c @ x, constraints)
    random = rng_of(3)
    for point in random.uniform(model.domain.lower, model.domain.upper, (40, 3)):
        scaled = point * [1, 1, scale]
        assert (excess(model, point).max() <= 0) == (value(scaled) <= 0)
    data = random.uniform(-1, 1, (5, 3))
    best = taut.hindsight(model, data)
    solved = cp.Problem(cp.Minimize(data.sum(axis=0) @ x), [*constraints, x >= 0.5, x <= 2])
    assert best.loss[0] == pytest.approx(solved.solve(), abs=1e-6)


def test_rows_of_several_power_cones():
    x, y, z = (cp.Variable(2, name=name, bounds=[0.5, 2]) for name in "xyz")
    model = taut.from_cvxpy(cp.sum(x + y - z), [cp.PowCone3D(x, y, z, np.array([0.25, 0.5]))])
    point = rng_of(5).uniform(0.5, 2, 6)
    a, b, c = point.reshape(3, 2)
    np.testing.assert_allclose(
        excess(model, point), c - a ** [0.25, 0.5] * b ** [0.75, 0.5], atol=1e-12
    )


def test_bounds_that_are_parameters_are_constraints():
    limit = cp.Parameter(2, name="limit", bounds=[0.5, 2])
    x = cp.Variable(2, name="x", bounds=[0, limit])
    model = taut.from_cvxpy(-cp.sum(x), [x <= 2])
    assert [p.name() for p in model.parameters] == ["limit"]
    np.testing.assert_array_equal(model.domain.lower, [0, 0])
    best = taut.hindsight(model, {limit: np.array([[1.0, 0.5], [0.75, 2.0]])})
    np.testing.assert_allclose(best.decision[0], [0.75, 0.5], atol=1e-6)
    limit.value = [1.0, 1.5]
    np.testing.assert_allclose(taut.from_cvxpy(-cp.sum(x)).domain.upper, [1.0, 1.5])


def test_sparse_constants():
    x, c = cp.Variable(3, name="x", bounds=[-1, 1]), cp.Parameter(4, name="c", bounds=[-1, 1])
    matrix = sparse.random(4, 3, 0.5, random_state=1, format="csr")
    rows = sparse.coo_array(np.eye(3))
    made = [
        taut.from_cvxpy(cp.sum_squares(a @ x - c) + cp.quad_form(x, b), [b @ x <= 0.5])
        for a, b in ((matrix, rows), (matrix.toarray(), rows.toarray()))
    ]
    point, z = np.array([0.2, -0.4, 0.9]), (np.array([0.1, 0.2, -0.3, 1.0]),)
    assert made[0].loss(point, z) == pytest.approx(float(made[1].loss(point, z)))
    np.testing.assert_allclose(excess(made[0], point), excess(made[1], point))
    assert made[0].constants == made[1].constants
