"""Bounds near the edges of their theorems, against the same formulas in 60 digits."""

from decimal import Decimal, getcontext

import pytest

from taut import bounds

getcontext().prec = 60
NEAR = (1e-13, 1e-9, 1e-5, 1e-2)


def contraction(sigma, slope, count, kappa):
    sigma, slope, kappa = Decimal(sigma), Decimal(slope), Decimal(kappa)
    return (1 - kappa**2 * (2 - count * slope**2 / sigma) / sigma).sqrt()


@pytest.mark.parametrize("off", [*NEAR, *(-n for n in NEAR)])
@pytest.mark.parametrize(
    ("slope", "count", "kappa"), [(1.5, 1, 1.5), (1.5, 1, 1.5 * (1 - 1e-12)), (0.3, 4, 0.3)]
)
def test_the_peak_near_sigma_equal_to_m_g_squared(off, slope, count, kappa):
    sigma, eta = count * slope**2 * (1 + off), 0.01
    q = contraction(sigma, slope, count, kappa)
    numbers = {
        "eta": eta,
        "sigma": sigma,
        "constraint_lipschitz": slope,
        "constraint_count": count,
        "error_bound": kappa,
    }
    # Without losses the distance shrinks by q in a round.
    total = bounds.error_bound_violation(
        horizon=2, loss_lipschitz=0.0, initial_distance=1.0, **numbers
    )
    assert total == pytest.approx(slope * (1 + float(q)), rel=1e-12)
    peak = bounds.error_bound_peak_violation(horizon=1000, loss_lipschitz=2.0, **numbers)
    exact = Decimal(slope) * Decimal(eta) * 2 * (1 - q**999) / (1 - q)
    assert peak == pytest.approx(float(exact), rel=1e-12)


@pytest.mark.parametrize("beta", [0.0, 0.5])
@pytest.mark.parametrize("kappa", [1.0, 0.3, 1e-3])
def test_one_round_from_a_feasible_decision_has_a_bound_of_exactly_zero(kappa, beta):
    numbers = {
        "horizon": 1,
        "eta": 0.1,
        "beta": beta,
        "sigma": 3.3,
        "loss_lipschitz": 1.0,
        "constraint_lipschitz": 1.7,
        "constraint_count": 1,
        "error_bound": kappa,
    }
    assert bounds.error_bound_violation(**numbers) == 0
    assert bounds.error_bound_peak_violation(**numbers) == 0
    assert bounds.error_bound_squared_violation(**numbers) == 0


@pytest.mark.parametrize("form", ["scale-aware", "sharp"])
@pytest.mark.parametrize("off", NEAR)
def test_theorem_1_near_the_smallest_sigma(off, form):
    slope, count, eta, horizon, radius, loss = 1.3, 3, 0.07, 500, 2.0, 0.8
    sigma = (count + (form != "sharp")) * slope**2 / 2 * (1 + off)
    common = {
        "horizon": horizon,
        "eta": eta,
        "sigma": sigma,
        "radius": radius,
        "loss_lipschitz": loss,
        "constraint_lipschitz": slope,
        "constraint_count": count,
        "form": form,
    }
    e, s, r, g, f = (Decimal(value) for value in (eta, sigma, radius, slope, loss))
    k = count * g**2 / (2 * s)
    factor = 1 / (1 - k) if form == "sharp" else Decimal(count + 1)
    regret = r**2 / (2 * e) + factor * e * horizon * f**2 / 2
    assert bounds.clipped_regret(**common) == pytest.approx(float(regret), rel=1e-12)
    fixed, charged = r**2 / 2 + 2 * r * f * e * horizon, f**2 * e**2 * horizon / 2
    if form == "sharp":
        total = fixed + charged
        c = (
            (1 - k)
            * charged
            / (k * charged + (k * charged * (k * charged + (1 - k) * total)).sqrt())
        )
        squared = s * (total + charged / c) / (1 - k - k * c)
    else:
        squared = s * (fixed + (count + 1) * charged) / (1 - (count + 1) * k / count)
    assert bounds.clipped_squared_violation(**common) == pytest.approx(float(squared), rel=1e-12)


@pytest.mark.parametrize("beta", [0.5, 0.5 + 1e-10, 0.5 - 1e-10, 1e-9, 1 - 1e-9])
def test_sums_of_steps_near_powers_that_need_a_logarithm(beta):
    horizon, eta = 1000, 0.2
    found = bounds.clipped_regret(
        horizon=horizon,
        eta=eta,
        beta=beta,
        sigma=10.0,
        radius=1.0,
        diameter=2.0,
        loss_lipschitz=1.0,
        constraint_lipschitz=1.0,
        constraint_count=1,
    )
    b, low, high = Decimal(beta), Decimal("0.5"), Decimal("0.5") + horizon
    steps = Decimal(eta) * (high ** (1 - b) - low ** (1 - b)) / (1 - b)
    distance = (1 + 4 * (Decimal(horizon) ** b - 1)) / (2 * Decimal(eta))
    assert found == pytest.approx(float(distance + steps), rel=1e-12)
