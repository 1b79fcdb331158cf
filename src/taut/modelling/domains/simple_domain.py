"""The set that decisions are projected on, chosen for each block of entries.

Entries that share an equation or a norm form a block. Each block gets the set that leaves the
fewest rows to play: the simplex, a box cut by equations, a ball, an l1 ball, symmetric matrices
with bounded eigenvalues, or a box.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ...engine import Array
from ...problem.conic import ConicSet
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
from ..translation.attributes import is_symmetric, mirrored
from ..translation.inequalities import Excess, attribute_constraints, excesses_of
from ..translation.statement import Statement
from .set_detection import Block, Place, RoundSet, Sets

SOLVED = 500
"""Up to this many entries of a decision the box is solved for, with two programs per entry."""
MARGIN = 1e-8
"""Relative room for the solver's tolerance, so that the box certainly contains the feasible set."""
RARE = 1e3
"""Edges are rounded to decimals that are this many margins apart, if one is within the margin."""
EQUATIONS = 300
"""Blocks with more equations than this are boxes, because a projection would be slow;"""
ENTRIES = 3000
"""likewise blocks with more entries than this."""
_WITHOUT_CHANGING = ", without constraints that change with the round"


class Detected(NamedTuple):
    """The domain, and which rows it holds exactly."""

    domain: Domain
    held: dict[int, Array]
    """For excesses, by number, a mask of the entries that are part of the domain."""
    semidefinite: set[int]
    """Variables, by id, whose attribute PSD holds in the domain."""
    notes: list[str]
    proof: str
    """How it is known that the domain contains the feasible set; empty for the user's own."""


def derived_domain(
    statement: Statement, rows: list[Excess], finite: list[Any], box_only: bool
) -> Detected:
    """The simple set around the feasible set, from the constraints that do not change with the
    round; with `box_only` the bounding box.

    `rows` are the excesses of all stated constraints. Without the constraints in `finite` an atom
    is not defined.
    """
    constraints = [*statement.stated, *attribute_constraints(statement.variables), *finite]
    steady = [constraint for constraint in constraints if not statement.changing(constraint)]
    sets = Sets(statement, rows, [row for condition in finite for row in excesses_of(condition)])
    edges = _Edges(sets, steady, len(constraints) - len(steady))
    notes: list[str] = []
    blocks = [] if box_only else sets.blocks()
    parts = [part for block in blocks if (part := _part(sets, block, edges, notes)) is not None]
    alike: dict[str, list[str]] = {}
    rest = np.ones(statement.size, bool)
    for part in parts:
        alike.setdefault(part.note, []).append(_named(statement, part.places))
        rest[part.places] = False
    for note, names in alike.items():
        others = f" and {len(names) - 4} more" if len(names) > 4 else ""
        notes.append(f"domain: {', '.join(names[:4])}{others} {note}")
    places = np.flatnonzero(rest)
    if len(places):
        parts.append(_Part(Box(*edges(places)), places, [], ""))
    domain = _assembled(statement, parts)
    without = "" if len(steady) == len(constraints) else _WITHOUT_CHANGING
    if edges.solved:
        others = "all other entries in " if notes else ""
        notes.append(f"domain: {others}the bounding box of the feasible set{without}")
    elif isinstance(domain, Box):
        notes.append(f"domain: the bounds that the constraints imply for each entry{without}")
    semidefinite = {part.matrix for part in parts if part.matrix is not None}
    proof = "its edges were solved for" if edges.solved else "its edges are stated"
    return Detected(domain, _held(sets, parts), semidefinite, notes, proof)


class _Edges:
    """The smallest box around the feasible set, for the entries that are asked for.

    Edges that are not stated are solved for, and those of small decisions always, because rows
    together may imply more than is stated.
    """

    def __init__(self, sets: Sets, steady: list[Any], changing: int) -> None:
        self._sets, self._steady, self._changing = sets, steady, changing
        self.solved = False
        """Whether any edge was solved for."""

    def __call__(self, places: Array) -> tuple[Array, Array]:
        statement = self._sets.statement
        low, high = self._sets.low.copy(), self._sets.high.copy()
        if statement.size <= SOLVED or not np.all(np.isfinite((high - low)[places])):
            self.solved = True
            least, most = feasible_box(statement, self._steady, places, self._changing)
            low[places] = np.maximum(low[places], least)
            high[places] = np.maximum(low[places], np.minimum(high[places], most))
        for variable in filter(is_symmetric, statement.variables):
            # Mirror images are equal but for rounding.
            span = statement.spans[variable.id]
            lower, upper = (edge[span].reshape(variable.shape) for edge in (low, high))
            low[span] = np.minimum(lower, mirrored(lower)).ravel()
            high[span] = np.maximum(upper, mirrored(upper)).ravel()
        return low[places], high[places]


def feasible_box(
    statement: Statement, constraints: list[Any], places: Array, left_out: int
) -> tuple[Array, Array]:
    """The smallest box around the set that `constraints` allow, for the entries at these places.

    Empty and unbounded sets are refused. `left_out` counts the constraints that change with the
    round, for errors.
    """
    flat, size, names = statement.flat_copy(), statement.size, statement.entries
    if size > SOLVED:
        raise ValueError(
            f"domain: got None for decisions of {size} entries; expected a domain, or bounds of "
            f"every entry (stated, or implied by linear constraints and norms): beyond {SOLVED} "
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


class _Part(NamedTuple):
    domain: Domain
    places: Array
    rows: list[Place]
    note: str
    matrix: int | None = None
    """The variable, by id, that the part keeps semidefinite."""


def _held(sets: Sets, parts: list[_Part]) -> dict[int, Array]:
    """For excesses, by number, a mask of the entries that the parts of the domain hold.

    A box holds the bounds of its entries. A row that bounds several entries (norm_inf) is held if
    all of them are in boxes.
    """
    boxed = np.zeros(sets.statement.size, bool)
    for part in parts:
        boxed[part.places] = isinstance(part.domain, (AffineBox, Box))
    bounds = [(row, boxed[place]) for place, rows in sets.bounds.items() for row in rows]
    held: dict[int, Array] = {}
    for rows, holds in (
        ([row for part in parts for row in part.rows], True),
        ([row for row, inside in bounds if inside], True),
        ([row for row, inside in bounds if not inside], False),
    ):
        for k, i in rows:
            held.setdefault(k, np.zeros(sets.rows[k].expression.size, bool))[i] = holds
    return held


def _part(sets: Sets, block: Block, edges: _Edges, notes: list[str]) -> _Part | None:
    """The set of one block; None for a box."""
    where = block.places
    if block.matrix is not None:
        return _spectral(sets, block, edges)
    if np.any(sets.boxed[where]) and not block.equations:
        return None
    if block.equations:
        if len(block.equations) > EQUATIONS or len(where) > ENTRIES:
            notes.append(
                f"{len(block.equations)} equations of {len(where)} entries are played as pairs of "
                "inequalities, because a projection on them would be slow"
            )
            return None
        return _of_equations(sets, block, edges)
    best = _best_norm(sets, block)
    if best is None:
        return None
    row, norm = best
    kind = Ball if norm.kind == "ball" else L1Ball
    radius, around = float(norm.radius), " around its centre" if np.any(norm.centre) else ""
    domain = kind(radius, norm.centre if around else None, len(where))
    what = "ball" if kind is Ball else "l1 ball"
    return _Part(domain, where, [row], f"in the {what} of radius {radius:.6g}{around}")


def _best_norm(sets: Sets, block: Block) -> tuple[Place, RoundSet] | None:
    """The norm that holds the most rows, if it leaves fewer than a box does."""
    where, best, fewest = block.places, None, len(block.rounds)
    for row, norm in block.rounds:
        if len(norm.places) < len(where):
            continue
        reach = np.full(len(where), norm.radius)
        below = sets.own_low[where] > norm.centre - reach
        above = sets.own_high[where] < norm.centre + reach
        left = len(block.rounds) - 1 + int(np.sum(below | above))
        if left < fewest:
            best, fewest = (row, norm), left
    return best


def _of_equations(sets: Sets, block: Block, edges: _Edges) -> _Part:
    where = block.places
    low, high = sets.low[where], sets.high[where]
    matrix, values = np.zeros((len(block.equations), len(where))), np.zeros(len(block.equations))
    for k, row in enumerate(block.equations):
        matrix[k, np.searchsorted(where, row.places)] = row.factors
        values[k] = row.value
    rows = [row.source for row in block.equations]
    own_low, own_high = sets.own_low[where], sets.own_high[where]
    needed = sets.boxed[where] & (low > 0)  # an atom may not be defined at zero
    if (
        len(values) == 1
        and np.all(matrix == matrix[0, 0])
        and not np.any(own_low)
        and not np.any(needed)
    ):
        total = values[0] / matrix[0, 0]
        # Tighter bounds that follow from other rows are played as these rows.
        if total > 0 and np.all(own_high >= total):
            note = f"in the simplex {{x >= 0, sum x = {total:.6g}}}"
            return _Part(Simplex(len(where), float(total)), where, rows, note)
    if not np.all(np.isfinite(high - low)):
        low, high = edges(where)
    count = "one equation" if len(values) == 1 else f"{len(values)} equations"
    return _Part(AffineBox(matrix, values, low, high), where, rows, f"in a box cut by {count}")


def _spectral(sets: Sets, block: Block, edges: _Edges) -> _Part | None:
    """Matrices with bounded eigenvalues or a given trace, unless a box leaves fewer rows."""
    key, rows = block.matrix
    variable = next(candidate for candidate in sets.statement.variables if candidate.id == key)
    n = variable.shape[-1]
    form = sets.forms.of(variable)
    if variable.ndim != 2 or form is None or not np.all(np.ravel(form.matrix.sum(axis=1))):
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
    semidefinite = (least, most) == (0.0, np.inf)
    if semidefinite and trace is not None and trace.value / trace.factors[0] > 0:
        total = float(trace.value / trace.factors[0])
        note = f"positive semidefinite with trace {total:.6g}"
        return _Part(Spectral(Simplex(n, total)), block.places, [*rows, trace.source], note, key)
    if not np.isfinite(most):  # the trace bounds the largest eigenvalue
        high = sets.high[block.places[diagonal]]
        high = high if np.all(np.isfinite(high)) else edges(block.places[diagonal])[1]
        most = float(min(np.sum(high), _largest_sum(sets, block, diagonal))) - (n - 1) * least
    if not least < most < np.inf:
        return None
    note = f"symmetric with eigenvalues between {least:.6g} and {most:.6g}"
    if semidefinite:
        note = f"positive semidefinite with eigenvalues of at most {most:.6g}"
    return _Part(Spectral(Box(least, most, shape=n)), block.places, list(rows), note, key)


def _largest_sum(sets: Sets, block: Block, diagonal: Array) -> float:
    """The bound of a row on the trace."""
    edges = [np.inf]
    for row in sets.inequalities:
        on_diagonal = np.array_equal(np.sort(row.places) - block.places[0], diagonal)
        if on_diagonal and np.all(row.factors == row.factors[0]) and row.factors[0] > 0:
            edges.append(row.value / row.factors[0])
    return min(edges)


def _assembled(statement: Statement, parts: list[_Part]) -> Domain:
    """One domain in the shape of a decision."""
    shape = statement.decision_shape
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
    if shape == (statement.size,) and np.array_equal(joined, np.arange(statement.size)):
        return Product(*(part.domain for part in parts))
    return Blocks([part.domain for part in parts], [part.places.tolist() for part in parts], shape)


def _named(statement: Statement, places: Array) -> str:
    """The entries in words: whole variables by name, or the first and last entry."""
    touched = []
    for variable in statement.variables:
        span = statement.spans[variable.id]
        if np.any((places >= span.start) & (places < span.stop)):
            touched.append(variable)
    if len(places) == sum(variable.size for variable in touched):
        return ", ".join(variable.name() for variable in touched)
    first, last = statement.entries[places[0]], statement.entries[places[-1]]
    return f"{first} to {last} ({len(places)} entries)"
