"""Constraints of a CVXPY model that are known before a decision is played."""

from __future__ import annotations

from typing import Any

import cvxpy as cp

from .atoms.table import refuse_unsupported
from .constraint_names import label_of
from .dcp import checked
from .inequalities import Excess, excesses_of

__all__ = ["announced_rows", "refuse_unknown"]


def announced_rows(announced: Any, recourse: dict[Any, Any]) -> list[Excess]:
    """Announced constraints as expressions that must not exceed zero, found to be convex."""
    if isinstance(announced, (list, tuple)) and not announced:
        return []
    _, stated = checked(cp.Constant(0.0), announced, "announced")
    for one in stated:
        refuse_unsupported(one)
        late = next(
            (v.name() for v in one.variables() if any(v is known for known in recourse)), None
        )
        if late is not None:
            raise ValueError(
                f"announced: got the variable {late}, which is chosen after the data; expected "
                "constraints on the decision"
            )
    return [
        row._replace(label=label_of(one, position))
        for position, one in enumerate(stated, 1)
        for row in excesses_of(one)
    ]


def refuse_unknown(rows: list[Excess], variables: list[Any]) -> None:
    """Raise if announced constraints contain a variable that neither loss nor other constraints
    contain."""
    known = {variable.id for variable in variables}
    for row in rows:
        for variable in row.expression.variables():
            if variable.id not in known:
                raise ValueError(
                    f"announced: got the variable {variable.name()}, which is in neither the loss "
                    "nor the other constraints; expected constraints on the decision"
                )
