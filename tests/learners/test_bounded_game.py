"""The bounded-multiplier game: conformance, three rounds, the recursion in NumPy, bounds under
attack and in expectation."""

import dataclasses
from math import sqrt

import jax.numpy as jnp
import numpy as np
import pytest

import taut
from learners import attack, three_rounds
from learners.harness import broken, check_formula, conforms
from taut import bounds
from taut.learners import BoundedGame
from taut.learners.bounded_game import CARDS
from taut.learners.schedules import Constant, InverseRoot, Power
from taut.testing import parametrize_with_checks, problems

K = three_rounds.CONSTANTS


@parametrize_with_checks(CARDS)
def test_conformance(card, check):
    conforms(card, check)


def test_three_rounds():
    learner = BoundedGame.tuned(K.with_values(loss_range=2.0, slater=1.0))
    assert learner.limit == 4.0
    found = three_rounds.states(learner)
    expected = [(0.9, 0), (0.730294372515, 0.056568542495), (0.454180913791, -0.069687513862)]
    three_rounds.check(found.x, expected)
    three_rounds.check(found.multiplier[:, 0], [1.0, 2.244507934888, 3.210245479496])


def onto(y, limit):
    """The nearest point of {y >= 0, sum y <= limit}, by bisection on the threshold."""
    y = np.maximum(y, 0)
    if y.sum() <= limit:
        return y
    low, high = 0.0, y.max()
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if np.maximum(y - middle, 0).sum() > limit else (low, middle)
    return np.maximum(y - high, 0)


def formula(w, data):
    case = {"polyhedron": problems.POLYHEDRON}.get(w.name, problems.TOY)
    known = case.problem.constants
    limit = 2 * known.loss_range / known.slater
    width = limit if w.m == 1 else sqrt(2) * limit
    x, weight, out = w.x1, np.zeros(w.m), []
    for t, c in enumerate(data, 1):
        out.append(x)
        values, rows = w.g(x)
        eta = 2 * w.R / ((w.Gf + limit * w.Gg) * sqrt(t))
        mu = width / (sqrt(w.m) * w.D * sqrt(t))
        x, weight = (
            w.project(x - eta * (w.df(x, c) + weight @ rows)),
            onto(weight + mu * values, limit),
        )
    return out


def test_learner_follows_its_formula():
    check_formula("bounded-game", formula)


def test_multipliers_stay_in_their_set():
    learner = BoundedGame(0.1, 5.0, 2.0)
    for weight in ([3.0, 1.0, -1.0], [0.5, 0.5, -4.0], [-1.0, -1.0, -1.0], [9.0, 9.0, 9.0]):
        found = np.asarray(learner._bounded(jnp.asarray(weight)))
        np.testing.assert_allclose(found, onto(np.array(weight), 2.0), atol=1e-14)
    assert learner._bounded(jnp.array([7.0]))[0] == 2.0


# -- Guarantees
# --------------------------------------------------------------------------------------------------------

KNOWN = attack.constants(slack=0.2).with_values(loss_range=2.0)
SETTING = taut.Setting(KNOWN, 2.0)


def test_tuned_bounds_are_at_most_the_simple_ones():
    learner, horizon = BoundedGame.tuned(KNOWN), 900
    regret, excess, violation = learner.guarantees(SETTING, horizon)
    total = 1.5 * ((1 + learner.limit) * 2 + learner.limit * KNOWN.constraint_range) * sqrt(horizon)
    assert 0.5 * total < regret.bound <= total
    assert excess.expected
    assert not regret.expected
    assert "independent, identically distributed rounds" in excess.assumptions
    assert excess.bound == pytest.approx(2 * regret.bound / learner.limit)  # M = 2 F / epsilon
    assert violation.bound is None


def test_the_bound_of_constant_steps_is_the_sum_of_two_gradient_players():
    """R^2 / (2 eta) + eta (G_f + M G_g)^2 T / 2 for the decision, M^2 / (2 mu) + mu m G^2 T / 2 for
    the multiplier."""
    numbers = {
        "radius": 0.7,
        "diameter": 1.3,
        "loss_lipschitz": 1.1,
        "constraint_lipschitz": 0.9,
        "constraint_range": 1.7,
    }
    found = bounds.bounded_game_regret(
        horizon=50, eta=0.2, mu=0.3, limit=4.0, constraint_count=3, beta=0.0, **numbers
    )
    first = 0.7**2 / 0.4 + 0.2 * (1.1 + 4 * 0.9) ** 2 * 25
    second = 4.0**2 / 0.6 + 0.3 * 3 * 1.7**2 * 25
    assert found == pytest.approx(first + second)
    # Steps that shrink: the distances count with the last step, the squared gradients with the sum
    # of all steps.
    found = bounds.bounded_game_regret(
        horizon=50, eta=0.2, mu=0.3, limit=4.0, constraint_count=3, **numbers
    )
    steps = np.arange(1, 51) ** -0.5
    sums = [0.2 * (1.1 + 4 * 0.9) ** 2 / 2, 0.3 * 3 * 1.7**2 / 2]
    last = [(1.3**2 * sqrt(50) - 1.3**2 + 0.7**2) / 0.4, (32 * sqrt(50) - 32 + 16) / 0.6]
    least = sum(last) + sum(sums) * steps.sum()
    assert least <= found <= 1.05 * least


def test_outside_the_theorem_there_is_a_reason():
    tuned = BoundedGame.tuned(KNOWN)
    small = dataclasses.replace(tuned, limit=9.0)
    assert "limit: got 9" in list(small.guarantees(SETTING, 100))[1].reason
    for eta, mu in (
        (0.1, InverseRoot(1.0)),
        (InverseRoot(1.0, 2.0), InverseRoot(1.0)),
        (Power(1.0, 0.0, 1.2),) * 2,
    ):
        (only,) = BoundedGame(eta, mu, 20.0).guarantees(SETTING, 100)
        assert "the same beta" in only.reason
    assert (
        next(iter(BoundedGame(Constant(0.1), 0.2, 20.0).guarantees(SETTING, 100))).bound > 0
    )  # constant steps
    unknown = taut.Setting(taut.Constants(radius=1.0, loss_lipschitz=1.0), 2.0)
    assert "constraint_range" in next(iter(tuned.guarantees(unknown, 100))).reason


def test_regret_bound_holds_under_attack():
    for count in (1, 2):
        known = attack.constants(count, slack=0.5).with_values(loss_range=2.0)
        attack.check(attack.ratios(BoundedGame.tuned(known), 24, count), {"regret": 0.03})
        attack.check(
            attack.ratios(BoundedGame(InverseRoot(1.0), InverseRoot(0.3), 0.5), 24, count),
            {"regret": 0.2},
        )
        attack.check(attack.ratios(BoundedGame(0.2, 0.1, 1.0), 24, count))


def test_the_attack_finds_a_learner_that_breaks_its_bound():
    @broken
    class Steady(BoundedGame):
        """Never shortens its steps."""

        def step(self, state, round):
            return super().step(state._replace(t=jnp.ones_like(state.t)), round)

    wrong = Steady(InverseRoot(2.0), InverseRoot(0.1), 0.05)
    assert attack.ratios(wrong, 24)["regret"] > 1.1


def test_expected_excess_of_independent_rounds():
    """Rows with noise of zero mean: the mean signed violation and the mean regret over 200 seeds
    are below their bounds."""

    def noisy_rows(x, z):
        return z["a"] @ x - z["b"]

    horizon, seeds = 200, 200
    rng = np.random.default_rng(1)
    normals = np.array([[1.0, 0.0], [0.0, 1.0]])
    data = {
        "c": np.broadcast_to([-sqrt(0.5), -sqrt(0.5)], (seeds, horizon, 2)),
        "a": np.broadcast_to(normals, (seeds, horizon, 2, 2)),
        "b": 0.3 + rng.choice([-0.3, 0.3], size=(seeds, horizon, 2)),
    }
    known = taut.Constants(
        radius=1.0,
        loss_lipschitz=1.0,
        constraint_lipschitz=1.0,
        loss_range=2.0,
        constraint_range=1.6,
        constraint_count=2,
        slater=0.3 + 1 / sqrt(2),
    )
    problem = taut.Problem(attack.linear, noisy_rows, attack.BALL, known)
    learner = dataclasses.replace(
        taut.learner("bounded-game", problem), mu=InverseRoot(0.1)
    )  # slow multipliers
    run = taut.simulate(learner, problem, data, seeds=seeds, chunk=horizon, record=())
    mean = run.totals.excess.mean(axis=0).max()
    bound = list(learner.guarantees(taut.Setting(known, 2.0), horizon))[1]
    assert 0 < mean <= bound.bound
    regret = (
        run.totals.loss + horizon * sqrt(2) * 0.3
    ).mean()  # the best decision on average is (0.3, 0.3)
    assert regret <= next(iter(learner.guarantees(taut.Setting(known, 2.0), horizon))).bound
