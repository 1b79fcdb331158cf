"""Yu and Neely's queue: conformance, three rounds, the recursion in NumPy, the model it minimises,
bounds under attack."""

import cvxpy as cp
import numpy as np
import pytest

import taut
from learners import attack, three_rounds
from learners.harness import broken, check_formula, conforms
from taut import bounds
from taut.learners import YuNeely
from taut.learners.yu_neely import CARDS
from taut.testing import parametrize_with_checks, problems
from taut.testing.playing import shared_run, shared_stream, tuned


@parametrize_with_checks(CARDS)
def test_conformance(card, check):
    conforms(card, check)


def test_three_rounds_with_two_rows():
    learner = taut.learner("yu-neely", three_rounds.FIXED, horizon=three_rounds.HORIZON)
    assert learner.proximity == pytest.approx(5.2, rel=1e-14)
    found = three_rounds.states(learner, three_rounds.FIXED)
    expected = [
        (0.311538461538, -0.123076923077),
        (0.127218934911, -0.081360946746),
        (0.157009558489, -0.007806099226),
    ]
    three_rounds.check(found.x, expected)
    queues = [(0.5, 0.4), (0.623076923077, 0.376923076923), (0.377514792899, 0.199408284024)]
    three_rounds.check(found.multiplier, queues)


def formula(w, data):
    norm = (
        np.linalg.norm(problems.ROWS, 2) if w.name == "polyhedron" else w.Gg * np.sqrt(w.m)
    )  # the toy is not affine
    gain, proximity = len(data) ** 0.25, (norm**2 + 1) * len(data) ** 0.5 / 2
    x, queue, out = w.x1, np.zeros(w.m), []
    for c in data:
        out.append(x)
        values, rows = w.g(x)
        q = gain * values
        queue = np.maximum(-q, queue + q)
        x = w.project(x - (w.df(x, c) + gain * (queue + q) @ rows) / (2 * proximity))
    return out


def test_learner_follows_its_formula():
    check_formula("yu-neely", formula)


def test_the_next_decision_minimises_the_model_with_weights_that_are_not_negative():
    card, known = taut.LEARNERS["yu-neely"], problems.POLYHEDRON
    run, learner = shared_run(card, known), tuned(card, known)
    gain, proximity = float(learner.gain), float(learner.proximity)
    assert run.multipliers.min() >= -1e-12
    assert run.multipliers.max() > 0
    for t in (3, 30, 100):
        x, cost, weight = run.decisions[0, t], shared_stream(known)[0, t], run.multipliers[0, t]
        y = cp.Variable(len(x))
        model = (
            cost @ y
            + weight @ (problems.ROWS @ y - problems.LEVELS)
            + proximity * cp.sum_squares(y - x)
        )
        cp.Problem(cp.Minimize(model), [cp.norm2(y - problems.CENTRE) <= 2.0]).solve(
            solver=cp.CLARABEL
        )
        np.testing.assert_allclose(run.decisions[0, t + 1], y.value, atol=2e-6)
    assert gain == pytest.approx(problems.ROUNDS**0.25)


def test_the_norm_is_that_of_the_jacobian_or_at_most_its_bound():
    assert taut.learner("yu-neely", problems.POLYHEDRON.problem, horizon=9).norm == pytest.approx(
        np.linalg.norm(problems.ROWS, 2)
    )
    known = problems.POLYHEDRON.problem.constants
    assert taut.learner("yu-neely", known, horizon=9).norm == pytest.approx(2 * np.sqrt(6))
    assert taut.learner("yu-neely", known, horizon=9, norm=0.5).norm == 0.5
    # Not affine: the Jacobian at one point says nothing about the others.
    assert taut.learner("yu-neely", problems.TOY.problem, horizon=9).norm == pytest.approx(
        np.sqrt(2)
    )
    with pytest.raises(ValueError, match="depend on the round's data"):
        taut.learner("yu-neely", problems.MOVING.problem, horizon=9)


# -- Guarantees
# --------------------------------------------------------------------------------------------------------

KNOWN = attack.constants(count=2, slack=0.2)
SETTING = taut.Setting(KNOWN, 2.0, initial_violation=0.0, constraints_affine=True)


def found(learner, setting=SETTING, horizon=400):
    return list(learner.guarantees(setting, horizon))


def test_tuned_bounds_grow_as_published():
    learner = YuNeely.tuned(KNOWN, 400, norm=1.3)
    regret = next(one for one in found(learner) if one.quantity == "regret")
    assert regret.bound == pytest.approx(
        ((1.3**2 + 1) * 1 + 1) * 20 / 2
    )  # ((|A|^2 + 1) R^2 + G_f^2) sqrt(T) / 2
    assert {"fixed constraints", "affine constraints", "operator norm of the constraints"} <= set(
        regret.assumptions
    )
    numbers = {
        "norm": 1.3,
        "radius": 1.0,
        "diameter": 2.0,
        "loss_lipschitz": 1.0,
        "constraint_range": 2.0,
        "constraint_count": 2,
    }
    excess = []
    for horizon in (10**6, 10**8):
        tuned = YuNeely.tuned(KNOWN, horizon, norm=1.3)
        numbers |= {"horizon": horizon, "gain": tuned.gain, "proximity": tuned.proximity}
        excess.append(
            (bounds.yu_neely_excess(**numbers, slater=0.2), bounds.yu_neely_excess(**numbers))
        )
    assert excess[1][0] == pytest.approx(excess[0][0], rel=0.01)  # O(1) with a Slater point
    assert excess[1][1] / excess[0][1] == pytest.approx(100**0.25, rel=0.01)  # T^(1/4) without


def test_outside_the_theorem_there_is_a_reason():
    tuned = YuNeely.tuned(KNOWN, 400, norm=1.3)
    moving = taut.Setting(KNOWN, 2.0, constraints_fixed=False, constraints_affine=True)
    assert "every round" in found(tuned, moving)[0].reason
    curved = taut.Setting(KNOWN.with_values(constraint_smoothness=1.0), 2.0, initial_violation=0.0)
    assert "affine" in found(tuned, curved)[0].reason
    short = YuNeely(tuned.gain, tuned.gain**2 * 1.3**2 / 2, 1.3)
    assert "proximity" in found(short)[0].reason
    deep = taut.Setting(
        KNOWN.with_values(slater=3.0), 2.0, initial_violation=0.0, constraints_affine=True
    )
    reasons = [one.reason for one in found(tuned, deep) if one.reason]
    assert any("slater" in reason for reason in reasons)
    assert any("pay for" in reason for reason in reasons)  # the clipped violation


def test_bounds_hold_under_attack():
    for count in (1, 2):
        learner = YuNeely.tuned(attack.constants(count), 24)
        attack.check(attack.ratios(learner, 24, count, fixed=True), {"regret": 0.2, "excess": 0.1})
        attack.check(attack.ratios(learner, 24, count, fixed=True, slack=0.2, square=True))
        # Just enough room for the theorem, and far too much.
        attack.check(attack.ratios(YuNeely(2.0, 2.05 * count, count**0.5), 24, count, fixed=True))
        attack.check(attack.ratios(YuNeely(0.5, 40.0, count**0.5), 24, count, fixed=True))


def test_the_attack_finds_a_learner_that_breaks_its_bound():
    @broken
    class Backwards(YuNeely):
        """Moves away from the constraint, so regret against a feasible decision is paid twice."""

        def step(self, state, round):
            after = super().step(state, round)
            return after._replace(x=round.project(2 * state.x - after.x))

    learner = YuNeely.tuned(attack.constants(), 24)
    ratio = attack.ratios(Backwards(learner.gain, learner.proximity, learner.norm), 24, fixed=True)
    assert ratio["regret"] > 1.1
