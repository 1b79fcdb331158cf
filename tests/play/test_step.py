"""The pure step for people who compile and map games themselves: the same game as the simulation."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import taut
from small_games import BALL, GAME, ROUNDS, distance, learner, outside_diamond, targets
from taut.runs.totals import Totals

CLIPPED = taut.ClippedOGD(0.3, 5.0)


def scanned(learner, problem, z, **given):
    """Decisions, losses and constraint values of all rounds, and the state after them."""

    @jax.jit
    def play(z):
        first = taut.init(learner, problem, z[0] if hasattr(z, "shape") else None, **given)
        return jax.lax.scan(lambda state, z: taut.step(learner, problem, state, z), first, z)

    return play(z)


@pytest.mark.parametrize(
    "name", ["clipped-ogd", "half-space", "two-point", "surrogate", "clipped-ogd-doubling"]
)
def test_a_scan_of_steps_is_a_simulation(name):
    z, key = targets(), jax.random.key(3)
    run = taut.simulate(learner(name), GAME, z, key=key, record=("loss", "excess", "decisions"))
    state, scored = scanned(learner(name), GAME, jnp.asarray(z), key=key)
    tolerance = {"rtol": 1e-12, "atol": 1e-12}
    np.testing.assert_allclose(scored.x, run.decisions[0], **tolerance)
    np.testing.assert_allclose(scored.loss, run.loss[0], **tolerance)
    np.testing.assert_allclose(scored.excess[:, 0], run.excess[0], **tolerance)
    np.testing.assert_allclose(state.x, run.final[0], **tolerance)
    totals = Totals.of_chunk(jax.tree.map(np.asarray, state.totals))
    for field, value in vars(run.totals).items():
        np.testing.assert_allclose(getattr(totals, field), value[0], **tolerance, err_msg=field)
    assert (int(state.t), int(state.faults)) == (ROUNDS + 1, 0)


def test_seeds_and_learners_can_be_mapped():
    z, sizes = jnp.asarray(targets(seeds=3)), np.array([0.1, 0.3])

    def play(eta, z):
        made = taut.ClippedOGD(eta, 5.0)
        first = taut.init(made, GAME)
        return jax.lax.scan(lambda state, z: taut.step(made, GAME, state, z), first, z)

    state, scored = jax.jit(jax.vmap(jax.vmap(play, (None, 0)), (0, None)))(sizes, z)
    learners = [taut.ClippedOGD(eta, 5.0) for eta in sizes]
    run = taut.simulate(learners, GAME, z, seeds=3)
    np.testing.assert_allclose(scored.loss, run.loss, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(state.x, run.final, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("x1", [None, [0.25, -0.5]])
def test_a_problem_is_first_used_inside_compiled_code(x1):
    problem = taut.Problem(distance, lambda x: jnp.sum(jnp.abs(x)) - 1, taut.Ball(1.5, shape=2))
    _, scored = scanned(CLIPPED, problem, jnp.asarray(targets()), x1=x1)
    run = taut.simulate(CLIPPED, problem, targets(), x1=x1)
    np.testing.assert_allclose(scored.loss, run.loss[0], rtol=1e-12, atol=1e-12)


def test_steps_outside_of_compiled_code():
    run = taut.simulate(CLIPPED, GAME, targets(), record=("decisions",))
    state = taut.init(CLIPPED, GAME)
    for t, z in enumerate(targets()[:5]):
        before = state
        np.testing.assert_allclose(state.x, run.decisions[0, t], atol=1e-13)
        state, scored = taut.step(CLIPPED, GAME, state, z)
        np.testing.assert_array_equal(scored.x, before.x)


def test_announced_constraints_are_enforced_once():
    problem = taut.Problem(
        distance, outside_diamond, BALL, announced=lambda x, z: x[0] - 0.2 * z[1] - 0.1
    )
    method, z = taut.learner("half-space", problem), targets()
    run = taut.simulate(method, problem, z, record=("loss", "excess", "decisions"))
    _, scored = scanned(method, problem, jnp.asarray(z))
    np.testing.assert_allclose(scored.x, run.decisions[0], rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(scored.excess.max(axis=1), run.excess[0], rtol=1e-12, atol=1e-12)
    state = taut.init(method, problem, z[0])
    for t, point in enumerate(z[:2]):
        state = taut.announce(method, problem, state, point)
        np.testing.assert_allclose(state.x, run.decisions[0, t], atol=1e-12)
        state, scored = taut.step(method, problem, state, point, announced=True)
        assert scored.loss == pytest.approx(run.loss[0, t])


def test_the_previous_decision_is_carried():
    problem = taut.Problem(
        lambda x, z, previous: z @ x + jnp.sum((x - previous) ** 2),
        outside_diamond,
        BALL,
        previous=True,
        start=[0.5, 0.25],
    )
    run = taut.simulate(CLIPPED, problem, targets(), record=("loss", "decisions"))
    state, scored = scanned(CLIPPED, problem, jnp.asarray(targets()))
    np.testing.assert_allclose(scored.loss, run.loss[0], rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(state.previous, scored.x[-1])


def test_the_float_type_is_that_of_the_first_decision():
    state = taut.init(CLIPPED, GAME, x1=np.zeros(2, np.float32))
    after, scored = taut.step(CLIPPED, GAME, state, np.ones(2, np.float32))
    assert after.x.dtype == scored.loss.dtype == np.float32
    assert jax.tree.structure(after) == jax.tree.structure(state)
    types = [(leaf.shape, leaf.dtype) for leaf in jax.tree.leaves(state)]
    assert types == [(leaf.shape, leaf.dtype) for leaf in jax.tree.leaves(after)]


def test_a_fault_is_named_in_the_state():
    z = jnp.asarray(targets()).at[4, 0].set(jnp.nan)
    state, _ = scanned(CLIPPED, GAME, z)
    assert taut.play.round.first_fault(int(state.faults)) == (5, "data")


def test_the_number_of_constraints_is_taken_from_the_data_of_a_round():
    problem = taut.Problem(lambda x, z: jnp.sum(z @ x), lambda x, z: z @ x - 1, BALL)
    with pytest.raises(ValueError, match=r"z: got None; expected the data of one round"):
        taut.init(CLIPPED, problem)
    assert taut.init(CLIPPED, problem, np.ones((3, 2))).totals.excess.value.shape == (3,)


def test_the_decision_of_a_step_can_be_differentiated():
    """By the parameters of the learner, for people who tune them."""

    def final(eta):
        made = taut.ClippedOGD(eta, 5.0)
        state = taut.init(made, GAME)
        for z in targets()[:3]:
            state, _ = taut.step(made, GAME, state, z)
        return jnp.sum(state.x)

    slope = (final(0.1 + 1e-6) - final(0.1 - 1e-6)) / 2e-6
    np.testing.assert_allclose(jax.grad(final)(0.1), slope, rtol=1e-5)
