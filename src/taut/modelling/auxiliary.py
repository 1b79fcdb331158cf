"""Variables that may be meant to be chosen after the data: epigraph, slack and recourse variables."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .model import Model

__all__ = ["auxiliary_notes"]


def auxiliary_notes(model: Model) -> list[str]:
    """A note for each variable that looks auxiliary.

    Such a variable is in the loss, shares constraints with other variables only where they change with the round, and is
    not restricted together with others otherwise. CVXPY would choose it when the data are known; here it is a decision.
    """
    if len(model.variables) == 1:
        return []
    shared = [one for one in model.stated if len(one.variables()) > 1]
    in_loss = {variable.id for variable in model.objective.variables()}
    steady = {v.id for one in shared if not model.changing(one) for v in one.variables()}
    varying = {v.id for one in shared if model.changing(one) for v in one.variables()}
    return [
        f"{variable.name()}: decided before the data of a round are known, like every variable. If it stands for a value that "
        "is chosen afterwards (an epigraph or slack variable), write the loss without it, such as abs(r) instead of t with "
        "t >= r and t >= -r"
        for variable in model.variables
        if variable.id in (in_loss & varying) - steady
    ]
