"""Models written in CVXPY: the meaning of constraints, variables and their attributes."""

from __future__ import annotations

import cvxpy as cp
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from model_helpers import excess, rng_of

import taut

pytestmark = pytest.mark.usefixtures("compile_quickly")


EXAMPLE = """
x, demand = cp.Variable(3, nonneg=True), cp.Parameter()
problem = taut.from_cvxpy(
    loss=cp.sum(0.5 * cp.multiply(a, cp.square(x)) + cp.multiply(b, x)) + xi * cp.square(cp.sum(x) - demand),
    constraints=[cp.sum(cp.multiply(d, cp.square(x))) <= 100, x <= x_max],
)
run = taut.simulate(taut.ClippedOGD.tuned(problem.constants, horizon=2880), problem, {demand: series})
certificate = run.certificate()          # hindsight solved from the same expressions
"""


def test_the_example_runs_as_printed():
    a, b, d = np.array([0.2, 0.12, 0.14]), np.array([1.5, 1.0, 0.6]), np.array([0.26, 0.38, 0.37])
    x_max, xi = np.array([20.0, 15.0, 18.0]), 0.5
    series = 33 + 6 * np.sin(np.arange(2880) / 46) + rng_of(0).normal(size=2880)
    names = {
        "cp": cp,
        "taut": taut,
        "a": a,
        "b": b,
        "d": d,
        "x_max": x_max,
        "xi": xi,
        "series": series,
    }
    exec(EXAMPLE, names)
    problem, certificate, demand = names["problem"], names["certificate"], names["demand"]
    assert certificate.holds
    assert not certificate.refuted
    status = {one.name: one.status for one in certificate.assumptions}
    assert status["convex losses"] == status["convex constraints"] == "proven"
    assert status["domain"] == "verified exactly"

    # The demand has no bounds: what rests on it is a guess and says so; all else is exact.
    assert problem.constants.estimated == {"loss_lipschitz", "loss_range"}
    emission = np.sqrt(100 / d)
    np.testing.assert_allclose(problem.domain.upper, np.minimum(x_max, emission), rtol=1e-7)
    assert problem.constants.strong_convexity == pytest.approx(
        np.linalg.eigvalsh(np.diag(a) + 2 * xi * np.ones((3, 3)))[0]
    )
    steepest = 2 * d * problem.domain.upper
    assert problem.constants.constraint_lipschitz == pytest.approx(np.linalg.norm(steepest))
    assert problem.constants.constraint_smoothness == pytest.approx(2 * d.max())
    assert problem.constants.slater == pytest.approx(
        100.0
    )  # x = 0; the limits are part of the domain

    # A wide enough guess, so that the certificate could check and did not refute it; narrowed by
    # the stream if asked.
    known = problem.estimate_constants({demand: series}, jax.random.key(0))
    assert known.loss_lipschitz < problem.constants.loss_lipschitz
    assert known.strong_convexity == problem.constants.strong_convexity


# --- constraints mean what CVXPY means ---


def every_kind():
    """One of each kind of constraint on two variables."""
    x, m = cp.Variable(3, name="x"), cp.Variable((2, 2), name="m")
    return [x, m], [
        cp.sum_squares(x) <= 3,
        m >= -2,
        x[0] + m[0, 1] == 0.25,
        cp.bmat([[2, x[1]], [x[1], 1 + x[2]]]) >> 0,
        m << 2 * np.eye(2),
        cp.SOC(2 + x[2], m[:, 0] + x[:2]),
        cp.SOC(np.array([2.0, 3.0]), m, axis=0),
        cp.SOC(np.array([2.0, 3.0]), m, axis=1),
        x <= 2,
        cp.norm1(m) <= 5,
    ]


def test_excess_is_cvxpys_violation_for_every_kind_of_constraint():
    variables, constraints = every_kind()
    loss = cp.sum_squares(variables[0]) + cp.sum_squares(variables[1])
    model = taut.from_cvxpy(
        loss, constraints, taut.Box(-50, 50, shape=7)
    )  # which implies no constraint
    assert model.count == 1 + 4 + 2 + 1 + 1 + 1 + 2 + 2 + 3 + 1
    random, sides = rng_of(1), [0, 0]
    for _ in range(40):
        parts = {"x": random.normal(size=3), "m": random.normal(size=(2, 2))}
        if random.uniform() < 0.8:
            parts["m"][0, 1] = 0.25 - parts["x"][0]
        for variable in variables:
            variable.value = parts[variable.name()]
        worst = float(excess(model, model.assemble(parts)).max())
        violation = max(float(np.max(one.violation())) for one in constraints)
        # Cones have their own measure of violation; which side a point is on is the same.
        assert (worst > 1e-9) == (violation > 1e-9)
        sides[int(worst > 1e-9)] += 1
    assert min(sides) >= 4


def test_equalities_are_pairs_of_inequalities():
    x = cp.Variable(2, name="x")
    model = taut.from_cvxpy(cp.sum_squares(x), [cp.sum(x) == 1, x >= 0], "box")
    values = excess(model, [0.5, 0.9])
    np.testing.assert_allclose(values, [0.4, -0.4])


def test_constraints_may_change_with_the_round():
    x = cp.Variable(2, name="x")
    a, b = cp.Parameter(2, name="a", bounds=[-1, 1]), cp.Parameter(name="b", bounds=[0, 1])
    model = taut.from_cvxpy(cp.sum_squares(x - 1), [a @ x <= b, cp.norm(x) <= 2], "box")
    assert model.constraints.takes_data
    assert model.constants.constraint_count == 2
    assert "without constraints that change with the round" in model.notes[0]
    z = model.arrange({"a": np.array([0.5, -1.0]), "b": np.array(0.25)})
    np.testing.assert_allclose(excess(model, [1.0, 2.0], z), [0.5 - 2 - 0.25, np.sqrt(5) - 2])


def test_a_game_without_constraints():
    x, c = cp.Variable(2, name="x", bounds=[0, 1]), cp.Parameter(2, name="c", bounds=[-1, 1])
    model = taut.from_cvxpy(c @ x)
    run = taut.simulate(
        taut.ClippedOGD.tuned(model.constants, 20), model, rng_of(2).uniform(-1, 1, (20, 2))
    )
    assert run.excess.max() < 0
    assert model.notes[1:] == [
        "x: lower bounds are part of the domain",
        "x: upper bounds are part of the domain",
    ]


# --- variables: several, matrices, scalars, attributes ---


def several():
    w, m, s = cp.Variable(2, name="w"), cp.Variable((2, 3), name="m"), cp.Variable(name="s")
    y = cp.Parameter((2, 3), name="y", bounds=[-1, 1])
    weights = np.arange(6.0).reshape(2, 3)
    loss = cp.sum_squares(m - y) + cp.sum(cp.multiply(weights, m)) + cp.square(w[0] - s) + w[1]
    return (
        taut.from_cvxpy(loss, [cp.norm_inf(m) <= 2, cp.norm(w) <= 1, cp.abs(s) <= 1]),
        loss,
        (w, m, s),
        y,
    )


def test_several_variables_are_kept_by_name_and_in_row_order():
    model, loss, variables, y = several()
    assert model.domain.shape == (9,)
    parts = {"w": np.array([0.1, 0.2]), "m": np.arange(6.0).reshape(2, 3) / 5, "s": np.array(-0.5)}
    flat = model.assemble(parts)
    np.testing.assert_array_equal(flat, [0.1, 0.2, 0, 0.2, 0.4, 0.6, 0.8, 1.0, -0.5])
    for name, value in model.present(flat).items():
        np.testing.assert_array_equal(value, parts[name])
    for variable in variables:
        variable.value = parts[variable.name()]
    y.value = rng_of(3).uniform(-1, 1, (2, 3))
    assert float(model.loss(jnp.asarray(flat), (y.value,))) == pytest.approx(float(loss.value))


def test_players_decide_in_the_users_words():
    model, _, variables, y = several()
    learner = taut.ClippedOGD.tuned(model.constants, 10)
    first = {"w": np.array([0.5, 0.0]), "m": np.full((2, 3), 0.5), "s": np.array(0.25)}
    player, data = taut.Player(learner, model, x1=first), rng_of(4).uniform(-1, 1, (3, 2, 3))
    assert set(player.decision) == {"w", "m", "s"}
    np.testing.assert_array_equal(player.decision["m"], first["m"])
    for z in ({y: data[0]}, {"y": data[1]}, {0: data[2]}):  # by parameter, by name, by position
        player.observe(z)
    run = taut.simulate(learner, model, {"y": data}, x1=first, record=("decisions",))
    final = model.present(run.final[0])
    for name, value in player.decision.items():
        np.testing.assert_allclose(value, final[name], rtol=1e-12)
    every = model.present(run.decisions)
    assert every["m"].shape == (1, 3, 2, 3)
    assert every["s"].shape == (1, 3)
    np.testing.assert_array_equal(model.present([0.0] * 8 + [2.0])["s"], 2.0)
    with pytest.raises(
        ValueError, match=r"decision: got shape \(3, 8\); expected \(9,\) after any leading axes"
    ):
        model.present(np.zeros((3, 8)))
    with pytest.raises(
        ValueError, match=r"decision: got parts of the shapes .*expected \{'w': \(2,\)"
    ):
        taut.Player(learner, model, x1={"w": np.zeros(2)})
    assert all(
        variable.value is None for variable in variables
    )  # the user's own variables are left alone


def test_a_scalar_variable():
    y, r = cp.Variable(name="y", nonneg=True), cp.Parameter(name="r", bounds=[0, 3])
    model = taut.from_cvxpy(cp.square(y - r), [y <= 2])
    player = taut.Player(taut.ClippedOGD.tuned(model.constants, 10), model)
    player.observe(1.5)
    assert player.decision.shape == ()
    assert model.domain.shape == (1,)
    assert model.entries == ["y"]


def test_attributes_become_domain_or_constraints_and_notes_say_which():
    def made(domain=None, **attributes):
        x = cp.Variable(2, name="x", **attributes)
        return taut.from_cvxpy(cp.sum_squares(x), [cp.norm(x) <= 1], domain)

    box = made(nonneg=True)
    assert box.notes == [
        "domain: the bounding box of the feasible set",
        "x: lower bounds are part of the domain",
    ]
    assert box.count == 1
    np.testing.assert_array_equal(box.domain.lower, [0, 0])
    ball = made(taut.Ball(1.0, shape=2), nonneg=True)
    assert ball.notes == ["x: lower bounds are part of constraints"]
    np.testing.assert_allclose(excess(ball, [-0.5, 0.25]), [np.hypot(0.5, 0.25) - 1, 0.5, -0.25])
    simplex = made(taut.Simplex(2), nonneg=True)
    assert simplex.notes[0] == "x: lower bounds are part of the domain"
    partly = made(taut.Ball(1.0, shape=2), bounds=[[0.0, -np.inf], [np.inf, 0.5]])
    np.testing.assert_allclose(excess(partly, [-0.5, 0.75])[1:], [0.5, 0.25])


def test_only_the_symmetric_part_of_a_symmetric_variable_counts():
    m = cp.Variable((2, 2), name="m", PSD=True)
    y = cp.Parameter((2, 2), name="y", symmetric=True, bounds=[-1, 1])
    model = taut.from_cvxpy(cp.trace(y @ m) + cp.sum_squares(m), [cp.trace(m) <= 1], "box")
    assert model.count == 2
    assert any("symmetry is part of the domain" in note for note in model.notes)
    assert any("PSD is a constraint on an eigenvalue" in note for note in model.notes)
    skew = np.array([[0.2, 0.5], [-0.1, 0.3]])
    even = (skew + skew.T) / 2
    z = (np.array([[0.5, -0.5], [-0.5, 1.0]]),)
    assert float(model.loss(jnp.asarray(skew), z)) == float(model.loss(jnp.asarray(even), z))
    np.testing.assert_array_equal(model.present(skew), even)
    np.testing.assert_allclose(excess(model, skew)[1], -np.linalg.eigvalsh(even)[0])
    targets = rng_of(5).uniform(-1, 1, (20, 2, 2))
    run = taut.simulate(
        taut.ClippedOGD.tuned(model.constants, 20),
        model,
        (targets + targets.swapaxes(1, 2)) / 2,
        record=("decisions",),
    )
    np.testing.assert_allclose(run.decisions, run.decisions.swapaxes(-1, -2), atol=1e-15)
    with pytest.raises(ValueError, match="not invariant under transposing m"):
        taut.from_cvxpy(
            cp.sum_squares(m), [], taut.Box(np.zeros((2, 2)), np.array([[1.0, 2.0], [1.0, 1.0]]))
        )


def test_stacks_of_matrices_are_matrices_side_by_side():
    weights = rng_of(9).normal(size=(2, 2, 2))
    tall = {name: cp.Variable((2, 2, 2), name=name, PSD=name == "m") for name in "mn"}
    model = taut.from_cvxpy(
        cp.vdot(weights, tall["m"] - tall["n"]) + cp.sum_squares(tall["n"]),
        [cp.norm_inf(tall["m"]) <= 1, cp.norm_inf(tall["n"]) <= 2, np.eye(2) >> tall["n"]],
    )
    best = 0.0
    for w in weights:
        m, n = cp.Variable((2, 2), PSD=True), cp.Variable((2, 2))
        limits = [cp.abs(m) <= 1, cp.abs(n) <= 2, np.eye(2) - (n + n.T) / 2 >> 0]
        best += cp.Problem(cp.Minimize(cp.vdot(w, m - n) + cp.sum_squares(n)), limits).solve(
            solver=cp.CLARABEL
        )
    assert model.count == 2 + 2  # the largest entries are part of the domain
    assert taut.hindsight(model, np.zeros(3)).loss[0] == pytest.approx(3 * best, rel=1e-6)
    parts = {name: rng_of(10).normal(size=(2, 2, 2)) for name in "mn"}
    even = {name: (value + value.swapaxes(1, 2)) / 2 for name, value in parts.items()}
    found = excess(model, model.assemble(parts))
    np.testing.assert_allclose(found[:2], np.linalg.eigvalsh(even["n"])[:, -1] - 1)
    np.testing.assert_allclose(found[2:], -np.linalg.eigvalsh(even["m"])[:, 0])


@pytest.mark.parametrize("attributes", [{"diag": True}, {"sparsity": ([0, 1, 1], [0, 0, 1])}])
def test_entries_that_are_zero_do_not_count(attributes):
    m = cp.Variable((2, 2), name="m", **attributes)
    model = taut.from_cvxpy(cp.sum_squares(m - 1), [cp.norm_inf(m) <= 1])
    zero = np.array([[False, True], ["diag" in attributes, False]])
    np.testing.assert_array_equal((model.domain.upper == 0) & (model.domain.lower == 0), zero)
    assert not model.present(np.ones((2, 2)))[zero].any()
    assert model.constants.strong_convexity == pytest.approx(2.0)
