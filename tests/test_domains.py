"""Domains against CVXPY, against support functions written out here, and against known moments."""

import doctest
import itertools
import json
import math

import cvxpy as cp
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import taut.domains
from taut.domains import Ball, Box, L1Ball, Product, Simplex, domain_from_dict

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
FLOATS = [jnp.float16, jnp.bfloat16, jnp.float32, jnp.float64]

project = jax.jit(lambda domain, x: domain.project(x))
project_all = jax.jit(jax.vmap(lambda domain, x: domain.project(x), (None, 0)))
contains_all = jax.jit(jax.vmap(lambda domain, x: domain.contains(x), (None, 0)))
sample_all = jax.jit(
    lambda domain, key, n: jax.vmap(domain.sample)(jax.random.split(key, n)), static_argnums=2
)

every_domain = pytest.mark.parametrize("domain", ZOO.values(), ids=ZOO.keys())
every_domain_and_edges = pytest.mark.parametrize(
    "domain", [*ZOO.values(), *EDGES.values()], ids=[*ZOO, *EDGES]
)


def rows(x):
    """A batch of decisions, each as a vector."""
    return np.asarray(x, dtype=np.float64).reshape(len(x), -1)


def extremes(domain):
    """Extreme points of the domain, all of them or, for the ball, the ends of its axes."""
    size = math.prod(domain.shape)
    match domain:
        case Ball(radius=r) | L1Ball(radius=r):
            points = np.asarray(domain.centre).ravel() + r * np.concatenate([np.eye(size), -np.eye(size)])
        case Box(lower=lower, upper=upper):
            points = np.array(list(itertools.product(*zip(lower.ravel(), upper.ravel(), strict=True))))
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
        case Ball(radius=r):
            return v @ np.asarray(domain.centre).ravel() + r * np.linalg.norm(v)
        case Product():
            return sum(support(part, w) for part, w in zip(domain.parts, domain.split(v), strict=True))
        case _:
            return np.max(rows(extremes(domain)) @ v)


def points_around(domain, n, seed=0):
    """Interior, boundary, near and far points of the domain's shape."""
    rng = np.random.default_rng(seed)
    centre = np.asarray(domain.centre)
    inside = np.asarray(sample_all(domain, jax.random.key(seed), n))
    scales = (10.0 ** rng.uniform(-2, 3, size=n)).reshape(-1, *(1,) * centre.ndim)
    outside = centre + scales * rng.normal(size=inside.shape)
    return np.concatenate([inside, centre[None], extremes(domain)[:4], outside])


@every_domain
def test_projection_agrees_with_cvxpy(domain):
    around = points_around(domain, 3, seed=1)
    rng = np.random.default_rng(2)
    middle = (around[0] + np.asarray(domain.centre)) / 2
    far = 1e3 * rng.normal(size=domain.shape)
    near = around[0] + rng.normal(size=domain.shape)
    x, point = cp.Variable(domain.shape), cp.Parameter(domain.shape)
    problem = cp.Problem(cp.Minimize(cp.sum_squares(x - point)), domain.to_cvxpy(x))
    for p in (middle, np.asarray(project(domain, near)), near, -near, far, -far):
        point.value = p
        problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-11, tol_gap_rel=1e-11, tol_feas=1e-11)
        np.testing.assert_allclose(project(domain, p), x.value, atol=2e-6)


@every_domain_and_edges
def test_projection_is_optimal(domain):
    """p is the projection of x if and only if <x - p, y - p> <= 0 for all y of the domain."""
    points = points_around(domain, 100)
    nearest = project_all(domain, points)
    assert np.all(contains_all(domain, nearest))
    for x, p in zip(points, np.asarray(nearest), strict=True):
        gap = support(domain, x - p) - np.vdot(x - p, p)
        assert gap <= 1e-13 * (1 + np.linalg.norm(x)) * (1 + np.linalg.norm(x - p))


@every_domain_and_edges
def test_projection_is_idempotent_and_non_expansive(domain):
    points = points_around(domain, 100)
    once = project_all(domain, points)
    np.testing.assert_allclose(project_all(domain, once), once, rtol=0, atol=1e-14)
    moved, given_ = (
        np.linalg.norm(rows(a)[:, None] - rows(a)[None], axis=-1) for a in (np.asarray(once), points)
    )
    assert np.all(moved <= given_ + 1e-12)


@every_domain
def test_points_inside_stay(domain):
    inside = sample_all(domain, jax.random.key(3), 200)
    np.testing.assert_allclose(
        project_all(domain, inside), inside, rtol=0, atol=1e-15 * (1 + domain.diameter) * 4
    )


@pytest.mark.parametrize("domain", [L1Ball(1.0, shape=3), ZOO["l1-matrix"], ZOO["box"], Ball(3.0, shape=3)])
def test_points_inside_stay_to_the_bit(domain):
    inside = np.asarray(sample_all(domain, jax.random.key(4), 500))
    inside = np.concatenate([inside, np.asarray(domain.centre)[None]])
    np.testing.assert_array_equal(project_all(domain, inside), inside)


tied = st.sampled_from([0.0, -0.0, 1.0, -1.0, 0.5, 1 / 3, 1e-300, 1e-12, -1e6, 1e6])
entries = st.lists(st.one_of(tied, st.floats(-1e8, 1e8)), min_size=3, max_size=3)
SMALL = [Ball(1.0, centre=[0.5, 0.0, -1.0]), Box(0, 1, shape=3), Simplex(3), L1Ball(1.0, shape=3)]


@settings(max_examples=150, deadline=None)
@given(entries, st.sampled_from(SMALL))
def test_awkward_points(x, domain):
    """Ties, zeros of both signs, tiny and large numbers."""
    x = np.array(x)
    p = np.asarray(project(domain, x))
    assert domain.contains(p)
    assert support(domain, x - p) - np.vdot(x - p, p) <= 1e-13 * (1 + np.linalg.norm(x)) ** 2
    if isinstance(domain, L1Ball) and math.fsum(abs(x)) < 1 - 1e-12:
        np.testing.assert_array_equal(p, x)


def test_hand_worked_projections():
    cases = [
        (Ball(2.5, shape=2), [3, 4], [1.5, 2.0]),
        (Ball(1.0, centre=[1.0, 1.0]), [1.0, 5.0], [1.0, 2.0]),
        (Box(0, [1.0, 2.0]), [-3.0, 5.0], [0.0, 2.0]),
        (Simplex(3), [0.5, 1.0, -1.0], [0.25, 0.75, 0.0]),
        (L1Ball(1.0, shape=3), [2.0, -1.5, 0.1], [0.75, -0.25, 0.0]),
        (L1Ball(1.0, centre=[1.0, 0.0]), [4.0, 0.0], [2.0, 0.0]),
    ]
    for domain, x, expected in cases:
        np.testing.assert_allclose(domain.project(np.array(x)), expected, atol=1e-15)


@pytest.mark.parametrize(
    ("dtype", "lengths"), [(jnp.float64, (1e100, 1e200, 1e290)), (jnp.float32, (1e15, 1e25, 1e33))]
)
def test_far_points_do_not_overflow(dtype, lengths):
    direction = np.array([0.6, 0.0, -0.8])
    for length in lengths:
        x = jnp.asarray(length * direction, dtype)
        eps = float(jnp.finfo(dtype).eps)
        np.testing.assert_allclose(Ball(1.0, shape=3).project(x), direction, atol=4 * eps)
        np.testing.assert_allclose(L1Ball(1.0, shape=3).project(x), [0, 0, -1], atol=4 * eps)
        np.testing.assert_allclose(Simplex(3).project(x), [1, 0, 0], atol=4 * eps)


@pytest.mark.parametrize("radius", [1e-30, 1e-3, 1e6, 1e20])
@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
def test_small_and_large_balls(radius, dtype):
    direction = np.array([0.6, 0.0, -0.8])
    for length in (0.0, 1e-6, 0.5, 1.01, 1e8):
        y = Ball(radius, shape=3).project(jnp.asarray(length * radius * direction, dtype))
        expected = min(length, 1) * radius * direction
        np.testing.assert_allclose(y, expected, rtol=0, atol=4 * float(jnp.finfo(dtype).eps) * radius)


@every_domain_and_edges
@pytest.mark.parametrize("dtype", FLOATS, ids=lambda t: t.__name__)
def test_float_types(domain, dtype):
    points = jnp.asarray(points_around(domain, 20), dtype)
    nearest = project_all(domain, points)
    assert nearest.dtype == dtype
    assert np.all(contains_all(domain, nearest))
    exact = project_all(domain, points.astype(jnp.float64))
    coarse = 4 * float(jnp.finfo(dtype).eps) * (np.max(np.abs(exact)) + domain.diameter)
    np.testing.assert_allclose(nearest.astype(jnp.float64), exact, rtol=0, atol=coarse)


@pytest.mark.parametrize("domain", [Simplex(5000), L1Ball(3.0, shape=5000), Ball(1.0, shape=5000)])
@pytest.mark.parametrize("scale", [1e-4, 0.3, 30.0])
def test_many_entries_in_32_bits(domain, scale):
    x = np.random.default_rng(5).normal(scale=scale, size=5000)
    single = project(domain, jnp.asarray(x, jnp.float32))
    assert domain.contains(single)
    np.testing.assert_allclose(single, project(domain, jnp.asarray(x)), rtol=0, atol=2e-6 * max(1, scale))


def test_whole_numbers_become_floats():
    assert Ball(1.0, shape=2).project(np.array([3, 4])).dtype == jnp.float64


@every_domain_and_edges
def test_contains(domain):
    assert np.all(contains_all(domain, extremes(domain)))
    assert domain.contains(domain.centre)
    outwards = np.asarray(domain.centre) + (1 + 1e-6) * (extremes(domain) - np.asarray(domain.centre))
    if domain.diameter > 0:
        assert not np.any(contains_all(domain, outwards))
        assert domain.contains(outwards[0], tolerance=1e-4)
    assert not domain.contains(jnp.full(domain.shape, jnp.nan))
    assert not domain.contains(jnp.full(domain.shape, jnp.inf))


def test_contains_names_each_way_out():
    assert not Simplex(2).contains(np.array([1.5, -0.5]))
    assert not Simplex(2).contains(np.array([0.6, 0.6]))
    assert not Simplex(2).contains(np.array([0.4, 0.4]))
    assert not Box(0, 1, shape=2).contains(np.array([0.5, -0.1]))
    assert not Box(0, 1, shape=2).contains(np.array([0.5, 1.1]))
    assert not L1Ball(1.0, shape=2).contains(np.array([0.6, -0.6]))
    assert Ball(1.0, shape=2).contains(np.array([0.6, -0.6]))


@every_domain_and_edges
def test_radius_and_diameter_are_those_of_the_extreme_points(domain):
    corners = rows(extremes(domain))
    from_centre = np.linalg.norm(corners - np.asarray(domain.centre).ravel(), axis=1)
    between = np.linalg.norm(corners[:, None] - corners[None], axis=-1)
    assert domain.radius == pytest.approx(np.max(from_centre), rel=1e-14)
    assert domain.diameter == pytest.approx(np.max(between), rel=1e-14)
    inside = rows(sample_all(domain, jax.random.key(6), 50))
    assert np.all(np.linalg.norm(inside - np.asarray(domain.centre).ravel(), axis=1) <= domain.radius + 1e-12)
    # Every other point is farther from some extreme point than the centre is.
    assert np.all(
        np.max(np.linalg.norm(corners[:, None] - inside[None], axis=-1), axis=0) >= domain.radius - 1e-12
    )


def assert_mean(values, expected):
    """The mean of independent `values` is `expected`, within five standard errors."""
    values = np.asarray(values)
    error = np.std(values, axis=0) / math.sqrt(len(values))
    np.testing.assert_array_less(np.abs(np.mean(values, axis=0) - expected), 5 * error + 1e-12)


@every_domain_and_edges
def test_samples_are_inside(domain, key):
    drawn = sample_all(domain, key, 300)
    assert drawn.shape == (300, *domain.shape)
    assert np.all(contains_all(domain, drawn))


def test_samples_are_uniform(key):
    n = 20_000
    ball, box, simplex, l1, product = (
        ZOO[k] for k in ("ball-matrix", "box-matrix", "simplex-total", "l1", "product")
    )
    d, r = 6, ball.radius
    offset = rows(sample_all(ball, key, n) - ball.centre)
    assert_mean(offset, 0)
    assert_mean(offset**2, r**2 / (d + 2))
    assert_mean(np.sum(offset**2, axis=1) ** 2, r**4 * d / (d + 4))
    assert_mean(offset[:, :1] * offset[:, 1:], 0)

    offset = rows(sample_all(box, key, n) - box.centre)
    assert_mean(offset, 0)
    assert_mean(offset**2, 1.5**2 / 12)
    assert_mean(offset[:, :1] * offset[:, 1:], 0)

    d, total = 4, simplex.total
    shares = rows(sample_all(simplex, key, n)) / total
    assert_mean(shares, 1 / d)
    assert_mean(shares**2, 2 / (d * (d + 1)))
    assert_mean(shares[:, :1] * shares[:, 1:], 1 / (d * (d + 1)))

    x = rows(sample_all(l1, key, n)) / l1.radius
    assert_mean(x, 0)
    assert_mean(np.abs(x), 1 / (d + 1))
    assert_mean(x**2, 2 / ((d + 1) * (d + 2)))
    assert_mean(np.sum(np.abs(x), axis=1) ** 3, d / (d + 3))

    x = rows(sample_all(product, key, n)) - np.asarray(product.centre)
    assert_mean(np.sum(x[:, :2] ** 2, axis=1), 0.5**2 * 2 / 4)
    assert_mean(x[:, :1] * x[:, 2:], 0)
    assert_mean(np.abs(x[:, 2:6]), 2.0 / 5)
    assert_mean(x[:, 6:] ** 2, 1 / 12)


@every_domain_and_edges
def test_jit_and_vmap_change_nothing(domain):
    points = points_around(domain, 4)
    eager = np.stack([domain.project(jnp.asarray(x)) for x in points])
    np.testing.assert_allclose(project_all(domain, points), eager, rtol=1e-15, atol=1e-15)
    np.testing.assert_allclose(np.stack([project(domain, x) for x in points]), eager, rtol=1e-15, atol=1e-15)
    measures = jax.jit(lambda domain: (domain.radius, domain.diameter, domain.centre))(domain)
    for traced, known in zip(measures, (domain.radius, domain.diameter, domain.centre), strict=True):
        np.testing.assert_allclose(traced, known, rtol=1e-15)


@every_domain
def test_derivative(domain):
    """Finite at the centre and extreme points; right at a generic point."""
    jacobian = jax.jit(jax.vmap(jax.jacobian(domain.project)))
    size = math.prod(domain.shape)
    x = np.asarray(domain.centre) + np.random.default_rng(7).normal(size=domain.shape)
    corners = extremes(domain)[:3]
    slopes = np.asarray(jacobian(np.stack([np.asarray(domain.centre), *corners, x])))
    assert np.all(np.isfinite(slopes))
    steps = 1e-6 * np.eye(size).reshape(size, *domain.shape)
    numeric = (rows(project_all(domain, x + steps)) - rows(project_all(domain, x - steps))) / 2e-6
    np.testing.assert_allclose(slopes[-1].reshape(size, size), numeric.T, atol=1e-6)
    if isinstance(domain, Ball | L1Ball):
        np.testing.assert_allclose(slopes[0].reshape(size, size), np.eye(size), atol=1e-15)


def test_new_numbers_do_not_recompile():
    traces = []

    @jax.jit
    def play(domain, x):
        traces.append(type(domain).__name__)
        return domain.project(x)

    x = jnp.array([3.0, 4.0])
    for first, second in [
        (Ball(1.0, shape=2), Ball(2, centre=np.float32([1, 2]))),
        (Box(0, 1, shape=2), Box([-1, -2], 5.0)),
        (Simplex(2), Simplex(2, total=3)),
        (L1Ball(1.0, shape=2), L1Ball(2, centre=[1, 2])),
        (Product(Ball(1.0, shape=1), Simplex(1)), Product(Ball(3, centre=[1]), Simplex(1, 2.0))),
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
        jax.tree_util.keystr(path) for path, _ in jax.tree_util.tree_flatten_with_path(ZOO["product"])[0]
    ]
    assert paths[:2] == [".parts[0].radius", ".parts[0].middle"]


def test_arguments_are_copied():
    centre = np.zeros(2)
    ball = Ball(1.0, centre=centre)
    centre[0] = 5
    np.testing.assert_array_equal(ball.centre, [0, 0])


@every_domain_and_edges
def test_descriptions_round_trip_through_json(domain):
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
        (lambda: Ball(1.0, shape=(2, 0)), ValueError, r"shape: got 0; expected a whole number of at least 1"),
        (lambda: Ball(1.0, shape=2.5), TypeError, r"shape: got 2.5; expected a whole number"),
        (lambda: L1Ball(0, shape=2), ValueError, r"radius: got 0; expected a positive"),
        (lambda: L1Ball(1.0, centre=[]), ValueError, r"shape: got 0; expected"),
        (lambda: Box(0, 1), TypeError, r"shape: got None and scalar bounds; expected"),
        (
            lambda: Box([0, 2], [1, 1]),
            ValueError,
            r"lower: got 2 at index \(1,\); expected at most upper = 1",
        ),
        (lambda: Box(0, np.inf, shape=2), ValueError, r"upper: got inf at index \(\); expected finite"),
        (
            lambda: Box([0, 0], [1, 1, 1]),
            ValueError,
            r"upper: got shape \(3,\); expected a scalar or .*\(2,\)",
        ),
        (lambda: Box("a", 1, shape=2), TypeError, r"lower: got values of type .*; expected real numbers"),
        (lambda: Simplex(0), ValueError, r"dimension: got 0; expected a whole number of at least 1"),
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
        (lambda: domain_from_dict({}), TypeError, r"description: got {}; expected a mapping with .*'kind'"),
        (lambda: domain_from_dict({"kind": "Cone"}), ValueError, r"kind: got 'Cone'; expected one of 'Ball'"),
        (lambda: domain_from_dict({"kind": "Product"}), ValueError, r"expected an entry 'parts'"),
        (lambda: domain_from_dict({"kind": "Simplex", "size": 2}), ValueError, r"description: .*'size'"),
    ],
)
def test_bad_input_is_named(build, error, message):
    with pytest.raises(error, match=message):
        build()


def test_documentation_runs():
    assert doctest.testmod(taut.domains).failed == 0
    assert doctest.testmod(taut.domains).attempted > 0
