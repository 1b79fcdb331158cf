"""Sparse matrices against SciPy's."""

import numpy as np
import pytest

from taut.problem.conic import Columns


@pytest.mark.parametrize("width", [None, 8])
def test_sparse_matrices_agree_with_scipy(width):
    sparse = pytest.importorskip("scipy.sparse")
    rng = np.random.default_rng(0)
    dense = np.where(rng.uniform(size=(5, 5)) < 0.4, rng.normal(size=(5, 5)), 0)
    made = Columns.of(dense, width)
    more = 0 if width is None else width - 5
    expected = sparse.csc_matrix(np.pad(dense, ((0, more), (0, more))))
    for name in ("data", "indices", "indptr"):
        np.testing.assert_array_equal(getattr(made, name), getattr(expected, name))
    assert (made.shape, made.nnz) == (expected.shape, expected.nnz)
    assert made.same_places(Columns.of(2 * dense, width))
    assert not made.same_places(Columns.of(dense.T, width))
