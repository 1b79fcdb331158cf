"""Values only: conformance, a recursion in NumPy, moments of estimates, bounds, and what bandit
feedback hides."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import taut
from taut import bounds
from taut.judge.guarantees import setting_of
from taut.learners.bandit import CARDS, inner_radius
from taut.problem.rounds import FullInformation
from taut.runs import metrics
from taut.testing import parametrize_with_checks, run_check
from taut.testing.playing import quick_compilation
from taut.testing.problems import TOY

ROUNDS = 30
COSTS = TOY.stream(1, ROUNDS)[0]


@pytest.fixture(autouse=True, scope="module")
def compile_quickly():
    with quick_compilation():
        yield


@parametrize_with_checks(CARDS)
def test_conformance(card, check):
    run_check(card, check, (TOY,))


def direction(key, t):
    normal = np.asarray(jax.random.normal(jax.random.fold_in(key, t), (2,)))
    return normal / np.linalg.norm(normal)


@pytest.mark.parametrize("points", [1, 2])
def test_learner_follows_its_formula(points):
    """Estimated gradients of f + mu [g]_+, steps in the shrunk ball, and scores at the points that
    were played."""
    name = {1: "one-point", 2: "two-point"}[points]
    learner = taut.learner(name, TOY.problem, horizon=ROUNDS)
    run = taut.simulate(
        learner,
        TOY.problem,
        COSTS,
        feedback=taut.Bandit(points),
        record=("loss", "excess", "decisions"),
        chunk=32,
    )
    delta, mu, eta, key = (
        learner.delta,
        learner.penalty,
        learner.learner.eta.value,
        jax.random.key(0),
    )
    key = jax.random.fold_in(key, 2**31 - 1)  # the learner's share of the seed's key
    x = np.zeros(2)
    for t in range(1, ROUNDS + 1):
        u = direction(key, t)
        played = [x + delta * u, x - delta * u][:points]
        np.testing.assert_allclose(
            run.decisions[0, t - 1], x if points == 2 else played[0], rtol=0, atol=1e-9
        )
        losses, excess = [COSTS[t - 1] @ p for p in played], [np.abs(p).sum() - 1 for p in played]
        assert run.loss[0, t - 1] == pytest.approx(np.mean(losses), abs=1e-9)
        assert run.excess[0, t - 1] == pytest.approx(max(excess), abs=1e-9)
        values = [loss + mu * max(g, 0) for loss, g in zip(losses, excess, strict=True)]
        change = values[0] if points == 1 else (values[0] - values[1]) / 2
        x = x - eta * 2 / delta * change * u
        x = x / max(1.0, np.linalg.norm(x) / (1 - delta))  # the ball shrunk by 1 - delta / r, r = 1
    assert np.linalg.norm(x) > 0


@pytest.mark.parametrize("d", [1, 2, 5])
def test_the_second_moment_of_two_points(d):
    """E |z|^2 <= d^2 / (d - 1) G^2 for linear and for kinked functions; linear ones have exactly d
    G^2."""
    rng = np.random.default_rng(0)
    u = rng.normal(size=(200_000, d))
    u /= np.linalg.norm(u, axis=1, keepdims=True)
    a = rng.normal(size=d)
    a /= np.linalg.norm(a)
    most = bounds.two_point_moment(size=d)
    linear = d * (u @ a)
    assert np.mean(linear**2) == pytest.approx(d, rel=0.02)
    kinked = d / 2 * (np.maximum(u @ a, 0) - np.maximum(-u @ a, 0) + np.abs(u @ a) - np.abs(-u @ a))
    for z in (linear, kinked):
        assert np.mean(z**2) <= most * 1.02
    np.testing.assert_allclose(
        np.mean(linear[:, None] * u, axis=0), a, atol=0.02
    )  # the mean is the gradient


def test_bounds_hold_in_expectation():
    seeds, rounds = 40, 120
    data = TOY.stream(seeds, rounds)
    for name, points in (("two-point", 2), ("one-point", 1)):
        learner = taut.learner(name, TOY.problem, horizon=rounds)
        run = taut.simulate(
            learner, TOY.problem, data, feedback=taut.Bandit(points), seeds=seeds, chunk=128
        )
        measured = metrics.measured(run, TOY.optimum(data))
        found = {one.quantity: one for one in learner.guarantees(setting_of(TOY.problem), rounds)}
        assert set(found) == {"regret", "violation", "excess"}
        for quantity, one in found.items():
            assert one.expected
            assert measured[quantity].mean() <= one.bound
    assert "data that do not depend on the decisions" in found["regret"].assumptions


def test_gradients_and_other_points_are_hidden():
    with pytest.raises(TypeError, match="bandit feedback has no gradients"):
        taut.simulate("half-space", TOY.problem, COSTS, feedback=taut.Bandit(), unproven=True)
    seen = taut.problem.feedback.bandit.BanditRound(TOY.problem.round(jnp.ones(2)), (jnp.zeros(2),))
    with pytest.raises(TypeError, match="at the points that were played"):
        seen.loss(jnp.zeros(2))
    learner = taut.learner("two-point", TOY.problem, horizon=9)
    assert "plays 2 point" in learner.uncovered(taut.Bandit(points=1))
    assert "not noisy" in learner.uncovered(taut.Noisy(values=1.0))


def test_a_player_says_which_points_to_play():
    learner = taut.learner("two-point", TOY.problem, horizon=9)
    player = taut.Player(learner, TOY.problem, feedback=taut.Bandit())
    for t in range(3):
        assert player.points.shape == (2, 2)
        np.testing.assert_allclose(player.points.mean(axis=0), player.decision, atol=1e-15)
        assert np.linalg.norm(player.points[0] - player.points[1]) == pytest.approx(
            2 * learner.delta
        )
        player.observe(COSTS[t])
    assert taut.Player(TOY.problem).points.shape == (1, 2)


def test_domains_need_room_around_their_centre():
    assert inner_radius(taut.Box([0.0, 0.0], [1.0, 4.0])) == 0.5
    assert inner_radius(taut.L1Ball(2.0, shape=4)) == 1.0
    with pytest.raises(ValueError, match="domain: got Simplex"):
        inner_radius(taut.Simplex(3))
    with pytest.raises(ValueError, match="delta: got 2; expected less than the inner radius"):
        taut.TwoPoint(taut.HalfSpace(0.1, 2.0), 2.0, 1.0, 1.0, np.zeros(2))
    with pytest.raises(ValueError, match="points: got 3"):
        taut.Bandit(points=3)


def test_inner_learner_sees_the_mean_of_the_penalised_values(monkeypatch):
    """f + mu [g]_+ = x_1 + 2 [x_1 + 1]_+ at both points: 3 x_1 + 2 in their middle, where x_1 =
    0."""
    seen = []
    real = taut.HalfSpace.step

    def step(self, state, round):
        seen.append(round.loss(state.x))
        values, pull, push = round.constraints(state.x)
        np.testing.assert_array_equal(values, [-1.0])
        np.testing.assert_array_equal(pull(values), [0.0, 0.0])
        np.testing.assert_array_equal(push(state.x + 1), [0.0])
        return real(self, state, round)

    monkeypatch.setattr(taut.HalfSpace, "step", step)
    problem = taut.Problem(lambda x, z: x[0], lambda x: x[0] + 1, taut.Ball(1.0, shape=2))
    inner = taut.HalfSpace(eta=0.1, diameter=2.0)
    learner = taut.TwoPoint(inner, delta=0.1, penalty=2.0, centre=np.zeros(2), inner_radius=1.0)
    with jax.disable_jit():
        learner.step(
            learner.init(jnp.zeros(2), 1),
            FullInformation(problem.loss, problem.constraints, problem.domain, None),
        )
    assert float(seen[0]) == pytest.approx(2.0)


def test_a_loss_without_slope_is_refused_by_name():
    flat = taut.Constants(loss_lipschitz=0.0, constraint_lipschitz=1.0)
    with pytest.raises(ValueError, match=r"^loss_lipschitz: got 0"):
        taut.TwoPoint.tuned(flat, 100, taut.Ball(1.0, shape=2))
