"""What the constraints that do not change with the round say: bounds, equations, norms, and blocks
of entries; and the bounds that all of them together imply."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from ...engine import Array
from ..translation.affine_forms import AffineForm, AffineForms, groups
from ..translation.attributes import is_symmetric, limits, pattern
from ..translation.inequalities import Excess
from ..translation.statement import Statement

Place = tuple[int, int]
"""A row of the model: the number of the excess, and the entry of it."""


class Row(NamedTuple):
    """<factors, x[places]> at most `value`, or equal to it; `source` is its row of the model."""

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


class Block(NamedTuple):
    """Entries that share equations or norms."""

    places: Array
    equations: list[Row]
    rounds: list[tuple[Place, RoundSet]]
    matrix: Any
    """The variable that must be semidefinite and the rows that say so, if the block is one."""


class Sets:
    """Rows of a statement, sorted into bounds, equations and norms.

    Arguments:
        statement: the model as stated.
        rows: its excesses.
        finite: excesses without which an atom is not defined: they bound entries, and keep a box
            around them.
    """

    def __init__(self, statement: Statement, rows: list[Excess], finite: list[Excess]) -> None:
        self.statement, self.rows = statement, rows
        self.forms = statement.forms
        edges = [[np.ravel(edge) for edge in limits(variable)] for variable in statement.variables]
        self.low, self.high = (np.concatenate([sides[k] for sides in edges]) for k in (0, 1))
        self.bounds: dict[int, list[Place]] = {}
        self.equations: list[Row] = []
        self.inequalities: list[Row] = []
        self.rounds: list[tuple[Place, RoundSet]] = []
        self.semidefinite: dict[int, list[Place]] = {}
        self.eigenvalues: dict[int, tuple[float, float]] = {}
        """Bounds on the eigenvalues of symmetric variables, by id."""
        self.boxed = np.zeros(statement.size, bool)
        for variable in statement.variables:
            if is_symmetric(variable) or not np.all(pattern(variable)):
                self.boxed[statement.spans[variable.id]] = True
            if variable.attributes["PSD"] and variable.ndim == 2:
                self.semidefinite[variable.id] = []
                self.eigenvalues[variable.id] = 0.0, np.inf
        for k, excess in enumerate(rows):
            self._read(k, excess)
        for excess in finite:
            if statement.changing(excess.expression):
                continue
            affine = self._affine(-1, excess)
            for variable in excess.expression.variables():
                self.boxed[statement.spans[variable.id]] |= affine is None
            for row in affine or []:
                self.boxed[row.places] = True
                if len(row.places) == 1:
                    row.cut(self.low, self.high)
        for key, (least, most) in self.eigenvalues.items():  # diagonals are between the eigenvalues
            span = statement.spans[key]
            n = round(np.sqrt(span.stop - span.start))
            diagonal = span.start + np.arange(0, n * n, n + 1)
            self.low[diagonal] = np.maximum(self.low[diagonal], least)
            self.high[diagonal] = np.minimum(self.high[diagonal], most)
        self.own_low, self.own_high = self.low.copy(), self.high.copy()
        """Bounds that are stated for single entries; `low` and `high` are those that all rows
        together imply."""
        for _, norm in self.rounds:
            self._cut(norm)
        self.low, self.high = propagated([*self.equations, *self.inequalities], self.low, self.high)

    def _read(self, k: int, excess: Excess) -> None:
        if self.statement.changing(excess.expression) or not excess.expression.variables():
            return
        rows = self._affine(k, excess)
        for row in rows or []:
            if len(row.places) == 1:
                row.cut(self.low, self.high)
                self.bounds.setdefault(int(row.places[0]), []).append(row.source)
            elif len(row.places):
                (self.equations if excess.equality else self.inequalities).append(row)
        single = None if rows is not None else _single_term(excess.expression, self.forms)
        if single is None:
            return
        term, limit = single
        if type(term).__name__ == "lambda_max":
            self._read_semidefinite(k, term.args[0], float(limit[0]))
            return
        for i, norm in enumerate(round_sets(term, limit, self.forms)):
            if norm is not None and norm.kind == "box":
                self._cut(norm)
                for place in norm.places:
                    self.bounds.setdefault(int(place), []).append((k, i))
            elif norm is not None:
                self.rounds.append(((k, i), norm))

    def _affine(self, k: int, excess: Excess) -> list[Row] | None:
        """The rows of an excess, if it is affine."""
        form = self.forms.of(excess.expression)
        if form is None:
            return None
        matrix = sparse.csr_matrix(form.matrix)
        matrix.eliminate_zeros()
        spans = (slice(*ends) for ends in zip(matrix.indptr[:-1], matrix.indptr[1:], strict=True))
        return [
            Row((k, i), matrix.indices[span], matrix.data[span], -float(edge), excess.equality)
            for i, (span, edge) in enumerate(zip(spans, form.offset, strict=True))
        ]

    def _cut(self, norm: RoundSet) -> None:
        where, reach = norm.places, np.broadcast_to(norm.radius, norm.places.shape)
        self.low[where] = np.maximum(self.low[where], norm.centre - reach)
        self.high[where] = np.minimum(self.high[where], norm.centre + reach)

    def _read_semidefinite(self, k: int, matrix: Any, level: float) -> None:
        """lambda_max(X - a I) <= b bounds the eigenvalues of a symmetric variable X above,
        lambda_max(a I - X) <= b below."""
        form = self.forms.of(matrix)
        for variable in self.statement.variables if form is not None else ():
            own = self.forms.of(variable)
            if own is None or form is None or variable.ndim != 2 or not is_symmetric(variable):
                continue
            if form.matrix.shape != own.matrix.shape:
                continue
            offset = form.offset.reshape(variable.shape)
            if not np.array_equal(offset, offset[0, 0] * np.eye(len(offset))):
                continue
            low, high = self.eigenvalues.get(variable.id, (-np.inf, np.inf))
            if abs(form.matrix + own.matrix).nnz == 0:
                low = max(low, float(offset[0, 0]) - level)
            elif abs(form.matrix - own.matrix).nnz == 0:
                high = min(high, level - float(offset[0, 0]))
            else:
                continue
            self.eigenvalues[variable.id] = low, high
            self.semidefinite.setdefault(variable.id, []).append((k, 0))

    def blocks(self) -> list[Block]:
        """The components of entries that share an equation, a norm or a semidefinite matrix."""
        n = self.statement.size
        links = [row.places for row in self.equations] + [norm.places for _, norm in self.rounds]
        links += [np.arange(n)[self.statement.spans[key]] for key in self.semidefinite]
        if not links:
            return []
        first = np.concatenate([np.repeat(where[0], len(where)) for where in links])
        ends = first, np.concatenate(links)
        graph = sparse.coo_matrix((np.ones(len(first)), ends), (n, n))
        _, labels = sparse.csgraph.connected_components(graph, directed=False)
        blocks = []
        for label in np.unique([labels[where[0]] for where in links]):
            places = np.flatnonzero(labels == label)
            matrices = (
                (key, rows)
                for key, rows in self.semidefinite.items()
                if np.array_equal(places, np.arange(n)[self.statement.spans[key]])
            )
            blocks.append(
                Block(
                    places,
                    [row for row in self.equations if labels[row.places[0]] == label],
                    [pair for pair in self.rounds if labels[pair[1].places[0]] == label],
                    next(matrices, None),
                )
            )
        return blocks


PASSES = 20
"""Turns over all rows; each can only make bounds tighter."""
GAIN = 1e-6
"""A bound that becomes tighter by less than this, relatively, starts no further turn."""


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
    """Edges moved outwards by the rounding of sums of this `size`, or to a short decimal near."""
    room = 1e-14 * (size / factors + np.abs(edges))
    with np.errstate(divide="ignore"):
        unit = 10.0 ** np.ceil(np.log10(np.maximum(100 * room, 1e-300)))
    short = np.round(edges / unit) * unit
    digits = np.array([round(float(edge), 12) for edge in short])
    short = np.where(np.abs(digits - edges) <= room, digits, short)
    return np.where(
        np.abs(short - edges) <= room, short, np.where(upper, edges + room, edges - room)
    )


SAME = 1e-12
"""Numbers that differ by less than this, relatively, are equal."""
LARGEST = 2000
"""Sets of more entries than this are not looked for."""


class RoundSet(NamedTuple):
    """One row: |x - centre| <= radius for the entries at `places`, in the norm `kind`."""

    kind: str
    """ "ball", "l1" or "box"."""
    places: Array
    centre: Array
    radius: float | Array
    """One number per entry for a box."""


def round_sets(term: Any, limit: Array, forms: AffineForms) -> list[RoundSet | None]:
    """For each entry of a term that must not exceed a number the set it describes, if it is one of
    these; nothing if none is."""
    matched = _matched(term, forms)
    if matched is None:
        return []
    kind, argument, axis, squared, scale = matched
    form = forms.of(argument)
    which = groups(argument.shape, axis)
    if form is None or len(which) != len(limit) or np.any(limit < 0):
        return []
    limit = np.sqrt(limit / scale) if squared else limit / scale
    return [
        _set(kind, form.taken(places), float(edge))
        for places, edge in zip(which, limit, strict=True)
    ]


def _single_term(expression: Any, forms: AffineForms) -> tuple[Any, Array] | None:
    """The only term that is not constant, and the number that each entry must not exceed."""
    terms, main = [expression], None
    constant = np.zeros(expression.shape)
    while terms:
        term = terms.pop()
        form, name = forms.of(term), type(term).__name__
        if form is not None and not form.matrix.nnz:
            constant = constant + form.offset.reshape(term.shape)
        elif name == "AddExpression":
            terms += term.args
        elif name == "NegExpression" and type(term.args[0]).__name__ == "NegExpression":
            terms.append(term.args[0].args[0])
        elif main is None and term.size == expression.size:
            main = term
        else:
            return None
    if main is None:
        return None
    limit = -np.ravel(np.broadcast_to(constant, expression.shape))
    while (name := type(main).__name__) in ("multiply", "MulExpression", "DivExpression"):
        numbers = [_number(arg, forms) for arg in main.args]
        at = 1 if numbers[1] is not None else 0
        number = numbers[at]
        if number is None or number <= 0 or (name == "DivExpression" and at == 0):
            return None
        main, limit = main.args[1 - at], limit * number if name[0] == "D" else limit / number
    return main, limit


def _number(expression: Any, forms: AffineForms) -> float | None:
    """The value of an expression that is one number."""
    form = forms.of(expression)
    single = form is not None and form.offset.size == 1 and not form.matrix.nnz
    return float(form.offset[0]) if single and form is not None else None


def _matched(term: Any, forms: AffineForms) -> tuple[str, Any, Any, bool, float] | None:
    """Kind of set, argument, axis, whether the term is a square, and a factor of it."""
    name = type(term).__name__
    inner: Any = term.args[0] if term.args else None
    below = type(inner).__name__
    if name in ("Pnorm", "PnormApprox") and float(term.p) == 2:
        return "ball", inner, term.axis, False, 1.0
    if name in ("norm1", "norm_inf"):
        return ("l1" if name == "norm1" else "box"), inner, term.axis, False, 1.0
    if name == "abs":
        return "box", inner, (), False, 1.0
    if name == "Sum" and below == "abs":
        return "l1", inner.args[0], term.axis, False, 1.0
    if name == "Sum" and below in ("Power", "PowerApprox") and float(inner.p.value) == 2:
        return "ball", inner.args[0], term.axis, True, 1.0
    if name in ("Power", "PowerApprox") and float(term.p.value) == 2:
        if below in ("Pnorm", "PnormApprox") and float(inner.p) == 2:
            return "ball", inner.args[0], inner.axis, True, 1.0
        return None
    if name == "quad_over_lin":
        scale = _number(term.args[1], forms)
        if scale is not None and scale > 0:
            return "ball", inner, term.axis, True, 1 / scale
    if name == "QuadForm":
        matrix = forms.of(term.args[1])
        if matrix is not None and not matrix.matrix.nnz:
            square = matrix.offset.reshape(term.args[1].shape)
            if square[0, 0] > 0 and np.array_equal(square, square[0, 0] * np.eye(len(square))):
                return "ball", inner, None, True, float(square[0, 0])
    return None


def _set(kind: str, form: AffineForm, limit: float) -> RoundSet | None:
    """The set {x : |A x + b| <= limit}, if A is a multiple of an orthonormal matrix."""
    places = np.unique(form.matrix.indices[form.matrix.data != 0])
    if not 0 < len(places) <= LARGEST:
        return None
    matrix = np.asarray(form.matrix[:, places].toarray())
    if kind == "ball":
        squares = matrix.T @ matrix
        size = float(squares[0, 0])
        if np.abs(squares - size * np.eye(len(places))).max() > SAME * size:
            return None
        centre = -(matrix.T @ form.offset) / size
        rest = float(form.offset @ form.offset - size * centre @ centre)
        room = limit**2 - (rest if rest > SAME * (1 + float(form.offset @ form.offset)) else 0.0)
        return RoundSet(kind, places, centre, float(np.sqrt(room / size))) if room > 0 else None
    if np.any((matrix != 0).sum(axis=1) > 1):
        return None
    rows, columns = np.nonzero(matrix)
    factors = matrix[rows, columns]
    empty = np.setdiff1d(np.arange(len(matrix)), rows)
    if kind == "l1":
        size = float(np.abs(factors[0]))
        room = limit - float(np.abs(form.offset[empty]).sum())
        if (
            len(rows) > len(places)
            or np.abs(np.abs(factors) - size).max() > SAME * size
            or room <= 0
        ):
            return None
        centre = np.zeros(len(places))
        centre[columns] = -form.offset[rows] / factors
        return RoundSet(kind, places, centre, room / size)
    low, high = np.full(len(places), -np.inf), np.full(len(places), np.inf)
    middle, reach = -form.offset[rows] / factors, limit / np.abs(factors)
    np.maximum.at(low, columns, middle - reach)
    np.minimum.at(high, columns, middle + reach)
    if np.any(np.abs(form.offset[empty]) > limit) or np.any(low > high):
        return None
    return RoundSet(kind, places, (low + high) / 2, (high - low) / 2)
