"""Problems in other units: constants of size 1, the same decisions, the same best decision, and
practical horizons."""

import cvxpy as cp
import jax.numpy as jnp
import numpy as np
import pytest

import taut

COST, PRICE = np.array([0.2, 0.12, 0.14]), np.array([1.5, 1.0, 0.6])
MOST = np.array([2000.0, 1500.0, 1800.0])
DEMAND = 900 + 400 * np.sin(np.arange(60) / 9) + 30 * np.random.default_rng(0).normal(size=60)
KNOWN = taut.Constants(
    loss_lipschitz=9e3,
    constraint_lipschitz=60.0,
    strong_convexity=0.12,
    slater=5.0,
    error_bound=0.3,
)
MEGAWATTS = taut.Problem(
    lambda x, d: COST @ (x * x) / 2 + PRICE @ x + (x.sum() - d) ** 2 / 2,
    lambda x: jnp.stack([x @ x / 100 - 1e4, x[0] - 700]),
    taut.Box(0.0, MOST),
    KNOWN,
    constraint_names=("emission", "line"),
)


def test_units_are_those_of_the_constants():
    small = taut.rescaled(MEGAWATTS)
    radius = np.linalg.norm(MOST) / 2
    assert (small.units.decision, small.units.loss, small.units.constraint) == pytest.approx(
        (radius, 9e3 * radius, 60 * radius)
    )
    assert float(small.domain.radius) == pytest.approx(1.0)
    constants = small.constants
    assert (constants.radius, constants.loss_lipschitz, constants.constraint_lipschitz) == (
        1.0,
        1.0,
        1.0,
    )
    assert constants.strong_convexity == pytest.approx(0.12 * radius / 9e3)
    assert constants.slater == pytest.approx(5.0 / (60 * radius))
    assert constants.error_bound == pytest.approx(0.3 / 60)
    assert constants.source("slater") == "given"
    assert small.constraint_names == ("emission", "line")
    y, d = jnp.asarray([0.1, 0.2, 0.3]), 800.0
    assert float(small.loss(y, d)) == pytest.approx(
        float(MEGAWATTS.loss(radius * y, d)) / (9e3 * radius)
    )
    np.testing.assert_allclose(
        small.constraints.values(y, None),
        MEGAWATTS.constraints.values(radius * y, None) / (60 * radius),
        rtol=1e-12,
    )


@pytest.mark.parametrize(
    "domain",
    [
        taut.Ball(3.0, centre=[1.0, -2.0]),
        taut.L1Ball(0.2, shape=2),
        taut.Box([-1.0, 4.0], [2.0, 9.0]),
        taut.Simplex(2, 7.0),
        taut.Product(taut.Ball(3.0, shape=1), taut.Box(1.0, 2.0, shape=1)),
    ],
    ids=lambda domain: type(domain).__name__,
)
def test_scaled_domains(domain):
    scaled = domain.scaled(0.25)
    assert float(scaled.radius) == pytest.approx(0.25 * float(domain.radius))
    for x in np.random.default_rng(1).normal(size=(5, 2)) * 5:
        np.testing.assert_allclose(
            scaled.project(x / 4), np.asarray(domain.project(x)) / 4, rtol=1e-12, atol=1e-12
        )


def test_the_best_decision_is_the_same():
    small = taut.rescaled(MEGAWATTS)
    here, there = taut.hindsight(small, DEMAND), taut.hindsight(MEGAWATTS, DEMAND)
    assert small.present(here.decision) == pytest.approx(there.decision, rel=1e-6)
    assert here.loss * small.units.loss == pytest.approx(there.loss, rel=1e-7)
    assert here.multipliers * small.units.loss / small.units.constraint == pytest.approx(
        there.multipliers, rel=1e-4, abs=1e-3
    )


def test_methods_that_ask_for_impractical_horizons_run():
    with pytest.raises(ValueError, match="horizon: got 60; expected at least"):
        taut.SaddlePoint.mahdavi(MEGAWATTS.constants, 60)
    small = taut.rescaled(MEGAWATTS)
    learner = taut.SaddlePoint.mahdavi(small.constants, 60)
    run = taut.simulate(learner, small, DEMAND, record=("loss", "excess", "decisions"))
    decisions = small.present(run.decisions)
    assert decisions.shape == run.decisions.shape
    assert decisions.max() > 10  # megawatts
    player = taut.Player(learner, small)
    for t in range(3):
        np.testing.assert_allclose(player.decision, decisions[0, t], rtol=1e-9)
        player.observe(DEMAND[t])


def test_models_are_solved_in_other_units():
    x, d = cp.Variable(2, name="x"), cp.Parameter(name="d", bounds=[0, 2000])
    model = taut.from_cvxpy(cp.square(cp.sum(x) - d), [x >= 0, x <= 900, x[0] <= 2 * x[1]])
    small = taut.rescaled(model)
    here, there = taut.hindsight(small, {d: DEMAND}), taut.hindsight(model, {d: DEMAND})
    assert here.loss * small.units.loss == pytest.approx(there.loss, rel=1e-8)
    assert taut.tightened(small, 1e-3).constants.slater == pytest.approx(
        small.constants.slater - 1e-3
    )


def test_what_is_missing_is_named():
    with pytest.raises(ValueError, match=r"loss_lipschitz \(G_f\)"):
        taut.rescaled(taut.Problem(lambda x, z: z @ x, lambda x: x.sum(), taut.Ball(1.0, shape=2)))
    with pytest.raises(ValueError, match="constraint_lipschitz: got 0"):
        taut.rescaled(MEGAWATTS.with_constants(KNOWN.with_values(constraint_lipschitz=0.0)))
    with pytest.raises(TypeError, match="problem: got 3"):
        taut.rescaled(3)

    class Own(taut.Ball, leaves=("radius", "origin")):
        scaled = taut.Domain.scaled

    own = taut.Problem(lambda x, z: z @ x, lambda x: x.sum(), Own(1.0, shape=2), KNOWN)
    with pytest.raises(TypeError, match="domain: Own has no method scaled"):
        taut.rescaled(own)
