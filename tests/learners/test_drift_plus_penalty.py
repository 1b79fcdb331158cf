"""The drift plus penalty family: conformance, three rounds by hand, recursions, step lengths and
inequalities."""

from math import sqrt

import cvxpy as cp
import numpy as np
import pytest

import taut
from learners.harness import (
    T,
    check_formula,
    check_golden,
    check_inequality,
    check_law,
    conforms,
    known,
    positive,
)
from taut.learners.drift_plus_penalty import CARDS
from taut.testing import parametrize_with_checks, playing, problems
from taut.testing.playing import shared_run, shared_stream


@parametrize_with_checks(CARDS)
def test_conformance(card, check):
    conforms(card, check)


# -- Three rounds by hand
# ----------------------------------------------------------------------------------------------

GOLDEN = {
    # V = sqrt(4) = 2, alpha = 4: x - (2 c + Q (1, 1)) / 8.
    "drift-plus-penalty": (
        known(2.0, 2.0),
        4,
        [(-2, -2), (-1, 0), (0.5, 1)],
        # x_2 = 4/8;                                       Q_2 = [0 - 0.5 + (0.5 + 0.5)]_+ = 0.5
        # x_3 = (0.5 + 1.5/8, 0.5 - 0.5/8);                Q_3 = 0.5 + 0.5 + (0.1875 - 0.0625) =
        # 1.125 x_4 = (0.6875 - 2.125/8, 0.4375 - 3.125/8);      Q_4 = 1.125 + 0.625 - (0.265625 +
        # 0.390625) = 1.09375
        [(0.5, 0.5), (0.6875, 0.4375), (0.421875, 0.046875)],
        # Q / V
        [0, 0.25, 0.5625, 0.546875],
    ),
}


@pytest.mark.parametrize("name", [card.name for card in CARDS])
def test_three_rounds_worked_by_hand(name):
    check_golden(name, *GOLDEN[name])


# -- The published formula in plain NumPy
# ------------------------------------------------------------------------------


def drift_plus_penalty(w, data):
    """Drift-plus-penalty with V = sqrt(T), alpha = T."""
    weight, proximity = sqrt(len(data)), len(data)
    x, queue, out = w.x1, np.zeros(w.m), []
    for c in data:
        out.append(x)
        g, rows = w.g(x)
        after = w.project(x - (weight * w.df(x, c) + queue @ rows) / (2 * proximity))
        queue = positive(queue + g + rows @ (after - x))
        x = after
    return out


FORMULAS = {
    "drift-plus-penalty": drift_plus_penalty,
}


@pytest.mark.parametrize("name", [card.name for card in CARDS])
def test_learner_follows_its_formula(name):
    check_formula(name, FORMULAS[name])


# -- Step lengths
# ------------------------------------------------------------------------------------------------------

LAWS = {
    "drift-plus-penalty": lambda t: 1.0 + 0 * t,
}
"""How the step length depends on the round, in the reference of each method."""


@pytest.mark.parametrize("name", [card.name for card in CARDS])
def test_schedule_is_that_of_the_reference(name):
    check_law(name, LAWS[name])


# -- Inequalities
# ------------------------------------------------------------------------------------------------------


def _queues(p):
    """sum_t g_k <= Q_{T+1,k} + sum_t G_g |x_{t+1} - x_t|; a step is at most (V G_f + sqrt(m) G_g
    |Q_t|) / (2 alpha)."""
    queues = sqrt(T) * p.multipliers
    lengths = np.linalg.norm(queues[:, :-1], axis=-1)
    moved = p.Gg * (sqrt(T) * p.Gf + sqrt(p.m) * p.Gg * lengths) / (2 * T)
    yield (p.values[:, :-1].sum(axis=1) - queues[:, -1]).max(axis=-1), moved.sum(axis=-1)


INEQUALITIES = {
    "drift-plus-penalty": _queues,
}
REACTING = {"drift-plus-penalty": (problems.TOY,)}


@pytest.mark.parametrize("name", [card.name for card in CARDS])
def test_inequalities_hold_on_all_runs(name):
    check_inequality(name, INEQUALITIES[name], REACTING.get(name, ()))


# -- What the formulas imply
# -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", [problems.TOY, problems.POLYHEDRON], ids=playing.name_of)
def test_drift_plus_penalty_minimises_its_model(case):
    """x_{t+1} minimises V <df, x> + sum_k Q_k (g_k + <dg_k, x - x_t>) + alpha |x - x_t|^2 over the
    ball."""
    run = shared_run(taut.LEARNERS["drift-plus-penalty"], case)
    queues = sqrt(T) * run.multipliers[0]
    centre, radius = (problems.CENTRE, 2.0) if case is problems.POLYHEDRON else (np.zeros(2), 1.0)
    for t in (3, 30, 60, 100):
        x, cost, queue = run.decisions[0, t], shared_stream(case)[0, t], queues[t]
        rows = problems.ROWS if case is problems.POLYHEDRON else np.sign(x)[None]
        values = playing.known_values(case, run.decisions, shared_stream(case))[0, t]
        y = cp.Variable(len(x))
        model = sqrt(T) * cost @ y + queue @ (values + rows @ (y - x)) + T * cp.sum_squares(y - x)
        cp.Problem(cp.Minimize(model / T), [cp.norm2(y - centre) <= radius]).solve(
            solver=cp.CLARABEL
        )
        np.testing.assert_allclose(run.decisions[0, t + 1], y.value, atol=2e-6)
        np.testing.assert_allclose(
            queues[t + 1], np.maximum(queue + values + rows @ (y.value - x), 0), atol=1e-5
        )
    assert queues.max() > 0
