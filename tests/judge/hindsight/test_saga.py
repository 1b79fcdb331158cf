"""SAGA against the exact route, against its recursion in NumPy, and with wrong projections."""

import cvxpy as cp
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from direct_solves import logistic, solved

import taut
from taut.judge.hindsight import hindsight
from taut.judge.hindsight.saga import _epoch
from taut.judge.hindsight.scaling import Scaling


@pytest.fixture(scope="module")
def dispatch():
    cost, price, emission = (
        np.array([0.2, 0.12, 0.14]),
        np.array([1.5, 1, 0.6]),
        np.array([0.26, 0.38, 0.37]),
    )
    most = np.array([20.0, 15, 18])
    demand = 33 + 6 * np.sin(np.arange(2880) / 46) + np.random.default_rng(7).normal(size=2880)
    problem = taut.Problem(
        lambda x, d: cost @ (x * x) / 2 + price @ x + (x.sum() - d) ** 2 / 2,
        lambda x: emission @ (x * x) - 100.0,
        taut.Box(0.0, most),
    )

    def project(x):
        """x_i(m) = clip(x_i / (1 + 2 m d_i)); bisection on the multiplier m."""

        def at(m):
            return jnp.clip(x / (1 + 2 * m * emission), 0, most)

        def halve(_, ends):
            middle = (ends[0] + ends[1]) / 2
            above = emission @ at(middle) ** 2 > 100
            return jnp.where(above, middle, ends[0]), jnp.where(above, ends[1], middle)

        return at(jax.lax.fori_loop(0, 80, halve, (-1e-15, 1e3))[1])

    return problem, demand, project


def test_saga_agrees_on_economic_dispatch(dispatch):
    problem, demand, project = dispatch
    exact = hindsight(problem, demand)
    x = cp.Variable(3)
    cost = (
        2880 * (cp.sum(cp.multiply([0.1, 0.06, 0.07], x**2)) + x @ [1.5, 1, 0.6])
        + cp.sum_squares(cp.sum(x) - demand) / 2
    )
    cap = cp.sum(cp.multiply([0.26, 0.38, 0.37], x**2)) <= 100
    assert exact.loss[0] == pytest.approx(solved(cost, [cap, x >= 0, x <= [20, 15, 18]]), rel=1e-8)
    assert exact.multipliers[0, 0] > 1  # the emission cap binds
    for projection in (project, None):
        saga = hindsight(problem, demand, method="saga", projection=projection)
        assert saga.loss[0] == pytest.approx(exact.loss[0], rel=1e-9)
        assert saga.decision[0] == pytest.approx(exact.decision[0], rel=1e-6)
        assert saga.multipliers is None
        assert saga.gap[0] <= 1e-8


def test_saga_agrees_on_logistic_losses_of_20000_rounds():
    rng = np.random.default_rng(8)
    a = rng.normal(size=(20_000, 5))
    labels = np.sign(a @ rng.normal(size=5) + rng.normal(size=20_000))
    problem = taut.Problem(logistic, lambda x: x.sum() - 0.1, taut.Ball(1.0, shape=5))
    exact = hindsight(problem, (a, labels), prefixes=[200, 20_000])
    saga = hindsight(problem, (a, labels), prefixes=[200, 20_000], method="saga")
    assert exact.multipliers.min() > 1  # the constraint binds
    assert exact.solver.startswith("newton")
    assert saga.solver.startswith("saga")
    assert saga.loss == pytest.approx(exact.loss, rel=1e-8)
    assert saga.decision == pytest.approx(exact.decision, abs=1e-6)


def test_an_epoch_of_saga_is_its_recursion():
    scaling = Scaling.of(taut.Ball(1.0, shape=2))
    rng = np.random.default_rng(11)
    a, memory, u = rng.normal(size=(7, 2)), rng.normal(size=(7, 2)), rng.normal(size=2)

    def loss(x, z):
        return jnp.sum((x - z) ** 4)

    rounds, step = 5, 0.01
    before = (jnp.asarray(u), jnp.asarray(memory))
    moved, kept = _epoch(
        loss, lambda x: x / 2, scaling, None, jnp.asarray(a), rounds, *before, step, 3
    )
    draws = np.asarray(jax.random.uniform(jax.random.key(3), (7,)))[:rounds]
    table = memory.copy()
    for j in np.argsort(draws):
        slope = 4 * (u - a[j]) ** 3
        u = (
            u
            - step
            * (
                slope
                - table[j]
                + memory.sum(axis=0) / rounds
                + (table - memory).sum(axis=0) / rounds
            )
        ) / 2
        table[j] = slope
    assert np.asarray(moved) == pytest.approx(u, rel=1e-12)
    assert np.asarray(kept)[:rounds] == pytest.approx(table[:rounds], rel=1e-12)


def test_a_wrong_projection_is_refused(dispatch):
    problem, demand, project = dispatch
    with pytest.raises(ValueError, match=r"projection: got a point with max_i g_i"):
        hindsight(problem, demand, method="saga", projection=lambda x: jnp.clip(x, 0, 18))
    with pytest.raises(
        ValueError, match=r"projection: got a feasible point that is not the nearest"
    ):
        hindsight(problem, demand, method="saga", projection=lambda x: project(x) / 2)
    changing = taut.Problem(
        lambda x, z: x @ x + z, lambda x, z: x.sum() - z, taut.Ball(1.0, shape=2)
    )
    with pytest.raises(ValueError, match="projection: got None for constraints that change"):
        hindsight(changing, np.ones(5), method="saga")
    with pytest.raises(ValueError, match="prefixes: got several with constraints that change"):
        hindsight(changing, np.ones(5), method="saga", projection=lambda x: x, prefixes=[2, 5])
    empty = taut.Problem(lambda x, z: x @ x + z, lambda x: x.sum() + 3, taut.Ball(1.0, shape=2))
    with pytest.raises(
        ValueError, match=r"constraints: got max_i g_i\(x\) >= 1.58579 > 0 for all x of the domain"
    ):
        hindsight(empty, np.ones(5), method="saga")
    l1 = taut.Problem(
        lambda x, z: x @ x + z, lambda x: jnp.abs(x).sum() - 1, taut.Ball(1.0, shape=2)
    )
    with pytest.raises(
        ValueError, match="projection: got None, but constraint 0 is neither affine nor quadratic"
    ):
        hindsight(l1, np.ones(5), method="saga")
