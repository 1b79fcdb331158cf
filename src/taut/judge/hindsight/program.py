"""One convex quadratic program, solved many times: minimise 1/2 u'Pu + q'u over domain, rows,
quadratics and cuts.

The domain is stated once (`domain_rows`); after that only numbers change. `problem/conic.py`
solves. What is specific to hindsight is here: quadratic constraints as second-order cones, pairs of
rows that are equations, cuts that are switched on and off, and multipliers in the units of the
constraints.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ...engine import Array
from ...extras import optional
from ...problem.conic import (
    ConicSet,
    Entries,
    Solution,
    Solver,
    linear_cones,
    second_order_cone,
    upper_triangle,
)
from ...problem.domains import Ball, Box, Domain, L1Ball, Product, Simplex
from .scaling import Scaling
from .tolerances import CENTRED, OPPOSITE, QUICK, RANK, SWITCHED_OFF

__all__ = [
    "DomainRows",
    "Infeasible",
    "Level",
    "Program",
    "ProvenMinimiser",
    "Quadratic",
    "Unbounded",
    "domain_rows",
]


class Infeasible(Exception):
    """The solver found that no point satisfies all rows, quadratics and cuts."""


class Unbounded(Exception):
    """The solver found a direction along which the objective decreases without end."""


@dataclass(frozen=True)
class ProvenMinimiser:
    """A minimiser u with its multipliers, and what they prove: slope @ y <= offset for every
    feasible y.

    For `least_violation` the proof reads slope @ y <= offset + weight * (largest violation at y).
    """

    u: Array
    rows: Array
    quadratics: Array
    cuts: Array
    slope: Array
    offset: float
    row_slope: Array
    """What the rows alone contribute to `slope`,"""
    row_offset: float
    """and to `offset`."""
    weight: float = 0.0


class Level(NamedTuple):
    """How much one unit of the level relaxes each constraint."""

    rows: Array
    quadratics: Array
    cuts: Array
    which: Array | None = None
    """Which level relaxes each cut, if there are several; the last one relaxes everything else."""

    @property
    def levels(self) -> int:
        """The number of levels."""
        return 1 if self.which is None else int(self.which.max(initial=0)) + 1


class Quadratic(NamedTuple):
    """1/2 u'Qu + a'u + c <= 0 with Q positive semidefinite."""

    hessian: Array
    linear: Array
    constant: float


class Program:
    """The feasible set, fixed up to its cuts.

    Arguments:
        scaling: the scaling, whose domain is part of every program.
        rows: (row, size), of unit length: rows @ u <= offsets.
        offsets: (row,).
        quadratics: further constraints.
    """

    def __init__(
        self, scaling: Scaling, rows: Array, offsets: Array, quadratics: list[Quadratic]
    ) -> None:
        self.size = scaling.size
        self.rows, self.offsets, self.quadratics = rows, offsets, quadratics
        self.cuts, self.cut_offsets = np.zeros((0, scaling.size)), np.zeros(0)
        self.domain = domain_rows(scaling)
        self.pairs = _opposite_rows(rows, offsets)
        self._lines: _Lines | None = None

    def copy(self) -> Program:
        """The same program, to be given other cuts."""
        twin = copy(self)
        twin._lines = None
        return twin

    def set_cuts(self, cuts: Array, offsets: Array) -> None:
        """Replace the cuts: cuts @ u <= offsets, of unit length."""
        if not np.array_equal(cuts, self.cuts) or not np.array_equal(offsets, self.cut_offsets):
            self.cuts, self.cut_offsets, self._lines = cuts, offsets, None

    def minimise(
        self, curvature: Array, slope: Array, active: Array | None = None, thorough: bool = True
    ) -> ProvenMinimiser:
        """The minimiser of 1/2 u'Pu + q'u.

        `active` marks the cuts that count. `thorough` asks for further attempts unless the solver
        calls its first solution solved; otherwise an error below QUICK is enough.
        """
        self._lines = lines = self._lines or _Lines(self, self.pairs, None)
        best: Solution | None = None
        statuses: list[str] = []
        for solution in lines.solutions(curvature, slope, self._offsets_of(active)):
            statuses.append(solution.status)
            if solution.status == "solved" and (best is None or solution.error < best.error):
                best = solution
            if solution.detail == "Solved" or (
                not thorough and best is not None and best.error < QUICK
            ):
                break
        if best is None:
            raise Unbounded if all(status == "unbounded" for status in statuses) else Infeasible
        return lines.proven(best, active)

    def least_violation(self, level: Level, active: Array | None = None) -> ProvenMinimiser:
        """The least t for which all constraints hold once relaxed by t * level; the least sum, if
        there are several levels."""
        lines = _Lines(self, np.zeros((0, 2), int), level)
        slope = np.append(np.zeros(lines.width - level.levels), np.ones(level.levels))
        best: Solution | None = None
        for solution in lines.solutions(None, slope, self._offsets_of(active)):
            best = solution if best is None or solution.error < best.error else best
            if best.error < QUICK:
                break
        assert best is not None  # there is at least one attempt
        return lines.proven(best, active)

    def _offsets_of(self, active: Array | None) -> Array:
        return (
            self.cut_offsets if active is None else np.where(active, self.cut_offsets, SWITCHED_OFF)
        )


class _Lines:
    """All constraints as A v + s = b, s in a product of cones; v is u, the domain's own variables,
    perhaps levels.

    The order is: domain's equations, pairs, domain's inequalities, rows, cuts, domain's other
    cones, quadratics.
    """

    def __init__(self, program: Program, pairs: Array, level: Level | None) -> None:
        domain, self.size, self.pairs = program.domain, program.size, pairs
        inner = domain.equal.shape[1]
        self.width = inner + (0 if level is None else level.levels)
        self.single = np.setdiff1d(np.arange(len(program.rows)), pairs.ravel())
        self.rows, self.row_offsets, self.cuts = program.rows, program.offsets, program.cuts
        self.cones_of = [_cone_rows(one, level is not None) for one in program.quadratics]
        self.level = level

        def wide(block: Any, column: Array | None = None) -> Entries:
            return Entries.of(block).widened(self.width, column)

        if level is None:
            curved = [wide(cone.rows) for cone in self.cones_of]
            above = [wide(self.rows[self.single]), wide(self.cuts)]
        else:
            curved = [
                wide(c.rows, -2 * w * c.linear)
                for c, w in zip(self.cones_of, level.quadratics, strict=True)
            ]
            cuts = (
                wide(self.cuts, -level.cuts)
                if level.which is None
                else _with_levels(self.cuts, level, self.width)
            )
            above = [wide(self.rows[self.single], -level.rows[self.single]), cuts]
        equal = [wide(domain.equal), wide(self.rows[pairs[:, 0]])]
        below = [wide(domain.below), *above]
        self.matrix = Entries.stacked([*equal, *below, wide(domain.rest), *curved]).compressed()
        self._before = np.concatenate(
            [
                domain.equal_offsets,
                program.offsets[pairs[:, 0]],
                domain.below_offsets,
                program.offsets[self.single],
            ]
        )
        self._after = np.concatenate(
            [domain.rest_offsets, *(cone.offsets for cone in self.cones_of)]
        )
        zero, positive = (sum(part.shape[0] for part in parts) for parts in (equal, below))
        own = [second_order_cone(len(cone.offsets)) for cone in self.cones_of]
        self._solver = Solver(self.matrix, [*linear_cones(zero, positive), *domain.cones, *own])
        self._pairs_at, self._rows_at = equal[0].shape[0], zero + below[0].shape[0]
        self._cuts_at = self._rows_at + len(self.single)

    def solutions(
        self, curvature: Array | None, slope: Array, cut_offsets: Array
    ) -> Iterator[Solution]:
        """The solver's attempts, given the offsets of the cuts."""
        self.cut_offsets = cut_offsets
        offsets = np.concatenate([self._before, cut_offsets, self._after])
        q = np.concatenate([slope, np.zeros(self.width - len(slope))])
        return self._solver.solutions(upper_triangle(curvature, np.arange(self.size)), q, offsets)

    def proven(self, solution: Solution, active: Array | None) -> ProvenMinimiser:
        """The meaning of a solver's vectors. Multipliers are made exactly dual feasible, so that
        they prove something."""
        v, z = solution.v, solution.z
        rows = np.zeros(len(self.rows))
        balance = z[self._pairs_at : self._pairs_at + len(self.pairs)]
        rows[self.pairs[:, 0]], rows[self.pairs[:, 1]] = (
            np.maximum(balance, 0),
            np.maximum(-balance, 0),
        )
        rows[self.single] = np.maximum(z[self._rows_at : self._cuts_at], 0)
        cuts = np.maximum(z[self._cuts_at : self._cuts_at + len(self.cuts)], 0)
        if active is not None:
            cuts = np.where(active, cuts, 0)
        row_slope, row_offset = rows @ self.rows, float(rows @ self.row_offsets)
        slope, offset = row_slope + cuts @ self.cuts, row_offset + float(cuts @ self.cut_offsets)
        quadratics = np.zeros(len(self.cones_of))
        start = len(z) - sum(len(cone.offsets) for cone in self.cones_of)
        for i, cone in enumerate(self.cones_of):
            part = z[start : start + len(cone.offsets)].copy()
            start += len(cone.offsets)
            part[0] = max(part[0], float(np.linalg.norm(part[1:])))
            slope, offset = slope + part @ cone.rows, offset + float(part @ cone.offsets)
            quadratics[i] = max(float(part @ cone.multiplier), 0)
        weight = 0.0
        if self.level is not None:
            weight = float(
                rows @ self.level.rows + cuts @ self.level.cuts + quadratics @ self.level.quadratics
            )
        return ProvenMinimiser(
            v[: self.size], rows, quadratics, cuts, slope, offset, row_slope, row_offset, weight
        )


def _with_levels(cuts: Array, level: Level, width: int) -> Entries:
    """The cuts, each relaxed by a level of its own choice."""
    assert level.which is not None
    wide, relaxed = Entries.of(cuts).widened(width), np.flatnonzero(level.cuts)
    return Entries(
        np.concatenate([wide.rows, relaxed]),
        np.concatenate([wide.columns, width - level.levels + level.which[relaxed]]),
        np.concatenate([wide.values, -level.cuts[relaxed]]),
        wide.shape,
    )


class _ConeRows(NamedTuple):
    """A quadratic constraint as offsets - rows @ u in the second-order cone."""

    rows: Array
    offsets: Array
    multiplier: Array
    """Its product with the cone's dual variable is the multiplier of the constraint."""
    linear: Array
    """Which rows the constraint's linear part is in (twice)."""


def _cone_rows(one: Quadratic, relaxed: bool) -> _ConeRows:
    """|F (u - v)| <= r with Q = F'F if the constraint has a centre v; else |(t - 1, 2 F u)| <= t +
    1, t = -2 (a'u + c).

    The first is better conditioned; only the second can be relaxed by a level.
    """
    values, vectors = np.linalg.eigh(one.hessian)
    kept = values > values.max(initial=0) * RANK
    factor = (vectors[:, kept] * np.sqrt(values[kept])).T
    centre = -vectors[:, kept] @ ((vectors[:, kept].T @ one.linear) / values[kept])
    square = float(-one.linear @ centre - 2 * one.constant)
    if (
        not relaxed
        and square > 0
        and np.allclose(one.hessian @ centre, -one.linear, rtol=0, atol=CENTRED)
    ):
        radius = np.sqrt(square)
        rows = np.concatenate([np.zeros((1, len(one.linear))), -factor])
        offsets = np.concatenate([[radius], -factor @ centre])
        return _ConeRows(
            rows, offsets, np.append(1 / radius, np.zeros(len(factor))), np.zeros(len(offsets))
        )
    rows = np.concatenate([2 * one.linear[None], 2 * one.linear[None], -2 * factor])
    offsets = np.concatenate([[1 - 2 * one.constant, -1 - 2 * one.constant], np.zeros(len(factor))])
    first = np.concatenate([[1.0, 1.0], np.zeros(len(factor))])
    return _ConeRows(rows, offsets, 2 * first, first)


def _opposite_rows(rows: Array, offsets: Array) -> Array:
    """Pairs (i, j) of rows that together say a'u = b. An interior-point method must be given these
    as equations."""
    pairs, taken = [], np.zeros(len(rows), bool)
    whole = np.column_stack([rows, offsets])
    along = whole @ np.cos(
        np.arange(1.0, whole.shape[1] + 1)
    )  # one number per row: opposite rows have opposite ones
    order = np.argsort(along)
    for i in range(len(rows)):
        if taken[i]:
            continue
        start = np.searchsorted(along, -along[i] - 1e-9, sorter=order)
        stop = np.searchsorted(along, -along[i] + 1e-9, sorter=order)
        for j in order[start:stop]:
            if j > i and not taken[j] and np.abs(whole[i] + whole[j]).max() <= OPPOSITE:
                pairs.append((i, j))
                taken[[i, j]] = True
                break
    return np.asarray(pairs, int).reshape(-1, 2)


class DomainRows(NamedTuple):
    """A domain as matrix @ v + s = offsets: s is zero for `equal`, not negative for `below`, in
    `cones` for the rest.

    v is u, followed by variables of the domain's own.
    """

    equal: Entries
    equal_offsets: Array
    below: Entries
    below_offsets: Array
    rest: Entries
    rest_offsets: Array
    cones: list[Any]


class _Part(NamedTuple):
    """Rows over the entries of one part of a domain: of u first, then of further variables of its
    own."""

    equal: Array
    equal_offsets: Array
    below: Array
    below_offsets: Array
    cone: Array
    """At most one second-order cone."""
    cone_offsets: Array


def domain_rows(scaling: Scaling) -> DomainRows:
    """The domain's constraints on u and on further variables of its own."""
    parts = list(_library_parts(scaling.domain))
    if None in parts:
        return _stated_by_cvxpy(scaling)
    centre, radius = np.asarray(scaling.centre, float).ravel(), float(scaling.radius)
    made, start = [], 0
    for part in parts:
        assert part is not None
        size = math.prod(part.shape)
        made.append((start, size, _rows(part, centre[start : start + size], radius)))
        start += size
    return _joined(made, scaling.size)


def _library_parts(domain: Domain) -> list[Domain | None]:
    """The domain's factors; None for one that is not of this library."""
    if type(domain) is Product:
        return [part for factor in domain.parts for part in _library_parts(factor)]
    return [domain if type(domain) in (Ball, Box, L1Ball, Simplex) else None]


def _rows(domain: Domain, centre: Array, radius: float) -> _Part:
    """The rows of x = centre + radius * u in the domain, divided by `radius`."""
    size = len(centre)
    unit, none, zero = np.eye(size), np.zeros((0, size)), np.zeros(0)

    def flat(value: Any) -> Array:
        return np.broadcast_to(np.asarray(value, float), domain.shape).ravel()

    if isinstance(domain, Box):
        lower, upper = (
            (flat(domain.lower) - centre) / radius,
            (flat(domain.upper) - centre) / radius,
        )
        fixed = lower == upper
        free = unit[~fixed]
        below, offsets = (
            np.concatenate([-free, free]),
            np.concatenate([-lower[~fixed], upper[~fixed]]),
        )
        return _Part(unit[fixed], lower[fixed], below, offsets, none, zero)
    if isinstance(domain, Simplex):
        total = np.array([(float(domain.total) - centre.sum()) / radius])
        return _Part(np.ones((1, size)), total, -unit, centre / radius, none, zero)
    assert isinstance(domain, (Ball, L1Ball))
    reach, shift = float(domain.radius) / radius, (centre - flat(domain.middle)) / radius
    if isinstance(domain, Ball):  # |u + shift| <= reach
        cone = np.concatenate([np.zeros((1, size)), -unit])
        return _Part(none, zero, none, zero, cone, np.append(reach, shift))
    # -t <= u + shift <= t and sum t <= reach
    below = np.block([[unit, -unit], [-unit, -unit], [np.zeros((1, size)), np.ones((1, size))]])
    wide = np.zeros((0, 2 * size))
    return _Part(wide, zero, below, np.concatenate([-shift, shift, [reach]]), wide, zero)


def _joined(parts: list[tuple[int, int, _Part]], size: int) -> DomainRows:
    """The rows of all parts over (u, further variables of the first part, of the second, ...)."""
    width = size + sum(part.below.shape[1] - own for _, own, part in parts)
    blocks: dict[str, list[Entries]] = {"equal": [], "below": [], "cone": []}
    extra = size
    for start, own, part in parts:
        further = part.below.shape[1] - own
        columns = np.concatenate([np.arange(start, start + own), np.arange(extra, extra + further)])
        extra += further
        for name, made in blocks.items():
            block = Entries.of(getattr(part, name))
            made.append(
                Entries(block.rows, columns[block.columns], block.values, (block.shape[0], width))
            )

    def joined(name: str) -> tuple[Entries, Array]:
        offsets = np.concatenate([getattr(part, f"{name}_offsets") for *_, part in parts])
        return Entries.stacked(blocks[name]), offsets

    cones = [
        second_order_cone(len(part.cone_offsets)) for *_, part in parts if len(part.cone_offsets)
    ]
    return DomainRows(*joined("equal"), *joined("below"), *joined("cone"), cones)


def _stated_by_cvxpy(scaling: Scaling) -> DomainRows:
    cp = optional("cvxpy")

    u = cp.Variable(scaling.size)
    x = np.asarray(scaling.centre) + float(scaling.radius) * u
    form = ConicSet.of(
        [u], scaling.domain.to_cvxpy(cp.reshape(x, scaling.domain.shape, order="C"))
    ).form
    others = np.setdiff1d(np.arange(form.matrix.shape[1]), form.columns)
    matrix = form.matrix[:, np.concatenate([form.columns, others])]
    equal, below = form.zero, form.zero + form.positive
    parts = [
        (Entries.of(matrix[rows]), form.offsets[rows])
        for rows in (slice(0, equal), slice(equal, below), slice(below, None))
    ]
    linear = (form.zero > 0) + (form.positive > 0)
    return DomainRows(*parts[0], *parts[1], *parts[2], form.cones[linear:])
