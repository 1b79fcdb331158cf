"""Translations of bounds to what is scored, and the choice among bounds that stand."""

import jax.numpy as jnp
import numpy as np
import pytest

import taut
from taut.judge.guarantees import (
    SCORED_SLATER,
    margin_between,
    setting_of,
    standing,
    transforms_between,
    translated,
)
from taut.learners import QUANTITIES, Guarantee
from taut.problem.constraints import UserConstraints
from taut.problem.transforms import LogSumExp, Max, Squared, Tightened


def quantities(values):
    """The quantities of constraint values (round, constraint), from their definitions."""
    clipped = np.maximum(values, 0)
    return {
        "violation": clipped.max(axis=1).sum(),
        "squared violation": (clipped**2).sum(),
        "peak violation": clipped.max(),
        "excess": values.sum(axis=0).max(),
    }


TRANSFORMS = {
    "max": (Max, lambda g: g.max(axis=1, keepdims=True)),
    "log-sum-exp": (
        lambda inner: LogSumExp(inner, 3.0),
        lambda g: np.log(np.exp(3 * g).sum(axis=1, keepdims=True)) / 3,
    ),
    "squared": (Squared, lambda g: np.maximum(g, 0) ** 2),
    "tightened": (lambda inner: Tightened(inner, 0.3), lambda g: g + 0.3),
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_what_a_transform_implies_holds_for_any_sequence_and_is_tight_somewhere(name):
    make, values = TRANSFORMS[name]
    transform = make(UserConstraints.of(lambda x: x))
    rng, smallest = np.random.default_rng(0), {}
    for trial in range(400):
        rounds, count = int(rng.integers(1, 12)), int(rng.integers(1, 5))
        g = rng.normal(size=(rounds, count)) * 10 ** rng.uniform(-2, 1) + rng.normal()
        if trial % 4 == 0:
            g = np.full((rounds, count), rng.normal())
        inside, outside = quantities(g), quantities(values(g))
        for quantity, bound in outside.items():
            for other, implied in transform.implied(quantity, bound, rounds, count).items():
                assert inside[other] <= implied + 1e-9 * (1 + abs(implied)), (quantity, other)
                if implied > 1e-6:
                    share = inside[other] / implied
                    smallest[quantity, other] = max(share, smallest.get((quantity, other), 0))
    assert smallest
    loose = {pair: share for pair, share in smallest.items() if share < 0.4}
    assert not loose


@pytest.mark.parametrize("name", TRANSFORMS)
def test_decisions_with_the_margin_are_feasible_for_the_transform(name):
    make, values = TRANSFORMS[name]
    for count in (1, 2, 5):
        margin = make(UserConstraints.of(lambda x: x)).margin(count)
        assert values(np.full((1, count), -margin)).max() <= 1e-12
        if margin > 0:
            assert values(np.full((1, count), -0.9 * margin)).max() > 0


def square(x):
    return jnp.concatenate([x - 0.5, -x - 0.5])


BASE = taut.Problem(
    lambda x, c: c @ x,
    square,
    taut.Ball(1.0, shape=2),
    taut.Constants(
        loss_lipschitz=1.0,
        constraint_lipschitz=1.0,
        loss_range=2.0,
        constraint_range=1.5,
        slater=0.5,
    ),
)
FOUND = tuple(Guarantee(quantity, 8.0, "Theorem", ("radius",)) for quantity in QUANTITIES)


def bounds(found):
    return {guarantee.quantity: guarantee.bound for guarantee in found}


def test_nested_transforms_are_undone_from_the_outside():
    played = taut.max_of(taut.tightened(taut.squared(BASE), 0.5))
    layers = transforms_between(played, BASE)
    assert [type(layer) for layer in layers] == [Max, Tightened, Squared]
    assert transforms_between(BASE, BASE) == ()
    assert transforms_between(BASE, played) is None
    found = translated(FOUND, taut.squared(taut.max_of(BASE)), BASE, 100, 4)
    # peak 8 of the square of the maximum: the largest constraint is at most sqrt(8)
    assert min(g.bound for g in found if g.quantity == "peak violation") == pytest.approx(8**0.5)
    # violation 8 of the square: squares of the largest add up to 8, of all four to 32
    assert min(g.bound for g in found if g.quantity == "squared violation") == pytest.approx(32)
    assert bounds(found)["regret"] == 8


def test_a_smaller_feasible_set_costs_regret_by_slater_s_condition():
    played = taut.tightened(BASE, 0.2)
    (regret,) = [g for g in translated(FOUND, played, BASE, 100, 4) if g.quantity == "regret"]
    assert regret.bound == pytest.approx(8 + 2.0 * 0.2 / 0.5 * 100)
    assert SCORED_SLATER in regret.assumptions
    assert margin_between(played, BASE, 4) == 0.2
    (squares,) = [
        g for g in translated(FOUND, taut.squared(played), BASE, 100, 4) if g.quantity == "regret"
    ]
    assert squares.bound == regret.bound
    outside = taut.Problem(BASE.loss, Tightened(Squared(BASE.constraints), 0.2), BASE.domain)
    (empty,) = [g for g in translated(FOUND, outside, BASE, 100, 4) if g.quantity == "regret"]
    assert "never negative" in empty.reason
    assert margin_between(taut.log_sum_exp(BASE, 10.0), BASE, 4) == pytest.approx(np.log(4) / 10)
    unknown = taut.Problem(BASE.loss, square, BASE.domain, taut.Constants(loss_lipschitz=1.0))
    (none,) = [
        g
        for g in translated(FOUND, taut.tightened(unknown, 0.2), unknown, 100, 4)
        if g.quantity == "regret"
    ]
    assert none.bound is None
    assert "slater (epsilon) is not known for the scored problem" in none.reason


def test_bounds_of_another_problem_are_left_out_with_a_reason():
    other = taut.Problem(BASE.loss, lambda x: x[0] - 1, BASE.domain)
    for found in translated(FOUND, BASE, other, 100, 1):
        assert found.bound is None
        assert "scored by another problem" in found.reason


def test_the_smallest_bound_that_stands_is_chosen():
    sharp = Guarantee("violation", 3.0, "sharp", ("error_bound",))
    weak = Guarantee("violation", 30.0, "weak", ("radius",))
    assert standing((sharp, weak), ()).get("violation").guarantee is sharp
    assert standing((sharp, weak), {"error_bound"}).get("violation").guarantee is weak
    void = standing((sharp, weak), {"error_bound", "radius"})["violation"]
    assert (void.guarantee, void.refuted) == (sharp, ("error_bound",))


def test_a_first_decision_off_the_centre_may_be_a_diameter_from_the_comparator():
    problem = taut.Problem(
        lambda x, c: c @ x,
        lambda x: x[0] - 0.25,
        taut.Ball(1.0, shape=2),
        taut.Constants(loss_lipschitz=1.0, constraint_lipschitz=1.0),
    )
    at_centre, off_centre = setting_of(problem), setting_of(problem, np.array([0.5, 0.0]))
    assert (at_centre.constants.radius, at_centre.initial_excess) == (1.0, -0.25)
    assert (off_centre.constants.radius, off_centre.initial_excess) == (2.0, 0.25)
    assert off_centre.initial_violation == 0.25
    learner = taut.ClippedOGD.tuned(problem.constants, 100)
    there, here = (
        {g.quantity: g.bound for g in learner.guarantees(one, 100)}
        for one in (off_centre, at_centre)
    )
    assert there["regret"] > 1.5 * here["regret"]
    run = taut.simulate(learner, problem, np.tile([1.0, 0.0], (3, 1)), x1=np.array([0.5, 0.0]))
    bound = next(row.bound for row in run.certificate(check=False).rows if row.quantity == "regret")
    expected = {g.quantity: g.bound for g in learner.guarantees(off_centre, 3)}
    assert bound == pytest.approx(expected["regret"])
