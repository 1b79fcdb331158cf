"""Without a learner, noisy constraints are played by an averaged learner, which is said."""

import logging

import jax.numpy as jnp
import numpy as np
import pytest

import taut
from taut.play.with_feedback import default_learner

KNOWN = taut.testing.PROBLEMS[2]  # six affine rows, linear losses
NOISE = taut.Noisy(values=0.3)
ROUNDS = 60


def test_a_simulation_picks_the_averaged_learner_and_says_so(caplog):
    data = KNOWN.stream(2, ROUNDS)
    bare = KNOWN.problem.with_constants(taut.Constants())
    with caplog.at_level(logging.WARNING, logger="taut"):
        run = taut.simulate(bare, data, seeds=2, feedback=NOISE)
    (told,) = caplog.records
    assert "averaged for 60 rounds instead of half-space" in told.getMessage()
    assert isinstance(run.learner, taut.Averaged)
    assert run.learner.sigma == 0.3
    assert run.learner.rows == "affine"
    assert "Averaged" in str(run)
    again = taut.simulate(problem=bare, stream=data, seeds=2, feedback=NOISE)
    np.testing.assert_array_equal(again.final, run.final)


@pytest.mark.parametrize("feedback", [None, taut.FullInformation(), taut.Noisy(loss=0.1)])
def test_exact_constraints_are_played_by_the_default(feedback, caplog):
    chosen = default_learner(KNOWN.problem, feedback)
    assert chosen == "half-space"
    assert not caplog.records


@pytest.mark.parametrize(
    ("constraint", "known", "name", "rows"),
    [
        (lambda x: x - 0.5, {}, "averaged", "affine"),
        (lambda x: jnp.sum(x**2) - 0.5, {"slater": 0.5}, "averaged-smooth", "smooth"),
        (lambda x: jnp.abs(x).sum() - 0.5, {}, "averaged-blocks", "convex"),
    ],
)
def test_rows_decide_which_averaged_learner_plays(constraint, known, name, rows, caplog):
    problem = taut.Problem(
        lambda x, c: c @ x,
        constraint,
        taut.Ball(1.0, shape=2),
        taut.Constants(loss_lipschitz=1.0, **known),
    )
    player = taut.Player(problem, feedback=taut.Noisy(values=0.2, distribution="uniform"))
    assert player.learner.rows == rows
    assert player.learner.horizon == 10_000
    assert player.learner.sigma == pytest.approx(0.2 / 3**0.5)
    assert f"{name} for 10000 rounds" in caplog.text


def test_errors_of_gradients_enter_the_scale_of_the_linear_model():
    noise = taut.Noisy(values=0.3, gradients=0.1)
    chosen = default_learner(KNOWN.problem, noise, horizon=None)
    diameter = float(KNOWN.problem.domain.diameter)
    assert chosen.sigma == pytest.approx(np.hypot(0.3, 0.1 * diameter))
    assert chosen.gradient_sigma == 0.1


def test_a_named_learner_and_constraints_that_change_are_refused_as_before():
    data = KNOWN.stream(1, ROUNDS)
    with pytest.raises(ValueError, match="feedback: "):
        taut.simulate("half-space", KNOWN.problem, data, seeds=1, feedback=NOISE)
    changing = taut.Problem(lambda x, c: c @ x, lambda x, c: x[0] - c[0], taut.Ball(1.0, shape=2))
    with pytest.raises(ValueError, match="feedback: "):
        taut.simulate(changing, np.ones((5, 2)), feedback=NOISE)
