"""The clipped ogd family: conformance, three rounds by hand, recursions, step lengths and
inequalities."""

from math import log2, sqrt

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
from taut.learners.clipped_ogd import CARDS
from taut.testing import parametrize_with_checks, playing, problems
from taut.testing.playing import shared_run, shared_stream, tuned


@parametrize_with_checks(CARDS)
def test_conformance(card, check):
    conforms(card, check)


# -- Three rounds by hand
# ----------------------------------------------------------------------------------------------

GOLDEN = {
    # sigma = 2 G_g^2 / (2 (1 - 1/2)) = 4; eta = R / (G_f sqrt(2) sqrt(T)) = 2 / (sqrt(2) sqrt(2)
    # sqrt(4)) = 1/2.
    "clipped-ogd": (
        known(2.0, R2),
        4,
        [(-1, -0.5), (-1, 0), (0.5, 1)],
        # g(x_1) = -0.5 is no violation:        x_2 = 0 - 1/2 c_1
        # g(x_2) = 0.25, 0.25/4 = 0.0625:       x_3 = (0.5 + 0.5 - 0.0625, 0.25 - 0.0625), its first
        # entry cut at 0.75 g(x_3) = 0.4375, 0.4375/4 = 0.109375: x_4 = (0.75 - 0.25 - 0.109375,
        # 0.1875 - 0.5 - 0.109375), g(x_4) < 0
        [(0.5, 0.25), (0.75, 0.1875), (0.390625, -0.421875)],
        # [g]_+ / (4 * 1/2)
        [0, 0.125, 0.21875, 0],
    ),
    # G = max(2, sqrt(2)) = 2 serves both: sigma = 2 * 4 = 8, eta = 1 / (T^(1/2) G sqrt(2 R)) = 1 /
    # (1 * 2 * 2) = 1/4.
    "clipped-ogd-paper": (
        known(2.0, 2.0),
        1,
        [(-1, -0.5), (-1, 0), (0.5, 1)],
        # g = -0.5, -0.125, 0.125: only the third round has a feasibility step, 0.125/8 = 0.015625
        # x_4 = (0.5 - 0.125 - 0.015625, 0.125 - 0.25 - 0.015625), g(x_4) < 0
        [(0.25, 0.125), (0.5, 0.125), (0.359375, -0.140625)],
        # 0.125 / (8 * 1/4)
        [0, 0, 0.0625, 0],
    ),
    # H = 1: eta_t = 1/(t+1) = 1/2, 1/3, 1/4; sigma = 2 G_g^2 = 4, whatever G_f is.
    "clipped-ogd-strong": (
        known(2.0, 2.0, strong_convexity=1.0),
        4,
        [(-1, -0.5), (-1, 0), (0.5, 1)],
        # g(x_2) = 0.25:   x_3 = (0.5 + 1/3 - 0.0625, 0.25 - 0.0625) = (0.77.. cut at 0.75, 0.1875)
        # g(x_3) = 0.4375: x_4 = (0.75 - 0.125 - 0.109375, 0.1875 - 0.25 - 0.109375), g(x_4) =
        # -0.15625
        [(0.5, 0.25), (0.75, 0.1875), (0.515625, -0.171875)],
        # 0.25 / (4/3), 0.4375 / (4/4)
        [0, 0.1875, 0.4375, 0],
    ),
    # eta_t = R / (G_f sqrt(2 t)) = 1 / (2 sqrt(t)), sigma = 4.
    "clipped-ogd-anytime": (
        known(1.0, R2),
        4,
        [(-1, -0.5), (-1, 0), (0.5, 1)],
        # x_3 = (0.5 + 1/(2 sqrt 2) - 0.0625, 0.1875) = (0.79.. cut at 0.75, 0.1875)
        # x_4 = (0.75 - 1/(4 sqrt 3) - 0.109375, 0.1875 - 1/(2 sqrt 3) - 0.109375)
        [(0.5, 0.25), (0.75, 0.1875), (0.640625 - 0.25 / R3, 0.078125 - 0.5 / R3)],
        # 0.25 / (4/(2 sqrt 2)), 0.4375 / (4/(2 sqrt 3))
        [0, 0.125 * R2, 0.21875 * R3, 0],
    ),
    # Horizons 1, 2, 4: eta = 2 / (sqrt(2) sqrt(2) 2^(k/2)) = 1, 1/sqrt(2), 1/2; rounds 1 | 2 3 | 4
    # 5 6 7.
    "clipped-ogd-doubling": (
        known(2.0, R2),
        4,
        [(-1, -0.5), (-1, 0), (0.5, 1)],
        # round 1 ends its epoch: x_2 = (0, 0); round 2: x_3 = 0 + (1, 0)/sqrt(2); round 3 ends its
        # epoch: x_4 = (0, 0)
        [(0, 0), (1 / R2, 0), (0, 0)],
        # g(x_3) = 1/sqrt(2) - 1/2, over 4 / sqrt(2)
        [0, 0, (1 / R2 - 0.5) * R2 / 4, 0],
    ),
}


@pytest.mark.parametrize("name", [card.name for card in CARDS])
def test_three_rounds_worked_by_hand(name):
    check_golden(name, *GOLDEN[name])


# -- The published formula in plain NumPy
# ------------------------------------------------------------------------------


def clipped(w, data, eta, sigma):
    """Clipped-OGD: x <- P_B(x - eta_t df - (1/sigma) sum_i [g_i]_+ dg_i)."""
    x, out = w.x1, []
    for t, c in enumerate(data, 1):
        out.append(x)
        g, rows = w.g(x)
        x = w.project(x - eta(t) * w.df(x, c) - positive(g) @ rows / sigma)
    return out


def doubling(w, data):
    """Clipped-OGD restarted at the centre with horizon 2^k when round 2^k comes."""
    sigma, out = (w.m + 1) * w.Gg**2, []
    for k in range(int(log2(len(data))) + 1):
        eta = w.R / (w.Gf * sqrt((w.m + 1) * 2**k))
        out += clipped(w, data[2**k - 1 : 2 ** (k + 1) - 1], lambda t, eta=eta: eta, sigma)
    return out


FORMULAS = {
    "clipped-ogd": lambda w, z: clipped(
        w, z, lambda t: w.R / (w.Gf * sqrt((w.m + 1) * len(z))), (w.m + 1) * w.Gg**2
    ),
    "clipped-ogd-paper": lambda w, z: clipped(
        w, z, lambda t: 1 / (sqrt(len(z)) * w.G * sqrt(w.R * (w.m + 1))), (w.m + 1) * w.G**2
    ),
    "clipped-ogd-strong": lambda w, z: clipped(
        w, z, lambda t: 1 / (w.H * (t + 1)), (w.m + 1) * w.Gg**2
    ),
    "clipped-ogd-anytime": lambda w, z: clipped(
        w, z, lambda t: w.R / (w.Gf * sqrt((w.m + 1) * t)), (w.m + 1) * w.Gg**2
    ),
    "clipped-ogd-doubling": doubling,
}


@pytest.mark.parametrize("name", [card.name for card in CARDS])
def test_learner_follows_its_formula(name):
    check_formula(name, FORMULAS[name])


# -- Step lengths
# ------------------------------------------------------------------------------------------------------

LAWS = {
    "clipped-ogd": lambda t: 1.0 + 0 * t,
    "clipped-ogd-paper": lambda t: 1.0 + 0 * t,
    "clipped-ogd-strong": lambda t: 1 / (t + 1),
    "clipped-ogd-anytime": lambda t: t**-0.5,
    "clipped-ogd-doubling": lambda t: (
        2.0 ** (-np.floor(np.log2(t)) / 2)
    ),  # epoch k begins with round 2^k,
}
"""How the step length depends on the round, in the reference of each method."""


@pytest.mark.parametrize("name", [card.name for card in CARDS])
def test_schedule_is_that_of_the_reference(name):
    check_law(name, LAWS[name])


# -- Inequalities
# ------------------------------------------------------------------------------------------------------


def weighted_squares(p, eta, sigma):
    """sum_t (alpha / (sigma eta_t)) sum_i [g_i]_+^2 with alpha = 1/2."""
    return (0.5 / (sigma * eta) * np.sum(p.clipped**2, axis=-1)).sum(axis=-1)


def master(p, eta, sigma, slope):
    """Theorem 1: regret + (alpha / (sigma eta)) sum [g_i]_+^2 <= R^2 / (2 eta) + eta T (m+1) G^2 /
    2."""
    return p.regret + weighted_squares(p, np.full(T, eta), sigma), p.R**2 / (2 * eta) + eta * T * (
        p.m + 1
    ) * slope**2 / 2


def peak(p, eta, sigma):
    """With an error bound: max [g]_+ <= eta G_f G_g / (1 - q), q^2 = 1 - kappa^2 (2 - m G_g^2 /
    sigma) / sigma."""
    q = sqrt(1 - p.kappa**2 * (2 - p.m * p.Gg**2 / sigma) / sigma)
    return p.clipped.max(axis=(1, 2)), eta * p.Gf * p.Gg / (1 - q)


def _clipped(p):
    eta, sigma = p.R / (p.Gf * sqrt((p.m + 1) * T)), (p.m + 1) * p.Gg**2
    yield master(p, eta, sigma, p.Gf)
    if p.kappa is not None:
        yield peak(p, eta, sigma)


def _paper(p):
    eta, sigma = 1 / (p.G * sqrt(p.R * (p.m + 1) * T)), (p.m + 1) * p.G**2
    yield master(p, eta, sigma, p.G)
    if p.kappa is not None:
        yield peak(p, eta, sigma)


def _anytime(p):
    """Squares weigh alpha / (sigma eta_t); the right side is 2 R^2 / eta_T + (m+1) G_f^2 / 2 sum
    eta_t."""
    eta = p.R / (p.Gf * np.sqrt((p.m + 1) * np.arange(1, T + 1)))
    yield (
        p.regret + weighted_squares(p, eta, (p.m + 1) * p.Gg**2),
        2 * p.R**2 / eta[-1] + (p.m + 1) * p.Gf**2 / 2 * eta.sum(),
    )


def _strong(p):
    """Theorem 2: (H/2) R^2 + (m+1) G_f^2 / 2 sum eta_t with eta_t = 1 / (H (t+1)); 1/eta_1 - H =
    H."""
    eta = 1 / (p.H * np.arange(2, T + 2))
    right = p.H / 2 * p.R**2 + (p.m + 1) * p.Gf**2 / 2 * eta.sum()
    yield p.regret + weighted_squares(p, eta, (p.m + 1) * p.Gg**2), right


def _doubling(p):
    """The master inequality of every epoch, summed; the last one is cut short."""
    lengths = [min(2**k, T + 1 - 2**k) for k in range(T.bit_length())]
    steps = [p.R / (p.Gf * sqrt((p.m + 1) * 2**k)) for k in range(len(lengths))]
    right = sum(
        p.R**2 / (2 * e) + e * n * (p.m + 1) * p.Gf**2 / 2
        for e, n in zip(steps, lengths, strict=True)
    )
    yield p.regret + weighted_squares(p, np.repeat(steps, lengths), (p.m + 1) * p.Gg**2), right


INEQUALITIES = {
    "clipped-ogd": _clipped,
    "clipped-ogd-paper": _paper,
    "clipped-ogd-strong": _strong,
    "clipped-ogd-anytime": _anytime,
    "clipped-ogd-doubling": _doubling,
}
REACTING = {"clipped-ogd": problems.PROBLEMS, "clipped-ogd-strong": (problems.STRONG,)}


@pytest.mark.parametrize("name", [card.name for card in CARDS])
def test_inequalities_hold_on_all_runs(name):
    check_inequality(name, INEQUALITIES[name], REACTING.get(name, ()))


# -- What the formulas imply
# -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", problems.PROBLEMS, ids=playing.name_of)
def test_clipped_ogd_is_gradient_descent_on_a_squared_penalty(case):
    """It is OGD with step eta on f_t + (1 / (2 sigma eta)) sum_i [g_i]_+^2."""
    learner = tuned(taut.LEARNERS["clipped-ogd"], case)
    weight = 1 / (2 * learner.sigma * learner.eta.value)

    def penalised(x, z):
        values = case.problem.constraints.values(x, z)
        return case.problem.loss(x, z) + weight * jnp.sum(jnp.maximum(values, 0) ** 2)

    problem = taut.Problem(penalised, case.problem.constraints, case.problem.domain)
    descent = taut.ProjectedOGD(learner.eta, case.problem.domain)
    run = taut.simulate(
        descent,
        problem,
        shared_stream(case),
        seeds=problems.SEEDS,
        chunk=playing.CHUNK,
        record=("decisions",),
    )
    ours = shared_run(taut.LEARNERS["clipped-ogd"], case)
    np.testing.assert_allclose(ours.decisions, run.decisions, rtol=0, atol=1e-11)
    assert ours.totals.worst_violation.min() > 0  # the penalty was at work
