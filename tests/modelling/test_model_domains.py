"""Domains of models: derived boxes and given sets."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest
from model_helpers import rng_of

import taut

pytestmark = pytest.mark.usefixtures("compile_quickly")


def test_the_bounding_box_is_the_smallest():
    random = rng_of(7)
    root = random.normal(size=(3, 3)) + 2 * np.eye(3)
    middle = random.normal(size=3)
    x = cp.Variable(3, name="x")
    model = taut.from_cvxpy(cp.sum_squares(x), [cp.norm(root @ (x - middle)) <= 1])
    half = np.linalg.norm(np.linalg.inv(root), axis=1)  # of the ellipsoid's shadow on each axis
    np.testing.assert_allclose(model.domain.lower, middle - half, rtol=0, atol=1e-7)
    np.testing.assert_allclose(model.domain.upper, middle + half, rtol=0, atol=1e-7)
    assert np.all(model.domain.lower <= middle - half)
    assert np.all(model.domain.upper >= middle + half)
    assert model.constants.radius == pytest.approx(np.linalg.norm(half), rel=1e-6)


def test_edges_that_are_short_decimals_are_exact():
    x = cp.Variable(2, name="x")
    model = taut.from_cvxpy(cp.sum_squares(x), [x[0] + x[1] <= 0.7, x >= [-0.25, 0.1]])
    np.testing.assert_array_equal(model.domain.lower, [-0.25, 0.1])
    np.testing.assert_array_equal(model.domain.upper, [0.6, 0.95])


@pytest.mark.parametrize("unit", [1e-9, 1e-5, 1e9])
def test_edges_in_other_units(unit):
    x = cp.Variable(2, name="x", nonneg=True)
    model = taut.from_cvxpy(cp.sum(x), [cp.sum(x) <= 6 * unit, cp.norm(x) <= 5 * unit])
    np.testing.assert_allclose(model.domain.lower / unit, 0, atol=1e-2)
    np.testing.assert_allclose(model.domain.upper / unit, 5, rtol=1e-2)
    assert np.all(model.domain.upper >= 5 * unit * (1 - 1e-12))


def test_a_given_domain_is_taken():
    x = cp.Variable((2, 2), name="x")
    constraints = [cp.norm_inf(x) <= 1]
    square = taut.from_cvxpy(cp.sum_squares(x), constraints, taut.Ball(2.0, shape=(2, 2)))
    assert square.domain.shape == (2, 2)
    flat = taut.from_cvxpy(cp.sum_squares(x), constraints, taut.L1Ball(4.0, shape=4))
    np.testing.assert_array_equal(flat.present(np.arange(4.0)), [[0, 1], [2, 3]])
    with pytest.raises(
        ValueError, match=r"domain: got decisions of shape \(3,\); expected \(2, 2\)"
    ):
        taut.from_cvxpy(cp.sum_squares(x), constraints, taut.Ball(1.0, shape=3))
    with pytest.raises(
        ValueError, match=r"constraints: got max_i g_i\(x\) >= 0.64\d* > 0 for all x of the domain"
    ):
        taut.from_cvxpy(cp.sum(x), [x[0] >= 1], taut.Ball(0.5, shape=(2, 2)))
    many = cp.Variable(501, name="x")
    with pytest.raises(
        ValueError, match="domain: got None for decisions of 501 entries; expected a domain"
    ):
        taut.from_cvxpy(cp.sum(many), [cp.norm(many[1:]) <= 1])
