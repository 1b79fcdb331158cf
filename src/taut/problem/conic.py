"""Conic programs, solved many times by Clarabel.

This is the only module that calls Clarabel. A program is

    minimise 1/2 v'Pv + q'v   subject to   matrix @ v + s = offsets,  s in a product of cones.

`Solver` keeps Clarabel's set-up while only P, q and the offsets change. `ConicSet` is a set of
values of CVXPY variables, over which linear functions are minimised. CVXPY, Clarabel and SciPy are
imported when they are first needed, because they are slow to import.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..engine import Array
from ..extras import optional


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

    @classmethod
    def of(cls, matrix: Array, width: int | None = None) -> Columns:
        """The entries of an array that are not zero. With `width`, the array is the upper left part
        of a square matrix of so many columns."""
        columns, rows = np.nonzero(matrix.T)
        height, count = matrix.shape if width is None else (width, width)
        ends = np.cumsum(np.bincount(columns, minlength=count))
        return cls(matrix[rows, columns], rows, np.concatenate([[0], ends]), (height, count))

    def same_places(self, other: Columns) -> bool:
        """Whether another matrix has its entries in the same places."""
        return np.array_equal(self.indices, other.indices) and np.array_equal(
            self.indptr, other.indptr
        )


ACCURACY = 1e-12
"""Clarabel's tolerances: as good as 64 bits allow, because results are certified to 1e-8."""
ATTEMPTS: tuple[dict[str, float], ...] = (
    # Clarabel's own regularisation (1e-8) stops it short of 1e-8 on weakly active rows, so less is
    # tried first.
    {"static_regularization_constant": 1e-12},
    # Shorter steps help with semidefinite and exponential cones.
    {"static_regularization_constant": 1e-10, "max_step_fraction": 0.9},
    {"static_regularization_constant": 1e-12, "max_step_fraction": 0.9},
    {},
)
"""Settings that are tried in this order until a solution is good enough."""
GOOD = 1e-9
"""A solution whose optimality conditions fail by less than this needs no second attempt."""
DIVERGED = 1e15
"""Larger dual variables of a scaled program do not exist: no point has slack."""
STATUS = {
    "PrimalInfeasible": "infeasible",
    "AlmostPrimalInfeasible": "infeasible",
    "DualInfeasible": "unbounded",
    "AlmostDualInfeasible": "unbounded",
}


def backend(program: Any) -> str | None:
    """The `canon_backend` that can state the program; None, which is CVXPY's own choice, if that
    can.

    CVXPY's own choice warns before it falls back for expressions of more than two axes and for some
    atoms, such as broadcasting.
    """
    if program._max_ndim() <= 2 and program._supports_cpp():
        return None
    from cvxpy import SCIPY_CANON_BACKEND

    return str(SCIPY_CANON_BACKEND)


def linear_cones(zero: int, positive: int) -> list[Any]:
    """Clarabel's cones for equations and for inequalities."""
    import clarabel

    return [
        *([clarabel.ZeroConeT(zero)] if zero else []),
        *([clarabel.NonnegativeConeT(positive)] if positive else []),
    ]


def second_order_cone(size: int) -> Any:
    """Clarabel's second-order cone."""
    import clarabel

    return clarabel.SecondOrderConeT(size)


def _other_cones(dims: Any) -> list[Any]:
    """CVXPY's cone dimensions as Clarabel's cones, in CVXPY's order of rows."""
    import clarabel

    return [
        *map(clarabel.SecondOrderConeT, dims.soc),
        *map(clarabel.PSDTriangleConeT, dims.psd),
        *(clarabel.ExponentialConeT() for _ in range(dims.exp)),
        *map(clarabel.PowerConeT, dims.p3d),
        *(clarabel.GenPowerConeT(list(powers), 1) for powers in getattr(dims, "pnd", ())),
    ]


@dataclass(frozen=True)
class Solution:
    """The result of one attempt of the solver."""

    status: str
    """ "solved", "infeasible", "unbounded" or "failed"."""
    v: Array
    """All variables; if unbounded, the direction in which the objective decreases without end."""
    z: Array
    """Dual variables of all rows."""
    error: float
    """By how much the optimality conditions fail, relatively; infinite unless solved."""
    detail: str
    """Clarabel's own status."""


class Solver:
    """Clarabel for one set of rows. The set-up is kept while P has entries in the same places."""

    def __init__(self, matrix: Any, cones: list[Any]) -> None:
        self.matrix, self.cones = matrix, cones
        self._set_up: dict[int, tuple[Columns, Any]] = {}

    def solutions(
        self, curvature: Array | None, slope: Array, offsets: Array
    ) -> Iterator[Solution]:
        """The solutions of one attempt after another. Objectives are scaled to size 1 before they
        are solved.

        `curvature` is P for the first variables; the others have none.
        """
        bent = np.zeros((0, 0)) if curvature is None else np.triu(curvature)
        size = max(float(np.abs(bent).max(initial=0)), float(np.abs(slope).max(initial=0))) or 1.0
        upper = Columns.of(bent / size, len(slope))
        for attempt in range(len(ATTEMPTS)):
            raw = self._solved(attempt, upper, slope / size, offsets)
            detail, v, z = str(raw.status), np.asarray(raw.x), np.asarray(raw.z)
            gap = abs(raw.obj_val - raw.obj_val_dual) / max(1.0, abs(raw.obj_val))
            error = float(max(raw.r_prim, raw.r_dual, gap))
            if not np.isfinite(error) or np.abs(z).max(initial=0) >= DIVERGED:
                error = np.inf
            status = STATUS.get(detail, "solved" if np.isfinite(error) else "failed")
            yield Solution(status, v, size * z, error if status == "solved" else np.inf, detail)

    def _solved(self, attempt: int, upper: Columns, slope: Array, offsets: Array) -> Any:
        """Clarabel's own answer to one attempt."""
        import clarabel

        known = self._set_up.get(attempt)
        if known is not None and upper.same_places(known[0]):
            known[1].update(P=upper.data, q=slope, b=offsets)
            return known[1].solve()
        settings = clarabel.DefaultSettings()
        settings.verbose = settings.presolve_enable = settings.input_sparse_dropzeros = False
        settings.chordal_decomposition_enable = False
        settings.max_threads = 1
        settings.tol_feas = settings.tol_gap_abs = settings.tol_gap_rel = ACCURACY
        for name, value in ATTEMPTS[attempt].items():
            setattr(settings, name, value)
        solver = clarabel.DefaultSolver(upper, slope, self.matrix, offsets, self.cones, settings)
        self._set_up[attempt] = upper, solver
        return solver.solve()


class ConicSet:
    """The values of CVXPY variables that satisfy constraints, as CVXPY states them for Clarabel,
    with the values that parameters have now.

    The set is matrix @ v + s = offsets with s in `cones`; `columns` says where the variables are in
    v, which also holds auxiliary ones.
    """

    def __init__(self, variables: list[Any], constraints: list[Any]) -> None:
        cp = optional("cvxpy")
        from scipy import sparse

        program = cp.Problem(
            cp.Minimize(sum(cp.sum(variable) for variable in variables)), constraints
        )
        data, _, _ = program.get_problem_data(
            cp.CLARABEL, canon_backend=backend(program), solver_opts={}
        )
        first = data["param_prob"].var_id_to_col
        self.columns = np.concatenate(
            [np.arange(first[v.id], first[v.id] + v.size) for v in variables]
        )
        self.matrix = sparse.csc_matrix(data["A"])
        self.offsets = np.asarray(data["b"], float)
        dims = data["dims"]
        self.cones = linear_cones(dims.zero, dims.nonneg) + _other_cones(dims)
        self._solver: Solver | None = None
        self._sizes = np.ones(0)

    def minimise(self, slope: Array) -> Solution:
        """The best of the solver's solutions for a linear function of the variables."""
        if self._solver is None:  # the solver's tolerances are absolute, so rows get the same size
            self._sizes = _row_sizes(self.matrix, self.cones)
            scaled = self.matrix.multiply(1 / self._sizes[:, None]).tocsc()
            self._solver = Solver(scaled, self.cones)
        q = np.zeros(self.matrix.shape[1])
        q[self.columns] = slope
        attempts: list[Solution] = []
        for solution in self._solver.solutions(None, q, self.offsets / self._sizes):
            attempts.append(solution)
            if (
                solution.status in ("infeasible", "unbounded")
                or solution.detail == "Solved"
                or solution.error < GOOD
            ):
                break
        return min(attempts, key=lambda solution: solution.error)

    def wanted(self, solution: Solution) -> Array:
        """The variables' values of a solution."""
        return solution.v[self.columns]


def _row_sizes(matrix: Any, cones: list[Any]) -> Array:
    """The largest entry of each row, of all rows of a cone that is not linear, as powers of 2."""
    largest = abs(matrix).max(axis=1).toarray().ravel()
    start = 0
    for cone in cones:
        stop = start + _height(cone)
        if type(cone).__name__ not in ("ZeroConeT", "NonnegativeConeT"):
            largest[start:stop] = largest[start:stop].max()
        start = stop
    return np.exp2(np.round(np.log2(np.where(largest > 0, largest, 1.0))))


def _height(cone: Any) -> int:
    """The number of rows of one of Clarabel's cones."""
    name = type(cone).__name__
    if "PSD" in name:
        return int(cone.dim * (cone.dim + 1) // 2)
    if "GenPower" in name:
        return len(cone.α) + int(cone.dim2)
    return int(getattr(cone, "dim", 3))
