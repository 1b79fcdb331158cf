"""Several variables that are chosen after the data together: the value of their linear or quadratic
program.

Variables that share no constraint are separate programs. If a program is linear and its multipliers
have few vertices, its value is the largest of as many linear functions of the right-hand sides, an
ordinary CVXPY expression. Otherwise it is an `InnerMinimum`, which is solved in every round.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import cvxpy as cp
import numpy as np
from scipy import sparse
from scipy.optimize import linprog
from scipy.sparse.csgraph import connected_components

from ...engine import Array
from ..translation.attributes import constant_value
from .inner_minimum import Inner, InnerMinimum
from .inner_program import InnerProgram, NoClosedForm, has, inner_program, variable_bounds
from .vertices import ZERO, Multipliers, TooMany, cone_rays, independent, multipliers, null_space

VERTICES = 200
"""Linear programs whose multipliers have at most this many vertices are replaced by a maximum."""
LARGEST = 200
"""Programs with more variables or rows than this are not solved inside a round."""


class Condition(NamedTuple):
    """What must hold for all decisions and data, so that a program has a solution."""

    names: str
    constraint: Any
    why: str

    def __str__(self) -> str:
        return f"a choice of {self.names}"


class WithoutRecourse(NamedTuple):
    """The model without variables that are chosen after the data."""

    loss: Any
    constraints: list[Any]
    values: dict[Any, Any]
    """The best value of each of these variables, as an expression of decision and data; None if a
    program is solved for it."""
    notes: list[str]
    program: Any = None
    """Loss and constraints of the program for variables without an expression."""
    induced: frozenset[int] = frozenset()
    """CVXPY's ids of added constraints, outside of which no choice is feasible."""
    conditions: tuple[Condition, ...] = ()
    """What must hold on the whole domain and for all data."""


class _Block(NamedTuple):
    """Programs with the same numbers and other right-hand sides."""

    columns: Array
    """(program, entry)"""
    rows: Array
    """(program, row), equations first"""
    equations: int


def minimised_jointly(
    loss: Any, constraints: list[Any], after: list[Any], fixed: Mapping[int, Any]
) -> WithoutRecourse:
    """Loss and constraints without the variables `after`.

    `fixed` are the values of parameters that do not change with the round, by id. Raises
    `NoClosedForm` if they cannot be minimised out.
    """
    bounded = [*constraints, *(bound for v in after for bound in variable_bounds(v))]
    mine = [constraint for constraint in bounded if has(constraint, after)]
    program = inner_program(loss, mine, after, fixed)
    names = ", ".join(variable.name() for variable in after)
    if max(program.matrix.shape) > 50 * LARGEST:
        raise NoClosedForm(f"the program of {names} has {program.matrix.shape[0]} rows")
    total, induced, conditions = program.rest, list[Any](), list[Condition]()
    how = "the largest of the products with all vertices of its multipliers"
    for k in np.flatnonzero(~np.any(program.matrix, axis=1)):  # all variables have gone from these
        part = program.right(np.array([k]))
        induced.append(part == 0 if program.equality[k] else part <= 0)
    for block in _blocks(program):
        value, exact = _value(program, block, names, conditions)
        total = total + value
        if exact is None:
            how, exact = "an interior-point method inside each round", _cone(program, block, names)
        induced += _induced(program, block, exact, names)
    notes = [f"{names}: chosen after the data of a round, and minimised out as a program, by {how}"]
    if induced:
        notes.append(
            f"choice of {names}: constraints on the decision, without which no choice is "
            "feasible; those that always hold are not played"
        )
    for constraint in induced:
        constraint.set_label(f"choice of {names}")
    return WithoutRecourse(
        total,
        [*(constraint for constraint in constraints if not has(constraint, after)), *induced],
        dict.fromkeys(after),
        notes,
        (loss, mine),
        frozenset(constraint.id for constraint in induced),
        tuple(conditions),
    )


def _blocks(program: InnerProgram) -> list[_Block]:
    """Programs that share no row, those with the same numbers together."""
    rows, n = program.matrix.shape
    links = sparse.csr_matrix(program.matrix != 0)
    square = sparse.csr_matrix(program.quadratic != 0)
    graph = sparse.bmat([[square, links.T], [links, None]]) if rows else square
    count, label = connected_components(graph, directed=False)
    by_rows: dict[Any, list[tuple[Array, Array, int]]] = {}
    for k in range(count):
        columns, own = np.flatnonzero(label[:n] == k), np.flatnonzero(label[n:] == k)
        if not len(columns):
            continue  # a row without variables
        order = np.concatenate([own[program.equality[own]], own[~program.equality[own]]])
        equations = int(program.equality[own].sum())
        key = (
            equations,
            len(columns),
            program.matrix[np.ix_(order, columns)].tobytes(),
            program.quadratic[np.ix_(columns, columns)].tobytes(),
            program.costs[columns].tobytes() if program.changing_costs is None else b"",
        )
        by_rows.setdefault(key, []).append((columns, order, equations))
    return [
        _Block(
            np.stack([block[0] for block in same]),
            np.stack([block[1] for block in same]).astype(int),
            same[0][2],
        )
        for same in by_rows.values()
    ]


def _value(
    program: InnerProgram, block: _Block, names: str, conditions: list[Condition]
) -> tuple[Any, Multipliers | None]:
    """The value of the block's programs, with their multipliers if they were enumerated."""
    columns = block.columns[0]
    matrix = program.matrix[np.ix_(block.rows[0], columns)]
    quadratic = program.quadratic[np.ix_(columns, columns)]
    changing = program.changing_costs is not None and any(
        _varies(program.changing_costs[int(k)]) for k in block.columns.ravel()
    )
    if not changing and not np.any(quadratic):
        numbers = program.costs[columns]
        try:
            enumerated = multipliers(matrix, numbers, block.equations)
        except TooMany:
            enumerated = None
        if enumerated is not None and not len(enumerated.points):
            raise NoClosedForm(f"{names} can be chosen so that the loss decreases without end")
        if (
            enumerated is not None
            and len(enumerated.points) <= VERTICES
            and _complete(matrix, numbers, block.equations, enumerated)
        ):
            return _largest(program, block, enumerated.points), enumerated
    if max(matrix.shape) > LARGEST:
        raise NoClosedForm(
            f"the program of {names} has {matrix.shape[1]} variables and {matrix.shape[0]} rows, "
            f"expected at most {LARGEST}"
        )
    constant = np.stack([program.costs[places] for places in block.columns])
    costs: Any = cp.Constant(constant)
    if changing:
        picked = cp.reshape(
            program.changing_costs[block.columns.ravel()], block.columns.shape, order="C"
        )
        costs = picked + constant
    conditions += _bounded(matrix, quadratic, block, costs, names)
    equal, limits = block.rows[:, : block.equations], block.rows[:, block.equations :]
    used = independent(matrix[: block.equations])
    above, below = matrix[used], matrix[block.equations :]
    # An equation 0 = 0 and a limit -1 <= 0 stand for none.
    none = np.zeros((1, matrix.shape[1]))
    first, second = np.zeros((len(block.rows), 1)), -np.ones((len(block.rows), 1))
    sides = (
        program.right(equal[:, used]) if used else cp.Constant(first),
        program.right(limits) if limits.size else cp.Constant(second),
    )
    above, below = above if used else none, below if limits.size else none
    inner = Inner(quadratic, np.concatenate([above, below]), len(above), names)
    return InnerMinimum(*sides, costs, inner), None


def _varies(expression: Any) -> bool:
    value = constant_value(expression)
    return value is None or bool(np.any(value != 0))


def _largest(program: InnerProgram, block: _Block, points: Array) -> Any:
    """The sum over the programs of the largest product of a vertex with the right-hand sides."""
    p = block.equations
    values = program.weighted(block.rows[:, p:], points[:, p:])
    if p:
        values = program.weighted(block.rows[:, :p], points[:, :p]) + values
    if isinstance(values, np.ndarray):
        return cp.Constant(values.max(axis=1).sum())
    return cp.sum(cp.max(values, axis=1)) if len(points) > 1 else cp.sum(values)


def _complete(matrix: Array, costs: Array, equations: int, known: Multipliers) -> bool:
    """A check of the vertices: whether they give the values of some linear programs."""
    random = np.random.default_rng(len(matrix))
    for _ in range(4):
        y, slack = (
            random.normal(size=matrix.shape[1]),
            np.maximum(random.normal(size=len(matrix)), 0),
        )
        slack[:equations] = 0
        rows = -matrix @ y - slack
        sides = [(matrix[equations:], -rows[equations:]), (matrix[:equations], -rows[:equations])]
        systems = [part if len(part[0]) else (None, None) for part in sides]
        solved = linprog(costs, *systems[0], *systems[1], bounds=(None, None))
        if solved.status != 0 or abs(solved.fun - float(np.max(known.points @ rows))) > 1e-7 * (
            1 + abs(solved.fun)
        ):
            return False
    return True


def _cone(program: InnerProgram, block: _Block, names: str) -> Multipliers:
    """The multipliers that show that a choice is impossible."""
    try:
        return multipliers(
            program.matrix[np.ix_(block.rows[0], block.columns[0])], None, block.equations
        )
    except TooMany:
        raise NoClosedForm(
            f"the program of {names} is too large to prove that there always is a feasible choice"
        ) from None


def _induced(program: InnerProgram, block: _Block, known: Multipliers, names: str) -> list[Any]:
    """Constraints without which there is no feasible choice, unless they hold by themselves."""
    constraints = []
    for kind, vectors in (("ray", known.rays), ("line", known.lines)):
        for vector in vectors:
            used = np.flatnonzero(vector)
            for rows in block.rows:
                parts = [used[used < block.equations], used[used >= block.equations]]
                left = sum(
                    program.weighted(rows[None, k], vector[None, k])[0, 0] for k in parts if len(k)
                )
                left = left if isinstance(left, cp.Expression) else cp.Constant(left)
                value = constant_value(left)
                if value is None:
                    constraints.append(left == 0 if kind == "line" else left <= 0)
                elif (abs(float(value)) if kind == "line" else float(value)) > 1e-9:
                    raise NoClosedForm(f"no choice of {names} satisfies its constraints")
    return constraints


def _bounded(
    matrix: Array, quadratic: Array, block: _Block, costs: Any, names: str
) -> list[Condition]:
    """Conditions on the costs without which the loss decreases without end."""
    p = block.equations
    basis = null_space(np.concatenate([matrix[:p], quadratic]))
    flat = null_space(-matrix[p:] @ basis)
    lines = basis @ flat
    basis = basis @ null_space(flat.T)  # without the lines
    try:
        rays = cone_rays(-matrix[p:] @ basis) @ basis.T if basis.shape[1] else basis.T
    except TooMany:
        raise NoClosedForm(
            f"the program of {names} is too large to prove that it is bounded"
        ) from None
    conditions = []
    for ray in [*rays, *lines.T, *-lines.T]:
        direction = np.where(np.abs(ray) <= ZERO * np.abs(ray).max(), 0.0, ray)
        change = costs @ direction
        value = constant_value(change)
        if value is None:
            conditions.append(
                Condition(names, -change <= 0, "the loss decreases without end otherwise")
            )
        elif np.any(value < -1e-9 * (1 + np.abs(direction).max())):
            raise NoClosedForm(f"{names} can be chosen so that the loss decreases without end")
    return conditions
