"""One convex quadratic program, solved many times: minimise 1/2 u'Pu + q'u over domain, rows, quadratics and cuts.

The domain's cones are read off CVXPY once; after that Clarabel is called directly. A solver whose rows have not changed
is given the new objective only, which spares it the set-up.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from .scaling import Array, Frame
from .shapes import Quadratic, domain_cones, opposite_rows, second_order_cone

__all__ = ["Answer", "Infeasible", "Level", "Program", "Unbounded"]

ACCURACY = 1e-12
ATTEMPTS: tuple[dict[str, float], ...] = (
    # Clarabel's own regularisation stops it short of 1e-8 on weakly active rows; the others are second opinions.
    {"static_regularization_constant": 1e-12},
    {"static_regularization_constant": 1e-12, "max_step_fraction": 0.9},
    {},
)
DIVERGED = 1e15
"""Multipliers of a scaled program beyond this do not exist: no point satisfies the constraints with slack."""
QUICK = 1e-8
"""An error of the optimality conditions that will do for a first try."""
SLACK = 10.0
"""The offset that switches a row off: rows have unit length, and points of the frame at most length 1."""


class Infeasible(Exception):
    """The solver found that no point satisfies all rows, quadratics and cuts."""


class Unbounded(Exception):
    """The solver found a direction along which the objective falls for ever."""


@dataclass(frozen=True)
class Answer:
    """A minimiser u with its multipliers, and what they prove: slope @ y <= offset for every feasible y.

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


class Program:
    """The feasible set, fixed up to its cuts.

    Arguments:
        frame: the frame, whose domain is part of every program.
        rows: (row, size), of unit length: rows @ u <= offsets.
        offsets: (row,).
        quadratics: further constraints.
    """

    def __init__(self, frame: Frame, rows: Array, offsets: Array, quadratics: list[Quadratic]) -> None:
        self.size = frame.size
        self.rows, self.offsets, self.quadratics = rows, offsets, quadratics
        self.cuts, self.cut_offsets = np.zeros((0, frame.size)), np.zeros(0)
        self.domain = domain_cones(frame)
        self.pairs = opposite_rows(rows, offsets)
        self._lines: _Lines | None = None
        self._solvers: dict[int, _Solver] = {}

    def copy(self) -> Program:
        """The same program, to be given other cuts."""
        twin = copy(self)
        twin._lines, twin._solvers = None, {}
        return twin

    def set_cuts(self, cuts: Array, offsets: Array) -> None:
        """Replace the cuts: cuts @ u <= offsets, of unit length."""
        if not np.array_equal(cuts, self.cuts) or not np.array_equal(offsets, self.cut_offsets):
            self.cuts, self.cut_offsets, self._lines, self._solvers = cuts, offsets, None, {}

    def minimise(self, curvature: Array, slope: Array, active: Array | None = None, thorough: bool = True) -> Answer:
        """The minimiser of 1/2 u'Pu + q'u; `active` marks the cuts that count, `thorough` takes second opinions."""
        size = max(float(np.abs(curvature).max(initial=0)), float(np.abs(slope).max(initial=0))) or 1.0
        self._lines = lines = self._lines or _Lines(self, self.pairs, None)
        b = lines.offsets(self.cut_offsets if active is None else np.where(active, self.cut_offsets, SLACK))
        best: Any = None
        statuses: list[str] = []
        for attempt, options in enumerate(ATTEMPTS):
            solver = self._solvers.get(attempt)
            if solver is None or not solver.fits(curvature):
                solver = self._solvers[attempt] = _Solver(lines, curvature, options)
            solution = solver.solve(curvature / size, slope / size, b)
            statuses.append(str(solution.status))
            if not statuses[-1].endswith("Infeasible") and (best is None or _error(solution) < _error(best)):
                best = solution
            if statuses[-1] == "Solved" or (not thorough and best is not None and _error(best) < QUICK):
                break
        if best is None or not np.isfinite(_error(best)):
            raise Unbounded if all(status.endswith("DualInfeasible") for status in statuses) else Infeasible
        return lines.answer(np.asarray(best.x), size * np.asarray(best.z), active)

    def least_violation(self, level: Level, active: Array | None = None) -> Answer:
        """The least t for which all constraints hold once relaxed by t * level."""
        lines = _Lines(self, np.zeros((0, 2), int), level)
        b = lines.offsets(self.cut_offsets if active is None else np.where(active, self.cut_offsets, SLACK))
        slope = np.append(np.zeros(lines.width - 1), 1.0)
        solution = _Solver(lines, np.zeros((0, 0)), ATTEMPTS[0]).solve(np.zeros((0, 0)), slope, b)
        return lines.answer(np.asarray(solution.x), np.asarray(solution.z), active)


class Level(NamedTuple):
    """How much one unit of the level relaxes each constraint."""

    rows: Array
    quadratics: Array
    cuts: Array


class _Lines:
    """All constraints as A v + s = b, s in a product of cones; v is u, the domain's own variables, perhaps a level.

    The order is: domain's equations, pairs, domain's inequalities, rows, cuts, domain's other cones, quadratics.
    """

    def __init__(self, program: Program, pairs: Array, level: Level | None) -> None:
        import clarabel
        from scipy import sparse

        domain, self.size, self.pairs = program.domain, program.size, pairs
        inner = domain.equal.shape[1]
        self.width = inner + (level is not None)
        self.single = np.setdiff1d(np.arange(len(program.rows)), pairs.ravel())
        self.rows, self.row_offsets, self.cuts = program.rows, program.offsets, program.cuts
        self.cones_of = [second_order_cone(one, level is not None) for one in program.quadratics]
        self.level = level

        def wide(block: Any, column: Array | None = None) -> Any:
            block = sparse.csc_matrix(block)
            block.resize(block.shape[0], inner)
            if level is None:
                return block
            last = np.zeros(block.shape[0]) if column is None else column
            return sparse.hstack([block, sparse.csc_matrix(last[:, None])], format="csc")

        if level is None:
            bends = [wide(cone.rows) for cone in self.cones_of]
            above = [wide(self.rows[self.single]), wide(self.cuts)]
        else:
            bends = [wide(c.rows, -2 * w * c.linear) for c, w in zip(self.cones_of, level.quadratics, strict=True)]
            above = [wide(self.rows[self.single], -level.rows[self.single]), wide(self.cuts, -level.cuts)]
        equal = [wide(domain.equal), wide(self.rows[pairs[:, 0]])]
        below = [wide(domain.below), *above]
        self.matrix = sparse.vstack([*equal, *below, wide(domain.rest), *bends], format="csc")
        self._before = np.concatenate([
            domain.equal_offsets, program.offsets[pairs[:, 0]], domain.below_offsets, program.offsets[self.single],
        ])  # fmt: skip
        self._after = np.concatenate([domain.rest_offsets, *(cone.offsets for cone in self.cones_of)])
        zero, positive = (sum(part.shape[0] for part in parts) for parts in (equal, below))
        self.cones = [
            *([clarabel.ZeroConeT(zero)] if zero else []), *([clarabel.NonnegativeConeT(positive)] if positive else []),
            *domain.cones, *(clarabel.SecondOrderConeT(len(cone.offsets)) for cone in self.cones_of),
        ]  # fmt: skip
        self._pairs_at, self._rows_at = equal[0].shape[0], zero + below[0].shape[0]
        self._cuts_at = self._rows_at + len(self.single)

    def offsets(self, cut_offsets: Array) -> Array:
        """b, with the cuts' offsets in their place."""
        self.cut_offsets = cut_offsets
        return np.concatenate([self._before, cut_offsets, self._after])

    def answer(self, v: Array, z: Array, active: Array | None) -> Answer:
        """What a solver's vectors mean. Multipliers are made exactly dual feasible, so that they prove something."""
        rows = np.zeros(len(self.rows))
        balance = z[self._pairs_at : self._pairs_at + len(self.pairs)]
        rows[self.pairs[:, 0]], rows[self.pairs[:, 1]] = np.maximum(balance, 0), np.maximum(-balance, 0)
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
            weight = float(rows @ self.level.rows + cuts @ self.level.cuts + quadratics @ self.level.quadratics)
        return Answer(v[: self.size], rows, quadratics, cuts, slope, offset, row_slope, row_offset, weight)


class _Solver:
    """A Clarabel solver that keeps its set-up while only the numbers of objective and offsets change."""

    def __init__(self, lines: _Lines, curvature: Array, options: dict[str, float]) -> None:
        import clarabel

        settings = clarabel.DefaultSettings()
        settings.verbose = settings.presolve_enable = settings.input_sparse_dropzeros = False
        settings.chordal_decomposition_enable = False
        settings.tol_feas = settings.tol_gap_abs = settings.tol_gap_rel = ACCURACY
        for name, value in options.items():
            setattr(settings, name, value)
        self.lines, self.settings = lines, settings
        self.zero = curvature == 0
        self.where = np.nonzero(np.triu(~self.zero).T)[::-1]  # ordered by column, then row
        self.solver: Any = None

    def fits(self, curvature: Array) -> bool:
        """Whether the objective has no entry where the one before had none."""
        return not np.any(curvature[self.zero])

    def solve(self, curvature: Array, slope: Array, offsets: Array) -> Any:
        """The solution as Clarabel returns it."""
        import clarabel
        from scipy import sparse

        q = np.concatenate([slope, np.zeros(self.lines.width - len(slope))])
        entries = curvature[self.where]
        if self.solver is None:
            shape = (self.lines.width, self.lines.width)
            P = sparse.coo_matrix((entries, self.where), shape=shape).tocsc()
            self.solver = clarabel.DefaultSolver(P, q, self.lines.matrix, offsets, self.lines.cones, self.settings)
        else:
            self.solver.update(P=entries, q=q, b=offsets)
        return self.solver.solve()


def _error(solution: Any) -> float:
    """How far a solution is from the optimality conditions, infinite if it is not a number."""
    gap = abs(solution.obj_val - solution.obj_val_dual)
    error = max(solution.r_prim, solution.r_dual, gap)
    return float(error) if np.isfinite(error) and np.abs(solution.z).max(initial=0) < DIVERGED else np.inf
