"""Projections on single rows, by hand."""

import jax.numpy as jnp
import numpy as np

from taut.learners.cuts import Rows, _over_rows


def test_rows_are_projected_on_with_the_sign_of_their_offsets():
    rows = Rows(jnp.asarray([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]]), jnp.asarray([0.5, -0.3, 10.0]))
    np.testing.assert_allclose(_over_rows(rows, jnp.asarray([2.0, 2.0])), [0.5, -0.3])
    np.testing.assert_allclose(_over_rows(rows, jnp.asarray([-1.0, -1.0])), [-1.0, -1.0])  # inside: nothing moves
