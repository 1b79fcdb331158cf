"""What a user passes as a model: an expression, an objective or a whole CVXPY problem, and lists of
constraints."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import cvxpy as cp
import numpy as np
from cvxpy.utilities.debug_tools import build_non_disciplined_error_msg

from .attributes import limits

_REFUSED = ("complex", "imag", "hermitian", "integer", "boolean")
"""Attributes that make a variable unfit for play."""


class Recourse(NamedTuple):
    """Variables that are chosen after the data; an entry of a list of constraints."""

    variables: tuple[Any, ...]


def recourse(*variables: Any) -> Recourse:
    """Mark variables as chosen after the data of a round are known, inside the list of constraints
    of `taut.from_cvxpy`.

    By default every variable is part of the decision, which is fixed before the data are known. A
    recourse variable is minimised out of the round instead: the loss is the smallest one that it
    allows. Three methods are tried in this order.

    1. A variable that affine equations define, or that is bounded from one side while loss and
       constraints are monotone in it, is replaced by an expression.
    2. Otherwise all variables are minimised out together. If they form linear programs with few
       dual vertices, the loss is the largest of as many affine functions.
    3. Other linear and convex quadratic programs, also with costs that contain data, are solved in
       every round by a compiled interior-point method; the multipliers give the gradient.

    Coefficients in constraints and of squares must be numbers. Where no choice is feasible, a
    constraint `choice of ...` on the decision is violated. `problem.recourse_values(decision,
    data)` returns what is chosen.

    >>> import cvxpy as cp, taut
    >>> x, t = cp.Variable(2, name="x", bounds=[-1, 1]), cp.Variable(name="t")
    >>> c = cp.Parameter(2, name="c", bounds=[-1, 1])
    >>> model = taut.from_cvxpy(
    ...     t, [t >= c @ x - 1, t >= 1 - c @ x, taut.recourse(t)]
    ... )  # the loss |c x - 1|
    >>> print(*(variable.name() for variable in model.variables))
    x
    >>> stock, demand = (
    ...     cp.Variable(2, name="stock", bounds=[0, 5]),
    ...     cp.Parameter(2, name="demand", bounds=[0, 4]),
    ... )
    >>> sold = cp.Variable(2, name="sold", nonneg=True)
    >>> rows = [sold <= stock, sold <= demand, cp.sum(sold) <= 5, taut.recourse(sold)]
    >>> shop = taut.from_cvxpy(cp.sum(stock) - 3 * cp.sum(sold), rows)
    >>> shop.recourse_values([3.0, 1.0], {"demand": [2.0, 2.0]})["sold"].round(6).tolist()
    [2.0, 1.0]
    """
    for variable in variables:
        if not isinstance(variable, cp.Variable):
            raise TypeError(f"recourse: got {variable!r}; expected CVXPY variables")
    if not variables:
        raise TypeError("recourse: got no variable; expected at least one")
    return Recourse(variables)


def unpacked(loss: Any, constraints: Any) -> tuple[Any, list[Any], list[Any]]:
    """The loss to minimise, all constraints, and the variables marked by `taut.recourse`."""
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
    marks = [constraint for constraint in stated if isinstance(constraint, Recourse)]
    plain = [constraint for constraint in stated if not isinstance(constraint, Recourse)]
    return loss, plain, [variable for mark in marks for variable in mark.variables]


def leaves_of(parts: Sequence[Any], kind: str) -> list[Any]:
    """The "variables" or "parameters" in the order of their creation, as in a stream."""
    leaves = {leaf.id: leaf for part in parts for leaf in getattr(part, kind)()}
    return [leaves[key] for key in sorted(leaves)]


def named(argument: str, names: Any, leaves: list[Any], kind: str) -> list[Any]:
    """The leaves that an argument lists, or names; `kind` says in errors what they are."""
    names = [names] if isinstance(names, (str, cp.Variable, cp.Parameter)) else names
    if not isinstance(names, Iterable):  # a leaf could be iterated over
        raise TypeError(f"{argument}: got {names!r}; expected a list of {kind} or their names")
    by_name = {leaf.name(): leaf for leaf in leaves}
    chosen = []
    for name in names:
        leaf = by_name.get(name) if isinstance(name, str) else name
        if not any(leaf is known for known in leaves):
            expected = ", ".join(by_name) or "none"
            raise ValueError(f"{argument}: got {name}; expected {kind} of the model: {expected}")
        chosen.append(leaf)
    return chosen


def bound_constraints(variable: Any) -> list[Any]:
    """The constraints that stand for bounds that are expressions: `bounds=[0, limit]`."""
    low, high = variable.attributes.get("bounds") or (None, None)
    lower = [variable >= low] if isinstance(low, cp.Expression) else []
    return [*lower, variable <= high] if isinstance(high, cp.Expression) else lower


def parameters_of(part: Any) -> list[Any]:
    """The parameters of a part, without those in bounds of its variables, which CVXPY counts."""
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


def checked(
    loss: Any, stated: list[Any], argument: str = "loss"
) -> tuple[Any, list[Any], list[Any]]:
    """The loss, the constraints with bounds that are expressions, and their variables. All are
    found to be convex for the values that parameters may have.

    `argument` is named in errors if there is no variable.
    """
    variables = leaves_of([loss, *stated], "variables")
    stated = [*stated, *(bound for v in variables for bound in bound_constraints(v))]
    if loss.size != 1:
        raise ValueError(f"loss: got an expression of shape {loss.shape}; expected a scalar")
    if not variables:
        raise ValueError(
            f"{argument}: got no CVXPY variable in loss or constraints; expected at least one "
            "decision variable"
        )
    for variable in variables:
        wrong = [name for name in _REFUSED if variable.attributes.get(name)]
        if wrong:
            raise ValueError(
                f"variable {variable.name()}: got {wrong[0]}=True; expected real variables that "
                "are not restricted to whole numbers"
            )
    parameters = leaves_of([loss, *stated], "parameters")
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
    if loss.is_complex():
        raise ValueError(f"loss: got the complex expression {loss}; expected a real one")
    if not cp.Problem(cp.Minimize(cp.sum(loss)), stated).is_dcp():
        raise ValueError(_explained(loss, stated))
    return loss, stated, variables


def _explained(loss: Any, constraints: list[Any]) -> str:
    """CVXPY's explanation, of the loss or else of the constraints; and parameters whose bounds have
    one sign, which CVXPY's rules do not read from bounds."""
    which = "constraints" if loss.is_convex() else "loss"
    message = build_non_disciplined_error_msg(cp.Problem(cp.Minimize(loss), constraints), "DCP")
    text = (
        f"{which}: CVXPY's rules do not prove convexity; expected disciplined convex programming. "
        f"{message}"
    )
    hints = []
    for parameter in leaves_of([loss, *constraints], "parameters"):
        low, high = limits(parameter)
        if np.all(low >= 0) and not parameter.is_nonneg():
            hints.append(f"nonneg=True to parameter {parameter.name()}")
        if np.all(high <= 0) and not parameter.is_nonpos():
            hints.append(f"nonpos=True to parameter {parameter.name()}")
    if not hints:
        return text
    return (
        f"{text}\nCVXPY does not read the sign of a parameter from its bounds: add "
        f"{', '.join(hints)}."
    )
