"""Parameters with a value: data for them are refused, never ignored."""

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
    """A model whose only parameter has a value."""
    x, q = cp.Variable(2, name="x"), cp.Parameter(2, name="q", bounds=[-1, 1], value=[0.5, -0.5])
    return taut.from_cvxpy(cp.sum_squares(x - q), [cp.norm1(x) <= 1]), q


def test_data_that_would_have_no_effect_are_refused(valued):
    game, q = valued
    nothing = taut.from_cvxpy(cp.sum_squares(cp.Variable(2, name="x", bounds=[0, 1])))
    chosen = taut.from_cvxpy(*_two(), per_round=["c"])
    unused = cp.Parameter(2, name="unused")
    for model, data, message in (
        (game, {"zz": DATA}, "data: got data for 'zz', but no parameter of the model changes"),
        (game, {unused: DATA}, "data: got data for unused, but no parameter of the model changes"),
        (
            game,
            DATA,
            r"data: got an array of shape \(9, 2\) without names.*per_round= in taut.from_cvxpy for q",
        ),
        (nothing, {"zz": DATA}, "data: got data for 'zz', but no parameter of the model changes"),
        (
            chosen,
            {"c": DATA, "d": DATA},
            "data: got data for d, which had a value when the model was built",
        ),
        (
            taut.max_of(game),
            {q: DATA},
            "data: got data for q, which had a value when the model was",
        ),
        (game, {"q": DATA}, r"Pass per_round=\[\"q\"\] to taut.from_cvxpy"),
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
    game, q = valued
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
