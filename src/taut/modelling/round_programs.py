"""Programs with a part for every round. CVXPY states one round; the others follow, because the
numbers are affine in data.

Disciplined parametrized programming guarantees this. The affine map is found by stating the round
once per entry of the parameters, whatever the number of rounds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import cvxpy as cp
import numpy as np
from scipy import sparse

from ..engine import Array
from ..problem.conic import ConicForm, ConicSet, conic_form
from .translation.inequalities import Excess

if TYPE_CHECKING:
    from .model import Model

__all__ = ["Rounds"]


SAME = 1e-9
"""Numbers that differ by less than this, relatively, are equal: the check of the affine map."""


class Rounds:
    """The part of a program that changes with the round: the loss as an epigraph, and constraints.

    Arguments:
        model: the model.
        excesses: the constraints that change with the round.
        loss_unit: what the loss is divided by; None if it is not part of it.
        example: one round's data, flat.
    """

    def __init__(
        self, model: Model, excesses: list[Excess], loss_unit: float | None, example: Array
    ) -> None:
        self._flat, self._model = model.scaled_copy(), model
        self._levels = [] if loss_unit is None else [cp.Variable()]
        self._tracked = [
            Excess(self._flat.of(excess.expression), excess.equality).constraint
            for excess in excesses
        ]
        epigraph = [self._flat.of(model.objective) <= loss_unit * one for one in self._levels]
        objective = cp.Minimize(cp.sum(self._flat.variable) + sum(self._levels))
        self._program = cp.Problem(objective, [*self._tracked, *epigraph, *self._flat.links])
        base = self._form(example)
        self.form, self._base, self._example = base, _numbers(base), example
        self._slopes = np.zeros((len(self._base), len(example)))
        for i, unit in enumerate(np.eye(len(example))):
            self._slopes[:, i] = _numbers(self._form(example + unit)) - self._base

    def _form(self, data: Array) -> ConicForm:
        for parameter, value in zip(self._flat.parameters, self._model.data_of(data), strict=True):
            parameter.save_value(
                value
            )  # without CVXPY's checks, because these data may violate attributes
        return conic_form(self._program, [self._flat.variable, *self._levels], self._tracked)

    @property
    def height(self) -> int:
        """Rows for each round."""
        return len(self.form.offsets)

    def faithful(self, data: Array) -> bool:
        """Whether CVXPY's own statement of a round has the numbers that the affine map predicts."""
        truth = _numbers(self._form(data))
        guess = self._base + self._slopes @ (data - self._example)
        return len(truth) == len(guess) and bool(
            np.all(np.abs(truth - guess) <= SAME * (1 + np.abs(truth)))
        )

    def join(
        self, fixed: ConicForm, data: Array, weights: Array
    ) -> tuple[ConicSet, list[list[Array]]]:
        """The fixed rows and those of all rounds (round, entry), whose losses cost `weights`.

        Also returns, for every constraint that changes with the round, its rows in each round,
        counted from 1.
        """
        count, size = len(data), len(fixed.columns)
        numbers = self._base + (data - self._example) @ self._slopes.T
        rows, width = self.form.matrix.shape
        matrices, offsets = (
            numbers[:, : rows * width].reshape(count, rows, width),
            numbers[:, rows * width :],
        )
        own = np.setdiff1d(
            np.arange(width), self.form.columns[:size]
        )  # the level and auxiliary variables
        start = fixed.matrix.shape[1]
        shift = np.zeros((count, width), int)
        shift[:, own] = start + np.arange(count * len(own)).reshape(count, -1)
        shift[:, self.form.columns[:size]] = fixed.columns
        r, i, j = np.nonzero(matrices)
        height = fixed.matrix.shape[0]
        shape = (count * rows, start + count * len(own))
        below = sparse.csc_matrix((matrices[r, i, j], (r * rows + i, shift[r, j])), shape)
        above = fixed.matrix.copy()
        above.resize(height, shape[1])
        costs = np.zeros(shape[1])
        for level in self.form.columns[size:]:
            costs[shift[:, level]] = weights
        form = ConicForm(
            sparse.vstack([above, below], format="csc"),
            np.concatenate([fixed.offsets, offsets.ravel()]),
            fixed.cones + self.form.cones * count,
            fixed.columns,
            fixed.dual_rows,
            fixed.zero,
            fixed.positive,
        )
        places = [
            [np.sign(where) * (np.abs(where) + height + t * rows) for t in range(count)]
            for where in self.form.dual_rows
        ]
        return ConicSet(form, costs), places


def _numbers(form: ConicForm) -> Array:
    return np.concatenate([np.asarray(form.matrix.toarray()).ravel(), form.offsets])
