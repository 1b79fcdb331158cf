"""A fleet as a table of pandas, with a row per member."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from .. import arguments
from ..engine import Array
from ..extras import optional
from ..learners import Advised

if TYPE_CHECKING:
    import pandas

    from .fleet import Fleet

__all__ = ["frame"]


def frame(fleet: Fleet, what: str) -> pandas.DataFrame:
    """Return the table that `Fleet.to_dataframe` describes."""
    pd = optional("pandas")

    with_advisers = isinstance(fleet.learner, Advised)
    usual = ("decisions", "totals", "parameters")
    arguments.one_of("what", what, (*usual, "weights") if with_advisers else usual)
    columns = {
        "decisions": _decisions,
        "totals": _totals,
        "parameters": _parameters,
        "weights": _weights,
    }[what](fleet)
    return pd.DataFrame(columns, index=pd.Index(fleet.ids, name="member"))


def _decisions(fleet: Fleet) -> dict[str, Array]:
    shape = fleet.problem.domain.shape
    rows = fleet._coming.read(fleet._columns.x, *fleet._members.slots(None))
    flat = rows.reshape(len(rows), math.prod(shape))
    names = fleet.problem.coordinate_names or [f"x[{i}]" for i in range(flat.shape[1])]
    return dict(zip(names, flat.T, strict=True))


def _parameters(fleet: Fleet) -> dict[str, Array]:
    return {
        name if values.ndim == 1 else f"{name}[{i}]": part
        for name, values in fleet.parameters().items()
        for i, part in enumerate(values.reshape(len(values), math.prod(values.shape[1:])).T)
    }


def _weights(fleet: Fleet) -> dict[str, Array]:
    weights = fleet.weights()
    names = ["learner", *(f"adviser {k}" for k in range(1, weights.shape[1]))]
    return {f"weight[{name}]": part for name, part in zip(names, weights.T, strict=True)}


def _totals(fleet: Fleet) -> dict[str, Any]:
    totals = fleet.totals()
    names = fleet.constraint_names or tuple(f"g[{i}]" for i in range(fleet._new.scored))
    columns = {"round": fleet.rounds(), "skipped": fleet.skipped(), "loss": totals.loss}
    for kind in ("violation", "peak", "excess"):
        parts = getattr(totals, kind).T
        columns |= {f"{kind} {name}": part for name, part in zip(names, parts, strict=True)}
    return columns
