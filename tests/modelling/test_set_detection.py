"""Constraints that describe a simple set become the domain, and nothing else does."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest

import taut
from taut.modelling.domains.set_detection import Row, propagated
from taut.modelling.domains.simple_domain import derived_domain
from taut.modelling.translation.inequalities import stated_rows
from taut.modelling.translation.statement import Request, Statement

pytestmark = pytest.mark.usefixtures("compile_quickly")

x = cp.Variable(3, name="x")
c = cp.Parameter(3, name="c", bounds=[-1, 1])
m = cp.Variable((2, 3), name="m")
limit = cp.Parameter(name="limit", bounds=[0.5, 1])


def feasible_points(model, constraints, count=6):
    """Decisions that CVXPY finds at the edge of the feasible set."""
    random = np.random.default_rng(0)
    found = []
    for _ in range(count):
        aims = [cp.sum(cp.multiply(random.normal(size=v.shape), v)) for v in model.variables]
        cp.Problem(cp.Minimize(sum(aims)), constraints).solve(solver=cp.CLARABEL)
        found.append(
            np.concatenate([np.ravel(v.value) for v in model.variables]).reshape(model.domain.shape)
        )
    return found


SETS = {
    "simplex": (x, [cp.sum(x) == 2, x >= 0], taut.Simplex, 1),
    "weighted": (x, [x @ [1, 2, 3] == 2, x >= 0, x <= 1], taut.AffineBox, 1),
    "two equations": (x, [x[0] + x[1] == 1, x[1] - x[2] == 0.5, cp.abs(x) <= 1], taut.AffineBox, 1),
    "ball": (x, [cp.norm(2 * x - [1, 0, 0]) <= 2, x[0] + x[1] <= 1], taut.Ball, 1),
    "ball by squares": (x, [cp.sum_squares(x - 1) / 2 <= 2], taut.Ball, 1),
    "ball by a cone": (x, [cp.SOC(cp.Constant(1.5), x)], taut.Ball, 1),
    "identity form": (x, [cp.quad_form(x, 2 * np.eye(3)) <= 2], taut.Ball, 1),
    "l1": (x, [cp.norm1(x - [0, 1, 0]) <= 1], taut.L1Ball, 1),
    "l1 by a sum": (x, [cp.sum(cp.abs(x)) <= 1], taut.L1Ball, 1),
    "columns": (m, [cp.sum(m, axis=0) == 1, m >= 0], taut.Blocks, 1),
    "rows": (m, [cp.norm(m, axis=1) <= 1], taut.Blocks, 1),
    "box and norm": (
        x,
        [cp.norm(x) <= 1, x >= 0],
        taut.Box,
        1,
    ),  # a box leaves one row, a ball three
    "ellipsoid": (x, [cp.norm(cp.multiply([1, 2, 3], x)) <= 1], taut.Box, 1),
    "changing norm": (x, [cp.norm(x) <= limit, cp.norm(x) <= 1], taut.Ball, 1),
    "changing equation": (x, [cp.sum(x) == limit, x >= 0, x <= 1], taut.Box, 2),
}


@pytest.mark.parametrize("name", SETS)
def test_sets_are_found_and_contain_the_feasible_set(name):
    variable, constraints, kind, count = SETS[name]
    model = taut.from_cvxpy(cp.sum_squares(variable - 0.3), constraints)
    assert type(model.domain) is kind
    assert model.count == count
    assert model.domain_binds or kind is taut.Box
    steady = [one for one in constraints if not one.parameters()]
    for point in feasible_points(model, steady):
        assert bool(model.domain.contains(point, 1e-6))
    if (
        count == 1 and kind is not taut.Box and name not in ("ball", "changing norm")
    ):  # the domain is the feasible set
        sample = np.asarray(model.domain.project(3 * np.ones(model.domain.shape)))
        variable.value = sample.reshape(variable.shape)
        assert max(np.max(np.asarray(one.violation())) for one in steady) <= 1e-9
        assert any("domain: " in note for note in model.notes)
        assert not np.any(np.asarray(model.written.values(sample, None)) > 0)


def test_blocks_of_several_variables_and_the_old_box():
    u, v = cp.Variable(2, name="u"), cp.Variable(3, name="v", nonneg=True)
    constraints = [cp.norm(u) <= 1, cp.sum(v) == 1, u[0] + v[0] <= 0.8]
    model = taut.from_cvxpy(cp.sum_squares(u) + cp.sum(v), constraints)
    assert [type(part) for part in model.domain.parts] == [taut.Ball, taut.Simplex]
    assert model.count == 1
    assert model.notes[:2] == [
        "domain: u in the ball of radius 1",
        "domain: v in the simplex {x >= 0, sum x = 1}",
    ]
    box = taut.from_cvxpy(cp.sum_squares(u) + cp.sum(v), constraints, domain="box")
    assert type(box.domain) is taut.Box
    assert box.count == 4
    with pytest.raises(ValueError, match="domain: got 'ball'; expected \"box\""):
        taut.from_cvxpy(cp.sum_squares(u), [cp.norm(u) <= 1], domain="ball")


def test_semidefinite_matrices():
    y = cp.Parameter((3, 3), name="y", symmetric=True, bounds=[-1, 1])
    for make, trace, kind in (
        (lambda: cp.Variable((3, 3), name="s", PSD=True), "==", taut.Simplex),
        (lambda: cp.Variable((3, 3), name="s", symmetric=True), "<=", taut.Box),
    ):
        s = make()
        limits = [cp.trace(s) == 1] if trace == "==" else [s >> 0, cp.trace(s) <= 1]
        model = taut.from_cvxpy(cp.trace(y @ s), limits)
        assert type(model.domain) is taut.Spectral
        assert type(model.domain.eigenvalues) is kind
        assert model.count == 1  # the bound on the trace, or nothing
        draws = np.random.default_rng(1).uniform(-1, 1, (5, 3, 3))
        data = (draws + draws.swapaxes(1, 2)) / 2
        best = np.linalg.eigvalsh(data.sum(axis=0))[0]
        assert taut.hindsight(model, data).loss[0] == pytest.approx(
            best if trace == "==" else min(best, 0), rel=1e-6
        )


def test_a_simplex_stays_one_beside_rows_that_bound_its_entries():
    w, r = cp.Variable(4, name="w"), cp.Parameter(4, name="r", bounds=[-1, 1])
    model = taut.from_cvxpy(r @ w, [cp.sum(w) == 1, w >= 0, w[0] + w[1] <= 0.4])
    assert type(model.domain) is taut.Simplex
    assert model.count == 1  # the row is played
    bounded = taut.from_cvxpy(r @ w, [cp.sum(w) == 1, w >= 0, w[0] <= 0.4])
    assert type(bounded.domain) is taut.AffineBox
    assert float(bounded.domain.upper[0]) == 0.4


def test_eigenvalues_between_bounds():
    unit, y = np.eye(2), cp.Parameter((2, 2), name="y", symmetric=True, bounds=[-1, 1])
    for limits, edges in (
        (lambda s: [s >> 0.5 * unit, s << 3 * unit], (0.5, 3)),
        (lambda s: [cp.lambda_min(s) >= 0.5, cp.lambda_max(s) - 1 <= 2], (0.5, 3)),
        (lambda s: [s >> 0.5 * unit, cp.trace(s) <= 3], (0.5, 2.5)),
    ):
        s = cp.Variable((2, 2), name="s", symmetric=True)
        domain = taut.from_cvxpy(cp.trace(s @ y) - cp.log_det(s), limits(s)).domain
        assert type(domain) is taut.Spectral
        assert (float(domain.eigenvalues.lower[0]), float(domain.eigenvalues.upper[0])) == edges


def test_dynamics_hold_in_every_round():
    level, flow = cp.Variable(4, name="level"), cp.Variable(3, name="flow")
    price = cp.Parameter(3, name="price", bounds=[-1, 1])
    constraints = [level[0] == 1] + [level[k + 1] == level[k] + 0.9 * flow[k] for k in range(3)]
    model = taut.from_cvxpy(price @ flow, [*constraints, level >= 0, level <= 2, cp.abs(flow) <= 1])
    data = np.random.default_rng(2).uniform(-1, 1, (30, 3))
    run = taut.simulate(
        taut.ClippedOGD.tuned(model.constants, 30), model, data, record=("decisions",)
    )
    parts = model.present(run.decisions)
    steps = parts["level"][..., 1:] - parts["level"][..., :-1] - 0.9 * parts["flow"]
    assert np.abs(steps).max() < 1e-12
    assert np.ptp(parts["flow"]) > 0.1
    assert parts["level"].min() >= 0
    program = cp.Problem(
        cp.Minimize(data.sum(axis=0) @ flow),
        [*constraints, level >= 0, level <= 2, cp.abs(flow) <= 1],
    )
    assert taut.hindsight(model, data).loss[0] == pytest.approx(
        program.solve(solver=cp.CLARABEL), rel=1e-6
    )


def test_rows_of_the_domain_are_tightened_too():
    model = taut.from_cvxpy(c @ x, [cp.norm1(x) <= 2])
    assert type(model.domain) is taut.L1Ball
    tight = taut.tightened(model, 0.25)
    np.testing.assert_allclose(
        np.asarray(tight.constraints.values(np.array([1.0, 0, 1]), None)), [0.25]
    )
    given = model.with_constants(
        model.constants.with_values(loss_lipschitz=9.0, constraint_lipschitz=0.1)
    )
    known = taut.tightened(given, 0.25).constants
    assert known.loss_lipschitz == 9  # the user's
    assert (
        known.constraint_lipschitz == tight.constants.constraint_lipschitz
    )  # of the rows that were not played before
    equation = taut.tightened(taut.from_cvxpy(c @ x, [cp.sum(x) == 1, x >= 0]), 0.1)
    values = np.asarray(equation.constraints.values(np.array([0.05, 0.45, 0.5]), None))
    np.testing.assert_allclose(values, [0.05, -0.35, -0.4])  # x >= 0.1; the sum stays what it is


def domain_of(loss, constraints):
    """The domain alone: the constants of large models take long."""
    statement = Statement(Request(loss, constraints))
    return derived_domain(statement, stated_rows(statement.stated), [], False).domain


def test_bounds_of_many_entries_follow_from_rows_and_norms():
    many = cp.Variable(510, name="many")
    for constraints, low, high in (
        ([cp.sum(many) <= 3, many >= 0], 0, 3),
        ([cp.norm_inf(many - 1) <= 2], -1, 3),
    ):
        domain = domain_of(cp.sum(many), constraints)
        np.testing.assert_allclose(domain.lower, low)
        np.testing.assert_allclose(domain.upper, high)
    ball = domain_of(cp.sum(many), [cp.norm(many) <= 2])
    assert (type(ball), ball.radius) == (taut.Ball, 2.0)


def test_propagation_never_cuts_off_feasible_points():
    random = np.random.default_rng(5)
    for _ in range(30):
        point, rows = random.uniform(-1, 1, 5), []
        for k in range(4):
            factors = random.normal(size=3)
            places = random.choice(5, 3, replace=False)
            equality = bool(k % 2)
            rows.append(
                Row(
                    (0, k),
                    places,
                    factors,
                    float(factors @ point[places]) + 0.2 * (not equality),
                    equality,
                )
            )
        low = np.where(random.uniform(size=5) < 0.7, -1.0, -np.inf)
        high = np.where(random.uniform(size=5) < 0.7, 1.0, np.inf)
        tight = propagated(rows, low, high)
        assert np.all(tight[0] <= point + 1e-12)
        assert np.all(tight[1] >= point - 1e-12)
        assert np.all(tight[0] >= low)
        assert np.all(tight[1] <= high)


def test_affine_forms_agree_with_cvxpy():
    y = cp.Variable((2, 3), name="y")
    s = cp.Variable((2, 2), name="s", symmetric=True)
    random = np.random.default_rng(6)
    a, b = random.normal(size=(4, 2)), random.normal(size=(3, 2))
    model = taut.from_cvxpy(cp.sum(y) + cp.sum(s), [cp.abs(y) <= 1, cp.abs(s) <= 1])
    forms = model.forms
    flat = random.normal(size=model.size)
    values = model.present(flat)
    y.value, s.value = values["y"], values["s"]
    for one in (
        a @ y,
        y @ b,
        2 * y - 1,
        y.T,
        cp.sum(y, axis=1),
        cp.vstack([y, y[::-1]]),
        cp.multiply(a[:2, :1], y),
        cp.trace(s),
        cp.diag(s),
        cp.vec(y, order="F")[1:4] / 4,
        y[1] @ b,
        a[0] @ y,
        cp.hstack([y[0, 0], s[0, 1]]),
        -y + s[0, 0],
        cp.upper_tri(s),
        cp.reshape(y, (3, 2), order="F"),
        cp.sum(s) + np.ones((2, 3)),
    ):
        form = forms.of(one)
        np.testing.assert_allclose(
            form.matrix @ flat + form.offset, np.ravel(one.value), atol=1e-12
        )
    assert forms.of(cp.abs(y)) is None
