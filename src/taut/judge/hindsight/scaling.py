"""The coordinates and units in which everything is solved.

Flat vectors u with x = centre + radius * u have |u| <= 1. Losses and constraints are divided by
units, powers of 2, in which their gradients with respect to u have lengths of about 1. Tolerances
then mean the same whatever the user multiplies domain, losses or constraints with.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ...engine import Array, register_dataclass
from ...problem.constraints import Constraints
from ...problem.domains import Domain
from ...problem.domains.support import centre_of, least_change, project_rows
from ...problem.evaluation import Sums, constraint_evaluation, loss_evaluation
from ...problem.problem import Problem
from ...problem.sampling import rounds_at, sample_decisions, sample_rounds
from ...problem.streams import Stream
from .tolerances import NUDGE

if TYPE_CHECKING:
    from .objective import Block

ROUNDS = 12
"""Rounds that are sampled."""
POINTS = 13
"""Decisions at which units are measured,"""
FEW = 200
"""fewer if decisions have more numbers."""
BATCH = 16
"""Tangents that are computed at a time."""
NUMBERS = 2**22
"""Values of constraints that are computed at a time, at most."""
FIXED = -1
Key = tuple[int, int]
"""A constraint and the round it is from, or FIXED."""


@register_dataclass
@dataclass(frozen=True)
class Scaling:
    """Centre and radius of a domain as coordinates: a pytree, so that compiled functions can take
    it as an argument."""

    domain: Domain
    centre: jax.Array
    radius: jax.Array
    loss_unit: Any
    units: Any
    """(constraint,) The constraints' units, or one for all."""

    @classmethod
    def of(cls, domain: Domain) -> Scaling:
        """The coordinates around the domain's centre, with units of 1."""
        centre: Any = centre_of(domain).astype(float).ravel()
        radius: Any = np.asarray(domain.radius, float)
        return cls(domain, centre, radius, np.ones(()), np.ones(1))

    @classmethod
    def measured(
        cls,
        problem: Problem,
        constraints: Constraints,
        stream: Stream,
        ends: tuple[int, ...],
        rng: np.random.Generator,
    ) -> Scaling:
        """The coordinates of the problem's domain, with the units of its loss and of
        `constraints`."""
        plain = cls.of(problem.domain)
        points = sample_points(plain, rng, POINTS if plain.size <= FEW else 3)
        data = sample_data(stream, ends, rng)
        return replace(
            plain,
            loss_unit=np.asarray(ScaledLoss(problem, plain).unit(points, data)),
            units=ScaledConstraints(problem, constraints, plain).measure(points, data),
        )

    @property
    def size(self) -> int:
        """The number of entries of a decision."""
        return math.prod(self.domain.shape)

    def unit_of(self, constraint: int) -> float:
        """The unit of one constraint."""
        return float(self.units[constraint if len(self.units) > 1 else 0])

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
        self._radius, self._unit = float(scaling.radius), float(scaling.loss_unit)

    def lines(self, points: Array, data: Any) -> tuple[Array, Array]:
        """Return values (point, round) and gradients (point, round, entry)."""
        given = jax.tree.map(lambda a: np.asarray(a)[None], data)
        values, slopes = self._evaluation.slopes(self.scaling.decisions(points), given)
        return values / self._unit, self._radius / self._unit * slopes

    def unit(self, points: Array, data: Any) -> float:
        """Return the usual length of a round's gradient; if all are zero, the usual size of a
        loss."""
        values, slopes = self.lines(points, data)
        for sizes in (np.linalg.norm(slopes, axis=-1), np.abs(values)):
            usable = sizes[np.isfinite(sizes) & (sizes > 0)]
            if usable.size:
                return float(_powers_of_2(np.median(usable)))
        return 1.0

    def sums(
        self,
        u: Array,
        data: Any,
        rounds: int,
        repeats: int = 1,
        second: bool = False,
        probe: Array | None = None,
        second_order: float | None = None,
    ) -> Sums:
        """Return sums over rounds at the point of each seed; see `Evaluation.sums`.

        Arguments:
            u: (seed, entry).
            data: with leading axes (seed, round).
            rounds: how many rounds count; the others are padding.
            repeats: how many such sums are computed, as far as it is known.
            second: whether Hessians are summed.
            probe: a direction in which the losses are compared with their polynomials of second
                order.
            second_order: what the second derivative contributes to these, if it is known.
        """
        value, slope, hessian, misfit = self._evaluation.repeated(repeats).sums(
            self.scaling.decisions(u),
            data,
            rounds,
            second,
            None if probe is None else self._radius * probe,
            None if second_order is None else self._unit * second_order,
        )
        first, second_ = self._radius / self._unit, self._radius**2 / self._unit
        return Sums(value / self._unit, first * slope, second_ * hessian, misfit)


class ScaledConstraints:
    """Constraints made of a problem's functions."""

    def __init__(self, problem: Problem, constraints: Constraints, scaling: Scaling) -> None:
        self.scaling, self.takes_data = scaling, constraints.takes_data
        self._evaluation = constraint_evaluation(problem, constraints)
        self._radius, self._units = float(scaling.radius), np.asarray(scaling.units)

    def count(self) -> int:
        """Return the number of constraints, which do not change."""
        return self._evaluation.count(self.scaling.decisions(np.zeros((1, self.scaling.size))))

    def values(self, u: Array) -> Array:
        """Return the values of constraints that do not change."""
        return self._evaluation.values(self.scaling.decisions(u[None]))[0, 0] / self._units

    def lines(self, u: Array, z: Any) -> tuple[Array, Array]:
        """Return values (point, constraint) and gradients (point, constraint, entry) with the data
        `z` of one round, or None."""
        data = jax.tree.map(lambda a: a[None, None], z)
        values, slopes = self._evaluation.slopes(self.scaling.decisions(u), data)
        return values[:, 0] / self._units, self._radius * slopes[:, 0] / self._units[:, None]

    def measure(self, points: Array, data: Any) -> Array:
        """Return each constraint's unit: the length of its gradient near its boundary.

        That is the gradient at the sampled point whose value is nearest to 0, among those whose
        gradient is not 0. Of several rounds the longest one counts. Constraints without such a
        point have their largest value as unit.
        """
        lengths, largest = np.zeros(1), np.zeros(1)
        for i in range(ROUNDS if self.takes_data else 1):
            z = jax.tree.map(lambda a, i=i: a[i], data) if self.takes_data else None
            values, slopes = self.lines(points, z)
            steep = np.linalg.norm(slopes, axis=2)
            usable = np.isfinite(values) & np.isfinite(steep)
            sizes = np.where(usable, np.abs(values), 0)
            nearest = np.argmin(np.where(usable & (steep > 0), sizes, np.inf), axis=0)[None]
            near = np.take_along_axis(np.where(usable, steep, 0), nearest, axis=0)[0]
            lengths = np.maximum(lengths, near)
            largest = np.maximum(largest, sizes.max(axis=0))
        return _powers_of_2(np.where(lengths > 0, lengths, largest))

    def expansions(self, u: Array, which: Array, data: Any = None) -> tuple[Array, ...]:
        """Return values, gradients and Hessians at `u` of the constraints `which`, each with its
        own row of the data."""
        x, parts = np.repeat(self.scaling.decisions(u[None]), BATCH, axis=0), []
        given = jax.tree.map(lambda a: np.asarray(a)[:, None], (data, which))
        for start in range(0, len(which), BATCH):  # of one size, because each size is compiled
            some = np.minimum(np.arange(start, start + BATCH), len(which) - 1)
            own = jax.tree.map(lambda a, some=some: a[some], given)
            parts.append(self._evaluation.of_one_entry().sums(x, own, 1, second=True)[:3])
        value, slope, hessian = (
            np.concatenate(part)[: len(which)] for part in zip(*parts, strict=True)
        )
        units = self._units if len(self._units) == 1 else self._units[which]
        first, second = self._radius / units, self._radius**2 / units
        return value / units, first[:, None] * slope, second[:, None, None] * hessian

    def tangents(self, keys: Sequence[Key], u: Array, stream: Stream, seed: int) -> list[Tangent]:
        """Return the tangent at `u` of each keyed constraint, whose data are those of one seed."""
        if not keys:
            return []
        (which, numbers), data = np.asarray(keys).T, None
        if self.takes_data:
            rows = rounds_at(stream, np.full(len(keys), seed), numbers)
            data = jax.tree.map(as_double, rows)
        for at in (u, (1 - NUDGE) * u + NUDGE * np.random.default_rng(0).normal(size=u.shape)):
            values, slopes, hessians = self.expansions(at, which, data)
            if np.isfinite(values).all() and np.isfinite(slopes).all():
                break
        else:
            raise ValueError(
                "constraints: got a value or gradient that is not finite inside the domain; "
                "expected finite numbers"
            )
        tangents = []
        for key, value, slope, hessian in zip(keys, values, slopes, hessians, strict=True):
            curved = np.isfinite(hessian).all() and hessian.any()
            offset = float(slope @ at - value)
            tangents.append(Tangent(key, offset, slope, hessian if curved else None))
        return tangents

    def worst(self, u: Array, block: Block) -> tuple[Array, Array]:
        """Return for each constraint the largest value at `u` over a block's rounds, and in which
        round it is."""
        x, rounds = self.scaling.decisions(u[None]), len(jax.tree.leaves(block.data)[0][0])
        width = rounds
        while width > 1 and width * self._evaluation.count(x, block.data) > NUMBERS:
            width //= 2  # the length of a block is a power of 2, and so are its parts
        evaluation = self._evaluation.repeated(block.repeats * rounds // width)
        highest, where = [], []
        for start in range(0, rounds, width):
            part = jax.tree.map(lambda a, start=start: a[:, start : start + width], block.data)
            values = evaluation.values(x, part)[0] / self._units
            highest.append(np.max(values, axis=0))
            where.append(start + np.argmax(values, axis=0))
        best = np.argmax(highest, axis=0)[None]
        largest, at = (np.take_along_axis(np.stack(a), best, axis=0)[0] for a in (highest, where))
        return largest, np.minimum(block.start + at, block.stop - 1)  # padding repeats the last one


class Tangent(NamedTuple):
    """g(y) >= slope @ y - offset, touching at some point; `hessian` is the Hessian there, None if
    it is zero or not finite."""

    key: Key
    offset: float
    slope: Array
    hessian: Array | None


def sample_points(scaling: Scaling, rng: np.random.Generator, count: int) -> Array:
    """Sampled decisions of the domain as vectors u, the centre first."""
    flat = sample_decisions(scaling.domain, rng, count).reshape(count, -1)
    return (flat - np.asarray(scaling.centre)) / float(scaling.radius)


def sample_data(stream: Stream, ends: tuple[int, ...], rng: np.random.Generator) -> Any:
    """Data of sampled rounds in 64 bits; values that are not finite are found, with their round, by
    the pass over all."""
    sampled = sample_rounds(stream, rng, ROUNDS, horizon=ends[-1])
    return jax.tree.map(as_double, sampled)


def as_double(a: Any) -> Any:
    """The array in 64 bits if it holds real numbers; whole numbers stay what they are."""
    array = np.asarray(a)
    return (
        array.astype(np.float64, copy=False) if np.issubdtype(array.dtype, np.floating) else array
    )


def _powers_of_2(sizes: Any) -> Array:
    """The powers of 2 next to positive sizes, by which numbers are divided without rounding; 1 for
    a size of 0."""
    return np.exp2(np.round(np.log2(np.where(sizes > 0, sizes, 1.0))))
