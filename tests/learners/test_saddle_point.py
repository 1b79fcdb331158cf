"""The saddle point family: conformance, three rounds by hand, recursions, step lengths and
inequalities."""

from math import log, sqrt

import jax.numpy as jnp
import numpy as np
import pytest

import taut
from learners.harness import (
    R2,
    R3,
    T,
    check_formula,
    check_golden,
    check_inequality,
    check_law,
    conforms,
    known,
    positive,
)
from taut.learners.saddle_point import CARDS
from taut.testing import parametrize_with_checks, problems


@parametrize_with_checks(CARDS)
def test_conformance(card, check):
    conforms(card, check)


# -- Three rounds by hand
# ----------------------------------------------------------------------------------------------

GOLDEN = {
    # a = R sqrt(2 G^2 + 2 D^2) = 2 sqrt(4 + 12) = 8, eta = R^2 / (a sqrt(T)) = 4 / (8 * 3) = 1/6;
    # delta = (1 - sqrt(1 - 8 eta^2 4)) / (4 eta^2) = (1 - 1/3) * 9 = 6, theta = delta eta = 1.
    "ogd": (
        known(2.0, R2, constraint_range=sqrt(6)),
        9,
        [(-3, -3), (3, 3), (0.5, 1)],
        # g = -0.5:                x_2 = 0 + 3/6,   lambda_2 = [0 + (-0.5 - 0)/6]_+ = 0
        # g = 0.5:                 x_3 = 0.5 - 3/6, lambda_3 = 0 + (0.5 - 0)/6 = 1/12
        # g = -0.5, pull 1/12:     x_4 = -(c_3 + 1/12)/6,  lambda_4 = [1/12 + (-0.5 - 1/12)/6]_+ =
        # [-1/72]_+ = 0
        [(0.5, 0.5), (0, 0), (-7 / 72, -13 / 72)],
        [0, 0, 1 / 12, 0],
    ),
    "ogd-clipped": (
        known(2.0, R2, constraint_range=sqrt(6)),
        9,
        [(-3, -3), (3, 3), (0.5, 1)],
        # as above, but in round 3 g < 0: no pull, and the multiplier only decays: 1/12 + (0 -
        # 1/12)/6 = 5/72
        [(0.5, 0.5), (0, 0), (-1 / 12, -1 / 6)],
        [0, 0, 1 / 12, 5 / 72],
    ),
    # R/G = 1/2, 6 R G = 6: eta_t = 1/(2 sqrt t), theta_t = 6/sqrt t, mu_t = 1/(theta_t (t+1)) =
    # sqrt(t) / (6 (t+1)).
    "a-ogd": (
        known(R2 / 2, 1.0),
        4,
        [(-1, -1), (R2, R2), (0.5, 1)],
        # x_2 = 1/2; lambda_2 = [0 - 0.5 mu_1]_+ = 0
        # x_3 = 0.5 - sqrt(2)/(2 sqrt(2)) = 0; lambda_3 = 0.5 mu_2 = 0.5 sqrt(2)/18 = sqrt(2)/36
        # x_4 = -(c_3 + sqrt(2)/36)/(2 sqrt 3); lambda_4 = [sqrt(2)/36 (1 - 1/4) - 0.5 sqrt(3)/24]_+
        # = [0.029 - 0.036]_+
        [(0.5, 0.5), (0, 0), (-(0.5 + R2 / 36) / (2 * R3), -(1 + R2 / 36) / (2 * R3))],
        [0, 0, R2 / 36, 0],
    ),
    "a-ogd-clipped": (
        known(R2 / 2, 1.0),
        4,
        [(-1, -1), (R2, R2), (0.5, 1)],
        # in round 3 g < 0: no pull; mu_t theta_t = 1/(t+1), so the multiplier keeps 3/4 of itself
        [(0.5, 0.5), (0, 0), (-0.25 / R3, -0.5 / R3)],
        [0, 0, R2 / 36, R2 / 48],
    ),
    # H = 2, G^2 = 2: eta_t = 1/(2t) = 1/2, 1/4, 1/6; theta_t = 6/sqrt t, mu_t as above.
    "a-ogd-strong": (
        known(2.0, 1.0, strong_convexity=2.0),
        4,
        [(-1, -1), (2, 2), (0.5, 1)],
        [(0.5, 0.5), (0, 0), (-(0.5 + R2 / 36) / 6, -(1 + R2 / 36) / 6)],
        [0, 0, R2 / 36, 0],
    ),
    "a-ogd-strong-clipped": (
        known(2.0, 1.0, strong_convexity=2.0),
        4,
        [(-1, -1), (2, 2), (0.5, 1)],
        [(0.5, 0.5), (0, 0), (-1 / 12, -1 / 6)],
        [0, 0, R2 / 36, R2 / 48],
    ),
}


@pytest.mark.parametrize("name", [card.name for card in CARDS])
def test_three_rounds_worked_by_hand(name):
    check_golden(name, *GOLDEN[name])


# -- The published formula in plain NumPy
# ------------------------------------------------------------------------------


def saddle(w, data, eta, mu, theta, clip):
    """Saddle point: descent in x and ascent in lambda of f + lambda g - (theta/2) lambda^2, with g
    or [g]_+."""
    x, weight, out = w.x1, np.zeros(w.m), []
    for t, c in enumerate(data, 1):
        out.append(x)
        g, rows = w.g(x)
        if clip:
            rows, g = rows * (g > 0)[:, None], positive(g)
        x, weight = (
            w.project(x - eta(t) * (w.df(x, c) + weight @ rows)),
            positive(weight + mu(t) * (g - theta(t) * weight)),
        )
    return out


def mahdavi(w, data, clip):
    a = w.R * sqrt((w.m + 1) * w.G**2 + 2 * w.m * w.D**2)
    eta = w.R**2 / (a * sqrt(len(data)))
    delta = (1 - sqrt(1 - 8 * eta**2 * (w.m + 1) * w.G**2)) / (4 * eta**2)
    return saddle(w, data, lambda t: eta, lambda t: eta, lambda t: delta * eta, clip)


def jenatton(w, data, clip, beta=0.5):
    def theta(t):
        return 6 * w.R * w.G / t**beta

    return saddle(
        w, data, lambda t: w.R / (w.G * t**beta), lambda t: 1 / (theta(t) * (t + 1)), theta, clip
    )


def jenatton_strong(w, data, clip, beta=0.5):
    def theta(t):
        return 6 * w.G**2 / (w.H * t**beta)

    return saddle(w, data, lambda t: 1 / (w.H * t), lambda t: 1 / (theta(t) * (t + 1)), theta, clip)


FORMULAS = {
    "ogd": lambda w, z: mahdavi(w, z, False),
    "ogd-clipped": lambda w, z: mahdavi(w, z, True),
    "a-ogd": lambda w, z: jenatton(w, z, False),
    "a-ogd-clipped": lambda w, z: jenatton(w, z, True),
    "a-ogd-strong": lambda w, z: jenatton_strong(w, z, False),
    "a-ogd-strong-clipped": lambda w, z: jenatton_strong(w, z, True),
}


@pytest.mark.parametrize("name", [card.name for card in CARDS])
def test_learner_follows_its_formula(name):
    check_formula(name, FORMULAS[name])


# -- Step lengths
# ------------------------------------------------------------------------------------------------------

LAWS = {
    "ogd": lambda t: 1.0 + 0 * t,
    "ogd-clipped": lambda t: 1.0 + 0 * t,
    "a-ogd": lambda t: t**-0.5,
    "a-ogd-clipped": lambda t: t**-0.5,
    "a-ogd-strong": lambda t: 1 / t,
    "a-ogd-strong-clipped": lambda t: 1 / t,
}
"""How the step length depends on the round, in the reference of each method."""


@pytest.mark.parametrize("name", [card.name for card in CARDS])
def test_schedule_is_that_of_the_reference(name):
    check_law(name, LAWS[name])


# -- Inequalities
# ------------------------------------------------------------------------------------------------------


def _mahdavi(p, values):
    """Mahdavi et al.: the key inequality behind their Theorem 4; with [g]_+ for g, behind
    Proposition 4.

    regret + sum_i [sum_t g_i]_+^2 / (2 (delta eta T + m/eta)) <= R^2 / (2 eta) + (eta T / 2)((m+1)
    G^2 + 2 m D^2)
    """
    spread = (p.m + 1) * p.G**2
    eta = p.R / sqrt((spread + 2 * p.m * p.D**2) * T)
    delta = (1 - sqrt(1 - 8 * eta**2 * spread)) / (4 * eta**2)
    sums = np.maximum(values.sum(axis=1), 0)
    left = p.regret + np.sum(sums**2, axis=-1) / (2 * (delta * eta * T + p.m / eta))
    yield left, p.R**2 / (2 * eta) + eta * T / 2 * (spread + 2 * p.m * p.D**2)


def _jenatton(p, values, beta=0.5):
    most = (p.R * p.G + p.D**2 / (6 * beta * p.R * p.G)) * T**beta + 2 * p.R * p.G / (
        1 - beta
    ) * T ** (1 - beta)
    yield p.regret, most
    yield (
        values.sum(axis=(1, 2)),
        sqrt(24 * p.R * p.G / (1 - beta) * (most + p.F * T) * T ** (1 - beta)),
    )


def _jenatton_strong(p, values, beta=0.5):
    most = p.G**2 / p.H * (1 + log(T)) + p.D**2 * p.H / (6 * p.G**2 * beta) * T**beta
    yield p.regret, most
    yield (
        values.sum(axis=(1, 2)),
        sqrt(24 * p.G**2 / p.H / (1 - beta) * (most + p.F * T) * T ** (1 - beta)),
    )


INEQUALITIES = {
    "ogd": lambda p: _mahdavi(p, p.values),
    "ogd-clipped": lambda p: _mahdavi(p, p.clipped),
    "a-ogd": lambda p: _jenatton(p, p.values),
    "a-ogd-clipped": lambda p: _jenatton(p, p.clipped),
    "a-ogd-strong": lambda p: _jenatton_strong(p, p.values),
    "a-ogd-strong-clipped": lambda p: _jenatton_strong(p, p.clipped),
}
REACTING = {"ogd": (problems.TOY,), "a-ogd": (problems.TOY,)}


@pytest.mark.parametrize("name", [card.name for card in CARDS])
def test_inequalities_hold_on_all_runs(name):
    check_inequality(name, INEQUALITIES[name], REACTING.get(name, ()))


# -- What the formulas imply
# -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("beta", np.round(np.arange(0.05, 1.0, 0.1), 2))
@pytest.mark.parametrize("modulus", [0.0, 0.5, 2.0])
def test_jenatton_conditions(beta, modulus):
    """The three sufficient conditions of Jenatton et al., two of them for t >= 2, from the
    learner's own schedules.

    1/mu_t - 1/mu_{t-1} - theta_t <= 0;  eta_t G^2 + mu_t theta_t^2 - theta_t/2 <= 0;  1/eta_t -
    1/eta_{t-1} - H summed
    """
    radius, slope = 1.7, 2.3
    known = taut.Constants(
        radius=radius,
        loss_lipschitz=1.1,
        constraint_lipschitz=slope,
        constraint_count=1,
        strong_convexity=modulus,
    )
    make = taut.SaddlePoint.jenatton_strongly_convex if modulus else taut.SaddlePoint.jenatton
    learner = make(known, beta=float(beta))
    t = jnp.arange(1, 2001)
    eta, mu, theta = (
        np.asarray(s(t, jnp.float64)) for s in (learner.eta, learner.mu, learner.theta)
    )
    c1 = 1 / mu[1:] - 1 / mu[:-1] - theta[1:]
    c2 = eta * slope**2 + mu * theta**2 - theta / 2
    c3 = np.cumsum(1 / eta[1:] - 1 / eta[:-1] - modulus)
    assert c1.max() <= 1e-9 * theta.max()
    assert c2[1:].max() <= 1e-9 * theta.max()
    if modulus:
        np.testing.assert_allclose(c3, 0, atol=1e-9)
    else:
        np.testing.assert_allclose(
            c3, slope / radius * (np.arange(2, 2001) ** float(beta) - 1), rtol=1e-9
        )


@pytest.mark.parametrize("count", [1, 5])
@pytest.mark.parametrize("horizon", [200, 20_000, 10**9])
def test_mahdavi_condition_on_delta(horizon, count):
    """delta is the smallest solution of delta >= (m+1) G^2 + 2 delta^2 eta^2, between (m+1) G^2 and
    twice that."""
    known = taut.Constants(
        radius=3.0,
        loss_lipschitz=2.0,
        constraint_lipschitz=0.7,
        constraint_range=1.2,
        constraint_count=count,
    )
    learner = taut.SaddlePoint.mahdavi(known, horizon)
    eta, delta = learner.eta.value, learner.theta.value / learner.eta.value
    spread = (count + 1) * 4.0
    assert delta == pytest.approx(spread + 2 * delta**2 * eta**2, rel=1e-12)
    assert spread < delta <= 2 * spread
    smaller = 0.999 * delta
    assert smaller < spread + 2 * smaller**2 * eta**2


def test_mahdavi_names_the_shortest_horizon():
    known = taut.Constants(
        radius=3.0,
        loss_lipschitz=2.0,
        constraint_lipschitz=0.7,
        constraint_range=1.2,
        constraint_count=1,
    )
    least = next(
        n for n in range(1, 200) if 8 * 9 / (n * (8 + 2 * 1.44)) * 8 <= 1
    )  # 8 eta^2 (m+1) G^2 <= 1
    taut.SaddlePoint.mahdavi(known, least)
    with pytest.raises(ValueError, match=rf"horizon: got {least - 1}; expected at least {least} "):
        taut.SaddlePoint.mahdavi(known, least - 1)
