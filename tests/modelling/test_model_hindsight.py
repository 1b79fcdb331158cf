"""Hindsight from a model's own expressions: equal to the generic route and to plain CVXPY, proven,
by every route."""

from __future__ import annotations

import ast
import inspect

import cvxpy as cp
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import taut
from taut.modelling import hindsight as offline
from taut.paper.experiments import dispatch, doubly_stochastic, toy
from taut.problem.streams import as_stream

pytestmark = pytest.mark.usefixtures("compile_quickly")


def plain(model):
    """The same game, whose expressions nobody knows."""
    return taut.Problem(
        model.loss, model.constraints, model.domain, model.constants, model.domain_binds
    )


def matrices(orders):
    return np.asarray(orders[..., None] == np.arange(orders.shape[-1]), float)


PAPER = {
    "toy": (toy.model, lambda: toy.costs(2, 300)),
    "doubly stochastic": (
        lambda: doubly_stochastic.model(doubly_stochastic.Choice(5)),
        lambda: matrices(doubly_stochastic.permutations(5, 2, 300)),
    ),
    "dispatch": (
        dispatch.model,
        lambda: np.stack([33 + 6 * np.sin(np.arange(300) / k) for k in (20.0, 46.0)]),
    ),
}


@pytest.mark.parametrize("name", PAPER)
def test_both_routes_agree_on_the_papers_problems(name):
    make, data = PAPER[name]
    model, stream = taut.max_of(make()), data()
    ours = taut.hindsight(model, stream, seeds=2, prefixes=[40, 300])
    theirs = taut.hindsight(plain(model), (stream,), seeds=2, prefixes=[40, 300])
    assert "model" in ours.solver
    assert "model" not in theirs.solver
    np.testing.assert_allclose(ours.loss, theirs.loss, rtol=1e-7, atol=1e-7)
    np.testing.assert_allclose(ours.decision, theirs.decision, rtol=0, atol=1e-4)
    assert ours.gap.max() <= 1e-8
    assert ours.violation.max() <= 1e-8


@pytest.mark.parametrize("experiment", [toy, doubly_stochastic, dispatch])
def test_the_papers_problems_take_at_most_ten_statements_of_cvxpy(experiment):
    (function,) = ast.parse(inspect.getsource(experiment.model)).body
    assert len(function.body) <= 10


def test_models_of_the_papers_problems_are_the_problems():
    random = np.random.default_rng(0)
    orders = doubly_stochastic.permutations(5, 1, 1)[0, 0]
    small = doubly_stochastic.Choice(5)
    for model, written, here, there in (
        (toy.model(), toy.problem(), np.array([0.3, 0.9]), np.array([0.3, 0.9])),
        (
            doubly_stochastic.model(small),
            doubly_stochastic.problem(small, aggregated=False),
            matrices(orders),
            orders,
        ),
        (dispatch.model(), dispatch.problem(aggregated=False), np.array(31.0), np.array(31.0)),
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


def test_epigraphs_of_all_rounds_agree_with_plain_cvxpy():
    (x, s), loss, constraints, parameters, data = robust()
    model = taut.from_cvxpy(loss, constraints, "box")
    best = taut.hindsight(model, data, prefixes=[10, 25])
    assert best.solver.endswith("one epigraph per round")
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
        np.testing.assert_allclose(model.present(best.decision[0, where])["x"], x.value, atol=1e-4)
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
    assert "model" in best.solver
    assert best.decision[0] == pytest.approx(0.5)  # the median
    assert best.loss[0] == pytest.approx(0.5 + 1.5 + 2.5)


def classifier():
    w, z = cp.Variable(3, name="w"), cp.Parameter(3, name="z", bounds=[-1, 1])
    model = taut.from_cvxpy(cp.logistic(-(z @ w)), [cp.norm(w) <= 1.5, cp.sum(w) == 0.5], "box")
    return model, np.random.default_rng(2).uniform([-0.7, -1, -1], 1, (2, 60, 3))


def test_newton_steps_take_over_when_rounds_do_not_fit(monkeypatch):
    model, data = classifier()
    stacked = taut.hindsight(model, data, seeds=2, prefixes=[20, 60])
    monkeypatch.setattr(offline, "ROWS", 10)
    newton = taut.hindsight(model, data, seeds=2, prefixes=[20, 60])
    assert newton.solver.endswith("Newton steps")
    np.testing.assert_allclose(newton.loss, stacked.loss, rtol=1e-9)
    np.testing.assert_allclose(newton.multipliers, stacked.multipliers, atol=1e-5)

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
    model, rounds = dispatch.model(), 20_000
    demand = 33 + 6 * np.sin(np.arange(rounds) / 46)
    best = taut.hindsight(
        model, lambda start, length: {"demand": demand[start : start + length]}, horizon=rounds
    )
    assert best.solver.endswith("quadratic losses added up")
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


def test_constraints_that_are_no_longer_the_models_take_the_generic_route():
    x, c = cp.Variable(2, name="x"), cp.Parameter(2, name="c", bounds=[-1, 1])
    model = taut.from_cvxpy(c @ x, [cp.norm1(x) <= 2])
    data = np.array([[1.0, 0.5], [0.5, 1.0]])
    assert taut.hindsight(model, data).loss[0] == pytest.approx(-3.0)
    tight = taut.hindsight(taut.tightened(model, 0.25), data)
    assert "model" not in tight.solver
    assert tight.loss[0] == pytest.approx(-2.625)


def test_atoms_that_hide_their_parameters_take_the_generic_route():
    x, width = cp.Variable(2, name="x"), cp.Parameter(nonneg=True, name="width", value=0.5)
    c = cp.Parameter(2, name="c", bounds=[-1, 1])
    model = taut.from_cvxpy(cp.sum(cp.huber(x - c, width)), [cp.norm_inf(x) <= 1])
    best = taut.hindsight(model, np.array([[0.5, 0.5], [-0.5, 0.5], [-0.5, 0.5]]))
    assert "model" not in best.solver
    assert best.gap[0] <= 1e-8


def test_perspectives_are_played_bounded_and_solved():
    """s f(x / s) with f = |x|^2 is |x|^2 / s, CVXPY's quad_over_lin."""
    results = []
    for form in (lambda x, s: cp.perspective(cp.sum_squares(x), s), cp.quad_over_lin):
        x, s = cp.Variable(2, name="x"), cp.Variable(name="s", nonneg=True)
        c = cp.Parameter(2, name="c", bounds=[-1, 1])
        loss = c @ x + form(x, s)
        model = taut.from_cvxpy(loss, [form(x, s) <= 1, s >= 0.5, s <= 2])
        best = taut.hindsight(model, np.random.default_rng(4).uniform(-1, 1, (6, 2)))
        assert "the model's own program" in best.solver
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


def test_a_solution_whose_multipliers_prove_too_little_is_not_returned():
    x, c = cp.Variable(2, name="x", bounds=[-1, 1]), cp.Parameter(2, name="c", bounds=[-1, 1])
    model = taut.from_cvxpy(c @ x, [cp.norm1(x) + cp.norm(x, 2) <= 1])
    data = np.random.default_rng(0).uniform(-1, 1, size=(10, 2))
    best = taut.hindsight(model, data)
    stream = as_stream(model.arrange(data))
    task = offline._Task(model, stream, (10,), np.random.default_rng(0))
    u = np.asarray(task.scaling.scaled(best.decision[0]))[None]
    value, weights = task.mean_losses(u), np.ones((1, 1))
    assert task.found(u, value, weights, "", 1e-8) is not None
    assert task.found(u, value - 1e-3, weights, "", 1e-8) is None  # a lower bound too low
    outside = 1.000000001 * u  # a violation within the solver's accuracy, at a high price
    task.model.inner = None
    value = task.mean_losses(outside)
    assert task.found(outside, value, weights, "", 1e-7) is not None
    assert task.found(outside, value, 1e6 * weights, "", 1e-7) is None
