"""Sparse matrices against SciPy's."""

import numpy as np
import pytest

from taut.problem.conic import Entries


def test_sparse_matrices_agree_with_scipy():
    sparse = pytest.importorskip("scipy.sparse")
    rng = np.random.default_rng(0)
    parts = [
        np.where(rng.uniform(size=(rows, 4)) < 0.4, rng.normal(size=(rows, 4)), 0)
        for rows in (3, 0, 5)
    ]
    last = [np.array([0.0, 2.0, -1.0]), None, None]
    made = Entries.stacked(
        [Entries.of(p).widened(6, c) for p, c in zip(parts, last, strict=True)]
    ).compressed()
    dense = np.zeros((8, 6))
    dense[:, :4], dense[:3, 5] = np.concatenate(parts), last[0]
    expected = sparse.csc_matrix(dense)
    for name in ("data", "indices", "indptr"):
        np.testing.assert_array_equal(getattr(made, name), getattr(expected, name))
    assert (made.shape, made.nnz) == (expected.shape, expected.nnz)
    again = Entries.of(expected)
    np.testing.assert_array_equal(dense[again.rows, again.columns], again.values)
