"""Bounds against comparators that move: they hold where bounds for fixed decisions do not, and no
learner claims too much."""

from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pytest

import taut
from taut.judge.guarantees import setting_of
from taut.learners.schedules import Constant, InverseRoot

KNOWN = taut.Constants(
    radius=1.0,
    loss_lipschitz=1.0,
    constraint_lipschitz=2**0.5,
    constraint_count=1,
    constraint_range=1.0,
)
DIAMOND = taut.L1Ball(1.0, shape=2)
FIXED = taut.Problem(
    lambda x, c: c @ x, lambda x: jnp.abs(x).sum() - 1, taut.Ball(1.0, shape=2), KNOWN
)
CHANGING = taut.Problem(
    lambda x, z: z[:2] @ x,
    lambda x, z: z[2] * x[0] - 0.1,
    taut.Ball(1.0, shape=2),
    KNOWN.with_values(constraint_lipschitz=1.0),
)
ROUNDS = 400

LEARNERS = {
    "half-space, adaptive": taut.learner("half-space", FIXED),
    "half-space": taut.HalfSpace(Constant(0.05), diameter=2.0, memory=4),
    "half-space, falling step": taut.HalfSpace(InverseRoot(0.5), diameter=2.0, memory=0),
    "clipped-ogd": taut.ClippedOGD.tuned(KNOWN, ROUNDS),
    "clipped-ogd-anytime": taut.ClippedOGD.anytime(KNOWN),
    "clipped-ogd-doubling": taut.learner("clipped-ogd-doubling", FIXED),
    "projected-ogd": taut.ProjectedOGD.zinkevich(KNOWN, DIAMOND),
    "step-experts": taut.learner("step-experts", FIXED, horizon=ROUNDS),
}


def path(block):
    """Unit costs that change sign every `block` rounds, and the best decision of each round."""
    sign = np.where(np.arange(ROUNDS) // block % 2 == 0, 1.0, -1.0)
    costs = np.stack([sign, np.zeros(ROUNDS)], axis=1)
    return costs, -costs


def bound_and_regret(learner, problem, data, comparator, moving=True):
    length = float(np.linalg.norm(np.diff(comparator, axis=0), axis=1).sum())
    run = taut.simulate(learner, problem, data, record=("decisions",))
    values = np.sum(data[:, :2] * (run.decisions[0] - comparator), axis=1)
    slopes = np.linalg.norm(data[:, :2], axis=1)
    seen = taut.learners.Observed(
        float(slopes.max()), float((slopes**2).sum()), float(slopes[0] ** 2), None
    )
    setting = replace(setting_of(problem, run.first, seen), path_length=length if moving else None)
    found = [g for g in learner.guarantees(setting, ROUNDS) if g.quantity == "regret"]
    return found, float(values.sum())


@pytest.mark.parametrize("name", LEARNERS)
def test_bounds_hold_along_the_path_and_not_without_it(name):
    learner = LEARNERS[name]
    for block in (1, 40, ROUNDS):
        costs, comparator = path(block)
        found, regret = bound_and_regret(learner, FIXED, costs, comparator)
        assert all(g.moving for g in found if g.bound is not None)
        bound = min(g.bound for g in found if g.bound is not None)
        assert regret <= bound
        fixed, _ = bound_and_regret(learner, FIXED, costs, comparator, moving=False)
        still = min(g.bound for g in fixed if g.bound is not None)
        assert not any(g.moving for g in fixed)
        if block == 1:
            assert (
                regret > still or name == "step-experts"
            )  # the bound for fixed decisions does not cover this comparator
        if block == ROUNDS and "adaptive" not in name:
            assert bound == pytest.approx(still)  # a path of length 0


def test_strongly_convex_steps_along_a_path():
    problem = taut.Problem(
        lambda x, z: jnp.sum((x - z) ** 2) / 2,
        lambda x: jnp.abs(x).sum() - 1,
        taut.Ball(1.0, shape=2),
        KNOWN.with_values(strong_convexity=1.0, loss_lipschitz=2.0),
    )
    learners = (
        taut.ClippedOGD.strongly_convex(problem.constants),
        taut.learner("half-space-strong", problem),
        taut.ProjectedOGD.strongly_convex(problem.constants, DIAMOND),
    )
    for block in (1, 40):
        _, targets = path(block)
        length = float(np.linalg.norm(np.diff(targets, axis=0), axis=1).sum())
        for learner in learners:
            run = taut.simulate(learner, problem, targets)
            setting = replace(setting_of(problem, run.first), path_length=length)
            (found,) = (g for g in learner.guarantees(setting, ROUNDS) if g.quantity == "regret")
            (still,) = (
                g.bound
                for g in learner.guarantees(setting_of(problem, run.first), ROUNDS)
                if g.quantity == "regret"
            )
            assert still < run.totals.loss[0] <= found.bound  # the comparator has no loss
            assert found.moving


def test_kept_cuts_exclude_comparators_of_changing_constraints():
    """With memory, a cut of an old round keeps the decisions away from where the comparator has
    gone: no bound is claimed."""
    costs, _ = path(40)
    sign = -costs[:, :1]
    data = np.concatenate(
        [costs, -sign], axis=1
    )  # x_1 >= -0.1 while it should be large, x_1 <= 0.1 while it should be small
    comparator = np.concatenate([sign, np.zeros((ROUNDS, 1))], axis=1)
    assert np.max(data[:, 2] * comparator[:, 0] - 0.1) <= 0
    kept, _ = bound_and_regret(
        taut.HalfSpace(Constant(0.05), diameter=2.0, memory=4), CHANGING, data, comparator
    )
    assert all(g.bound is None and "earlier rounds" in g.reason for g in kept)
    found, regret = bound_and_regret(
        taut.HalfSpace(Constant(0.05), diameter=2.0, memory=0), CHANGING, data, comparator
    )
    assert regret <= found[0].bound


def test_a_margin_excludes_comparators_without_one():
    learner = taut.HalfSpace(Constant(0.05), diameter=2.0, memory=0, margin=0.1)
    (found,) = (
        g
        for g in learner.guarantees(taut.Setting(KNOWN, 2.0, path_length=1.0), ROUNDS)
        if g.quantity == "regret"
    )
    assert found.bound is None
    assert "margin=0" in found.reason


def test_the_cost_of_a_path():
    assert taut.bounds.path_cost(path_length=3.0, diameter=2.0, last_step=0.5) == 12
    assert taut.bounds.path_cost(path_length=0.0, diameter=2.0, last_step=np.inf) == 0
    with pytest.raises(ValueError, match="path_length"):
        taut.bounds.path_cost(path_length=-1.0, diameter=2.0, last_step=0.5)
