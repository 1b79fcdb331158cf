"""Learners that show infinity: their steps are checked instead of every gradient, and nothing that
is not finite is lost."""

from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from taut.play.wide_rounds import HUGE, WIDE

import taut
from small_games import GAME, ROUNDS, learner, steep, targets
from taut.learners.base import State
from taut.play.step import KEEP_NAN, StepCheckedRound


def breaking(round, size=2, rounds=ROUNDS):
    """Data whose first number is 1 in one round only."""
    z = np.zeros((rounds, size))
    z[round - 1, 0] = 1
    return z


LOSS = (lambda x, z: steep(x[0], z[0]) + jnp.sum(x * x), lambda x, z: jnp.sum(x) - 1)
CONSTRAINT = (
    lambda x, z: jnp.sum(x * x),
    lambda x, z: steep(x[0], z[0]) + 0.5,
)  # violated at the centre
DOMAINS = {
    "ball": lambda size: taut.Ball(1.0, shape=size),
    "box": lambda size: taut.Box(-1.0, 1.0, shape=size),
}
SHOWING = [
    name
    for name, card in taut.LEARNERS.items()
    if not card.request_first and type(learner(name)).step_shows_infinity()
]


def test_some_learners_show_infinity_and_some_do_not():
    assert {"clipped-ogd", "drift-plus-penalty", "ogd", "a-ogd-clipped"} <= set(SHOWING)
    assert not {"half-space", "projected-ogd", "clipped-ogd-doubling", "step-experts"} & set(
        SHOWING
    )


@pytest.mark.parametrize("domain", DOMAINS)
@pytest.mark.parametrize("broken", [LOSS, CONSTRAINT], ids=["loss", "constraint"])
@pytest.mark.parametrize("name", SHOWING)
def test_an_infinite_slope_is_reported(name, broken, domain):
    problem = taut.Problem(*broken, DOMAINS[domain](2))
    assert StepCheckedRound.suits(learner(name), problem.domain)
    with pytest.raises(
        ValueError, match="loss gradient: got a value that is not finite in round 7"
    ):
        taut.simulate(learner(name), problem, breaking(7))


@pytest.mark.parametrize("domain", DOMAINS)
@pytest.mark.parametrize("broken", [LOSS, CONSTRAINT], ids=["loss", "constraint"])
@pytest.mark.parametrize("round", [1, 9, 12])
def test_an_infinite_slope_of_a_wide_decision_is_reported(broken, domain, round):
    problem = taut.Problem(*broken, DOMAINS[domain](WIDE))
    with pytest.raises(
        ValueError, match=f"loss gradient: got a value that is not finite in round {round}"
    ):
        taut.simulate(taut.ClippedOGD(0.1, 4.0), problem, breaking(round, WIDE, 12))


@pytest.mark.parametrize("domain", DOMAINS)
@pytest.mark.parametrize("size", [2, WIDE, HUGE + 1])
@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("seeds", [None, 3])
def test_data_that_nobody_looks_at_are_reported(domain, size, value, seeds):
    problem = taut.Problem(lambda x, z: x[0] * z[0], lambda x: x[1] - 0.5, DOMAINS[domain](size))
    z = np.ones((12, size))
    z[4, -1] = value
    stream, options = (
        (z, {})
        if seeds is None
        else (np.stack([np.ones_like(z)] * (seeds - 1) + [z]), {"seeds": seeds})
    )
    with pytest.raises(ValueError, match="stream: got a value that is not finite in round 5"):
        taut.simulate(taut.ClippedOGD(0.1, 4.0), problem, stream, **options)


@pytest.mark.parametrize("domain", KEEP_NAN)
def test_projections_keep_nan_where_it_is(domain):
    made = taut.Ball(1.0, shape=3) if domain is taut.Ball else taut.Box(-1.0, 1.0, shape=3)
    for place in range(3):
        point = np.array([0.1, 5.0, -7.0])
        point[place] = np.nan
        assert np.isnan(jax.jit(made.project)(point))[place]
    if domain is taut.Ball:  # whose step is not checked before
        assert np.isnan(jax.jit(made.project)(np.array([0.1, np.inf, 0.2]))).any()


class Forgiving(taut.Box, leaves=("lower", "upper")):
    """A box whose projection removes NaN."""

    def project(self, x):
        return jnp.nan_to_num(super().project(x), nan=0.0)


def test_a_domain_that_removes_nan_does_not_hide_data_that_are_not_finite():
    problem = taut.Problem(
        lambda x, z: x[0] * z[0], lambda x: x[1] - 0.5, Forgiving(-1.0, 1.0, shape=2)
    )
    z = np.ones((12, 2))
    z[4, 1] = np.nan
    assert not StepCheckedRound.suits(taut.ClippedOGD(0.1, 4.0), problem.domain)
    with pytest.raises(ValueError, match="stream: got a value that is not finite in round 5"):
        taut.simulate(taut.ClippedOGD(0.1, 4.0), problem, z)


@taut.learner_dataclass
class SignSteps(taut.ClippedOGD):
    """A subclass with another step, which an infinite gradient does not make infinite."""

    def step(self, state, round):
        return State(round.project(state.x - 0.1 * jnp.sign(round.gradient(state.x))), state.t + 1)


@taut.learner_dataclass
class Unprojected(taut.Learner):
    """A learner that says more than it does: its next decision is no projection."""

    eta: float
    shows_infinity: ClassVar[bool] = True

    def init(self, x1, count):
        return State(x1, jnp.ones((), jnp.int32))

    def step(self, state, round):
        return State(jnp.clip(state.x - self.eta * round.gradient(state.x), -1, 1), state.t + 1)


@pytest.mark.parametrize("made", [SignSteps(0.1, 4.0), Unprojected(0.1)])
def test_a_step_of_ones_own_is_not_trusted(made):
    problem = taut.Problem(*LOSS, taut.Box(-1.0, 1.0, shape=2))
    with pytest.raises(
        ValueError, match="loss gradient: got a value that is not finite in round 7"
    ):
        taut.simulate(made, problem, breaking(7))


def test_checks_change_no_decision(monkeypatch):
    z = targets(seeds=3)
    quick = taut.simulate(taut.ClippedOGD(0.3, 5.0), GAME, z, seeds=3, record=("loss", "decisions"))
    monkeypatch.setattr("taut.play.step.KEEP_NAN", ())
    other = taut.Problem(
        GAME.loss, lambda x: jnp.sum(jnp.abs(x)) - 1, GAME.domain
    )  # programs of its own
    slow = taut.simulate(taut.ClippedOGD(0.3, 5.0), other, z, seeds=3, record=("loss", "decisions"))
    np.testing.assert_allclose(quick.decisions, slow.decisions, rtol=1e-14, atol=1e-15)
