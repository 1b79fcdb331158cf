"""Variables that are chosen after the data of a round: minimised out of the model, exactly, before
it is built.

An epigraph variable `t >= r, t >= -r`, a slack `s >= g, s >= 0` or the two parts of `p - n == r`
are not decisions: whoever writes them means the smallest value that the constraints allow once the
data are known. If loss and constraints do not decrease in such a variable, that value is the
maximum of its lower bounds, and the variable is replaced by it. The gradient of the result is that
of the round's optimal value (envelope theorem). Variables without such a value are left to
`joint_recourse`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import cvxpy as cp
import numpy as np
from cvxpy.atoms.affine.wraps import nonneg_wrap, nonpos_wrap
from scipy import sparse

from ..translation.attributes import limits
from .inner_program import LinearIn, NoClosedForm, has, stated_rows

__all__ = [
    "Bound",
    "Minimised",
    "Recourse",
    "minimised_out",
    "recourse",
    "separated",
    "variable_bounds",
]

PLAIN = ("nonneg", "nonpos", "pos", "neg", "bounds")
"""Attributes that are bounds; a recourse variable may have no others."""


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


class Minimised(NamedTuple):
    """A model without the variables that are chosen after the data."""

    loss: Any
    constraints: list[Any]
    values: dict[Any, Any]
    """For each eliminated variable the expression of its best value, which may contain variables
    eliminated later."""


def minimised_out(
    loss: Any, constraints: list[Any], variables: list[Any], fixed: Mapping[int, Any]
) -> Minimised:
    """Loss and constraints with the variables replaced by their best values.

    Arguments:
        loss: the loss expression.
        constraints: all constraints.
        variables: those that are chosen after the data.
        fixed: values of the parameters that do not change with the round, by id.
    """
    for variable in variables:
        constraints = [*constraints, *variable_bounds(variable)]
    values: dict[Any, Any] = {}
    left = list(variables)
    while left:
        found = None
        reasons = []
        for variable in left:
            try:
                found = variable, _solved(variable, loss, constraints, fixed, left)
                break
            except NoClosedForm as reason:
                reasons.append(str(reason))
        if found is None:
            raise NoClosedForm(reasons[0])
        variable, (best, kept) = found
        left = [one for one in left if one is not variable]
        swap = {id(variable): best}
        loss = loss.tree_copy(dict(swap))
        constraints = [one.tree_copy(dict(swap)) if has(one, [variable]) else one for one in kept]
        values[variable] = best
        if has(loss, [variable]) or any(has(one, [variable]) for one in constraints):
            raise NoClosedForm(
                f"{variable.name()} is inside an atom whose parts cannot be replaced"
            )
    return Minimised(loss, constraints, values)


def variable_bounds(variable: Any) -> list[Any]:
    """The attributes of a variable as constraints."""
    others = [
        name
        for name, value in variable.attributes.items()
        if name not in PLAIN and value not in (None, False)
    ]
    if others:
        raise NoClosedForm(f"{variable.name()} has the attribute {others[0]}")
    low, high = variable.attributes.get("bounds") or (None, None)
    constraints = [variable >= low] if isinstance(low, cp.Expression) else []
    constraints += [variable <= high] if isinstance(high, cp.Expression) else []
    lower, upper = limits(variable)
    for edge, sign in ((lower, 1.0), (upper, -1.0)):
        finite = np.isfinite(edge)
        if finite.all():
            constraints.append(sign * variable >= sign * edge)
        elif finite.any():
            constraints.append(sign * variable[finite] >= sign * edge[finite])
    return constraints


class Bound(NamedTuple):
    """Rows `matrix @ t + rest <= 0` (or equal to 0) of one constraint; `rest` does not contain
    t."""

    constraint: Any
    matrix: Any
    rest: Any
    equality: bool


def _solved(
    variable: Any, loss: Any, constraints: list[Any], fixed: Mapping[int, Any], later: list[Any]
) -> tuple[Any, list[Any]]:
    """The best value of a variable, and the constraints without those that define it."""
    mine = [one for one in constraints if has(one, [variable])]
    bounds = [separated(one, variable, fixed) for one in mine]
    equations = [one for one in bounds if one is not None and one.equality]
    if equations:
        return _defined(variable, equations), [
            one for one in constraints if not any(one is e.constraint for e in equations)
        ]
    inequalities = [one for one in bounds if one is not None]
    for sign in (-1.0, 1.0):  # bounded from below, from above
        used = [one for one in inequalities if _one_sided(one.matrix, sign)]
        if not used or not _covered(used, variable):
            continue
        best = _extreme(variable, used, sign)
        rest = [one for one in constraints if not any(one is u.constraint for u in used)]
        if _monotone(variable, best, sign, [loss, *(one for one in rest if has(one, [variable]))]):
            return best, rest
    raise NoClosedForm(
        f"{variable.name()} has no bound such as t >= g(x) that keeps the loss from decreasing "
        "without end, or loss and other constraints are not monotone in it"
    )


def separated(constraint: Any, variable: Any, fixed: Mapping[int, Any]) -> Bound | None:
    """The part of a constraint that is linear in the variable alone, and the rest; None if it has
    no such form."""
    stated = stated_rows(constraint)
    if stated is None:
        return None
    expression, equality = stated
    form = LinearIn([variable], fixed).finite(expression)
    if form is None:
        return None
    matrix = sparse.csr_matrix(form.matrix)
    matrix.eliminate_zeros()
    rest = expression.tree_copy({id(variable): cp.Constant(np.zeros(variable.shape))})
    return Bound(constraint, matrix, rest, equality)


def _defined(variable: Any, equations: list[Bound]) -> Any:
    """The variable that square equations define: matrix @ t = -rest."""
    matrix = sparse.vstack([equation.matrix for equation in equations]).toarray()
    if matrix.shape[0] != variable.size or np.linalg.matrix_rank(matrix) < variable.size:
        raise NoClosedForm(
            f"{variable.name()} is part of equations that do not define all of its "
            f"{variable.size} entries"
        )
    rest = [cp.vec(equation.rest, order="C") for equation in equations]
    right = cp.hstack(rest) if len(rest) > 1 else rest[0]
    if np.array_equal(matrix, matrix[0, 0] * np.eye(variable.size)):
        return cp.reshape(-1 / matrix[0, 0] * right, variable.shape, order="C")
    inverse = np.linalg.inv(matrix)
    inverse[np.abs(inverse) <= 1e-14 * np.abs(inverse).max()] = 0
    return cp.reshape(-inverse @ right, variable.shape, order="C")


def _one_sided(matrix: Any, sign: float) -> bool:
    """Whether each row bounds one entry, from below if the sign is -1."""
    counts = np.diff(matrix.indptr)
    return bool(np.all(counts == 1) and np.all(np.sign(matrix.data) == sign))


def _covered(used: list[Bound], variable: Any) -> bool:
    return len(np.unique(np.concatenate([bound.matrix.indices for bound in used]))) == variable.size


def _extreme(variable: Any, used: list[Bound], sign: float) -> Any:
    """The largest lower bound of each entry, or the smallest upper bound."""
    parts, entries = [], []
    for one in used:
        flat = (
            cp.vec(one.rest, order="C") if one.rest.ndim else cp.reshape(one.rest, (1,), order="C")
        )
        factors = -1 / one.matrix.data
        parts.append(
            float(factors[0]) * flat
            if np.all(factors == factors[0])
            else cp.multiply(factors, flat)
        )
        entries.append(one.matrix.indices)
    largest = cp.maximum if sign < 0 else cp.minimum
    order = np.arange(variable.size)
    if all(np.array_equal(where, order) for where in entries):
        layers = parts
    else:
        whole, where = (cp.hstack(parts) if len(parts) > 1 else parts[0]), np.concatenate(entries)
        rows = [np.flatnonzero(where == i) for i in order]
        layers = [
            whole[np.array([row[min(k, len(row) - 1)] for row in rows])]
            for k in range(max(map(len, rows)))
        ]
    best = layers[0] if len(layers) == 1 else largest(*layers)
    return cp.reshape(best, variable.shape, order="C")


def _monotone(variable: Any, best: Any, sign: float, parts: list[Any]) -> bool:
    """Whether CVXPY's rules prove that loss and constraints do not decrease in the variable
    (increase, if the sign is 1).

    They accept the maximum of two other variables in its place only then.
    """
    first, second = cp.Variable(variable.shape), cp.Variable(variable.shape)
    probe = cp.maximum(first, second) if sign < 0 else cp.minimum(first, second)
    probe = (
        nonneg_wrap(probe)
        if best.is_nonneg()
        else nonpos_wrap(probe)
        if best.is_nonpos()
        else probe
    )
    copies = [part.tree_copy({id(variable): probe}) for part in parts]
    loss, *rest = copies
    return bool(loss.is_convex() and all(part.is_dcp() for part in rest))
