"""Domains against CVXPY, against support functions written out here, and against known moments.

Compiling costs more than computing here, so the whole zoo of domains goes through each compiled
function at once.
"""

import doctest
import functools
import itertools
import json
import math

import cvxpy as cp
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import taut.problem.domains
from taut.problem.domains import Ball, Box, L1Ball, Product, Simplex, domain_from_dict
from taut.problem.domains.support import (
    bounding_box,
    least_change,
    linear_minimisers,
    project_rows,
)

MATRIX = np.array([[1.0, -2.0, 0.5], [0.25, 3.0, -1.0]])
ZOO = {
    "ball": Ball(1.5, shape=3),
    "ball-matrix": Ball(0.7, centre=MATRIX),
    "box": Box(-1.0, [0.5, 2.0, 3.0, -1.0]),
    "box-matrix": Box(MATRIX - 0.5, MATRIX + 1.0),
    "simplex": Simplex(5),
    "simplex-total": Simplex(4, total=2.5),
    "l1": L1Ball(1.2, shape=4),
    "l1-matrix": L1Ball(0.8, centre=MATRIX[:, :2]),
    "product": Product(Ball(0.5, centre=[1.0, 2.0]), L1Ball(2.0, shape=(2, 2)), Simplex(2)),
}
EDGES = {
    "ball-scalar": Ball(2.0, shape=()),
    "box-scalar": Box(0, 1, shape=()),
    "simplex-point": Simplex(1, 3.0),
}
ALL = ZOO | EDGES
KINDS = {
    name: ZOO[name] for name in ("ball-matrix", "box-matrix", "simplex-total", "l1-matrix")
}  # one of each
FLOATS = [jnp.float16, jnp.bfloat16, jnp.float32]
SAMPLES = 20_000

every_domain = pytest.mark.parametrize("name", ZOO)
every_domain_and_edges = pytest.mark.parametrize("name", ALL)


@jax.jit
def project_batches(domains, batches):
    return {name: jax.vmap(domain.project)(batches[name]) for name, domain in domains.items()}


@jax.jit
def contains_batches(domains, batches):
    return {name: jax.vmap(domain.contains)(batches[name]) for name, domain in domains.items()}


project = jax.jit(lambda domain, x: domain.project(x))


def rows(x):
    """A batch of decisions, each as a vector."""
    return np.asarray(x, dtype=np.float64).reshape(len(x), -1)


def extremes(domain):
    """Extreme points of the domain, all of them or, for the ball, the ends of its axes."""
    size = math.prod(domain.shape)
    match domain:
        case Ball(radius=r, middle=middle) | L1Ball(radius=r, middle=middle):
            points = middle.ravel() + r * np.concatenate([np.eye(size), -np.eye(size)])
        case Box(lower=lower, upper=upper):
            points = np.array(
                list(itertools.product(*zip(lower.ravel(), upper.ravel(), strict=True)))
            )
        case Simplex(total=total):
            points = total * np.eye(size)
        case Product(parts=parts):
            choices = itertools.product(*(rows(extremes(part)) for part in parts))
            points = np.array([np.concatenate(choice) for choice in choices])
    return points.reshape(-1, *domain.shape)


def support(domain, direction):
    """The maximum of <direction, y> over the domain."""
    v = np.asarray(direction).ravel()
    match domain:
        case Ball(radius=r, middle=middle):
            return v @ middle.ravel() + r * np.linalg.norm(v)
        case Product():
            return sum(
                support(part, w) for part, w in zip(domain.parts, domain.split(v), strict=True)
            )
        case _:
            return np.max(rows(extremes(domain)) @ v)


@functools.cache
def samples():
    """Many uniform samples of a domain of each kind."""
    keys = jax.random.split(jax.random.key(0), SAMPLES)
    domains = KINDS | {"product": ZOO["product"]}
    drawn = jax.jit(
        lambda domains: {name: jax.vmap(d.sample)(keys) for name, d in domains.items()}
    )(domains)
    return {name: np.asarray(x) for name, x in drawn.items()}


def mixtures(domain, count):
    """Points of the domain: its extreme points, mixed at random."""
    weights = np.random.default_rng(2).dirichlet(np.full(len(extremes(domain)), 0.3), size=count)
    return np.tensordot(weights, extremes(domain), axes=1)


@functools.cache
def centres():
    return {name: np.asarray(domain.centre) for name, domain in ALL.items()}


WHERE = {
    "far": 0,
    "near": 17,
    "centre": 28,
    "corner": 29,
    "inside": 34,
}  # where each kind of point begins


@functools.cache
def points():
    """64 points for each domain, in the order of WHERE."""
    batches = {}
    for name, domain in ALL.items():
        rng = np.random.default_rng(1)
        scales = np.concatenate([[1e3], 10.0 ** rng.uniform(-2, 3, size=15)])
        far = scales.reshape(-1, *(1,) * len(domain.shape)) * rng.normal(size=(16, *domain.shape))
        near = mixtures(domain, 11) + rng.normal(size=(11, *domain.shape))
        corners = np.resize(extremes(domain), (5, *domain.shape))
        inside = mixtures(domain, 30)
        parts = (far[:1], -far[:1], far[1:], near, centres()[name][None], corners, inside)
        batches[name] = np.concatenate(parts)
    return batches


@functools.cache
def projected():
    """The projections of all points, and whether each is in its domain."""
    nearest = project_batches(ALL, points())
    return nearest, contains_batches(ALL, nearest)


@every_domain
def test_projection_agrees_with_cvxpy(name):
    """Far, near, boundary and interior points. The objective is scaled so that the solver can be
    held to 1e-10."""
    domain, given_points, nearest = ZOO[name], points()[name], projected()[0][name]
    x, weight, target = (
        cp.Variable(domain.shape),
        cp.Parameter(nonneg=True),
        cp.Parameter(domain.shape),
    )
    distance = weight * cp.sum_squares(x) - 2 * cp.sum(cp.multiply(target, x))
    problem = cp.Problem(cp.Minimize(distance), domain.to_cvxpy(x))
    for i in (0, 1, WHERE["near"], WHERE["near"] + 1, WHERE["corner"], WHERE["inside"]):
        weight.value = 1 / (1 + np.linalg.norm(given_points[i]))
        target.value = weight.value * given_points[i]
        problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10)
        # A corner that is its own projection has no strict complementarity: the solver gets half
        # the digits.
        np.testing.assert_allclose(nearest[i], x.value, atol=1e-4 if i == WHERE["corner"] else 1e-6)


@every_domain_and_edges
def test_projection_is_optimal(name):
    """p is the projection of x if and only if it is in the domain and <x - p, y - p> <= 0 for all
    its y."""
    nearest, inside = projected()
    assert np.all(inside[name])
    assert nearest[name].dtype == jnp.float64
    for x, p in zip(points()[name], np.asarray(nearest[name]), strict=True):
        gap = support(ALL[name], x - p) - np.vdot(x - p, p)
        assert gap <= 1e-13 * (1 + np.linalg.norm(x)) * (1 + np.linalg.norm(x - p))


@every_domain_and_edges
def test_projection_is_idempotent_and_non_expansive(name):
    once = projected()[0]
    twice = project_batches(ALL, once)
    np.testing.assert_allclose(twice[name], once[name], rtol=0, atol=1e-14)
    moved, before = (
        np.linalg.norm(rows(a)[:, None] - rows(a)[None], axis=-1)
        for a in (once[name], points()[name])
    )
    assert np.all(moved <= before + 1e-12)


@every_domain_and_edges
def test_points_inside_stay(name):
    inside, nearest = points()[name][WHERE["inside"] :], projected()[0][name][WHERE["inside"] :]
    np.testing.assert_allclose(nearest, inside, rtol=0, atol=1e-14)
    if name in ("ball", "box-matrix", "l1", "l1-matrix"):
        np.testing.assert_array_equal(nearest, inside)


def test_l1_ball_returns_points_inside_to_the_bit():
    """Some projections search for a threshold here that does not exist."""
    domains = {"l1-matrix": ZOO["l1-matrix"]}
    inside = {"l1-matrix": np.concatenate([samples()["l1-matrix"], centres()["l1-matrix"][None]])}
    np.testing.assert_array_equal(
        project_batches(domains, inside)["l1-matrix"], inside["l1-matrix"]
    )


tied = st.sampled_from([0.0, -0.0, 1.0, -1.0, 0.5, 1 / 3, 1e-300, 1e-12, -1e6, 1e6])
entries = st.lists(st.one_of(tied, st.floats(-1e8, 1e8)), min_size=3, max_size=3)
SMALL = {
    "ball": Ball(1.0, centre=[0.5, 0.0, -1.0]),
    "box": Box(0, 1, shape=3),
    "simplex": Simplex(3),
    "l1": L1Ball(1.0, shape=3),
}


@settings(max_examples=150, deadline=None)
@given(entries)
def test_awkward_points(x):
    """Ties, zeros of both signs, tiny and large numbers."""
    x = np.array(x)
    nearest = project_batches(SMALL, dict.fromkeys(SMALL, x[None]))
    inside = contains_batches(SMALL, nearest)
    for name, domain in SMALL.items():
        p = np.asarray(nearest[name])[0]
        assert inside[name][0], name
        assert support(domain, x - p) - np.vdot(x - p, p) <= 1e-13 * (1 + np.linalg.norm(x)) ** 2, (
            name
        )
    if math.fsum(abs(x)) < 1 - 1e-12:
        np.testing.assert_array_equal(nearest["l1"][0], x)


def test_hand_worked_projections():
    cases = [
        (Ball(2.5, shape=2), [3.0, 4.0], [1.5, 2.0]),
        (Ball(1.0, centre=[1.0, 1.0]), [1.0, 5.0], [1.0, 2.0]),
        (Box(0, [1.0, 2.0]), [-3.0, 5.0], [0.0, 2.0]),
        (Simplex(3), [0.5, 1.0, -1.0], [0.25, 0.75, 0.0]),
        (L1Ball(1.0, shape=3), [2.0, -1.5, 0.1], [0.75, -0.25, 0.0]),
        (L1Ball(1.0, shape=3, centre=1.0), [4.0, 1.0, 1.0], [2.0, 1.0, 1.0]),
    ]
    for domain, x, expected in cases:
        np.testing.assert_allclose(project(domain, np.array(x)), expected, atol=1e-15)


@pytest.mark.parametrize(
    ("dtype", "lengths"), [(jnp.float64, (1e100, 1e200, 1e290)), (jnp.float32, (1e15, 1e25, 1e33))]
)
def test_far_points_do_not_overflow(dtype, lengths):
    domains = {name: SMALL[name] for name in ("simplex", "l1")} | {"ball": Ball(1.0, shape=3)}
    direction = np.array([0.6, 0.0, -0.8])
    far = jnp.asarray(np.outer(lengths, direction), dtype)
    nearest = project_batches(domains, dict.fromkeys(domains, far))
    for name, expected in {"ball": direction, "l1": [0, 0, -1], "simplex": [1, 0, 0]}.items():
        for p in nearest[name]:
            np.testing.assert_allclose(p, expected, atol=4 * float(jnp.finfo(dtype).eps))


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
def test_small_and_large_balls(dtype):
    direction = np.array([0.6, 0.0, -0.8])
    for radius, length in itertools.product((1e-30, 1e-3, 1e6, 1e20), (0.0, 1e-6, 0.5, 1.01, 1e8)):
        y = project(Ball(radius, shape=3), jnp.asarray(length * radius * direction, dtype))
        expected = min(length, 1) * radius * direction
        np.testing.assert_allclose(
            y, expected, rtol=0, atol=4 * float(jnp.finfo(dtype).eps) * radius
        )


@pytest.mark.parametrize("dtype", FLOATS, ids=lambda t: t.__name__)
def test_float_types(dtype):
    rounded = {name: jnp.asarray(x, dtype) for name, x in points().items()}
    exact = project_batches(ALL, {name: x.astype(jnp.float64) for name, x in rounded.items()})
    nearest = project_batches(KINDS, {name: rounded[name] for name in KINDS})
    inside = contains_batches(KINDS, nearest)
    for name, domain in KINDS.items():
        assert nearest[name].dtype == dtype
        assert np.all(inside[name]), name
        coarse = 4 * float(jnp.finfo(dtype).eps) * (np.max(np.abs(exact[name])) + domain.diameter)
        got = np.asarray(nearest[name].astype(jnp.float64))
        np.testing.assert_allclose(got, exact[name], rtol=0, atol=coarse, err_msg=name)


def test_many_entries_in_32_bits():
    domains = {
        "simplex": Simplex(5000),
        "l1": L1Ball(1.0, shape=5000),
        "ball": Ball(1.0, shape=5000),
    }
    rng = np.random.default_rng(5)
    x = np.array([[1e-4], [0.3], [30.0], [0.0]]) * rng.normal(size=(4, 5000))
    x[3, 0], x[3, 1:] = (
        1,
        rng.uniform(0, 1e-5, size=4999),
    )  # a threshold of many small entries beside a large one
    x = x.astype(np.float32)
    single = project_batches(domains, dict.fromkeys(domains, x))
    double = project_batches(domains, dict.fromkeys(domains, x.astype(np.float64)))
    for name, inside in contains_batches(domains, single).items():
        assert np.all(inside), name
        np.testing.assert_allclose(single[name], double[name], rtol=0, atol=3e-7, err_msg=name)
    np.testing.assert_allclose(
        np.sum(np.asarray(single["simplex"], np.float64), axis=1), 1, rtol=0, atol=1e-6
    )


def test_whole_numbers_become_floats():
    assert project(Ball(1.0, shape=2), np.array([3, 4])).dtype == jnp.float64


def test_contains():
    outside, beyond = {}, 1 + 1e-6
    for name, centre in centres().items():
        corners = np.resize(extremes(ALL[name]), (62, *centre.shape))
        not_numbers = np.stack([np.full(centre.shape, np.nan), np.full(centre.shape, np.inf)])
        outside[name] = np.concatenate([centre + beyond * (corners - centre), not_numbers])
    for name, inside in contains_batches(ALL, outside).items():
        if ALL[name].diameter > 0:
            assert not np.any(inside), name
    corners = {
        name: np.resize(extremes(domain), (64, *domain.shape)) for name, domain in ALL.items()
    }
    for name, inside in contains_batches(ALL, corners).items():
        assert np.all(inside), name


def test_contains_sees_each_way_out():
    contains = jax.jit(lambda domain, x, tolerance: domain.contains(x, tolerance))
    for domain, x, depth in [
        (Simplex(2), [0.4, 0.6], 0.0),
        (Simplex(2), [1.5, -0.5], 0.5),
        (Simplex(2), [0.6, 0.6], 0.2),
        (Simplex(2), [0.4, 0.4], 0.2),
        (Box(0, 1, shape=2), [0.0, 1.0], 0.0),
        (Box(0, 1, shape=2), [0.5, -0.1], 0.1),
        (Box(0, 1, shape=2), [0.5, 1.1], 0.1),
        (L1Ball(1.0, shape=2), [0.6, -0.4], 0.0),
        (L1Ball(1.0, shape=2), [0.6, -0.6], 0.2),
        (Ball(1.0, shape=2), [0.6, -0.6], 0.0),
        (Ball(1.0, shape=2), [0.9, -1.2], 0.5),
    ]:
        assert contains(domain, np.array(x), 1e-9) == (depth == 0), (domain, x)
        assert contains(domain, np.array(x), depth + 1e-9), (domain, x)


@every_domain_and_edges
def test_radius_and_diameter_are_those_of_the_extreme_points(name):
    domain, corners, centre = ALL[name], rows(extremes(ALL[name])), centres()[name].ravel()
    between = np.linalg.norm(corners[:, None] - corners[None], axis=-1)
    assert domain.radius == pytest.approx(
        np.max(np.linalg.norm(corners - centre, axis=1)), rel=1e-14
    )
    assert domain.diameter == pytest.approx(np.max(between), rel=1e-14)
    inside = rows(mixtures(domain, 50))
    assert np.all(np.linalg.norm(inside - centre, axis=1) <= domain.radius + 1e-12)
    # Every other point is farther from some extreme point than the centre is.
    farthest = np.max(np.linalg.norm(corners[:, None] - inside[None], axis=-1), axis=0)
    assert np.all(farthest >= domain.radius - 1e-12)


class ByProjectionOnly(Box, leaves=("lower", "upper")):
    """A user's own set, which overrides the projection and nothing else."""

    def project(self, x):
        return super().project(x)


class WithMinimiser(ByProjectionOnly, leaves=("lower", "upper")):
    """A user's own set that brings its own minimiser."""

    def linear_minimiser(self, direction):
        return jnp.where(direction > 0, jnp.asarray(self.lower), jnp.asarray(self.upper))


OWN = {
    "by projection": ByProjectionOnly([-1.0, 0.0], [0.5, 2.0]),
    "own minimiser": WithMinimiser([-1.0, 0.0], [0.5, 2.0]),
    "product of own": Product(
        ByProjectionOnly([-1.0, 0.0], [0.5, 2.0]), Ball(0.5, centre=[1.0, 2.0])
    ),
}


def directions_for(domain):
    """Generic directions, zero, ties, single axes, and tiny and huge ones."""
    rng, size = np.random.default_rng(11), math.prod(domain.shape)
    generic = rng.normal(size=(3, size))
    ties = np.stack([np.ones(size), -np.ones(size), rng.integers(-1, 2, size=size).astype(float)])
    axes = np.stack([np.eye(size)[0], -np.eye(size)[-1]])
    return np.concatenate(
        [generic, np.zeros((1, size)), ties, axes, 1e-160 * generic[:1], 1e160 * generic[:1]]
    )


@pytest.mark.parametrize("name", ALL | OWN)
def test_linear_functions_are_minimised_as_by_cvxpy(name):
    domain = (ALL | OWN)[name]
    exact = name not in ("by projection", "product of own")
    directions = directions_for(domain)
    rng = np.random.default_rng(12)
    inside = rows([domain.project(jnp.asarray(rng.normal(size=domain.shape))) for _ in directions])
    batch = linear_minimisers(domain, directions)
    change = least_change(domain, directions, inside)
    traced = jax.jit(jax.vmap(domain.linear_minimiser))(directions.reshape(-1, *domain.shape))
    accuracy = (1e-12 if exact else 3e-7) * float(domain.diameter)
    for i, direction in enumerate(directions):
        point = domain.linear_minimiser(direction.reshape(domain.shape))
        assert domain.contains(point)
        size = np.abs(direction).max()
        unit = direction / (size or 1.0)
        x = cp.Variable(domain.shape)
        least = cp.Problem(cp.Minimize(cp.vec(x, order="C") @ unit), domain.to_cvxpy(x)).solve(
            solver=cp.CLARABEL
        )
        assert unit @ np.ravel(point) == pytest.approx(least, abs=2e-7)
        for other in (batch[i], np.ravel(traced[i])):
            assert unit @ other == pytest.approx(unit @ np.ravel(point), abs=accuracy)
            assert domain.contains(jnp.asarray(other.reshape(domain.shape)))
        assert change[i] == pytest.approx(
            size * (least - unit @ inside[i]), abs=3e-7 * max(size, 1e-300)
        )
        assert change[i] <= size * (
            unit @ (batch[i] - inside[i]) + 1e-12
        )  # never above what is attained


def test_ties_and_zero_directions_have_one_answer():
    zero, ones = np.zeros(3), np.ones(3)
    assert Ball(2.0, centre=[1.0, 0.0, 0.0]).linear_minimiser(zero).tolist() == [1.0, 0.0, 0.0]
    assert L1Ball(2.0, centre=[1.0, 0.0, 0.0]).linear_minimiser(zero).tolist() == [1.0, 0.0, 0.0]
    assert L1Ball(2.0, shape=3).linear_minimiser(-ones).tolist() == [2.0, 0.0, 0.0]
    assert Simplex(3, 2.0).linear_minimiser(ones).tolist() == [2.0, 0.0, 0.0]
    assert Box(-1.0, [1.0, 2.0, 3.0]).linear_minimiser(np.array([1.0, 0.0, -1.0])).tolist() == [
        -1.0,
        2.0,
        3.0,
    ]


def test_minimisers_keep_float_type_and_name_a_wrong_shape():
    for dtype in (jnp.float32, jnp.bfloat16):
        for domain in ALL.values():
            assert domain.linear_minimiser(jnp.ones(domain.shape, dtype)).dtype == dtype
    with pytest.raises(
        ValueError, match=r"direction: got shape \(2,\); expected the domain's shape \(3,\)"
    ):
        Ball(1.0, shape=3).linear_minimiser(np.ones(2))


@pytest.mark.parametrize("name", ALL | OWN)
def test_the_bounding_box_touches_the_domain_on_every_side(name):
    domain = (ALL | OWN)[name]
    low, high = bounding_box(domain)
    x = cp.Variable(domain.shape)
    for i in range(math.prod(domain.shape)):
        for sign, edge in ((1.0, low[i]), (-1.0, -high[i])):
            entry = sign * cp.vec(x, order="C")[i]
            least = cp.Problem(cp.Minimize(entry), domain.to_cvxpy(x)).solve(solver=cp.CLARABEL)
            assert edge == pytest.approx(least, abs=3e-7)


def test_samples_are_inside():
    domains = {name: ZOO[name] for name in samples()}
    for name, inside in contains_batches(domains, samples()).items():
        assert samples()[name].shape == (SAMPLES, *ZOO[name].shape)
        assert np.all(inside), name


def assert_mean(values, expected):
    """The mean of independent `values` is `expected`, within five standard errors."""
    error = np.std(values, axis=0) / math.sqrt(len(values))
    np.testing.assert_array_less(np.abs(np.mean(values, axis=0) - expected), 5 * error + 1e-12)


def test_samples_are_uniform():
    offsets = {name: rows(x - centres()[name]) for name, x in samples().items()}

    d, r, x = 6, ZOO["ball-matrix"].radius, offsets["ball-matrix"]
    assert_mean(x, 0)
    assert_mean(x**2, r**2 / (d + 2))
    assert_mean(np.sum(x**2, axis=1) ** 2, r**4 * d / (d + 4))
    assert_mean(x[:, :1] * x[:, 1:], 0)

    x = offsets["box-matrix"]
    assert_mean(x, 0)
    assert_mean(x**2, 1.5**2 / 12)
    assert_mean(x[:, :1] * x[:, 1:], 0)

    d, x = 4, samples()["simplex-total"] / 2.5
    assert_mean(x, 1 / d)
    assert_mean(x**2, 2 / (d * (d + 1)))
    assert_mean(x[:, :1] * x[:, 1:], 1 / (d * (d + 1)))

    d, x = 4, offsets["l1-matrix"] / ZOO["l1-matrix"].radius
    assert_mean(x, 0)
    assert_mean(np.abs(x), 1 / (d + 1))
    assert_mean(x**2, 2 / ((d + 1) * (d + 2)))
    assert_mean(np.sum(np.abs(x), axis=1) ** 3, d / (d + 3))
    assert_mean(x[:, :1] * x[:, 1:], 0)

    x = offsets["product"]
    assert_mean(np.sum(x[:, :2] ** 2, axis=1), 0.5**2 * 2 / 4)
    assert_mean(x[:, :1] * x[:, 2:], 0)
    assert_mean(np.abs(x[:, 2:6]), 2.0 / 5)
    assert_mean(x[:, 6:] ** 2, 1 / 12)


def test_jit_and_vmap_change_nothing():
    batch = points()
    one_by_one = jax.jit(
        lambda domains, xs: {name: d.project(xs[name]) for name, d in domains.items()}
    )
    for i in (0, 20, 30, 40):
        single = one_by_one(KINDS, {name: batch[name][i] for name in KINDS})
        for name, x in single.items():
            np.testing.assert_allclose(
                projected()[0][name][i], x, rtol=1e-15, atol=1e-15, err_msg=name
            )
    for name, domain in SMALL.items():
        x = np.array([0.5, 2.0, -1.0])
        np.testing.assert_allclose(domain.project(x), project(domain, x), rtol=1e-15, err_msg=name)
    measures = jax.jit(
        lambda domains: {name: (d.radius, d.diameter, d.centre) for name, d in domains.items()}
    )(ALL)
    for name, domain in ALL.items():
        known = (domain.radius, domain.diameter, centres()[name])
        for traced, value in zip(measures[name], known, strict=True):
            np.testing.assert_allclose(traced, value, rtol=1e-15, err_msg=name)


def test_derivative():
    """Finite at the centre and extreme points; the numerical one at generic points; the identity
    inside a ball."""
    at = {
        name: np.concatenate([x[:24], x[WHERE["centre"] : 40]])
        for name, x in points().items()
        if name in KINDS
    }
    jacobians = jax.jit(
        lambda domains, at: {
            name: jax.vmap(jax.jacobian(d.project))(at[name]) for name, d in domains.items()
        }
    )(KINDS, at)
    steps = {
        name: 1e-6 * np.eye(math.prod(d.shape)).reshape(-1, *d.shape) for name, d in KINDS.items()
    }
    shifted = {
        name: np.concatenate([at[name][i] + s * steps[name] for i in range(24) for s in (1, -1)])
        for name in KINDS
    }
    moved = project_batches(KINDS, shifted)
    for name, domain in KINDS.items():
        size = math.prod(domain.shape)
        slopes = np.asarray(jacobians[name]).reshape(-1, size, size)
        assert np.all(np.isfinite(slopes)), name
        ahead, behind = np.moveaxis(rows(moved[name]).reshape(24, 2, size, size), 1, 0)
        np.testing.assert_allclose(
            slopes[:24], np.swapaxes(ahead - behind, 1, 2) / 2e-6, atol=1e-6, err_msg=name
        )
        if isinstance(domain, Ball | L1Ball):
            np.testing.assert_allclose(slopes[24], np.eye(size), atol=1e-15)


def test_new_numbers_do_not_recompile():
    traces = []

    @jax.jit
    def play(domain, x):
        traces.append(type(domain).__name__)
        return domain.project(x)

    x = jnp.array([3.0, 4.0])
    for first, second in [
        (Ball(1.0, centre=[0, 0]), Ball(2, centre=np.float32([1, 2]))),
        (Box(0, 1, shape=2), Box([-1, -2], 5.0)),
        (Simplex(2), Simplex(2, total=3)),
        (L1Ball(1.0, shape=2), L1Ball(2, shape=2)),
        (Product(Ball(1.0, shape=1), Simplex(1)), Product(Ball(3, shape=1), Simplex(1, 2.0))),
    ]:
        assert not np.array_equal(play(first, x), play(second, x))
    assert traces == ["Ball", "Box", "Simplex", "L1Ball", "Product"]


def test_batches_of_domains():
    balls = [Ball(radius, shape=2) for radius in (0.5, 1.0, 10.0)]
    stacked = jax.tree.map(lambda *leaves: np.stack(leaves), *balls)
    lengths = jax.vmap(lambda ball: jnp.linalg.norm(ball.project(jnp.array([3.0, 4.0]))))(stacked)
    np.testing.assert_allclose(lengths, [0.5, 1.0, 5.0], rtol=1e-15)


def test_pytree_round_trip_and_frozen():
    for domain in ZOO.values():
        leaves, structure = jax.tree.flatten(domain)
        again = jax.tree.unflatten(structure, leaves)
        assert type(again) is type(domain)
        assert again.to_dict() == domain.to_dict()
        with pytest.raises(AttributeError):
            domain.shape = (1,)
    with pytest.raises(ValueError, match="read-only"):
        ZOO["box"].lower[0] = 7
    paths = [
        jax.tree_util.keystr(path)
        for path, _ in jax.tree_util.tree_flatten_with_path(ZOO["product"])[0]
    ]
    assert paths[:2] == [".parts[0].radius", ".parts[0].origin"]


def test_arguments_are_copied():
    centre = np.zeros(2)
    ball = Ball(1.0, centre=centre)
    centre[0] = 5
    np.testing.assert_array_equal(ball.centre, [0, 0])


@every_domain_and_edges
def test_descriptions_round_trip_through_json(name):
    domain = ALL[name]
    again = domain_from_dict(json.loads(json.dumps(domain.to_dict())))
    assert type(again) is type(domain)
    assert again.shape == domain.shape
    for old, new in zip(jax.tree.leaves(domain), jax.tree.leaves(again), strict=True):
        np.testing.assert_array_equal(old, new)


def test_product_splits_and_joins():
    product = ZOO["product"]
    assert product.shape == (8,)
    x = np.arange(8.0)
    first, second, third = product.split(x)
    np.testing.assert_array_equal(first, [0, 1])
    np.testing.assert_array_equal(second, [[2, 3], [4, 5]])
    np.testing.assert_array_equal(third, [6, 7])
    np.testing.assert_array_equal(product.join(product.split(x)), x)
    with pytest.raises(ValueError, match=r"parts: got 2; expected 3"):
        product.join((first, second))
    with pytest.raises(ValueError, match=r"shape \(3,\); expected the domain's shape \(2, 2\)"):
        product.join((first, np.zeros(3), third))


@pytest.mark.parametrize(
    ("build", "error", "message"),
    [
        (lambda: Ball(0.0, shape=2), ValueError, r"radius: got 0; expected a positive number"),
        (lambda: Ball(-1.0, shape=2), ValueError, r"radius: got -1; expected a positive"),
        (lambda: Ball(np.inf, shape=2), ValueError, r"radius: got inf; expected a finite"),
        (lambda: Ball("1", shape=2), TypeError, r"radius: got '1'; expected"),
        (lambda: Ball(1.0), TypeError, r"shape: got None and no centre; expected one of the two"),
        (lambda: Ball(1.0, centre=[0, np.nan]), ValueError, r"centre: got nan at index \(1,\)"),
        (
            lambda: Ball(1.0, centre=[0, 1], shape=3),
            ValueError,
            r"centre: got shape \(2,\); expected .*\(3,\)",
        ),
        (
            lambda: Ball(1.0, shape=(2, 0)),
            ValueError,
            r"shape: got 0; expected a whole number of at least 1",
        ),
        (lambda: Ball(1.0, shape=2.5), TypeError, r"shape: got 2.5; expected a whole number"),
        (lambda: L1Ball(0, shape=2), ValueError, r"radius: got 0; expected a positive"),
        (lambda: L1Ball(1.0, centre=[]), ValueError, r"shape: got 0; expected"),
        (lambda: Box(0, 1), TypeError, r"shape: got None and scalar bounds; expected"),
        (
            lambda: Box([0, 2], [1, 1]),
            ValueError,
            r"lower: got 2 at index \(1,\); expected at most upper = 1",
        ),
        (
            lambda: Box(0, np.inf, shape=2),
            ValueError,
            r"upper: got inf at index \(\); expected finite",
        ),
        (
            lambda: Box([0, 0], [1, 1, 1]),
            ValueError,
            r"upper: got shape \(3,\); expected a scalar or .*\(2,\)",
        ),
        (
            lambda: Box("a", 1, shape=2),
            TypeError,
            r"lower: got values of type .*; expected real numbers",
        ),
        (
            lambda: Simplex(0),
            ValueError,
            r"dimension: got 0; expected a whole number of at least 1",
        ),
        (lambda: Simplex(2.5), TypeError, r"dimension: got 2.5; expected a whole number"),
        (lambda: Simplex(2, total=0), ValueError, r"total: got 0; expected a positive"),
        (Product, TypeError, r"parts: got none; expected at least one Domain"),
        (lambda: Product(Simplex(2), 3), TypeError, r"parts: got 3 at index 1; expected a Domain"),
        (
            lambda: Ball(1.0, shape=2).project(np.zeros(3)),
            ValueError,
            r"x: got shape \(3,\); expected .*\(2,\)",
        ),
        (
            lambda: Simplex(2).contains(np.zeros((2, 1))),
            ValueError,
            r"x: got shape \(2, 1\); expected .*\(2,\)",
        ),
        (
            lambda: Ball(1.0, shape=2).project(np.array([1j, 0])),
            TypeError,
            r"x: got complex numbers; expected real ones",
        ),
        (
            lambda: Simplex(2).contains(np.array([1 + 1j, 0])),
            TypeError,
            r"x: got complex numbers; expected real ones",
        ),
        (
            lambda: Product(Simplex(2), Simplex(1)).project(np.ones(3) + 1j),
            TypeError,
            r"x: got complex numbers",
        ),
        (
            lambda: domain_from_dict({}),
            TypeError,
            r"description: got {}; expected a mapping with .*'kind'",
        ),
        (
            lambda: domain_from_dict({"kind": "Cone"}),
            ValueError,
            r"kind: got 'Cone'; expected one of 'AffineBox'",
        ),
        (lambda: domain_from_dict({"kind": "Product"}), ValueError, r"expected an entry 'parts'"),
        (
            lambda: domain_from_dict({"kind": "Simplex", "size": 2}),
            TypeError,
            r"unexpected .*'size'",
        ),
    ],
)
def test_bad_input_is_named(build, error, message):
    with pytest.raises(error, match=message):
        build()


def test_documentation_runs():
    assert doctest.testmod(taut.problem.domains).failed == 0
    assert doctest.testmod(taut.problem.domains).attempted > 0


FAR = [
    ("ball", lambda: taut.Ball(2.0, shape=2), [1e300, 1e300], [2**0.5, 2**0.5]),
    ("ball", lambda: taut.Ball(2.0, shape=2), [-1.7e308, 1e200], [-2.0, 0.0]),
    (
        "ball around a centre",
        lambda: taut.Ball(2.0, centre=[1.0, -1.0]),
        [1e308, 1e308],
        [1 + 2**0.5, -1 + 2**0.5],
    ),
    ("l1 ball", lambda: taut.L1Ball(2.0, shape=3), [1e308, -1e308, 0.0], [1.0, -1.0, 0.0]),
    ("simplex", lambda: taut.Simplex(3, 2.0), [1e308, 1e308, -1e308], [1.0, 1.0, 0.0]),
    ("box", lambda: taut.Box([0.0, -1.0], [1.0, 1.0]), [1e308, -1e308], [1.0, -1.0]),
    (
        "product",
        lambda: taut.Product(taut.Ball(1.0, shape=2), taut.Simplex(1)),
        [1e305, 0.0, -1e308],
        [1.0, 0.0, 1.0],
    ),
    (
        "matrices",
        lambda: taut.Spectral(taut.Box(0.0, 2.0, shape=2)),
        [[0.0, 1e300], [1e300, 0.0]],
        [[1.0, 1.0], [1.0, 1.0]],
    ),
    (
        "matrices of trace 1",
        lambda: taut.Spectral(taut.Simplex(2)),
        [[1e300, 0.0], [0.0, -1e300]],
        [[1.0, 0.0], [0.0, 0.0]],
    ),
    (
        "equation",
        lambda: taut.AffineBox([1.0, 2.0, 1.0], 2.0, 0.0, 1.0),
        [1e300, -1e300, 1e300],
        [1.0, 0.0, 1.0],
    ),
    (
        "equation, equal shares",
        lambda: taut.AffineBox(np.ones(3), 1.0, 0.0, 1.0),
        [1e308, 1e308, -1e308],
        [0.5, 0.5, 0.0],
    ),
    (
        "two equations",
        lambda: taut.AffineBox([[1.0, 1.0, 0.0], [0.0, 1.0, 1.0]], [1.0, 1.0], 0.0, 1.0),
        [1e300, 0.0, 1e300],
        [1.0, 0.0, 1.0],
    ),
    (
        "blocks",
        lambda: taut.Blocks(
            [taut.AffineBox(np.ones(2), 1.0, 0.0, 1.0), taut.Ball(1.0, shape=2)],
            [[0, 3], [1, 2]],
            shape=4,
        ),
        [1e300, 1e308, 0.0, -1e300],
        [1.0, 1.0, 0.0, 0.0],
    ),
]


@pytest.mark.parametrize(("name", "domain", "x", "nearest"), FAR)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_points_at_the_end_of_the_number_range_are_projected(name, domain, x, nearest, dtype):
    x = np.asarray(x)
    if dtype == np.float32:
        x = np.sign(x) * np.where(x == 0, 0, np.minimum(np.abs(x) * 1e-270, 3e38)).astype(dtype)
    found = domain().project(x.astype(dtype))
    assert found.dtype == dtype
    np.testing.assert_allclose(found, nearest, rtol=1e-6, atol=1e-6)


def test_a_compiled_projection_of_such_a_point_is_nan_and_never_wrong():
    far = jax.jit(taut.Ball(1.0, shape=2).project)(np.array([1e305, 1e305]))
    assert np.isnan(far).all()
    near = jax.jit(taut.Ball(1.0, shape=2).project)(np.array([1e290, 0.0]))
    np.testing.assert_allclose(near, [1.0, 0.0])
    equation = jax.jit(taut.AffineBox(np.ones(2), 1.0, 0.0, 1.0).project)
    assert np.isnan(equation(np.array([1e20, 1e20]))).all()
    np.testing.assert_allclose(equation(np.array([1e12, 1e12])), [0.5, 0.5], atol=1e-3)


@pytest.mark.parametrize(
    ("dtype", "radius"), [(np.float32, 1e30), (np.float32, 1e25), (np.float64, 1e200)]
)
def test_a_large_ball_is_projected_on(dtype, radius):
    ball, x = taut.Ball(radius, shape=2), np.array([3e7, 4e7], dtype) * dtype(radius)
    for found in (ball.project(x), jax.jit(lambda leaf, x: leaf.project(x))(ball, x)):
        np.testing.assert_allclose(found, np.array([0.6, 0.8]) * radius, rtol=1e-6)
    assert ball.contains(ball.project(x))
    assert not ball.contains(x)


@pytest.mark.parametrize(
    "domain",
    [
        Ball(0.7, centre=[0.2, -0.1, 0.4]),
        Box(-0.5, [0.2, 0.1, 0.9]),
        Simplex(3, 1.5),
        L1Ball(0.6, centre=[0.2, 0.0, -0.3]),
    ],
)
def test_rows_are_projected_as_the_domain_projects(domain):
    rows = np.concatenate(
        [np.random.default_rng(0).normal(size=(20, 3)), np.zeros((1, 3)), 1e9 * np.eye(3)]
    )
    expected = jax.jit(jax.vmap(domain.project))(rows)
    np.testing.assert_allclose(
        project_rows(domain, rows), np.asarray(expected), rtol=1e-13, atol=1e-15
    )
