"""A convex set that CVXPY has stated for Clarabel once, and quadratics minimised over it many times."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import clarabel
import cvxpy as cp
import numpy as np
from scipy import sparse

__all__ = ["Answer", "Conic", "cones_of", "solved"]

Array = np.ndarray[Any, Any]

ACCURACY = 1e-12
ATTEMPTS: tuple[dict[str, Any], ...] = (
    # Clarabel's own regularisation stops it short of 1e-9 on weakly active rows; the others are second opinions.
    {"static_regularization_constant": 1e-12},
    {},
    {"static_regularization_constant": 1e-10, "max_step_fraction": 0.9},
)
GOOD = 1e-9
"""A solution whose optimality conditions fail by less needs no second opinion."""


@dataclass(frozen=True)
class Answer:
    """What the solver returned: "solved", "infeasible", "unbounded" or "failed"."""

    status: str
    x: Array
    """The minimiser, or the direction in which an unbounded problem falls for ever."""
    z: Array
    """Dual variables of all rows."""
    error: float
    """By how much the optimality conditions fail."""
    raw: Any
    """The solver's own answer."""


class Conic:
    """{variables : constraints}, stated once. Objectives are quadratics of the variables, one after the other.

    Rows read matrix @ (variables, auxiliary variables) + s = offsets with s in the cones.
    """

    def __init__(self, variables: list[Any], constraints: list[Any]) -> None:
        self.size = sum(variable.size for variable in variables)
        self.program = cp.Problem(cp.Minimize(sum(cp.sum(variable) for variable in variables)), constraints)
        data, self.chain, self.inverse = self.program.get_problem_data(cp.CLARABEL)
        first = data["param_prob"].var_id_to_col
        self.columns = np.concatenate([np.arange(first[v.id], first[v.id] + v.size) for v in variables])
        self.matrix, self.offsets = sparse.csc_matrix(data["A"]), np.asarray(data["b"], float)
        self.cones = cones_of(data["dims"])
        self._solvers: dict[Any, Any] = {}

    def minimise(self, slope: Array, curvature: Array | None = None) -> Answer:
        """The minimiser of 1/2 x'Px + q'x."""
        size = float(np.abs(slope).max(initial=0))
        if curvature is not None:
            size = max(size, float(np.abs(curvature).max(initial=0)))
        size = size or 1.0
        width = self.matrix.shape[1]
        q = np.zeros(width)
        q[self.columns] = slope / size
        bend = sparse.csc_matrix((width, width))
        if curvature is not None and np.any(curvature):
            rows, columns = np.triu_indices(self.size)
            entries = curvature[rows, columns] / size
            bend = sparse.csc_matrix((entries, (self.columns[rows], self.columns[columns])), (width, width))
        answer = solved(bend, q, self.matrix, self.offsets, self.cones, self._solvers)
        return Answer(answer.status, answer.x[self.columns], size * answer.z, answer.error, answer.raw)

    def duals(self, answer: Answer, constraints: list[Any]) -> list[Array]:
        """The dual values of the stated constraints, in the units of the last objective."""
        self.program.unpack_results(answer.raw, self.chain, self.inverse)
        scale = float(np.abs(answer.z).max(initial=0)) / (float(np.abs(np.asarray(answer.raw.z)).max(initial=0)) or 1.0)
        return [scale * np.asarray(one.dual_value, float) for one in constraints]

    def proof(self, answer: Answer) -> tuple[Array, float, float]:
        """slope and offset with slope @ x <= offset for every x of the set, and an error to be allowed for.

        Dual variables z in the dual cones prove z'A v <= z'b for the rows' variables v; the auxiliary ones should have
        the coefficient zero.
        """
        whole = self.matrix.T @ answer.z
        rest = np.ones(len(whole), bool)
        rest[self.columns] = False
        size = 1 + float(np.abs(np.asarray(answer.raw.x)[rest]).max(initial=0))
        return whole[self.columns], float(self.offsets @ answer.z), size * float(np.abs(whole[rest]).sum())


def solved(bend: Any, q: Array, matrix: Any, offsets: Array, cones: list[Any], solvers: dict[Any, Any]) -> Answer:
    """Clarabel's answer to min 1/2 v'Pv + q'v over matrix @ v + s = offsets, s in cones; `solvers` keeps set-ups."""
    best: Answer | None = None
    for attempt, options in enumerate(ATTEMPTS):
        key = (attempt, bend.nnz)
        if key in solvers:
            solvers[key].update(P=sparse.triu(bend, format="csc"), q=q)
        else:
            solvers[key] = clarabel.DefaultSolver(bend, q, matrix, offsets, cones, _settings(options))
        raw = solvers[key].solve()
        status = str(raw.status)
        x, z = np.asarray(raw.x), np.asarray(raw.z)
        if status in ("PrimalInfeasible", "AlmostPrimalInfeasible"):
            return Answer("infeasible", x, z, np.inf, raw)
        if status in ("DualInfeasible", "AlmostDualInfeasible"):
            return Answer("unbounded", x, z, np.inf, raw)
        error = max(float(raw.r_prim), float(raw.r_dual), abs(float(raw.obj_val) - float(raw.obj_val_dual)))
        error = error if np.isfinite(error) else np.inf
        if best is None or error < best.error:
            best = Answer("solved" if np.isfinite(error) else "failed", x, z, error, raw)
        if status == "Solved" or best.error < GOOD:
            break
    assert best is not None  # there is at least one attempt
    return best


def cones_of(dims: Any) -> list[Any]:
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
