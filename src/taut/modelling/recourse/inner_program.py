"""The linear or quadratic program that is left for variables that are chosen after the data of a
round.

Loss and constraints are read as functions of these variables alone, y:

    minimise 1/2 y'Py + q'y   subject to   W_E y + r_E = 0,  W_I y + r_I <= 0

P and W are numbers. The right-hand sides r are expressions of decision and data, and the costs q
may contain data. Piecewise linear functions of y get epigraph variables from CVXPY, and squares of
expressions that contain decision or data get a variable for the expression; both become part of y.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import cvxpy as cp
import numpy as np
from cvxpy.atoms.affine.affine_atom import AffAtom
from cvxpy.constraints.nonpos import Inequality, NonNeg, NonPos
from cvxpy.constraints.zero import Equality, Zero
from cvxpy.reductions.dcp2cone.canonicalizers import CANON_METHODS
from scipy import sparse

from ...engine import Array
from ..translation.affine_forms import AffineForm, AffineForms, groups
from ..translation.attributes import constant_value, spans_of
from ..translation.inequalities import Excess, bounds_of, excesses_of
from ..translation.reading import bound_constraints, leaves_of

PLAIN = ("nonneg", "nonpos", "pos", "neg", "bounds")
"""Attributes that are bounds; a recourse variable may have no others."""


class NoClosedForm(ValueError):
    """A variable cannot be minimised out exactly."""


class InnerProgram(NamedTuple):
    """The program of the variables that are chosen after the data."""

    rest: Any
    """The part of the loss without y, an expression."""
    quadratic: Array
    costs: Array
    changing_costs: Any
    """The part of q that contains data, an expression without variables; None if there is none."""
    matrix: Array
    equality: Array
    """Which rows are equations."""
    offsets: Array
    """The right-hand sides r that are numbers; NaN for others."""
    pieces: list[Any]
    """The right-hand sides r as expressions of one axis, one after another."""

    def right(self, rows: Array) -> Any:
        """The right-hand sides of these rows, in their shape."""
        flat = rows.ravel()
        if np.all(np.isfinite(self.offsets[flat])):
            return cp.Constant(self.offsets[rows])
        ends = np.cumsum([piece.size for piece in self.pieces])
        used = np.unique(np.searchsorted(ends, flat, side="right"))
        place = np.full(len(self.offsets), -1)
        place[np.concatenate([np.arange(ends[k] - self.pieces[k].size, ends[k]) for k in used])] = (
            np.arange(sum(self.pieces[k].size for k in used))
        )
        joined = (
            cp.hstack([self.pieces[k] for k in used]) if len(used) > 1 else self.pieces[used[0]]
        )
        picked = place[flat]
        if not np.array_equal(picked, np.arange(joined.size)):
            joined = joined[picked]
        return joined if joined.shape == rows.shape else cp.reshape(joined, rows.shape, order="C")

    def weighted(self, rows: Array, weights: Array) -> Any:
        """The right-hand sides (program, row) times the transpose of weights (vector, row)."""
        used = np.any(weights != 0, axis=0)
        known = np.all(np.isfinite(self.offsets[rows]), axis=0)
        total = self.offsets[rows[:, known]] @ weights[:, known].T
        if np.all(known | ~used):
            return total
        varying = self.right(rows[:, used & ~known]) @ weights[:, used & ~known].T
        return varying + total if np.any(total) else varying


def has(part: Any, variables: Any) -> bool:
    """Whether an expression or constraint contains one of the variables."""
    ids = {variable.id for variable in variables}
    return any(variable.id in ids for variable in part.variables())


def variable_bounds(variable: Any) -> list[Any]:
    """The attributes of a variable as constraints."""
    others = [
        name
        for name, value in variable.attributes.items()
        if name not in PLAIN and value not in (None, False)
    ]
    if others:
        raise NoClosedForm(f"{variable.name()} has the attribute {others[0]}")
    return [*bound_constraints(variable), *bounds_of(variable)]


def linear_rows(constraint: Any) -> Excess | None:
    """What must not exceed zero, or must be zero; None for a cone."""
    known = isinstance(constraint, (Inequality, Equality, NonPos, Zero, NonNeg))
    return excesses_of(constraint)[0] if known else None


class LinearIn(AffineForms):
    """How expressions depend on some variables. Unknown numbers are NaN, which may be added."""

    def __init__(self, variables: list[Any], fixed: Mapping[int, Any]) -> None:
        width = sum(variable.size for variable in variables)
        entries = sparse.identity(width, format="csr")
        leaves = {key: entries[span] for key, span in spans_of(variables).items()}
        super().__init__(leaves, width, fixed)

    def _of(self, expression: Any) -> AffineForm | None:
        known = not expression.variables() and all(
            p.id in self._fixed for p in expression.parameters()
        )
        if not known and not any(
            variable.id in self._leaves for variable in expression.variables()
        ):
            return AffineForm(
                sparse.csr_matrix((expression.size, self.width)), np.full(expression.size, np.nan)
            )
        return super()._of(expression)

    def finite(self, expression: Any) -> AffineForm | None:
        """The form, if the variables have coefficients that are numbers."""
        form = self.of(expression)
        return None if form is None or not np.all(np.isfinite(form.matrix.data)) else form


def inner_program(
    loss: Any, constraints: list[Any], after: list[Any], fixed: Mapping[int, Any]
) -> InnerProgram:
    """The program of the variables `after`; `constraints` are those that contain them, with their
    bounds.

    `fixed` are the values of parameters that do not change with the round, by id. Raises
    `NoClosedForm` if the program is neither linear nor quadratic.
    """
    reading = _Reading([loss, *constraints], after, fixed)
    objective = reading.linear(loss, True)
    for constraint in constraints:
        reading.constrain(constraint)
    return reading.program(objective)


class _Square(NamedTuple):
    """A stand-in for sums of squares of the entries of an expression."""

    stand_in: Any
    expression: Any
    groups: Array
    """The entries that each entry of the stand-in adds up, (entry, place)."""
    divisor: float


class _Product(NamedTuple):
    """A stand-in for an expression without y times one with y."""

    stand_in: Any
    node: Any
    factor: Any
    expression: Any
    left: bool
    """Whether the factor is the left one."""


class _Reading:
    """Loss and constraints as they are read, with the variables that reading adds."""

    def __init__(self, parts: list[Any], after: list[Any], fixed: Mapping[int, Any]) -> None:
        self.after, self.fixed = list(after), fixed
        self.known = {variable.id for part in parts for variable in part.variables()}
        self.rows: list[tuple[Any, bool]] = []
        self.squares: list[_Square] = []
        self.products: list[_Product] = []
        self.stand_ins: list[Any] = []
        self.names = ", ".join(variable.name() for variable in after)

    def constrain(self, constraint: Any) -> None:
        """Add a constraint."""
        rows = linear_rows(constraint)
        if rows is None:
            raise NoClosedForm(f"{constraint} is neither linear nor quadratic in {self.names}")
        self.rows.append((self.linear(rows.expression, False), rows.equality))

    def linear(self, expression: Any, squares: bool) -> Any:
        """The expression with epigraph variables for maxima, and perhaps stand-ins for squares."""
        if not has(expression, self.after) or isinstance(expression, cp.Variable):
            return expression
        name = type(expression).__name__
        if squares and (square := self._squared(expression, name)) is not None:
            return square
        if isinstance(expression, AffAtom):
            args = [self.linear(argument, squares) for argument in expression.args]
            if squares and name in ("MulExpression", "multiply"):
                mine = [has(argument, [*self.after, *self.stand_ins]) for argument in args]
                other = args[mine.index(False)] if not all(mine) else None
                if other is not None and any(p.id not in self.fixed for p in other.parameters()):
                    return self._product(
                        expression.copy(args), other, args[mine.index(True)], mine[1]
                    )
            return expression.copy(args)
        method = CANON_METHODS.get(type(expression))
        if method is None:
            raise NoClosedForm(f"{name} is neither linear nor quadratic in {self.names}")
        canonical, constraints = method(
            expression, [self.linear(argument, False) for argument in expression.args]
        )
        for variable in leaves_of([canonical, *constraints], "variables"):
            if variable.id not in self.known:
                self._choose(variable)
        for constraint in constraints:
            if linear_rows(constraint) is None:
                raise NoClosedForm(f"{expression} is neither linear nor quadratic in {self.names}")
            self.constrain(constraint)
        return canonical

    def _choose(self, variable: Any) -> Any:
        """Add a variable that is chosen after the data."""
        self.known.add(variable.id)
        self.after.append(variable)
        return variable

    def _stand_in(self, shape: Any) -> Any:
        self.stand_ins.append(cp.Variable(shape))
        self.known.add(self.stand_ins[-1].id)
        return self.stand_ins[-1]

    def _squared(self, expression: Any, name: str) -> Any:
        """A stand-in for a quadratic expression; None if it is not one."""
        if name in ("Power", "PowerApprox") and float(expression.p.value) == 2:
            inner, divisor = expression.args[0], 1.0
            which = np.arange(inner.size)[:, None]
        elif name == "quad_over_lin":
            below = constant_value(expression.args[1])
            if below is None:
                return None
            inner, divisor = expression.args[0], float(np.ravel(below)[0])
            which = groups(inner.shape, expression.axis)
        elif name == "QuadForm":
            matrix = constant_value(expression.args[1])
            if matrix is None:
                return None
            values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
            root = vectors * np.sqrt(np.maximum(values, 0))
            divisor = 1.0
            inner = root[:, values > 1e-12 * max(values.max(), 0)].T @ expression.args[0]
            which = np.arange(inner.size)[None]
        elif name == "huber" and (width := constant_value(expression.M)) is not None:
            near, far = (self._choose(cp.Variable(expression.shape)) for _ in range(2))
            size = float(np.ravel(width)[0])
            for part in (near + far == expression.args[0], near <= size, near >= -size):
                self.constrain(part)
            return self.linear(cp.square(near) + 2 * size * cp.abs(far), True)
        else:
            return None
        if not inner.is_affine() and not (inner.is_convex() and inner.is_nonneg()):
            raise NoClosedForm(f"the square of {inner} is not quadratic in {self.names}")
        stand_in = self._stand_in(expression.shape)
        self.squares.append(_Square(stand_in, self.linear(inner, False), which, divisor))
        return stand_in

    def _product(self, node: Any, factor: Any, expression: Any, left: bool) -> Any:
        if factor.variables() or has(expression, self.stand_ins):
            raise NoClosedForm(f"{node} multiplies squares of {self.names} by data")
        stand_in = self._stand_in(node.shape)
        self.products.append(_Product(stand_in, node, factor, expression, left))
        return stand_in

    def program(self, objective: Any) -> InnerProgram:
        """The program, from the objective as it was read and all constraints."""
        self.squares = [self._with_named_entries(square) for square in self.squares]
        forms = LinearIn([*self.after, *self.stand_ins], self.fixed)
        form = forms.finite(objective)
        if form is None:
            raise NoClosedForm(f"the loss is neither linear nor quadratic in {self.names}")
        gains = np.asarray(form.matrix.toarray())[0]
        size = sum(variable.size for variable in self.after)
        quadratic = np.zeros((size, size))
        spans = spans_of(self.stand_ins, size)
        weights = {key: gains[span] for key, span in spans.items()}
        for square in self.squares:
            gain = weights[square.stand_in.id] / square.divisor
            if np.any(gain < 0):
                raise NoClosedForm(f"the loss is not convex in {self.names}")
            entries = self._form(forms, square.expression)[:, :size]
            factor = np.zeros(square.expression.size)
            factor[square.groups] = gain[:, None]
            quadratic += 2 * entries.T @ (factor[:, None] * entries)
        changing = None
        for product in self.products:
            cost = self._changing(
                product, weights[product.stand_in.id], self._form(forms, product.expression), size
            )
            changing = cost if changing is None else changing + cost
        gone = [*self.after, *self.stand_ins]
        zero = {id(variable): cp.Constant(np.zeros(variable.shape)) for variable in gone}
        for product in self.products:
            zero[id(product.stand_in)] = product.node.tree_copy(dict(zero))
        rest = objective.tree_copy(dict(zero))
        matrices, flags, pieces, offsets = [], list[Array](), list[Any](), list[Array]()
        for expression, equality in self.rows:
            row = forms.finite(expression)
            if row is None or row.matrix[:, size:].nnz:
                raise NoClosedForm(
                    f"coefficients of {self.names} are not numbers in a constraint: {expression} "
                    f"{'==' if equality else '<='} 0"
                )
            right = expression.tree_copy(dict(zero))
            if not (right.is_affine() if equality else right.is_convex()):
                raise NoClosedForm(
                    f"{right}, which is left of a constraint without {self.names}, is not convex"
                )
            matrices.append(np.asarray(row.matrix[:, :size].toarray()))
            flags.append(np.full(expression.size, equality))
            value = constant_value(right)
            offsets.append(np.full(right.size, np.nan) if value is None else np.ravel(value))
            pieces.append(right if right.ndim == 1 else cp.reshape(right, (right.size,), order="C"))
        matrix = np.concatenate(matrices) if matrices else np.zeros((0, size))
        equality_rows = np.concatenate([np.zeros(0, bool), *flags])
        numbers = np.concatenate([np.zeros(0), *offsets])
        return InnerProgram(
            rest, quadratic, gains[:size], changing, matrix, equality_rows, numbers, pieces
        )

    def _with_named_entries(self, square: _Square) -> _Square:
        """The square with a variable for each entry, unless the entries are linear in y."""
        form = LinearIn(self.after, self.fixed).finite(square.expression)
        if form is not None and not np.any(form.offset != 0):
            return square
        named = self._choose(cp.Variable(square.expression.shape))
        self.rows.append((square.expression - named, True))
        return square._replace(expression=named)

    def _form(self, forms: LinearIn, expression: Any) -> Array:
        form = forms.finite(expression)
        if form is None:
            raise NoClosedForm(f"{expression} is not linear in {self.names}")
        return np.asarray(form.matrix.toarray())

    def _changing(self, product: _Product, gain: Array, entries: Array, size: int) -> Any:
        """The costs of y in a product with data, for these weights of its entries."""
        factor, expression = product.factor, product.expression
        if type(product.node).__name__ == "multiply" or factor.ndim == 0 or expression.ndim == 0:
            places = np.arange(expression.size).reshape(expression.shape)
            spread = entries[np.ravel(np.broadcast_to(places, product.node.shape))][:, :size]
            data = (
                cp.vec(cp.broadcast_to(factor, product.node.shape), order="C")
                if factor.ndim
                else factor
            )
            return spread.T @ (cp.multiply(gain, data) if factor.ndim else gain * data)
        if expression.ndim != 1:
            raise NoClosedForm(f"{product.node} is a product of matrices of data and {self.names}")
        if factor.ndim == 1:
            return entries[:, :size].T @ (float(gain[0]) * factor)
        return entries[:, :size].T @ ((factor.T if product.left else factor) @ gain)
