"""What the formulas imply: two ways of writing one learner, conditions of theorems, inequalities that bind every run.

The inequalities hold for every seed and every adversary, so they are asserted on all runs of the zoo: its random
streams, what an adversary revealed against another learner, and adversaries that react to the learner itself.
"""

from functools import cache
from math import log, sqrt

import cvxpy as cp
import jax.numpy as jnp
import numpy as np
import pytest

import games
import taut
import zoo
from taut import LEARNERS

CASES = pytest.mark.parametrize("case", zoo.ZOO, ids=games.pair_id)
T = zoo.ROUNDS


@pytest.fixture(autouse=True, scope="module")
def _quick():
    with games.quick_compilation():
        yield


# -- Two ways of writing one learner -----------------------------------------------------------------------------------


@CASES
def test_clipped_ogd_is_gradient_descent_on_a_squared_penalty(case):
    """It is OGD with step eta on f_t + (1 / (2 sigma eta)) sum_i [g_i]_+^2."""
    learner = games.tuned(LEARNERS["clipped-ogd"], case)
    weight = 1 / (2 * learner.sigma * learner.eta.value)

    def penalised(x, z):
        values = case.problem.constraints.values(x, z)
        return case.problem.loss(x, z) + weight * jnp.sum(jnp.maximum(values, 0) ** 2)

    problem = taut.Problem(penalised, case.problem.constraints, case.problem.domain)
    descent = taut.ProjectedOGD(learner.eta, case.problem.domain)
    run = taut.simulate(descent, problem, games.stream(case), seeds=zoo.SEEDS, chunk=games.CHUNK, record=("decisions",))
    ours = games.played(LEARNERS["clipped-ogd"], case)
    np.testing.assert_allclose(ours.decisions, run.decisions, rtol=0, atol=1e-11)
    assert ours.totals.worst_violation.min() > 0  # the penalty was at work


@pytest.mark.parametrize("case", [zoo.TOY, zoo.POLYHEDRON], ids=games.pair_id)
def test_drift_plus_penalty_minimises_its_model(case):
    """x_{t+1} minimises V <df, x> + sum_k Q_k (g_k + <dg_k, x - x_t>) + alpha |x - x_t|^2 over the ball."""
    run = games.played(LEARNERS["drift-plus-penalty"], case)
    queues = sqrt(T) * run.multipliers[0]
    centre, radius = (zoo.CENTRE, 2.0) if case is zoo.POLYHEDRON else (np.zeros(2), 1.0)
    for t in (3, 30, 60, 100):
        x, cost, queue = run.decisions[0, t], games.stream(case)[0, t], queues[t]
        rows = zoo.ROWS if case is zoo.POLYHEDRON else np.sign(x)[None]
        values = games.values(case, run.decisions, games.stream(case))[0, t]
        y = cp.Variable(len(x))
        model = sqrt(T) * cost @ y + queue @ (values + rows @ (y - x)) + T * cp.sum_squares(y - x)
        cp.Problem(cp.Minimize(model / T), [cp.norm2(y - centre) <= radius]).solve(solver=cp.CLARABEL)
        np.testing.assert_allclose(run.decisions[0, t + 1], y.value, atol=2e-6)
        np.testing.assert_allclose(queues[t + 1], np.maximum(queue + values + rows @ (y.value - x), 0), atol=1e-5)
    assert queues.max() > 0


# -- Conditions of theorems on the parameters --------------------------------------------------------------------------


@pytest.mark.parametrize("beta", np.round(np.arange(0.05, 1.0, 0.1), 2))
@pytest.mark.parametrize("modulus", [0.0, 0.5, 2.0])
def test_jenatton_conditions(beta, modulus):
    """The three sufficient conditions of Jenatton et al., two of them for t >= 2, from the learner's own schedules.

    1/mu_t - 1/mu_{t-1} - theta_t <= 0;  eta_t G^2 + mu_t theta_t^2 - theta_t/2 <= 0;  1/eta_t - 1/eta_{t-1} - H summed
    """
    radius, slope = 1.7, 2.3
    known = taut.Constants(
        radius=radius, loss_lipschitz=1.1, constraint_lipschitz=slope, constraint_count=1, strong_convexity=modulus
    )
    make = taut.SaddlePoint.jenatton_strongly_convex if modulus else taut.SaddlePoint.jenatton
    learner = make(known, beta=float(beta))
    t = jnp.arange(1, 2001)
    eta, mu, theta = (np.asarray(s(t, jnp.float64)) for s in (learner.eta, learner.mu, learner.theta))
    c1 = 1 / mu[1:] - 1 / mu[:-1] - theta[1:]
    c2 = eta * slope**2 + mu * theta**2 - theta / 2
    c3 = np.cumsum(1 / eta[1:] - 1 / eta[:-1] - modulus)
    assert c1.max() <= 1e-9 * theta.max()
    assert c2[1:].max() <= 1e-9 * theta.max()
    if modulus:
        np.testing.assert_allclose(c3, 0, atol=1e-9)
    else:
        np.testing.assert_allclose(c3, slope / radius * (np.arange(2, 2001) ** float(beta) - 1), rtol=1e-9)


@pytest.mark.parametrize("count", [1, 5])
@pytest.mark.parametrize("horizon", [200, 20_000, 10**9])
def test_mahdavi_condition_on_delta(horizon, count):
    """delta is the smallest solution of delta >= (m+1) G^2 + 2 delta^2 eta^2, between (m+1) G^2 and twice that."""
    known = taut.Constants(
        radius=3.0, loss_lipschitz=2.0, constraint_lipschitz=0.7, constraint_range=1.2, constraint_count=count
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
        radius=3.0, loss_lipschitz=2.0, constraint_lipschitz=0.7, constraint_range=1.2, constraint_count=1
    )
    least = next(n for n in range(1, 200) if 8 * 9 / (n * (8 + 2 * 1.44)) * 8 <= 1)  # 8 eta^2 (m+1) G^2 <= 1
    taut.SaddlePoint.mahdavi(known, least)
    with pytest.raises(ValueError, match=rf"horizon: got {least - 1}; expected at least {least} "):
        taut.SaddlePoint.mahdavi(known, least - 1)


# -- Inequalities that bind every run ----------------------------------------------------------------------------------


class Played:
    """A run with what the inequalities are about, and the constants of the problem as it was played."""

    def __init__(self, method, case, run, data):
        known = games.game(method, case.problem).constants
        self.R, self.Gf, self.Gg = known.radius, known.loss_lipschitz, known.constraint_lipschitz
        self.D, self.F, self.H = known.constraint_range, known.loss_range, known.strong_convexity
        self.m, self.G, self.kappa = known.constraint_count, max(self.Gf, self.Gg), known.error_bound
        self.diameter = None if case.feasible is None else float(case.feasible.diameter)
        self.multipliers = run.multipliers
        values = games.values(case, run.decisions, data)
        self.values = values.max(axis=-1, keepdims=True) if method.aggregated else values  # (seed, round, constraint)
        self.regret = run.totals.loss - case.optimum(data)

    @property
    def clipped(self):
        return np.maximum(self.values, 0)


def weighted_squares(p, eta, sigma):
    """sum_t (alpha / (sigma eta_t)) sum_i [g_i]_+^2 with alpha = 1/2."""
    return (0.5 / (sigma * eta) * np.sum(p.clipped**2, axis=-1)).sum(axis=-1)


def master(p, eta, sigma, slope):
    """Theorem 1: regret + (alpha / (sigma eta)) sum [g_i]_+^2 <= R^2 / (2 eta) + eta T (m+1) G^2 / 2."""
    return p.regret + weighted_squares(p, np.full(T, eta), sigma), p.R**2 / (2 * eta) + eta * T * (
        p.m + 1
    ) * slope**2 / 2


def peak(p, eta, sigma):
    """With an error bound: max [g]_+ <= eta G_f G_g / (1 - q), q^2 = 1 - kappa^2 (2 - m G_g^2 / sigma) / sigma."""
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
    """Squares weigh alpha / (sigma eta_t); the right side is 2 R^2 / eta_T + (m+1) G_f^2 / 2 sum eta_t."""
    eta = p.R / (p.Gf * np.sqrt((p.m + 1) * np.arange(1, T + 1)))
    yield (
        p.regret + weighted_squares(p, eta, (p.m + 1) * p.Gg**2),
        2 * p.R**2 / eta[-1] + (p.m + 1) * p.Gf**2 / 2 * eta.sum(),
    )


def _strong(p):
    """Theorem 2: (H/2) R^2 + (m+1) G_f^2 / 2 sum eta_t with eta_t = 1 / (H (t+1)); 1/eta_1 - H = H."""
    eta = 1 / (p.H * np.arange(2, T + 2))
    right = p.H / 2 * p.R**2 + (p.m + 1) * p.Gf**2 / 2 * eta.sum()
    yield p.regret + weighted_squares(p, eta, (p.m + 1) * p.Gg**2), right


def _doubling(p):
    """The master inequality of every epoch, summed; the last one is cut short."""
    lengths = [min(2**k, T + 1 - 2**k) for k in range(T.bit_length())]
    steps = [p.R / (p.Gf * sqrt((p.m + 1) * 2**k)) for k in range(len(lengths))]
    right = sum(p.R**2 / (2 * e) + e * n * (p.m + 1) * p.Gf**2 / 2 for e, n in zip(steps, lengths, strict=True))
    yield p.regret + weighted_squares(p, np.repeat(steps, lengths), (p.m + 1) * p.Gg**2), right


def _mahdavi(p, values):
    """Mahdavi et al.: the key inequality behind their Theorem 4; with [g]_+ for g, behind Proposition 4.

    regret + sum_i [sum_t g_i]_+^2 / (2 (delta eta T + m/eta)) <= R^2 / (2 eta) + (eta T / 2)((m+1) G^2 + 2 m D^2)
    """
    spread = (p.m + 1) * p.G**2
    eta = p.R / sqrt((spread + 2 * p.m * p.D**2) * T)
    delta = (1 - sqrt(1 - 8 * eta**2 * spread)) / (4 * eta**2)
    sums = np.maximum(values.sum(axis=1), 0)
    left = p.regret + np.sum(sums**2, axis=-1) / (2 * (delta * eta * T + p.m / eta))
    yield left, p.R**2 / (2 * eta) + eta * T / 2 * (spread + 2 * p.m * p.D**2)


def _jenatton(p, values, beta=0.5):
    most = (p.R * p.G + p.D**2 / (6 * beta * p.R * p.G)) * T**beta + 2 * p.R * p.G / (1 - beta) * T ** (1 - beta)
    yield p.regret, most
    yield values.sum(axis=(1, 2)), sqrt(24 * p.R * p.G / (1 - beta) * (most + p.F * T) * T ** (1 - beta))


def _jenatton_strong(p, values, beta=0.5):
    most = p.G**2 / p.H * (1 + log(T)) + p.D**2 * p.H / (6 * p.G**2 * beta) * T**beta
    yield p.regret, most
    yield values.sum(axis=(1, 2)), sqrt(24 * p.G**2 / p.H / (1 - beta) * (most + p.F * T) * T ** (1 - beta))


def _projected(p):
    yield p.regret, 1.5 * p.Gf * p.diameter * sqrt(T)
    yield p.clipped.max(axis=(1, 2)), 0.0


def _projected_strong(p):
    yield p.regret, p.Gf**2 / (2 * p.H) * (1 + log(T))
    yield p.clipped.max(axis=(1, 2)), 0.0


def _queues(p):
    """sum_t g_k <= Q_{T+1,k} + sum_t G_g |x_{t+1} - x_t|; a step is at most (V G_f + sqrt(m) G_g |Q_t|) / (2 alpha)."""
    queues = sqrt(T) * p.multipliers
    lengths = np.linalg.norm(queues[:, :-1], axis=-1)
    moved = p.Gg * (sqrt(T) * p.Gf + sqrt(p.m) * p.Gg * lengths) / (2 * T)
    yield (p.values[:, :-1].sum(axis=1) - queues[:, -1]).max(axis=-1), moved.sum(axis=-1)


INEQUALITIES = {
    "clipped-ogd": _clipped,
    "clipped-ogd-paper": _paper,
    "clipped-ogd-strong": _strong,
    "clipped-ogd-anytime": _anytime,
    "clipped-ogd-doubling": _doubling,
    "ogd": lambda p: _mahdavi(p, p.values),
    "ogd-clipped": lambda p: _mahdavi(p, p.clipped),
    "a-ogd": lambda p: _jenatton(p, p.values),
    "a-ogd-clipped": lambda p: _jenatton(p, p.clipped),
    "a-ogd-strong": lambda p: _jenatton_strong(p, p.values),
    "a-ogd-strong-clipped": lambda p: _jenatton_strong(p, p.clipped),
    "projected-ogd": _projected,
    "projected-ogd-strong": _projected_strong,
    "drift-plus-penalty": _queues,
}


def check(method, case, run, data):
    for left, right in INEQUALITIES[method.name](Played(method, case, run, data)):
        assert np.all(left <= right + 1e-9 * (1 + np.abs(right)))


@cache
def hostile(case):
    """What the case's adversary revealed against Clipped-OGD: a stream of arrays, for everybody else."""
    return games.reacted(LEARNERS["clipped-ogd"], case)[1]


def test_every_method_has_its_inequality():
    assert set(INEQUALITIES) == set(LEARNERS)


@pytest.mark.parametrize(("method", "case"), games.PAIRS, ids=games.pair_id)
def test_inequalities_hold_on_random_and_hostile_streams(method, case):
    check(method, case, games.played(method, case), games.stream(case))
    check(method, case, games.play(method, case, data=hostile(case)), hostile(case))


@pytest.mark.parametrize(
    ("method", "case"),
    [(LEARNERS["clipped-ogd"], case) for case in zoo.ZOO]
    + [(LEARNERS[name], zoo.TOY) for name in ("ogd", "a-ogd", "drift-plus-penalty")]
    + [(LEARNERS["clipped-ogd-strong"], zoo.STRONG)],
    ids=games.pair_id,
)
def test_inequalities_hold_against_an_adversary_that_reacts(method, case):
    check(method, case, *games.reacted(method, case))
