"""Parameters with a value and data: the data count, or are refused; they are never ignored."""

from __future__ import annotations

import cvxpy as cp
import jax
import numpy as np
import pytest
from model_helpers import rng_of

import taut

pytestmark = pytest.mark.usefixtures("compile_quickly")

LEARNER = taut.ClippedOGD(0.1, 4.0)
DATA = rng_of(17).uniform(-1, 1, (9, 2))


@pytest.fixture(scope="module")
def valued():
    """A model whose only parameter has a value, and the same model without it."""
    x = cp.Variable(2, name="x")
    models = []
    for value in ([0.5, -0.5], None):
        q = cp.Parameter(2, name="q", bounds=[-1, 1], value=value)
        models.append((taut.from_cvxpy(cp.sum_squares(x - q), [cp.norm1(x) <= 1]), q))
    return models


def test_data_for_a_parameter_with_a_value_make_it_change(valued):
    (game, q), (plain, _) = valued
    wanted = taut.simulate(LEARNER, plain, DATA)
    for stream, options in (
        ({q: DATA}, {}),
        ({"q": DATA}, {}),
        (lambda start, length: {"q": DATA[start : start + length]}, {"horizon": 9}),
    ):
        run = taut.simulate(LEARNER, game, stream, score=game, **options)
        np.testing.assert_allclose(run.loss, wanted.loss, atol=1e-12)
        assert run.certificate().comparator.loss[0] == pytest.approx(
            wanted.certificate().comparator.loss[0]
        )
    assert "q: changes with the round, because the stream has data for it" in run.problem.notes
    best = taut.hindsight(game, {q: DATA})
    np.testing.assert_allclose(best.decision, taut.hindsight(plain, DATA).decision, atol=1e-7)
    assert run.problem is taut.simulate(LEARNER, game, {q: DATA}).problem  # it is built once
    assert [p.name() for p in game.parameters] == []  # and the model itself stays as it was


def test_constants_are_those_of_the_data(valued):
    (game, q), (plain, _) = valued
    key = jax.random.key(0)
    estimated = game.estimate_constants({q: DATA}, key)
    assert (
        estimated.loss_lipschitz == plain.constants.loss_lipschitz > game.constants.loss_lipschitz
    )
    run = taut.simulate(LEARNER, game, {q: DATA})
    assert taut.certify(run, problem=game, stream={q: DATA}).holds == run.certificate().holds
    assert taut.certify(run, problem=game, check=False).comparator.loss == pytest.approx(
        wanted_loss(plain)
    )


def wanted_loss(model):
    return taut.hindsight(model, DATA).loss


def test_other_values_stay_those_of_the_time_of_building():
    x, c = cp.Variable(2, name="x"), cp.Parameter(2, name="c", bounds=[-1, 1], value=[1.0, 0.0])
    limit = cp.Parameter(name="limit", value=1.0)
    game = taut.from_cvxpy(c @ x, [cp.norm1(x) <= limit])
    limit.value = None
    best = taut.hindsight(game, {c: np.tile([0.0, 1.0], (4, 1))})
    assert best.loss[0] == pytest.approx(-4.0)


def test_a_constraint_whose_parameter_has_data_changes():
    x, limit = cp.Variable(2, name="x"), cp.Parameter(name="limit", value=2.0, bounds=[0.5, 2])
    game = taut.from_cvxpy(-cp.sum(x), [cp.norm1(x) <= limit, x >= 0, x <= 2])
    assert taut.hindsight(game, np.zeros(3)).loss[0] == pytest.approx(-6.0)
    assert taut.hindsight(game, {"limit": np.array([2.0, 1.0, 2.0])}).loss[0] == pytest.approx(-3.0)


def test_data_that_would_have_no_effect_are_refused(valued):
    (game, q), _ = valued
    nothing = taut.from_cvxpy(cp.sum_squares(cp.Variable(2, name="x", bounds=[0, 1])))
    chosen = taut.from_cvxpy(*_two(), per_round=["c"])
    unused = cp.Parameter(2, name="unused")
    for model, data, message in (
        (game, {"zz": DATA}, "data: got data for 'zz', but no parameter of the model changes"),
        (game, {unused: DATA}, "data: got data for unused, but no parameter of the model changes"),
        (
            game,
            DATA,
            r"data: got an array of shape \(9, 2\) without names.*expected a dict with data for q",
        ),
        (nothing, {"zz": DATA}, "data: got data for 'zz', but no parameter of the model changes"),
        (
            chosen,
            {"c": DATA, "d": DATA},
            "data: got data for d, which had a value when the model was built",
        ),
        (taut.max_of(game), {q: DATA}, r"stream: got data for q.*expected per_round=\[q\]"),
    ):
        for call in (
            lambda model, data: taut.simulate(LEARNER, model, data),
            taut.hindsight,
            lambda model, data: model.estimate_constants(data, jax.random.key(0)),
        ):
            with pytest.raises(ValueError, match=message):
                call(model, data)
    with pytest.raises(
        ValueError, match="data: got data for 'zz', but no parameter of the model changes"
    ):
        taut.simulate(
            LEARNER, game, lambda start, length: {"zz": DATA[start : start + length]}, horizon=9
        )
    with pytest.raises(
        ValueError, match="data: got data for q, which had a value when the model was built"
    ):
        taut.simulate(LEARNER, game, lambda round, decision, key: {"q": decision}, horizon=3)
    taut.simulate(LEARNER, game, np.zeros(3))
    taut.simulate(
        LEARNER, nothing, np.arange(3)
    )  # without any parameter, numbers cannot be mistaken for data


def test_a_player_refuses_data_that_it_would_ignore(valued):
    (game, q), _ = valued
    for data, message in (
        (
            {q: DATA[0]},
            r"got data for q, which had a value .* Pass per_round=\[\"q\"\] to taut.from_cvxpy",
        ),
        ({"zz": DATA[0]}, "got data for 'zz', but no parameter of the model changes"),
    ):
        player = taut.Player(LEARNER, game)
        with pytest.raises(ValueError, match=message):
            player.observe(data)


def _two():
    x = cp.Variable(2, name="x")
    c, d = (cp.Parameter(2, name=name, bounds=[-1, 1], value=[1.0, 1.0]) for name in "cd")
    return c @ x + d @ x, [cp.norm1(x) <= 1]
