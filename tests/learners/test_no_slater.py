"""The no-Slater method: conformance, three rounds, the recursion in NumPy, and what it does not
promise."""

from math import exp, sqrt

import jax.numpy as jnp
import numpy as np
import pytest

import taut
from learners import three_rounds
from learners.harness import check_formula, conforms
from taut.learners import NoSlater
from taut.learners.no_slater import CARDS
from taut.testing import parametrize_with_checks

K = three_rounds.CONSTANTS


@parametrize_with_checks(CARDS)
def test_conformance(card, check):
    conforms(card, check)


def test_three_rounds():
    found = three_rounds.states(NoSlater.tuned(K))
    expected = [(1, 0), (0.772663278410, 0.634816082181), (0.704794423122, 0.709411602059)]
    three_rounds.check(found.x, expected)
    three_rounds.check(found.queue, [-7.75, -10.192993006227, -11.659892519247])


def formula(w, data, gain=1.0, regulariser=1.0):
    across = 2 * w.R

    def psi(z):
        return regulariser * 4 * across * w.Gg * sqrt(z)

    x, queue, weights, squares, out = w.x1, 0.0, 0.0, 0.0, []
    for t, c in enumerate(data, 1):
        out.append(x)
        values, rows = w.g(x)
        v, s = values.max(), rows[values == values.max()].mean(axis=0)
        if w.name == "toy":
            s = np.where(
                x >= 0, 1.0, -1.0
            )  # the subgradient of |.| that automatic differentiation takes at 0
        gamma = gain * min(1 / (12 * w.D * sqrt(t)), 1 / (24 * across * w.Gg), 1.0)
        phi = max(gamma * exp(max(gamma * queue, -50.0)), 1e-12)
        h = w.df(x, c) + phi * s
        squares += h @ h
        x = w.project(x - sqrt(2) / 2 * across * h / sqrt(1 + squares))
        queue += v - (psi(weights + phi**2) - psi(weights)) / phi
        weights += phi**2
    return out


def test_learner_follows_its_formula():
    check_formula("no-slater", formula)


def test_scaled_parameters_follow_the_formula_and_stay_finite():
    """With a gain of 30 the weight would underflow without its floor."""
    learner = NoSlater.tuned(K, gain=30.0, regulariser=0.1)

    class World:
        name, R, Gg, D, x1 = "row", 1.0, 1.0, 1.0, np.array([0.5, 0.0])

        def df(self, x, c):
            return c

        def g(self, x):
            return np.array([x[0] - 0.25]), np.array([[1.0, 0.0]])

        def project(self, y):
            return y / max(1.0, np.linalg.norm(y))

    data = np.random.default_rng(0).normal(size=(300, 2)) - [0.5, 0.0]
    problem = taut.Problem(lambda x, c: c @ x, lambda x: x[0] - 0.25, three_rounds.BALL, K)
    run = taut.simulate(
        learner, problem, data, x1=np.array([0.5, 0.0]), chunk=300, record=("decisions",)
    )
    np.testing.assert_allclose(
        run.decisions[0], formula(World(), data, 30.0, 0.1), rtol=0, atol=1e-10
    )
    state = learner.init(jnp.array([0.5, 0.0]), 1)._replace(queue=jnp.asarray(-1e9))
    after = learner.step(state, problem.round(jnp.ones(2)))
    assert all(jnp.all(jnp.isfinite(leaf)) for leaf in after)


@pytest.mark.parametrize(
    ("options", "text"), [({}, "in expectation"), ({"gain": 30.0}, "gain = 1")]
)
def test_no_number_is_promised(options, text):
    found = list(NoSlater.tuned(K, **options).guarantees(taut.Setting(K, 2.0), 100))
    assert {one.quantity for one in found} == {"regret", "excess"}
    assert all(one.bound is None and text in one.reason for one in found)
