"""Rows that hold on the whole domain are not played: they would only enlarge the number of
constraints."""

from __future__ import annotations

from typing import NamedTuple

import cvxpy as cp
import numpy as np

from ...engine import Array
from ...intervals.constants import Edges
from ...intervals.of_cvxpy import Expressions
from ...intervals.pieces import Unknown
from ...problem.domains import Domain
from ...problem.domains.support import bounding_box, least_change
from ..constants.enclosures import enclosures
from ..translation.attributes import is_symmetric, limits, mirrored, pattern
from ..translation.inequalities import Excess, bounds_of, excesses_of
from ..translation.parameters import Range
from ..translation.statement import Statement
from .simple_domain import Detected

ROUNDING = 1e-12
"""A row that exceeds zero by less than this share of its size holds up to rounding."""


class PlayedRows(NamedTuple):
    """The rows that learners see, and what became of the others."""

    excesses: list[Excess]
    stated: list[Excess]
    """All rows, also those that hold on the whole domain."""
    left_out: bool
    """Whether rows are not played, because they hold on the whole domain."""
    implied: list[Excess]
    """Bounds of variables that hold on the whole domain."""
    unseen: bool
    """Whether attributes of variables are part of the domain that no constraint expresses."""
    notes: list[str]


def rows_to_play(
    statement: Statement, rows: list[Excess], chosen: Detected, known: Range, play_implied: bool
) -> PlayedRows:
    """The rows of constraints and attributes, without those that hold on the whole domain.

    With `play_implied` only equations are left out. A model without constraints gets one that
    always holds.
    """
    attributes, implied, notes = _attribute_rows(statement, chosen)
    stated = [*rows, *attributes] or [Excess(cp.Constant(-1.0))]
    played, left_out = _without_implied(statement, stated, chosen, known, play_implied)
    if left_out:
        shown = ", ".join(left_out[:6]) + (", ..." if len(left_out) > 6 else "")
        notes.append(
            "constraints that are part of the domain, because they hold on all of it, are not "
            f"played: {shown}"
        )
    notes += [
        f"{excess.label}: an equation with data of the round, played as two inequalities. No fixed "
        "decision need satisfy it in all rounds: measure regret against taut.hindsight(problem, "
        'stream, comparator="per-round")'
        for excess in played
        if excess.equality and statement.changing(excess.expression)
    ]
    return PlayedRows(
        played or [Excess(cp.Constant(-1.0))],
        stated,
        bool(left_out) or len(played) < len(stated),
        implied,
        any(is_symmetric(v) or not np.all(pattern(v)) for v in statement.variables),
        notes,
    )


def _attribute_rows(
    statement: Statement, chosen: Detected
) -> tuple[list[Excess], list[Excess], list[str]]:
    """The attributes of variables as excesses: those that are played, and bounds that hold on the
    whole domain; and notes on them."""
    played: list[Excess] = []
    notes: list[str] = []
    implied: list[Excess] = []
    low, high = bounding_box(chosen.domain)
    for variable in statement.variables:
        lower, upper = (np.ravel(edge) for edge in limits(variable))
        span, name = statement.spans[variable.id], variable.name()
        for side, stated, inside in (
            ("lower", lower, bool(np.all(low[span] >= lower))),
            ("upper", upper, bool(np.all(high[span] <= upper))),
        ):
            if not np.any(np.isfinite(stated) & np.ravel(pattern(variable))):
                continue
            where = "the domain" if inside else "constraints"
            notes.append(f"{name}: {side} bounds are part of {where}")
            bounds = implied if inside else played
            bounds += [
                excess._replace(label=f"{name}: {side} bound")
                for constraint in bounds_of(variable, [side])
                for excess in excesses_of(constraint)
            ]
        if is_symmetric(variable):
            notes.append(
                f"{name}: symmetry is part of the domain; only the symmetric part of a decision "
                "counts"
            )
            # The symmetric part of a decision must lie in the domain like the decision itself.
            corners = [edge[span].reshape(variable.shape) for edge in (low, high)]
            if any(not np.array_equal(corner, mirrored(corner)) for corner in corners):
                raise ValueError(
                    f"domain: got a set that is not invariant under transposing {name}; expected "
                    "one that is, because the variable is symmetric"
                )
        if not np.all(pattern(variable)):
            notes.append(
                f"{name}: zeros are part of the domain; only the other entries of a decision count"
            )
        for sign, attribute in ((-1.0, "PSD"), (1.0, "NSD")):
            if variable.attributes[attribute] and variable.id in chosen.semidefinite:
                notes.append(f"{name}: {attribute} is part of the domain")
            elif variable.attributes[attribute]:
                played.append(Excess(cp.lambda_max(sign * variable), label=f"{name}: {attribute}"))
                notes.append(f"{name}: {attribute} is a constraint on an eigenvalue")
    return played, implied, notes


def _without_implied(
    statement: Statement, rows: list[Excess], chosen: Detected, known: Range, play_implied: bool
) -> tuple[list[Excess], list[str]]:
    """The rows that some decision of the domain violates, and the names of the others."""
    low, high = bounding_box(chosen.domain)
    everywhere = enclosures(statement, Edges(low, high, statement.size))
    played: list[Excess] = []
    left_out: list[str] = []
    for k, row in enumerate(rows):
        if row.induced and _always(statement, row, known):
            continue
        if play_implied and not row.equality:
            played.append(row)
            continue
        needed = ~chosen.held.get(k, np.zeros(row.expression.size, bool))
        steady = not statement.changing(row.expression) and row.expression.variables()
        if needed.any() and steady:
            needed &= _violated(statement, row, chosen.domain, everywhere)
        if needed.all():
            played.append(row)
            continue
        left_out.append(f"{'parts of ' if needed.any() else ''}{row.label}")
        if needed.any():
            played.append(row.entries(np.flatnonzero(needed)))
    return played, left_out


def _violated(
    statement: Statement, row: Excess, domain: Domain, everywhere: Expressions
) -> Array | bool:
    """Which entries of a row exceed zero somewhere in the domain, as far as is known."""
    low, high = bounding_box(domain)
    middle, half = (low + high) / 2, (high - low) / 2
    form = statement.forms.of(row.expression)
    if form is not None:
        slopes = form.matrix.toarray()
        at, there = np.broadcast_to(middle, slopes.shape), slopes @ middle + form.offset
        value = there - least_change(domain, -slopes, at)
        if row.equality:
            value = np.maximum(value, -there - least_change(domain, slopes, at))
        steepest = np.abs(slopes)
    else:
        try:
            bounds = everywhere.of(row.expression)
        except Unknown:
            return True
        assert bounds.gradient is not None  # rows without slopes are unknown
        value = np.ravel(bounds.high)
        steepest = bounds.gradient.size.reshape(-1, len(middle))
    reach = np.abs(value) + steepest @ (np.abs(middle) + half)
    return np.asarray(value > ROUNDING * reach)


def _always(statement: Statement, row: Excess, known: Range) -> bool:
    """Whether a row holds for all decisions and data. Raises if it has no variable and does not."""
    sure = not statement.guessed([row.expression], known)
    try:
        bounds = enclosures(statement, known.box)
        value = bounds.of(row.expression).value
        above = value.size - 1e-9 if row.equality else value.high - 1e-9 * value.size
        holds = bool(np.all(above <= 0))
    except Unknown:
        holds = False
    if sure and holds:
        return True
    if not row.expression.variables():
        names = ", ".join(p.name() for p in row.expression.parameters())
        raise ValueError(
            f"recourse: got admissible data of {names} for which no {row.label} satisfies its "
            "constraints, whatever the decision; expected narrower bounds of the parameters, or "
            "a slack variable with a cost"
        )
    return False
