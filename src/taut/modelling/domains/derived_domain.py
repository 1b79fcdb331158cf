"""The domain of a model, from the constraints that do not change with the round."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ...engine import Array
from ...problem.domains import Box
from ..translation.attributes import is_symmetric, mirrored
from ..translation.inequalities import Excess, attribute_constraints, excesses_of
from .bounding_box import LARGEST, bounding_box
from .set_detection import Sets
from .simple_domain import Detected, detected

if TYPE_CHECKING:
    from ..model import Model

__all__ = ["derived"]


def derived(model: Model, rows: list[Excess], finite: list[Any], box_only: bool) -> Detected:
    """The simple set around the feasible set; notes on it.

    Arguments:
        model: the model, whose domain is not known yet.
        rows: the excesses of all stated constraints.
        finite: constraints without which an atom is not defined.
        box_only: whether the domain is to be the bounding box.
    """
    every = [*model.stated, *attribute_constraints(model.variables), *finite]
    steady = [one for one in every if not model.changing(one)]
    sets = Sets(model, rows, [row for one in finite for row in excesses_of(one)])
    solved = False

    def solve(places: Array) -> tuple[Array, Array]:
        nonlocal solved
        low, high = sets.low.copy(), sets.high.copy()
        if model.size <= LARGEST or not np.all(np.isfinite((high - low)[places])):
            solved = True
            edges = bounding_box(
                model.flat_copy(), steady, model.entry, places, len(every) - len(steady)
            )
            low[places], high[places] = (
                np.maximum(low[places], edges[0]),
                np.minimum(high[places], edges[1]),
            )
            high[places] = np.maximum(low[places], high[places])
        for variable in filter(
            is_symmetric, model.variables
        ):  # mirror images are equal but for rounding
            span = model.spans[variable.id]
            one, two = (edge[span].reshape(variable.shape) for edge in (low, high))
            low[span], high[span] = (
                np.minimum(one, mirrored(one)).ravel(),
                np.maximum(two, mirrored(two)).ravel(),
            )
        return low[places], high[places]

    if box_only:
        lower, upper = solve(np.arange(model.size))
        held: dict[int, Array] = {}
        for k, i in (row for rows in sets.bounds.values() for row in rows):
            held.setdefault(k, np.zeros(sets.rows[k].expression.size, bool))[i] = True
        found = Detected(
            Box(lower.reshape(model._shape()), upper.reshape(model._shape())), held, set(), []
        )
    else:
        found = detected(model, sets, solve)
    rest = "" if len(steady) == len(every) else ", without constraints that change with the round"
    if solved:
        others = "" if not found.notes else "all other entries in "
        found.notes.append(f"domain: {others}the bounding box of the feasible set{rest}")
    elif isinstance(found.domain, Box):
        found.notes.append(f"domain: the bounds that the constraints imply for each entry{rest}")
    model.proof_of_domain = "its edges were solved for" if solved else "its edges are stated"
    return found
