"""What a user passes as a model: an expression, an objective or a whole CVXPY problem, and lists of
constraints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import cvxpy as cp
import numpy as np
from cvxpy.utilities.debug_tools import build_non_disciplined_error_msg

from ..recourse.recourse import Recourse
from .attributes import limits, refused

__all__ = ["bound_constraints", "checked", "parameters_of", "read", "unpacked"]


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
    marked = [
        variable
        for constraint in stated
        if isinstance(constraint, Recourse)
        for variable in constraint.variables
    ]
    return (
        loss,
        [constraint for constraint in stated if not isinstance(constraint, Recourse)],
        marked,
    )


def read(loss: Any, constraints: Any) -> tuple[Any, list[Any]]:
    """The loss as an expression to minimise and all constraints as one list, with bounds that are
    expressions."""
    loss, stated, _ = unpacked(loss, constraints)
    variables = {v.id: v for part in (loss, *stated) for v in part.variables()}
    return loss, [
        *stated,
        *(bound for key in sorted(variables) for bound in bound_constraints(variables[key])),
    ]


def bound_constraints(variable: Any) -> list[Any]:
    """The bounds of a variable that are CVXPY expressions, such as `bounds=[0, limit]` with a
    parameter, as constraints."""
    low, high = variable.attributes.get("bounds") or (None, None)
    lower = [variable >= low] if isinstance(low, cp.Expression) else []
    return [*lower, variable <= high] if isinstance(high, cp.Expression) else lower


def parameters_of(part: Any) -> list[Any]:
    """The parameters of an expression or constraint, without those in the bounds of its variables,
    which CVXPY counts."""
    if not any(bound_constraints(variable) for variable in part.variables()):
        return list(part.parameters())
    parameters, queue = [], [part]
    while queue:
        node = queue.pop()
        if isinstance(node, cp.Parameter):
            parameters.append(node)
        elif not isinstance(node, cp.Variable):
            queue += [
                *node.args,
                *(getattr(node, name) for name in ("M", "f", "f_recession") if hasattr(node, name)),
            ]
        queue = [node for node in queue if isinstance(node, (cp.Expression, cp.Constraint))]
    return parameters


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
    return [constraint for part in constraints for constraint in _flat(part)]


def checked(loss: Any, constraints: Any, argument: str = "loss") -> tuple[Any, list[Any]]:
    """The loss expression and the list of constraints, both found to be convex for the values that
    parameters may have.

    `argument` is named in errors if there is no variable.
    """
    loss, stated = read(loss, constraints)
    if loss.size != 1:
        raise ValueError(f"loss: got an expression of shape {loss.shape}; expected a scalar")
    leaves = [_of_all([loss, *stated], kind) for kind in ("variables", "parameters")]
    if not leaves[0]:
        raise ValueError(
            f"{argument}: got no CVXPY variable in loss or constraints; expected at least one "
            "decision variable"
        )
    _check_leaves(*leaves)
    if loss.is_complex():
        raise ValueError(f"loss: got the complex expression {loss}; expected a real one")
    if not cp.Problem(cp.Minimize(cp.sum(loss)), stated).is_dcp():
        raise ValueError(_explained(loss, stated))
    return loss, stated


def _of_all(parts: list[Any], kind: str) -> list[Any]:
    return list({leaf.id: leaf for part in parts for leaf in getattr(part, kind)()}.values())


def _check_leaves(variables: list[Any], parameters: list[Any]) -> None:
    for variable in variables:
        attribute = refused(variable)
        if attribute is not None:
            raise ValueError(
                f"variable {variable.name()}: got {attribute}=True; expected real variables that "
                "are not restricted to whole numbers"
            )
    for parameter in parameters:
        if parameter.is_complex():
            raise ValueError(
                f"parameter {parameter.name()}: got a parameter that may be complex; expected "
                "real data"
            )
    for kind, leaves in (("variables", variables), ("parameters", parameters)):
        names = [leaf.name() for leaf in leaves]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise ValueError(
                f"{kind}: got two with the name {twice!r}; expected different names, because they "
                "are identified by name"
            )


def _explained(loss: Any, constraints: list[Any]) -> str:
    """CVXPY's explanation, of the loss or else of the constraints."""
    which = "constraints" if loss.is_convex() else "loss"
    message = build_non_disciplined_error_msg(cp.Problem(cp.Minimize(loss), constraints), "DCP")
    hint = _sign_hint([loss, *constraints])
    return (
        f"{which}: CVXPY's rules do not prove convexity; expected disciplined convex programming. "
        f"{message}{hint}"
    )


def _sign_hint(parts: list[Any]) -> str:
    """Parameters whose bounds have one sign, which CVXPY's rules do not read from bounds."""
    known = {parameter.id: parameter for part in parts for parameter in part.parameters()}
    hints = []
    for parameter in known.values():
        low, high = limits(parameter)
        for holds, seen, name in (
            (np.all(low >= 0), parameter.is_nonneg(), "nonneg"),
            (np.all(high <= 0), parameter.is_nonpos(), "nonpos"),
        ):
            if holds and not seen:
                hints.append(f"{name}=True to parameter {parameter.name()}")
    if not hints:
        return ""
    return f"\nCVXPY does not read the sign of a parameter from its bounds: add {', '.join(hints)}."
