"""Averaged rows: conformance, three rounds, recursions in NumPy, and bounds on many seeds under
noise."""

from dataclasses import replace
from functools import cache
from math import log, sqrt

import jax.numpy as jnp
import numpy as np
import pytest

import taut
from learners import three_rounds
from taut import bounds
from taut.judge.guarantees import setting_of
from taut.learners import HalfSpace
from taut.learners.averaged import CARDS
from taut.learners.guarantee import Assumes
from taut.runs import metrics
from taut.testing import parametrize_with_checks, problems, run_check
from taut.testing.playing import quick_compilation

POLYHEDRON, MATRIX, TOY = problems.POLYHEDRON, problems.MATRIX, problems.TOY
HOME = {"averaged": POLYHEDRON, "averaged-smooth": MATRIX, "averaged-blocks": TOY}
ERRORS = np.array([0.2, -0.1, 0.05])


@pytest.fixture(autouse=True, scope="module")
def compile_quickly():
    with quick_compilation():
        yield


@parametrize_with_checks(CARDS)
def test_conformance(card, check):
    run_check(card, check, (HOME[card.name],))


# -- Three rounds: the row (1, 0).x <= 0.25 with errors +0.2, -0.1, +0.05, margin 0.1 / sqrt(t),
# step 1/2 ----------------


def row(x):
    return x[0] - 0.25


GAME = taut.Problem(three_rounds.linear, row, three_rounds.BALL, three_rounds.CONSTANTS)


def stored(key, t, x):
    return jnp.asarray(ERRORS)[t - 1]


@pytest.mark.parametrize("rows", ["affine", "smooth"])
def test_three_rounds(rows):
    sigma = 0.1 / sqrt(2 * log(16**2))
    inner = HalfSpace(0.5, 2.0, sweeps=None, joint=True, rows="all")
    # With T = 16 the least weight is 16^(-2/3) = 0.157, below 1/3: both kinds of rows take the
    # mean.
    learner = taut.Averaged(inner, 16, sigma, rows=rows, smoothness=0.0)
    data = {"c": three_rounds.COSTS, "a": three_rounds.NORMALS, "b": three_rounds.LEVELS}
    run = taut.simulate(
        learner,
        GAME,
        data,
        x1=[0.5, 0.0],
        feedback=taut.Noisy(values=stored),
        record=("decisions",),
        chunk=4,
    )
    expected = [(0.15, 0), (0.15, 0.5)]
    np.testing.assert_allclose(run.decisions[0, 1:], expected, rtol=0, atol=6e-13)
    np.testing.assert_allclose(run.final[0], (0.257735026919, 0.9), rtol=0, atol=6e-13)


# -- Recursions in NumPy
# -----------------------------------------------------------------------------------------------

A, B = problems.ROWS, problems.LEVELS
ROUNDS = 60


def onto_ball(z, ball):
    away = z - ball[0]
    return ball[0] + away / max(1.0, np.linalg.norm(away) / ball[1])


def joint(y, normal, offset, ball):
    """Onto a row and a ball: the least multiplier at which the projection onto the ball satisfies
    the row, by bisection."""
    low, high = 0.0, 1e3
    if normal @ onto_ball(y, ball) <= offset:
        return onto_ball(y, ball)
    for _ in range(100):
        middle = (low + high) / 2
        outside = normal @ onto_ball(y - middle * normal, ball) > offset
        low, high = (middle, high) if outside else (low, middle)
    return onto_ball(y - high * normal, ball)


def noise(seed):
    """One error per row and round, the same for the learner and for the recursion."""
    return np.random.default_rng(seed).normal(size=(ROUNDS, 6)) * 0.3


def test_one_affine_row_follows_its_formula():
    """With one row the projection is exact, so decisions equal those of a recursion that knows
    nothing of the code."""
    errors, slopes = noise(0)[:, 0], np.random.default_rng(1).normal(size=(ROUNDS, 3)) * 0.1
    a, b, eta, sigma = np.array([-1.0, 0.5, -0.25]), 0.2, 0.3, 0.35
    costs = POLYHEDRON.stream(1, ROUNDS)[0]
    problem = taut.Problem(
        problems.linear_loss, lambda x: jnp.asarray(a) @ x - b, POLYHEDRON.problem.domain
    )
    learner = taut.Averaged(
        HalfSpace(eta, 4.0, sweeps=None, joint=True, rows="all"), ROUNDS, sigma, 0.1
    )
    feedback = taut.Noisy(
        values=lambda key, t, x: jnp.asarray(errors)[t - 1],
        gradients=lambda key, t, x: jnp.asarray(slopes)[t - 1][None],
    )
    run = taut.simulate(learner, problem, costs, feedback=feedback, record=("decisions",), chunk=64)
    ball = (problems.CENTRE, 2.0)
    x, models, active = problems.CENTRE, [], 0
    for t in range(1, ROUNDS + 1):
        np.testing.assert_allclose(run.decisions[0, t - 1], x, rtol=0, atol=1e-9)
        normal = a + slopes[t - 1]
        models.append((normal, a @ x - b + errors[t - 1] - normal @ x))
        mean, intercept = np.mean([m for m, _ in models], axis=0), np.mean([c for _, c in models])
        margin = sigma * sqrt(2 * log(ROUNDS**2) / t)
        y = x - eta * costs[t - 1]
        active += mean @ onto_ball(y, ball) > margin - intercept
        x = joint(y, mean, margin - intercept, ball)
    assert active > 20


def test_all_affine_rows_hold_after_each_round():
    """Several rows: sweeps end when all estimated rows hold within D / (t + 1)^2, and no decision
    of the set gets farther."""
    errors, costs, sigma = noise(2), POLYHEDRON.stream(1, ROUNDS)[0], 0.3
    learner = taut.learner("averaged", POLYHEDRON.problem, horizon=ROUNDS, sigma=sigma)
    feedback = taut.Noisy(values=lambda key, t, x: jnp.asarray(errors)[t - 1])
    run = taut.simulate(
        learner, POLYHEDRON.problem, costs, feedback=feedback, record=("decisions",), chunk=64
    )
    x = np.concatenate([run.decisions[0], run.final])
    eta = 2.0 / (3.0 * sqrt(ROUNDS))
    for t in range(1, ROUNDS + 1):
        margin = sigma * sqrt(2 * log(6 * ROUNDS**2) / t)
        offsets = B - errors[:t].mean(axis=0) + margin
        y = x[t - 1] - eta * costs[t - 1]
        beyond = (A @ x[t] - offsets) / np.linalg.norm(A, axis=1)
        assert beyond.max() <= 4.0 / (t + 1) ** 2 + 1e-12
        inside = np.clip(problems.CENTRE, problems.LOWER + 0.1, problems.UPPER - 0.1)
        assert np.all(A @ inside <= offsets)
        assert np.linalg.norm(x[t] - inside) <= np.linalg.norm(y - inside) + 1e-12
        if np.all(A @ y <= offsets) and np.linalg.norm(y - problems.CENTRE) <= 2:
            np.testing.assert_allclose(x[t], y, atol=1e-12)


def test_smooth_rows_follow_their_formula():
    """g = (|x|^2 - 1) / 2 on a box: values carried along gradients, weights max(T^(-2/3), 1/t),
    bias L |dx|^2 / 8."""
    errors, sigma, eta = noise(3)[:, 0], 0.3, 0.2
    costs = MATRIX.stream(1, ROUNDS)[0]
    learner = taut.Averaged(
        HalfSpace(eta, 24**0.5, sweeps=None, joint=True, rows="all"),
        ROUNDS,
        sigma,
        smoothness=1.0,
        rows="smooth",
    )
    feedback = taut.Noisy(values=lambda key, t, x: jnp.asarray(errors)[t - 1])
    run = taut.simulate(
        learner, MATRIX.problem, costs, feedback=feedback, record=("decisions",), chunk=64
    )
    x = before = np.zeros(6)
    value = bias = 0.0
    for t in range(1, ROUNDS + 1):
        np.testing.assert_allclose(run.decisions[0, t - 1].ravel(), x, rtol=0, atol=1e-8)
        rate, move = max(ROUNDS ** (-2 / 3), 1 / t), x - before
        carried = value + (before + x) @ move / 2
        value = (1 - rate) * carried + rate * ((x @ x - 1) / 2 + errors[t - 1])
        bias = (1 - rate) * (bias + move @ move / 8)
        level = value - bias - sigma * sqrt(2 * rate * log(ROUNDS**2))
        before, y = x, x - eta * costs[t - 1].ravel()

        def beyond(weight, y=y, normal=x, level=level):
            return level + normal @ (np.clip(y - weight * normal, -1, 1) - normal)

        if beyond(0.0) > 0:
            low, high = 0.0, 1e6
            for _ in range(200):
                middle = (low + high) / 2
                low, high = (middle, high) if beyond(middle) > 0 else (low, middle)
            y = y - high * x
        x = np.clip(y, -1, 1)


def test_blocks_follow_their_formula():
    """Decisions are held for B rounds; then one step with the means of gradients and values."""
    errors, sigma, eta, block = noise(4)[:, 0], 0.3, 0.2, 7
    costs = TOY.stream(1, ROUNDS)[0]
    inner = HalfSpace(eta, 2.0, sweeps=None, joint=True, rows="all")
    learner = taut.Averaged(inner, ROUNDS, sigma, block=block, rows="convex")
    feedback = taut.Noisy(values=lambda key, t, x: jnp.asarray(errors)[t - 1])
    run = taut.simulate(
        learner, TOY.problem, costs, feedback=feedback, record=("decisions",), chunk=64
    )
    x, start = np.zeros(2), 0
    while start < ROUNDS:
        held = run.decisions[0, start : start + block]
        np.testing.assert_allclose(held, np.broadcast_to(x, held.shape), rtol=0, atol=1e-8)
        margin = sigma * sqrt(2 * log(ROUNDS**2) / block)
        seen, normal = errors[start : start + block], np.sign(x)
        level = np.abs(x).sum() - 1 + seen.mean() - margin
        y = x - eta * costs[start : start + block].mean(axis=0)
        x = joint(y, normal, normal @ x - level, (np.zeros(2), 1.0)) if normal.any() else y
        start += block


def test_sigma_of_blocks_is_estimated_from_one_residual_less_per_block():
    block, eta, cost = 7, 0.2, np.array([-1.0, -1.0])
    rounds, errors = 2 * block + 1, 0.1 * noise(4)[: 2 * block, 0].reshape(2, block)
    inner = HalfSpace(eta, 2.0, sweeps=None, joint=True, rows="all")
    learner = taut.Averaged(inner, rounds, None, block=block, rows="convex")
    run = taut.simulate(
        learner,
        TOY.problem,
        np.tile(cost, (rounds, 1)),
        feedback=taut.Noisy(values=lambda key, t, x: jnp.asarray(errors.ravel())[t - 1]),
        unproven=True,
        x1=np.array([0.7, 0.25]),
        record=("decisions",),
    )
    x, squares = np.array([0.7, 0.25]), 0.0
    for number, seen in enumerate(errors, 1):
        squares, degrees = squares + np.sum((seen - seen.mean()) ** 2), number * (block - 1)
        sigma = sqrt(squares / degrees) * (1 + 2 / sqrt(degrees))
        margin = sigma * sqrt(2 * log(rounds**2) / block)
        normal, edge = np.sign(x), 1 - seen.mean() + margin
        x = joint(x - eta * cost, normal, edge, (np.zeros(2), 1.0))
        assert normal @ x == pytest.approx(edge)  # the row is active
        np.testing.assert_allclose(run.decisions[0, number * block], x, rtol=0, atol=1e-8)


# -- Bounds
# ------------------------------------------------------------------------------------------------------------


SEEDS, LONG = 40, 240


@cache
def long_run(name, sigma=0.3):
    """Many seeds under noise, with what theory needs to know about them."""
    known = HOME[name]
    data = known.stream(SEEDS, LONG)
    learner = taut.learner(name, known.problem, horizon=LONG, sigma=sigma)
    noisy = taut.Noisy(values=0.3)
    run = taut.simulate(
        learner, known.problem, data, feedback=noisy, unproven=sigma is None, seeds=SEEDS, chunk=256
    )
    return learner, run, known.optimum(data)


@pytest.mark.parametrize("name", HOME)
def test_bounds_hold_on_many_seeds(name):
    learner, run, best = long_run(name)
    problem, rounds = HOME[name].problem, LONG
    measured = metrics.measured(run, best)
    found = {one.quantity: one for one in learner.guarantees(setting_of(problem), rounds)}
    assert set(found) == {"regret", "violation", "excess"}
    for quantity, one in found.items():
        assert np.mean(measured[quantity] > one.bound) <= 4 / rounds, (
            quantity,
            measured[quantity].max(),
            one.bound,
        )
        assert {Assumes.CONVEX_LOSSES, Assumes.FIXED_CONSTRAINTS, Assumes.NOISE} <= set(
            one.assumptions
        )
    assert measured["violation"].min() > 0


def test_the_margin_covers_the_error_of_the_mean():
    """The event behind N1: all means of normal errors stay within their margins, in all but 2/T of
    the runs."""
    rounds, runs = 64, 4000
    sums = np.cumsum(np.random.default_rng(0).normal(size=(runs, rounds)), axis=1)
    margins = np.array(
        [
            t * bounds.averaged_margin(sigma=1.0, horizon=rounds, constraint_count=1, rate=1 / t)
            for t in range(1, rounds + 1)
        ]
    )
    failed = np.mean(np.any(np.abs(sums) > margins, axis=1))
    assert 0 < failed <= 2 / rounds
    assert (
        np.mean(np.any(np.abs(sums) > margins / sqrt(2), axis=1)) > 2 / rounds
    )  # FRONTIER's margin is too small


def test_bounds_are_numbers_that_can_be_checked_by_hand():
    assert bounds.averaged_violation(
        horizon=100, sigma=0.5, constraint_count=3, initial_violation=0.25
    ) == pytest.approx(0.25 + 4 * 0.5 * sqrt(2 * 100 * log(3e4)))
    noisy_gradients = bounds.averaged_violation(
        horizon=100,
        sigma=0.5,
        constraint_count=3,
        initial_violation=0.25,
        gradient_sigma=0.1,
        size=4,
        radius=2.0,
    )
    assert noisy_gradients == pytest.approx(
        0.25 + 4 * 0.5 * sqrt(2 * 100 * log(3e4)) + 2 * 2.0 * 0.1 * sqrt(2 * 4 * 100 * log(12e4))
    )
    assert bounds.averaged_block_violation(
        horizon=100, block=10, sigma=0.5, constraint_count=3, violation=7.0
    ) == pytest.approx(10 * (2 * 10 * 0.5 * sqrt(2 * log(3e4) / 10) + 7.0))
    exact = {
        "horizon": 3,
        "sigma": 0.0,
        "constraint_count": 1,
        "initial_violation": 0.0,
        "slater": 1.0,
        "diameter": 2.0,
    }
    # Without noise and from a feasible start, u_1 = 0: v_2 = L s^2 / 2, u_2 = min(v_2, 3 L s^2 / 16
    # + v_2 / 2).
    step, bend = 0.1, 2.0
    v2 = bend * step**2 / 2
    u2 = min(v2, 3 * bend * step**2 / 16 + v2 / 2)
    move = step**2 + (2 * u2 / (u2 + 1)) ** 2
    v3 = 2 * (bend * step**2 / 16) + bend * move / 2
    assert bounds.averaged_smooth_violation(
        **exact, constraint_smoothness=bend, longest=step, rate=1e-9
    ) == pytest.approx(v2 + v3)


def test_what_is_not_proven_is_refused_with_its_reason():
    problem, T = POLYHEDRON.problem, 100
    learner = taut.learner("averaged", problem, horizon=T, sigma=0.3)
    assert learner.uncovered(taut.Noisy(values=0.3)) == ""
    assert learner.uncovered(taut.Noisy(values=0.5, distribution="uniform", loss=1.0)) == ""
    reasons = {
        "is below that of the noise, 0.31": (learner, taut.Noisy(values=0.31)),
        "exact gradients of the loss": (learner, taut.Noisy(values=0.1, loss_gradients=0.1)),
        "gradient_sigma = 0 is below": (learner, taut.Noisy(values=0.1, gradients=0.1)),
        "sigma is estimated from residuals": (
            taut.learner("averaged", problem, horizon=T),
            taut.Noisy(values=0.1),
        ),
        "must be HalfSpace with memory=0": (
            taut.Averaged(taut.learner("clipped-ogd", problem, horizon=T), T, 0.3),
            taut.Noisy(values=0.1),
        ),
        "need exact gradients of the constraints": (
            taut.learner("averaged-smooth", MATRIX.problem, horizon=T, sigma=0.3),
            taut.Noisy(values=0.1, gradients=0.1),
        ),
    }
    for reason, (one, feedback) in reasons.items():
        assert reason in one.uncovered(feedback)
    wide = taut.learner("averaged", problem, horizon=T, sigma=0.5, gradient_sigma=0.1)
    assert (
        wide.uncovered(taut.Noisy(values=0.3, gradients=0.1)) == ""
    )  # 0.3^2 + (0.1 * 4)^2 = 0.5^2
    assert "below that of the noise, 0.50" in wide.uncovered(taut.Noisy(values=0.31, gradients=0.1))


@pytest.mark.parametrize(
    ("learner", "known", "reason"),
    [
        (
            taut.learner("averaged", MATRIX.problem, horizon=50, sigma=0.3),
            MATRIX,
            "not known to be affine",
        ),
        (
            taut.learner("averaged", POLYHEDRON.problem, horizon=50),
            POLYHEDRON,
            "sigma is estimated",
        ),
        (
            taut.learner("averaged", POLYHEDRON.problem, horizon=40, sigma=0.3),
            POLYHEDRON,
            "the margins are for 40 rounds",
        ),
        (
            taut.learner("averaged-blocks", problems.MOVING.problem, horizon=50, sigma=0.3),
            problems.MOVING,
            "same in every",
        ),
    ],
    ids=["curved", "estimated", "short", "moving"],
)
def test_no_bound_outside_the_theorems(learner, known, reason):
    found = list(learner.guarantees(setting_of(known.problem), 50))
    assert {one.bound for one in found} == {None}
    assert reason in found[0].reason


def test_bound_for_several_smooth_rows_is_larger_than_for_one():
    learner = taut.learner("averaged-smooth", MATRIX.problem, horizon=LONG, sigma=0.3)
    setting = setting_of(MATRIX.problem)
    constants = setting.constants.with_values(
        constraint_count=3,
        constraint_smoothness=0.0,
        slater=0.1,
        loss_lipschitz=1.0,
        constraint_lipschitz=1.0,
    )
    promised = learner.guarantees(replace(setting, constants=constants), LONG)
    found = next(one.bound for one in promised if one.quantity == "violation")
    given = {
        "horizon": LONG,
        "sigma": learner._scale(LONG, 3),
        "constraint_count": 3,
        "slater": 0.1,
        "constraint_lipschitz": 1.0,
        "initial_violation": setting.initial_violation,
        "constraint_smoothness": float(learner.smoothness),
        "diameter": setting.diameter,
        "longest": float(learner.learner.eta.value),
        "rate": LONG ** (-2 / 3),
    }
    assert found == bounds.averaged_smooth_violation(**given, several=True)
    assert found != bounds.averaged_smooth_violation(**given, several=False)


def test_an_estimated_sigma_comes_close_to_the_true_one():
    runs = [long_run("averaged", sigma)[1] for sigma in (0.3, None)]
    given, estimated = (run.totals.worst_violation.mean() for run in runs)
    assert given < estimated < 1.5 * given
    losses = [run.totals.loss.mean() for run in runs]
    assert losses[1] == pytest.approx(losses[0], rel=0.2)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: taut.Averaged("half-space", 10), "learner: got 'half-space'; expected a learner"),
        (lambda: taut.Averaged(HalfSpace(0.1, 1.0), 0), "horizon: got 0"),
        (lambda: taut.Averaged(HalfSpace(0.1, 1.0), 10, -1.0), "sigma: got -1"),
        (
            lambda: taut.Averaged(HalfSpace(0.1, 1.0), 10, rows="max"),
            "rows: got 'max'; expected one of 'affine'",
        ),
        (lambda: taut.Averaged(HalfSpace(0.1, 1.0), 10, rows="smooth"), "smoothness: got None"),
        (lambda: taut.Averaged(HalfSpace(0.1, 1.0), 10, block=0), "block: got 0"),
    ],
)
def test_bad_arguments_are_refused(make, message):
    with pytest.raises((TypeError, ValueError), match=message):
        make()
