"""Which variables are chosen after the data of a round: those the user marks, and those that can be
nothing else."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import cvxpy as cp
import numpy as np

from ..translation.attributes import limits
from ..translation.reading import leaves_of, parameters_of
from .closed_forms import Minimised, minimised_out, separated, variable_bounds
from .inner_program import NoClosedForm, has
from .joint_recourse import Condition, minimised_jointly


class WithoutRecourse(NamedTuple):
    """The model without variables that are chosen after the data."""

    loss: Any
    constraints: list[Any]
    values: dict[Any, Any]
    """The best value of each of these variables, as an expression of decision and data; None if a
    program is solved for it."""
    notes: list[str]
    program: Any = None
    """Loss and constraints of the program that is solved for variables without such an
    expression."""
    induced: frozenset[int] = frozenset()
    """CVXPY's ids of constraints that were added, because there is no feasible choice where they do
    not hold."""
    conditions: tuple[Condition, ...] = ()
    """What must hold on the whole domain and for all data."""


def without_recourse(
    loss: Any, plain: list[Any], marked: list[Any], chosen: Any, fixed: Mapping[int, Any]
) -> WithoutRecourse:
    """Minimise out the variables in `chosen` and those marked by `taut.recourse`, or else those
    that are clearly meant so. `fixed` are the values of parameters that do not change, by id.

    If `chosen` is None and nothing is marked, variables that are in the loss and share constraints
    with data with other variables are looked at. If such a variable could be minimised out, and has
    bounds of its own or shares constraints without data, it can be either, and the model is refused
    with the question when it is chosen. If it has none of both, it cannot be a decision, and is
    minimised out.
    """
    if chosen is None and not marked:
        return _detected(loss, plain, fixed)
    after = [*marked, *_named(chosen, [loss, *plain])]
    after = list({variable.id: variable for variable in after}.values())
    if not after:
        return WithoutRecourse(loss, plain, {}, [])
    try:
        minimised = minimised_out(loss, plain, after, fixed)
    except NoClosedForm:
        return _joint(loss, plain, after, fixed)
    return _result(
        minimised,
        [f"{v.name()}: chosen after the data of a round, and minimised out" for v in after],
    )


def _joint(
    loss: Any, constraints: list[Any], after: list[Any], fixed: Mapping[int, Any]
) -> WithoutRecourse:
    """The model without variables that are chosen together, as a linear or quadratic program."""
    names = ", ".join(v.name() for v in after)
    bounded = [*constraints, *(constraint for v in after for constraint in variable_bounds(v))]
    try:
        joint = minimised_jointly(loss, bounded, after, fixed)
    except NoClosedForm as reason:
        raise ValueError(
            f"recourse: got {names}, which cannot be minimised out exactly: {reason}. Expected "
            "variables that affine equations define, or that are bounded from the side from "
            "which the loss pushes them, or a linear or convex quadratic program of these "
            "variables whose coefficients in constraints and squares are numbers"
        ) from None
    _refuse_all(joint.loss, joint.constraints)
    how = "the largest of the products with all vertices of its multipliers"
    if joint.method == "solver":
        how = "an interior-point method inside each round"
    notes = [f"{names}: chosen after the data of a round, and minimised out as a program, by {how}"]
    if joint.induced:
        notes.append(
            f"choice of {names}: constraints on the decision, without which no choice is "
            "feasible; those that always hold are not played"
        )
    return WithoutRecourse(
        joint.loss,
        joint.constraints,
        dict.fromkeys(after),
        notes,
        (loss, [constraint for constraint in bounded if has(constraint, after)]),
        frozenset(constraint.id for constraint in joint.induced),
        tuple(joint.conditions),
    )


def _result(minimised: Minimised, notes: list[str]) -> WithoutRecourse:
    values: dict[Any, Any] = {}
    for variable in reversed(list(minimised.values)):
        swap = {id(other): value for other, value in values.items()}
        values[variable] = minimised.values[variable].tree_copy(swap)
    _refuse_all(minimised.loss, minimised.constraints)
    return WithoutRecourse(minimised.loss, minimised.constraints, values, notes)


def _refuse_all(loss: Any, constraints: list[Any]) -> None:
    if not loss.variables() and not any(constraint.variables() for constraint in constraints):
        raise ValueError(
            "recourse: got all variables of the model; expected at least one that is decided "
            "before the data"
        )


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


def _named(chosen: Any, parts: list[Any]) -> list[Any]:
    """The variables of the argument `recourse`, which may be given by name."""
    if chosen is None:
        return []
    chosen = [chosen] if isinstance(chosen, (str, cp.Variable)) else chosen
    if not isinstance(chosen, Iterable):
        raise TypeError(f"recourse: got {chosen!r}; expected a list of variables or their names")
    by_name = {variable.name(): variable for variable in leaves_of(parts, "variables")}
    variables = []
    for name in chosen:
        variable = by_name.get(name) if isinstance(name, str) else name
        if not any(variable is known for known in by_name.values()):
            raise ValueError(
                f"recourse: got {name}; expected variables of the model: {', '.join(by_name)}"
            )
        variables.append(variable)
    return variables


def _detected(loss: Any, constraints: list[Any], fixed: Mapping[int, Any]) -> WithoutRecourse:
    """The model without variables that can only be chosen after the data."""
    shared = [constraint for constraint in constraints if len(constraint.variables()) > 1]
    steady = {v.id for c in shared if not _varies(c, fixed) for v in c.variables()}
    varying = {v.id for c in shared if _varies(c, fixed) for v in c.variables()}
    notes: list[str] = []
    values: dict[Any, Any] = {}
    for variable in [v for v in leaves_of([loss], "variables") if v.id in varying]:
        try:
            minimised = minimised_out(loss, constraints, [variable], fixed)
        except NoClosedForm:
            continue
        if not minimised.loss.variables():
            continue
        name = variable.name()
        if variable.id in steady or _decidable(variable, constraints, fixed):
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
        loss, constraints = minimised.loss, minimised.constraints
        values |= minimised.values
        notes.append(
            f"{name}: chosen after the data of a round, and minimised out, because nothing else "
            "bounds it; pass recourse=[] if it is decided before"
        )
    if not values:
        return WithoutRecourse(loss, constraints, {}, [])
    return _result(Minimised(loss, constraints, values), notes)


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
