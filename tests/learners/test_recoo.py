"""RECOO: conformance, three rounds to twelve digits, and the formula in plain NumPy."""

import numpy as np
import pytest

import taut
from learners import three_rounds
from learners.harness import World, conforms
from taut.learners.recoo import CARDS, Recoo
from taut.testing import parametrize_with_checks, problems
from taut.testing.playing import quick_compilation


@parametrize_with_checks(CARDS)
def test_conformance(card, check):
    conforms(card, check)


def test_three_rounds():
    found = three_rounds.states(Recoo.tuned(three_rounds.CONSTANTS))
    expected = [(0.25, 0.0), (-0.119411254970, 0.214558441227), (-0.082970948802, 0.443961265069)]
    three_rounds.check(found.x, expected)
    three_rounds.check(found.queue, [1.25, 1.414213562373, 1.732050807569])


def recursion(world, data, diameter):
    """The update of the module docstring, with the largest constraint."""
    x, queue, out = world.x1, 1.0, []
    for t, c in enumerate(data, 1):
        out.append(x)
        values, rows = world.g(x)
        worst = int(np.argmax(values))
        eta, gamma = diameter / (2 * world.Gf * np.sqrt(t)), t**0.6
        queue = max(queue + gamma * max(values[worst], 0), np.sqrt(t))
        y = x - eta * world.df(x, c)
        model = values[worst] + rows[worst] @ (y - x)
        squared = rows[worst] @ rows[worst]
        length = max(model, 0) / squared if squared > 0 else 0.0
        x = world.project(y - min(queue * gamma * eta, length) * rows[worst])
    return np.array(out)


@pytest.mark.parametrize(
    ("known", "diameter"),
    [(problems.TOY, 2.0), (problems.POLYHEDRON, 4.0)],
    ids=["toy", "polyhedron"],
)
def test_learner_follows_its_formula(known, diameter):
    data = known.stream(1, 200, seed=4)[0]
    with quick_compilation():
        run = taut.simulate("recoo", known.problem, data, record=("decisions",))
    np.testing.assert_allclose(
        run.decisions[0], recursion(World(known), data, diameter), rtol=0, atol=1e-10
    )


def test_a_small_scale_makes_the_cap_active():
    """With a tiny step the cap Q gamma eta is below the length of the feasibility step."""
    capped = Recoo(1e-3)
    state = capped.init(np.array([0.9, 0.0]), 1)
    data = {"c": np.zeros(2), "a": np.array([1.0, 0.0]), "b": np.array(0.1)}
    after = capped.step(state, three_rounds.MOVING.round(data))
    np.testing.assert_allclose(
        after.x, [0.9 - 1.8e-3, 0.0], rtol=0, atol=1e-15
    )  # Q = 1 + 0.8, times eta = 1e-3
