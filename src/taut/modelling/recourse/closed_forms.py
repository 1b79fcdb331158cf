"""Variables that are chosen after the data of a round and whose best value is an expression.

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

from ..translation.inequalities import bounds_of
from ..translation.reading import bound_constraints
from .inner_program import LinearIn, NoClosedForm, has, linear_rows

PLAIN = ("nonneg", "nonpos", "pos", "neg", "bounds")
"""Attributes that are bounds; a recourse variable may have no others."""


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
        variable, best, constraints = _first_solved(left, loss, constraints, fixed)
        left = [other for other in left if other is not variable]
        swap = {id(variable): best}
        loss, *constraints = (
            part.tree_copy(dict(swap)) if has(part, [variable]) else part
            for part in (loss, *constraints)
        )
        values[variable] = best
        if any(has(part, [variable]) for part in (loss, *constraints)):
            raise NoClosedForm(
                f"{variable.name()} is inside an atom whose parts cannot be replaced"
            )
    return Minimised(loss, constraints, values)


def _first_solved(
    variables: list[Any], loss: Any, constraints: list[Any], fixed: Mapping[int, Any]
) -> tuple[Any, Any, list[Any]]:
    """The first variable that has a best value, that value, and the constraints without those that
    define it."""
    reasons = []
    for variable in variables:
        try:
            return variable, *_solved(variable, loss, constraints, fixed)
        except NoClosedForm as reason:
            reasons.append(reason)
    raise reasons[0]


def variable_bounds(variable: Any) -> list[Any]:
    """The attributes of a variable as constraints."""
    others = [
        name
        for name, value in variable.attributes.items()
        if name not in PLAIN and value not in (None, False)
    ]
    if others:
        raise NoClosedForm(f"{variable.name()} has the attribute {others[0]}")
    return [*bound_constraints(variable), *bounds_of(variable)]


class Bound(NamedTuple):
    """Rows `matrix @ t + rest <= 0` (or equal to 0) of one constraint; `rest` does not contain
    t."""

    constraint: Any
    matrix: Any
    rest: Any
    equality: bool


def _solved(
    variable: Any, loss: Any, constraints: list[Any], fixed: Mapping[int, Any]
) -> tuple[Any, list[Any]]:
    """The best value of a variable, and the constraints without those that define it."""
    mine = [constraint for constraint in constraints if has(constraint, [variable])]
    bounds = [bound for each in mine if (bound := separated(each, variable, fixed)) is not None]
    equations = [bound for bound in bounds if bound.equality]
    if equations:
        return _defined(variable, equations), _without(constraints, equations)
    for sign in (-1.0, 1.0):  # bounded from below, from above
        used = [bound for bound in bounds if _one_sided(bound.matrix, sign)]
        if not used or not _covered(used, variable):
            continue
        best, rest = _extreme(variable, used, sign), _without(constraints, used)
        if _monotone(variable, best, sign, [loss, *(c for c in rest if has(c, [variable]))]):
            return best, rest
    raise NoClosedForm(
        f"{variable.name()} has no bound such as t >= g(x) that keeps the loss from decreasing "
        "without end, or loss and other constraints are not monotone in it"
    )


def _without(constraints: list[Any], bounds: list[Bound]) -> list[Any]:
    return [c for c in constraints if not any(c is bound.constraint for bound in bounds)]


def separated(constraint: Any, variable: Any, fixed: Mapping[int, Any]) -> Bound | None:
    """The part of a constraint that is linear in the variable alone, and the rest; None if it has
    no such form."""
    rows = linear_rows(constraint)
    form = None if rows is None else LinearIn([variable], fixed).finite(rows.expression)
    if rows is None or form is None:
        return None
    matrix = sparse.csr_matrix(form.matrix)
    matrix.eliminate_zeros()
    rest = rows.expression.tree_copy({id(variable): cp.Constant(np.zeros(variable.shape))})
    return Bound(constraint, matrix, rest, rows.equality)


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
    for bound in used:
        flat = cp.reshape(bound.rest, (bound.rest.size,), order="C")
        factors = -1 / bound.matrix.data
        alike = np.all(factors == factors[0])
        parts.append(float(factors[0]) * flat if alike else cp.multiply(factors, flat))
        entries.append(bound.matrix.indices)
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
    if best.is_nonneg():
        probe = nonneg_wrap(probe)
    elif best.is_nonpos():
        probe = nonpos_wrap(probe)
    loss, *rest = (part.tree_copy({id(variable): probe}) for part in parts)
    return bool(loss.is_convex() and all(part.is_dcp() for part in rest))
