"""Convex examples of CVXPY's documentation and test suite, which nobody here wrote, turned into online games.

Each is stated once as functions of variables and data. With parameters for data it is a game; with numbers for data, summed
over the rounds, it is one CVXPY program, which is solved directly to check hindsight.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import cvxpy as cp
import numpy as np
import pytest

import taut

ROUNDS = 30


pytestmark = pytest.mark.usefixtures("compile_quickly")


@dataclass(frozen=True)
class Game:
    """Variables, per-round parameters with their data, and the functions of both."""

    variables: Any
    parameters: dict[str, Any]
    data: dict[str, Any]
    loss: Any
    constraints: Any
    domain: Any = None


def random(seed):
    return np.random.default_rng(seed)


def line(seed, size=3, noise=0.2):
    """Features in [-1, 1] and responses in [-3, 3] of a linear relation."""
    draws = random(seed)
    features = draws.uniform(-1, 1, (ROUNDS, size))
    truth = draws.normal(size=size)
    return features, np.clip(features @ truth + noise * draws.normal(size=ROUNDS), -3, 3)


def bounded(name, shape, low, high, **attributes):
    return cp.Parameter(shape, name=name, bounds=[low, high], **attributes)


def least_squares():
    """Least squares, with the coefficients kept in a box."""
    a, b = line(1)
    x = cp.Variable(3, name="x")
    return Game(
        [x], {"a": bounded("a", 3, -1, 1), "b": bounded("b", (), -3, 3)}, {"a": a, "b": b},
        lambda v, a, b: cp.square(a @ v[0] - b), lambda v, a, b: [cp.abs(v[0]) <= 1],
    )  # fmt: skip


def lasso():
    """Lasso in its constrained form."""
    a, b = line(2, 5)
    x = cp.Variable(5, name="x")
    return Game(
        [x], {"a": bounded("a", 5, -1, 1), "b": bounded("b", (), -3, 3)}, {"a": a, "b": b},
        lambda v, a, b: cp.sum_squares(a @ v[0] - b), lambda v, a, b: [cp.norm1(v[0]) <= 1.0],
    )  # fmt: skip


def huber():
    """Robust regression: Huber's loss shrugs at outliers. Two variables: coefficients and intercept."""
    a, b = line(3)
    b[::7] = -3
    beta, offset = cp.Variable(3, name="beta"), cp.Variable(name="offset")
    return Game(
        [beta, offset], {"a": bounded("a", 3, -1, 1), "b": bounded("b", (), -3, 3)}, {"a": a, "b": b},
        lambda v, a, b: cp.huber(a @ v[0] + v[1] - b, 0.5), lambda v, a, b: [cp.norm(v[0]) <= 1.5, cp.abs(v[1]) <= 1],
    )  # fmt: skip


def support_vector_machine():
    """A soft-margin classifier: hinge loss and a little regularisation, the weights in a ball."""
    a, b = line(4)
    signed = a * np.sign(b)[:, None]
    w = cp.Variable(3, name="w")
    return Game(
        [w], {"z": bounded("z", 3, -1, 1)}, {"z": signed},
        lambda v, z: cp.pos(1 - z @ v[0]) + 0.05 * cp.sum_squares(v[0]), lambda v, z: [cp.norm(v[0], 2) <= 2],
    )  # fmt: skip


def logistic_regression():
    """Logistic regression with an l1 budget."""
    a, b = line(5)
    w = cp.Variable(3, name="w")
    return Game(
        # Labels times features is what a round reveals: a product of two parameters would not be DPP.
        [w], {"z": bounded("z", 3, -1, 1)}, {"z": a * np.sign(b)[:, None]},
        lambda v, z: cp.logistic(-(z @ v[0])), lambda v, z: [cp.norm(v[0], 1) <= 2],
    )  # fmt: skip


def quantile_regression():
    """The pinball loss of a 90 % quantile."""
    a, b = line(6, 2)
    w = cp.Variable(2, name="w")

    def loss(v, a, b):
        miss = b - a @ v[0]
        return cp.maximum(0.9 * miss, -0.1 * miss)

    return Game(
        [w], {"a": bounded("a", 2, -1, 1), "b": bounded("b", (), -3, 3)}, {"a": a, "b": b},
        loss, lambda v, a, b: [cp.norm_inf(v[0]) <= 2],
    )  # fmt: skip


def poisson_regression():
    """Counts with a log-linear rate."""
    a, _ = line(7, 2)
    counts = random(7).poisson(np.exp(a @ [0.8, -0.5])).clip(0, 6).astype(float)
    w = cp.Variable(2, name="w")
    return Game(
        [w], {"a": bounded("a", 2, -1, 1), "s": bounded("s", 2, -6, 6)}, {"a": a, "s": a * counts[:, None]},
        lambda v, a, s: cp.exp(a @ v[0]) - s @ v[0], lambda v, a, s: [cp.sum_squares(v[0]) <= 2],
    )  # fmt: skip


def portfolio():
    """Markowitz: return against risk, fully invested, long only."""
    draws = random(8)
    factor = draws.normal(size=(4, 4)) / 2
    returns = np.clip(0.1 + draws.normal(size=(ROUNDS, 4)), -3, 3)
    w = cp.Variable(4, name="w", nonneg=True)
    return Game(
        [w], {"r": bounded("r", 4, -3, 3)}, {"r": returns},
        lambda v, r: -r @ v[0] + cp.quad_form(v[0], factor @ factor.T), lambda v, r: [cp.sum(v[0]) == 1],
    )  # fmt: skip


def kelly_gambling():
    """Bets that grow wealth fastest: the logarithm of the day's return. The simplex is the domain."""
    odds = random(9).uniform(0.5, 2.0, (ROUNDS, 3))
    b = cp.Variable(3, name="b")
    return Game(
        [b], {"r": bounded("r", 3, 0.5, 2)}, {"r": odds},
        lambda v, r: -cp.log(r @ v[0]), lambda v, r: [v[0][0] <= 0.5], domain=taut.Simplex(3),
    )  # fmt: skip


def water_filling():
    """Power over channels whose noise changes; the rates are logarithms."""
    noise = random(10).uniform(0.5, 1.5, (ROUNDS, 3))
    x = cp.Variable(3, name="x", nonneg=True)
    return Game(
        [x], {"alpha": bounded("alpha", 3, 0.5, 1.5)}, {"alpha": noise},
        lambda v, alpha: -cp.sum(cp.log(alpha + v[0])), lambda v, alpha: [cp.sum(v[0]) <= 1],
    )  # fmt: skip


def network_flow():
    """A unit of flow through a diamond whose arcs change their price; flow is conserved at the inner nodes."""
    prices = random(11).uniform(0, 2, (ROUNDS, 5))
    # Arcs: source-a, source-b, a-b, a-sink, b-sink.
    incidence = np.array([[1.0, 1, 0, 0, 0], [1, 0, -1, -1, 0], [0, 1, 1, 0, -1]])
    demand, capacity = np.array([1.0, 0, 0]), np.array([0.8, 0.8, 0.5, 0.7, 0.7])
    f = cp.Variable(5, name="f")
    return Game(
        [f], {"c": bounded("c", 5, 0, 2)}, {"c": prices},
        lambda v, c: c @ v[0] + 0.1 * cp.sum_squares(v[0]),
        lambda v, c: [incidence @ v[0] == demand, v[0] >= 0, v[0] <= capacity],
    )  # fmt: skip


def robust_linear_program():
    """A linear program whose rows are known up to an ellipsoid: second-order cones."""
    draws = random(12)
    rows, blur = draws.normal(size=(3, 2)), 0.3 * np.eye(2)
    prices = draws.uniform(-1, 1, (ROUNDS, 2))
    x = cp.Variable(2, name="x")
    return Game(
        [x], {"c": bounded("c", 2, -1, 1)}, {"c": prices},
        lambda v, c: c @ v[0],
        lambda v, c: [*(cp.SOC(1 - row @ v[0], blur @ v[0]) for row in rows), cp.norm_inf(v[0]) <= 2],
    )  # fmt: skip


def matrix_approximation():
    """Matrices approximated by one of small nuclear norm; a matrix variable."""
    draws = random(13)
    targets = np.clip(np.outer([1.0, -0.5], [0.8, 0.4, -0.2]) + 0.2 * draws.normal(size=(ROUNDS, 2, 3)), -2, 2)
    x = cp.Variable((2, 3), name="X")
    return Game(
        [x], {"Y": bounded("Y", (2, 3), -2, 2)}, {"Y": targets},
        lambda v, y: cp.sum_squares(v[0] - y), lambda v, y: [cp.norm(v[0], "nuc") <= 0.8],
    )  # fmt: skip


def optimal_advertising():
    """Impressions shared out among ads: revenue is capped, and the traffic of the hour limits what can be shown."""
    draws = random(14)
    rate, traffic = draws.uniform(0, 1, (ROUNDS, 2)), draws.uniform(0.5, 1.5, ROUNDS)
    d = cp.Variable(2, name="D", bounds=[0, 1])
    return Game(
        [d], {"rate": bounded("rate", 2, 0, 1), "traffic": bounded("traffic", (), 0.5, 1.5)},
        {"rate": rate, "traffic": traffic},
        lambda v, rate, traffic: -cp.minimum(rate @ v[0], 0.6),
        lambda v, rate, traffic: [cp.sum(v[0]) <= traffic],
    )  # fmt: skip


GAMES = [
    least_squares, lasso, huber, support_vector_machine, logistic_regression, quantile_regression, poisson_regression,
    portfolio, kelly_gambling, water_filling, network_flow, robust_linear_program, matrix_approximation,
    optimal_advertising,
]  # fmt: skip


def solved_directly(game):
    """The best fixed decision by one CVXPY program with a term for every round."""
    rounds = [[game.data[name][t] for name in game.parameters] for t in range(ROUNDS)]
    losses = sum(game.loss(game.variables, *row) for row in rounds)
    constraints = [one for row in rounds for one in game.constraints(game.variables, *row)]
    if game.domain is not None:
        constraints += game.domain.to_cvxpy(game.variables[0])
    value = cp.Problem(cp.Minimize(losses), constraints).solve(solver=cp.CLARABEL)
    return value, constraints


@pytest.mark.parametrize("make", GAMES)
def test_the_game_is_played_certified_and_solved_in_hindsight(make):
    game = make()
    parameters = list(game.parameters.values())
    problem = taut.from_cvxpy(
        game.loss(game.variables, *parameters), game.constraints(game.variables, *parameters), game.domain
    )
    run = taut.simulate(
        taut.ClippedOGD.tuned(problem.constants, ROUNDS), problem, game.data, record=("loss", "excess", "decisions")
    )
    best = taut.hindsight(problem, game.data)
    assert "the model's own program" in best.solver
    certificate = run.certificate(best=best)

    # Nothing that guarantees rest on is refuted (a centre outside the feasible set refutes one bound on the peak only).
    assert {one.name for one in certificate.refuted} <= {"centre feasible"}, str(certificate)
    assert certificate.holds, str(certificate)
    convex = [one for one in certificate.assumptions if one.name.startswith("convex")]
    assert all(one.status == "verified exactly" for one in convex)

    # Hindsight is what one program says that has never heard of games.
    value, constraints = solved_directly(game)
    assert best.loss[0] == pytest.approx(value, rel=1e-6, abs=1e-6)
    parts = problem.present(best.decision[0])
    for variable in game.variables:
        variable.value = parts[variable.name()] if isinstance(parts, dict) else parts
    assert max(float(np.max(one.violation())) for one in constraints) <= 1e-6
    assert best.gap[0] <= 1e-8

    # What was played is what CVXPY says of the decisions: losses and the largest excess of every round.
    for t in (0, ROUNDS - 1):
        parts = problem.present(run.decisions[0, t])
        for variable in game.variables:
            variable.value = parts[variable.name()] if isinstance(parts, dict) else parts
        row = [game.data[name][t] for name in game.parameters]
        assert run.loss[0, t] == pytest.approx(float(game.loss(game.variables, *row).value), rel=1e-9, abs=1e-9)
        violations = [np.max(one.violation()) for one in game.constraints(game.variables, *row)]
        assert max(run.excess[0, t], 0) == pytest.approx(max(violations), rel=1e-6, abs=1e-7)


def test_there_are_at_least_ten_games():
    assert len(GAMES) >= 10
