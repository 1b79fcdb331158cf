"""Variables that are chosen after the data are minimised out exactly, or the model is refused with a question."""

from __future__ import annotations

import cvxpy as cp
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import taut

pytestmark = pytest.mark.usefixtures("compile_quickly")

RANDOM = np.random.default_rng(8)
A = RANDOM.normal(size=(3, 2))
x = cp.Variable(2, name="x", bounds=[-1, 1])
c = cp.Parameter(2, name="c", bounds=[-1, 1])
d = cp.Parameter(3, name="d", bounds=[-1, 1])
w = cp.Parameter(3, name="w", bounds=[0, 1], nonneg=True)
t, u = cp.Variable(name="t"), cp.Variable(3, name="u")
p, n = cp.Variable(3, name="p", nonneg=True), cp.Variable(3, name="n", nonneg=True)
y = cp.Variable(3, name="y")

FORMS = {
    "epigraph": (t + x[0], [t >= c @ x - 1, t >= 1 - c @ x], [t]),
    "norm": (2 * t, [cp.norm(x - c) <= t], [t]),
    "hinge": (w @ u + cp.sum_squares(x), [u >= 0, u >= A @ x - d], [u]),
    "squared hinge": (cp.sum_squares(p), [p >= A @ x - d], [p]),
    "entries": (cp.sum(u), [*(2 * u[i] >= d[i] - x[0] for i in range(3)), u >= -0.5], [u]),
    "two parts": (w @ p + 2 * cp.sum(n) + x[0], [p - n == A @ x - d], [p, n]),
    "defined": (cp.norm(y) + t, [2 * y == A @ x - d, t >= cp.sum(y), t >= 0], [y, t]),
    "from above": (cp.sum_squares(x) - cp.sum(y), [y <= A @ x, y <= d], [y]),
}


def best_of_the_round(loss, constraints, point, data):
    """CVXPY's optimal value when the decision is fixed."""
    c.value, d.value, w.value = data
    value = cp.Problem(cp.Minimize(loss), [*constraints, x == point]).solve(solver=cp.CLARABEL)
    c.value = d.value = w.value = None
    return value


@pytest.mark.parametrize("name", FORMS)
def test_the_loss_is_the_optimal_value_of_the_round(name):
    loss, constraints, after = FORMS[name]
    model = taut.from_cvxpy(loss, [*constraints, taut.recourse(*after)])
    assert [variable.name() for variable in model.variables] == ["x"]
    everything = (RANDOM.uniform(-1, 1, 2), RANDOM.uniform(-1, 1, 3), RANDOM.uniform(0, 1, 3))
    z = tuple(everything["cdw".index(parameter.name())] for parameter in model.parameters)
    for point in RANDOM.uniform(-0.9, 0.9, (2, 2)):
        value, slope = jax.value_and_grad(model.loss)(jnp.asarray(point), z)
        assert float(value) == pytest.approx(best_of_the_round(loss, constraints, point, everything), abs=1e-6)
        for i, step in enumerate(1e-5 * np.eye(2)):  # the envelope theorem
            ends = [float(model.loss(jnp.asarray(point + s * step), z)) for s in (1, -1)]
            assert float(slope[i]) == pytest.approx((ends[0] - ends[1]) / 2e-5, abs=1e-5)
    found = model.recourse_values(point, z)
    assert set(found) == {variable.name() for variable in after}
    x.value, c.value, d.value, w.value = point, *everything
    for variable in after:
        variable.save_value(found[variable.name()])
    assert max(np.max(np.asarray(one.violation())) for one in constraints) < 1e-9
    assert float(loss.value) == pytest.approx(float(value), abs=1e-9)
    c.value = d.value = w.value = None


def test_hindsight_is_that_of_the_loss_written_without_the_variable():
    data = RANDOM.uniform(-1, 1, (12, 2))
    auxiliary = taut.from_cvxpy(t, [t >= c @ x - 1, t >= 1 - c @ x])  # nothing else bounds t: found without a mark
    plain = taut.from_cvxpy(cp.abs(c @ x - 1))
    assert any(note.startswith("t: chosen after the data") for note in auxiliary.notes)
    assert taut.hindsight(auxiliary, data).loss[0] == pytest.approx(taut.hindsight(plain, data).loss[0], rel=1e-8)
    assert auxiliary.constants.loss_lipschitz == pytest.approx(plain.constants.loss_lipschitz, rel=1e-6)


def test_limits_of_a_recourse_variable_are_constraints_on_the_decision():
    model = taut.from_cvxpy(cp.sum(u), [u >= A @ x - d, u >= 0, cp.sum(u) <= 1], recourse=["u"])
    assert model.count == 1
    value = model.written.values(jnp.array([1.0, -1.0]), (np.full(3, -1.0),))
    np.testing.assert_allclose(value, [np.maximum(A @ [1, -1] + 1, 0).sum() - 1])


def test_open_questions_are_asked():
    bounded = cp.Variable(name="b", bounds=[0, 9])
    constraints = [bounded >= c @ x - 1, bounded >= 1 - c @ x]
    with pytest.raises(ValueError, match=r"variable b: .* is it decided before the data .* Pass recourse=\[\]"):
        taut.from_cvxpy(bounded, constraints)
    before = taut.from_cvxpy(bounded, constraints, recourse=[])
    assert [v.name() for v in before.variables] == ["x", "b"]
    after = taut.from_cvxpy(bounded, constraints, recourse=bounded)
    assert [v.name() for v in after.variables] == ["x"]
    for loss, rows in (
        (cp.abs(c @ x - 1) + bounded, []),
        (bounded + c @ x, [cp.norm(x) <= bounded, c @ x <= bounded]),  # held together by a constraint that stays
        (cp.square(bounded - 4) + c @ x, [c @ x <= bounded]),  # not monotone
    ):
        assert "b" in [v.name() for v in taut.from_cvxpy(loss, rows).variables]


def test_what_cannot_be_minimised_out_is_refused():
    for loss, rows, after, message in (
        (cp.sum(cp.abs(y)), [y <= A @ x, y >= d], [y], "y is not bounded from the side"),
        (-t + x[0], [t >= c @ x], [t], "t is not bounded"),
        (cp.sum(y), [y[0] == x[0], y >= 0], [y], "do not define all of its 3 entries"),
        (cp.sum(x), [x <= 1], [x], "x is not bounded|all variables"),
    ):
        with pytest.raises(ValueError, match=message):
            taut.from_cvxpy(loss, [*rows, taut.recourse(*after)])
    with pytest.raises(TypeError, match="recourse: got 3; expected CVXPY variables"):
        taut.recourse(3)
    with pytest.raises(ValueError, match="recourse: got nothing; expected variables of the model: x"):
        taut.from_cvxpy(cp.sum(x), recourse=["nothing"])
