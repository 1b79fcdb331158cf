"""The first-order route of hindsight, against the exact route and against CVXPY."""

import cvxpy as cp
import jax.numpy as jnp
import numpy as np
import pytest

import taut
from taut.judge.hindsight import first_order

RNG = np.random.default_rng(3)
DATA = RNG.normal(size=(2, 30, 6)) / 2
LIMIT = 0.4


def logistic(x, z):
    return jnp.logaddexp(0.0, -z @ x)


FIXED = taut.Problem(logistic, lambda x: (x @ x - LIMIT**2, x.sum() - 0.3), taut.Ball(3.0, shape=6))
VARYING = taut.Problem(
    lambda x, z: logistic(x, z) + 0.1 * x @ x,
    lambda x, z: 0.3 * z @ x - 0.05,
    taut.Box(-1.0, 1.0, shape=6),
)


@pytest.mark.parametrize("problem", [FIXED, VARYING], ids=["fixed", "varying"])
def test_it_finds_the_optimum_of_cvxpy(problem):
    best = taut.hindsight(problem, DATA, seeds=2, method="first-order", tolerance=1e-7)
    assert best.gap.max() <= 1e-7
    assert best.violation.max() <= 1e-9
    for seed, z in enumerate(DATA):
        x = cp.Variable(6)
        if problem is FIXED:
            loss = cp.sum(cp.logistic(-z @ x))
            held = [cp.sum_squares(x) <= LIMIT**2, cp.sum(x) <= 0.3]
        else:
            loss = cp.sum(cp.logistic(-z @ x)) + 3.0 * cp.sum_squares(x)
            held = [0.3 * z @ x <= 0.05, cp.abs(x) <= 1]
        optimum = cp.Problem(cp.Minimize(loss), held).solve(solver="CLARABEL")
        assert best.loss[seed] == pytest.approx(optimum, rel=2e-7)


def test_multipliers_prove_the_bound():
    best = taut.hindsight(FIXED, DATA[0], method="first-order", tolerance=1e-7)
    x, w = best.decision[0], best.multipliers[0]
    assert (w >= 0).all()
    assert w.max() > 0.1  # the constraint is felt
    slope = -(DATA[0] / (1 + np.exp(DATA[0] @ x))[:, None]).sum(axis=0) + w[0] * 2 * x + w[1]
    assert np.linalg.norm(slope) * 3.0 <= 1e-4 * best.loss[0]


def test_too_few_steps_are_an_error():
    with pytest.raises(RuntimeError, match="not certified"):
        first_order.solve_by_first_order(
            FIXED,
            taut.problem.streams.as_stream(DATA[0]),
            (30,),
            1e-30,
            np.random.default_rng(0),
            most=1,
        )


def test_large_decisions_are_solved_without_hessians(monkeypatch):
    monkeypatch.setattr("taut.judge.hindsight.exact.LARGE", 5)
    assert taut.hindsight(FIXED, DATA[0]).solver.startswith("first-order")
    quadratic = taut.Problem(
        lambda x, z: (x - z) @ (x - z), lambda x: x.sum() - 0.1, taut.Ball(3.0, shape=6)
    )
    assert taut.hindsight(quadratic, DATA[0]).solver.startswith("clarabel")


def test_a_constraint_that_is_not_convex_is_refused():
    bent = taut.Problem(
        lambda x, z: logistic(x, z) + x.sum(), lambda x: 0.2 - x @ x, taut.Box(0.1, 1.0, shape=6)
    )
    with pytest.raises(ValueError, match="convex"):
        taut.hindsight(bent, DATA[0], method="first-order", tolerance=1e-3)


def test_a_set_without_interior_is_solved_or_refused_but_never_below_its_optimum():
    flat = taut.Problem(
        logistic, lambda x: (x.sum() - 0.2, 0.2 - x.sum()), taut.Box(-1.0, 1.0, shape=6)
    )
    best = taut.hindsight(flat, DATA[0], method="first-order", tolerance=1e-5)
    exact = taut.hindsight(flat, DATA[0])
    assert best.loss[0] >= exact.loss[0] - best.gap[0] * max(1, abs(best.loss[0])) - 1e-7
    assert best.violation[0] <= 1e-7
