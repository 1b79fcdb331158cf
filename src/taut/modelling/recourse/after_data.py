"""Which variables are chosen after the data of a round, and what a model is without them.

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
from ..translation.reading import leaves_of, named, parameters_of
from .inner_program import LinearIn, NoClosedForm, has, linear_rows, variable_bounds
from .joint_recourse import WithoutRecourse, minimised_jointly


def without_recourse(
    loss: Any, plain: list[Any], marked: list[Any], chosen: Any, fixed: Mapping[int, Any]
) -> WithoutRecourse:
    """Minimise out the variables in `chosen` and those marked by `taut.recourse`, or else those
    that are clearly meant so. `fixed` are the values of parameters that do not change, by id."""
    if chosen is None and not marked:
        return _detected(WithoutRecourse(loss, plain, {}, []), fixed)
    if chosen is not None:
        variables = leaves_of([loss, *plain], "variables")
        marked = [*marked, *named("recourse", chosen, variables, "variables")]
    after = list({variable.id: variable for variable in marked}.values())
    if not after:
        return WithoutRecourse(loss, plain, {}, [])
    try:
        out = _minimised_out(loss, plain, after, fixed) or minimised_jointly(
            loss, plain, after, fixed
        )
    except NoClosedForm as reason:
        raise ValueError(
            f"recourse: got {', '.join(v.name() for v in after)}, which cannot be minimised out "
            f"exactly: {reason}. Expected variables that affine equations define, or that are "
            "bounded from the side from which the loss pushes them, or a linear or convex "
            "quadratic program of these variables whose coefficients in constraints and squares "
            "are numbers"
        ) from None
    if not out.loss.variables() and not any(each.variables() for each in out.constraints):
        raise ValueError(
            "recourse: got all variables of the model; expected at least one that is decided "
            "before the data"
        )
    return out


def chosen_values(
    loss: Any, constraints: list[Any], after: list[Any], values: Mapping[int, Any]
) -> dict[str, Any]:
    """The best values, by name, of variables that are chosen after the data, from CVXPY's solution
    of their program.

    `values` are those of the other variables and of the parameters, by id.
    """
    parts = [loss, *constraints]
    leaves = leaves_of(parts, "variables") + leaves_of(parts, "parameters")
    later = {variable.id: cp.Variable(variable.shape) for variable in after}
    swap = {
        id(leaf): later.get(leaf.id, cp.Constant(np.asarray(values.get(leaf.id, 0.0))))
        for leaf in leaves
    }
    loss, *rows = (part.tree_copy(dict(swap)) for part in parts)
    problem = cp.Problem(cp.Minimize(loss), rows)
    problem.solve(solver=cp.CLARABEL)
    names = [variable.name() for variable in after]
    if problem.status not in (cp.OPTIMAL, cp.OPTIMAL_INACCURATE):
        raise ValueError(
            f"decision: got one for which no choice of {', '.join(names)} satisfies the "
            "constraints of the round; expected a feasible one"
        )
    return {
        name: np.asarray(later[variable.id].value)
        for name, variable in zip(names, after, strict=True)
    }


def _detected(model: WithoutRecourse, fixed: Mapping[int, Any]) -> WithoutRecourse:
    """The model without variables that can only be chosen after the data.

    Variables that are in the loss and share constraints with data with other variables are looked
    at. If such a variable could be minimised out, and has bounds of its own or shares constraints
    without data, it can be either, and the model is refused with the question when it is chosen. If
    it has none of both, it cannot be a decision, and is minimised out.
    """
    shared = [constraint for constraint in model.constraints if len(constraint.variables()) > 1]
    varying = {v.id for c in shared if _varies(c, fixed) for v in c.variables()}
    if not varying:
        return model
    steady = {v.id for c in shared if not _varies(c, fixed) for v in c.variables()}
    for variable in [v for v in leaves_of([model.loss], "variables") if v.id in varying]:
        try:
            bounded = [*model.constraints, *variable_bounds(variable)]
        except NoClosedForm:
            continue
        out = _without(variable, model, bounded, fixed)
        if out is None or not out.loss.variables():
            continue
        name = variable.name()
        if variable.id in steady or _decidable(variable, model.constraints, fixed):
            also = (
                "also in constraints without data"
                if variable.id in steady
                else "only in constraints with data, and has bounds"
            )
            raise ValueError(
                f"variable {name}: got a variable of the loss that meets other variables {also}; "
                "is it decided before the data of a round are known, or chosen afterwards, like "
                "an epigraph or slack variable? The two problems differ. Pass recourse=[] if all "
                f"variables are decided before, or recourse=[{name!r}] (or taut.recourse({name}) "
                f"among the constraints) if {name} is chosen afterwards"
            )
        note = (
            f"{name}: chosen after the data of a round, and minimised out, because nothing else "
            "bounds it; pass recourse=[] if it is decided before"
        )
        model = out._replace(notes=[*model.notes, note])
    return model


def _varies(constraint: Any, fixed: Mapping[int, Any]) -> bool:
    return any(parameter.id not in fixed for parameter in parameters_of(constraint))


def _decidable(variable: Any, constraints: list[Any], fixed: Mapping[int, Any]) -> bool:
    """Whether the variable has bounds of its own on both sides, so that it could be a decision."""
    sides = [bool(np.all(np.isfinite(edge))) for edge in limits(variable)]
    for constraint in constraints:
        only = [v.id for v in constraint.variables()] == [variable.id]
        if not only or _varies(constraint, fixed):
            continue
        bound = separated(constraint, variable, fixed)
        if bound is None:
            return True  # a norm or another set
        sides = [
            sides[0] or bool(np.any(bound.matrix.data < 0)),
            sides[1] or bool(np.any(bound.matrix.data > 0)),
        ]
    return all(sides)


def _minimised_out(
    loss: Any, constraints: list[Any], after: list[Any], fixed: Mapping[int, Any]
) -> WithoutRecourse | None:
    """The model with each variable replaced by its best value; None if one has no such value."""
    notes = [f"{v.name()}: chosen after the data of a round, and minimised out" for v in after]
    bounded = [*constraints, *(bound for v in after for bound in variable_bounds(v))]
    model, left = WithoutRecourse(loss, bounded, {}, notes), list(after)
    while left:
        for place, variable in enumerate(left):
            out = _without(variable, model, model.constraints, fixed)
            if out is not None:
                model, left = out, left[:place] + left[place + 1 :]
                break
        else:
            return None
    return model


def _without(
    variable: Any, model: WithoutRecourse, constraints: list[Any], fixed: Mapping[int, Any]
) -> WithoutRecourse | None:
    """The model with these constraints and without the variable, if it has a best value."""
    mine = [constraint for constraint in constraints if has(constraint, [variable])]
    bounds = [bound for each in mine if (bound := separated(each, variable, fixed)) is not None]
    best, used = _best(variable, bounds, [model.loss, *mine])
    if best is None:
        return None

    def replaced(part: Any) -> Any:
        return part.tree_copy({id(variable): best}) if has(part, [variable]) else part

    rest = [c for c in constraints if not any(c is bound.constraint for bound in used)]
    loss, rest = replaced(model.loss), [replaced(constraint) for constraint in rest]
    if any(has(part, [variable]) for part in (loss, *rest)):
        return None  # it is inside an atom whose parts cannot be replaced
    values = {other: replaced(value) for other, value in model.values.items()}
    return WithoutRecourse(loss, rest, {variable: best} | values, model.notes)


class Bound(NamedTuple):
    """Rows `matrix @ t + rest <= 0` (or == 0) of one constraint; `rest` is without t."""

    constraint: Any
    matrix: Any
    rest: Any
    equality: bool


def _best(variable: Any, bounds: list[Bound], parts: list[Any]) -> tuple[Any, list[Bound]]:
    """The best value of a variable, and the bounds that define it; None if there is none.

    `parts` are the loss, and the constraints that contain the variable.
    """
    equations = [bound for bound in bounds if bound.equality]
    if equations:
        return _defined(variable, equations), equations
    for sign in (-1.0, 1.0):  # bounded from below, from above
        used = [
            bound
            for bound in bounds
            if np.all(np.diff(bound.matrix.indptr) == 1)  # each row bounds one entry
            and np.all(np.sign(bound.matrix.data) == sign)
        ]
        if len({int(i) for bound in used for i in bound.matrix.indices}) < variable.size:
            continue
        best = _extreme(variable, used, sign)
        rest = [part for part in parts if not any(part is bound.constraint for bound in used)]
        if _monotone(variable, best, sign, rest):
            return best, used
    return None, []


def separated(constraint: Any, variable: Any, fixed: Mapping[int, Any]) -> Bound | None:
    """The part of a constraint that is linear in the variable alone and the rest, or None."""
    rows = linear_rows(constraint)
    form = None if rows is None else LinearIn([variable], fixed).finite(rows.expression)
    if rows is None or form is None:
        return None
    matrix = sparse.csr_matrix(form.matrix)
    matrix.eliminate_zeros()
    rest = rows.expression.tree_copy({id(variable): cp.Constant(np.zeros(variable.shape))})
    return Bound(constraint, matrix, rest, rows.equality)


def _defined(variable: Any, equations: list[Bound]) -> Any:
    """The variable that square equations define: matrix @ t = -rest; None if they do not."""
    matrix = sparse.vstack([equation.matrix for equation in equations]).toarray()
    if matrix.shape[0] != variable.size or np.linalg.matrix_rank(matrix) < variable.size:
        return None
    rest = [cp.vec(equation.rest, order="C") for equation in equations]
    right = cp.hstack(rest) if len(rest) > 1 else rest[0]
    if np.array_equal(matrix, matrix[0, 0] * np.eye(variable.size)):
        return cp.reshape(-1 / matrix[0, 0] * right, variable.shape, order="C")
    inverse = np.linalg.inv(matrix)
    inverse[np.abs(inverse) <= 1e-14 * np.abs(inverse).max()] = 0
    return cp.reshape(-inverse @ right, variable.shape, order="C")


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
        bounds, where = (cp.hstack(parts) if len(parts) > 1 else parts[0]), np.concatenate(entries)
        rows = [np.flatnonzero(where == i) for i in order]
        layers = [
            bounds[np.array([row[min(k, len(row) - 1)] for row in rows])]
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
