"""Variables that are chosen after the data are minimised out exactly, or the model is refused with
a question."""

from __future__ import annotations

import cvxpy as cp
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import taut
from taut.modelling.recourse.inner_minimum import InnerMinimum
from taut.modelling.recourse.joint_recourse import minimised_jointly
from without_compiling import in_numpy

pytestmark = pytest.mark.usefixtures("compile_quickly")

RANDOM = np.random.default_rng(8)
A = RANDOM.normal(size=(3, 2))
x = cp.Variable(2, name="x", bounds=[-1, 1])
c = cp.Parameter(2, name="c", bounds=[-1, 1])
d = cp.Parameter(3, name="d", bounds=[-1, 1])
w = cp.Parameter(3, name="w", bounds=[0, 1], nonneg=True)
t, u = cp.Variable(name="t"), cp.Variable(3, name="u")
p, n = cp.Variable(3, name="p", nonneg=True), cp.Variable(3, name="n", nonneg=True)
y, b = cp.Variable(3, name="y"), cp.Variable(3, name="b", bounds=[0, 2])
Q = np.array([[1.0, 0.5], [0.5, 0.4]])

FORMS = {
    "epigraph": (t + x[0], [t >= c @ x - 1, t >= 1 - c @ x], [t]),
    "norm": (2 * t, [cp.norm(x - c) <= t], [t]),
    "hinge": (w @ u + cp.sum_squares(x), [u >= 0, u >= A @ x - d], [u]),
    "squared hinge": (cp.sum_squares(p), [p >= A @ x - d], [p]),
    "entries": (cp.sum(u), [*(2 * u[i] >= d[i] - x[0] for i in range(3)), u >= -0.5], [u]),
    "two parts": (w @ p + 2 * cp.sum(n) + x[0], [p - n == A @ x - d], [p, n]),
    "defined": (cp.norm(y) + t, [2 * y == A @ x - d, t >= cp.sum(y), t >= 0], [y, t]),
    "from above": (cp.sum_squares(x) - cp.sum(y), [y <= A @ x, y <= d], [y]),
    # Programs of several variables that are solved together.
    "units": (
        2 * b[0] + 3 * b[1] + 9 * b[2] + x[0],
        [cp.sum(b) >= 2 + c @ x, b[0] <= 1 + x[1], b[1] <= 1 + d[0]],
        [b],
    ),
    "piecewise": (cp.sum(cp.abs(y)) + cp.norm_inf(y - 1), [y <= A @ x + 4, cp.sum(y) >= d[0]], [y]),
    "flows": (
        np.array([1.0, 2.0, 1.5]) @ p + 5 * cp.sum(n),  # the last equation is the sum of the others
        [
            p[0] + p[1] + n[0] == 2 + x[0],
            p[2] - p[0] == n[1] - d[1] - 1,
            n[0] - n[1] + p[1] + p[2] == 1 + x[0] - d[1],
        ],
        [p, n],
    ),
    "entries alike": (cp.sum(b) + 3 * cp.sum(p), [b + p >= A @ x - d + 1], [b, p]),
    "quadratic": (
        w[0] * b[0] + cp.sum_squares(b[0] - x[0]) + cp.quad_form(b[1:], Q) + 4 * t,
        [cp.sum(b) + t >= 2 + c @ x, t >= 0],
        [b, t],
    ),
}


def best_of_the_round(loss, constraints, point, data):
    """CVXPY's optimal value when the decision is fixed."""
    c.value, d.value, w.value = data
    exact = dict.fromkeys(("tol_gap_abs", "tol_gap_rel", "tol_feas"), 1e-12)
    value = cp.Problem(cp.Minimize(loss), [*constraints, x == point]).solve(
        solver=cp.CLARABEL, **exact
    )
    c.value = d.value = w.value = None
    return value


@pytest.mark.parametrize("name", FORMS)
def test_the_loss_is_the_optimal_value_of_the_round(name):
    loss, constraints, after = FORMS[name]
    model = taut.from_cvxpy(loss, [*constraints, taut.recourse(*after)])
    assert [variable.name() for variable in model.variables] == ["x"]
    everything = (RANDOM.uniform(-1, 1, 2), RANDOM.uniform(-1, 1, 3), RANDOM.uniform(0, 1, 3))
    z = tuple(everything["cdw".index(parameter.name())] for parameter in model.parameters)
    graded = in_numpy(jax.value_and_grad(model.loss))
    for point in RANDOM.uniform(-0.9, 0.9, (2, 2)):
        value, slope = graded(jnp.asarray(point), z)
        assert float(value) == pytest.approx(
            best_of_the_round(loss, constraints, point, everything), rel=1e-9, abs=1e-9
        )
        for i, step in enumerate(1e-5 * np.eye(2)):  # the envelope theorem
            ends = [float(graded(jnp.asarray(point + s * step), z)[0]) for s in (1, -1)]
            assert float(slope[i]) == pytest.approx((ends[0] - ends[1]) / 2e-5, abs=1e-5)
    found = model.recourse_values(point, z)
    assert set(found) == {variable.name() for variable in after}
    x.value, c.value, d.value, w.value = point, *everything
    for variable in after:
        variable.save_value(found[variable.name()])
    close = 1e-9 if model.after.program is None else 1e-6  # CVXPY's own tolerance
    assert max(np.max(np.asarray(one.violation())) for one in constraints) < close
    assert float(loss.value) == pytest.approx(float(value), abs=close)
    c.value = d.value = w.value = None


def test_a_program_reads_losses_that_are_quadratic_in_parts():
    """Without compiling: the value of the expression that replaces the loss, which Clarabel
    solves."""
    loss = cp.huber(t - d[0], 0.5) + cp.sum(b) + cp.square(cp.pos(t + x[0]))
    constraints = [t + b[0] >= c @ x, cp.abs(t) <= 1, b[1:] >= x[0]]
    bounds = [b >= 0, b <= 2]
    joint = minimised_jointly(loss, constraints, [t, b], {})
    for atom in (part for part in joint.loss.args if isinstance(part, InnerMinimum)):
        edge = np.full(sum(arg.shape[1] for arg in atom.args), 3.0)
        atom.inner.prepare(-edge, edge)
    for everything in RANDOM.uniform(0, 1, (3, 8)):
        point, data = (
            2 * everything[:2] - 1,
            (2 * everything[2:4] - 1, 2 * everything[4:7] - 1, everything[5:]),
        )
        wanted = best_of_the_round(loss, [*constraints, *bounds], point, data)
        x.value, c.value, d.value = point, *data[:2]
        assert float(joint.loss.value) == pytest.approx(wanted, rel=1e-8, abs=1e-8)
        x.value = c.value = d.value = None


def test_hindsight_is_that_of_the_loss_written_without_the_variable():
    data = RANDOM.uniform(-1, 1, (12, 2))
    auxiliary = taut.from_cvxpy(
        t, [t >= c @ x - 1, t >= 1 - c @ x]
    )  # nothing else bounds t: found without a mark
    plain = taut.from_cvxpy(cp.abs(c @ x - 1))
    assert any(note.startswith("t: chosen after the data") for note in auxiliary.notes)
    assert taut.hindsight(auxiliary, data).loss[0] == pytest.approx(
        taut.hindsight(plain, data).loss[0], rel=1e-8
    )
    assert auxiliary.constants.loss_lipschitz == pytest.approx(
        plain.constants.loss_lipschitz, rel=1e-6
    )


def test_limits_of_a_recourse_variable_are_constraints_on_the_decision():
    model = taut.from_cvxpy(cp.sum(u), [u >= A @ x - d, u >= 0, cp.sum(u) <= 1], recourse=["u"])
    assert model.count == 1
    value = model.written.values(jnp.array([1.0, -1.0]), (np.full(3, -1.0),))
    np.testing.assert_allclose(value, [np.maximum(A @ [1, -1] + 1, 0).sum() - 1])


@pytest.mark.parametrize("square", [0.0, 0.1])
def test_a_choice_that_may_be_impossible_is_a_constraint_on_the_decision(square):
    loss = cp.sum(b) + square * cp.sum_squares(b)
    model = taut.from_cvxpy(loss, [cp.sum(b) >= 5 + c @ x, cp.sum(x) <= 1.5, taut.recourse(b)])
    assert model.constraint_names[1:] == ("choice of b",)
    z = (np.array([1.0, 0.5]),)
    near, far = np.array([0.9, 0.2]), np.array([1.0, 0.9])  # as much as 6 can be chosen
    graded, values = (in_numpy(f) for f in (jax.value_and_grad(model.loss), model.written.values))
    np.testing.assert_allclose(values(near, z)[1], 0, atol=1e-12)
    assert float(graded(near, z)[0]) == pytest.approx(6 + 12 * square, abs=1e-9)
    assert float(values(far, z)[1]) == pytest.approx(0.45)
    slope = graded(far, z)[1]
    assert np.isfinite(slope).all()
    assert np.linalg.norm(slope) <= model.constants.loss_lipschitz
    with pytest.raises(ValueError, match="no choice of b satisfies the constraints of the round"):
        model.recourse_values(far, z)


def test_a_constraint_of_the_user_may_have_the_name_of_an_added_one():
    named = (cp.sum(x) <= 1.5).set_label("choice of b")
    unnamed = cp.sum(x) <= 1.5
    choice = [cp.sum(b) >= 5 + c @ x, taut.recourse(b)]
    models = [taut.from_cvxpy(cp.sum(b), [one, *choice]) for one in (named, unnamed)]
    redundant = [
        taut.from_cvxpy(cp.sum(b), [one, *choice], taut.Box(0, 0.5, shape=2))
        for one in ((cp.sum(x) <= 1.5).set_label("choice of b"), unnamed)
    ]
    assert models[0].count == models[1].count == 2
    assert redundant[0].count == redundant[1].count
    assert [any("are not played" in note for note in one.notes) for one in redundant] == [True] * 2


def test_open_questions_are_asked():
    bounded = cp.Variable(name="b", bounds=[0, 9])
    constraints = [bounded >= c @ x - 1, bounded >= 1 - c @ x]
    with pytest.raises(
        ValueError, match=r"variable b: .* is it decided before the data .* Pass recourse=\[\]"
    ):
        taut.from_cvxpy(bounded, constraints)
    free = cp.Variable(
        name="f"
    )  # bounded by a constraint that stays, so that it could be a decision
    with pytest.raises(
        ValueError, match=r"variable f: .* also in constraints without data; .* recourse=\['f'\]"
    ):
        taut.from_cvxpy(free + c @ x, [cp.norm(x) <= free, c @ x <= free, free <= 3 - x[0]])
    before = taut.from_cvxpy(bounded, constraints, recourse=[])
    assert [v.name() for v in before.variables] == ["x", "b"]
    after = taut.from_cvxpy(bounded, constraints, recourse=bounded)
    assert [v.name() for v in after.variables] == ["x"]
    for loss, rows in (
        (cp.abs(c @ x - 1) + bounded, []),
        (cp.square(bounded - 4) + c @ x, [c @ x <= bounded]),  # not monotone
    ):
        assert "b" in [v.name() for v in taut.from_cvxpy(loss, rows).variables]


def test_what_cannot_be_minimised_out_is_refused():
    free = cp.Parameter(name="free")
    for loss, rows, after, message in (
        (-t + x[0], [t >= c @ x], [t], "t can be chosen so that the loss decreases without end"),
        (cp.sum(x), [x <= 1], [x], "all variables"),
        (
            cp.sum(b),
            [cp.sum(cp.multiply(w, b)) >= c @ x],
            [b],
            "coefficients of b are not numbers in a constraint",
        ),
        (
            cp.exp(b[0]) + b[1],
            [cp.sum(b) >= c @ x],
            [b],
            "exp.* is neither linear nor quadratic in b",
        ),
        (w[0] * cp.sum_squares(b), [cp.sum(b) >= c @ x], [b], "multiplies squares of b by data"),
        (
            cp.square(p[0] - p[1]) + x[0],
            [cp.sum(p) >= c @ x],
            [p],
            "expected bounds= for these variables",
        ),
        (
            c[0] * b[0] + p[0] * (c[1] - 2),
            [cp.sum(b) >= x[0]],
            [b, p],
            "no best choice for some admissible data of c",
        ),
        (free * b[0] + b[1], [cp.sum(b) >= x[0]], [b], "got free without bounds"),
        (
            cp.sum(b) + x[0],
            [cp.sum(b) >= 5.5 + d[0], b[0] >= x[0]],
            [b],
            "admissible data of d for which no choice of b",
        ),
        (
            cp.sum(b) + x[0],
            [cp.sum(b) >= 7, b[0] >= x[0]],
            [b],
            "no choice of b satisfies its constraints",
        ),
    ):
        with pytest.raises(ValueError, match=message):
            taut.from_cvxpy(loss, [*rows, taut.recourse(*after)])
    with pytest.raises(TypeError, match="recourse: got 3; expected CVXPY variables"):
        taut.recourse(3)
    with pytest.raises(
        ValueError, match="recourse: got nothing; expected variables of the model: x"
    ):
        taut.from_cvxpy(cp.sum(x), recourse=["nothing"])
