"""The zoo tells the truth: constants, optima, feasible sets and adversaries, each checked
independently."""

from functools import cache

import cvxpy as cp
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import small_games
import taut
from taut.testing import playing, problems

CASES = pytest.mark.parametrize("case", problems.PROBLEMS, ids=playing.name_of)


@pytest.fixture(autouse=True, scope="module")
def _quick():
    with playing.quick_compilation():
        yield


@cache
def sampled(case):
    """|df|, f, g and |dg_i| over decisions (boundary included) x rounds of a stream and of the
    adversary."""
    points = small_games.points_of(case.problem.domain, 400)
    drawn = jax.tree.map(lambda a: a[0], case.stream(1, 24, seed=3))
    keys = jax.random.split(jax.random.key(2), 24)
    revealed = jax.vmap(case.reveal)(
        jnp.arange(1, 25, dtype=jnp.int32), jnp.asarray(points[-24:]), keys
    )
    data = jax.tree.map(lambda a, b: jnp.concatenate([jnp.asarray(a), b]), drawn, revealed)

    def one(x, z):
        round = case.problem.round(z)
        values, pull, _ = round.constraints(x)
        rows = jax.vmap(pull)(jnp.eye(len(values)))
        slopes = jnp.linalg.norm(rows.reshape(len(values), -1), axis=1)
        return jnp.linalg.norm(round.gradient(x)), round.loss(x), values, slopes

    everywhere = jax.jit(jax.vmap(jax.vmap(one, (0, None)), (None, 0)))(points, data)
    return points, [np.asarray(a) for a in everywhere]


@CASES
def test_constants_bound_what_is_sampled_and_are_nearly_reached(case):
    points, (slopes, losses, values, constraint_slopes) = sampled(case)
    known = case.problem.constants
    domain = case.problem.domain
    measured = {
        "radius": np.linalg.norm(
            (points - np.asarray(domain.centre)).reshape(len(points), -1), axis=1
        ).max(),
        "loss_lipschitz": slopes.max(),
        "constraint_lipschitz": constraint_slopes.max(),
        "loss_range": np.ptp(losses, axis=1).max(),
        "constraint_range": np.abs(values).max(),
    }
    for name, value in measured.items():
        assert value <= getattr(known, name) * (1 + 1e-12), name
        assert value >= 0.6 * getattr(known, name), name  # a bound so loose would hide a mistake
    assert known.constraint_count == values.shape[-1]
    if known.slater is not None:  # in every round at once
        assert values.max(axis=(0, 2)).min() <= -0.5 * known.slater


@CASES
def test_feasible_set_and_error_bound(case):
    if case.feasible is None:
        pytest.skip("no exact projection")
    points, (_, _, values, _) = sampled(case)
    worst = values[0].max(axis=-1)
    nearest = np.asarray(jax.jit(jax.vmap(case.feasible.project))(points))
    assert (
        playing.known_values(case, nearest[None], case.stream(1, len(nearest))).max() <= 1e-9
    )  # projections are feasible
    assert bool(jnp.all(jax.vmap(case.problem.domain.contains)(nearest)))
    distance = np.linalg.norm((points - nearest).reshape(len(points), -1), axis=1)
    assert np.all((distance > 1e-9) == (worst > 1e-9))  # and nothing feasible is missing
    outside = distance > 1e-6
    ratio = np.maximum(worst, 0)[outside] / distance[outside]
    assert ratio.min() >= case.problem.constants.error_bound * (1 - 1e-9)


def solve(case, z):
    """The best decision by CVXPY, every problem written out a second time."""
    x = cp.Variable(case.problem.domain.shape)
    if case is problems.TOY:
        loss, rows = z.sum(axis=0) @ x, [cp.norm1(x) <= 1]
    elif case is problems.STRONG:
        loss, rows = sum(cp.sum_squares(x + 1.5 * c) for c in z) / 2, [cp.norm1(x) <= 1]
    elif case is problems.POLYHEDRON:
        loss, rows = (
            z.sum(axis=0) @ x,
            [problems.ROWS @ x <= problems.LEVELS, cp.norm2(x - problems.CENTRE) <= 2],
        )
    elif case is problems.DOUBLY:
        loss = sum(cp.sum_squares(x - y) for y in z) / 2
        rows = [cp.sum(x, axis=0) == 1, cp.sum(x, axis=1) == 1, x >= 0]
    elif case is problems.MOVING:
        loss = z["cost"].sum(axis=0) @ x
        rows = [cp.norm2(x) <= 1] + [
            n @ x <= b for n, b in zip(z["normals"], z["levels"], strict=True)
        ]
    else:
        loss, rows = cp.sum(cp.multiply(z.sum(axis=0), x)), [cp.sum_squares(x) <= 1, cp.abs(x) <= 1]
    plan = cp.Problem(cp.Minimize(loss), rows)
    plan.solve(solver=cp.CLARABEL)
    return x.value, plan.value


@CASES
def test_optimum_agrees_with_cvxpy(case):
    z = jax.tree.map(lambda a: a[0], case.stream(1, 40, seed=4))
    best, total = case.best(z)
    x, value = solve(case, z)
    assert total == pytest.approx(value, abs=1e-5)
    np.testing.assert_allclose(best, x, atol=1e-3)
    played = jax.vmap(case.problem.loss, in_axes=(None, 0))(jnp.asarray(best), z)
    assert float(played.sum()) == pytest.approx(total, abs=1e-9)
    every_round = np.broadcast_to(best, (1, 40, *best.shape))
    assert playing.known_values(case, every_round, jax.tree.map(lambda a: a[None], z)).max() <= 1e-9


@CASES
def test_streams_are_reproducible_and_seeds_differ(case):
    first, again = case.stream(2, 8), case.stream(2, 8)
    jax.tree.map(np.testing.assert_array_equal, first, again)
    assert any(np.any(leaf[0] != leaf[1]) for leaf in jax.tree.leaves(first))
    longer = case.stream(2, 9)
    assert all(leaf.shape[:2] == (2, 9) for leaf in jax.tree.leaves(longer))


@CASES
def test_adversary_reacts_and_a_replay_of_its_data_gives_the_same_play(case):
    method = taut.LEARNERS["clipped-ogd"]
    run, data = playing.adversarial_run(method, case)
    again = taut.simulate(
        playing.tuned(method, case),
        case.lowered(0.0),
        data,
        seeds=problems.SEEDS,
        chunk=playing.CHUNK,
        record=playing.RECORD,
    )
    np.testing.assert_allclose(again.decisions, run.decisions, rtol=0, atol=1e-12)
    np.testing.assert_allclose(again.totals.loss, run.totals.loss, rtol=1e-12)
    moved = case.replay(
        run.decisions[:, ::-1], jax.random.key(5)
    )  # other decisions, same keys: other data
    assert any(
        np.any(a != b) for a, b in zip(jax.tree.leaves(moved), jax.tree.leaves(data), strict=True)
    )
