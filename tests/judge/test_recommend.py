"""Recommendations: which learner, with which parameters, and why."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import taut
from taut.judge.guarantees import guarantees, setting_of

KNOWN = {
    "loss_lipschitz": 1.0,
    "constraint_lipschitz": 2**0.5,
    "constraint_range": 1.0,
    "error_bound": 1.0,
}


def toy(**constants):
    known = taut.Constants(**{**KNOWN, **constants})
    return taut.Problem(
        lambda x, c: c @ x, lambda x: jnp.abs(x).sum() - 1, taut.Ball(1.0, shape=2), known
    )


def hidden():
    """The toy with a constraint of which nothing is proven."""

    def diamond(x):
        return jax.lax.fori_loop(0, 1, lambda _, y: y, jnp.abs(x).sum() - 1)

    known = taut.Constants(**KNOWN)
    return taut.Problem(lambda x, c: c @ x, diamond, taut.Ball(1.0, shape=2), known)


def test_recommendations_follow_the_assumptions():
    assert taut.recommend(hidden(), 10_000).name == "clipped-ogd"
    assert taut.recommend(toy(), 10_000).name == "half-space-horizon"
    assert taut.recommend(toy()).name == "half-space-anytime"
    strong = toy(strong_convexity=1.0)
    assert taut.recommend(strong, 100_000).name == "half-space-strong"
    exact = taut.recommend(toy(), 10_000, feasible=taut.L1Ball(1.0, shape=2), weight=100.0)
    assert exact.name == "projected-ogd"
    careful = taut.recommend(toy(), 10_000, per_round=True)
    assert any("every round matters" in reason for reason in careful.reasons)
    assert np.isfinite(careful.candidates[0].bound("peak violation"))


def test_a_recommendation_gives_numbers_and_reasons_for_what_it_left_out():
    advice = taut.recommend(hidden(), 10_000)
    limits = {one.quantity: one.bound for one in advice.guarantees}
    assert limits["regret"] == pytest.approx(
        taut.bounds.clipped_regret(
            horizon=10_000,
            eta=float(advice.learner.eta.value),
            sigma=float(advice.learner.sigma),
            radius=1.0,
            loss_lipschitz=1.0,
            constraint_lipschitz=2**0.5,
            constraint_count=1,
            form="sharp",
        )
    )
    remarks = {one.method.name: one.reason for one in advice.candidates}
    assert "strongly convex" in remarks["clipped-ogd-strong"]
    assert "slack" in remarks["ogd"]
    assert advice.to_dict()["name"] == advice.name


def test_the_bound_optimal_rule_beats_both_other_rules_on_their_own_bound():
    known = toy(loss_lipschitz=3.0, loss_range=6.0).constants
    horizon, weight = 10_000, 0.3

    def total(learner):
        return taut.bounds.clipped_objective(
            eta=float(learner.eta.value),
            sigma=float(learner.sigma),
            constants=known,
            horizon=horizon,
            weight=weight,
        )

    best = total(taut.ClippedOGD.tuned(known, horizon, rule="bound-optimal", weight=weight))
    for rule in ("paper", "scale-aware"):
        assert best < 0.95 * total(taut.ClippedOGD.tuned(known, horizon, rule=rule))


def test_without_constants_the_default_learner_is_recommended():
    problem = taut.Problem(lambda x, c: c @ x, lambda x: x[0], taut.Ball(1.0, shape=2))
    advice = taut.recommend(problem, 100)
    assert advice.name == "half-space"
    assert advice.learner == taut.learner("half-space", problem)
    assert any(
        reason.startswith("loss_lipschitz (G_f) unknown") for reason in advice.reasons
    )  # the constants of the constraint are proven
    costs = np.random.default_rng(0).normal(size=(100, 2))
    told = taut.recommend(problem, 100, stream=costs)
    assert len(told.candidates) > 20
    assert not any("unknown" in reason for reason in told.reasons)


@pytest.mark.parametrize("weight", [0.3, 1.0, 5.0])
@pytest.mark.parametrize("centre", [0.0, 0.9])
def test_no_grid_beats_the_recommended_parameters_if_only_a_slater_point_is_known(weight, centre):
    def hidden(x):  # an operation of which nothing is known but values
        return jax.lax.fori_loop(0, 2, lambda _, y: y, jnp.abs(x).sum() - 1)

    problem = taut.Problem(
        lambda x, c: c @ x,
        hidden,
        taut.Ball(3.0, centre=np.array([centre, centre])),
        taut.Constants(loss_lipschitz=1.0, constraint_lipschitz=2**0.5, constraint_range=5.0),
    )
    setting, horizon = setting_of(problem, facts=problem.facts()), 10_000

    def price(learner):
        found = {g.quantity: g.bound for g in guarantees(learner, setting, horizon)}
        return found["regret"] + weight * found["violation"]

    chosen = taut.recommend(problem, horizon, weight=weight)
    assert chosen.name == "clipped-ogd"
    grid = [
        (eta, sigma)
        for eta in np.geomspace(1e-4, 1, 41)
        for sigma in 1.0001 * np.geomspace(1, 1e3, 31)
    ]
    best = min(price(taut.ClippedOGD(eta, sigma)) for eta, sigma in grid)
    assert price(chosen.learner) <= best * 1.001


def test_a_learner_that_measures_better_is_mentioned_if_its_bound_is_nearly_as_small():
    advice = taut.recommend(hidden(), 10_000)
    prices = {
        one.method.name: one.bound("regret") + one.bound("violation") for one in advice.candidates
    }
    ratio = prices["half-space-horizon"] / prices["clipped-ogd"]
    assert 1 < ratio <= 2
    assert any(
        "half-space-horizon" in reason and f"{ratio:.2g} times" in reason
        for reason in advice.reasons
    )
    alone = taut.recommend(taut.testing.problems.POLYHEDRON.problem, 1000)
    assert alone.name == "half-space-horizon"
    assert not any("times as large" in reason for reason in alone.reasons)


def test_bounds_that_every_learner_satisfies_are_named():
    known = taut.Constants(loss_lipschitz=1.0, constraint_lipschitz=2**0.5, error_bound=1.0)
    problem = taut.Problem(
        lambda x, c: c @ x, lambda x: jnp.abs(x).sum() - 1, taut.Ball(1.0, shape=2), known
    )
    (reason,) = [
        one
        for one in taut.recommend(problem, horizon=3).reasons
        if one.startswith("At T = 3 these bounds say nothing")
    ]
    assert "peak violation (at most 0.4142)" in reason  # sqrt 2 - 1
    assert "squared violation (at most 0.5147)" in reason  # 3 (sqrt 2 - 1)^2
    later = [one for one in taut.recommend(problem, horizon=10**6).reasons if "say nothing" in one]
    assert not any(
        " violation (" in one.replace("peak violation", "").replace("squared violation", "")
        for one in later
    )
