"""Constants from enclosures: Lipschitz constants, ranges, curvature, and bounds over divided
boxes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import taut
from taut.intervals.constants import (
    Edges,
    curvature,
    least_upper,
    lipschitz,
    size,
    variation,
)
from taut.intervals.enclosure import Space
from taut.intervals.of_jaxpr import enclose
from taut.intervals.pieces import Unknown

RNG = np.random.default_rng(7)
MATRIX = RNG.normal(size=(4, 3))
BALL = Space.of(taut.Ball(2.0, shape=3), gradients=True)


def test_constants_of_an_affine_function_are_exact():
    row = enclose(lambda x, z: z @ x - 1, BALL, MATRIX[0])
    length = float(np.linalg.norm(MATRIX[0]))
    assert lipschitz(row) == pytest.approx(length)
    assert variation(row) == pytest.approx(4 * length)
    assert size(row) == pytest.approx(2 * length + 1)
    with pytest.raises(ValueError, match="space: got one without gradients"):
        lipschitz(enclose(lambda x, z: z @ x, Space.of(taut.Ball(2.0, shape=3)), MATRIX[0]))


def test_a_function_with_a_jump_has_no_lipschitz_constant():
    with pytest.raises(Unknown, match="slopes are not limited"):
        lipschitz(enclose(lambda x, _: jnp.sign(x).sum(), BALL))
    assert variation(enclose(lambda x, _: jnp.sign(x[0]), BALL)) == pytest.approx(2.0)


def test_the_curvature_of_a_quadratic_function_is_exact():
    bend = 2 * MATRIX.T @ MATRIX
    low, high = curvature(lambda x, z: ((z @ x - 1) ** 2).sum(), BALL, MATRIX)
    values = np.linalg.eigvalsh(bend)
    assert (low, high) == pytest.approx((values[0], values[-1]))


def test_the_curvature_of_a_logistic_loss_is_never_exceeded():
    def loss(x, z):
        return jnp.logaddexp(0.0, -z @ x) + 0.05 * x @ x

    def sigmoid_loss(x, z):
        return jax.nn.sigmoid(z @ x)

    row = MATRIX[1]
    for function in (loss, sigmoid_loss):
        low, high = curvature(function, BALL, row)
        seen = [
            np.linalg.eigvalsh(np.asarray(jax.hessian(function)(jnp.asarray(x), row)))
            for x in taut.problem.sampling.sample_decisions(BALL.domain, RNG, 50)
        ]
        assert low <= np.min(seen)
        assert high >= np.max(seen)
        assert high <= 0.5 * row @ row + 0.1
    # A logistic loss bends most in the middle.
    assert curvature(loss, BALL, row)[1] == pytest.approx(0.25 * row @ row + 0.1)
    steepest = float(1 / (1 + np.exp(-2 * np.linalg.norm(row))) * np.linalg.norm(row))
    logistic = enclose(lambda x, z: jax.nn.softplus(z @ x), BALL, row)
    assert lipschitz(logistic) == pytest.approx(steepest)
    assert float(logistic.high) == pytest.approx(np.logaddexp(0, 2 * np.linalg.norm(row)))


def test_a_function_of_the_same_name_is_not_taken_for_that_of_jax():
    @jax.custom_jvp
    def logaddexp(x, y):
        return jnp.maximum(x, y) + jnp.abs(x - y)

    logaddexp.defjvp(lambda primals, tangents: (logaddexp(*primals), tangents[0]))
    bounds = enclose(lambda x, _: logaddexp(x[0], 0.0), BALL)
    assert float(bounds.high) == pytest.approx(4.0)


def test_a_kink_has_no_curvature():
    with pytest.raises(Unknown):
        curvature(lambda x, _: jnp.abs(x).sum() + x @ x, BALL)


def test_dividing_the_box_improves_a_loose_bound():
    box = Edges(np.array([-1.0]), np.array([1.0]), 1)

    def bound(part):  # of x (x - 1) with each factor bounded apart, at most 2 in truth
        ends = [
            a * b for a in (part.low[0], part.high[0]) for b in (part.low[0] - 1, part.high[0] - 1)
        ]
        return max(ends)

    def loose(part):
        return bound(part) + 3 * (part.high[0] - part.low[0])

    assert loose(box) == 8.0
    assert 2.0 <= least_upper(loose, box, 2.0) <= 2.0 * 1.2
    assert least_upper(lambda part: 1.0, box, 2.0) == 2.0  # never below what is attained


def test_a_range_is_a_difference_of_decisions_which_may_be_in_different_parts_of_the_box():
    box = Edges(
        np.array([-1.0, 0.0]), np.array([1.0, 3.0]), 1
    )  # a decision and a number of the data

    def bound(part):  # on x z - y z, twice too large
        return 2 * (part.high[0] - part.low[0]) * part.high[1]

    assert least_upper(bound, box, 6.0) < 6.5  # wrong: two decisions of the same part
    assert least_upper(bound, box, 6.0, data_only=True) == 12.0
