"""One convex quadratic program, solved many times: minimise 1/2 u'Pu + q'u over domain, rows,
quadratics and cuts.

The domain is stated once (`domain_block`); after that only numbers change. `problem/conic.py`
solves. What is specific to hindsight is here: quadratic constraints as second-order cones, pairs of
rows that are equations, cuts that are switched on and off, and multipliers in the units of the
constraints.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ...engine import Array
from ...extras import optional
from ...problem.conic import Columns, ConicSet, Solution, Solver, linear_cones, second_order_cone
from ...problem.domains import Ball, Box, Domain, L1Ball, Product, Simplex
from .scaling import Scaling
from .tolerances import CENTRED, OPPOSITE, QUICK, RANK, SWITCHED_OFF


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
    """How much one unit of the level relaxes each row and cut. Quadratics are not relaxed."""

    rows: Array
    cuts: Array
    which: Any = 0
    """Which level relaxes each cut, if there are several; the last one relaxes the rows."""

    @property
    def levels(self) -> int:
        """The number of levels."""
        return int(np.max(self.which, initial=0)) + 1


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
        self.rows, self.offsets = rows, offsets
        self.cones = [_cone_rows(one) for one in quadratics]
        self.cuts, self.cut_offsets = np.zeros((0, scaling.size)), np.zeros(0)
        self.domain = domain_block(scaling)
        self.pairs = _opposite_rows(rows, offsets)
        self._lines: _Lines | None = None

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
        self._lines = lines = self._lines or _Lines(self, None)
        best: Solution | None = None
        statuses: list[str] = []
        for solution in lines.solutions(curvature, slope, active):
            statuses.append(solution.status)
            if solution.status == "solved" and (best is None or solution.error < best.error):
                best = solution
            good = best is not None and best.error < QUICK
            if solution.detail == "Solved" or (good and not thorough):
                break
        if best is None:
            raise Unbounded if all(status == "unbounded" for status in statuses) else Infeasible
        return lines.proven(best)

    def least_violation(self, level: Level, active: Array | None = None) -> ProvenMinimiser:
        """The least t for which all constraints hold once relaxed by t * level; the least sum, if
        there are several levels."""
        lines = _Lines(self, level)
        slope = np.append(np.zeros(lines.width - level.levels), np.ones(level.levels))
        best: Solution | None = None
        for solution in lines.solutions(None, slope, active):
            best = solution if best is None or solution.error < best.error else best
            if best.error < QUICK:
                break
        assert best is not None  # there is at least one attempt
        return lines.proven(best)


class _Lines:
    """All constraints as A v + s = b, s in a product of cones; v is u, the domain's own variables,
    perhaps levels.

    The order is: domain, pairs, single rows, cuts, quadratics.
    """

    def __init__(self, program: Program, level: Level | None) -> None:
        domain, self.program, self.level = program.domain, program, level
        # Both sides of an equation are relaxed, each for itself.
        relaxed = level is not None and level.rows.any()
        self.pairs = pairs = program.pairs[:0] if relaxed else program.pairs
        inner = domain.matrix.shape[1]
        levels = 0 if level is None else level.levels
        self.width = inner + levels
        self.single = np.setdiff1d(np.arange(len(program.rows)), pairs.ravel())
        self.active = np.ones(len(program.cuts), bool)

        def wide(block: Array) -> Array:
            """The rows over all variables."""
            return np.pad(block, ((0, 0), (0, self.width - block.shape[1])))

        single, cuts = wide(program.rows[self.single]), wide(program.cuts)
        if level is not None:
            single[:, -1] -= level.rows[self.single]
            cuts[np.arange(len(cuts)), inner + level.which] -= level.cuts
        parts = [
            wide(domain.matrix),
            wide(program.rows[pairs[:, 0]]),
            single,
            cuts,
            *(wide(cone.rows) for cone in program.cones),
        ]
        offsets = program.offsets
        self._before = np.concatenate([domain.offsets, offsets[pairs[:, 0]], offsets[self.single]])
        self._after = np.concatenate([np.zeros(0), *(cone.offsets for cone in program.cones)])
        cones = [
            *domain.cones,
            *linear_cones(len(pairs), len(self.single) + len(program.cuts)),
            *(second_order_cone(len(cone.offsets)) for cone in program.cones),
        ]
        self._solver = Solver(Columns.of(np.concatenate(parts)), cones)
        counts = len(domain.offsets), len(pairs), len(self.single), len(program.cuts)
        self._ends = np.cumsum(counts)
        """Where the rows of domain, pairs, single rows and cuts end."""

    def solutions(
        self, curvature: Array | None, slope: Array, active: Array | None
    ) -> Iterator[Solution]:
        """The solver's attempts. Cuts that are not active are switched off."""
        self.active = np.ones(len(self.program.cuts), bool) if active is None else active
        cut_offsets = np.where(self.active, self.program.cut_offsets, SWITCHED_OFF)
        offsets = np.concatenate([self._before, cut_offsets, self._after])
        q = np.concatenate([slope, np.zeros(self.width - len(slope))])
        return self._solver.solutions(curvature, q, offsets)

    def proven(self, solution: Solution) -> ProvenMinimiser:
        """The meaning of a solver's vectors. Multipliers are made exactly dual feasible, so that
        they prove something."""
        program, v, rows = self.program, solution.v, np.zeros(len(self.program.rows))
        _, balance, single, cuts, cones = np.split(solution.z, self._ends)
        rows[self.pairs[:, 0]] = np.maximum(balance, 0)
        rows[self.pairs[:, 1]] = np.maximum(-balance, 0)
        rows[self.single] = np.maximum(single, 0)
        cuts = np.where(self.active, np.maximum(cuts, 0), 0)
        row_slope, row_offset = rows @ program.rows, float(rows @ program.offsets)
        slope = row_slope + cuts @ program.cuts
        offset = row_offset + float(cuts @ program.cut_offsets)
        quadratics = np.zeros(len(program.cones))
        start = 0
        for i, cone in enumerate(program.cones):
            part = cones[start : start + len(cone.offsets)].copy()
            start += len(cone.offsets)
            part[0] = max(part[0], float(np.linalg.norm(part[1:])))
            slope, offset = slope + part @ cone.rows, offset + float(part @ cone.offsets)
            quadratics[i] = max(float(part @ cone.multiplier), 0)
        weight = 0.0
        if self.level is not None:
            weight = float(rows @ self.level.rows + cuts @ self.level.cuts)
        return ProvenMinimiser(
            v[: program.size], rows, quadratics, cuts, slope, offset, row_slope, row_offset, weight
        )


class _ConeRows(NamedTuple):
    """A quadratic constraint as offsets - rows @ u in the second-order cone."""

    rows: Array
    offsets: Array
    multiplier: Array
    """Its product with the cone's dual variable is the multiplier of the constraint."""


def _cone_rows(one: Quadratic) -> _ConeRows:
    """|F (u - v)| <= r with Q = F'F if the constraint has a centre v; else |(t - 1, 2 F u)| <= t +
    1, t = -2 (a'u + c). The first is better conditioned."""
    values, vectors = np.linalg.eigh(one.hessian)
    kept = values > values.max(initial=0) * RANK
    factor = (vectors[:, kept] * np.sqrt(values[kept])).T
    centre = -vectors[:, kept] @ ((vectors[:, kept].T @ one.linear) / values[kept])
    square = float(-one.linear @ centre - 2 * one.constant)
    if square > 0 and np.allclose(one.hessian @ centre, -one.linear, rtol=0, atol=CENTRED):
        radius = np.sqrt(square)
        rows = np.concatenate([np.zeros((1, len(one.linear))), -factor])
        offsets = np.concatenate([[radius], -factor @ centre])
        return _ConeRows(rows, offsets, np.append(1 / radius, np.zeros(len(factor))))
    rows = np.concatenate([2 * one.linear[None], 2 * one.linear[None], -2 * factor])
    offsets = np.concatenate([[1 - 2 * one.constant, -1 - 2 * one.constant], np.zeros(len(factor))])
    return _ConeRows(rows, offsets, np.concatenate([[2.0, 2.0], np.zeros(len(factor))]))


def _opposite_rows(rows: Array, offsets: Array) -> Array:
    """Pairs (i, j) of rows that together say a'u = b. An interior-point method must be given these
    as equations."""
    pairs, taken = [], np.zeros(len(rows), bool)
    whole = np.column_stack([rows, offsets])
    # One number per row: opposite rows have opposite ones.
    along = whole @ np.cos(np.arange(1.0, whole.shape[1] + 1))
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


class _Block(NamedTuple):
    """Rows matrix @ v + s = offsets with s in the cones; v is u, then variables of the domain's
    own."""

    matrix: Array
    offsets: Array
    cones: list[Any]


def domain_block(scaling: Scaling) -> _Block:
    """The domain's constraints on u and on further variables of its own."""
    parts = _library_parts(scaling.domain)
    if parts is None:
        return _stated_by_cvxpy(scaling)
    centre, radius = np.asarray(scaling.centre, float).ravel(), float(scaling.radius)
    sizes = [math.prod(part.shape) for part in parts]
    further = [n if isinstance(part, L1Ball) else 0 for part, n in zip(parts, sizes, strict=True)]
    width, start, extra = scaling.size + sum(further), 0, scaling.size
    matrices, offsets, cones = [], [], []
    for part, size, more in zip(parts, sizes, further, strict=True):
        own = np.concatenate([np.arange(start, start + size), np.arange(extra, extra + more)])
        block = _rows(part, centre[start : start + size], radius)
        matrix = np.zeros((len(block.matrix), width))
        matrix[:, own] = block.matrix
        matrices.append(matrix)
        offsets.append(block.offsets)
        cones += block.cones
        start, extra = start + size, extra + more
    return _Block(np.concatenate(matrices), np.concatenate(offsets), cones)


def _library_parts(domain: Domain) -> list[Domain] | None:
    """The domain's factors; None if one of them is not of this library."""
    if type(domain) is Product:
        factors = [_library_parts(factor) for factor in domain.parts]
        return None if None in factors else [part for parts in factors for part in parts or ()]
    return [domain] if type(domain) in (Ball, Box, L1Ball, Simplex) else None


def _rows(domain: Domain, centre: Array, radius: float) -> _Block:
    """The rows of x = centre + radius * u in the domain, divided by `radius`, over the entries of u
    and for an L1 ball as many further variables."""
    size, shape = len(centre), domain.shape
    unit = np.eye(size)
    if isinstance(domain, Box):
        edges = (np.broadcast_to(edge, shape).ravel() for edge in (domain.lower, domain.upper))
        lower, upper = ((edge.astype(float) - centre) / radius for edge in edges)
        fixed = lower == upper
        free = unit[~fixed]
        matrix = np.concatenate([unit[fixed], -free, free])
        offsets = np.concatenate([lower[fixed], -lower[~fixed], upper[~fixed]])
        return _Block(matrix, offsets, linear_cones(int(fixed.sum()), 2 * len(free)))
    if isinstance(domain, Simplex):
        total = (float(domain.total) - centre.sum()) / radius
        matrix = np.concatenate([np.ones((1, size)), -unit])
        return _Block(matrix, np.append(total, centre / radius), linear_cones(1, size))
    assert isinstance(domain, (Ball, L1Ball))
    middle = np.broadcast_to(np.asarray(domain.middle, float), shape).ravel()
    reach, shift = float(domain.radius) / radius, (centre - middle) / radius
    if isinstance(domain, Ball):  # |u + shift| <= reach
        matrix = np.concatenate([np.zeros((1, size)), -unit])
        return _Block(matrix, np.append(reach, shift), [second_order_cone(size + 1)])
    # -t <= u + shift <= t and sum t <= reach
    matrix = np.block([[unit, -unit], [-unit, -unit], [np.zeros((1, size)), np.ones((1, size))]])
    return _Block(matrix, np.concatenate([-shift, shift, [reach]]), linear_cones(0, 2 * size + 1))


def _stated_by_cvxpy(scaling: Scaling) -> _Block:
    cp = optional("cvxpy")

    u = cp.Variable(scaling.size)
    x = np.asarray(scaling.centre) + float(scaling.radius) * u
    stated = ConicSet([u], scaling.domain.to_cvxpy(cp.reshape(x, scaling.domain.shape, order="C")))
    others = np.setdiff1d(np.arange(stated.matrix.shape[1]), stated.columns)
    matrix = stated.matrix[:, np.concatenate([stated.columns, others])]
    return _Block(matrix.toarray(), stated.offsets, stated.cones)
