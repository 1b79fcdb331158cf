"""Parameters and streams of models: keys, shapes, attributes, adversaries."""

from __future__ import annotations

from dataclasses import dataclass

import cvxpy as cp
import jax.numpy as jnp
import numpy as np
import pytest
from model_helpers import excess, linear, rng_of

import taut

pytestmark = pytest.mark.usefixtures("compile_quickly")


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
        taut.simulate(
            learner, model, lambda start, length: {c: series[start : start + length]}, horizon=7
        ).loss
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
    with pytest.raises(
        TypeError, match="stream: got a function with 1 required arguments; expected chunk"
    ):
        taut.simulate(learner, model, lambda start: series, horizon=7)


def test_what_an_adversary_revealed_is_held_to_the_attributes():
    x, c = cp.Variable(2, name="x"), cp.Parameter(name="c", nonneg=True)
    model = taut.from_cvxpy(c * cp.sum_squares(x) + x[0], [cp.norm(x) <= 1])
    run = taut.simulate(
        taut.ClippedOGD(0.1, 4.0), model, lambda t, x, key: {"c": 2.0 - t}, horizon=4
    )
    with pytest.raises(
        ValueError, match=r"data: got -1 for c of seed 0 in round 3; expected at least 0 \(nonneg\)"
    ):
        run.certificate()


def test_adversaries_see_decisions_by_name_and_answer_by_name():
    u, v = cp.Variable(2, name="u"), cp.Variable(name="v")
    c = cp.Parameter(2, name="c", bounds=[-1, 1])
    model = taut.from_cvxpy(c @ u + cp.square(v), [cp.norm(u) <= 1, cp.abs(v) <= 1])

    def reveal(round, decision, key):
        return {"c": -jnp.clip(decision["u"] + decision["v"], -1, 1)}

    run = taut.simulate(
        taut.ClippedOGD(0.2, 4.0),
        model,
        reveal,
        horizon=5,
        x1={"u": np.array([0.5, 0.0]), "v": 0.0},
    )
    assert run.loss[0, 0] == pytest.approx(-0.25)
    best = run.certificate(check=False).comparator
    assert best.loss.shape == (1,)


def test_parameters_with_values_are_fixed_and_others_change():
    x, c = cp.Variable(2, name="x"), cp.Parameter(2, name="c", bounds=[-1, 1])
    limit = cp.Parameter(name="limit", value=2.0)
    model = taut.from_cvxpy(c @ x, [cp.norm1(x) <= limit], "box")
    limit.value = 5.0  # too late
    np.testing.assert_array_equal(model.domain.upper, [2, 2])
    np.testing.assert_allclose(excess(model, [1.5, 1.0]), [0.5])
    with pytest.raises(ValueError, match=r"data: got data for limit, which had a value"):
        model.arrange({c: np.zeros((3, 2)), limit: np.zeros(3)})
    limit.value = 2.0
    both = taut.from_cvxpy(
        c @ x, [cp.norm1(x) <= limit], taut.Ball(3.0, shape=2), per_round=[c, "limit"]
    )
    assert [p.name() for p in both.parameters] == ["c", "limit"]
    with pytest.raises(
        ValueError, match=r"parameter c: got no value; expected one, or the parameter in per_round"
    ):
        taut.from_cvxpy(c @ x, [cp.norm1(x) <= limit], per_round=[limit])
    with pytest.raises(
        ValueError, match=r"per_round: got nothing; expected parameters of the model: c, limit"
    ):
        taut.from_cvxpy(c @ x, [cp.norm1(x) <= limit], per_round=["nothing"])
    with pytest.raises(
        TypeError, match=r"per_round: got 3; expected a list of parameters or their names"
    ):
        taut.from_cvxpy(c @ x, [cp.norm1(x) <= limit], per_round=3)
    for only in (limit, "limit"):
        alone = taut.from_cvxpy(
            cp.sum(x), [cp.norm1(x) <= limit], taut.Ball(3.0, shape=2), per_round=only
        )
        assert alone.keys.names == "limit"


def test_parameters_that_are_computed_have_the_value_of_this_moment():
    x, p = cp.Variable(2, name="x"), cp.Parameter(name="p")
    double = cp.CallbackParam(lambda: 2 * p.value, nonneg=True)
    with pytest.raises(TypeError, match="unsupported operand"):  # of the user's own function
        taut.from_cvxpy(cp.sum(x), [cp.norm_inf(x) <= double])
    p.value = 1.5
    np.testing.assert_array_equal(
        taut.from_cvxpy(cp.sum(x), [cp.norm_inf(x) <= double]).domain.upper, [3, 3]
    )


def test_hindsight_sees_the_values_that_parameters_had():
    x, c = cp.Variable(2, name="x"), cp.Parameter(2, name="c", bounds=[-1, 1])
    limit = cp.Parameter(name="limit", value=1.0)
    model = taut.from_cvxpy(c @ x, [cp.norm1(x) <= limit])
    for late in (0.5, 2.0, None):
        limit.value = late
        best = taut.hindsight(model, np.tile([1.0, 0.5], (4, 1)))
        assert best.loss[0] == pytest.approx(-4.0)


def test_fixed_parameters_may_enter_as_constants_do():
    x, c = cp.Variable(2, name="x"), cp.Parameter(2, name="c", bounds=[-1, 1])
    p, q = (cp.Parameter(name=name, nonneg=True, value=2.0) for name in "pq")
    bend = cp.Parameter((2, 2), name="bend", PSD=True, value=np.diag([1.0, 3.0]))
    model = taut.from_cvxpy(p * q * cp.quad_form(x, bend) + c @ x, [cp.norm(x) <= 1])
    data = rng_of(8).uniform(-1, 1, (9, 2))
    best = taut.hindsight(model, data)
    np.testing.assert_allclose(best.decision[0], -data.mean(axis=0) / [8.0, 24.0], atol=1e-8)


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
        (
            {"nonneg": True},
            np.full((5, 2), -0.1),
            r"got -0.1 for c\[0\] in round 1; expected at least 0 \(nonneg\)",
        ),
        (
            {"bounds": [0, 1]},
            np.full((5, 2), 1.5),
            r"got 1.5 for c\[0\] in round 1; expected at most 1 \(bounds\)",
        ),
        (
            {"boolean": True},
            np.full((5, 2), 0.5),
            "got a number that is not whole for c; expected boolean",
        ),
        (
            {"integer": [(1,)]},
            np.full((5, 2), 2.5),
            "got a number that is not whole for c; expected integer",
        ),
    ],
)
def test_data_that_do_not_fit_are_refused(attributes, data, message):
    model, _ = linear(**attributes)
    with pytest.raises(ValueError, match=message):
        taut.simulate(taut.ClippedOGD(0.1, 4.0), model, data)


def test_only_the_entries_that_are_whole_need_be():
    model, c = linear(boolean=[(1,)])
    model.arrange({c: np.array([[2.5, 1.0], [-3.0, 0.0]])})
    with pytest.raises(
        ValueError, match=r"got 2 for c\[1\] in round 1; expected at most 1 \(boolean\)"
    ):
        model.arrange({c: np.array([[1.0, 2.0]])})


def test_matrices_that_are_not_what_their_parameter_says_are_refused():
    m = cp.Variable((2, 2), name="m", symmetric=True)
    w = cp.Parameter((2, 2), name="w", PSD=True)
    model = taut.from_cvxpy(cp.trace(w @ m), [cp.norm(m, "fro") <= 1])
    model.arrange({w: np.eye(2)[None]})
    with pytest.raises(ValueError, match="got a matrix that is not symmetric for w; expected PSD"):
        model.arrange({w: np.array([[[1.0, 0.5], [0.0, 1.0]]])})
    with pytest.raises(
        ValueError, match="got a matrix that is not semidefinite for w; expected PSD"
    ):
        model.arrange({w: np.array([[[1.0, 2.0], [2.0, 1.0]]])})


def test_data_of_fixed_parameters_are_refused_rather_than_ignored():
    x, q, r = (
        cp.Variable(2, name="x"),
        cp.Parameter(2, name="q", value=[1.0, 2.0]),
        cp.Parameter(2, name="r"),
    )
    learner = taut.ClippedOGD(0.1, 4.0)
    alone = taut.from_cvxpy(q @ x, [cp.norm1(x) <= 1])
    for data in ({q: np.ones((5, 2))}, {"q": np.ones((5, 2))}):
        with pytest.raises(
            ValueError, match=r"data: got data for q, which had a value .* per_round=\[\"q\"\]"
        ):
            alone.arrange(data)
    with pytest.raises(
        ValueError, match="data: got data for 'other', but no parameter of the model changes"
    ):
        taut.simulate(learner, alone, {"other": np.ones((5, 2))})
    both = taut.from_cvxpy((q + r) @ x, [cp.norm1(x) <= 1])
    with pytest.raises(ValueError, match="data: got data for q, which had a value"):
        both.arrange({q: np.ones((5, 2)), r: np.ones((5, 2))})
    changing = taut.from_cvxpy(q @ x, [cp.norm1(x) <= 1], per_round=["q"])
    losses = [
        taut.simulate(learner, changing, {q: scale * np.ones((5, 2))}).totals.loss
        for scale in (1.0, 2.0)
    ]
    assert losses[0] != pytest.approx(losses[1])
    assert taut.simulate(learner, alone, np.zeros(5)).horizon == 5  # rounds without data


def products():
    """Models in which data are multiplied by data: (loss, constraints, data of each parameter)."""
    x, random = cp.Variable(2, name="x", bounds=[-1, 1]), rng_of(12)
    y, f = cp.Parameter(4, name="y", bounds=[-1, 1]), cp.Parameter((4, 2), name="f", bounds=[-1, 1])
    p, q = (cp.Parameter(name=name, nonneg=True, bounds=[0, 1]) for name in "pq")
    bend = cp.Parameter((2, 2), name="bend", PSD=True, bounds=[-2, 2])
    signs, features = np.sign(random.normal(size=(6, 4))), random.uniform(-1, 1, (6, 4, 2))
    roots = random.uniform(-0.9, 0.9, (6, 2, 2))
    shares = random.uniform(0.2, 1, (2, 6))
    return {
        "classification": (
            cp.sum(cp.logistic(-cp.multiply(y, f @ x))),
            [cp.norm1(x) <= 1],
            {y: signs, f: features},
        ),
        "quadratic form": (
            cp.quad_form(x, bend) + cp.sum(x),
            [],
            {bend: roots @ roots.swapaxes(1, 2)},
        ),
        "product": (p * q * cp.norm(x - 1), [p * q * x[0] <= 0.1], {p: shares[0], q: shares[1]}),
    }


@pytest.mark.parametrize("name", products())
def test_parameters_may_be_multiplied_by_one_another(name):
    loss, constraints, data = products()[name]
    model = taut.from_cvxpy(loss, constraints)
    run = taut.simulate(taut.ClippedOGD.tuned(model.constants, 6), model, data)
    assert np.all(np.isfinite(run.loss))
    best = taut.hindsight(model, data)
    (x,) = loss.variables()
    total, held = 0.0, [x >= -1, x <= 1]
    for t in range(6):
        values = {id(parameter): cp.Constant(series[t]) for parameter, series in data.items()}
        values = {
            key: cp.psd_wrap(one) if one.shape == (2, 2) else one for key, one in values.items()
        }
        total = total + loss.tree_copy(dict(values))
        held += [one.tree_copy(dict(values)) for one in constraints]
    assert best.loss[0] == pytest.approx(
        cp.Problem(cp.Minimize(total), held).solve(solver=cp.CLARABEL), abs=1e-6
    )
