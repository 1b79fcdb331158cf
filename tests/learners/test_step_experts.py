"""Experts over steps: conformance, three rounds, the recursion in NumPy, dynamic regret with the
path length, attack."""

import dataclasses
from math import ceil, log, log2, sqrt

import jax.numpy as jnp
import numpy as np
import pytest

import taut
from learners import attack, three_rounds
from learners.harness import broken, check_formula, conforms
from taut import bounds
from taut.learners import StepExperts
from taut.learners.step_experts import CARDS
from taut.testing import parametrize_with_checks, problems

K = three_rounds.CONSTANTS


@parametrize_with_checks(CARDS)
def test_conformance(card, check):
    conforms(card, check)


def test_three_rounds_of_three_copies():
    found = three_rounds.states(StepExperts(0.5, 0.25, 2.0, 3))
    expected = [(0.25, 0), (-0.338775840252, 0.378875096448), (-0.248588430080, 0.625084744849)]
    three_rounds.check(found.x, expected)
    weights = np.exp(found.scores) / np.exp(found.scores).sum(axis=1, keepdims=True)
    third = 1 / 3
    three_rounds.check(
        weights, [(third,) * 3, (third,) * 3, (0.333347118631, 0.333347118631, 0.333305762738)]
    )


def formula(w, data, cuts=True):
    case = {"polyhedron": problems.POLYHEDRON}.get(w.name, problems.TOY)
    across, horizon, penalty = 2 * w.R, len(data), 2 * w.Gf / case.problem.constants.error_bound
    count, total = ceil(log2(horizon) / 2) + 1, w.Gf + penalty * w.Gg
    rate = sqrt(8 * log(count) / horizon) / (across * total)
    eta = across / ((w.Gf if cuts else total) * sqrt(horizon))
    points, weights, out = [w.x1] * count, np.ones(count) / count, []
    for c in data:
        x = sum(weight * point for weight, point in zip(weights, points, strict=True))
        out.append(x)
        values, rows = w.g(x)
        v, s, p = values.max(), rows[values == values.max()].mean(axis=0), w.df(x, c)
        costs, moved = [], []
        for k, point in enumerate(points):
            if cuts:
                costs.append(p @ (point - x) + penalty * max(v + s @ (point - x), 0))
                y = point - eta * 2**k * p
                excess = v + s @ (y - x)
                moved.append(w.project(y - excess * s / (s @ s) if excess > 0 else y))
            else:
                push = p + (penalty * s if v > 0 else 0)
                costs.append(push @ point)
                moved.append(w.project(point - eta * 2**k * push))
        points, weights = moved, weights * np.exp(-rate * np.array(costs))
        weights = weights / weights.sum()
    return out


def test_learner_follows_its_formula():
    check_formula("step-experts", formula)


def test_the_penalty_form_follows_its_formula():
    known = problems.TOY
    learner = taut.learner("step-experts", known.problem, horizon=300, cuts=False)

    class World:
        R, Gf, Gg, m, name, x1 = 1.0, 1.0, sqrt(2), 1, "toy", np.zeros(2)

        def df(self, x, c):
            return c

        def g(self, x):
            return np.array([np.abs(x).sum() - 1]), np.sign(x)[None]

        def project(self, y):
            return y / max(1.0, np.linalg.norm(y))

    data = known.stream(1, 300)[0]
    run = taut.simulate(learner, known.problem, data, chunk=300, record=("decisions",))
    np.testing.assert_allclose(
        run.decisions[0], formula(World(), data, cuts=False), rtol=0, atol=1e-11
    )


def test_one_copy_is_the_half_space_step():
    """The decision is then projected onto the half-space of the constraint's linear model, after
    the gradient step."""
    found = three_rounds.states(StepExperts(0.5, 1.0, 1.0, 1))
    three_rounds.check(found.x, [(0.25, 0), (-0.02, 0.14), (0.0016, 0.3312)])


def test_the_penalty_weighs_the_error_bound():
    known = K.with_values(error_bound=0.5, slater=0.2)
    assert StepExperts.tuned(known, 100).penalty == 4.0
    assert StepExperts.tuned(K.with_values(slater=0.2), 100).penalty == pytest.approx(2 / (0.2 / 2))
    assert StepExperts.tuned(K, 100).penalty == 2.0
    assert StepExperts.tuned(K, 2**14).count == 8
    assert StepExperts.tuned(K, 1).count == 1


# -- Guarantees
# --------------------------------------------------------------------------------------------------------


def test_the_bound_grows_with_the_path_length():
    learner, horizon = StepExperts.tuned(K, 10_000), 10_000
    found = []
    for length in (None, 0.0, 10.0, 1000.0):
        regret, violation = learner.guarantees(taut.Setting(K, 2.0, path_length=length), horizon)
        assert violation.bound is None
        assert "no bound on the violation" in violation.reason
        found.append(regret.bound)
    assert found[0] == found[1] < found[2] < found[3]
    # Without cuts, the best copy for a path of length P has the step sqrt((D^2 + 2 D P) / T) / G,
    # up to a factor of 2.
    plain = StepExperts.tuned(K, horizon, cuts=False)
    for length in (0.0, 10.0, 200.0):
        regret, _ = plain.guarantees(taut.Setting(K, 2.0, path_length=length), horizon)
        slope, across = 1 + 2.0, 2.0
        best = slope * sqrt((across**2 + 2 * across * length) * horizon)
        meta = across * slope * sqrt(horizon * log(8) / 2)
        assert regret.bound <= 1.25 * best + meta + 1e-9


def test_the_bounds_are_those_of_the_best_copy_and_of_the_mixture():
    numbers = {
        "horizon": 60,
        "eta": 0.05,
        "count": 3,
        "rate": 0.02,
        "penalty": 1.5,
        "radius": 0.8,
        "diameter": 1.4,
        "loss_lipschitz": 1.2,
        "constraint_lipschitz": 0.7,
        "path_length": 2.5,
    }
    start, total = 0.8**2 + 2 * 1.4 * 2.5, 1.2 + 1.5 * 0.7
    meta = log(3) / 0.02 + 0.02 * 60 * (1.4 * total) ** 2 / 8
    copies, plain = [], []
    for step in (0.05, 0.1, 0.2):
        outside = start + 2 * step * 1.2 * 1.4 * 60 + (step * 1.2) ** 2 * 60
        copies.append(start / (2 * step) + step * 1.2**2 * 30 + 1.5 * 0.7 * sqrt(60 * outside))
        plain.append(start / (2 * step) + step * total**2 * 30)
    assert bounds.step_experts_regret(**numbers) == pytest.approx(min(copies) + meta)
    assert bounds.step_experts_penalty_regret(**numbers) == pytest.approx(min(plain) + meta)


def test_outside_the_theorem_there_is_a_reason():
    unknown = taut.Setting(taut.Constants(radius=1.0), 2.0)
    regret, _ = StepExperts.tuned(K, 100).guarantees(unknown, 100)
    assert "loss_lipschitz" in regret.reason
    with pytest.raises(ValueError, match="path_length"):
        bounds.step_experts_regret(
            horizon=9,
            eta=1.0,
            count=2,
            rate=1.0,
            penalty=1.0,
            radius=1.0,
            diameter=2.0,
            loss_lipschitz=1.0,
            constraint_lipschitz=1.0,
            path_length=-1.0,
        )


def test_bounds_hold_under_attack():
    for count in (1, 2):
        known = attack.constants(count)
        learner = StepExperts.tuned(known, 24)
        attack.check(attack.ratios(learner, 24, count))
        free = dataclasses.replace(
            learner, penalty=1e-9
        )  # then the bound has no term of order T^(3/4)
        attack.check(attack.ratios(free, 24, count), {"regret": 0.2})
        attack.check(attack.ratios(StepExperts.tuned(known, 24, cuts=False), 24, count))


def test_dynamic_regret_is_below_its_bound_for_a_comparator_that_moves():
    """The best decision of every round walks along a circle: its path length enters the bound, and
    the mixture follows it."""
    horizon = 2048
    angle = 2 * np.pi * np.arange(horizon) / 256
    centre = 0.6 * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    push = np.random.default_rng(0).normal(size=(horizon, 2))
    z = {"c": push / np.linalg.norm(push, axis=1, keepdims=True), "centre": centre}

    def loss(x, z):
        return jnp.sqrt(1e-12 + jnp.sum((x - z["centre"] - 0.1 * z["c"]) ** 2))

    def disc(x, z):
        return jnp.sqrt(1e-12 + jnp.sum((x - z["centre"]) ** 2)) - 0.3

    known = taut.Constants(
        radius=1.0,
        loss_lipschitz=1.0,
        constraint_lipschitz=1.0,
        constraint_range=2.0,
        constraint_count=1,
        error_bound=1.0,
    )
    problem = taut.Problem(loss, disc, three_rounds.BALL, known)
    best = centre + 0.1 * z["c"]  # in every round the loss is zero there, and the constraint holds
    paths = {"best": best, "centre": centre}
    for cuts in (True, False):
        learner = StepExperts.tuned(known, horizon, cuts=cuts)
        run = taut.simulate(learner, problem, z, chunk=horizon, record=("decisions",))
        for u in paths.values():
            length = float(np.linalg.norm(np.diff(u, axis=0), axis=1).sum())
            regret, _ = learner.guarantees(
                taut.Setting(known, 2.0, constraints_fixed=False, path_length=length), horizon
            )
            paid = run.totals.loss[0] - np.linalg.norm(u - best, axis=1).sum()
            assert paid <= regret.bound
        assert (
            run.totals.loss[0] < 0.5 * np.linalg.norm(centre.mean(axis=0) - best, axis=1).sum()
        )  # a fixed one is worse


def test_the_attack_finds_a_learner_that_breaks_its_bound():
    @broken
    class Uphill(StepExperts):
        """Every copy moves the wrong way."""

        def step(self, state, round):
            after = super().step(state, round)
            points = jnp.stack(
                [
                    round.project(2 * old - new)
                    for old, new in zip(state.points, after.points, strict=True)
                ]
            )
            return after._replace(points=points, x=points.mean(axis=0))

    learner = StepExperts.tuned(attack.constants(), 24, penalty=1e-9)
    wrong = Uphill(learner.eta, learner.rate, learner.penalty, learner.count)
    assert attack.ratios(wrong, 24)["regret"] > 1.1
