"""Small sparse matrices for Clarabel, in NumPy: importing SciPy takes longer than solving a small
program.

Clarabel reads the attributes of SciPy's matrices in compressed columns, which `Columns` has as
well.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..engine import Array

__all__ = ["Columns", "Entries"]


@dataclass(frozen=True)
class Columns:
    """A matrix in compressed columns, with rows in order and no place twice."""

    data: Array
    indices: Array
    indptr: Array
    shape: tuple[int, int]
    has_canonical_format: bool = True
    has_sorted_indices: bool = True

    @property
    def nnz(self) -> int:
        """The number of entries."""
        return len(self.data)


@dataclass(frozen=True)
class Entries:
    """A matrix as a list of its entries, no place twice."""

    rows: Array
    columns: Array
    values: Array
    shape: tuple[int, int]

    @classmethod
    def of(cls, matrix: Any) -> Entries:
        """The entries of an array, or of a matrix of SciPy, that are not zero."""
        if isinstance(matrix, Entries):
            return matrix
        if hasattr(matrix, "tocoo"):
            found = matrix.tocoo()
            return cls(found.row, found.col, found.data, found.shape)
        rows, columns = np.nonzero(matrix)
        return cls(rows, columns, matrix[rows, columns], matrix.shape)

    @classmethod
    def stacked(cls, parts: Sequence[Entries]) -> Entries:
        """All rows of the first part, then those of the second, and so on."""
        starts = np.cumsum([0, *(part.shape[0] for part in parts)])
        return cls(
            np.concatenate(
                [part.rows + start for part, start in zip(parts, starts[:-1], strict=True)]
            ),
            np.concatenate([part.columns for part in parts]),
            np.concatenate([part.values for part in parts]),
            (int(starts[-1]), parts[0].shape[1]),
        )

    def widened(self, width: int, last: Array | None = None) -> Entries:
        """The matrix with further columns of zeros; if `last` is given, the last column is this."""
        if last is None or not np.any(last):
            return Entries(self.rows, self.columns, self.values, (self.shape[0], width))
        rows = np.flatnonzero(last)
        return Entries(
            np.concatenate([self.rows, rows]),
            np.concatenate([self.columns, np.full(len(rows), width - 1)]),
            np.concatenate([self.values, last[rows]]),
            (self.shape[0], width),
        )

    def compressed(self) -> Columns:
        """The matrix in compressed columns."""
        order = np.lexsort((self.rows, self.columns))
        ends = np.cumsum(np.bincount(self.columns, minlength=self.shape[1]))
        return Columns(
            self.values[order], self.rows[order], np.concatenate([[0], ends]), self.shape
        )
