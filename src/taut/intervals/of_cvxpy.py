"""Enclosures of CVXPY expressions: one rule per atom. Atoms that are not here have no bound.

CVXPY is not imported: rules are found by the name of an atom's class.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial, reduce
from typing import Any

import numpy as np

from ..engine import Array
from . import matrices
from .arithmetic import (
    add,
    both,
    broadcast,
    chained,
    contract,
    joined,
    largest,
    last,
    linear,
    log_sum_exp,
    maximum,
    minimum,
    moved,
    mul,
    neg,
    norm,
    reduced,
    running_largest,
    smallest,
    sorted_sum,
    spectral,
    taken,
    total,
)
from .curves import CURVES, Curve, absolute, curved, divide, power, square
from .enclosure import Enclosure, Interval, Space, result
from .pieces import Unknown

MOVED = (
    "Concatenate",
    "Hstack",
    "Vstack",
    "diag_mat",
    "diag_vec",
    "index",
    "reshape",
    "special_index",
    "transpose",
    "upper_tri",
)
"""Atoms that only move entries, or put zeros between them."""
WIDENED = (
    "Promote",
    "Wrap",
    "broadcast_to",
    "conj",
    "hermitian_wrap",
    "nonneg_wrap",
    "nonpos_wrap",
    "nsd_wrap",
    "psd_wrap",
    "real",
    "skew_symmetric_wrap",
    "symmetric_wrap",
)
"""Atoms that repeat entries in a larger shape, or leave them as they are."""
PAIRS = 1_000_000
"""Products of all pairs of entries are formed up to this size."""

Leaf = Callable[[Any], Enclosure | None]
Rule = Callable[..., Enclosure]


def moved_places(atom: Any) -> Array:
    """The places of an atom's entries among those of its arguments, one after another, for atoms
    that move entries.

    -1 stands for zero.
    """
    start, places = 1, []
    for arg in atom.args:
        places.append(np.arange(start, start + arg.size, dtype=float).reshape(arg.shape))
        start += arg.size
    return np.rint(np.asarray(atom.numeric(places), float)).astype(int).reshape(atom.shape) - 1


class Expressions:
    """Enclosures of expressions over one space.

    Arguments:
        space: the decisions.
        leaf: gives the enclosure of a variable, a parameter or a constant expression, and None for
            other expressions.
        eigenvalues: gives bounds on the eigenvalues of a variable, if they are known.
    """

    def __init__(
        self,
        space: Space,
        leaf: Leaf,
        eigenvalues: Callable[[Any], Interval | None] = lambda variable: None,
    ) -> None:
        self.space, self._leaf, self._known_eigenvalues = space, leaf, eigenvalues
        self._known: dict[int, Enclosure] = {}
        self._alive: list[Any] = []  # expressions, so that ids are not used again

    def of(self, expression: Any) -> Enclosure:
        """The enclosure of an expression. Raises `Unknown` if there is none."""
        if id(expression) not in self._known:
            self._alive.append(expression)
            with np.errstate(all="ignore"):
                self._known[id(expression)] = self._of(expression)
        return self._known[id(expression)]

    def _of(self, expression: Any) -> Enclosure:
        enclosure = self._leaf(expression)
        if enclosure is None:
            perspective = type(expression).__name__ == "perspective"
            enclosure = (self._perspective if perspective else self._atom)(expression)
        if enclosure.moves and enclosure.slopes is None:
            raise Unknown("slopes are not limited")
        if not enclosure.value.finite:
            raise Unknown("values are not limited")
        self.space.note(enclosure.value)
        return enclosure

    def _atom(self, atom: Any) -> Enclosure:
        name = type(atom).__name__
        rule = getattr(type(atom), "interval_rule", RULES.get(name))
        if rule is None:
            raise Unknown(f"the atom {name} has no bound")
        of = [self.of(arg) for arg in atom.args]
        values = self._eigenvalues(atom.args[0]) if name in SPECTRAL else None
        enclosure = rule(atom, *of) if values is None else rule(atom, *of, values)
        return enclosure if enclosure.shape == atom.shape else _shaped(enclosure, atom.shape)

    def _eigenvalues(self, matrix: Any) -> Interval | None:
        """Bounds on the eigenvalues of plus or minus a variable and a multiple of the identity, if
        those of the variable are known."""
        name = type(matrix).__name__
        if name == "NegExpression":
            values = self._eigenvalues(matrix.args[0])
            return None if values is None else -values
        if name != "AddExpression":
            return self._known_eigenvalues(matrix)
        terms = [(arg, self.of(arg)) for arg in matrix.args]
        shifts = [broadcast(u, matrix.shape).low for _, u in terms if u.known]
        shift = np.sum(shifts, axis=0) if shifts else np.zeros(matrix.shape)
        others = [arg for arg, u in terms if not u.known]
        values = self._eigenvalues(others[0]) if len(others) == 1 else None
        if values is None or not np.array_equal(shift, shift[0, 0] * np.eye(len(shift))):
            return None
        return values + Interval.of(shift[0, 0])

    def _perspective(self, atom: Any) -> Enclosure:
        """s f(x / s), whose gradient in x is that of f at u = x / s, and in s is f(u) - <gradient,
        u>."""
        scale, variables = self.of(atom.args[0]), atom.f.variables()
        if np.any(scale.low <= 0) or not variables:
            raise Unknown("a perspective with a scale that may be 0 has no bound")
        scale, x = last(scale, None), joined([last(self.of(v), None) for v in variables])
        ratio = x.value * Interval(1 / scale.high, 1 / scale.low)
        space = Space(ratio.low, ratio.high, gradients=True)
        ends = np.cumsum([v.size for v in variables])
        places = {
            v.id: np.arange(end - v.size, end).reshape(v.shape)
            for v, end in zip(variables, ends, strict=True)
        }

        def leaf(expression: Any) -> Enclosure | None:
            where = places.get(getattr(expression, "id", None))
            if where is not None:
                return space.decision(where)
            known = self._leaf(expression)
            return None if known is None else Enclosure.fixed(space, known.low, known.high)

        inner = Expressions(space, leaf).of(atom.f)
        flat = last(inner, None)
        if flat.gradient is None:
            raise Unknown("slopes are not limited")
        slope = flat.gradient.map(lambda part: part[0])
        turn = (slope * ratio).map(lambda part: part.sum(keepdims=True))
        value = (flat.value * scale.value).map(lambda part: part[0])
        size = scale.steep[0] * (flat.value + -turn).size[0] + flat.steep[0] * spectral(x)
        return reduced(value, value, size, (x, slope), (scale, flat.value + -turn))


def _shaped(u: Enclosure, shape: tuple[int, ...]) -> Enclosure:
    count = len(u.shape)
    return moved(u, lambda part: part.reshape((*shape, *part.shape[count:])))


# -- Affine atoms


def _matmul(atom: Any, u: Enclosure, v: Enclosure) -> Enclosure:
    if not u.shape or not v.shape:
        return mul(broadcast(u, atom.shape), broadcast(v, atom.shape))
    if max(len(u.shape), len(v.shape)) > 2:
        raise Unknown("a product of stacks of matrices has no bound")
    left, right = "ab"[-len(u.shape) :], "bc"[: len(v.shape)]
    return contract(u, v, f"{left},{right}->{(left + right).replace('b', '')}")


def _outer(atom: Any, u: Enclosure, v: Enclosure) -> Enclosure:
    """Products of all pairs of entries, added up by a matrix of zeros and ones: kron and
    convolutions."""
    m, n = math.prod(u.shape), math.prod(v.shape)
    if m * n * max(m, n) > PAIRS:
        raise Unknown("a product of so many pairs has no bound")
    i, j = np.divmod(np.arange(m * n), n)
    where = np.zeros((m * n, math.prod(atom.shape)))
    for k in range(m * n):
        units = [np.zeros(operand.shape) for operand in (u, v)]
        units[0].flat[i[k]], units[1].flat[j[k]] = 1.0, 1.0
        where[k] = np.ravel(np.asarray(atom.numeric(units), float))
    return contract(mul(taken(u, i), taken(v, j)), Enclosure.fixed(u.space, where), "a,ab->b")


def _trace(atom: Any, u: Enclosure) -> Enclosure:
    if len(u.shape) != 2:
        raise Unknown("the trace of a stack of matrices has no bound")
    return total(taken(u, np.arange(0, u.shape[0] ** 2, u.shape[0] + 1)))


def _cumsum(atom: Any, u: Enclosure) -> Enclosure:
    return linear(u, lambda part: np.cumsum(part, axis=atom.axis or 0)) if u.shape else u


def _reducing(rule: Callable[..., Enclosure]) -> Rule:
    """The rule of an atom that reduces axes."""
    return lambda atom, u: rule(atom, last(u, getattr(atom, "axis", None)))


# -- Other atoms


def _power(atom: Any, u: Enclosure) -> Enclosure:
    p = float(atom.p.value)
    if p != 1 and p % 2 != 0 and np.any(u.low < 0):
        raise Unknown("a power of a number that may be negative has no bound")
    return power(u, p)


def _huber(atom: Any, u: Enclosure) -> Enclosure:
    if atom.M.value is None or atom.M.parameters():
        raise Unknown("a Huber function with a parameter has no bound")
    m = float(np.ravel(np.asarray(atom.M.value, float))[0])

    def function(x: Array) -> Array:
        return np.where(np.abs(x) <= m, x**2, 2 * m * np.abs(x) - m**2)

    return curved(Curve(function, lambda x: 2 * np.clip(x, -m, m), turn=0.0), u)


def _relative_entropy(atom: Any, x: Enclosure, y: Enclosure) -> Enclosure:
    """x log(x / y), and kl_div, which is x log(x / y) - x + y."""
    x, y = (broadcast(operand.tight, atom.shape) for operand in (x, y))
    if np.any(x.low <= 0) or np.any(y.low <= 0):
        raise Unknown("the logarithm of a number that may be 0 has no bound")
    kl = float(type(atom).__name__ == "kl_div")

    def function(a: Array, b: Array) -> Array:
        return a * np.log(a / b) + kl * (b - a)

    def value(a: Interval, b: Interval) -> Interval:
        ends = [function(end_a, end_b) for end_a in (a.low, a.high) for end_b in (b.low, b.high)]
        best = np.clip(b.high / math.e, a.low, a.high)
        least = np.zeros(atom.shape) if kl else function(best, b.high)
        return Interval(least, np.max(ends, axis=0))  # convex: largest at a corner

    ratio = Interval(np.log(x.low / y.high), np.log(x.high / y.low)).map(lambda a: a + 1 - kl)
    other = Interval(-x.high / y.low, -x.low / y.high).map(lambda b: b + kl)
    return result((x, y), *both(value, x, y), *chained((x, ratio), (y, other)))


def _norm(atom: Any, u: Enclosure) -> Enclosure:
    if float(atom.p) < 1:
        raise Unknown("a norm of an order below 1 has no bound")
    return norm(u, float(atom.p))


def _quad_over_lin(atom: Any, u: Enclosure, v: Enclosure) -> Enclosure:
    if np.any(v.low <= 0):
        raise Unknown("a division by a number that may be 0 has no bound")
    squares = total(last(square(u), getattr(atom, "axis", None)))
    return divide(squares, broadcast(v, squares.shape))


def _quad_form(atom: Any, u: Enclosure, matrix: Enclosure) -> Enclosure:
    u = last(u, None)
    product = contract(u, contract(matrix, u, "ab,b->a"), "a,a->")
    if matrix.known and atom.is_atom_convex():
        return replace(product, value=product.value.map(lambda part: np.maximum(part, 0)))
    return product


def _sum_largest(atom: Any, u: Enclosure) -> Enclosure:
    count = u.shape[-1]
    return sorted_sum(u, Interval.of(np.clip(float(atom.k) - np.arange(count)[::-1], 0, 1)))


def _sorted_product(atom: Any, u: Enclosure, weights: Enclosure) -> Enclosure:
    """The product of sorted numbers with sorted weights, filled up by zeros. Sorting keeps bounds:
    entry by entry."""
    if weights.moves:
        raise Unknown("weights that depend on the decision have no bound")
    u = last(u, None)
    missing = np.zeros(u.shape[-1] - math.prod(weights.shape))
    return sorted_sum(u, weights.value.map(lambda part: np.sort(np.append(part, missing))))


def _geometric_mean(atom: Any, u: Enclosure) -> Enclosure:
    if atom.size != 1 or np.any(u.low <= 0):
        raise Unknown("a geometric mean of numbers that may be 0 has no bound")
    weights = np.zeros(math.prod(u.shape))
    weights[atom._keep] = [float(w) for w in atom.w]
    weights = weights.reshape(u.shape, order="F").ravel()
    logs = curved(CURVES["log"], last(u, None))
    mean = contract(logs, Enclosure.fixed(u.space, weights), "a,a->")
    return curved(CURVES["exp"], mean)


def _matrix(rule: Rule) -> Rule:
    """The rule of a function of one matrix, and of bounds on its eigenvalues, if they are known."""

    def of_matrix(atom: Any, u: Enclosure, *known: Interval) -> Enclosure:
        if len(u.shape) != 2:
            raise Unknown("a function of a stack of matrices has no bound")
        return rule(atom, u.tight, *known)

    return of_matrix


def _elementwise(rule: Rule) -> Rule:
    return lambda atom, *of: rule(*(broadcast(u, atom.shape) for u in of))


def _summed(name: str) -> Rule:
    return _matrix(lambda atom, u, *known: matrices.summed(CURVES[name], u, *known))


SPECTRAL: dict[str, Rule] = {
    "lambda_max": _matrix(lambda atom, u, *known: matrices.largest_eigenvalues(u, 1, *known)),
    "lambda_sum_largest": _matrix(
        lambda atom, u, *known: matrices.largest_eigenvalues(u, float(atom.k), *known)
    ),
    "log_det": _summed("log"),
    "tr_inv": _summed("inverse"),
    "von_neumann_entr": _summed("entropy"),
}
"""Atoms of the eigenvalues of one matrix, for which bounds may be known."""
CURVED = {"entr": "entropy", "exp": "exp", "log": "log", "log1p": "log1p", "logistic": "softplus"}
"""Atoms that are functions of every entry."""
RULES: dict[str, Rule] = {
    **dict.fromkeys(MOVED, lambda atom, *of: taken(joined(of), moved_places(atom))),
    **dict.fromkeys(WIDENED, _elementwise(lambda u: u)),
    **{name: _elementwise(partial(curved, CURVES[CURVED[name]])) for name in CURVED},
    **SPECTRAL,
    **dict.fromkeys(("conv", "convolve", "kron"), _outer),
    **dict.fromkeys(("Pnorm", "PnormApprox"), _reducing(_norm)),
    **dict.fromkeys(("Power", "PowerApprox"), _power),
    **dict.fromkeys(("GeoMean", "GeoMeanApprox"), _geometric_mean),
    **dict.fromkeys(("kl_div", "rel_entr"), _relative_entropy),
    "AddExpression": _elementwise(lambda *of: reduce(add, of)),
    "DivExpression": _elementwise(divide),
    "MatrixFrac": lambda atom, u, matrix: matrices.matrix_fraction(u.tight, matrix.tight),
    "MulExpression": _matmul,
    "NegExpression": _elementwise(neg),
    "QuadForm": _quad_form,
    "Sum": _reducing(lambda atom, u: total(u)),
    "Trace": _trace,
    "abs": _elementwise(absolute),
    "cummax": lambda atom, u: running_largest(u, atom.axis or 0) if u.shape else u,
    "cumsum": _cumsum,
    "dotsort": _sorted_product,
    "huber": _huber,
    "imag": lambda atom, u: Enclosure.fixed(u.space, np.zeros(atom.shape)),
    "log_sum_exp": _reducing(lambda atom, u: log_sum_exp(u)),
    "max": _reducing(lambda atom, u: largest(u)),
    "maximum": _elementwise(maximum),
    "min": _reducing(lambda atom, u: smallest(u)),
    "minimum": _elementwise(minimum),
    "multiply": _elementwise(mul),
    "norm1": _reducing(lambda atom, u: total(absolute(u))),
    "normNuc": _matrix(lambda atom, u: matrices.singular(u)),
    "norm_inf": _reducing(lambda atom, u: largest(absolute(u))),
    "quad_over_lin": _quad_over_lin,
    "sigma_max": _matrix(lambda atom, u: matrices.singular(u, 1)),
    "sum_largest": _reducing(_sum_largest),
    "xexp": _elementwise(lambda u: mul(u, curved(CURVES["exp"], u))),
}
