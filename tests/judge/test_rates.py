"""Growth rates: exponents fitted to measurements, and those of the learner's own bounds."""

import jax.numpy as jnp
import numpy as np
import pytest

import taut
from taut.judge.rates import fit

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


def costs(seeds=3, rounds=4000):
    c = np.random.default_rng(0).uniform(size=(seeds, rounds, 2)) * (1.2, 1.0)
    return c / np.linalg.norm(c, axis=-1, keepdims=True)


def test_a_known_power_is_fitted_exactly():
    horizons = [100, 1000, 10_000]
    values = np.array([[3.0 * T**0.4 for T in horizons], [5.0 * T**0.4 for T in horizons]])
    rate = fit("violation", horizons, values, 0.75)
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
        )
        # The learner's own bounds: R^2 / (2 eta) dominates regret, and the error bound makes
        # violations follow the step.
        assert found["regret"].theory == pytest.approx(beta, abs=0.02)
        assert found["violation"].theory == pytest.approx(1 - beta, abs=0.02)
        measured[beta] = found["violation"].exponent
        # Slopes over finite horizons are near the exponents, not below them.
        assert all(
            rate.exponent <= rate.theory + 0.1 for rate in found.rates if np.isfinite(rate.exponent)
        )
        assert "Growth" in str(found)
    # With the error bound of this polyhedron the violation grows like T^(1 - beta).
    assert measured[0.5] == pytest.approx(0.5, abs=0.08)
    assert measured[0.75] == pytest.approx(0.25, abs=0.1)


def test_rates_refuse_one_horizon():
    with pytest.raises(ValueError, match="horizons"):
        taut.rates(taut.ClippedOGD(0.1, 4.0), (toy(), costs()), [100], seeds=3)


def test_theory_is_translated_to_what_is_scored():
    problem = toy()
    found = taut.rates(
        lambda T: taut.ClippedOGD.tuned(taut.squared(problem).constants, T, 0.5),
        lambda T: (taut.squared(problem), costs()[:, :T]),
        [250, 1000],
        seeds=3,
        score=problem,
    )
    # squares of squares grow like T^(3/4), so sums of the scored constraint at most like T^(7/8)
    assert found["violation"].theory == pytest.approx(0.875, abs=0.02)
    assert found["squared violation"].theory == pytest.approx(0.75, abs=0.02)
