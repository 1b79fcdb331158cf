"""The bounding box of a feasible set, by solving for its edges."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...engine import Array
from ...problem.conic import ConicSet
from ..translation.flat_copy import FlatCopy

__all__ = ["LARGEST", "bounding_box", "outwards"]


LARGEST = 500
"""Up to this many entries of a decision the box is solved for, with two programs per entry."""
MARGIN = 1e-8
"""Relative room for the solver's tolerance, so that the box certainly contains the feasible set."""
RARE = 1e3
"""An edge is rounded to a short decimal within the margin, if such decimals are this many margins
apart."""


def bounding_box(
    flat: FlatCopy,
    constraints: list[Any],
    name: Callable[[int], str],
    places: Array,
    left_out: int = 0,
) -> tuple[Array, Array]:
    """The smallest box around the feasible set, for the entries at some places; empty and unbounded
    sets are refused.

    Arguments:
        flat: the model over its flat decision.
        constraints: all that do not change with the round, attributes included; the user's own.
        name: of the i-th entry of a decision, for errors.
        places: the entries of the flat decision whose bounds are wanted.
        left_out: the number of constraints that change with the round, for errors.
    """
    size = flat.variable.size
    if size > LARGEST:
        raise ValueError(
            f"domain: got None for decisions of {size} entries; expected a domain, or bounds of "
            f"every entry (stated, or implied by linear constraints and norms): beyond {LARGEST} "
            "entries the bounding box of the feasible set, which takes two programs per entry, "
            "is not computed"
        )
    copies = [flat.of(one) for one in constraints]
    feasible = ConicSet.of([flat.variable], [*flat.ties, *flat.links, *copies])
    edges, errors = np.zeros((2, len(places))), np.zeros((2, len(places)))
    unclear = ""
    for at, i in enumerate(places.tolist()):
        for side, sign in enumerate((1.0, -1.0)):
            aim = np.zeros(size)
            aim[i] = sign
            solution = feasible.minimise(aim)
            if solution.status == "infeasible":
                raise ValueError(
                    "constraints: got no feasible decision; expected constraints that some "
                    "decision satisfies"
                )
            if solution.status == "unbounded":
                way = _direction(feasible.wanted(solution), name)
                raise ValueError(
                    f"constraints: got an unbounded feasible set: {way}; expected a bounded one, "
                    "bounds=[low, high] of the variables, or domain=..."
                    + (
                        " (constraints with data of the round do not count for the domain; "
                        "taut.recourse marks variables that are chosen after the data)"
                        if left_out
                        else ""
                    )
                )
            if solution.status != "solved" or solution.error > 1e-5:
                # If the set is unbounded, another entry may show the direction.
                unclear = unclear or f"in {name(i)} the solver could not find ({solution.detail})"
                continue
            edges[side, at], errors[side, at] = feasible.wanted(solution)[i], 10 * solution.error
    if unclear:
        raise ValueError(
            f"constraints: got a feasible set whose extent {unclear}; expected domain=..."
        )
    unit = min(1.0, float(np.abs(edges).max())) or 1.0
    low, high = (
        np.array([outwards(edge, way, unit, error) for edge, error in zip(row, bad, strict=True)])
        for way, row, bad in zip((-1.0, 1.0), edges.tolist(), errors.tolist(), strict=True)
    )
    if len(places) == size and (
        np.all(edges[1] - edges[0] <= MARGIN * unit) or not np.any(low < high)
    ):
        raise ValueError(
            f"constraints: got only one feasible decision, {np.round(edges[0], 6).tolist()}, as "
            "far as the solver can tell; expected a choice, or domain=..."
        )
    return low, high


def outwards(edge: float, way: float, unit: float = 1.0, error: float = 0.0) -> float:
    """A solved edge moved outwards by the solver's error, or rounded to a short decimal within that
    error.

    `unit` is the size of the numbers that matter beside it.
    """
    room = max(MARGIN * (unit + abs(edge)), error * (1 + abs(edge)))
    short = round(edge, int(-np.ceil(np.log10(RARE * room))))
    return short if abs(short - edge) <= room else edge + way * room


def _direction(ray: Array, name: Callable[[int], str]) -> str:
    ray = ray / np.abs(ray).max()
    parts = [f"{share:+.3g} {name(i)}" for i, share in enumerate(ray) if abs(share) > 1e-6]
    return "a ray in the direction " + " ".join(parts[:8]) + (" ..." if len(parts) > 8 else "")
