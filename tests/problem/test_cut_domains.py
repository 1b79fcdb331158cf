"""Boxes cut by equations, symmetric matrices with bounded eigenvalues, and blocks, against CVXPY
and by hand."""

import json

import cvxpy as cp
import jax
import numpy as np
import pytest

from taut.problem.domains import (
    AffineBox,
    Ball,
    Blocks,
    Box,
    L1Ball,
    Simplex,
    Spectral,
    domain_from_dict,
)
from taut.problem.domains.support import bounding_box, least_change, linear_minimisers, project_rows

SUMS = np.concatenate([np.kron(np.eye(3), np.ones(3)), np.kron(np.ones(3), np.eye(3))])
STORAGE = np.array([[1.0, 0, 0, -0.9, 0, 0], [-1, 1, 0, 0, -0.9, 0], [0, -1, 1, 0, 0, -0.9]])
ZOO = {
    "slice": AffineBox([1.0, -2, 0, 3, 0.5], 1.0, -1, [1, 2, 1, 0.5, 3]),
    "doubly stochastic": AffineBox(SUMS, np.ones(6), 0, 1, shape=(3, 3)),
    "storage": AffineBox(STORAGE, [1, 0, 0], [0.5, 0.5, 0.5, -1, 0.2, -1], [2, 2, 2, 1, 0.2, 1]),
    "trace": Spectral(Simplex(3, 2.0)),
    "eigenvalues": Spectral(Box(-1, 2, shape=2)),
    "nuclear": Spectral(L1Ball(1.0, shape=3)),
    "columns": Blocks(
        [Simplex(2), Simplex(2), Ball(1.0, shape=2)], [[0, 3], [1, 4], [2, 5]], shape=(2, 3)
    ),
}


@pytest.fixture(scope="module", autouse=True)
def compile_quickly():
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)


every = pytest.mark.parametrize("name", ZOO)


@jax.jit
def projected(domains, points):
    return {name: jax.vmap(domain.project)(points[name]) for name, domain in domains.items()}


@pytest.fixture(scope="module")
def nearest():
    """Points at distances from a tenth of the domain to a million times it, and their
    projections."""
    points = {}
    for name, domain in ZOO.items():
        random = np.random.default_rng(3)
        sizes = np.array([0.1, 0.5, 1, 3, 10, 1e6]).reshape(-1, *(1,) * len(domain.shape))
        points[name] = sizes * random.normal(size=(6, *domain.shape))
    return points, {name: np.asarray(found) for name, found in projected(ZOO, points).items()}


@every
def test_projections_agree_with_cvxpy(name, nearest):
    domain, points, found = ZOO[name], nearest[0][name], nearest[1][name]
    x, target = cp.Variable(domain.shape), cp.Parameter(domain.shape)
    program = cp.Problem(
        cp.Minimize(cp.sum_squares(x) - 2 * cp.sum(cp.multiply(target, x))), domain.to_cvxpy(x)
    )
    for point, p in zip(points[:5], found[:5], strict=True):
        target.value = point
        program.solve(solver=cp.CLARABEL, tol_gap_abs=1e-11, tol_gap_rel=1e-11, tol_feas=1e-11)
        np.testing.assert_allclose(p, x.value, atol=2e-6)


@every
def test_projections_are_optimal_and_exact(name, nearest):
    """p is the projection of x if and only if it is in the domain and <x - p, y - p> <= 0 for all
    its y."""
    domain = ZOO[name]
    for x, p in zip(nearest[0][name], nearest[1][name], strict=True):
        assert bool(domain.contains(p, 1e-12))
        lowest = least_change(domain, (p - x).reshape(1, -1), p.reshape(1, -1))[0]
        assert lowest >= -1e-9 * (1 + np.linalg.norm(x - p)) * (1 + domain.radius)
        if isinstance(domain, AffineBox):
            assert np.all((p >= domain.lower) & (p <= domain.upper))
            np.testing.assert_allclose(domain.rows @ p.ravel(), domain.values, atol=1e-13)


@every
def test_support_radius_and_box(name):
    domain = ZOO[name]
    x = cp.Variable(domain.shape)
    directions = np.random.default_rng(4).normal(size=(60, np.prod(domain.shape, dtype=int)))
    points = linear_minimisers(domain, directions)
    for direction, point in zip(directions[:3], points, strict=False):
        program = cp.Problem(
            cp.Minimize(cp.sum(cp.multiply(direction.reshape(domain.shape), x))), domain.to_cvxpy(x)
        )
        assert direction @ point == pytest.approx(program.solve(solver=cp.CLARABEL), abs=1e-6)
    centre = np.asarray(domain.centre)
    assert bool(domain.contains(centre))
    assert np.linalg.norm(points - centre.ravel(), axis=1).max() <= domain.radius + 1e-9
    assert np.linalg.norm(points[:, None] - points[None], axis=2).max() <= domain.diameter + 1e-9
    low, high = bounding_box(domain)
    assert np.all(points >= low - 1e-9)
    assert np.all(points <= high + 1e-9)


def test_radius_and_diameter_of_simplices_are_exact():
    for cut, simplex in (
        (AffineBox(np.ones(4), 1.5, 0, 9, shape=4), Simplex(4, 1.5)),
        (AffineBox(np.ones(4), 1.0, 0, 0.5, shape=4), Ball(0.5, shape=4)),
    ):
        assert cut.radius == pytest.approx(float(simplex.radius), rel=1e-12)
        assert cut.diameter == pytest.approx(float(simplex.diameter), rel=1e-12)
    np.testing.assert_array_equal(AffineBox(np.ones(4), 1.5, 0, 9, shape=4).upper, np.full(4, 1.5))


@every
def test_samples_descriptions_and_scaling(name):
    domain = ZOO[name]
    point = np.asarray(domain.centre)
    if name in ("slice", "trace", "columns"):
        point = np.asarray(domain.sample(jax.random.key(1)))
        assert bool(domain.contains(point, 1e-8))
    again = domain_from_dict(json.loads(json.dumps(domain.to_dict())))
    assert type(again) is type(domain)
    leaves, structure = jax.tree.flatten(again)
    assert structure == jax.tree.structure(domain)
    for one, two in zip(leaves, jax.tree.leaves(domain), strict=True):
        np.testing.assert_allclose(one, two, atol=1e-12)
    assert bool(domain.scaled(2.0).contains(2 * point, 1e-8))
    assert float(domain.scaled(2.0).radius) == pytest.approx(2 * float(domain.radius))
    outside = np.asarray(domain.centre) + 1.1 * float(domain.diameter) * np.ones(domain.shape)
    assert not bool(domain.contains(outside))


def test_dependent_equations_are_one_and_contradictions_are_refused():
    twice = AffineBox([[1.0, 1], [2, 2]], [1, 2], 0, 1, shape=2)
    np.testing.assert_allclose(twice.project(np.array([2.0, 0.0])), [1, 0], atol=1e-12)
    for rows, values, message in (
        ([[1.0, 1], [2, 2]], [1, 3], "equations that contradict"),
        ([1.0, 1], 3, "got 3 for an expression between 0 and 2"),
        ([[1.0, 1, 0], [0, 1, 1]], [2, 0.5], "no decision within the bounds"),
        ([1.0, 1, 1], 1, r"rows: got shape \(3,\)"),
        ([0.0, 0], 0, "without coefficients"),
    ):
        size = 3 if np.shape(rows) == (2, 3) else 2
        with pytest.raises(ValueError, match=message):
            AffineBox(rows, values, 0, 1, shape=size)
    with pytest.raises(ValueError, match="every place from 0 to 3 once"):
        Blocks([Simplex(2), Simplex(2)], [[0, 1], [1, 2]])
    with pytest.raises(ValueError, match="the same numbers for every entry"):
        Spectral(Box(0, [1.0, 2.0]))
    with pytest.raises(TypeError, match="expected one of Ball, Box, L1Ball, Simplex"):
        Spectral(Blocks([Simplex(2)], [[0, 1]]))


def test_projection_on_equations_does_not_call_lapack():
    """Batches of JAX's factorisations inside compiled loops have been seen to wait for one another
    without end."""
    text = jax.jit(jax.vmap(ZOO["storage"].project)).lower(np.zeros((3, 6))).as_text()
    assert "lapack" not in text


def test_rows_of_products_are_projected_part_by_part():
    """Each projection p of x satisfies <x - p, y - p> <= 0 for all y of the domain."""
    domain = Blocks([Box(0, 1, shape=2), ZOO["storage"]], [[0, 7], [1, 2, 3, 4, 5, 6]])
    points = np.random.default_rng(0).normal(size=(5, 8)) * 3
    found = project_rows(domain, points)
    assert np.allclose(found[:, [0, 7]], np.clip(points[:, [0, 7]], 0, 1))
    assert np.all(least_change(domain, found - points, found) >= -1e-8)
    low, high = bounding_box(domain)
    assert np.all(low <= found)
    assert np.all(found <= high)
