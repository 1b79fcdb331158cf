"""Rates and recommendations."""

import jax.numpy as jnp
import numpy as np
import pytest

import taut
from taut.judge.rates import fit

KNOWN = {"loss_lipschitz": 1.0, "constraint_lipschitz": 2**0.5, "constraint_range": 1.0, "error_bound": 1.0}


def toy(**constants):
    known = taut.Constants(**{**KNOWN, **constants})
    return taut.Problem(lambda x, c: c @ x, lambda x: jnp.abs(x).sum() - 1, taut.Ball(1.0, shape=2), known)


def costs(seeds=3, rounds=4000):
    c = np.random.default_rng(0).uniform(size=(seeds, rounds, 2)) * (1.2, 1.0)
    return c / np.linalg.norm(c, axis=-1, keepdims=True)


def test_a_known_power_is_fitted_exactly():
    horizons = [100, 1000, 10_000]
    values = np.array([[3.0 * T**0.4 for T in horizons], [5.0 * T**0.4 for T in horizons]])
    rate = fit("violation", horizons, values, {"violation": 0.75})
    assert rate.exponent == pytest.approx(0.4)
    assert rate.low == pytest.approx(rate.high)
    assert rate.theory == 0.75
    assert rate.within
    assert np.isnan(fit("regret", horizons, -values).exponent)


def test_rates_of_clipped_ogd_lie_below_theory_and_feel_the_trade_off():
    problem = toy()
    measured = {}
    for beta in (0.5, 0.75):
        found = taut.rates(
            lambda T, beta=beta: taut.ClippedOGD.tuned(problem.constants, T, beta),
            (problem, costs()),
            [500, 1000, 2000, 4000],
            seeds=3,
            theory={"regret": max(beta, 1 - beta), "violation": 1 - beta / 2, "squared violation": 1 - beta},
        )
        measured[beta] = found["violation"].exponent
        assert all(rate.within is not False for rate in found.rates)
        assert "growth" in found.table().title
    # With the error bound of this polyhedron the violation grows like T^(1 - beta).
    assert measured[0.5] == pytest.approx(0.5, abs=0.08)
    assert measured[0.75] == pytest.approx(0.25, abs=0.1)


def test_rates_refuse_one_horizon():
    with pytest.raises(ValueError, match="horizons"):
        taut.rates(taut.ClippedOGD(0.1, 4.0), (toy(), costs()), [100], seeds=3)


def test_recommendations_follow_the_assumptions():
    assert taut.recommend(toy(), 10_000).name == "clipped-ogd"
    assert taut.recommend(toy()).name == "half-space-anytime"
    strong = toy(strong_convexity=1.0)
    assert taut.recommend(strong, 100_000).name == "half-space-strong"
    exact = taut.recommend(toy(), 10_000, feasible=taut.L1Ball(1.0, shape=2))
    assert exact.name == "projected-ogd"
    careful = taut.recommend(toy(), 10_000, per_round=True)
    assert any("every round matters" in reason for reason in careful.reasons)
    assert np.isfinite(careful.candidates[0].bound("peak violation"))


def test_a_recommendation_gives_numbers_and_reasons_for_what_it_left_out():
    advice = taut.recommend(toy(), 10_000)
    limits = {one.quantity: one.bound for one in advice.guarantees}
    assert limits["regret"] == pytest.approx(
        taut.bounds.clipped_regret(
            horizon=10_000, eta=float(advice.learner.eta.value), sigma=float(advice.learner.sigma), radius=1.0,
            loss_lipschitz=1.0, constraint_lipschitz=2**0.5, constraint_count=1, form="sharp",
        )
    )  # fmt: skip
    remarks = {one.method.name: one.reason for one in advice.candidates}
    assert "strongly convex" in remarks["clipped-ogd-strong"]
    assert "slack" in remarks["ogd"]
    assert advice.to_dict()["name"] == advice.name


def test_the_bound_optimal_rule_beats_both_other_rules_on_their_own_bound():
    known = toy(loss_lipschitz=3.0, loss_range=6.0).constants
    horizon, weight = 10_000, 0.3

    def total(learner):
        return taut.bounds.clipped_objective(
            eta=float(learner.eta.value), sigma=float(learner.sigma), constants=known, horizon=horizon, weight=weight
        )

    best = total(taut.ClippedOGD.tuned(known, horizon, rule="bound-optimal", weight=weight))
    for rule in ("paper", "scale-aware"):
        assert best < 0.95 * total(taut.ClippedOGD.tuned(known, horizon, rule=rule))


def test_unknown_constants_are_named():
    problem = taut.Problem(lambda x, c: c @ x, lambda x: x[0], taut.Ball(1.0, shape=2))
    with pytest.raises(ValueError, match="loss_lipschitz"):
        taut.recommend(problem, 100)
