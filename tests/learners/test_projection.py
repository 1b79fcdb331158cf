"""The exact projection on cuts and a domain: golden rounds, a solver, thin wedges, contradictions."""

from math import cos, sin, sqrt

import cvxpy as cp
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import taut
from learners import half_space_reference as reference
from taut.learners.half_space import projection
from taut.learners.half_space.projection import exact_projection
from taut.learners.schedules import AdaGradNorm


def projected(domain, y, normals, offsets, ages=None, round=5, first=None):
    ages = np.zeros(len(offsets)) if ages is None else ages
    return jax.jit(
        lambda y, a, o, ages: exact_projection(
            domain.project, y, a, o, ages, jnp.asarray(round, jnp.int32), domain.diameter, first
        )
    )(
        jnp.asarray(y, float),
        jnp.asarray(normals, float),
        jnp.asarray(offsets, float),
        jnp.asarray(ages, jnp.int32),
    )


# -- Golden projections: point, multipliers, steps
# ------------------------------------------------------------------------------

WEDGE = np.array([[-sin(0.1), cos(0.1)], [-sin(0.1), -cos(0.1)]])
GOLDEN = {
    "wedge": (
        taut.Ball(1.0, shape=2),
        (-0.5, 0.3),
        WEDGE,
        (0.0, 0.0),
        (0.0, 0.0),
        (2.654924670669, 2.353418395149),
        2,
    ),
    "a wedge that leaves the ball": (
        taut.Ball(1.0, shape=2),
        (3.0, 2.0),
        WEDGE,
        WEDGE @ [0.9, 0.0],
        (0.999949714114, 0.010028421791),
        (1.977813819227, 0.0),
        6,
    ),
    "box": (
        taut.Box(-1.0, 1.0, shape=2),
        (2.0, 0.5),
        np.array([[1.0, 2.0]]) / sqrt(5),
        (0.5,),
        (1.0, -0.252786404500),
        (0.841640786500,),
        1,
    ),
    "three cuts": (
        taut.Ball(9.0, shape=2),
        (0.9, 0.55),
        np.array([[1.0, 0.0], [0.0, 1.0], [sqrt(0.5), sqrt(0.5)]]),
        (0.5, 0.5, 0.3),
        (0.387132034356, 0.037132034356),
        (0.0, 0.0, 0.725304832720),
        1,
    ),
    "simplex": (
        taut.Simplex(3),
        (0.9, 0.4, -0.3),
        np.array([[1.0, 0.0, 0.0]]),
        (0.2,),
        (0.2, 0.75, 0.05),
        (1.05,),
        4,
    ),
}


@pytest.mark.parametrize("name", GOLDEN)
def test_golden_projections(name):
    domain, y, normals, offsets, point, multipliers, steps = GOLDEN[name]
    result = projected(domain, y, normals, offsets)
    np.testing.assert_allclose(result.point, point, rtol=0, atol=1e-12)
    np.testing.assert_allclose(result.multipliers, multipliers, rtol=0, atol=1e-9)
    assert int(result.steps) == steps
    z, weights = reference.exact_projection(
        lambda x: np.asarray(domain.project(x)), np.array(y), normals, np.array(offsets), 2.0
    )
    np.testing.assert_allclose(z, point, rtol=0, atol=1e-12)
    np.testing.assert_allclose(weights, multipliers, rtol=0, atol=1e-9)


def test_golden_rounds_of_the_exact_learner():
    """Rows e_1.x <= 0.2 and (e_1 + e_2).x / sqrt 2 <= 0.1 in turn, pushed outwards."""
    rounds = np.arange(1, 9)
    odd = rounds % 2 == 1
    data = {
        "c": -np.stack([np.ones(8), np.where(odd, -0.5, 0.5)], axis=1),
        "a": 2 * np.where(odd[:, None], [1.0, 0.0], [sqrt(0.5), sqrt(0.5)]),
        "b": 2 * np.where(odd, 0.2, 0.1),
    }
    second = [0.0, -0.316227766017, -0.058578643763, -0.282185441513]
    second += [-0.082185441513, -0.264759627348, -0.095728776402, -0.253842659410]
    learner = taut.HalfSpace(AdaGradNorm(1.0, 1.0), 2.0, memory=4, sweeps=None)
    game = taut.Problem(
        lambda x, z: z["c"] @ x, lambda x, z: z["a"] @ x - z["b"], taut.Ball(1.0, shape=2)
    )
    run = taut.simulate(learner, game, data, record=("decisions",))
    first = np.where(rounds == 1, 0.0, 0.2)
    np.testing.assert_allclose(run.decisions[0], np.stack([first, second], 1), rtol=0, atol=1e-12)
    assert run.cuts_hold.all()


# -- A solver
# ------------------------------------------------------------------------------------------------

DOMAINS = {
    "everything": taut.Ball(1e3, shape=5),
    "ball": taut.Ball(1.0, shape=5),
    "box": taut.Box(-0.5, 0.2 * np.arange(1, 6), shape=5),
    "simplex": taut.Simplex(5),
    "affine box": taut.AffineBox([np.ones(5)], [1.0], 0.0, 0.6),
}


@pytest.mark.parametrize("name", DOMAINS)
def test_projections_against_a_solver(name):
    """The result satisfies all cuts and is nearer than y to the nearest point that does. Where the
    domain is never reached the result is that point."""
    domain, rng, count = DOMAINS[name], np.random.default_rng(6), 6
    star = np.stack([np.asarray(domain.sample(jax.random.key(k))) for k in range(6)])
    star = star / 1e3 if name == "everything" else star
    normals = rng.normal(size=(6, count, 5))
    normals /= np.linalg.norm(normals, axis=-1, keepdims=True)
    room = rng.uniform(0, 0.05, size=(6, count))
    room[::2] = 0  # all cuts pass through one point
    offsets = np.einsum("kcd,kd->kc", normals, star) + room
    starts = np.stack([np.asarray(domain.project(s + rng.normal(size=5))) for s in star])
    result = jax.jit(
        jax.vmap(
            lambda y, a, o: exact_projection(
                domain.project,
                y,
                a,
                o,
                jnp.zeros(count, jnp.int32),
                jnp.asarray(3, jnp.int32),
                jnp.asarray(float(domain.diameter)),
            )
        )
    )(starts, normals, offsets)
    for k in range(6):
        z, x = np.asarray(result.point[k]), cp.Variable(5)
        constraints = [*domain.to_cvxpy(x), normals[k] @ x <= offsets[k]]
        cp.Problem(cp.Minimize(cp.sum_squares(x - starts[k])), constraints).solve(solver="CLARABEL")
        assert bool(domain.contains(z))
        assert np.max(normals[k] @ z - offsets[k]) <= 1e-12 * max(1.0, float(domain.diameter))
        assert np.linalg.norm(z - x.value) <= np.linalg.norm(starts[k] - x.value) + 1e-6
        assert np.linalg.norm(z - star[k]) <= np.linalg.norm(starts[k] - star[k]) + 1e-12
        if name == "everything":
            np.testing.assert_allclose(z, x.value, rtol=0, atol=1e-5)
    assert not np.any(result.expired)


# -- Thin wedges: sweeps alone get nearer to the apex by a factor close to 1
# ------------------------------------------------------------------------------


@pytest.mark.parametrize("sweeps", [2, None])
def test_thin_wedges_are_left_in_few_rounds(sweeps):
    """Rows x_2 <= t x_1 and -x_2 <= t x_1, pushed towards smaller x_1: without the exact projection
    2 sweeps leave 562 (t = 0.1) and 18 (t = 3e-3) in 3,000 rounds, and 10,000 sweeps 12.6."""
    angles = np.array([3e-3, 0.07, 0.1, 1e-3])
    data = {"push": np.ones((4, 1500)), "t": np.repeat(angles[:, None], 1500, axis=1)}
    game = taut.Problem(
        lambda x, z: z["push"] * x[0],
        lambda x, z: jnp.stack([x[1] - z["t"] * x[0], -x[1] - z["t"] * x[0]]),
        taut.Ball(1.0, shape=2),
    )
    learner = taut.HalfSpace(0.5, 2.0, memory=8, sweeps=sweeps)
    run = taut.simulate(learner, game, data, seeds=4)
    violation = np.maximum(run.excess, 0).sum(axis=1)
    assert run.cuts_hold.all()
    assert np.all(violation <= (2 + 0.65) * sqrt(1.01) * 2.0)  # H6
    assert np.all(violation <= (angles * 1.01 if sweeps is None else 4 * angles + 0.1))
    assert np.all(run.excess[:, 1:] <= 2.0 * 1.01 / np.arange(2, 1501) ** 2 + 2 * angles[:, None])


# -- Contradictions: only cuts that take part in one expire
# ------------------------------------------------------------------------------


def test_only_the_oldest_cut_of_a_contradiction_expires():
    """x_1 <= -0.5 contradicts x_1 >= 0; x_3 <= 0.1 is older and has no part in it."""
    normals = np.array([[0.0, 0.0, 1.0], [1.0, 0.0, 0.0], [-1.0, 0.0, 0.0]])
    offsets = np.array([0.1, -0.5, 0.0])
    result = projected(taut.Ball(1.0, shape=3), (0.2, 0.1, 0.9), normals, offsets, ages=[1, 2, 5])
    assert result.expired.tolist() == [False, True, False]
    z = np.asarray(result.point)
    assert z[2] <= 0.1 + 1e-12
    assert z[0] >= -1e-12
    newer = projected(taut.Ball(1.0, shape=3), (0.2, 0.1, 0.9), normals, offsets, ages=[1, 5, 2])
    assert newer.expired.tolist() == [False, False, True]
    assert np.asarray(newer.point)[0] <= -0.5 + 1e-12


def test_a_row_that_misses_the_domain_is_left_out_and_nothing_expires():
    normals = np.array([[1.0, 0.0], [0.0, 1.0]])
    result = projected(
        taut.Ball(1.0, shape=2), (0.9, 0.3), normals, np.array([-3.0, 0.2]), ages=[5, 1]
    )
    assert not np.any(result.expired)
    assert np.asarray(result.point)[1] <= 0.2 + 1e-12


def test_a_learner_drops_the_cut_that_is_contradicted_and_says_so():
    game = taut.Problem(
        lambda x, z: 0.1 * x[0], lambda x, z: z["a"] @ x - z["b"], taut.Ball(1.0, shape=2)
    )
    data = {
        "a": np.array([[1.0, 0.0], [-1.0, 0.0], [-1.0, 0.0]]),
        "b": np.array([-0.4, -0.4, -0.4]),
    }
    run = taut.simulate(taut.HalfSpace(0.1, 2.0, memory=4), game, data)
    assert not run.cuts_hold.any()
    np.testing.assert_allclose(run.final[0][0], 0.4, rtol=0, atol=1e-9)


@pytest.mark.parametrize(("places", "excess"), [(128, 1e-12), (1, 0.01)])
def test_corners_of_the_domain_with_enough_places_and_with_too_few(places, excess, monkeypatch):
    """Where no place is left, one half-space stands for the working set: the method is then slow,
    and may end early, but leads nearer to the comparator all the same."""
    monkeypatch.setattr(projection, "DOMAIN_CUTS", places)
    normals = np.random.default_rng(0).normal(size=(6, 8))
    normals /= np.linalg.norm(normals, axis=1, keepdims=True)
    star, y = np.array([0.5, 0.3, 0.2, 0, 0, 0, 0, 0]), np.eye(8)[7]
    result = projected(taut.Simplex(8), y, normals, normals @ star)
    z = np.asarray(result.point)
    assert np.max(normals @ (z - star)) <= excess
    assert np.linalg.norm(z - star) <= np.linalg.norm(y - star) - 0.7
    assert (int(result.steps) < 50) == (places > 1)


def test_a_result_that_lost_its_digits_is_not_used(monkeypatch):
    """As if huge multipliers of almost opposite normals had moved x across the domain: the bound on
    regret needs that no round leads away from a comparator."""
    refined = projection._refined

    def moved(carry, working):
        working = refined(carry, working)
        return working._replace(x=working.x + jnp.asarray([0.0, 0.5]))

    ball, y, normals, offsets = taut.Ball(1.0, shape=2), (0.9, 0.0), [[1.0, 0.0]], (0.2,)
    np.testing.assert_allclose(projected(ball, y, normals, offsets).point, [0.2, 0.0], atol=1e-14)
    monkeypatch.setattr(projection, "_refined", moved)
    result = projected(ball, y, normals, offsets)
    np.testing.assert_array_equal(result.point, y)
    np.testing.assert_array_equal(result.multipliers, [0.0])
