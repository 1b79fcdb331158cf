"""What the constraints that do not change with the round say: bounds, equations, norms, and blocks
of entries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy import sparse

from ...engine import Array
from ..translation.affine_forms import AffineForms, of_decisions
from ..translation.attributes import is_symmetric, limits, pattern
from ..translation.inequalities import Excess
from .propagation import Row, propagated
from .round_sets import RoundSet, round_sets

if TYPE_CHECKING:
    from ..model import Model

__all__ = ["Block", "Place", "Sets"]

Place = tuple[int, int]
"""A row of the model: the number of the excess, and the entry of it."""


class Block(NamedTuple):
    """Entries that share equations or norms."""

    places: Array
    equations: list[Row]
    rounds: list[tuple[Place, RoundSet]]
    matrix: Any
    """The variable that must be semidefinite, if that is what the block is, with the rows that say
    so."""


class Sets:
    """Rows of a model, sorted into bounds, equations and norms.

    Arguments:
        model: the model; the domain is not known yet.
        rows: its excesses.
        finite: excesses without which an atom is not defined: they bound entries, and keep a box
            around them.
    """

    def __init__(self, model: Model, rows: list[Excess], finite: list[Excess]) -> None:
        self.model, self.rows = model, rows
        self.forms: AffineForms = of_decisions(model)
        edges = [[np.ravel(edge) for edge in limits(variable)] for variable in model.variables]
        self.low, self.high = (np.concatenate([one[k] for one in edges]) for k in (0, 1))
        self.bounds: dict[int, list[Place]] = {}
        self.equations: list[Row] = []
        self.inequalities: list[Row] = []
        self.rounds: list[tuple[Place, RoundSet]] = []
        self.semidefinite: dict[int, list[Place]] = {}
        self.eigenvalues: dict[int, tuple[float, float]] = {}
        """Bounds on the eigenvalues of symmetric variables, by id."""
        self.boxed = np.zeros(model.size, bool)
        for variable in model.variables:
            if is_symmetric(variable) or not np.all(pattern(variable)):
                self.boxed[model.spans[variable.id]] = True
            if variable.attributes["PSD"] and variable.ndim == 2:
                self.semidefinite[variable.id] = []
        for k, one in enumerate(rows):
            self._read(k, one)
        for one in finite:
            self._read_finite(one)
        for variable in model.variables:
            if variable.id in self.semidefinite and variable.attributes["PSD"]:
                low, high = self.eigenvalues.get(variable.id, (0.0, np.inf))
                self.eigenvalues[variable.id] = max(low, 0.0), high
        for key, (least, most) in self.eigenvalues.items():  # diagonals are between the eigenvalues
            span = model.spans[key]
            n = round(np.sqrt(span.stop - span.start))
            diagonal = span.start + np.arange(0, n * n, n + 1)
            self.low[diagonal] = np.maximum(self.low[diagonal], least)
            self.high[diagonal] = np.minimum(self.high[diagonal], most)
        self.own_low, self.own_high = self.low.copy(), self.high.copy()
        """Bounds that are stated for single entries; `low` and `high` are those that all rows
        together imply."""
        for _, found in self.rounds:
            self._cut(found)
        self.low, self.high = propagated([*self.equations, *self.inequalities], self.low, self.high)

    def _read(self, k: int, one: Excess) -> None:
        expression = one.expression
        if self.model.changing(expression) or not expression.variables():
            return
        form = self.forms.of(expression)
        if form is None:
            self._read_curved(k, expression)
            return
        matrix = sparse.csr_matrix(form.matrix)
        matrix.eliminate_zeros()
        for i in range(len(form.offset)):
            span = slice(matrix.indptr[i], matrix.indptr[i + 1])
            row = Row(
                (k, i),
                matrix.indices[span],
                matrix.data[span],
                -float(form.offset[i]),
                one.equality,
            )
            if len(row.places) == 1:
                self.low, self.high = row.cut(self.low, self.high)
                self.bounds.setdefault(int(row.places[0]), []).append((k, i))
            elif len(row.places):
                (self.equations if one.equality else self.inequalities).append(row)

    def _read_curved(self, k: int, expression: Any) -> None:
        largest = _largest_eigenvalue(expression)
        if largest is not None:
            self._read_semidefinite(k, *largest)
            return
        for i, found in enumerate(round_sets(expression, self.forms)):
            if found is None:
                continue
            if found.kind == "box":
                self._cut(found)
                for place in found.places:
                    self.bounds.setdefault(int(place), []).append((k, i))
            else:
                self.rounds.append(((k, i), found))

    def _cut(self, found: RoundSet) -> None:
        where, reach = found.places, np.broadcast_to(found.radius, found.places.shape)
        self.low[where] = np.maximum(self.low[where], found.centre - reach)
        self.high[where] = np.minimum(self.high[where], found.centre + reach)

    def _read_semidefinite(self, k: int, matrix: Any, level: float) -> None:
        """lambda_max(X - a I) <= b bounds the eigenvalues of a symmetric variable X above,
        lambda_max(a I - X) <= b below."""
        form = self.forms.of(matrix)
        for variable in self.model.variables if form is not None else ():
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

    def _read_finite(self, one: Excess) -> None:
        if self.model.changing(one.expression):
            return
        form = self.forms.of(one.expression)
        for variable in one.expression.variables():
            self.boxed[self.model.spans[variable.id]] |= form is None
        if form is None:
            return
        matrix = sparse.csr_matrix(form.matrix)
        matrix.eliminate_zeros()
        for i in range(len(form.offset)):
            span = slice(matrix.indptr[i], matrix.indptr[i + 1])
            row = Row(
                (-1, i),
                matrix.indices[span],
                matrix.data[span],
                -float(form.offset[i]),
                one.equality,
            )
            self.boxed[row.places] = True
            if len(row.places) == 1:
                self.low, self.high = row.cut(self.low, self.high)

    def blocks(self) -> list[Block]:
        """The connected components of entries that share an equation, a norm or a semidefinite
        matrix."""
        n = self.model.size
        links = [row.places for row in self.equations] + [one.places for _, one in self.rounds]
        links += [np.arange(n)[self.model.spans[key]] for key in self.semidefinite]
        pairs = [(np.repeat(where[0], len(where)), where) for where in links]
        ends = [
            np.concatenate([pair[k] for pair in pairs]) if pairs else np.zeros(0, int)
            for k in (0, 1)
        ]
        graph = sparse.coo_matrix((np.ones(len(ends[0])), (ends[0], ends[1])), (n, n))
        _, labels = sparse.csgraph.connected_components(graph, directed=False)
        found = []
        for label in np.unique([labels[where[0]] for where in links]).astype(int):
            places = np.flatnonzero(labels == label)
            inside = set(places.tolist())
            spans = {key: self.model.spans[key] for key in self.semidefinite}
            matrix = next(
                (
                    key
                    for key, span in spans.items()
                    if len(places) == span.stop - span.start and places[0] == span.start
                ),
                None,
            )
            found.append(
                Block(
                    places,
                    [row for row in self.equations if int(row.places[0]) in inside],
                    [one for one in self.rounds if int(one[1].places[0]) in inside],
                    None if matrix is None else (matrix, self.semidefinite[matrix]),
                )
            )
        return found


def _largest_eigenvalue(expression: Any) -> tuple[Any, float] | None:
    """The matrix M and the number b of a row lambda_max(M) - b <= 0; None for other rows."""
    level, terms = 0.0, [expression]
    found = None
    while terms:
        one = terms.pop()
        kind = type(one).__name__
        if kind == "AddExpression":
            terms += one.args
        elif not one.variables() and not one.parameters() and one.size == 1:
            level -= float(np.ravel(one.value)[0])
        elif kind == "NegExpression" and type(one.args[0]).__name__ == "NegExpression":
            terms.append(one.args[0].args[0])
        elif kind == "lambda_max" and found is None:
            found = one.args[0]
        else:
            return None
    return None if found is None else (found, level)
