"""Affine pieces: a traced program as maxima of affine functions of the decision.

An array of pieces has, for each entry, K affine functions of which it is the maximum, or the
minimum. Sums of maxima have all sums of their pieces. An operation without a rule, such as a
product of two values that depend on the decision, raises `Unknown`: the program then counts as not
piecewise affine, even if it is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ...engine import Array
from ...intervals.enclosure import Unknown
from ...intervals.of_jaxpr import (
    MOVES,
    computed,
    contraction,
    has_usual_derivative,
    places_of,
    traced,
)
from ...jaxpr.walk import CALLS, called, evaluate

MOST = 256
"""Pieces of an entry, at most."""
ROOM = 4_000_000
"""Numbers in an array of pieces, at most."""
SAME = 1e-12
"""Half-spaces whose unit normals and offsets differ by less than this, relatively, are the same."""
APART = 1.5e-6
"""Kept cuts whose unit normals differ by less than this share a slot."""
PLAIN_CALLS = CALLS - {"custom_jvp_call", "custom_vjp_call"}
"""Calls that have no derivative of their own."""


@dataclass(frozen=True, eq=False)
class Pieces:
    """An array whose entries are maxima or minima of affine functions of the flat decision."""

    functions: Array
    """(piece, *shape, entry of the decision and one more): slopes, and the offset last."""
    sign: int
    """1 for maxima, -1 for minima, 0 for a single affine function."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the array."""
        return self.functions.shape[1:-1]

    @property
    def size(self) -> int:
        """The number of entries of a decision."""
        return int(self.functions.shape[-1]) - 1

    @property
    def rows(self) -> Array:
        """All affine functions, (function, entry of the decision and one more)."""
        return self.functions.reshape(-1, self.size + 1)


def pieces_of(function: Callable[..., Any], shape: tuple[int, ...], data: Any = None) -> Pieces:
    """The affine pieces of all outputs of `function(x, z)`. Raises `Unknown` if there are none.

    Every gradient that a learner sees is the slope of a piece, also where several are equal: see
    `taut.jaxpr.maxima`.
    """
    program = traced(function, shape, data)
    size = math.prod(shape)
    decision = Pieces(np.eye(size, size + 1).reshape(1, *shape, size + 1), 0)
    with np.errstate(all="ignore"):
        (result,) = evaluate(program, [decision, *jax.tree.leaves(data)], _apply, PLAIN_CALLS)
    result = _as_pieces(result, size)
    if not np.all(np.isfinite(result.functions)):
        raise Unknown("an affine piece is not finite")
    return result


def distinct(functions: Array) -> Array:
    """Unit normals of the different half-spaces {x : slope.x + offset <= 0}, one for each; the
    offset is the last entry of a function.

    Pieces that do not depend on the decision and hold are left out.
    """
    length = np.linalg.norm(functions[:, :-1], axis=-1)
    if np.any(functions[length == 0, -1] > 0):
        raise Unknown("a constraint does not depend on the decision and is violated")
    moving = length > 0
    rows = functions[moving] / length[moving][:, None]
    scale = np.maximum(1, np.abs(rows[:, -1:]))
    _, first = np.unique(np.round(rows / scale / SAME), axis=0, return_index=True)
    normals: Array = rows[np.sort(first), :-1]
    return normals


def nearly_parallel(normals: Array) -> bool:
    """Whether two unit normals differ by so little that their cuts share a slot, although they are
    not the same."""
    distances = (np.linalg.norm(normals[k + 1 :] - row, axis=1) for k, row in enumerate(normals))
    return any(np.any((each > 10 * SAME) & (each < APART)) for each in distances)


# -- Rules


def _apply(equation: Any, operands: list[Any]) -> Sequence[Any]:
    name, types = equation.primitive.name, [variable.aval.dtype for variable in equation.outvars]
    moves = any(isinstance(operand, Pieces) for operand in operands)
    if any(jnp.issubdtype(dtype, jax.dtypes.extended) for dtype in types):
        raise Unknown("a random key has no affine pieces")
    if moves and any(dtype.kind != "f" for dtype in types):
        raise Unknown("a value that depends on the decision is not a real number")
    if name in CALLS and (not moves or has_usual_derivative(equation)):
        return evaluate(called(equation), operands, _apply, PLAIN_CALLS)
    if not moves:
        return computed(equation, operands)
    if name in MOVES:
        return _moved(equation, operands)
    rule = _RULES.get(name)
    if rule is None:
        raise Unknown(f"the operation {name} is not piecewise affine, as far as is known")
    return [rule(*operands, **equation.params)]


def _as_pieces(value: Any, size: int) -> Pieces:
    """Known numbers as pieces that do not depend on the decision."""
    if isinstance(value, Pieces):
        return value
    array = np.asarray(value)
    if array.dtype.kind not in "fiub":
        raise Unknown("a number that is not real has no affine pieces")
    functions = np.zeros((1, *array.shape, size + 1))
    functions[0, ..., -1] = array
    return Pieces(functions, 0)


def _made(functions: Array, sign: int) -> Pieces:
    _check_room(len(functions), functions.size)
    return Pieces(functions, 0 if len(functions) == 1 else sign)


def _check_room(pieces: int, numbers: int) -> None:
    if pieces > MOST or numbers > ROOM:
        raise Unknown("the affine pieces are too many")


def _both(u: Any, v: Any) -> tuple[Pieces, Pieces, int]:
    """Two operands as pieces of one shape, and the sign of a sum: JAX broadcasts single numbers."""
    size = u.size if isinstance(u, Pieces) else v.size
    u, v = _as_pieces(u, size), _as_pieces(v, size)
    shape = np.broadcast_shapes(u.shape, v.shape)
    return _wide(u, shape), _wide(v, shape), _sign(u, v)


def _wide(u: Pieces, shape: tuple[int, ...]) -> Pieces:
    """The same number at all places of a larger shape."""
    count, entries = len(u.functions), u.size + 1
    axes = (1,) * (len(shape) - len(u.shape))
    functions = u.functions.reshape(count, *axes, *u.shape, entries)
    return Pieces(np.broadcast_to(functions, (count, *shape, entries)), u.sign)


def _sign(*of: Pieces) -> int:
    signs = {u.sign for u in of} - {0}
    if len(signs) > 1:
        raise Unknown("a maximum and a minimum are combined")
    return signs.pop() if signs else 0


def _add(u: Any, v: Any, **_: Any) -> Pieces:
    u, v, sign = _both(u, v)
    count = len(u.functions) * len(v.functions)
    _check_room(count, count * u.functions[0].size)
    sums = u.functions[:, None] + v.functions[None]
    return _made(sums.reshape(count, *sums.shape[2:]), sign)


def _neg(u: Pieces, **_: Any) -> Pieces:
    return Pieces(-u.functions, -u.sign)


def _sub(u: Any, v: Any, **_: Any) -> Pieces:
    return _add(u, _neg(v) if isinstance(v, Pieces) else -np.asarray(v, float))


def _mul(u: Any, v: Any, **_: Any) -> Pieces:
    u, factor, sign = _with_factor(u, v)
    shape = np.broadcast_shapes(u.shape, factor.shape)
    return Pieces(_wide(u, shape).functions * np.broadcast_to(factor, shape)[..., None], sign)


def _with_factor(u: Any, v: Any) -> tuple[Pieces, Array, int]:
    """Of two operands, the one that depends on the decision and the other, and the sign of their
    product."""
    if isinstance(u, Pieces) and isinstance(v, Pieces):
        raise Unknown("a product of two values that depend on the decision")
    moving, factor = (u, v) if isinstance(u, Pieces) else (v, u)
    factor = np.asarray(factor, float)
    if not moving.sign or not np.any(factor < 0):
        return moving, factor, moving.sign
    if np.any(factor > 0):
        raise Unknown("factors of both signs")
    return moving, factor, -moving.sign


def _div(u: Any, v: Any, **_: Any) -> Pieces:
    if isinstance(v, Pieces):
        raise Unknown("a division by a value that depends on the decision")
    return _mul(u, 1 / np.asarray(v, float))


def _joined(u: Any, v: Any, sign: int) -> Pieces:
    """The maximum (sign 1) or minimum (sign -1) of two arrays."""
    u, v, signs = _both(u, v)
    if signs == -sign:
        raise Unknown("a maximum and a minimum are combined")
    return _made(np.concatenate([u.functions, v.functions]), sign)


def _abs(u: Pieces, **_: Any) -> Pieces:
    if u.sign:
        raise Unknown("the absolute value of a maximum")
    return _joined(u, _neg(u), 1)


def _last(u: Pieces, axes: Sequence[int]) -> Pieces:
    """The same array with these axes as one, the last."""
    rest = [k for k in range(len(u.shape)) if k not in axes]
    order = [0, *(1 + k for k in (*rest, *axes)), -1]
    shape = len(u.functions), *(u.shape[k] for k in rest), -1, u.size + 1
    return Pieces(u.functions.transpose(order).reshape(shape), u.sign)


def _reduce_sum(u: Pieces, *, axes: Sequence[int], **_: Any) -> Pieces:
    u = _last(u, axes)
    if not u.sign:
        return Pieces(u.functions.sum(axis=-2), 0)
    if u.shape[-1] == 0 or len(u.functions) ** u.shape[-1] > MOST:
        raise Unknown("the affine pieces are too many")
    entries = (Pieces(u.functions[..., j, :], u.sign) for j in range(u.shape[-1]))
    return reduce(_add, entries)


def _extreme(u: Pieces, axes: Sequence[int], sign: int) -> Pieces:
    if u.sign == -sign:
        raise Unknown("a maximum and a minimum are combined")
    u = _last(u, axes)
    functions = np.moveaxis(u.functions, -2, 0)
    return _made(functions.reshape(-1, *u.shape[:-1], u.size + 1), sign)


def _dot(u: Any, v: Any, *, dimension_numbers: Any, **_: Any) -> Pieces:
    """A product of known numbers with pieces: products entry by entry, and their sum."""
    moving, factor, sign = _with_factor(u, v)
    first, second, out = contraction(len(np.shape(u)), len(np.shape(v)), dimension_numbers)
    own, other = (first, second) if moving is u else (second, first)
    summed = "".join(letter for letter in own if letter not in out)
    lengths = dict(zip(own + other, moving.shape + factor.shape, strict=True))
    _check_room(1, len(moving.functions) * math.prod(lengths.values()) * moving.size)
    products = np.einsum(f"...{own}Z,{other}->...{out}{summed}Z", moving.functions, factor)
    return _reduce_sum(Pieces(products, sign), axes=range(len(out), len(out) + len(summed)))


def _cumsum(u: Pieces, *, axis: int, reverse: bool) -> Pieces:
    if u.sign:
        raise Unknown("running sums of maxima")
    k = axis + 1
    if not reverse:
        return Pieces(u.functions.cumsum(k), 0)
    return Pieces(np.flip(np.cumsum(np.flip(u.functions, k), k), k), 0)


def _converted(u: Pieces, *, new_dtype: Any, **_: Any) -> Pieces:
    if np.dtype(new_dtype).kind != "f":
        raise Unknown("a conversion to integers jumps")
    return u


def _select(which: Any, *cases: Any, **_: Any) -> Pieces:
    """A choice that does not depend on the decision."""
    if isinstance(which, Pieces):
        raise Unknown("a choice that depends on the decision")
    if len(cases) != 2:
        raise Unknown("a choice among more than two cases")
    no, yes, sign = _both(*cases)
    count = max(len(no.functions), len(yes.functions))
    chosen = np.broadcast_to(np.asarray(which, bool), no.shape)[..., None]
    return Pieces(np.where(chosen, _repeated(yes, count), _repeated(no, count)), sign)


def _repeated(u: Pieces, count: int) -> Array:
    """The same maxima with more pieces: the last one again and again."""
    return u.functions[np.minimum(np.arange(count), len(u.functions) - 1)]


def _power(u: Pieces, *, y: int, **_: Any) -> Pieces:
    if y != 1:
        raise Unknown("a power of a value that depends on the decision")
    return u


def _moved(equation: Any, operands: list[Any]) -> Sequence[Any]:
    """Entries at other places."""
    known = [None if isinstance(operand, Pieces) else operand for operand in operands]
    moving, places = places_of(equation, operands, known)
    size = next(operand.size for operand in moving if isinstance(operand, Pieces))
    parts = [_as_pieces(operand, size) for operand in moving]
    count = max(len(part.functions) for part in parts)
    flat = [_repeated(part, count).reshape(count, -1, size + 1) for part in parts]
    functions, sign = np.concatenate(flat, axis=1), _sign(*parts)
    _check_room(count, count * sum(at.size for at in places) * (size + 1))
    return [_made(functions[:, at], sign) for at in places]


_RULES: dict[str, Callable[..., Pieces]] = {
    "abs": _abs,
    "add": _add,
    "add_any": _add,
    "convert_element_type": _converted,
    "cumsum": _cumsum,
    "div": _div,
    "dot_general": _dot,
    "integer_pow": _power,
    "max": lambda u, v, **_: _joined(u, v, 1),
    "min": lambda u, v, **_: _joined(u, v, -1),
    "mul": _mul,
    "neg": _neg,
    "reduce_max": lambda u, *, axes, **_: _extreme(u, axes, 1),
    "reduce_min": lambda u, *, axes, **_: _extreme(u, axes, -1),
    "reduce_sum": _reduce_sum,
    "select_n": _select,
    "sub": _sub,
}
