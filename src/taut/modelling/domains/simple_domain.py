"""The set that decisions are projected on, chosen for each block of entries.

Entries that share an equation or a norm form a block. Each block gets the set that leaves the
fewest rows to play: the simplex, a box cut by equations, a ball, an l1 ball, symmetric matrices
with bounded eigenvalues, or a box.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ...engine import Array
from ...problem.domains import (
    AffineBox,
    Ball,
    Blocks,
    Box,
    Domain,
    L1Ball,
    Product,
    Simplex,
    Spectral,
)
from .set_detection import Block, Place, Sets

if TYPE_CHECKING:
    from ..model import Model

__all__ = ["Detected", "detected"]

EQUATIONS = 300
"""Blocks with more equations than this are boxes, because a projection would be slow;"""
ENTRIES = 3000
"""likewise blocks with more entries than this."""


class Detected(NamedTuple):
    """The domain, and which rows it holds exactly."""

    domain: Domain
    held: dict[int, Array]
    """For excesses, by number, a mask of the entries that are part of the domain."""
    semidefinite: set[int]
    """Variables, by id, whose attribute PSD holds in the domain."""
    notes: list[str]


class _Part(NamedTuple):
    domain: Domain
    places: Array
    rows: list[Place]
    note: str


def detected(model: Model, sets: Sets, solve: Callable[[Array], tuple[Array, Array]]) -> Detected:
    """The simple sets of all blocks, and the bounding box for all other entries.

    `solve` gives the smallest box around the feasible set, for the entries at some places; it is
    asked for those without a finite bound, and for all that get a box.
    """
    parts: list[_Part] = []
    notes: list[str] = []
    semidefinite: set[int] = set()
    rest = np.ones(model.size, bool)
    for block in sets.blocks():
        part = _part(model, sets, block, solve, notes)
        if part is None:
            continue
        parts.append(part)
        rest[part.places] = False
        if isinstance(part.domain, Spectral):
            semidefinite.add(block.matrix[0])
    notes += _notes(model, parts)
    places = np.flatnonzero(rest)
    if len(places):
        low, high = solve(places)
        rows = [row for i in places.tolist() for row in sets.bounds.get(i, [])]
        parts.append(_Part(Box(low, high), places, rows, ""))
    held: dict[int, Array] = {}
    rows_held = [row for part in parts for row in part.rows]
    for k, i in rows_held:
        held.setdefault(k, np.zeros(sets.rows[k].expression.size, bool))[i] = True
    for k, i in _partly(sets, held, {j for part in parts for j in _bounded(part)}):
        held[k][i] = False
    return Detected(_assembled(model, parts), held, semidefinite, notes)


def _bounded(part: _Part) -> list[int]:
    return part.places.tolist() if isinstance(part.domain, (AffineBox, Box)) else []


def _partly(sets: Sets, held: dict[int, Array], boxed: set[int]) -> list[Place]:
    """Rows that bound several entries (norm_inf), not all of which are in a box."""
    rows = [(row, place) for place, found in sets.bounds.items() for row in found]
    return [
        row for row, place in rows if place not in boxed and row[0] in held and held[row[0]][row[1]]
    ]


def _part(
    model: Model,
    sets: Sets,
    block: Block,
    solve: Callable[[Array], tuple[Array, Array]],
    notes: list[str],
) -> _Part | None:
    """The set of one block; None for a box."""
    where = block.places
    if block.matrix is not None:
        return _spectral(model, sets, block, solve)
    if np.any(sets.boxed[where]) and not block.equations:
        return None
    if block.equations:
        if len(block.equations) > EQUATIONS or len(where) > ENTRIES:
            notes.append(
                f"{len(block.equations)} equations of {len(where)} entries are played as pairs of "
                "inequalities, because a projection on them would be slow"
            )
            return None
        return _of_equations(sets, block, solve)
    found = _best_round(sets, block)
    if found is None:
        return None
    row, one = found
    kind = Ball if one.kind == "ball" else L1Ball
    domain = kind(float(one.radius), None if not np.any(one.centre) else one.centre, len(where))
    what = "ball" if kind is Ball else "l1 ball"
    around = "" if not np.any(one.centre) else " around its centre"
    rows = [row, *_implied(sets, where, one.centre - one.radius, one.centre + one.radius)]
    return _Part(domain, where, rows, f"in the {what} of radius {float(one.radius):.6g}{around}")


def _implied(sets: Sets, where: Array, low: Array, high: Array) -> list[Place]:
    """Bounds of single entries that hold between `low` and `high`."""
    inside = (sets.own_low[where] <= low) & (sets.own_high[where] >= high)
    return [row for i in where[inside].tolist() for row in sets.bounds.get(i, [])]


def _best_round(sets: Sets, block: Block) -> Any:
    """The norm that holds the most rows, if it leaves fewer than a box does."""
    where, best, fewest = block.places, None, len(block.rounds)
    for row, one in block.rounds:
        if len(one.places) < len(where):
            continue
        reach = np.full(len(where), one.radius)
        tighter = (sets.own_low[where] > one.centre - reach) | (
            sets.own_high[where] < one.centre + reach
        )
        left = len(block.rounds) - 1 + int(np.sum(tighter))
        if left < fewest:
            best, fewest = (row, one), left
    return best


def _of_equations(sets: Sets, block: Block, solve: Callable[[Array], tuple[Array, Array]]) -> _Part:
    where = block.places
    low, high = sets.low[where], sets.high[where]
    matrix, values = np.zeros((len(block.equations), len(where))), np.zeros(len(block.equations))
    for k, row in enumerate(block.equations):
        matrix[k, np.searchsorted(where, row.places)] = row.factors
        values[k] = row.value
    rows = [row.source for row in block.equations] + [
        row for i in where.tolist() for row in sets.bounds.get(i, [])
    ]
    own_low, own_high = sets.own_low[where], sets.own_high[where]
    needed = sets.boxed[where] & (low > 0)  # an atom may not be defined at zero
    if (
        len(values) == 1
        and np.all(matrix == matrix[0, 0])
        and not np.any(own_low)
        and not np.any(needed)
    ):
        total = values[0] / matrix[0, 0]
        if total > 0 and np.all(
            own_high >= total
        ):  # tighter bounds that follow from other rows are played as these rows
            note = f"in the simplex {{x >= 0, sum x = {total:.6g}}}"
            return _Part(Simplex(len(where), float(total)), where, rows, note)
    if not np.all(np.isfinite(high - low)):
        low, high = solve(where)
    count = "one equation" if len(values) == 1 else f"{len(values)} equations"
    return _Part(AffineBox(matrix, values, low, high), where, rows, f"in a box cut by {count}")


def _spectral(
    model: Model, sets: Sets, block: Block, solve: Callable[[Array], tuple[Array, Array]]
) -> _Part | None:
    """Semidefinite matrices of given or bounded trace, unless a box leaves fewer rows."""
    key, rows = block.matrix
    variable = next(one for one in model.variables if one.id == key)
    n = variable.shape[-1]
    if variable.ndim != 2 or not np.all(np.ravel(sets.forms.of(variable).matrix.sum(axis=1))):  # type: ignore[union-attr]
        return None
    diagonal = np.arange(0, n * n, n + 1)
    trace = None
    for row in block.equations:
        if len(row.places) == n and np.array_equal(np.sort(row.places) - block.places[0], diagonal):
            trace = row if np.all(row.factors == row.factors[0]) else trace
    stated = sum(len(sets.bounds.get(i, [])) for i in block.places.tolist())
    if stated > 1:  # bounds of entries would be played
        return None
    least, most = sets.eigenvalues[key]
    if not np.isfinite(least) or least > most:
        return None
    if (least, most) != (0.0, np.inf):
        return _bounded_eigenvalues(sets, block, diagonal, n, solve)
    if trace is not None and trace.value / trace.factors[0] > 0:
        total = float(trace.value / trace.factors[0])
        note = f"positive semidefinite with trace {total:.6g}"
        return _Part(Spectral(Simplex(n, total)), block.places, [*rows, trace.source], note)
    high = sets.high[block.places[diagonal]]
    if not np.all(np.isfinite(high)):
        high = solve(block.places[diagonal])[1]
    largest = float(min(np.sum(high), _largest_sum(sets, block, diagonal)))
    if not 0 < largest < np.inf:
        return None
    note = f"positive semidefinite with eigenvalues of at most {largest:.6g}"
    return _Part(Spectral(Box(0.0, largest, shape=n)), block.places, list(rows), note)


def _bounded_eigenvalues(
    sets: Sets, block: Block, diagonal: Array, n: int, solve: Callable[[Array], tuple[Array, Array]]
) -> _Part | None:
    """Symmetric matrices whose eigenvalues are bounded from below, and from above by a row or by
    the trace."""
    key, rows = block.matrix
    least, most = sets.eigenvalues[key]
    if not np.isfinite(most):
        high = sets.high[block.places[diagonal]]
        high = high if np.all(np.isfinite(high)) else solve(block.places[diagonal])[1]
        most = float(min(np.sum(high), _largest_sum(sets, block, diagonal))) - (n - 1) * least
    if not least < most < np.inf:
        return None
    note = f"symmetric with eigenvalues between {least:.6g} and {most:.6g}"
    return _Part(Spectral(Box(least, most, shape=n)), block.places, list(rows), note)


def _largest_sum(sets: Sets, block: Block, diagonal: Array) -> float:
    """The bound of a row on the trace."""
    edges = [np.inf]
    for row in sets.inequalities:
        on_diagonal = np.array_equal(np.sort(row.places) - block.places[0], diagonal)
        if on_diagonal and np.all(row.factors == row.factors[0]) and row.factors[0] > 0:
            edges.append(row.value / row.factors[0])
    return min(edges)


def _assembled(model: Model, parts: list[_Part]) -> Domain:
    """One domain in the shape of a decision."""
    shape = model._shape()
    parts = sorted(parts, key=lambda part: int(part.places[0]))
    if len(parts) == 1:
        (part,) = parts
        if part.domain.shape == shape:
            return part.domain
        if isinstance(part.domain, Box):
            return Box(part.domain.lower.reshape(shape), part.domain.upper.reshape(shape))
        if isinstance(part.domain, (Ball, L1Ball)):
            centre = None if part.domain.origin is None else part.domain.origin.reshape(shape)
            return type(part.domain)(part.domain.radius, centre, shape)
        return Blocks([part.domain], [part.places.tolist()], shape)
    joined = np.concatenate([part.places for part in parts])
    if shape == (model.size,) and np.array_equal(joined, np.arange(model.size)):
        return Product(*(part.domain for part in parts))
    return Blocks([part.domain for part in parts], [part.places.tolist() for part in parts], shape)


def _notes(model: Model, parts: list[_Part]) -> list[str]:
    """One note for each kind of set."""
    alike: dict[str, list[str]] = {}
    for part in parts:
        alike.setdefault(part.note, []).append(_named(model, part.places))
    return [
        f"domain: {', '.join(names[:4])}{f' and {len(names) - 4} more' if len(names) > 4 else ''} "
        f"{note}"
        for note, names in alike.items()
    ]


def _named(model: Model, places: Array) -> str:
    """The entries in words: whole variables by name, or the first and last entry."""
    for variable in model.variables:
        span = model.spans[variable.id]
        if (
            len(places) == span.stop - span.start
            and places[0] == span.start
            and places[-1] == span.stop - 1
        ):
            return str(variable.name())
    names = [
        v.name()
        for v in model.variables
        if np.any((places >= model.spans[v.id].start) & (places < model.spans[v.id].stop))
    ]
    if len(names) > 1 and len(places) == sum(v.size for v in model.variables if v.name() in names):
        return ", ".join(names)
    return (
        f"{model.entry(int(places[0]))} to {model.entry(int(places[-1]))} ({len(places)} entries)"
    )
