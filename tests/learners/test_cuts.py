"""Projections on single rows, weights of constraints and steps, by hand."""

import jax
import jax.numpy as jnp
import numpy as np

from taut.jaxpr.maxima import entry_of_largest
from taut.learners.base import largest_row
from taut.learners.half_space.cuts import Cuts, HalfSpaceAt, Rows, onto_cuts, remember
from taut.learners.schedules import AdaGradNorm
from taut.problem.constraints import Linearisation


def swept(cuts, rows, y, project=lambda y: y, t=1):
    """Sweep over cuts and rows, which hold where they are not exceeded at all."""
    y, t, diameter = jnp.asarray(y), jnp.asarray(t), jnp.asarray(0.0)
    return onto_cuts(
        project, y, cuts, rows, t, diameter, alive_in=t + 1, sweeps=9, ends_exactly=False
    )


def test_rows_are_projected_on_with_the_sign_of_their_offsets():
    rows = Rows(jnp.asarray([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]]), jnp.asarray([0.5, -0.3, 10.0]))
    outside, _, _ = swept(None, rows, [2.0, 2.0])
    np.testing.assert_allclose(outside, [0.5, -0.3])
    inside, _, _ = swept(None, rows, [-1.0, -1.0])
    np.testing.assert_allclose(inside, [-1.0, -1.0])


def test_a_cut_of_a_large_decision_that_holds_up_to_rounding_ends_the_sweeps():
    """Two rows 0.6 x + 0.8 y <= 1e8 and -x <= -1e7 at points of 1e8, where numbers lie 1.5e-8
    apart."""
    rows = Rows(jnp.asarray([[0.6, 0.8], [-1.0, 0.0]]), jnp.asarray([1e8, -1e7]))
    calls = []

    def domain(y):
        calls.append(y)
        return y + 3e-8  # an error of projection, of less than 8 units of rounding

    with jax.disable_jit():
        y, _, holds = swept(None, rows, [2e8, 2e8], domain)
    assert len(calls) == 1
    assert holds
    assert float(jnp.max(rows.normals @ y - rows.offsets)) < 1e-6


def test_of_constraints_that_are_equally_large_the_first_has_the_weight():
    rows = Linearisation(
        jnp.asarray([0.3, 0.7, 0.7]), lambda weights: weights, lambda direction: direction
    )
    value, weights = largest_row(rows)
    assert value == 0.7
    np.testing.assert_allclose(weights, [0, 1, 0])


def test_of_equal_rows_the_first_is_the_largest():
    np.testing.assert_array_equal(entry_of_largest(jnp.asarray([0.3, 0.7, 0.7])), [0, 1, 0])
    np.testing.assert_array_equal(entry_of_largest(jnp.zeros(40)), np.eye(40)[0])


def test_steps_from_gradients_by_hand():
    """scale / sqrt(start_up * largest + total) of squared lengths 0, 25, 4."""
    step, slopes, found = AdaGradNorm(scale=3.0, start_up=2.0), AdaGradNorm.begin(float), []
    for gradient in ([0.0, 0.0], [3.0, 4.0], [0.0, 2.0]):
        eta, slopes = step.with_gradient(slopes, jnp.asarray(gradient))
        found.append(float(eta))
    np.testing.assert_allclose(found, [0.0, 3 / np.sqrt(75), 3 / np.sqrt(79)], rtol=1e-12)


def test_a_kept_cut_that_moves_a_decision_is_active_in_that_round():
    cuts = Cuts(jnp.eye(2), jnp.asarray([0.5, 5.0]), jnp.asarray([2, 3], jnp.int32))
    y, cuts, holds = swept(cuts, None, [2.0, 0.0], t=7)
    np.testing.assert_allclose(y, [0.5, 0.0])
    assert holds
    assert cuts.active.tolist() == [7, 3]
    # The next cut takes the slot of the one that has been inactive longer.
    x, normal, distance, worth = jnp.zeros(2), jnp.asarray([0.6, 0.8]), -1.0, jnp.asarray(True)
    seen = HalfSpaceAt(x, normal, distance, worth[None])
    cuts = remember(cuts, seen, worth, jnp.asarray(8), jnp.asarray(1.0), None)
    assert cuts.active.tolist() == [7, 8]
    np.testing.assert_allclose(cuts.normals[0], [1, 0])
