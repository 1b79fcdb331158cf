"""Problems without a feasible decision: the exception carries the least-violating one, as CVXPY
finds it."""

import pickle

import cvxpy as cp
import jax.numpy as jnp
import numpy as np
import pytest
from direct_solves import solved

import taut

RNG = np.random.default_rng(3)
ROWS = RNG.normal(size=(2, 12, 3))
LOSS = lambda x, z: z @ x  # noqa: E731


def least(constraints, domain):
    """min over the domain of the largest constraint, and the decision."""
    x, level = cp.Variable(domain.shape), cp.Variable()
    value = solved(level, [*domain.to_cvxpy(x), *(g <= level for g in constraints(x))])
    return value, x.value


CASES = {
    "rows": (
        lambda x: jnp.stack([x[0] + 0.5, 0.7 - x[0], x[1] - 3]),
        lambda x: [x[0] + 0.5, 0.7 - x[0], x[1] - 3],
        taut.Ball(1.0, shape=3),
    ),
    "two balls": (
        lambda x: jnp.stack([jnp.sum((x - 0.6) ** 2), jnp.sum((x + 0.6) ** 2)]) - 0.1,
        lambda x: [cp.sum_squares(x - 0.6) - 0.1, cp.sum_squares(x + 0.6) - 0.1],
        taut.Box(-1.0, 1.0, shape=3),
    ),
    "kinks": (
        lambda x: (2 - jnp.sum(x), jnp.sum(jnp.abs(x)) - 1),
        lambda x: [2 - cp.sum(x), cp.norm1(x) - 1],
        taut.Box(-1.0, 1.0, shape=3),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_fixed_constraints(name):
    constraints, stated, domain = CASES[name]
    with pytest.raises(taut.NoFeasibleDecision, match="for all x of the domain") as caught:
        taut.hindsight(taut.Problem(LOSS, constraints, domain), ROWS[0])
    found, (value, _) = caught.value, least(stated, domain)
    at = float(
        max(np.max(np.asarray(g)) for g in np.atleast_1d(constraints(jnp.asarray(found.decision))))
    )
    assert found.violation == pytest.approx(at, rel=1e-12)
    assert 0 < found.bound <= value + 1e-7
    assert found.violation == pytest.approx(value, rel=1e-5)
    assert found.decision.shape == (3,)
    assert (found.rounds, found.seed) == (None, None)


def test_constraints_that_change_contradict_each_other_over_time():
    problem = taut.Problem(LOSS, lambda x, z: 0.3 - z @ x, taut.Ball(1.0, shape=3))
    with pytest.raises(
        taut.NoFeasibleDecision, match="over 12 rounds for all x of the domain"
    ) as caught:
        taut.hindsight(problem, ROWS, seeds=2)
    found = caught.value
    value, _ = least(lambda x: [0.3 - ROWS[found.seed] @ x], problem.domain)
    assert found.violation == pytest.approx(value, rel=1e-5)
    assert found.violation == pytest.approx(
        float(np.max(0.3 - ROWS[found.seed] @ found.decision)), rel=1e-12
    )
    assert found.rounds == 12
    again = pickle.loads(pickle.dumps(found))
    assert str(again) == str(found)
    assert again.violation == found.violation


def test_simulations_and_models_raise_the_same_exception():
    domain = taut.Ball(1.0, shape=3)
    problem = taut.Problem(LOSS, CASES["rows"][0], domain)
    with pytest.raises(taut.NoFeasibleDecision) as caught:
        taut.simulate(taut.ClippedOGD(0.1, 4.0), problem, ROWS[0])
    assert caught.value.violation == pytest.approx(0.6, rel=2e-3)
    x, z = cp.Variable(3, name="x"), cp.Parameter(3, name="z", bounds=[-4, 4])
    model = taut.from_cvxpy(z @ x, [z @ x >= 0.3], domain=domain)
    with pytest.raises(taut.NoFeasibleDecision) as caught:
        taut.hindsight(model, ROWS[0])
    assert caught.value.violation == pytest.approx(
        least(lambda x: [0.3 - ROWS[0] @ x], domain)[0], rel=1e-5
    )


@pytest.mark.parametrize(
    "constraints",
    [
        lambda x: jnp.sum((x - 0.3) ** 2),
        lambda x: jnp.linalg.norm(x - 0.3),
        lambda x, z: jnp.sum((x - 0.3) ** 2) + 0 * z[0],
    ],
    ids=["square", "norm", "changing"],
)
def test_a_feasible_set_that_is_a_single_point_is_refused_by_name(constraints):
    """For affine losses no multiplier exists; a loss whose minimiser is the point itself may still
    be answered."""
    problem = taut.Problem(LOSS, constraints, taut.Ball(1.0, shape=3))
    try:
        best = taut.hindsight(problem, ROWS[0])
    except ValueError as error:
        assert "constraints: got a feasible set without interior" in str(error)  # noqa: PT017
        assert "at x = [0.3" in str(error) or "at x = [0.29" in str(error)  # noqa: PT017
    else:
        assert best.decision[0] == pytest.approx(np.full(3, 0.3), abs=1e-6)
    pair = taut.Problem(LOSS, lambda x: (x - 0.3, 0.3 - x), taut.Ball(1.0, shape=3))
    assert taut.hindsight(pair, ROWS[0]).decision[0] == pytest.approx(np.full(3, 0.3), abs=1e-8)
