"""CVV-Pro: conformance, rounds to twelve digits, and every step against CVXPY."""

import cvxpy as cp
import numpy as np
import pytest

import taut
from learners import three_rounds
from learners.harness import World, conforms
from taut.learners.cvv_pro import CARDS, CVVPro
from taut.testing import parametrize_with_checks, problems
from taut.testing.playing import quick_compilation


@parametrize_with_checks(CARDS)
def test_conformance(card, check):
    conforms(card, check)


def test_two_rounds():
    """The third round depends on the rounding of a constraint that is met with equality."""
    found = three_rounds.states(CVVPro.tuned(three_rounds.CONSTANTS), three_rounds.FIXED)
    three_rounds.check(found.x[:2], [(0.25, -0.0625), (-0.089411254970, 0.192058441227)])


@pytest.mark.parametrize("known", [problems.TOY, problems.POLYHEDRON], ids=["toy", "polyhedron"])
def test_every_step_is_a_projection_onto_the_velocity_constraints(known):
    world, rate = (
        World(known),
        2 * known.problem.constants.loss_lipschitz / float(known.problem.domain.diameter),
    )
    data = known.stream(1, 30, seed=4)[0]
    with quick_compilation():
        x = taut.simulate("cvv-pro", known.problem, data, record=("decisions",)).decisions[0]
    violated = 0
    for t in range(len(data) - 1):
        eta = 1 / (rate * np.sqrt(t + 1))
        values, rows = world.g(x[t])
        if np.abs(values).min() < 1e-9:
            continue  # whether such a row is used depends on rounding
        used = values >= 0
        violated += used.any()
        u = cp.Variable(x.shape[1])
        limits = [rate * eta * values[used] + rows[used] @ (u - x[t]) <= 0] if used.any() else []
        y = x[t] - eta * world.df(x[t], data[t])
        cp.Problem(cp.Minimize(cp.sum_squares(u - y)), limits).solve(solver=cp.CLARABEL)
        np.testing.assert_allclose(x[t + 1], world.project(u.value), atol=2e-6)
    assert violated > 3


def test_rate_is_checked_by_name():
    with pytest.raises(ValueError, match=r"^rate: got -1"):
        CVVPro(rate=-1.0)
