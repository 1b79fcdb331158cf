"""The bounding box of a feasible set, by solving for its edges."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ...engine import Array
from ...problem.conic import ConicSet
from ..translation.statement import Statement

LARGEST = 500
"""Up to this many entries of a decision the box is solved for, with two programs per entry."""
MARGIN = 1e-8
"""Relative room for the solver's tolerance, so that the box certainly contains the feasible set."""
RARE = 1e3
"""An edge is rounded to a short decimal within the margin, if such decimals are this many margins
apart."""


def feasible_box(
    statement: Statement, constraints: list[Any], places: Array, left_out: int = 0
) -> tuple[Array, Array]:
    """The smallest box around the feasible set, for the entries at some places; empty and unbounded
    sets are refused.

    Arguments:
        statement: the model as stated.
        constraints: all that do not change with the round, attributes included; the user's own.
        places: the entries of the flat decision whose bounds are wanted.
        left_out: the number of constraints that change with the round, for errors.
    """
    flat, size, names = statement.flat_copy(), statement.size, statement.entries
    if size > LARGEST:
        raise ValueError(
            f"domain: got None for decisions of {size} entries; expected a domain, or bounds of "
            f"every entry (stated, or implied by linear constraints and norms): beyond {LARGEST} "
            "entries the bounding box of the feasible set, which takes two programs per entry, "
            "is not computed"
        )
    copies = [flat.of(constraint) for constraint in constraints]
    feasible = ConicSet([flat.variable], [*flat.ties, *flat.links, *copies])
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
                way = _direction(feasible.wanted(solution), names)
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
                unclear = unclear or f"in {names[i]} the solver could not find ({solution.detail})"
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


def _direction(ray: Array, names: list[str]) -> str:
    ray = ray / np.abs(ray).max()
    parts = [
        f"{share:+.3g} {name}" for share, name in zip(ray, names, strict=True) if abs(share) > 1e-6
    ]
    return "a ray in the direction " + " ".join(parts[:8]) + (" ..." if len(parts) > 8 else "")


PASSES = 20
"""Turns over all rows; each can only make bounds tighter."""
GAIN = 1e-6
"""A bound that becomes tighter by less than this, relatively, starts no further turn."""


class Row(NamedTuple):
    """<factors, x[places]> at most `value`, or equal to it. `source` says which row of the model it
    is."""

    source: tuple[int, int]
    places: Array
    factors: Array
    value: float
    equality: bool

    def cut(self, low: Array, high: Array) -> None:
        """Cut bounds, in place, by a row with a single entry."""
        i, factor = int(self.places[0]), float(self.factors[0])
        edge = self.value / factor
        if factor > 0 or self.equality:
            high[i] = min(high[i], edge)
        if factor < 0 or self.equality:
            low[i] = max(low[i], edge)


def propagated(rows: list[Row], low: Array, high: Array) -> tuple[Array, Array]:
    """The bounds, made finite and tighter where the rows imply it.

    In <a, x> <= b every entry is bounded by what the others leave: a_i x_i <= b - min over x of the
    rest.
    """
    low, high = low.copy(), high.copy()
    for turn in range(PASSES):
        changed = False
        # Both ways, so that chains need few turns.
        for row in rows if turn % 2 == 0 else rows[::-1]:
            for sign in (1.0, -1.0) if row.equality else (1.0,):
                changed |= _pass(row.places, sign * row.factors, sign * row.value, low, high)
        if not changed:
            break
    return low, high


def _pass(places: Array, factors: Array, value: float, low: Array, high: Array) -> bool:
    least = np.where(factors > 0, factors * low[places], factors * high[places])
    unbounded = ~np.isfinite(least)
    missing = int(unbounded.sum())
    if missing > 1:
        return False
    total = float(least[~unbounded].sum())
    # Entries but the unbounded one, if there is one, are bounded by nothing.
    which = np.flatnonzero(unbounded) if missing else np.arange(len(places))
    rest = total - np.where(unbounded[which], 0.0, least[which])
    edges = (value - rest) / factors[which]
    where, upper = places[which], factors[which] > 0
    edges = _rounded_outwards(
        edges, upper, np.abs(value) + np.abs(least[~unbounded]).sum(), np.abs(factors[which])
    )
    new_high = np.where(upper, np.minimum(high[where], edges), high[where])
    new_low = np.where(upper, low[where], np.maximum(low[where], edges))
    before = np.where(upper, high[where], low[where])
    after = np.where(upper, new_high, new_low)
    clearly = (after != before) & ~(np.abs(after - before) <= GAIN * (1 + np.abs(after)))
    low[where], high[where] = (
        np.where(clearly, new_low, low[where]),
        np.where(clearly, new_high, high[where]),
    )
    return bool(np.any(clearly))


def _rounded_outwards(edges: Array, upper: Array, size: float, factors: Array) -> Array:
    """Edges moved outwards by the rounding of a sum of numbers of this `size`, or to a short
    decimal within it."""
    room = 1e-14 * (size / factors + np.abs(edges))
    with np.errstate(divide="ignore"):
        unit = 10.0 ** np.ceil(np.log10(np.maximum(100 * room, 1e-300)))
    short = np.round(edges / unit) * unit
    digits = np.array([round(float(edge), 12) for edge in short])
    short = np.where(np.abs(digits - edges) <= room, digits, short)
    return np.where(
        np.abs(short - edges) <= room, short, np.where(upper, edges + room, edges - room)
    )
