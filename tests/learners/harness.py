"""Shared by the tests of all families: three rounds by hand, a NumPy world for recursions,
inequalities on all runs."""

from __future__ import annotations

import dataclasses
import os
from functools import cache
from math import sqrt
from typing import Any

import numpy as np

import taut
from taut import Constants
from taut.engine import register_dataclass
from taut.problem.transforms import Tightened
from taut.testing import playing, problems, run_check
from taut.testing.playing import (
    adversarial_run,
    as_played,
    hostile_stream,
    play,
    quick_compilation,
    shared_run,
    shared_stream,
    tuned,
)

# -- The problems of conformance
# ----------------------------------------------------------------------------------------------


def chosen(card):
    """The home problem of a method: what takes time is to compile a method for a problem. The
    default, and all methods if all cases are asked for, are played on all problems."""
    usable = [case for case in problems.PROBLEMS if playing.applies(card, case)]
    if os.environ.get("TAUT_CASES") == "all" or card.name == "half-space":
        return usable
    return [playing.home(card) if playing.home(card) in usable else usable[0]]


def conforms(card, check):
    """Run a public check; one that is known to fail on some problem is run on all of them."""
    expected_to_fail = check.__name__ in card.known_failures
    run_check(card, check, problems.PROBLEMS if expected_to_fail else chosen(card))


# -- Three rounds by hand
# ----------------------------------------------------------------------------------------------

DOMAIN = taut.Box(-0.75, 0.75, shape=2)
SQUARE = taut.L1Ball(0.5, shape=2)  # inside g <= 0
R2, R3 = sqrt(2), sqrt(3)


def loss(x, c):
    return c @ x


def excess(x):
    return x[0] + x[1] - 0.5


PROBLEM = taut.Problem(loss, excess, DOMAIN)


def known(radius, loss_lipschitz, **others):
    return Constants(
        radius=radius,
        loss_lipschitz=loss_lipschitz,
        constraint_lipschitz=R2,
        constraint_count=1,
        **others,
    )


def check_golden(name, constants, horizon, costs, decisions, multipliers):
    """Play three rounds and compare decisions, multipliers and scores with those worked by hand.

    Decisions lie in the square |x_i| <= 3/4 and start at x_1 = (0, 0); the loss is <c_t, x>, so df
    = c_t; the constraint is g(x) = x_1 + x_2 - 1/2, so dg = (1, 1). A row reads: the three c_t;
    then x_2, x_3, x_4; then lambda_1 .. lambda_4. Constants are chosen so that the tuned parameters
    are simple; each is at least what the game really has.
    """
    learner = taut.LEARNERS[name].build(constants, horizon, feasible=SQUARE)
    data = np.array([*costs, (0, 0)], float)  # a fourth round shows x_4 and lambda_4
    with quick_compilation():
        run = taut.simulate(
            learner, PROBLEM, data, chunk=4, record=("loss", "excess", "decisions", "multipliers")
        )
    expected = np.array([(0, 0), *decisions], float)
    np.testing.assert_allclose(run.decisions[0], expected, rtol=0, atol=1e-15)
    np.testing.assert_allclose(run.multipliers[0, :, 0], multipliers, rtol=0, atol=1e-15)
    # x_t is scored against round t, before the learner steps.
    np.testing.assert_allclose(run.loss[0], np.sum(data * expected, axis=1), rtol=0, atol=1e-15)
    np.testing.assert_allclose(run.excess[0], expected.sum(axis=1) - 0.5, rtol=0, atol=1e-15)


# -- Recursions in plain NumPy
# -----------------------------------------------------------------------------------------

ROUNDS = 2000


class World:
    """A case in NumPy: df, g with its Jacobian rows, projections on domain and feasible set,
    constants."""

    def __init__(self, case):
        self.name = case.name
        known = case.problem.constants
        self.R, self.Gf, self.Gg = known.radius, known.loss_lipschitz, known.constraint_lipschitz
        self.D, self.H, self.m = (
            known.constraint_range,
            known.strong_convexity,
            known.constraint_count,
        )
        self.G = max(self.Gf, self.Gg)
        self.x1 = np.zeros(2) if self.name != "polyhedron" else problems.CENTRE

    def df(self, x, c):
        return x + 1.5 * c if self.name == "strong" else c

    def g(self, x):
        if self.name == "polyhedron":
            return problems.ROWS @ x - problems.LEVELS, problems.ROWS
        return np.array([abs(x[0]) + abs(x[1]) - 1]), np.sign(x)[None]

    def project(self, y):
        radius = 2.0 if self.name == "polyhedron" else 1.0
        offset = y - self.x1
        length = sqrt(offset @ offset)
        return y if length <= radius else self.x1 + offset * (radius / length)

    def project_feasible(self, y):
        if self.name == "polyhedron":
            return np.clip(y, problems.LOWER, problems.UPPER)
        if np.abs(y).sum() <= 1:
            return y
        a, b = sorted(np.abs(y), reverse=True)
        threshold = (
            (a + b - 1) / 2 if (a + b - 1) / 2 < b else a - 1
        )  # both entries survive, or only the larger
        return np.sign(y) * np.maximum(np.abs(y) - threshold, 0)


class Aggregated(World):
    """The same with max_i g_i, its slope the mean of the active ones."""

    def __init__(self, case):
        super().__init__(case)
        self.m = 1

    def g(self, x):
        values, rows = super().g(x)
        active = values == values.max()
        return np.array([values.max()]), rows[active].mean(axis=0)[None]


def positive(u):
    return np.maximum(u, 0.0)


@cache
def long_stream(known):
    return known.stream(10, ROUNDS, seed=7)


@cache
def long_run(card):
    """Ten seeds of 2,000 rounds of a method on its home problem, compiled as users have it."""
    home = playing.home(card)
    learner, problem = tuned(card, home, ROUNDS), as_played(card, home.problem)
    return taut.simulate(
        learner, problem, long_stream(home), seeds=10, chunk=500, record=("decisions",)
    )


def check_formula(name, formula):
    """Compare a method with a NumPy loop written from its published formula, for one constraint and
    for several."""
    card = taut.LEARNERS[name]
    home, world = playing.home(card), Aggregated if card.aggregated else World
    decisions = long_run(card).decisions[3]
    expected = np.array(formula(world(home), long_stream(home)[3]))
    np.testing.assert_allclose(decisions, expected, rtol=0, atol=1e-10)
    assert (
        np.ptp(decisions[-500:], axis=0).max() > 0
    )  # it still moves, so the comparison had something to compare
    if playing.applies(card, problems.POLYHEDRON):
        with quick_compilation():
            decisions = shared_run(card, problems.POLYHEDRON).decisions[1]
        expected = np.array(
            formula(world(problems.POLYHEDRON), shared_stream(problems.POLYHEDRON)[1])
        )
        np.testing.assert_allclose(decisions, expected, rtol=0, atol=1e-12)


# -- Step lengths
# ------------------------------------------------------------------------------------------------------

ROOM = taut.Ball(1e6, shape=2)
OPEN = taut.Problem(problems.linear_loss, Tightened(problems.TOY.problem.constraints, -1e9), ROOM)
"""The toy with no constraint in reach: its radius and level are traced, so its compiled programs
are shared."""


def step_lengths(learner, aggregated=False):
    """|x_{t+1} - x_t| for t = 1, 2, ... with one loss gradient for ever, nothing in the way."""
    if isinstance(learner, taut.ProjectedOGD):
        learner = dataclasses.replace(learner, feasible=ROOM)
    data = np.broadcast_to([0.6, 0.8], (problems.SEEDS, problems.ROUNDS, 2))
    problem = taut.max_of(OPEN) if aggregated else OPEN
    run = taut.simulate(
        learner, problem, data, seeds=problems.SEEDS, chunk=playing.CHUNK, record=playing.RECORD
    )
    return np.linalg.norm(np.diff(run.decisions[0], axis=0), axis=-1)


def check_law(name, law):
    """Compare the step lengths |x_{t+1} - x_t| with a law of t, and with the horizon for methods
    that need one."""
    card = taut.LEARNERS[name]
    with quick_compilation():
        lengths = step_lengths(tuned(card, playing.home(card)), card.aggregated)
        follows(lengths, law, epochs=name.endswith("doubling"))
        if card.needs_horizon:
            longer = step_lengths(tuned(card, playing.home(card), 4 * problems.ROUNDS))
            assert abs(longer[9] / lengths[9] - 0.5) < 1e-6


def follows(lengths, law, epochs=False):
    t = np.arange(1.0, len(lengths) + 1)
    kept = np.log2(t + 1) % 1 != 0 if epochs else t > 0  # where an epoch ends, a learner restarts
    ratio = (lengths / law(t))[kept]
    np.testing.assert_allclose(ratio, ratio[-1], rtol=1e-6)


# -- Inequalities that bind every run
# ----------------------------------------------------------------------------------

T = problems.ROUNDS


class Played:
    """A run with what the inequalities are about, and the constants of the problem as it was
    played."""

    def __init__(self, method, case, run, data):
        known = as_played(method, case.problem).constants
        self.R, self.Gf, self.Gg = known.radius, known.loss_lipschitz, known.constraint_lipschitz
        self.D, self.F, self.H = known.constraint_range, known.loss_range, known.strong_convexity
        self.m, self.G, self.kappa = (
            known.constraint_count,
            max(self.Gf, self.Gg),
            known.error_bound,
        )
        self.diameter = None if case.feasible is None else float(case.feasible.diameter)
        self.multipliers = run.multipliers
        values = playing.known_values(case, run.decisions, data)
        self.values = (
            values.max(axis=-1, keepdims=True) if method.aggregated else values
        )  # (seed, round, constraint)
        self.regret = run.totals.loss - case.optimum(data)

    @property
    def clipped(self):
        return np.maximum(self.values, 0)


def check_inequality(name, inequality, reacting=()):
    """Assert (left, right) pairs on random streams, on what an adversary revealed, and against
    reacting adversaries."""
    card = taut.LEARNERS[name]
    with quick_compilation():
        for known in dict.fromkeys((*chosen(card), *reacting)):
            runs = [
                (shared_run(card, known), shared_stream(known)),
                (play(card, known, data=hostile_stream(known)), hostile_stream(known)),
            ]
            if known in reacting:
                runs.append(adversarial_run(card, known))
            for run, data in runs:
                for left, right in inequality(Played(card, known, run, data)):
                    assert np.all(left <= right + 1e-9 * (1 + np.abs(right)))


# -- Broken learners, which the checks must refuse
# ---------------------------------------------------------------------


def broken(kind: type) -> Any:
    """Make a class with one wrong method a frozen dataclass and pytree like its parent, so that it
    can be played."""
    return register_dataclass(dataclasses.dataclass(frozen=True)(kind))
