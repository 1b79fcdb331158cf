"""Hindsight of models: equal to that of plain CVXPY, and proven."""

from __future__ import annotations

import ast
import inspect

import cvxpy as cp
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from benchmarks.paper_models import dispatch_model, doubly_stochastic_model, toy_model

import taut
from taut.arena.streams import dispatch, doubly_stochastic, toy

pytestmark = pytest.mark.usefixtures("compile_quickly")


def matrices(orders):
    return np.asarray(orders[..., None] == np.arange(orders.shape[-1]), float)


@pytest.mark.parametrize("model", [toy_model, doubly_stochastic_model, dispatch_model])
def test_the_papers_problems_take_at_most_ten_statements_of_cvxpy(model):
    (function,) = ast.parse(inspect.getsource(model)).body
    assert len(function.body) <= 10


def test_models_of_the_papers_problems_are_the_problems():
    random = np.random.default_rng(0)
    orders = doubly_stochastic.permutations(5, 1, 1)[0, 0]
    small = doubly_stochastic.Choice(5)
    for model, written, here, there in (
        (toy_model(), toy.problem(), np.array([0.3, 0.9]), np.array([0.3, 0.9])),
        (
            doubly_stochastic_model(5),
            doubly_stochastic.problem(small, aggregated=False),
            matrices(orders),
            orders,
        ),
        (dispatch_model(), dispatch.problem(aggregated=False), np.array(31.0), np.array(31.0)),
    ):
        x = jnp.asarray(random.normal(size=written.domain.shape))
        assert float(model.loss(x, (here,))) == pytest.approx(
            float(written.loss(x, there)), rel=1e-12
        )
        np.testing.assert_allclose(
            model.constraints.values(x, None), written.constraints.values(x, None), atol=1e-12
        )
        assert model.constants.loss_lipschitz == written.constants.loss_lipschitz


def robust():
    """Losses with a kink and curvature, an equality, a cone, and a constraint that changes with the
    round."""
    x, s = cp.Variable(3, name="x"), cp.Variable(name="s")
    a, b = cp.Parameter(3, name="a", bounds=[-1, 1]), cp.Parameter(name="b", bounds=[-1, 1])
    loss = cp.abs(a @ x - b) + 0.1 * cp.sum_squares(x) + cp.exp(s)
    constraints = [cp.sum(x) == 0.5, cp.norm(x) <= 1 + s, a @ x <= 0.6, s >= -0.5, s <= 1]
    random = np.random.default_rng(1)
    data = {"a": random.uniform(-1, 1, (25, 3)), "b": random.uniform(-1, 1, 25)}
    return (x, s), loss, constraints, {"a": a, "b": b}, data


def test_kinks_cones_and_changing_constraints_agree_with_plain_cvxpy():
    (x, s), loss, constraints, parameters, data = robust()
    model = taut.from_cvxpy(loss, constraints, "box")
    best = taut.hindsight(model, data, prefixes=[10, 25])
    assert all(
        parameter.value is None for parameter in parameters.values()
    )  # the user's own are left alone
    assert x.value is None
    for where, end in enumerate((10, 25)):
        terms, rows = [], [constraints[0], constraints[1], *constraints[3:]]
        for a, b in zip(data["a"][:end], data["b"][:end], strict=True):
            terms.append(cp.abs(a @ x - b) + 0.1 * cp.sum_squares(x) + cp.exp(s))
            rows.append(a @ x <= 0.6)
        value = cp.Problem(cp.Minimize(sum(terms)), rows).solve(solver=cp.CLARABEL)
        assert best.loss[0, where] == pytest.approx(value, rel=1e-7)
        # A gap of 1e-8 leaves decisions of a loss with the curvature 0.2 to some 1e-4.
        np.testing.assert_allclose(model.present(best.decision[0, where])["x"], x.value, atol=3e-4)
        # Multipliers: of the equality as a pair, of the round's constraint added up over the
        # rounds.
        duals = [rows[0].dual_value, rows[1].dual_value, sum(row.dual_value for row in rows[4:])]
        found = best.multipliers[0, where]
        np.testing.assert_allclose(
            [found[0] - found[1], found[2], found[3]], np.ravel(duals), atol=2e-4
        )


def test_rounds_that_repeat_are_counted():
    x, b = cp.Variable(name="x"), cp.Parameter(name="b", bounds=[0, 3])
    model = taut.from_cvxpy(cp.abs(x - b), [x >= 0, x <= 3])
    best = taut.hindsight(model, np.array([0.5, 1.0, 2.0, 3.0, 0.5, 0.5, 0.5]))
    assert best.decision[0] == pytest.approx(0.5)  # the median
    assert best.loss[0] == pytest.approx(0.5 + 1.5 + 2.5)


def classifier():
    w, z = cp.Variable(3, name="w"), cp.Parameter(3, name="z", bounds=[-1, 1])
    model = taut.from_cvxpy(cp.logistic(-(z @ w)), [cp.norm(w) <= 1.5, cp.sum(w) == 0.5], "box")
    return model, np.random.default_rng(2).uniform([-0.7, -1, -1], 1, (2, 60, 3))


def test_multipliers_prove_the_value_as_documented():
    model, data = classifier()
    newton = taut.hindsight(model, data, seeds=2, prefixes=[20, 60])
    assert newton.solver.startswith("newton")

    # The proof as it is documented: f(x) + lambda g(x) + min over B of <f'(x) + lambda g'(x), y -
    # x> is the value.
    x, weights = jnp.asarray(newton.decision[1, 1]), newton.multipliers[1, 1]
    value, slope = jax.value_and_grad(
        lambda y: jnp.sum(jax.vmap(lambda z: model.loss(y, (z,)))(data[1]))
    )(x)
    excess, pull, _ = model.constraints.linearise(x, None)
    tilt = np.asarray(slope + pull(jnp.asarray(weights)))
    corner = np.where(tilt > 0, model.domain.lower, model.domain.upper)
    bound = float(value) + float(weights @ excess) + float(tilt @ (corner - np.asarray(x)))
    assert bound == pytest.approx(newton.loss[1, 1], rel=1e-6)


def test_long_streams_of_quadratic_losses_are_added_up():
    model, rounds = dispatch_model(), 20_000
    demand = 33 + 6 * np.sin(np.arange(rounds) / 46)
    best = taut.hindsight(
        model, lambda start, length: {"demand": demand[start : start + length]}, horizon=rounds
    )
    x = cp.Variable(3)
    cost, slope, emission = dispatch.COST, dispatch.SLOPE, dispatch.EMISSION
    fuel = cp.sum(cp.multiply(cost / 2, cp.square(x)) + cp.multiply(slope, x))
    mean = fuel + 0.5 * (cp.square(cp.sum(x)) - 2 * demand.mean() * cp.sum(x) + np.mean(demand**2))
    limits = [cp.sum(cp.multiply(emission, cp.square(x))) <= 100, x >= 0, x <= dispatch.LIMIT]
    value = cp.Problem(cp.Minimize(mean), limits).solve(solver=cp.CLARABEL)
    assert best.loss[0] / rounds == pytest.approx(value, rel=1e-7)


def test_matrices_and_semidefinite_constraints():
    m = cp.Variable((3, 3), name="m", PSD=True)
    y = cp.Parameter((3, 3), name="y", symmetric=True, bounds=[-1, 1])
    model = taut.from_cvxpy(cp.trace(y @ m) + cp.sum_squares(m), [cp.trace(m) == 1])
    draws = np.random.default_rng(3).uniform(-1, 1, (15, 3, 3))
    data = (draws + draws.swapaxes(1, 2)) / 2
    best = taut.hindsight(model, data)
    program = cp.Problem(
        cp.Minimize(cp.trace(data.sum(axis=0) @ m) + len(data) * cp.sum_squares(m)),
        [cp.trace(m) == 1],
    )
    assert best.loss[0] == pytest.approx(program.solve(solver=cp.CLARABEL), rel=1e-7)
    np.testing.assert_allclose(best.decision[0], best.decision[0].T, atol=1e-12)


def test_what_cvxpy_warns_of_is_solved_in_silence():
    x, c = cp.Variable((3, 1), name="x"), cp.Parameter(2, name="c", bounds=[0, 1])  # broadcast
    weights = cp.Parameter((3, 3), name="weights", sparsity=([0, 1, 2], [1, 2, 0]), bounds=[0, 1])
    model = taut.from_cvxpy(
        cp.sum_squares(x + c) + cp.norm1(weights @ x - 1), [cp.norm(x + c) <= 3, cp.norm(x) <= 1]
    )
    random = np.random.default_rng(4)
    data, ring = (
        random.uniform(0, 1, (4, 2)),
        random.uniform(0, 1, (4, 3, 1)) * np.roll(np.eye(3), 1, axis=1),
    )
    best = taut.hindsight(model, {"c": data, "weights": ring})
    columns = [cp.hstack([x + c[0], x + c[1]]) for c in data]
    terms = [cp.sum_squares(y) + cp.norm1(w @ x - 1) for y, w in zip(columns, ring, strict=True)]
    program = cp.Problem(
        cp.Minimize(sum(terms)), [cp.norm(x) <= 1, *(cp.norm(y, "fro") <= 3 for y in columns)]
    )
    assert best.loss[0] == pytest.approx(program.solve(solver=cp.CLARABEL), rel=1e-7)
    tall = taut.Problem(
        lambda x, z: jnp.sum((x - z) ** 2),
        lambda x: jnp.sum(x) - 1,
        taut.Ball(1.0, shape=(1, 2, 2)),
    )
    assert taut.hindsight(tall, np.full((3, 1, 2, 2), 0.5)).loss[0] == pytest.approx(
        3 * 4 * 0.25**2
    )


def test_no_feasible_decision_in_all_rounds():
    x, a = cp.Variable(2, name="x"), cp.Parameter(2, name="a", bounds=[-1, 1])
    model = taut.from_cvxpy(cp.sum_squares(x), [a @ x <= -0.5, cp.norm(x) <= 1])
    with pytest.raises(taut.NoFeasibleDecision, match="over 2 rounds for all x of the domain"):
        taut.hindsight(model, np.array([[1.0, 0.0], [-1.0, 0.0]]))


def test_perspectives_are_played_bounded_and_solved():
    """s f(x / s) with f = |x|^2 is |x|^2 / s, CVXPY's quad_over_lin."""
    results = []
    for form in (lambda x, s: cp.perspective(cp.sum_squares(x), s), cp.quad_over_lin):
        x, s = cp.Variable(2, name="x"), cp.Variable(name="s", nonneg=True)
        c = cp.Parameter(2, name="c", bounds=[-1, 1])
        loss = c @ x + form(x, s)
        model = taut.from_cvxpy(loss, [form(x, s) <= 1, s >= 0.5, s <= 2])
        best = taut.hindsight(model, np.random.default_rng(4).uniform(-1, 1, (6, 2)))
        results.append(
            (
                model.domain.lower,
                model.domain.upper,
                model.constants.slater,
                best.loss,
                best.decision,
            )
        )
    for one, other in zip(*results, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)
