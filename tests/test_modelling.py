"""Games written in CVXPY: what they mean, what is refused, domains, constants, data, decisions."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import cvxpy as cp
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import taut
from taut.modelling.model import Model


@pytest.fixture(autouse=True, scope="module")
def compile_quickly():
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)


def rng_of(*seed):
    return np.random.default_rng(seed)


@cache
def compiled(model):
    return jax.jit(model.written.values)


def excess(model, x, z=None):
    return np.asarray(compiled(model)(jnp.asarray(x), z))


# --- the example of the documentation, as printed ---

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
    names = {"cp": cp, "taut": taut, "a": a, "b": b, "d": d, "x_max": x_max, "xi": xi, "series": series}
    exec(EXAMPLE, names)
    problem, certificate, demand = names["problem"], names["certificate"], names["demand"]
    assert certificate.holds
    assert not certificate.refuted
    assert "the model's own program" in certificate.best.solver
    status = {one.name: one.status for one in certificate.assumptions}
    assert status["convex losses"] == status["convex constraints"] == status["domain"] == "verified exactly"

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
    assert problem.constants.slater == pytest.approx(15.0)  # x = 0 leaves 15 of the smallest limit

    # A wide enough guess, so that the certificate could check and did not refute it; narrowed by the stream if asked.
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
    model = taut.from_cvxpy(cp.sum_squares(variables[0]) + cp.sum_squares(variables[1]), constraints)
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
    model = taut.from_cvxpy(cp.sum_squares(x), [cp.sum(x) == 1, x >= 0])
    values = excess(model, [0.5, 0.9])
    np.testing.assert_allclose(values, [0.4, -0.4, -0.5, -0.9])


def test_constraints_may_change_with_the_round():
    x = cp.Variable(2, name="x")
    a, b = cp.Parameter(2, name="a", bounds=[-1, 1]), cp.Parameter(name="b", bounds=[0, 1])
    model = taut.from_cvxpy(cp.sum_squares(x - 1), [a @ x <= b, cp.norm(x) <= 2])
    assert model.constraints.takes_data
    assert model.constants.constraint_count == 2
    assert "without constraints that change with the round" in model.notes[0]
    z = model.arrange({"a": np.array([0.5, -1.0]), "b": np.array(0.25)})
    np.testing.assert_allclose(excess(model, [1.0, 2.0], z), [0.5 - 2 - 0.25, np.sqrt(5) - 2])


def test_a_game_without_constraints():
    x, c = cp.Variable(2, name="x", bounds=[0, 1]), cp.Parameter(2, name="c", bounds=[-1, 1])
    model = taut.from_cvxpy(c @ x)
    run = taut.simulate(taut.ClippedOGD.tuned(model.constants, 20), model, rng_of(2).uniform(-1, 1, (20, 2)))
    assert run.excess.max() < 0
    assert model.notes[1:] == ["x: lower bounds are part of the domain", "x: upper bounds are part of the domain"]


# --- variables: several, matrices, scalars, attributes ---


def several():
    w, m, s = cp.Variable(2, name="w"), cp.Variable((2, 3), name="m"), cp.Variable(name="s")
    y = cp.Parameter((2, 3), name="y", bounds=[-1, 1])
    weights = np.arange(6.0).reshape(2, 3)
    loss = cp.sum_squares(m - y) + cp.sum(cp.multiply(weights, m)) + cp.square(w[0] - s) + w[1]
    return taut.from_cvxpy(loss, [cp.norm_inf(m) <= 2, cp.norm(w) <= 1, cp.abs(s) <= 1]), loss, (w, m, s), y


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
    with pytest.raises(ValueError, match=r"decision: got shape \(3, 8\); expected \(9,\) after any leading axes"):
        model.present(np.zeros((3, 8)))
    with pytest.raises(ValueError, match=r"decision: got parts of the shapes .*expected \{'w': \(2,\)"):
        taut.Player(learner, model, x1={"w": np.zeros(2)})
    assert all(variable.value is None for variable in variables)  # the user's own variables are left alone


def test_a_scalar_variable():
    y, r = cp.Variable(name="y", nonneg=True), cp.Parameter(name="r", bounds=[0, 3])
    model = taut.from_cvxpy(cp.square(y - r), [y <= 2])
    player = taut.Player(taut.ClippedOGD.tuned(model.constants, 10), model)
    player.observe(1.5)
    assert player.decision.shape == ()
    assert model.domain.shape == (1,)
    assert model.entry(0) == "y"


def test_attributes_become_domain_or_constraints_and_notes_say_which():
    def made(domain=None, **attributes):
        x = cp.Variable(2, name="x", **attributes)
        return taut.from_cvxpy(cp.sum_squares(x), [cp.norm(x) <= 1], domain)

    box = made(nonneg=True)
    assert box.notes == ["domain: the bounding box of the feasible set", "x: lower bounds are part of the domain"]
    assert box.count == 1
    np.testing.assert_array_equal(box.domain.lower, [0, 0])
    ball = made(taut.Ball(1.0, shape=2), nonneg=True)
    assert ball.notes == ["x: lower bounds are part of constraints"]
    np.testing.assert_allclose(excess(ball, [-0.5, 0.25]), [np.hypot(0.5, 0.25) - 1, 0.5, -0.25])
    simplex = made(taut.Simplex(2), nonneg=True)
    assert simplex.notes == ["x: lower bounds are part of the domain"]
    partly = made(taut.Ball(1.0, shape=2), bounds=[[0.0, -np.inf], [np.inf, 0.5]])
    np.testing.assert_allclose(excess(partly, [-0.5, 0.75])[1:], [0.5, 0.25])


def test_only_the_symmetric_part_of_a_symmetric_variable_counts():
    m = cp.Variable((2, 2), name="m", PSD=True)
    y = cp.Parameter((2, 2), name="y", symmetric=True, bounds=[-1, 1])
    model = taut.from_cvxpy(cp.trace(y @ m) + cp.sum_squares(m), [cp.trace(m) <= 1])
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
        taut.ClippedOGD.tuned(model.constants, 20), model, (targets + targets.swapaxes(1, 2)) / 2, record=("decisions",)
    )
    np.testing.assert_allclose(run.decisions, run.decisions.swapaxes(-1, -2), atol=1e-15)
    with pytest.raises(ValueError, match="both sides of the diagonal of m"):
        taut.from_cvxpy(cp.sum_squares(m), [], taut.Box(np.zeros((2, 2)), np.array([[1.0, 2.0], [1.0, 1.0]])))


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
        best += cp.Problem(cp.Minimize(cp.vdot(w, m - n) + cp.sum_squares(n)), limits).solve(solver=cp.CLARABEL)
    assert model.count == 1 + 1 + 2 + 2
    assert taut.hindsight(model, np.zeros(3)).loss[0] == pytest.approx(3 * best, rel=1e-6)
    parts = {name: rng_of(10).normal(size=(2, 2, 2)) for name in "mn"}
    even = {name: (value + value.swapaxes(1, 2)) / 2 for name, value in parts.items()}
    found = excess(model, model.assemble(parts))
    np.testing.assert_allclose(found[2:4], np.linalg.eigvalsh(even["n"])[:, -1] - 1)
    np.testing.assert_allclose(found[4:], -np.linalg.eigvalsh(even["m"])[:, 0])


@pytest.mark.parametrize("attributes", [{"diag": True}, {"sparsity": ([0, 1, 1], [0, 0, 1])}])
def test_entries_that_are_zero_do_not_count(attributes):
    m = cp.Variable((2, 2), name="m", **attributes)
    model = taut.from_cvxpy(cp.sum_squares(m - 1), [cp.norm_inf(m) <= 1])
    zero = np.array([[False, True], ["diag" in attributes, False]])
    np.testing.assert_array_equal((model.domain.upper == 0) & (model.domain.lower == 0), zero)
    assert not model.present(np.ones((2, 2)))[zero].any()
    assert model.constants.strong_convexity == pytest.approx(2.0)


# --- parameters and streams ---


def linear(**attributes):
    x, c = cp.Variable(2, name="x"), cp.Parameter(2, name="c", **attributes)
    return taut.from_cvxpy(c @ x, [cp.norm1(x) <= 1]), c


def test_streams_are_keyed_by_parameter_name_or_position():
    model, c = linear()
    series = rng_of(6).normal(size=(7, 2))
    learner = taut.ClippedOGD(0.1, 4.0)
    losses = [
        taut.simulate(learner, model, stream).loss
        for stream in ({c: series}, {"c": series}, {0: series}, (series,), series)
    ]
    losses.append(taut.simulate(learner, model, series.tolist()).loss)
    losses.append(
        taut.simulate(learner, model, lambda start, length: {c: series[start : start + length]}, horizon=7).loss
    )
    losses.append(
        taut.simulate(learner, taut.max_of(model), {c: series[None]}, seeds=1).loss
    )  # transforms keep the keys
    for other in losses[1:]:
        np.testing.assert_array_equal(losses[0], other)


def test_functions_of_all_kinds_are_streams():
    model, c = linear()
    series = rng_of(6).normal(size=(7, 2))

    @dataclass
    class Chunk:  # not hashable
        scale: float

        def __call__(self, start, length, *rest, **options):
            return {c: self.scale * series[start : start + length]}

    learner = taut.ClippedOGD(0.1, 4.0)
    run = taut.simulate(learner, model, Chunk(1.0), horizon=7)
    np.testing.assert_array_equal(run.loss, taut.simulate(learner, model, series).loss)
    with pytest.raises(TypeError, match="stream: got a function with 1 required arguments; expected chunk"):
        taut.simulate(learner, model, lambda start: series, horizon=7)


def test_what_an_adversary_revealed_is_held_to_the_attributes():
    x, c = cp.Variable(2, name="x"), cp.Parameter(name="c", nonneg=True)
    model = taut.from_cvxpy(c * cp.sum_squares(x) + x[0], [cp.norm(x) <= 1])
    run = taut.simulate(taut.ClippedOGD(0.1, 4.0), model, lambda t, x, key: {"c": 2.0 - t}, horizon=4)
    with pytest.raises(ValueError, match="data: got a smallest entry of -2 for c; expected nonneg"):
        run.certificate()


def test_adversaries_see_decisions_by_name_and_answer_by_name():
    u, v = cp.Variable(2, name="u"), cp.Variable(name="v")
    c = cp.Parameter(2, name="c", bounds=[-1, 1])
    model = taut.from_cvxpy(c @ u + cp.square(v), [cp.norm(u) <= 1, cp.abs(v) <= 1])

    def reveal(round, decision, key):
        return {"c": -jnp.clip(decision["u"] + decision["v"], -1, 1)}

    run = taut.simulate(taut.ClippedOGD(0.2, 4.0), model, reveal, horizon=5, x1={"u": np.array([0.5, 0.0]), "v": 0.0})
    assert run.loss[0, 0] == pytest.approx(-0.25)
    best = run.certificate(check=False).best
    assert best.loss.shape == (1,)


def test_parameters_with_values_are_fixed_and_others_change():
    x, c = cp.Variable(2, name="x"), cp.Parameter(2, name="c", bounds=[-1, 1])
    limit = cp.Parameter(name="limit", value=2.0)
    model = taut.from_cvxpy(c @ x, [cp.norm1(x) <= limit])
    limit.value = 5.0  # too late
    np.testing.assert_array_equal(model.domain.upper, [2, 2])
    np.testing.assert_allclose(excess(model, [1.5, 1.0]), [0.5])
    with pytest.raises(ValueError, match=r"data: got data for limit, which is no parameter that changes .* expected c"):
        model.arrange({c: np.zeros((3, 2)), limit: np.zeros(3)})
    limit.value = 2.0
    both = taut.from_cvxpy(c @ x, [cp.norm1(x) <= limit], taut.Ball(3.0, shape=2), per_round=[c, "limit"])
    assert [p.name() for p in both.parameters] == ["c", "limit"]
    with pytest.raises(ValueError, match=r"parameter c: got no value; expected one, or the parameter in per_round"):
        taut.from_cvxpy(c @ x, [cp.norm1(x) <= limit], per_round=[limit])
    with pytest.raises(ValueError, match=r"per_round: got nothing; expected parameters of the model: c, limit"):
        taut.from_cvxpy(c @ x, [cp.norm1(x) <= limit], per_round=["nothing"])
    with pytest.raises(TypeError, match=r"per_round: got 3; expected a list of parameters or their names"):
        taut.from_cvxpy(c @ x, [cp.norm1(x) <= limit], per_round=3)
    for only in (limit, "limit"):
        alone = taut.from_cvxpy(cp.sum(x), [cp.norm1(x) <= limit], taut.Ball(3.0, shape=2), per_round=only)
        assert alone.keys.names == "limit"


def test_parameters_that_are_computed_have_a_value_or_are_refused():
    x, p = cp.Variable(2, name="x"), cp.Parameter(name="p")
    double = cp.CallbackParam(lambda: 2 * p.value, nonneg=True)
    double._name = "double"
    with pytest.raises(
        ValueError, match=r"parameter double: got a CallbackParam that has no value \(TypeError.*expected"
    ):
        taut.from_cvxpy(cp.sum(x), [cp.norm_inf(x) <= double])
    p.value = 1.5
    np.testing.assert_array_equal(taut.from_cvxpy(cp.sum(x), [cp.norm_inf(x) <= double]).domain.upper, [3, 3])


def test_hindsight_sees_the_values_that_parameters_had():
    x, c = cp.Variable(2, name="x"), cp.Parameter(2, name="c", bounds=[-1, 1])
    limit = cp.Parameter(name="limit", value=1.0)
    model = taut.from_cvxpy(c @ x, [cp.norm1(x) <= limit])
    for late in (0.5, 2.0, None):
        limit.value = late
        best = taut.hindsight(model, np.tile([1.0, 0.5], (4, 1)))
        assert best.loss[0] == pytest.approx(-4.0)
        assert "the model's own program" in best.solver


def test_fixed_parameters_may_enter_as_constants_do():
    x, c = cp.Variable(2, name="x"), cp.Parameter(2, name="c", bounds=[-1, 1])
    p, q = (cp.Parameter(name=name, nonneg=True, value=2.0) for name in "pq")
    bend = cp.Parameter((2, 2), name="bend", PSD=True, value=np.diag([1.0, 3.0]))
    model = taut.from_cvxpy(p * q * cp.quad_form(x, bend) + c @ x, [cp.norm(x) <= 1])
    data = rng_of(8).uniform(-1, 1, (9, 2))
    best = taut.hindsight(model, data)
    assert "the model's own program" in best.solver
    np.testing.assert_allclose(best.decision[0], -data.mean(axis=0) / [8.0, 24.0], atol=1e-8)
    with pytest.raises(ValueError, match=r"(?s)loss: got a model that is not DPP.*\|--  QuadForm\(x, bend\)"):
        taut.from_cvxpy(cp.quad_form(x, bend), [cp.norm(x) <= 1], per_round=[bend])


@pytest.mark.parametrize(
    ("attributes", "data", "message"),
    [
        ({}, np.zeros((5, 3)), r"got shape \(5, 3\) for c; expected \(2,\) after the leading axes"),
        (
            {},
            {"d": np.zeros((5, 2))},
            r"got data for 'd', which is no parameter that changes with the round; expected c",
        ),
        ({}, {}, "got no data for c"),
        ({}, (np.zeros((5, 2)),) * 2, "got 2 arrays; expected 1, one for each of c"),
        ({"nonneg": True}, np.full((5, 2), -0.1), "got a smallest entry of -0.1 for c; expected nonneg"),
        ({"bounds": [0, 1]}, np.full((5, 2), 1.5), "got a largest entry of 1.5 for c; expected bounds"),
        ({"boolean": True}, np.full((5, 2), 0.5), "got a number that is not whole for c; expected boolean"),
        ({"integer": [(1,)]}, np.full((5, 2), 2.5), "got a number that is not whole for c; expected integer"),
    ],
)
def test_data_that_do_not_fit_are_refused(attributes, data, message):
    model, _ = linear(**attributes)
    with pytest.raises(ValueError, match=message):
        taut.simulate(taut.ClippedOGD(0.1, 4.0), model, data)


def test_only_the_entries_that_are_whole_need_be():
    model, c = linear(boolean=[(1,)])
    model.arrange({c: np.array([[2.5, 1.0], [-3.0, 0.0]])})
    with pytest.raises(ValueError, match="got a largest entry of 2 for c; expected boolean"):
        model.arrange({c: np.array([[1.0, 2.0]])})


def test_matrices_that_are_not_what_their_parameter_says_are_refused():
    m = cp.Variable((2, 2), name="m", symmetric=True)
    w = cp.Parameter((2, 2), name="w", PSD=True)
    model = taut.from_cvxpy(cp.trace(w @ m), [cp.norm(m, "fro") <= 1])
    model.arrange({w: np.eye(2)[None]})
    with pytest.raises(ValueError, match="got a matrix that is not symmetric for w; expected PSD"):
        model.arrange({w: np.array([[[1.0, 0.5], [0.0, 1.0]]])})
    with pytest.raises(ValueError, match="got a matrix that is not semidefinite for w; expected PSD"):
        model.arrange({w: np.array([[[1.0, 2.0], [2.0, 1.0]]])})


# --- refusals ---


def refusals():
    x, y = cp.Variable(2, name="x"), cp.Variable(name="y")
    p, q = cp.Parameter(nonneg=True, name="p"), cp.Parameter(nonneg=True, name="q")
    ball = [cp.norm(x) <= 1]
    return {
        "concave": (
            lambda: (-cp.sum_squares(x), ball),
            r"(?s)loss: .*You are trying to minimize a function that is concave",
        ),
        "not DCP": (lambda: (cp.sqrt(cp.sum_squares(x)), ball), r"loss: .*subexpressions are not:\n.*quad_over_lin\(x"),
        "wrong way": (lambda: (cp.sum(x), [cp.norm(x) >= 1]), r"(?s)constraints: .*1.0 <= Pnorm\w*\(x, 2\)"),
        "curved equality": (lambda: (cp.sum(x), [cp.norm(x) == 1]), r"(?s)constraints: .*Pnorm\w*\(x, 2\) == 1.0"),
        "not DPP": (lambda: (p * q * cp.norm(x), ball), r"(?s)loss: got a model that is not DPP.*\|--  p \* q$"),
        "not DPP below": (lambda: (cp.sum(x), [*ball, p * p * x[0] <= 1]), r"(?s)constraints: .*\|--  p \* p$"),
        "unbounded": (
            lambda: (cp.sum(x), [x[0] == 2 * x[1], x[1] >= 0]),
            r"for ever in the direction \+1 x\[0\] \+0.5 x\[1\];",
        ),
        "unbounded along a curve": (
            lambda: (cp.sum(x), [cp.square(x[0]) <= x[1]]),
            r"for ever in the direction \+1 x\[1\];",
        ),
        "empty": (lambda: (cp.sum(x), [x >= 1, x <= 0]), "constraints: got no feasible decision"),
        "no choice": (lambda: (cp.sum(x), [x == 1]), r"constraints: got only one feasible decision, \[1.0, 1.0\]"),
        "whole numbers": (lambda: (cp.sum(cp.Variable(2, integer=True, name="k")), []), "variable k: got integer=True"),
        "complex": (
            lambda: (cp.real(cp.sum(cp.Variable(2, complex=True, name="k"))), []),
            "variable k: got complex=True",
        ),
        "complex data": (
            lambda: (cp.sum(x) + cp.real(cp.Parameter(imag=True, name="j")), ball),
            "parameter j: got one that may be complex; expected real data",
        ),
        "complex loss": (lambda: (1j * cp.sum(x), ball), "loss: got the complex expression"),
        "cone": (lambda: (cp.sum(x), [cp.ExpCone(x[0], x[1], y)]), "got ExpCone in .* expected <=, >=, =="),
        "vector": (lambda: (x, ball), r"loss: got an expression of shape \(2,\)"),
        "maximise": (lambda: (cp.Maximize(cp.sum(x)), ball), "loss: got cp.Maximize"),
        "no variable": (lambda: (cp.Constant(1.0), []), "got no CVXPY variable"),
        "names": (lambda: (cp.sum(x) + cp.Variable(name="x"), ball), "variables: got two of the name 'x'"),
        "quasiconvex": (lambda: (cp.length(x), ball), "loss: "),
        "expression as bound": (
            lambda: (cp.sum(cp.Variable(2, name="b", bounds=[0, q])), []),
            "b: got bounds that are",
        ),
    }


@pytest.mark.parametrize("name", refusals())
def test_what_is_refused_says_why(name):
    make, message = refusals()[name]
    with pytest.raises(ValueError, match=message):
        taut.from_cvxpy(*make())


@pytest.mark.parametrize("loss", [lambda x: x, 3.0, "x"])
def test_what_is_no_expression_is_refused(loss):
    with pytest.raises(TypeError, match="loss: got"):
        taut.from_cvxpy(loss)
    x = cp.Variable(name="x")
    with pytest.raises(TypeError, match="constraints: got"):
        taut.from_cvxpy(cp.square(x), [loss])
    with pytest.raises(TypeError, match="domain: got"):
        taut.from_cvxpy(cp.square(x), [x <= 1, x >= 0], domain=loss)


def test_unsupported_atoms_are_refused_by_name():
    x = cp.Variable((2, 2), name="x", PSD=True)
    with pytest.raises(ValueError, match="got quantum_rel_entr"):
        taut.from_cvxpy(cp.quantum_rel_entr(x, np.eye(2)), [cp.trace(x) == 1], taut.Ball(1.0, shape=(2, 2)))


def test_atoms_must_be_defined_finite_and_lipschitz_on_the_whole_domain():
    x, r = cp.Variable(2, name="x"), cp.Parameter(2, name="r")
    unit = [x >= 0, x <= 1]
    for loss, constraints, domain, message in (
        (-cp.log(x[0]), unit, None, r"x = \[0. 1.\], where log\(x\[0\]\) is infinite"),
        (-cp.sqrt(x[0]), unit, None, "is infinitely steep; expected a domain that keeps a distance"),
        (-cp.sum(cp.entr(x)), unit, None, "entr.* is infinitely steep"),
        (cp.sum(cp.power(x, 3)), unit, taut.Ball(1.0, shape=2), r"is not defined; expected a domain on which 0.0 <= x"),
        (-cp.log(r @ x), unit, None, r"parameters: got some without bounds; expected bounds for all of r"),
    ):
        with pytest.raises(ValueError, match=message):
            taut.from_cvxpy(loss, constraints, domain)
    # At a distance all is well; the cube is convex where the derived domain holds it.
    taut.from_cvxpy(-cp.log(x[0]), [x >= 0.1, x <= 1])
    cube = taut.from_cvxpy(cp.sum(cp.power(x, 3)), [x >= -1, x <= 1])
    np.testing.assert_array_equal(cube.domain.lower, [0, 0])
    assert cube.domain_binds


# --- domains ---


def test_the_bounding_box_is_the_smallest():
    random = rng_of(7)
    root = random.normal(size=(3, 3)) + 2 * np.eye(3)
    middle = random.normal(size=3)
    x = cp.Variable(3, name="x")
    model = taut.from_cvxpy(cp.sum_squares(x), [cp.norm(root @ (x - middle)) <= 1])
    half = np.linalg.norm(np.linalg.inv(root), axis=1)  # of the ellipsoid's shadow on each axis
    np.testing.assert_allclose(model.domain.lower, middle - half, rtol=0, atol=1e-7)
    np.testing.assert_allclose(model.domain.upper, middle + half, rtol=0, atol=1e-7)
    assert np.all(model.domain.lower <= middle - half)
    assert np.all(model.domain.upper >= middle + half)
    assert model.constants.radius == pytest.approx(np.linalg.norm(half), rel=1e-6)


def test_edges_that_are_short_decimals_are_exact():
    x = cp.Variable(2, name="x")
    model = taut.from_cvxpy(cp.sum_squares(x), [x[0] + x[1] <= 0.7, x >= [-0.25, 0.1]])
    np.testing.assert_array_equal(model.domain.lower, [-0.25, 0.1])
    np.testing.assert_array_equal(model.domain.upper, [0.6, 0.95])


@pytest.mark.parametrize("unit", [1e-9, 1e-5, 1e9])
def test_edges_in_other_units(unit):
    x = cp.Variable(2, name="x", nonneg=True)
    model = taut.from_cvxpy(cp.sum(x), [cp.sum(x) <= 6 * unit, cp.norm(x) <= 5 * unit])
    np.testing.assert_allclose(model.domain.lower / unit, 0, atol=1e-2)
    np.testing.assert_allclose(model.domain.upper / unit, 5, rtol=1e-2)
    assert np.all(model.domain.upper >= 5 * unit * (1 - 1e-12))


def test_a_given_domain_is_taken():
    x = cp.Variable((2, 2), name="x")
    constraints = [cp.norm_inf(x) <= 1]
    square = taut.from_cvxpy(cp.sum_squares(x), constraints, taut.Ball(2.0, shape=(2, 2)))
    assert square.domain.shape == (2, 2)
    flat = taut.from_cvxpy(cp.sum_squares(x), constraints, taut.L1Ball(4.0, shape=4))
    np.testing.assert_array_equal(flat.present(np.arange(4.0)), [[0, 1], [2, 3]])
    with pytest.raises(ValueError, match=r"domain: got decisions of shape \(3,\); expected \(2, 2\)"):
        taut.from_cvxpy(cp.sum_squares(x), constraints, taut.Ball(1.0, shape=3))
    with pytest.raises(ValueError, match=r"constraints: got max_i g_i\(x\) >= 0.64\d* > 0 for all x of the domain"):
        taut.from_cvxpy(cp.sum(x), [x[0] >= 1], taut.Ball(0.5, shape=(2, 2)))
    many = cp.Variable(501, name="x")
    with pytest.raises(ValueError, match="domain: got None for decisions of 501 entries; expected a domain"):
        taut.from_cvxpy(cp.sum(many), [cp.norm(many) <= 1])


# --- constants ---


@settings(max_examples=3, deadline=None, derandomize=True)
@given(seed=st.integers(0, 10**6))
def test_exact_constants_of_quadratics_hold_and_are_attained(seed):
    random = rng_of(seed)
    root, target = random.normal(size=(2, 2)), random.normal(size=2)
    x, p = cp.Variable(2, name="x"), cp.Parameter(2, name="p", bounds=[-0.5, 1.0])
    bend = root @ root.T
    model = taut.from_cvxpy(
        cp.quad_form(x - p, cp.psd_wrap(bend)) + target @ x,
        [cp.sum_squares(root @ x) <= 2, random.normal(size=2) @ x <= 1, x <= 2, x >= -1.5],
    )
    known = model.constants
    assert not known.estimated

    def g(y):
        return model.written.values(y, None)

    low, high = model.domain.lower, model.domain.upper
    corners = np.array([[a, b] for a in (low[0], high[0]) for b in (low[1], high[1])])
    inner = random.uniform(low, high, (200, 2))
    rounds = np.array([[a, b] for a in (-0.5, 1.0) for b in (-0.5, 1.0)])
    points = np.concatenate([corners, inner])
    slopes = np.array([np.linalg.norm(2 * bend @ (y - z) + target) for y in points for z in rounds])
    assert slopes.max() <= known.loss_lipschitz * (1 + 1e-9)
    assert known.loss_lipschitz == pytest.approx(slopes.max())  # attained at a corner
    losses = np.array([[(y - z) @ bend @ (y - z) + target @ y for y in points] for z in rounds])
    assert np.ptp(losses, axis=1).max() <= known.loss_range * (1 + 1e-9)
    assert known.strong_convexity == pytest.approx(2 * np.linalg.eigvalsh(bend)[0])
    values, jacobians = jax.jit(jax.vmap(lambda y: (g(y), jax.jacrev(g)(y))))(jnp.asarray(points))
    assert np.abs(values).max() <= known.constraint_range * (1 + 1e-9)
    seen = np.linalg.norm(np.asarray(jacobians), axis=-1).max()
    assert seen == pytest.approx(known.constraint_lipschitz)
    assert known.constraint_smoothness == pytest.approx(2 * np.linalg.eigvalsh(root.T @ root)[-1])
    assert values.max(axis=1).min() >= -(known.slater or 0) - 1e-9


def test_what_is_not_quadratic_is_estimated_and_marked():
    x, p = cp.Variable(2, name="x"), cp.Parameter(2, name="p", bounds=[-1, 1])
    model = taut.from_cvxpy(cp.logistic(p @ x) + cp.sum_squares(x), [cp.norm(x) <= 1, x[0] <= 0.5])
    known = model.constants
    assert known.estimated == {
        "loss_lipschitz", "loss_range", "strong_convexity", "constraint_lipschitz", "constraint_range",
    }  # fmt: skip
    assert {"radius", "constraint_count", "slater"} <= known.exact
    assert known.constraint_smoothness is None  # the norm has a kink
    # The truth, by hand: the steepest point is the corner (-1, -1) with p = (-1, -1).
    slope = 2 * np.array([-1.0, -1]) - np.array([1.0, 1]) / (1 + np.exp(-2.0))
    assert known.loss_lipschitz == pytest.approx(np.linalg.norm(slope), rel=1e-6)
    assert known.constraint_lipschitz == pytest.approx(1.0)
    assert known.strong_convexity == pytest.approx(2.0, rel=2e-3)


def test_samples_need_not_hit_a_kink(monkeypatch):
    # Sampled slopes of a kinked constraint always seem to have some curvature.
    seen = taut.Constants().with_values(estimated=True, loss_lipschitz=5.0, constraint_smoothness=4.0)
    monkeypatch.setattr("taut.problem.estimation.estimate", lambda *arguments: seen)
    x, c = cp.Variable(2, name="x"), cp.Parameter(2, name="c")
    for limit, smoothness in ((cp.norm(x), None), (cp.sum_squares(x), 2.0), (cp.log_sum_exp(x), 4.0)):
        model = taut.from_cvxpy(c @ x, [limit <= 1, x <= 2, x >= -2])
        sampled = model.estimate_constants(np.array([[3.0, 4.0]]), jax.random.key(0))
        assert sampled.loss_lipschitz == 5.0
        assert sampled.constraint_smoothness == smoothness


def test_curvature_that_depends_on_data_is_estimated():
    x, a = cp.Variable(2, name="x"), cp.Parameter(2, name="a", bounds=[-1, 1])
    model = taut.from_cvxpy(cp.square(a @ x), [cp.norm_inf(x) <= 1])
    assert "loss_lipschitz" in model.constants.estimated
    assert model.constants.loss_lipschitz == pytest.approx(4 * np.sqrt(2))  # 2 |a| |a.x| at the corners
    assert model.constants.strong_convexity == 0


def test_given_constants_are_kept():
    x, p = cp.Variable(2, name="x"), cp.Parameter(2, name="p")
    model = taut.from_cvxpy(p @ x, [cp.norm(x) <= 1], constants=taut.Constants(loss_lipschitz=7.0))
    assert model.constants.loss_lipschitz == 7.0
    assert model.constants.source("loss_lipschitz") == "given"
    with pytest.raises(ValueError, match="constraint_count: got 3; expected 1"):
        taut.from_cvxpy(p @ x, [cp.norm(x) <= 1], constants=taut.Constants(constraint_count=3))
    with pytest.raises(TypeError, match="constants: got"):
        taut.from_cvxpy(p @ x, [cp.norm(x) <= 1], constants=7.0)


def test_transforms_stay_models():
    model, c = linear(bounds=[-1, 1])
    for other in (taut.max_of(model), taut.tightened(model, 0.1), model.with_constants(model.constants)):
        assert isinstance(other, Model)
        assert other.variables is model.variables
        assert other.arrange({c: np.zeros((1, 2))})[0].shape == (1, 2)
    assert taut.smoothed(model, 0.01).constants.gap > 0
    assert "per round: c" in repr(model)


def test_models_in_single_precision_have_the_same_constants():
    here = linear(bounds=[-1, 1])[0]
    with jax.enable_x64(False):
        there = linear(bounds=[-1, 1])[0]
        player = taut.Player(taut.ClippedOGD.tuned(there.constants, 10), there)
        player.observe(np.array([1.0, 0.0]))
        assert player.decision.dtype == np.float32
    assert here.constants == there.constants
