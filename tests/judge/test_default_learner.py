"""The default learner: it can be left out or named, needs no constants, and its certificate has
bounds all the same."""

import jax.numpy as jnp
import numpy as np
import pytest

import taut
from taut.judge.observed import observe
from taut.learners.registry import as_learner
from taut.problem.streams import as_stream


def excess(x, z):
    return z["a"] @ x - z["b"]


PROBLEM = taut.Problem(
    lambda x, z: jnp.sum((x - z["c"]) ** 2), excess, taut.Box(-1.0, 1.0, shape=2)
)


def data(seeds=3, rounds=50):
    rng = np.random.default_rng(2)
    c, a = rng.normal(size=(seeds, rounds, 2)), rng.normal(size=(seeds, rounds, 4, 2))
    return {"c": c, "a": a, "b": rng.uniform(0.1, 0.5, size=(seeds, rounds, 4))}


def test_a_certificate_without_constants_has_bounds_from_observed_gradients():
    run = taut.simulate(PROBLEM, data(), seeds=3)
    rows = {row.quantity: row for row in run.certificate().rows}
    for quantity in ("regret", "violation"):
        assert rows[quantity].guarantee.source == "half-space, H2 observed"
        assert rows[quantity].holds
        assert "loss_lipschitz" not in rows[quantity].guarantee.assumptions
    seen = observe(run, PROBLEM, run.stream).observed
    root, across = (
        (100 * seen.loss_slope**2 + seen.squared_slopes) ** 0.5,
        float(PROBLEM.domain.diameter),
    )
    assert rows["regret"].bound <= 1.5 * across * root


def test_the_learner_can_be_left_out_or_named():
    z = {name: value[0] for name, value in data().items()}
    named = taut.simulate("half-space", PROBLEM, z)
    for run in (
        taut.simulate(PROBLEM, z),
        taut.simulate(PROBLEM, stream=z),
        taut.simulate(problem=PROBLEM, stream=z),
        taut.simulate(as_learner("half-space", PROBLEM, None), PROBLEM, z),
    ):
        np.testing.assert_array_equal(run.final, named.final)
    player, other = taut.Player(PROBLEM, count=4), taut.Player("half-space", PROBLEM, count=4)
    player.observe({name: value[0] for name, value in z.items()})
    other.observe({name: value[0] for name, value in z.items()})
    np.testing.assert_array_equal(player.decision, other.decision)
    tuned = PROBLEM.with_constants(
        taut.Constants(loss_lipschitz=9.0, constraint_lipschitz=3.0, constraint_count=4)
    )
    run = taut.simulate("clipped-ogd", tuned, z)
    assert run.learner == taut.ClippedOGD.tuned(
        tuned.constants, horizon=50
    )  # tuned to the stream's length
    with pytest.raises(ValueError, match="horizon: got None"):
        taut.Player("clipped-ogd", tuned)
    with pytest.raises(TypeError, match="expected a learner before the problem"):
        taut.simulate(PROBLEM, PROBLEM, z)
    with pytest.raises(ValueError, match="learner: got 'best'"):
        taut.simulate("best", PROBLEM, z)


def test_rates_take_the_default_learner_too():
    disc = taut.Problem(lambda x, c: c @ x, lambda x: jnp.abs(x).sum() - 1, taut.Ball(1.0, shape=2))
    costs = as_stream(np.random.default_rng(0).normal(size=(2, 200, 2)), seeds=2)
    left_out, named = (
        taut.rates((disc, costs), [50, 200]),
        taut.rates("half-space", (disc, costs), [50, 200]),
    )
    np.testing.assert_array_equal(left_out.values["violation"], named.values["violation"])
    with pytest.raises(TypeError, match=r"rates\(family, horizons\)"):
        taut.rates((disc, costs))
