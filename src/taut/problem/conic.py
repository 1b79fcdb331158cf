"""Conic programs: CVXPY states them once, Clarabel solves them many times.

This is the only module that calls Clarabel. A program is

    minimise 1/2 v'Pv + q'v   subject to   matrix @ v + s = offsets,  s in a product of cones.

`conic_form` asks CVXPY for matrix, offsets and cones. `Solver` keeps Clarabel's set-up while only
P, q and the offsets change. `ConicSet` is a set of CVXPY variables over which convex quadratics are
minimised, with lower bounds proven by dual variables. CVXPY, Clarabel and SciPy are imported when
they are first needed, because they are slow to import.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from ..engine import Array
from ..extras import optional

__all__ = [
    "Columns",
    "ConicForm",
    "ConicSet",
    "Entries",
    "Solution",
    "Solver",
    "backend",
    "conic_form",
]


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


ACCURACY = 1e-12
"""Clarabel's tolerances on feasibility and gap: as good as 64 bits allow, because results are
certified to 1e-8."""
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
"""Dual variables of a scaled program beyond this do not exist: no point satisfies the constraints
with slack."""
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


@dataclass(frozen=True)
class ConicForm:
    """Constraints as matrix @ v + s = offsets with s in `cones`; v holds the wanted variables and
    auxiliary ones.

    The first `zero` entries of s are zero, the next `positive` ones are not negative; other cones
    follow.
    """

    matrix: Any
    offsets: Array
    cones: list[Any]
    columns: Array
    """Where the wanted variables are in v."""
    dual_rows: list[Array]
    """For each tracked constraint its rows, counted from 1; negative where CVXPY's dual value has
    the other sign."""
    zero: int
    positive: int


def conic_form(program: Any, variables: list[Any], tracked: list[Any] | None = None) -> ConicForm:
    """The constraints of a CVXPY program as it states them for Clarabel, with the values that
    parameters have now.

    Arguments:
        program: the `cvxpy.Problem`.
        variables: those whose values are wanted.
        tracked: constraints of the program whose dual values will be asked for.
    """
    cp = optional("cvxpy")
    from scipy import sparse

    data, chain, inverse = program.get_problem_data(
        cp.CLARABEL, canon_backend=backend(program), solver_opts={}
    )
    first = data["param_prob"].var_id_to_col
    columns = np.concatenate([np.arange(first[v.id], first[v.id] + v.size) for v in variables])
    dual_rows: list[Array] = []
    if tracked:
        # Row numbers in place of dual variables come back where CVXPY would report those.
        rows, width = data["A"].shape
        numbers = np.arange(1.0, rows + 1)
        answer = {
            "status": "Solved",
            "obj_val": 0.0,
            "obj_val_dual": 0.0,
            "solve_time": 0.0,
            "iterations": 0,
        }
        program.unpack_results(
            SimpleNamespace(x=np.zeros(width), z=numbers, s=numbers, **answer), chain, inverse
        )
        dual_rows = [np.ravel(np.asarray(one.dual_value, float)).astype(int) for one in tracked]
    dims = data["dims"]
    return ConicForm(
        sparse.csc_matrix(data["A"]),
        np.asarray(data["b"], float),
        linear_cones(dims.zero, dims.nonneg) + _other_cones(dims),
        columns,
        dual_rows,
        int(dims.zero),
        int(dims.nonneg),
    )


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


class Curvature(NamedTuple):
    """The upper triangle of P by column: the places of its entries and their values."""

    rows: Array
    columns: Array
    values: Array


class Solver:
    """Clarabel for one set of rows. The set-up is kept while P has entries in the same places."""

    def __init__(self, matrix: Any, cones: list[Any]) -> None:
        self.matrix, self.cones = matrix, cones
        self._set_up: dict[int, tuple[Curvature, Any]] = {}

    def solutions(self, curvature: Curvature, slope: Array, offsets: Array) -> Iterator[Solution]:
        """The solutions of one attempt after another. Objectives are scaled to size 1 before they
        are solved."""
        size = (
            max(float(np.abs(curvature.values).max(initial=0)), float(np.abs(slope).max(initial=0)))
            or 1.0
        )
        for attempt in range(len(ATTEMPTS)):
            raw = self._solved(
                attempt, curvature._replace(values=curvature.values / size), slope / size, offsets
            )
            detail, v, z = str(raw.status), np.asarray(raw.x), np.asarray(raw.z)
            gap = abs(raw.obj_val - raw.obj_val_dual) / max(1.0, abs(raw.obj_val))
            error = float(max(raw.r_prim, raw.r_dual, gap))
            if not np.isfinite(error) or np.abs(z).max(initial=0) >= DIVERGED:
                error = np.inf
            status = STATUS.get(detail, "solved" if np.isfinite(error) else "failed")
            yield Solution(status, v, size * z, error if status == "solved" else np.inf, detail)

    def _solved(self, attempt: int, curvature: Curvature, slope: Array, offsets: Array) -> Any:
        """Clarabel's own answer to one attempt."""
        import clarabel

        known = self._set_up.get(attempt)
        if known is not None and _same_places(known[0], curvature):
            solver = known[1]
            solver.update(P=curvature.values, q=slope, b=offsets)
        else:
            width = self.matrix.shape[1]
            P = Entries(
                curvature.rows, curvature.columns, curvature.values, (width, width)
            ).compressed()
            solver = clarabel.DefaultSolver(
                P, slope, self.matrix, offsets, self.cones, _settings(ATTEMPTS[attempt])
            )
            self._set_up[attempt] = curvature, solver
        return solver.solve()


def _row_sizes(form: ConicForm) -> Array:
    """The largest entry of each row, of all rows of a cone that is not linear, as powers of 2."""
    largest = abs(form.matrix).max(axis=1).toarray().ravel()
    start = 0
    for cone in form.cones:
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


def upper_triangle(matrix: Array | None, columns: Array) -> Curvature:
    """The symmetric `matrix` over the variables at `columns`, which are ascending; zeros are left
    out."""
    if matrix is None or not np.any(matrix):
        none = np.zeros(0, int)
        return Curvature(none, none, np.zeros(0))
    column, row = np.nonzero(np.triu(matrix).T)  # ordered by column, then row
    return Curvature(columns[row], columns[column], matrix[row, column])


def _same_places(one: Curvature, other: Curvature) -> bool:
    return np.array_equal(one.rows, other.rows) and np.array_equal(one.columns, other.columns)


def _settings(options: dict[str, float]) -> Any:
    import clarabel

    settings = clarabel.DefaultSettings()
    settings.verbose = settings.presolve_enable = settings.input_sparse_dropzeros = False
    settings.chordal_decomposition_enable = False
    settings.max_threads = 1
    settings.tol_feas = settings.tol_gap_abs = settings.tol_gap_rel = ACCURACY
    for name, value in options.items():
        setattr(settings, name, value)
    return settings


@dataclass
class ConicSet:
    """A convex set over which quadratics of the wanted variables, plus fixed costs of all
    variables, are minimised."""

    form: ConicForm
    costs: Array | None = None
    _solver: Solver | None = field(default=None, repr=False)
    _sizes: Array = field(default_factory=lambda: np.ones(0), repr=False)
    """What rows are divided by for the solver, whose tolerances are absolute."""

    @classmethod
    def of(
        cls, variables: list[Any], constraints: list[Any], tracked: list[Any] | None = None
    ) -> ConicSet:
        """The set {variables : constraints}; `tracked` are those among them whose dual values will
        be asked for."""
        cp = optional("cvxpy")

        program = cp.Problem(
            cp.Minimize(sum(cp.sum(variable) for variable in variables)), constraints
        )
        return cls(conic_form(program, variables, tracked))

    @property
    def size(self) -> int:
        """The number of wanted variables."""
        return len(self.form.columns)

    def wanted(self, solution: Solution) -> Array:
        """The wanted variables of a solution."""
        return solution.v[self.form.columns]

    def minimise(self, slope: Array, curvature: Array | None = None) -> Solution:
        """The best of the solver's solutions for 1/2 x'Px + q'x + costs."""
        best: Solution | None = None
        for solution in self.solutions(slope, curvature):
            if best is None or solution.error < best.error:
                best = solution
            if (
                solution.status in ("infeasible", "unbounded")
                or solution.detail == "Solved"
                or best.error < GOOD
            ):
                break
        assert best is not None  # there is at least one attempt
        return best

    def solutions(self, slope: Array, curvature: Array | None = None) -> Iterator[Solution]:
        """The solutions of one attempt after another, for callers that can tell good ones from bad
        ones."""
        if self._solver is None:
            self._sizes = _row_sizes(self.form)
            scaled = self.form.matrix.multiply(1 / self._sizes[:, None]).tocsc()
            self._solver = Solver(scaled, self.form.cones)
        attempts = self._solver.solutions(
            upper_triangle(curvature, self.form.columns),
            self._slope(slope),
            self.form.offsets / self._sizes,
        )
        for solution in attempts:
            yield replace(solution, z=solution.z / self._sizes)

    def value(self, solution: Solution, slope: Array, curvature: Array | None = None) -> float:
        """The objective at the solution."""
        x = self.wanted(solution)
        bent = 0.0 if curvature is None else float(x @ curvature @ x) / 2
        return float(self._slope(slope) @ solution.v) + bent

    def bound(
        self, solution: Solution, slope: Array, curvature: Array | None = None
    ) -> tuple[Array, float]:
        r"""r and c such that the objective is at least <r, x> + c on the whole set, proven by the
        dual variables.

        Any z in the dual cones gives z'(Av - b) <= 0 there. Added to the objective's tangent at the
        solution, it cancels the auxiliary variables up to the solver's error, which is charged as
        if they could double.
        """
        columns = self.form.columns
        x = self.wanted(solution)
        hessian_x = np.zeros(len(x)) if curvature is None else curvature @ x
        total = self._slope(slope) + self.form.matrix.T @ solution.z
        total[columns] += hessian_x
        rest = np.ones(len(total), bool)
        rest[columns] = False
        error = float(np.abs(total[rest]) @ (1 + 2 * np.abs(solution.v[rest])))
        return total[columns], -float(x @ hessian_x) / 2 - float(
            self.form.offsets @ solution.z
        ) - error

    def duals(self, solution: Solution) -> list[Array]:
        """The dual values of the tracked constraints."""
        return [np.sign(rows) * solution.z[np.abs(rows) - 1] for rows in self.form.dual_rows]

    def _slope(self, slope: Array) -> Array:
        q = np.zeros(self.form.matrix.shape[1]) if self.costs is None else self.costs.copy()
        q[self.form.columns] += slope
        return q
