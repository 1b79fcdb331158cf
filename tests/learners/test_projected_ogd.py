"""The projected ogd family: conformance, three rounds by hand, recursions, step lengths and
inequalities."""

from math import log, sqrt

import numpy as np
import pytest

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
)
from taut.learners.projected_ogd import CARDS
from taut.testing import parametrize_with_checks, problems


@parametrize_with_checks(CARDS)
def test_conformance(card, check):
    conforms(card, check)


# -- Three rounds by hand
# ----------------------------------------------------------------------------------------------

GOLDEN = {
    # S: |x_1| + |x_2| <= 1/2, of diameter 1. eta_t = 1 / (G_f sqrt t) = 1/(2 sqrt t).
    "projected-ogd": (
        known(2.0, 2.0),
        4,
        [(-1, -0.5), (1, 0), (0.5, 1)],
        # (0.5, 0.25) lies 0.25 outside: each entry loses 0.125; the next two stay inside
        # x_3 = (0.375 - 1/(2 sqrt 2), 0.125); x_4 = x_3 - (0.25, 0.5)/sqrt(3)
        [
            (0.375, 0.125),
            (0.375 - 0.5 / R2, 0.125),
            (0.375 - 0.5 / R2 - 0.25 / R3, 0.125 - 0.5 / R3),
        ],
        [0, 0, 0, 0],
    ),
    # H = 2: eta_t = 1/2, 1/4, 1/6.
    "projected-ogd-strong": (
        known(2.0, 2.0, strong_convexity=2.0),
        4,
        [(-1, -0.5), (1, 0), (0.5, 1)],
        [(0.375, 0.125), (0.125, 0.125), (0.125 - 0.5 / 6, 0.125 - 1 / 6)],
        [0, 0, 0, 0],
    ),
}


@pytest.mark.parametrize("name", [card.name for card in CARDS])
def test_three_rounds_worked_by_hand(name):
    check_golden(name, *GOLDEN[name])


# -- The published formula in plain NumPy
# ------------------------------------------------------------------------------


def projected(w, data, eta):
    """Projected OGD: x <- P_S(x - eta_t df)."""
    x, out = w.project_feasible(w.x1), []
    for t, c in enumerate(data, 1):
        out.append(x)
        x = w.project_feasible(x - eta(t) * w.df(x, c))
    return out


def diameter(w):
    return np.linalg.norm(problems.UPPER - problems.LOWER) if w.name == "polyhedron" else 2.0


FORMULAS = {
    "projected-ogd": lambda w, z: projected(w, z, lambda t: diameter(w) / (w.Gf * sqrt(t))),
    "projected-ogd-strong": lambda w, z: projected(w, z, lambda t: 1 / (w.H * t)),
}


@pytest.mark.parametrize("name", [card.name for card in CARDS])
def test_learner_follows_its_formula(name):
    check_formula(name, FORMULAS[name])


# -- Step lengths
# ------------------------------------------------------------------------------------------------------

LAWS = {
    "projected-ogd": lambda t: t**-0.5,
    "projected-ogd-strong": lambda t: 1 / t,
}
"""How the step length depends on the round, in the reference of each method."""


@pytest.mark.parametrize("name", [card.name for card in CARDS])
def test_schedule_is_that_of_the_reference(name):
    check_law(name, LAWS[name])


# -- Inequalities
# ------------------------------------------------------------------------------------------------------


def _projected(p):
    yield p.regret, 1.5 * p.Gf * p.diameter * sqrt(T)
    yield p.clipped.max(axis=(1, 2)), 0.0


def _projected_strong(p):
    yield p.regret, p.Gf**2 / (2 * p.H) * (1 + log(T))
    yield p.clipped.max(axis=(1, 2)), 0.0


INEQUALITIES = {
    "projected-ogd": _projected,
    "projected-ogd-strong": _projected_strong,
}
REACTING = {}


@pytest.mark.parametrize("name", [card.name for card in CARDS])
def test_inequalities_hold_on_all_runs(name):
    check_inequality(name, INEQUALITIES[name], REACTING.get(name, ()))
