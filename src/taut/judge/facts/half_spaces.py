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
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ...engine import Array, default_float
from ...intervals.enclosure import Unknown
from ...intervals.of_jaxpr import CUSTOM, MOVES, is_log_add_exp, rearrangement
from ...jax_internals import bind, derivative_file
from ...jaxpr.numpy_rules import is_ordinary, operation
from ...jaxpr.walk import CALLS, called, equations, evaluate

__all__ = [
    "Pieces",
    "distinct",
    "has_usual_derivative",
    "has_usual_derivatives",
    "nearly_parallel",
    "pieces_of",
]


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

    slopes: Array
    """(piece, *shape, entry of the decision)"""
    offsets: Array
    """(piece, *shape)"""
    sign: int
    """1 for maxima, -1 for minima, 0 for a single affine function."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the array."""
        return self.offsets.shape[1:]

    @property
    def size(self) -> int:
        """The number of entries of a decision."""
        return int(self.slopes.shape[-1])

    @property
    def steepest(self) -> float:
        """The largest norm of a slope. A gradient is a mean of slopes, so none is larger."""
        return float(np.linalg.norm(self.slopes, axis=-1).max(initial=0))

    @property
    def convex(self) -> bool:
        """Whether the entries are convex functions."""
        return self.sign >= 0

    def map(self, function: Callable[[Array], Array]) -> Pieces:
        """The same entries at other places; the function keeps the first axis and moves `shape`."""
        return Pieces(
            np.moveaxis(_each(function, np.moveaxis(self.slopes, -1, 0)), 0, -1),
            function(self.offsets),
            self.sign,
        )


def pieces_of(function: Callable[..., Any], shape: tuple[int, ...], data: Any = None) -> Pieces:
    """The affine pieces of all outputs of `function(x, z)`. Raises `Unknown` if there are none.

    Every gradient that a learner sees is the slope of a piece, also where several are equal: see
    `taut.jaxpr.maxima`.
    """
    x = jax.ShapeDtypeStruct(shape, default_float())
    like = jax.tree.map(lambda a: jax.ShapeDtypeStruct(np.shape(a), np.asarray(a).dtype), data)
    program = jax.make_jaxpr(function)(x, like)
    size = math.prod(shape)
    decision = Pieces(np.eye(size).reshape(1, *shape, size), np.zeros((1, *shape)), 0)
    with np.errstate(all="ignore"):
        (result,) = evaluate(program, [decision, *jax.tree.leaves(data)], _apply, PLAIN_CALLS)
    result = result if isinstance(result, Pieces) else _constant(result, size)
    if not (np.all(np.isfinite(result.slopes)) and np.all(np.isfinite(result.offsets))):
        raise Unknown("an affine piece is not finite")
    return result


def distinct(slopes: Array, offsets: Array) -> tuple[Array, Array]:
    """Unit normals and offsets of the different half-spaces {x : slope.x + offset <= 0}.

    Pieces that do not depend on the decision and hold are left out.
    """
    length = np.linalg.norm(slopes, axis=-1)
    if np.any(offsets[length == 0] > 0):
        raise Unknown("a constraint does not depend on the decision and is violated")
    moving = length > 0
    rows = np.column_stack([slopes[moving], offsets[moving]]) / length[moving][:, None]
    scale = np.maximum(1, np.abs(rows[:, -1:]))
    _, first = np.unique(np.round(rows / scale / SAME), axis=0, return_index=True)
    kept = rows[np.sort(first)]
    return kept[:, :-1], kept[:, -1]


def nearly_parallel(normals: Array) -> bool:
    """Whether two unit normals differ by so little that their cuts share a slot, although they are
    not the same."""
    distances = (np.linalg.norm(normals[k + 1 :] - one, axis=1) for k, one in enumerate(normals))
    return any(np.any((each > 10 * SAME) & (each < APART)) for each in distances)


# -- Rules


def _apply(equation: Any, operands: list[Any]) -> Sequence[Any]:
    name, types = equation.primitive.name, [variable.aval.dtype for variable in equation.outvars]
    moves = any(isinstance(one, Pieces) for one in operands)
    if any(jnp.issubdtype(dtype, jax.dtypes.extended) for dtype in types):
        raise Unknown("a random key has no affine pieces")
    if moves and any(dtype.kind != "f" for dtype in types):
        raise Unknown("a value that depends on the decision is not a real number")
    if name in CALLS and (not moves or has_usual_derivative(equation)):
        return evaluate(called(equation), operands, _apply, PLAIN_CALLS)
    if not moves:
        return _computed(equation, operands)
    if name in MOVES:
        return _moved(equation, operands)
    rule = _RULES.get(name)
    if rule is None:
        raise Unknown(f"the operation {name} is not piecewise affine, as far as is known")
    return [rule(*operands, **equation.params)]


def _computed(equation: Any, operands: list[Any]) -> list[Array]:
    """The results of an operation on known numbers: in NumPy, or compiled by JAX, which takes
    longer."""
    variables = (*equation.invars, *equation.outvars)
    made = None
    if all(is_ordinary(variable.aval.dtype) for variable in variables):
        made = operation(equation, 0, [True] * len(operands))
    if made is None:
        return [np.asarray(value) for value in bind(equation, operands)]
    types = [variable.aval.dtype for variable in equation.invars]
    result = made(*(np.asarray(one, dtype) for one, dtype in zip(operands, types, strict=True)))
    return list(result) if equation.primitive.multiple_results else [np.asarray(result)]


def _each(function: Callable[[Array], Array], stacked: Array) -> Array:
    return np.stack([function(part) for part in stacked])


def _constant(value: Any, size: int, like: tuple[int, ...] | None = None) -> Pieces:
    array = np.asarray(value)
    if array.dtype.kind not in "fiub":
        raise Unknown("a number that is not real has no affine pieces")
    array = np.broadcast_to(array.astype(float), np.shape(array) if like is None else like)
    return Pieces(np.zeros((1, *array.shape, size)), array[None], 0)


def _made(slopes: Array, offsets: Array, sign: int) -> Pieces:
    if len(offsets) > MOST or slopes.size > ROOM:
        raise Unknown("the affine pieces are too many")
    return Pieces(slopes, offsets, 0 if len(offsets) == 1 else sign)


def _both(u: Any, v: Any) -> tuple[Pieces, Pieces]:
    """Two operands as pieces of one shape: JAX broadcasts single numbers."""
    size = u.size if isinstance(u, Pieces) else v.size
    shape = np.broadcast_shapes(np.shape(_offsets(u)), np.shape(_offsets(v)))
    one, two = (
        _wide(part, shape) if isinstance(part, Pieces) else _constant(part, size, shape)
        for part in (u, v)
    )
    return one, two


def _wide(u: Pieces, shape: tuple[int, ...]) -> Pieces:
    """The same number at all places of a larger shape."""
    if u.shape == shape:
        return u
    axes = (1,) * (len(shape) - len(u.shape))
    count = len(u.offsets)
    slopes = u.slopes.reshape(count, *axes, *u.shape, u.size)
    offsets = u.offsets.reshape(count, *axes, *u.shape)
    return Pieces(
        np.broadcast_to(slopes, (count, *shape, u.size)),
        np.broadcast_to(offsets, (count, *shape)),
        u.sign,
    )


def _offsets(u: Any) -> Any:
    return u.offsets[0] if isinstance(u, Pieces) else u


def _sign(*of: Pieces) -> int:
    signs = {one.sign for one in of} - {0}
    if len(signs) > 1:
        raise Unknown("a maximum and a minimum are combined")
    return signs.pop() if signs else 0


def _add(u: Any, v: Any, **_: Any) -> Pieces:
    u, v = _both(u, v)
    sign = _sign(u, v)
    count = len(u.offsets) * len(v.offsets)
    if count > MOST or count * u.slopes[0].size > ROOM:
        raise Unknown("the affine pieces are too many")
    slopes = u.slopes[:, None] + v.slopes[None]
    offsets = u.offsets[:, None] + v.offsets[None]
    return _made(
        slopes.reshape(-1, *slopes.shape[2:]), offsets.reshape(-1, *offsets.shape[2:]), sign
    )


def _neg(u: Pieces, **_: Any) -> Pieces:
    return Pieces(-u.slopes, -u.offsets, -u.sign)


def _sub(u: Any, v: Any, **_: Any) -> Pieces:
    return _add(u, _neg(v) if isinstance(v, Pieces) else -np.asarray(v, float))


def _mul(u: Any, v: Any, **_: Any) -> Pieces:
    if isinstance(u, Pieces) and isinstance(v, Pieces):
        raise Unknown("a product of two values that depend on the decision")
    u, factor = (u, v) if isinstance(u, Pieces) else (v, u)
    shape = np.broadcast_shapes(u.shape, np.shape(factor))
    u, factor = _wide(u, shape), np.broadcast_to(np.asarray(factor, float), shape)
    sign = u.sign
    if sign and np.any(factor < 0):
        if np.any(factor > 0):
            raise Unknown("factors of both signs")
        sign = -sign
    return Pieces(u.slopes * factor[..., None], u.offsets * factor, sign)


def _div(u: Any, v: Any, **_: Any) -> Pieces:
    if isinstance(v, Pieces):
        raise Unknown("a division by a value that depends on the decision")
    return _mul(u, 1 / np.asarray(v, float))


def _joined(u: Any, v: Any, sign: int) -> Pieces:
    """The maximum (sign 1) or minimum (sign -1) of two arrays."""
    u, v = _both(u, v)
    if _sign(u, v) == -sign:
        raise Unknown("a maximum and a minimum are combined")
    slopes, offsets = [u.slopes, v.slopes], [u.offsets, v.offsets]
    return _made(np.concatenate(slopes), np.concatenate(offsets), sign)


def _abs(u: Pieces, **_: Any) -> Pieces:
    if u.sign:
        raise Unknown("the absolute value of a maximum")
    return _joined(u, _neg(u), 1)


def _last(u: Pieces, axes: Sequence[int]) -> Pieces:
    """The same array with these axes as one, the last."""
    rest = [k for k in range(len(u.shape)) if k not in axes]
    order = [0, *(1 + k for k in rest), *(1 + k for k in axes)]
    shape = tuple(u.shape[k] for k in rest)
    return u.map(lambda part: part.transpose(order).reshape(len(part), *shape, -1))


def _entry(u: Pieces, j: int) -> Pieces:
    return Pieces(u.slopes[..., j, :], u.offsets[..., j], u.sign)


def _reduce_sum(u: Pieces, *, axes: Sequence[int], **_: Any) -> Pieces:
    u = _last(u, axes)
    if not u.sign:
        return Pieces(u.slopes.sum(axis=-2), u.offsets.sum(axis=-1), 0)
    if u.shape[-1] == 0 or len(u.offsets) ** u.shape[-1] > MOST:
        raise Unknown("the affine pieces are too many")
    result = _entry(u, 0)
    for j in range(1, u.shape[-1]):
        result = _add(result, _entry(u, j))
    return result


def _extreme(u: Pieces, axes: Sequence[int], sign: int) -> Pieces:
    if u.sign == -sign:
        raise Unknown("a maximum and a minimum are combined")
    u = _last(u, axes)
    slopes = np.moveaxis(u.slopes, -2, 0).reshape(-1, *u.shape[:-1], u.size)
    offsets = np.moveaxis(u.offsets, -1, 0).reshape(-1, *u.shape[:-1])
    return _made(slopes, offsets, sign)


def _dot(u: Any, v: Any, *, dimension_numbers: Any, **_: Any) -> Pieces:
    """A product of known numbers with pieces: products entry by entry, and their sum."""
    if isinstance(u, Pieces) and isinstance(v, Pieces):
        raise Unknown("a product of two values that depend on the decision")
    (left, right), (left_batch, right_batch) = dimension_numbers
    shapes = [np.shape(_offsets(one)) for one in (u, v)]
    free = [
        [k for k in range(len(shapes[0])) if k not in (*left, *left_batch)],
        [k for k in range(len(shapes[1])) if k not in (*right, *right_batch)],
    ]
    batch, summed = len(left_batch), len(left)

    def arranged(
        one: Any, first: Sequence[int], own: list[int], last: Sequence[int], at: int
    ) -> Any:
        """The axes: batch, free ones of u, free ones of v, summed."""
        shape = np.shape(_offsets(one))
        before, after = (0, len(free[1])) if at == 0 else (len(free[0]), 0)
        order = [*first, *own, *last]
        wide = (
            *(shape[k] for k in first),
            *(1,) * before,
            *(shape[k] for k in own),
            *(1,) * after,
            *(shape[k] for k in last),
        )
        if isinstance(one, Pieces):
            return one.map(
                lambda part: part.transpose([0, *(1 + k for k in order)]).reshape(len(part), *wide)
            )
        return np.asarray(one, float).transpose(order).reshape(wide)

    one = arranged(u, left_batch, free[0], left, 0)
    two = arranged(v, right_batch, free[1], right, 1)
    moving, factor = (one, two) if isinstance(one, Pieces) else (two, one)
    shape = np.broadcast_shapes(moving.shape, factor.shape)
    if len(moving.offsets) * math.prod(shape) * moving.size > ROOM:
        raise Unknown("the affine pieces are too many")
    moving = moving.map(lambda part: np.broadcast_to(part, (len(part), *shape)))
    axes = tuple(range(batch + len(free[0]) + len(free[1]), len(shape)))
    assert len(axes) == summed
    return _reduce_sum(_mul(moving, factor), axes=axes)


def _cumsum(u: Pieces, *, axis: int, reverse: bool) -> Pieces:
    if u.sign:
        raise Unknown("running sums of maxima")

    def add_up(part: Array) -> Array:
        k = axis + 1
        return np.flip(np.cumsum(np.flip(part, k), k), k) if reverse else part.cumsum(k)

    return u.map(add_up)


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
    no, yes = _both(*cases)
    sign, count = _sign(no, yes), max(len(no.offsets), len(yes.offsets))
    no, yes = (_repeated(one, count) for one in (no, yes))
    chosen = np.broadcast_to(np.asarray(which, bool), no.shape)
    return Pieces(
        np.where(chosen[..., None], yes.slopes, no.slopes),
        np.where(chosen, yes.offsets, no.offsets),
        sign,
    )


def _repeated(u: Pieces, count: int) -> Pieces:
    """The same maxima with more pieces: the last one again and again."""
    at = np.minimum(np.arange(count), len(u.offsets) - 1)
    return Pieces(u.slopes[at], u.offsets[at], u.sign)


def _power(u: Pieces, *, y: int, **_: Any) -> Pieces:
    if y != 1:
        raise Unknown("a power of a value that depends on the decision")
    return u


def _moved(equation: Any, operands: list[Any]) -> Sequence[Any]:
    """Entries at other places. JAX itself says which, by moving their numbers instead."""
    simple = rearrangement(equation, operands[0])
    if simple is not None:
        u = operands[0]
        slopes = simple(np.moveaxis(u.slopes, 0, -2))
        offsets = simple(np.moveaxis(u.offsets, 0, -1))
        return [_made(np.moveaxis(slopes, -2, 0), np.moveaxis(offsets, -1, 0), u.sign)]
    which = MOVES[equation.primitive.name]
    moving = [k for k in range(len(operands)) if k in which or not which]
    if any(isinstance(one, Pieces) for k, one in enumerate(operands) if k not in moving):
        raise Unknown("a place that depends on the decision")
    size = next(one.size for one in operands if isinstance(one, Pieces))
    parts = [
        operands[k] if isinstance(operands[k], Pieces) else _constant(operands[k], size)
        for k in moving
    ]
    sign, count = _sign(*parts), max(len(one.offsets) for one in parts)
    parts = [_repeated(one, count) for one in parts]
    slopes = np.concatenate([one.slopes.reshape(count, -1, size) for one in parts], axis=1)
    offsets = np.concatenate([one.offsets.reshape(count, -1) for one in parts], axis=1)
    places, start = list(operands), 0
    for k, one in zip(moving, parts, strict=True):
        entries = math.prod(one.shape)
        places[k] = np.arange(start, start + entries).reshape(one.shape)
        start += entries
    found = [np.asarray(at) for at in bind(equation, places)]
    if any(np.any(at < 0) or np.any(at >= start) for at in found):
        raise Unknown("a place that does not exist")
    return [_made(slopes[:, at], offsets[:, at], sign) for at in found]


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


OWN = Path(__file__).resolve().parents[2]
"""The folder of taut, whose rules for derivatives return a subgradient."""
UNUSUAL = ("custom_vjp_call", "custom_vjp_call_jaxpr", "stop_gradient")


def has_usual_derivatives(program: Any) -> bool:
    """Whether no operation of a traced program has a derivative of its own, or none.

    What is proven of values holds for gradients only then.
    """
    return all(map(has_usual_derivative, equations(program)))


def has_usual_derivative(equation: Any) -> bool:
    """Whether the derivative of an operation is that of its values, or a rule of taut."""
    if equation.primitive.name in UNUSUAL:
        return False
    if equation.primitive.name != CUSTOM or is_log_add_exp(equation):
        return True
    file = derivative_file(equation)
    return file is not None and OWN in Path(file).resolve().parents
