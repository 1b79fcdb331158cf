"""Convex sets that CVXPY has stated for Clarabel once, and convex quadratics minimised over them many times."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import clarabel
import cvxpy as cp
import numpy as np
from scipy import sparse

from ..problem.conic import backend

__all__ = ["Answer", "Conic", "Statement", "stated"]

Array = np.ndarray[Any, Any]

ACCURACY = 1e-12
ATTEMPTS: tuple[dict[str, Any], ...] = (
    # Clarabel's own settings stop it short of 1e-9 on weakly active rows; the others are second opinions.
    {"static_regularization_constant": 1e-10, "max_step_fraction": 0.9},
    {"static_regularization_constant": 1e-12},
    {},
)
GOOD = 1e-9
"""A solution whose optimality conditions fail by less needs no second opinion."""
STATUS = {
    "PrimalInfeasible": "infeasible", "AlmostPrimalInfeasible": "infeasible",
    "DualInfeasible": "unbounded", "AlmostDualInfeasible": "unbounded",
}  # fmt: skip


@dataclass(frozen=True)
class Statement:
    """Rows matrix @ v + s = offsets with s in cones, v being the wanted variables and auxiliary ones."""

    matrix: Any
    offsets: Array
    cones: list[Any]
    columns: Array
    """Where the wanted variables are in v."""
    places: list[Array]
    """For each tracked constraint its rows, counted from 1; negative where the dual value has the other sign."""


def stated(program: Any, variables: list[Any], tracked: list[Any]) -> Statement:
    """The program's constraints as CVXPY states them for Clarabel, with the values that parameters have now."""
    data, chain, inverse = program.get_problem_data(cp.CLARABEL, canon_backend=backend(program), solver_opts={})
    first = data["param_prob"].var_id_to_col
    columns = np.concatenate([np.arange(first[v.id], first[v.id] + v.size) for v in variables])
    rows, width = data["A"].shape
    # Numbers in place of dual variables come back where CVXPY would report those.
    count = np.arange(1.0, rows + 1)
    answer = {"status": "Solved", "obj_val": 0.0, "obj_val_dual": 0.0, "solve_time": 0.0, "iterations": 0}
    program.unpack_results(SimpleNamespace(x=np.zeros(width), z=count, s=count, **answer), chain, inverse)
    places = [np.ravel(np.asarray(one.dual_value, float)).astype(int) for one in tracked]
    matrix = sparse.csc_matrix(data["A"])
    return Statement(matrix, np.asarray(data["b"], float), _cones(data["dims"]), columns, places)


@dataclass(frozen=True)
class Answer:
    """What the solver returned."""

    status: str
    """ "solved", "infeasible", "unbounded" or "failed"."""
    v: Array
    """All variables; if unbounded, the direction in which the objective falls for ever."""
    x: Array
    """The wanted variables among them."""
    z: Array
    """Dual variables of all rows."""
    error: float
    """By how much the optimality conditions fail, relatively."""
    detail: str
    """The solver's own word."""

    @property
    def final(self) -> bool:
        """Whether another attempt would say the same."""
        return self.status in ("infeasible", "unbounded") or self.detail == "Solved"


@dataclass
class Conic:
    """A set that is minimised over: quadratics of the wanted variables, plus fixed costs of the others."""

    rows: Statement
    costs: Array | None = None
    _solvers: dict[Any, Any] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, variables: list[Any], constraints: list[Any], tracked: list[Any] | None = None) -> Conic:
        """The set {variables : constraints}; `tracked` are those among them whose dual values will be asked for."""
        program = cp.Problem(cp.Minimize(sum(cp.sum(variable) for variable in variables)), constraints)
        return cls(stated(program, variables, tracked or []))

    @property
    def size(self) -> int:
        """The number of wanted variables."""
        return len(self.rows.columns)

    def minimise(self, slope: Array, curvature: Array | None = None) -> Answer:
        """The minimiser of 1/2 x'Px + q'x + costs, as well as the solver can tell."""
        best: Answer | None = None
        for answer in self.answers(slope, curvature):
            if best is None or answer.error < best.error:
                best = answer
            if answer.final or best.error < GOOD:
                break
        assert best is not None  # there is at least one attempt
        return best

    def answers(self, slope: Array, curvature: Array | None = None) -> Iterator[Answer]:
        """The answers of one attempt after another, for who can tell good ones from bad ones."""
        q, bend = self._objective(slope, curvature)
        size = max(float(np.abs(q).max(initial=0)), float(np.abs(bend.data).max(initial=0))) or 1.0
        for attempt, options in enumerate(ATTEMPTS):
            key = (attempt, bend.nnz)
            if key in self._solvers:
                self._solvers[key].update(P=bend / size, q=q / size)
            else:
                self._solvers[key] = clarabel.DefaultSolver(
                    bend / size, q / size, self.rows.matrix, self.rows.offsets, self.rows.cones, _settings(options)
                )
            raw = self._solvers[key].solve()
            v, detail = np.asarray(raw.x), str(raw.status)
            value, bound = float(raw.obj_val), float(raw.obj_val_dual)
            error = max(float(raw.r_prim), float(raw.r_dual), abs(value - bound) / max(1.0, abs(value)))
            status = STATUS.get(detail, "solved" if np.isfinite(error) else "failed")
            error = error if status == "solved" else np.inf
            yield Answer(status, v, v[self.rows.columns], size * np.asarray(raw.z), error, detail)

    def value(self, answer: Answer, slope: Array, curvature: Array | None = None) -> float:
        """The objective at the answer."""
        q, bend = self._objective(slope, curvature)
        return float(q @ answer.v) + float(answer.v @ (_whole(bend) @ answer.v)) / 2

    def bound(self, answer: Answer, slope: Array, curvature: Array | None = None) -> tuple[Array, float]:
        r"""r and c such that the objective is at least <r, x> + c on the whole set, proven by the dual variables.

        Any z in the dual cones gives z'(Av - b) <= 0 there. Added to the objective's tangent at the answer, it cancels
        the auxiliary variables up to the solver's error, which is charged as if they could double.
        """
        q, bend = self._objective(slope, curvature)
        turn = _whole(bend) @ answer.v
        total = q + turn + self.rows.matrix.T @ answer.z
        rest = np.ones(len(total), bool)
        rest[self.rows.columns] = False
        error = float(np.abs(total[rest]) @ (1 + 2 * np.abs(answer.v[rest])))
        constant = -float(answer.v @ turn) / 2 - float(self.rows.offsets @ answer.z) - error
        return total[self.rows.columns], constant

    def duals(self, answer: Answer) -> list[Array]:
        """The dual values of the tracked constraints."""
        return [np.sign(where) * answer.z[np.abs(where) - 1] for where in self.rows.places]

    def _objective(self, slope: Array, curvature: Array | None) -> tuple[Array, Any]:
        width, columns = self.rows.matrix.shape[1], self.rows.columns
        q = np.zeros(width) if self.costs is None else self.costs.copy()
        q[columns] += slope
        if curvature is None or not np.any(curvature):
            return q, sparse.csc_matrix((width, width))
        upper = np.triu_indices(self.size)
        entries = curvature[upper]
        where = np.sort(np.stack([columns[upper[0]], columns[upper[1]]]), axis=0)
        return q, sparse.csc_matrix((entries, tuple(where)), (width, width))


def _whole(upper: Any) -> Any:
    """The symmetric matrix with this upper triangle."""
    return upper + sparse.triu(upper, 1).T


def _cones(dims: Any) -> list[Any]:
    """CVXPY's cone dimensions as Clarabel's cones, in CVXPY's order of rows."""
    return [
        *([clarabel.ZeroConeT(dims.zero)] if dims.zero else []),
        *([clarabel.NonnegativeConeT(dims.nonneg)] if dims.nonneg else []),
        *map(clarabel.SecondOrderConeT, dims.soc),
        *map(clarabel.PSDTriangleConeT, dims.psd),
        *(clarabel.ExponentialConeT() for _ in range(dims.exp)),
        *map(clarabel.PowerConeT, dims.p3d),
    ]


def _settings(options: dict[str, Any]) -> Any:
    settings = clarabel.DefaultSettings()
    settings.verbose = settings.presolve_enable = settings.input_sparse_dropzeros = False
    settings.chordal_decomposition_enable = False
    settings.max_threads = 1
    settings.tol_feas = settings.tol_gap_abs = settings.tol_gap_rel = ACCURACY
    for name, value in options.items():
        setattr(settings, name, value)
    return settings
