"""Long decisions on a ball around zero are carried as a step and a scale: the same numbers, with
fewer passes over memory."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from benchmarks.compiled import parsed, text_of

import taut
from small_games import distance, outside_diamond
from taut.play import loop
from taut.play.scaled import Scaled, projects_by_scaling
from taut.play.wide_rounds import HUGE, WIDE

SIZE = WIDE + 22  # no multiple of a vector register
CLIPPED = taut.ClippedOGD(0.3, float(SIZE))
NORMAL = np.random.default_rng(0).normal


def linear(x, z):
    return jnp.vdot(z, x)


def half_space(x):
    return jnp.sum(x) - 0.1


LINEAR = taut.Problem(linear, half_space, taut.Ball(1.5, shape=SIZE))
"""Its decisions are used once in a step, so that a compiler would like to leave out the rounding of
the projection."""


def by_hand(z, eta, sigma, radius):
    """Clipped-OGD on the linear game in plain NumPy: all decisions, and the one that would come
    next."""
    x, decisions = np.zeros(z.shape[1]), []
    for slope in z:
        decisions.append(x)
        x = x - eta * slope - max(x.sum() - 0.1, 0) / sigma
        x = x / max(1.0, np.linalg.norm(x) / radius)
    return np.array([*decisions, x])


def assert_same_rounds(one, *others):
    """Check that all records have the same bits. Totals are added chunk by chunk, so theirs need
    not."""
    for other in others:
        for record in ("loss", "decisions", "final"):
            np.testing.assert_array_equal(getattr(other, record), getattr(one, record))


def games():
    """Games of every kind, and whether their decisions are carried as step and scale."""
    ball, known = taut.Ball(1.5, shape=SIZE), {"domain": taut.Ball(1.5, shape=(2, SIZE // 2))}
    return {
        "linear": (LINEAR, True),
        "distance": (taut.Problem(distance, outside_diamond, ball), True),
        "matrix": (
            taut.Problem(distance, lambda x: jnp.sum(jnp.abs(x), axis=-1) - 0.5, **known),
            True,
        ),
        "many constraints": (taut.Problem(linear, lambda x: x - 0.01, ball), True),
        "largest constraint": (taut.max_of(taut.Problem(linear, lambda x: x - 0.01, ball)), True),
        "with a centre": (
            taut.Problem(linear, half_space, taut.Ball(1.5, centre=np.full(SIZE, 0.01))),
            False,
        ),
        "box": (taut.Problem(linear, half_space, taut.Box(-0.1, 0.1, shape=SIZE)), False),
        "short": (taut.Problem(linear, half_space, taut.Ball(1.5, shape=WIDE - 1)), False),
        "huge": (taut.Problem(linear, half_space, taut.Ball(1.5, shape=HUGE + 1)), False),
    }


@pytest.mark.parametrize("name", games())
def test_only_balls_around_zero_with_long_decisions(name):
    problem, expected = games()[name]
    assert projects_by_scaling(problem.domain, jnp.zeros(problem.domain.shape)) == expected


def test_a_subclass_may_project_otherwise():
    class Halved(taut.Ball, leaves=("radius", "origin")):
        def project(self, x):
            return super().project(x) / 2

    assert not projects_by_scaling(Halved(1.0, shape=SIZE), jnp.zeros(SIZE))
    z = NORMAL(size=(9, SIZE))
    run = taut.simulate(CLIPPED, taut.Problem(linear, half_space, Halved(1.5, shape=SIZE)), z)
    assert np.linalg.norm(run.final[0]) <= 0.75 + 1e-12


def test_a_loop_in_numpy_makes_the_same_decisions():
    z = NORMAL(size=(40, SIZE))
    expected = by_hand(z, 0.3, float(SIZE), 1.5)
    run = taut.simulate(CLIPPED, LINEAR, z, record=("decisions", "loss", "excess"))
    assert (np.linalg.norm(expected, axis=1) > 1.49).sum() > 30  # most steps are projected
    np.testing.assert_allclose(run.decisions[0], expected[:-1], rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(run.final[0], expected[-1], rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(
        run.loss[0], np.sum(z * expected[:-1], axis=1), rtol=1e-12, atol=1e-13
    )
    np.testing.assert_allclose(
        run.excess[0], expected[:-1].sum(axis=1) - 0.1, rtol=1e-11, atol=1e-13
    )


@pytest.mark.parametrize(
    "name", sorted(games().keys() - {"huge"})
)  # which is played by several threads
@pytest.mark.parametrize("optimised", [False, True])
def test_numbers_do_not_depend_on_the_length_of_chunks(name, optimised, monkeypatch):
    """Neither in code that is compiled as for users, in which a product and a sum may be rounded
    together."""
    if optimised:
        monkeypatch.setitem(loop.COMPILER_OPTIONS, "xla_backend_optimization_level", 3)
    problem, _ = games()[name]
    z = NORMAL(size=(41, *problem.domain.shape))
    assert_same_rounds(
        *(
            taut.simulate(CLIPPED, problem, z, chunk=chunk, record=("loss", "decisions"))
            for chunk in (41, 20, 7)
        )
    )


@pytest.mark.parametrize("name", ["linear", "matrix", "many constraints"])
@pytest.mark.parametrize("learners", [1, 3])
def test_seeds_and_learners_side_by_side(name, learners):
    problem, _ = games()[name]
    z = NORMAL(size=(4, 25, *problem.domain.shape))
    swept = [taut.ClippedOGD(0.1 * (1 + k), float(SIZE)) for k in range(learners)]
    together = taut.simulate(swept, problem, z, seeds=4, record=("loss", "excess", "decisions"))
    for k, learner in enumerate(swept):
        for seed in range(4):
            alone = taut.simulate(learner, problem, z[seed], record=("loss", "excess", "decisions"))
            for record in ("loss", "excess", "decisions"):
                np.testing.assert_allclose(
                    getattr(together, record)[k, seed],
                    getattr(alone, record)[0],
                    rtol=1e-12,
                    atol=1e-13,
                )


def test_decisions_of_the_round_before_and_adversaries():
    """Both are carried from round to round beside the learner's state."""
    z = NORMAL(size=(30, SIZE))

    def moving(x, z, previous):
        return jnp.vdot(z, x) + 0.5 * jnp.sum((x - previous) ** 2)

    problem = taut.Problem(moving, half_space, taut.Ball(1.5, shape=SIZE), previous=True)
    whole, pieces = (
        taut.simulate(CLIPPED, problem, z, chunk=chunk, record=("loss", "decisions"))
        for chunk in (30, 8)
    )
    assert_same_rounds(whole, pieces)
    moves = np.diff(whole.decisions[0], axis=0, prepend=whole.decisions[0][:1])
    expected = np.sum(z * whole.decisions[0], axis=1) + 0.5 * np.sum(moves**2, axis=1)
    np.testing.assert_allclose(whole.loss[0], expected, rtol=1e-12, atol=1e-13)

    points = jnp.asarray(z)
    replies = taut.simulate(
        CLIPPED, LINEAR, lambda t, x, key: points[t - 1], horizon=30, record=("loss", "decisions")
    )
    given = taut.simulate(CLIPPED, LINEAR, z, record=("loss", "decisions"))
    np.testing.assert_allclose(replies.decisions, given.decisions, rtol=1e-13, atol=1e-15)


@pytest.mark.parametrize("optimised", [False, True])
def test_the_largest_of_many_constraints_is_found(optimised, monkeypatch):
    """Its gradient is that of the active constraints, which are found by comparing values."""
    if optimised:
        monkeypatch.setitem(loop.COMPILER_OPTIONS, "xla_backend_optimization_level", 3)
    z = NORMAL(size=(60, SIZE))
    problem = taut.max_of(taut.Problem(linear, lambda x: x - 0.05, taut.Ball(1.5, shape=SIZE)))
    run = taut.simulate(taut.ClippedOGD(0.05, 2.0), problem, z, record=("decisions",))
    x = np.zeros(SIZE)
    for decision, slope in zip(run.decisions[0], z, strict=True):
        np.testing.assert_allclose(decision, x, rtol=1e-12, atol=1e-14)
        excess = x - 0.05
        active = excess == excess.max()
        x = x - 0.05 * slope - max(excess.max(), 0) / 2 * active / active.sum()
        x = x / max(1.0, np.linalg.norm(x) / 1.5)


@pytest.mark.parametrize(
    "name", ["drift-plus-penalty", "yu-neely", "ogd-clipped", "half-space", "recoo", "surrogate"]
)
def test_other_learners_make_the_same_decisions_as_without_fewer_passes(name, monkeypatch):
    known = taut.Constants(
        loss_lipschitz=5.0, constraint_lipschitz=13.0, constraint_range=20.0, slater=0.3
    )
    z = NORMAL(size=(30, SIZE))

    def decisions():
        ball = taut.Ball(0.2, shape=SIZE)  # so small that steps leave it
        game = taut.Problem(
            distance, lambda x: (jnp.sum(jnp.abs(x)) - 1, jnp.sum(x * x) - 0.03), ball, known
        )
        return taut.simulate(
            taut.learner(name, game, horizon=30), game, z, record=("decisions",)
        ).decisions

    fewer = decisions()
    monkeypatch.setattr("taut.play.wide_rounds.WIDE", SIZE + 1)
    np.testing.assert_allclose(fewer, decisions(), rtol=1e-9, atol=1e-12)


def test_32_bits():
    z = NORMAL(size=(40, SIZE)).astype(np.float32)
    expected = by_hand(z.astype(float), 0.3, float(SIZE), 1.5)
    run = taut.simulate(CLIPPED, LINEAR, z, x1=np.zeros(SIZE, np.float32), record=("decisions",))
    assert run.final.dtype == np.float32
    np.testing.assert_allclose(run.decisions[0], expected[:-1], atol=2e-6)


@taut.learner_dataclass
class TwoProjections(taut.ClippedOGD):
    """A learner that says more than it does: its next decision is the middle of two projections."""

    shows_infinity: ClassVar[bool] = True

    def step(self, state, round):
        one = super().step(state, round)
        return one._replace(x=(one.x + round.project(state.x)) / 2)


def test_a_decision_that_is_no_projection_is_carried_as_it_is():
    z = NORMAL(size=(20, SIZE))
    run = taut.simulate(TwoProjections(0.3, float(SIZE)), LINEAR, z, record=("decisions",))
    x = np.zeros(SIZE)
    for decision, slope in zip(run.decisions[0], z, strict=True):
        np.testing.assert_allclose(decision, x, rtol=1e-12, atol=1e-14)
        step = x - 0.3 * slope - max(x.sum() - 0.1, 0) / SIZE
        x = (step / max(1.0, np.linalg.norm(step) / 1.5) + x) / 2


@jax.tree_util.register_dataclass
@dataclass
class OwnState:
    """A state that is no named tuple."""

    x: jax.Array


@taut.learner_dataclass
class Descent(taut.Learner):
    """Gradient descent that ignores the constraints."""

    eta: float
    shows_infinity: ClassVar[bool] = True

    def init(self, x1, count):
        return OwnState(x1)

    def step(self, state, round):
        return OwnState(round.project(state.x - self.eta * round.gradient(state.x)))


def test_a_state_of_ones_own():
    z = NORMAL(size=(20, SIZE))
    expected = by_hand(z, 0.3, np.inf, 1.5)
    run = taut.simulate(Descent(0.3), LINEAR, z, record=("decisions",))
    np.testing.assert_allclose(run.decisions[0], expected[:-1], rtol=1e-12, atol=1e-14)


def test_the_projection_is_the_domains():
    point = NORMAL(size=SIZE)
    ball = taut.Ball(1.5, shape=SIZE)
    for far in (0.01, 1.0, 1e20):
        scaled = Scaled(jnp.asarray(far * point), ball.scale(jnp.asarray(far * point)))
        np.testing.assert_array_equal(scaled.decision(jnp.asarray(-0.0)), ball.project(far * point))


def test_a_round_stores_nothing_but_the_step():
    """In the loop over rounds only one operation has a whole decision as its result. Another one
    forms all sums before the step: for the loss, the constraint, and the check of the data."""
    known = taut.Constants(loss_lipschitz=2.0, constraint_lipschitz=1.0)
    problem = taut.Problem(
        lambda x, z: jnp.logaddexp(0.0, -jnp.vdot(z, x)),
        lambda x: jnp.sqrt(1e-16 + jnp.sum(x * x)) - 0.5,
        taut.Ball(4.0, shape=SIZE),
        known,
    )
    body = parsed(text_of(CLIPPED, problem, np.ones((3, SIZE)))).body
    whole = re.findall(rf"= f64\[{SIZE}\]\S* (\S+?)\(", body)
    assert [name for name in whole if name != "get-tuple-element"] == ["fusion"]
    assert len(re.findall(r"= \(f64\[\], f64\[\], f64\[\]\) fusion", body)) == 1
