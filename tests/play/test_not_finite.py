"""A number that is not finite ends a simulation with the round and the name of what was not finite,
whoever plays and whatever the domain makes of it."""

import jax.numpy as jnp
import numpy as np
import pytest

import taut
from small_games import ROUNDS, learner, steep
from taut.learners.base import State
from taut.play.passes import HUGE

CLIPPED = taut.ClippedOGD(0.1, 4.0)
SLOPE = "loss gradient: got a value that is not finite in round {}; expected finite numbers as grad"


def breaking(round, entry=0, size=2, rounds=ROUNDS):
    """Data that are 1 in one entry of one round only."""
    z = np.zeros((rounds, size))
    z[round - 1, entry] = 1
    return z


def steep_problem(domain):
    """The loss has an infinite slope where z[0] is 1, the constraint where z[1] is 1. At the centre
    the constraint is violated."""
    return taut.Problem(
        lambda x, z: steep(jnp.ravel(x)[0], z[0]) + jnp.sum(x * x),
        lambda x, z: steep(jnp.ravel(x)[0], z[1]) + 0.5,
        domain,
    )


BOX = steep_problem(taut.Box(-1.0, 1.0, shape=2))
UNSEEN = {
    "one-point": ("loss", "constraint"),
    "two-point": ("loss", "constraint"),
    "projected-ogd": ("constraint",),
    "projected-ogd-strong": ("constraint",),
}
"""Learners that do not ask for slopes, and so cannot be misled by them."""
LATER = {"averaged-blocks": 8, "block-frank-wolfe": 8}
"""Learners that move at the end of a block of rounds only, and the end of the block of round 5."""


OF_EACH_CLASS = {type(learner(name)): name for name in taut.LEARNERS}.values()


@pytest.mark.parametrize("name", OF_EACH_CLASS)
def test_an_infinite_slope_is_reported_although_a_box_would_clip_the_step(name):
    for entry, what in enumerate(("loss", "constraint")):
        data = breaking(5, entry)
        if what in UNSEEN.get(name, ()):
            taut.simulate(learner(name), BOX, data)
            continue
        # A learner that sees the request first is scored in the same round, with a loss of NaN.
        message = "loss: got a value" if taut.LEARNERS[name].request_first else SLOPE
        with pytest.raises(ValueError, match=message.format(LATER.get(name, 5))):
            taut.simulate(learner(name), BOX, data)


DOMAINS = {
    "ball": taut.Ball(1.0, shape=4),
    "l1 ball": taut.L1Ball(1.0, shape=4),
    "simplex": taut.Simplex(4),
    "product": taut.Product(taut.Box(-1.0, 1.0, shape=2), taut.Ball(1.0, shape=2)),
    "blocks": taut.Blocks([taut.Simplex(2), taut.Simplex(2)], [[0, 2], [1, 3]], shape=4),
    "box with an equation": taut.AffineBox(np.ones(4), 1.0, -1.0, 1.0, shape=4),
    "box with two equations": taut.AffineBox(
        [[1.0, 1.0, 1.0, 1.0], [1.0, -1.0, 0.0, 0.0]], [1.0, 0.0], -1.0, 1.0, shape=4
    ),
    "matrices": taut.Spectral(taut.Box(-1.0, 1.0, shape=2)),
}


@pytest.mark.parametrize("name", DOMAINS)
def test_an_infinite_slope_is_reported_on_every_domain(name):
    problem = steep_problem(DOMAINS[name])
    for entry in range(2):
        with pytest.raises(ValueError, match=SLOPE.format(3)):
            taut.simulate(CLIPPED, problem, breaking(3, entry, rounds=5))


@pytest.mark.parametrize("size", [2, 130, HUGE + 1])
@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("seeds", [None, 3])
def test_data_that_nobody_looks_at_are_reported(size, value, seeds):
    problem = taut.Problem(
        lambda x, z: x[0] * z[0], lambda x: x[1] - 0.5, taut.Box(-1.0, 1.0, shape=size)
    )
    z = np.ones((12, size))
    z[4, -1] = value
    stream, options = z, {}
    if seeds is not None:
        stream, options = np.stack([np.ones_like(z)] * (seeds - 1) + [z]), {"seeds": seeds}
    with pytest.raises(ValueError, match="stream: got a value that is not finite in round 5"):
        taut.simulate(CLIPPED, problem, stream, **options)


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
    with pytest.raises(ValueError, match="stream: got a value that is not finite in round 5"):
        taut.simulate(CLIPPED, problem, z)


@taut.learner_dataclass
class SignSteps(taut.ClippedOGD):
    """Takes steps of the same length, which an infinite gradient does not make infinite."""

    def step(self, state, round):
        return State(round.project(state.x - 0.1 * jnp.sign(round.gradient(state.x))), state.t + 1)


@taut.learner_dataclass
class Unprojected(taut.Learner):
    """Does not project, but clips by itself."""

    eta: float

    def init(self, x1, count):
        return State(x1, jnp.ones((), jnp.int32))

    def step(self, state, round):
        return State(jnp.clip(state.x - self.eta * round.gradient(state.x), -1, 1), state.t + 1)


@pytest.mark.parametrize("made", [SignSteps(0.1, 4.0), Unprojected(0.1)])
def test_an_infinite_slope_is_reported_with_a_step_of_ones_own(made):
    with pytest.raises(ValueError, match=SLOPE.format(7)):
        taut.simulate(made, BOX, breaking(7))


def test_the_last_slope_before_a_restart_is_not_used():
    """Epochs of the doubling trick end after rounds 1, 3, 7, ... and begin at the first decision."""
    taut.simulate(learner("clipped-ogd-doubling"), BOX, breaking(7))


def test_totals_that_do_not_fit_are_named():
    problem = taut.Problem(lambda x, z: z @ x + 1.5e308, lambda x: jnp.sum(x) - 1, DOMAINS["ball"])
    with pytest.raises(ValueError, match="loss: got totals that are not finite by round 4; exp"):
        taut.simulate(CLIPPED, problem, np.zeros((6, 4)), chunk=4)
