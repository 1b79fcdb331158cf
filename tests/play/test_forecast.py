"""The adviser that a forecast makes is the decision that CVXPY finds for the same round: the least
predicted loss over the domain, the kept cuts and the announced constraints."""

from itertools import product

import cvxpy as cp
import jax.numpy as jnp
import numpy as np
import pytest

import taut
from taut.player.observation import begin

ACCURACY = 1e-6  # of the range of the loss on the domain
ROUNDS = 7
DEMAND = 1.1 + 0.7 * np.sin(np.arange(ROUNDS) * 1.3)


def situation(player):
    """The forecast's decision of the coming round, and the kept cuts before it."""
    advised = player._steps.unpack(begin(player)).game.learner
    cuts = player.learner.learner.kept(advised.base)
    alive = np.any(np.asarray(cuts.normals) != 0, axis=1)
    return (
        np.asarray(advised.points[-1]),
        np.asarray(cuts.normals)[alive],
        np.asarray(cuts.offsets)[alive],
    )


def generators():
    """Two units that follow a demand. Moving costs, ramps are announced (a box, and a ball), and
    there are a straight and a curved cap that rounds reveal."""

    def ramps(x, z, previous):
        moved = x - previous
        return jnp.append(jnp.abs(moved) - jnp.array([0.2, 0.4]), jnp.sum(moved**2) / 0.08 - 1)

    return taut.Problem(
        lambda x, z, previous: (x.sum() - z) ** 2 + 0.3 * jnp.abs(x - previous).sum(),
        lambda x: jnp.stack([x[0] + 2 * x[1] - 1.7, x[0] ** 2 + x[1] - 1.3]),
        taut.Box(0.0, 1.0, shape=2),
        previous=True,
        announced=ramps,
        domain_binds=True,
    )


def minimum(goal, variables, limits, cuts, entries):
    """The least value of a CVXPY expression, and a function that evaluates it at a flat point."""
    normals, offsets = cuts
    kept = [normals @ cp.hstack(variables) <= offsets] if len(offsets) else []
    problem = cp.Problem(cp.Minimize(goal), [*limits, *kept])
    problem.solve(solver="CLARABEL")
    assert problem.status == "optimal"

    def value(point):
        for variable, part in zip(variables, np.split(point, entries), strict=True):
            variable.value = part.reshape(variable.shape)
        return float(goal.value)

    return problem.value, value


def check(best, least, value, cuts, corners):
    """The forecast's decision is as good as the minimum, and satisfies the kept cuts."""
    highest = max(value(np.array(corner)) for corner in corners)
    assert least - 1e-6 <= value(best) <= least + ACCURACY * (highest - least)
    normals, offsets = cuts
    assert (normals @ best <= offsets + 1e-12).all()


def test_a_forecast_on_a_problem_with_ramps_is_the_minimum_that_cvxpy_finds():
    problem = generators()
    player = taut.Player(taut.Advised(taut.learner("half-space", problem)), problem)
    x, before, decisions, bound = cp.Variable(2), problem.domain.centre, [], 0
    for z in DEMAND:
        decisions.append(player.decide(forecast=z))
        best, *cuts = situation(player)
        cost = cp.square(cp.sum(x) - z) + 0.3 * cp.norm1(x - before)
        moved = x - before
        ramps = [cp.abs(moved) <= np.array([0.2, 0.4]), cp.sum_squares(moved) <= 0.08]
        limits = [x >= 0, x <= 1, *ramps]
        least, value = minimum(cost, [x], limits, cuts, [])
        check(best, least, value, cuts, product([0.0, 1.0], repeat=2))
        bound += bool((cuts[0] @ best > cuts[1] - 1e-6).any())
        before = decisions[-1]
        player.observe(z)
    assert bound  # kept cuts matter
    run = taut.simulate(player.learner, problem, DEMAND, forecast=DEMAND, record=("decisions",))
    np.testing.assert_allclose(run.decisions[0], decisions, rtol=0, atol=1e-5)


@pytest.mark.long
def test_a_forecast_on_a_cvxpy_model_is_the_minimum_that_cvxpy_finds():
    def parts(p, store, demand, price, before):
        cost = price @ p + cp.square(cp.sum(p) + store - demand) + 0.2 * cp.abs(store)
        return cost, [p[0] + 2 * p[1] <= 3, cp.norm(p) <= 2], [cp.abs(p - before) <= 0.4]

    p, store = cp.Variable(2, name="p", bounds=[0, 2]), cp.Variable(name="store", bounds=[-1, 1])
    demand, price = cp.Parameter(name="demand", bounds=[0, 4]), cp.Parameter(2, name="price")
    cost, limits, ramps = parts(p, store, demand, price, taut.previous(p))
    before, bound = np.array([1.0, 1.0]), 0
    start = {"p": before, "store": 0.0}
    model = taut.from_cvxpy(cost, limits, announced=ramps, start=start, domain_binds=True)
    player = taut.Player(taut.Advised(taut.learner("half-space", model)), model)
    prices = np.random.default_rng(3).uniform(-0.5, 1, (ROUNDS, 2))
    demands = 2 + 1.8 * np.sin(1.3 * np.arange(ROUNDS))
    u, v, decisions = cp.Variable(2), cp.Variable(), []
    for z in ({"demand": demands[t], "price": prices[t]} for t in range(ROUNDS)):
        decisions.append(player.decide(forecast=z))
        best, *cuts = situation(player)
        goal, _, rows = parts(u, v, z["demand"], z["price"], before)
        limits = [u >= 0, u <= 2, v >= -1, v <= 1, *rows]
        least, value = minimum(goal, [u, v], limits, cuts, [2])
        check(best, least, value, cuts, product([0.0, 2.0], [0.0, 2.0], [-1.0, 1.0]))
        bound += bool((cuts[0] @ best > cuts[1] - 1e-6).any())
        before = np.asarray(decisions[-1]["p"])
        player.observe(z)
    assert bound
