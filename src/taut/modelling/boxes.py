"""The bounding box of a feasible set, by solving for its edges."""

from __future__ import annotations

from typing import Any

import cvxpy as cp
import numpy as np

from ..domains import Box
from .constraints import limits

__all__ = ["bounding_box"]

MARGIN = 1e-7
"""Relative room for the solver's tolerance, so that the box certainly contains the feasible set."""


def bounding_box(
    variables: list[Any], constraints: list[Any], parameters: list[Any], shape: tuple[int, ...]
) -> tuple[Box, list[str]]:
    """The smallest box around the feasible set, hence its exact centre and radius; unbounded sets are refused.

    Constraints with per-round parameters are left out: the box must contain what is feasible in any round.
    """
    changing = {parameter.id for parameter in parameters}
    steady = [c for c in constraints if not any(p.id in changing for p in c.parameters())]
    sizes = [variable.size for variable in variables]
    direction = cp.Parameter(sum(sizes))
    stacked = cp.hstack([cp.vec(variable, order="C") for variable in variables])
    program = cp.Problem(cp.Minimize(direction @ stacked), steady)
    edges = [limits(variable) for variable in variables]
    lower = np.concatenate([np.ravel(low) for low, _ in edges])
    upper = np.concatenate([np.ravel(high) for _, high in edges])
    for sign, edge in ((1.0, lower), (-1.0, upper)):
        for i in range(len(edge)):
            aim = np.zeros(len(edge))
            aim[i] = sign
            direction.value = aim
            program.solve(solver=cp.CLARABEL)
            if program.status in (cp.INFEASIBLE, cp.INFEASIBLE_INACCURATE):
                raise ValueError(
                    "constraints: got no feasible decision; expected constraints that some decision satisfies"
                )
            if program.status in (cp.UNBOUNDED, cp.UNBOUNDED_INACCURATE):
                where = _entry(variables, sizes, i)
                raise ValueError(
                    f"constraints: got a feasible set that is unbounded: {where} has no {'lower' if sign > 0 else 'upper'} "
                    "bound; expected a bounded set, or domain=..."
                )
            if program.status not in (cp.OPTIMAL, cp.OPTIMAL_INACCURATE):
                raise ValueError(
                    f"constraints: the solver ended with {program.status!r} while bounding the feasible set"
                )
            reach = sign * float(program.value)
            room = MARGIN * (1 + abs(reach))
            edge[i] = max(edge[i], reach - room) if sign > 0 else min(edge[i], reach + room)
    note = "domain: the bounding box of the feasible set"
    if len(steady) < len(constraints):
        note += " of the constraints that do not change with the round"
    return Box(lower.reshape(shape), upper.reshape(shape)), [note]


def _entry(variables: list[Any], sizes: list[int], i: int) -> str:
    for variable, size in zip(variables, sizes, strict=True):
        if i < size:
            place = ", ".join(str(int(k)) for k in np.unravel_index(i, variable.shape)) if variable.shape else ""
            return f"{variable.name()}[{place}]" if place else str(variable.name())
        i -= size
    return "decision"
