"""What a round remembers: an answer is traced once, and never carried out of the branch it was
given in."""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import taut
from taut.engine import register_dataclass
from taut.learners import Learner, State

ROUNDS = 20
DATA = np.random.default_rng(3).normal(size=(ROUNDS, 2))
BALL = taut.Ball(1.0, shape=2)


def loss(x, z):
    return jnp.sum((x - z) ** 2) / 2


def excess(x):
    return jnp.stack([x @ x - 0.25, x[0] - 0.1])


GAME = taut.Problem(loss, excess, BALL)


@register_dataclass
@dataclass(frozen=True)
class Undecided(Learner):
    """Steps against the slopes at a point, in even rounds those of the constraints, in odd ones
    that of the loss."""

    ahead: Any
    """The point is this share of x_t: the round has not been asked about it before, unless it is
    1."""

    def init(self, x1, count):
        return State(x1, jnp.asarray(1, jnp.int32))

    def step(self, state, round):
        x, t = state
        point = x if self.ahead is None else self.ahead * x

        def even():
            values, pull, _ = round.constraints(point)
            return round.project(x - 0.1 * round.gradient(point) - pull(jnp.maximum(values, 0)))

        def odd():
            values, pull, _ = round.constraints(point)
            return round.project(
                x - 0.3 * round.gradient(point) - 0.5 * pull(values) * round.loss(point)
            )

        x_next = jax.lax.cond(t % 2 == 0, even, odd)
        # Asked once more outside, after both branches.
        return State(round.project(x_next + 0.01 * round.gradient(point)), t + 1)


def by_hand(ahead, rounds=ROUNDS):
    """The same recursion in NumPy."""
    x, played = np.zeros(2), []
    for t, z in enumerate(DATA[:rounds], 1):
        played.append(x)
        point = ahead * x
        values = np.array([point @ point - 0.25, point[0] - 0.1])
        jacobian = np.stack([2 * point, [1.0, 0.0]])
        slope = point - z
        if t % 2 == 0:
            y = x - 0.1 * slope - np.maximum(values, 0) @ jacobian
        else:
            y = x - 0.3 * slope - 0.5 * (values @ jacobian) * (slope @ slope) / 2
        y = y / max(1, np.linalg.norm(y)) + 0.01 * slope
        x = y / max(1, np.linalg.norm(y))
    return np.array(played), x


@pytest.mark.parametrize("ahead", [0.9, None])
def test_a_learner_may_ask_in_both_branches_of_a_condition(ahead):
    played, final = by_hand(1.0 if ahead is None else ahead)
    run = taut.simulate(Undecided(ahead), GAME, DATA, x1=np.zeros(2), record=("decisions",))
    np.testing.assert_allclose(run.decisions[0], played, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(run.final[0], final, rtol=1e-12, atol=1e-14)
    # When another problem is scored, nobody has asked about x_t before the learner does.
    run = taut.simulate(
        Undecided(ahead), GAME, DATA, x1=np.zeros(2), record=("decisions",), score=taut.max_of(GAME)
    )
    np.testing.assert_allclose(run.decisions[0], played, rtol=1e-12, atol=1e-14)
    player = taut.Player(Undecided(ahead), GAME, x1=np.zeros(2))
    for z in DATA:
        player.observe(z)
    np.testing.assert_allclose(player.decision, final, rtol=1e-12, atol=1e-14)


def test_no_value_leaves_its_trace():
    learner = Undecided(0.9)

    @jax.jit
    def step(x, z):
        round = GAME.round(z)
        slope = jax.grad(round.loss)(x) + jax.vmap(round.gradient)(jnp.stack([x, 2 * x])).sum(
            axis=0
        )
        return learner.step(State(x, jnp.asarray(1)), round).x, slope

    x = jnp.asarray([0.3, -0.2])
    with jax.checking_leaks():
        _, slope = step(x, DATA[0])
    np.testing.assert_allclose(slope, 4 * np.asarray(x) - 3 * DATA[0], rtol=1e-12)


def test_a_round_made_outside_is_asked_inside_several_compiled_functions():
    round = GAME.round(DATA[0])
    x = jnp.asarray([0.3, -0.2])
    for factor in (1.0, 2.0):
        assert float(jax.jit(lambda f: f * round.loss(x))(factor)) == pytest.approx(
            factor * float(round.loss(x))
        )


def test_answers_are_traced_once_where_the_round_was_made_and_used_in_branches():
    traced = []

    def noted(x, z):
        traced.append("loss")
        return loss(x, z)

    def noted_excess(x):
        traced.append("constraints")
        return excess(x)

    problem = taut.Problem(noted, noted_excess, BALL)
    learner = Undecided(None)

    @jax.jit
    def step(x, z):
        round = problem.round(z)
        total = round.loss(x) + round.constraints(x).values.sum()  # as the referee does
        return learner.step(State(x, jnp.asarray(1)), round).x, total

    traced.clear()
    step(jnp.zeros(2), DATA[0])
    assert sorted(traced) == ["constraints", "loss"]


def test_a_decision_that_changes_in_place_is_asked_about_anew():
    round, x = GAME.round(DATA[0]), np.array([0.3, -0.2])
    for _ in range(2):
        assert float(round.loss(x)) == pytest.approx(np.sum((x - DATA[0]) ** 2) / 2, rel=1e-12)
        np.testing.assert_allclose(
            round.constraints(x).values, [x @ x - 0.25, x[0] - 0.1], rtol=1e-12
        )
        x += 0.25
