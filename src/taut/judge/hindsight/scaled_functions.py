"""Loss and constraints with their derivatives in the coordinates u of `Scaling`.

Points are rows of arrays (point, entry). `taut.problem.evaluation` evaluates the functions.
"""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from ...engine import Array
from ...problem.constraints import Constraints
from ...problem.evaluation import Sums, constraint_evaluation, loss_evaluation
from ...problem.problem import Problem
from .blocks import Block
from .scaling import Scaling

__all__ = ["ScaledConstraints", "ScaledLoss"]

NUMBERS = 2**22
"""Values of constraints that are computed at a time, at most."""


class ScaledLoss:
    """The loss of a problem. Data have the axis `round` first."""

    def __init__(self, problem: Problem, scaling: Scaling) -> None:
        self.scaling = scaling
        self._evaluation = loss_evaluation(problem)
        self._radius = float(scaling.radius)

    def lines(self, points: Array, data: Any) -> tuple[Array, Array]:
        """Return values (point, round) and gradients (point, round, entry)."""
        values, slopes = self._evaluation.slopes(self.scaling.decisions(points), _one(data))
        return values, self._radius * slopes

    def products(self, point: Array, data: Any, directions: Array) -> Array:
        """Return the Hessians at one point times directions, (round, direction, entry)."""
        at = self.scaling.decisions(point[None])
        found = self._evaluation.products(at, _one(data), directions)[:, 0]
        return self._radius**2 * found.transpose(1, 0, 2)

    def sums(
        self,
        u: Array,
        block: Block,
        second: bool = False,
        probe: Array | None = None,
        second_order: float | None = None,
    ) -> Sums:
        """Return sums over the rounds of a block at the point of each seed; see `Evaluation.sums`.

        Arguments:
            u: (seed, entry).
            block: the rounds.
            second: whether Hessians are summed.
            probe: a direction in which the losses are compared with their polynomials of second
                order.
            second_order: what the second derivative contributes to these, if it is known.
        """
        value, slope, hessian, misfit = self._evaluation.repeated(block.blocks).sums(
            self.scaling.decisions(u),
            block.data,
            block.stop - block.start,
            second,
            None if probe is None else self._radius * probe,
            second_order,
        )
        return Sums(value, self._radius * slope, self._radius**2 * hessian, misfit)


class ScaledConstraints:
    """Constraints made of a problem's functions."""

    def __init__(self, problem: Problem, constraints: Constraints, scaling: Scaling) -> None:
        self.scaling, self.takes_data = scaling, constraints.takes_data
        self._evaluation = constraint_evaluation(problem, constraints)
        self._radius = float(scaling.radius)

    def count(self) -> int:
        """Return the number of constraints, which do not change."""
        return self._evaluation.count(self.scaling.decisions(np.zeros((1, self.scaling.size))))

    def values(self, u: Array) -> Array:
        """Return the values of constraints that do not change, (point, constraint)."""
        return self._evaluation.values(self.scaling.decisions(u))[:, 0]

    def lines(self, u: Array, z: Any) -> tuple[Array, Array]:
        """Return values (point, constraint) and gradients (point, constraint, entry) with the data
        `z` of one round, or None."""
        data = jax.tree.map(lambda a: a[None, None], z)
        values, slopes = self._evaluation.slopes(self.scaling.decisions(u), data)
        return values[:, 0], self._radius * slopes[:, 0]

    def expansions(self, u: Array, which: Array, data: Any = None) -> tuple[Array, Array, Array]:
        """Return value, gradient and Hessian of one constraint per point: of `which[i]` at `u[i]`,
        with row i of the data."""
        rows = jax.tree.map(lambda a: a[:, None], data)
        value, slope, hessian = self._evaluation.rows(
            self.scaling.decisions(u), rows, which, second=True
        )
        return value, self._radius * slope, self._radius**2 * hessian

    def worst(self, u: Array, block: Block) -> tuple[Array, Array]:
        """Return for each seed and constraint the largest value over a block's rounds, and where it
        is."""
        x, rounds = self.scaling.decisions(u), len(jax.tree.leaves(block.data)[0][0])
        width = rounds
        while width > 1 and len(x) * width * self._evaluation.count(x, block.data) > NUMBERS:
            width //= 2  # the length of a block is a power of 2, and so are its parts
        evaluation = self._evaluation.repeated(block.blocks * rounds // width)
        highest, where = [], []
        for start in range(0, rounds, width):
            part = jax.tree.map(lambda a, start=start: a[:, start : start + width], block.data)
            values = evaluation.values(x, part)
            highest.append(np.max(values, axis=1))
            where.append(start + np.argmax(values, axis=1))
        best = np.argmax(highest, axis=0)[None]
        return tuple(np.take_along_axis(np.stack(a), best, axis=0)[0] for a in (highest, where))


def _one(data: Any) -> Any:
    """The data of rounds, the same for all points."""
    return jax.tree.map(lambda a: np.asarray(a)[None], data)
