"""The coordinates in which everything is solved: flat vectors u with x = centre + radius * u, so
that |u| <= 1; loss and constraints with their derivatives in these coordinates."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from ...engine import Array, register_dataclass
from ...problem.constraints import Constraints
from ...problem.domains import Domain
from ...problem.domains.support import centre_of, least_change, project_rows
from ...problem.evaluation import Sums, constraint_evaluation, loss_evaluation
from ...problem.problem import Problem
from ...problem.sampling import sample_decisions

if TYPE_CHECKING:
    from .stream_sums import Block

__all__ = ["ScaledConstraints", "ScaledLoss", "Scaling", "as_double", "sample_points"]

NUMBERS = 2**22
"""Values of constraints that are computed at a time, at most."""


@register_dataclass
@dataclass(frozen=True)
class Scaling:
    """Centre and radius of a domain as coordinates: a pytree, so that compiled functions can take
    it as an argument."""

    domain: Domain
    centre: jax.Array
    radius: jax.Array

    @classmethod
    def of(cls, domain: Domain) -> Scaling:
        """The coordinates around the domain's centre."""
        centre: Any = centre_of(domain).astype(float).ravel()
        radius: Any = np.asarray(domain.radius, float)
        return cls(domain, centre, radius)

    @property
    def size(self) -> int:
        """The number of entries of a decision."""
        return math.prod(self.domain.shape)

    def decision(self, u: Any) -> jax.Array:
        """The decision at the vector `u`."""
        return (self.centre + self.radius * u).reshape(self.domain.shape)

    def scaled(self, x: Any) -> jax.Array:
        """The vector of the decision `x`."""
        return (jnp.ravel(x) - self.centre) / self.radius

    def flat_decision(self, u: Array) -> Array:
        """The flat decisions at the rows of `u`, in NumPy."""
        return np.asarray(self.centre) + float(self.radius) * u

    def decisions(self, u: Array) -> Array:
        """The decisions at the rows of `u`, the same in all rounds: (point, 1, ...)."""
        return self.flat_decision(u).reshape(len(u), 1, *self.domain.shape)

    def project(self, u: Array) -> Array:
        """Each row of `u`, projected on the domain, in NumPy."""
        return (project_rows(self.domain, self.flat_decision(u)) - np.asarray(self.centre)) / float(
            self.radius
        )

    def least_change(self, slope: Array, u: Array) -> Array:
        """Lower bounds on min <slope, y - u> over all y of the domain, for each row of `slope` and
        `u`."""
        return least_change(self.domain, slope / float(self.radius), self.flat_decision(u))


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


def sample_points(scaling: Scaling, rng: np.random.Generator, count: int) -> Array:
    """Sampled decisions of the domain as vectors u, the centre first."""
    flat = sample_decisions(scaling.domain, rng, count).reshape(count, -1)
    return (flat - np.asarray(scaling.centre)) / float(scaling.radius)


def as_double(a: Any) -> Any:
    """The array in 64 bits if it holds real numbers; whole numbers stay what they are."""
    array = np.asarray(a)
    return (
        array.astype(np.float64, copy=False) if np.issubdtype(array.dtype, np.floating) else array
    )


def _one(data: Any) -> Any:
    """The data of rounds, the same for all points."""
    return jax.tree.map(lambda a: np.asarray(a)[None], data)
