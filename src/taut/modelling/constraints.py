"""CVXPY constraints and variable attributes as expressions that must not exceed zero."""

from __future__ import annotations

from typing import Any

import cvxpy as cp
import numpy as np
from cvxpy.constraints.nonpos import Inequality, NonNeg, NonPos
from cvxpy.constraints.zero import Equality, Zero

from ..domains import Box, Domain

__all__ = ["excesses"]


def excesses(
    variables: list[Any], constraints: list[Any], domain: Domain, spans: dict[int, slice]
) -> tuple[list[Any], list[str]]:
    """Expressions that are at most 0 exactly on the feasible set, and notes on what became of variable attributes."""
    rows = [row for constraint in constraints for row in _rows(constraint)]
    notes = []
    for variable in variables:
        more, note = _attributes(variable, domain, spans[variable.id])
        rows += more
        notes += note
    if not rows:  # a game without constraints: one that always holds
        rows = [cp.Constant(-1.0)]
    return rows, notes


def _rows(constraint: Any) -> list[Any]:
    if isinstance(constraint, Inequality):
        return [constraint.expr]
    if isinstance(constraint, (Equality, Zero)):
        return [constraint.expr, -constraint.expr]  # a pair of inequalities, as in the paper
    if isinstance(constraint, NonPos):
        return [constraint.args[0]]
    if isinstance(constraint, NonNeg):
        return [-constraint.args[0]]
    if isinstance(constraint, cp.PSD):
        return [cp.lambda_max(-_symmetric(constraint.args[0]))]
    if isinstance(constraint, cp.SOC):
        t, x = constraint.args
        if x.ndim <= 1:
            return [cp.norm(x, 2) - t]
        return [cp.norm(x, 2, axis=constraint.axis) - t]
    raise ValueError(
        f"constraints: got {type(constraint).__name__} in {constraint}; expected <=, >=, ==, >>, << or a second-order cone"
    )


def _attributes(variable: Any, domain: Domain, span: slice) -> tuple[list[Any], list[str]]:
    """Attributes that the domain does not already enforce become constraints."""
    name, given = variable.name(), variable.attributes
    rows, notes = [], []
    lower, upper = limits(variable)
    for edge, bound, side in ((lower, variable >= lower, "lower"), (upper, variable <= upper, "upper")):
        if not np.any(np.isfinite(edge)):
            continue
        if isinstance(domain, Box) and _implied(domain, span, edge, side):
            notes.append(f"{name}: {side} bound is part of the domain")
        else:
            if not np.all(np.isfinite(edge)):
                raise ValueError(
                    f"variable {name}: got a {side} bound for some entries only; expected all, or constraints"
                )
            rows += _rows(bound)
            notes.append(f"{name}: {side} bound is a constraint")
    if given["symmetric"] or given["PSD"] or given["NSD"]:
        if variable.shape != (1, 1):
            rows += _rows(variable == variable.T)
        notes.append(f"{name}: symmetry is a pair of constraints")
    if given["PSD"]:
        rows.append(cp.lambda_max(-_symmetric(variable)))
        notes.append(f"{name}: positive semidefiniteness is a constraint on the largest eigenvalue")
    if given["NSD"]:
        rows.append(cp.lambda_max(_symmetric(variable)))
        notes.append(f"{name}: negative semidefiniteness is a constraint on the largest eigenvalue")
    if given["diag"]:
        off = 1 - np.eye(variable.shape[0])
        rows += _rows(cp.multiply(off, variable) == 0)
        notes.append(f"{name}: zeros off the diagonal are pairs of constraints")
    if given["sparsity"]:
        raise ValueError(f"variable {name}: got a sparsity pattern; expected a dense variable")
    return rows, notes


def limits(variable: Any) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Lower and upper bounds that the attributes of a variable or parameter state, infinite where they state none."""
    given, shape = variable.attributes, variable.shape
    lower, upper = np.full(shape, -np.inf), np.full(shape, np.inf)
    if given["nonneg"] or given["pos"]:
        lower = np.zeros(shape)
    if given["nonpos"] or given["neg"]:
        upper = np.zeros(shape)
    if given.get("bounds") is not None:
        low, high = given["bounds"]
        lower = np.maximum(lower, np.broadcast_to(np.asarray(low, float), shape))
        upper = np.minimum(upper, np.broadcast_to(np.asarray(high, float), shape))
    return lower, upper


def _implied(domain: Box, span: slice, edge: np.ndarray[Any, Any], side: str) -> bool:
    flat = np.ravel(np.broadcast_to(domain.lower if side == "lower" else domain.upper, domain.shape))[span]
    return bool(np.all(flat >= np.ravel(edge)) if side == "lower" else np.all(flat <= np.ravel(edge)))


def _symmetric(matrix: Any) -> Any:
    """CVXPY asks lambda_max for symmetry; decisions of a learner are symmetric only in the limit."""
    return (matrix + matrix.T) / 2
