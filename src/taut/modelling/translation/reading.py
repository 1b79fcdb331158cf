"""What a user passes as a model: an expression, an objective or a whole CVXPY problem, and lists of
constraints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import cvxpy as cp
import numpy as np

from ..recourse.recourse import Recourse

__all__ = ["bound_constraints", "parameters_of", "read", "unpacked"]


def unpacked(loss: Any, constraints: Any) -> tuple[Any, list[Any], list[Any]]:
    """The loss as an expression to minimise, all constraints as one list, and the variables marked
    by `taut.recourse`."""
    stated = _flat(constraints)
    if isinstance(loss, cp.Problem):
        loss, stated = loss.objective, [*_flat(loss.constraints), *stated]
    if isinstance(loss, cp.Maximize):
        loss = -loss.expr  # a gain is a negative loss
    elif isinstance(loss, cp.Minimize):
        loss = loss.expr
    if not isinstance(loss, cp.Expression):
        raise TypeError(
            f"loss: got {type(loss).__name__}; expected a CVXPY expression or a cp.Problem"
        )
    marked = [variable for one in stated if isinstance(one, Recourse) for variable in one.variables]
    return loss, [one for one in stated if not isinstance(one, Recourse)], marked


def read(loss: Any, constraints: Any) -> tuple[Any, list[Any]]:
    """The loss as an expression to minimise and all constraints as one list, with bounds that are
    expressions."""
    loss, stated, _ = unpacked(loss, constraints)
    variables = {v.id: v for part in (loss, *stated) for v in part.variables()}
    return loss, [
        *stated,
        *(one for key in sorted(variables) for one in bound_constraints(variables[key])),
    ]


def bound_constraints(variable: Any) -> list[Any]:
    """The bounds of a variable that are CVXPY expressions, such as `bounds=[0, limit]` with a
    parameter, as constraints."""
    low, high = variable.attributes.get("bounds") or (None, None)
    found = [variable >= low] if isinstance(low, cp.Expression) else []
    return [*found, variable <= high] if isinstance(high, cp.Expression) else found


def parameters_of(part: Any) -> list[Any]:
    """The parameters of an expression or constraint, without those in the bounds of its variables,
    which CVXPY counts."""
    if not any(bound_constraints(variable) for variable in part.variables()):
        return list(part.parameters())
    found, queue = [], [part]
    while queue:
        one = queue.pop()
        if isinstance(one, cp.Parameter):
            found.append(one)
        elif not isinstance(one, cp.Variable):
            queue += [
                *one.args,
                *(getattr(one, name) for name in ("M", "f", "f_recession") if hasattr(one, name)),
            ]
        queue = [one for one in queue if isinstance(one, (cp.Expression, cp.Constraint))]
    return found


def _flat(constraints: Any) -> list[Any]:
    """Constraints from nested lists. Comparisons of numbers, which are True, are no constraints."""
    if isinstance(constraints, (cp.Constraint, Recourse)):
        return [constraints]
    if isinstance(constraints, (bool, np.bool_)):
        if constraints:
            return []
        raise ValueError(
            "constraints: got False, a comparison of numbers that does not hold; expected "
            "constraints"
        )
    if not isinstance(constraints, Sequence) or isinstance(constraints, str):
        if isinstance(constraints, cp.Expression) or not hasattr(constraints, "__next__"):
            raise TypeError(
                f"constraints: got {constraints!r}; expected a list of CVXPY constraints such as "
                "x <= 1"
            )
        constraints = list(constraints)
    return [one for part in constraints for one in _flat(part)]
