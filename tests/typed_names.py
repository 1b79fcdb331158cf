"""A script that uses the public names, checked by mypy in strict mode (never run): what they take
and return is typed."""

from __future__ import annotations

from typing import Any, assert_type

import cvxpy as cp
import jax
import jax.numpy as jnp
import numpy as np

import taut


def loss(x: jax.Array, cost: jax.Array) -> jax.Array:
    return cost @ x


def constraint(x: jax.Array) -> dict[str, jax.Array]:
    return {"budget": jnp.abs(x).sum() - 1}


def problems() -> taut.Problem:
    known = taut.Constants(loss_lipschitz=1.0, constraint_lipschitz=2**0.5)
    for domain in (
        taut.Ball(1.0, shape=2),
        taut.Box(0.0, 1.0, shape=2),
        taut.L1Ball(1.0, shape=2),
        taut.Simplex(2),
        taut.Product(taut.Ball(1.0, shape=1), taut.Ball(1.0, shape=1)),
    ):
        assert isinstance(domain, taut.Domain)
    problem = taut.Problem(
        loss, constraint, taut.Ball(1.0, shape=2), known, coordinate_names=["east", "west"]
    )
    assert_type(taut.max_of(problem), taut.Problem)
    assert_type(taut.squared(problem), taut.Problem)
    assert_type(taut.tightened(problem, 0.1), taut.Problem)
    assert_type(taut.log_sum_exp(problem, temperature=4.0), taut.Problem)
    assert isinstance(taut.rescaled(problem), taut.Problem)
    assert_type(taut.steady(problem), taut.Problem)
    x = cp.Variable(2, name="x")
    model: taut.Problem = taut.from_cvxpy(
        cp.Parameter(2, name="c", bounds=[-1, 1]) @ x, [cp.norm1(x) <= 1]
    )
    return problem if model.constraint_names is None else model


def playing(problem: taut.Problem, costs: np.ndarray[Any, Any]) -> taut.Run:
    learner = taut.learner("clipped-ogd", problem, horizon=100)
    assert_type(learner, taut.Learner)
    run = taut.simulate(learner, problem, costs, seeds=10)
    assert_type(run, taut.Run)
    noisy = taut.simulate(learner, problem, costs, feedback=taut.Noisy(values=0.1), unproven=True)
    taut.simulate(learner, problem, costs, feedback=taut.Delayed(3), unproven=True)
    taut.simulate(learner, problem, costs, feedback=taut.FullInformation())
    taut.simulate(
        problem, taut.adversary(lambda t, x, key, state: (x, state), np.zeros(2)), horizon=5
    )
    found = taut.sweep([taut.Cell(learner, problem, costs, name="first")])
    assert_type(found, taut.Sweep)
    player = taut.Player(learner, problem)
    player.observe(costs[0, 0])
    assert_type(taut.metrics.violation(noisy), np.ndarray[Any, Any])
    taut.Run.load("run.nc").to_dataframe("totals")
    return run


def judging(problem: taut.Problem, costs: np.ndarray[Any, Any], run: taut.Run) -> str:
    certificate = taut.certify(run)
    assert_type(certificate, taut.Certificate)
    assert_type(run.certificate(), taut.Certificate)
    try:
        assert_type(taut.hindsight(problem, costs, seeds=10), taut.Hindsight)
    except taut.NoFeasibleDecision as error:
        return f"{taut.__version__}: {error.decision}"
    comparison = taut.compare(["half-space", "clipped-ogd"], problem, costs, seeds=10)
    assert_type(comparison, taut.Comparison)
    assert_type(comparison.winner("regret"), str | None)
    rates = taut.rates("half-space", (problem, costs), [10, 20])
    assert_type(rates["regret"].exponent, float)
    assert_type(taut.recommend(problem, 100).name, str)
    assert_type(
        taut.bounds.projected_regret(horizon=10, eta=0.1, radius=1.0, loss_lipschitz=1.0), float
    )
    return certificate.outcome


def methods(constants: taut.Constants) -> list[taut.Learner]:
    @taut.learner_dataclass
    class Mine(taut.Learner):
        """A method that never moves."""

        eta: float

        def guarantees(self, setting: taut.Setting, horizon: int) -> list[taut.Guarantee]:
            return []

    card = taut.Card("mine", Mine, "Mine", growth={"regret": taut.Growth("T", 1.0)})
    taut.register_learner(card)
    clipped = taut.ClippedOGD.tuned(constants, 100)
    return [
        clipped,
        taut.ClippedOGD(0.1, 4.0),
        taut.SaddlePoint.mahdavi(constants, 100),
        taut.DriftPlusPenalty.tuned(constants, 100),
        taut.ProjectedOGD.zinkevich(constants, feasible=taut.Simplex(2)),
        taut.HalfSpace.tuned(constants, 100),
        taut.Doubling.of(lambda horizon: taut.ClippedOGD.tuned(constants, horizon)),
        taut.DelayTolerant(clipped, 3),
        taut.Averaged(clipped, 100, sigma=0.3),
        taut.LEARNERS["half-space"].build(constants),
    ]
