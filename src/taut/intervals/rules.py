"""How bounds on the operands of one operation give bounds on its result, for `enclosure`: one rule
per primitive of JAX."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..engine import Array
from ..jax_internals import bind
from .arithmetic import Interval, add, at_centre, dot, interval, lead, made, mul, neg, total
from .curves import CURVES, SQUARE, curve_rule, div, elementwise, gradual, power, power_of
from .enclosure import Enclosure, Space, Unknown

__all__ = ["apply"]

MOVES = frozenset(
    (
        "broadcast_in_dim",
        "copy",
        "copy_p",
        "dynamic_slice",
        "expand_dims",
        "reshape",
        "rev",
        "slice",
        "split",
        "squeeze",
        "transpose",
        "unstack",
    )
)
"""Operations that only move or repeat entries of their first operand."""
ORDERS: dict[str, Callable[[Interval, Interval], tuple[Any, Any]]] = {
    "gt": lambda a, b: (a[0] > b[1], a[1] > b[0]),
    "ge": lambda a, b: (a[0] >= b[1], a[1] >= b[0]),
    "lt": lambda a, b: (a[1] < b[0], a[0] < b[1]),
    "le": lambda a, b: (a[1] <= b[0], a[0] <= b[1]),
    "eq": lambda a, b: ((a[0] == b[1]) & (a[1] == b[0]), (a[0] <= b[1]) & (a[1] >= b[0])),
    "ne": lambda a, b: ((a[0] > b[1]) | (a[1] < b[0]), (a[0] != b[1]) | (a[1] != b[0])),
}


def apply(equation: Any, operands: Sequence[Enclosure], space: Space) -> list[Enclosure]:
    """Bounds on the results of one operation. Raises `Unknown` if there is no rule for it."""
    name, params = equation.primitive.name, equation.params
    if name not in MOVES and all(one.thin for one in operands):
        whole = any(np.dtype(v.aval.dtype).kind in "iu" for v in equation.outvars)
        if whole or name not in _RULES:  # rules are for floats; others are computed by JAX
            return [Enclosure.fixed(value, value) for value in _computed(equation, operands)]
    if name in MOVES:
        return _moved(equation, operands, space)
    if name in ("mul", "dot_general") and equation.invars[0] is equation.invars[1]:
        square = elementwise(SQUARE, operands[0], space)
        if name == "mul":
            return [square]
        (left, right), (batch, _) = params["dimension_numbers"]
        if batch or tuple(left) != tuple(right):
            raise Unknown("an outer product of a value with itself has no bound")
        return [total(square, tuple(left), space)]
    if name == "ne" and equation.invars[0] is equation.invars[1]:  # "is not a number"
        none = ~(np.isfinite(operands[0].low) & np.isfinite(operands[0].high))
        return [
            Enclosure(np.zeros_like(none), none, np.zeros_like(none), none, moves=bool(none.any()))
        ]
    rule = _RULES.get(name)
    if rule is None:
        raise Unknown(f"the operation {name} has no bound")
    return [rule(space, *operands, **params)]


def _moved(equation: Any, operands: Sequence[Enclosure], space: Space) -> list[Enclosure]:
    name, (u, *others) = equation.primitive.name, operands
    if not all(one.thin for one in others):
        raise Unknown(f"the operation {name} at a place that depends on the decision has no bound")
    places = np.arange(math.prod(u.shape)).reshape(u.shape)
    return [_taken(space, u, at) for at in _places(equation, places, others)]


def _places(equation: Any, places: Array, others: Sequence[Enclosure]) -> list[Array]:
    """The places of the results' entries among those of the first operand."""
    name, params, shape = equation.primitive.name, equation.params, equation.outvars[0].aval.shape
    if name in ("copy", "copy_p", "expand_dims", "reshape", "squeeze"):
        return [places.reshape(shape)]
    if name == "broadcast_in_dim":
        full = [1] * len(shape)
        for source, target in enumerate(params["broadcast_dimensions"]):
            full[target] = places.shape[source]
        return [np.broadcast_to(places.reshape(full), shape)]
    if name == "transpose":
        return [places.transpose(params["permutation"])]
    if name == "slice":
        steps = params["strides"] or [1] * places.ndim
        edges = zip(params["start_indices"], params["limit_indices"], steps, strict=True)
        return [places[tuple(slice(*edge) for edge in edges)]]
    return [np.asarray(at) for at in bind(equation, [places, *(one.low for one in others)])]


def _computed(equation: Any, operands: Sequence[Enclosure]) -> list[Array]:
    """The results of an operation on known numbers."""
    if equation.primitive.name == "iota":
        params = equation.params
        axis = [-1 if i == params["dimension"] else 1 for i in range(len(params["shape"]))]
        line = np.arange(params["shape"][params["dimension"]], dtype=params["dtype"])
        return [np.broadcast_to(line.reshape(axis), params["shape"])]
    numbers = [
        np.asarray(one.low, variable.aval.dtype)
        for one, variable in zip(operands, equation.invars, strict=True)
    ]
    results = [np.asarray(value) for value in bind(equation, numbers)]
    return [value.astype(float) if value.dtype.kind == "f" else value for value in results]


def _taken(space: Space, u: Enclosure, at: Array) -> Enclosure:
    def values(part: Array) -> Array:
        return np.asarray(part.ravel()[at])

    def slopes(part: Array | None) -> Array | None:
        return (
            None
            if part is None or not space.has_room(at.shape)
            else part.reshape(len(part), -1)[:, at]
        )

    root = None if u.root is None else _taken(space, u.root, at)
    return Enclosure(*u.values(values), slopes(u.down), slopes(u.up), u.moves, root)


def _cumsum(space: Space, u: Enclosure, *, axis: int, reverse: bool) -> Enclosure:
    def add_up(part: Array, axis: int) -> Array:
        return (
            np.flip(np.cumsum(np.flip(part, axis), axis), axis)
            if reverse
            else np.cumsum(part, axis)
        )

    values = [add_up(part, axis) for part in (u.low, u.high, u.centre_low, u.centre_high)]
    slopes = u.slopes(space) if u.moves else None
    if slopes is not None:
        slopes = add_up(slopes[0], axis + 1), add_up(slopes[1], axis + 1)
    return space.improved(made(space, (values[0], values[1]), (values[2], values[3]), slopes, u))


def _joined(
    space: Space, parts: Sequence[Enclosure], join: Callable[[list[Array], int], Array]
) -> Enclosure:
    values = [
        join([getattr(one, name) for one in parts], 0)
        for name in ("low", "high", "centre_low", "centre_high")
    ]
    slopes: Interval | None = None
    each = [one.slopes(space) for one in parts]
    if any(one.moves for one in parts) and all(one is not None for one in each):
        slopes = join([one[0] for one in each if one], 1), join([one[1] for one in each if one], 1)
    return made(space, (values[0], values[1]), (values[2], values[3]), slopes, *parts)


def _concatenate(space: Space, *parts: Enclosure, dimension: int) -> Enclosure:
    return _joined(space, parts, lambda arrays, lead: np.concatenate(arrays, axis=dimension + lead))


def _stack(space: Space, *parts: Enclosure, axis: int = 0, **_: Any) -> Enclosure:
    return _joined(space, parts, lambda arrays, lead: np.stack(arrays, axis=axis + lead))


def _pad(space: Space, u: Enclosure, value: Enclosure, *, padding_config: Any) -> Enclosure:
    if not value.thin or any(low < 0 or high < 0 or inside for low, high, inside in padding_config):
        raise Unknown("the operation pad has no bound")
    widths = [(low, high) for low, high, _ in padding_config]

    def join(arrays: list[Array], lead: int) -> Array:
        return np.pad(
            arrays[0], [(0, 0)] * lead + widths, constant_values=0.0 if lead else float(value.low)
        )

    return _joined(space, [u], join)


# -- Maxima and selections
# ----------------------------------------------------------------------------------------------


def _max(space: Space, u: Enclosure, v: Enclosure, **_: Any) -> Enclosure:
    """max(u, v) - max(u_c, v_c) lies between u - u_c and v - v_c, so its slopes lie between
    theirs."""
    value = np.maximum(u.low, v.low), np.maximum(u.high, v.high)
    centre = np.maximum(u.centre_low, v.centre_low), np.maximum(u.centre_high, v.centre_high)
    first, second = u.slopes(space), v.slopes(space)
    if first is None or second is None:
        return made(space, value, centre, None, u, v)
    ndim = np.ndim(value[0])
    (a, b), (c, d) = lead(first, ndim), lead(second, ndim)
    only_u, only_v = u.low >= v.high, v.low >= u.high
    down = np.where(only_u, a, np.where(only_v, c, np.minimum(a, c)))
    up = np.where(only_u, b, np.where(only_v, d, np.maximum(b, d)))
    return made(space, value, centre, (down, up), u, v)


def _min(space: Space, u: Enclosure, v: Enclosure, **_: Any) -> Enclosure:
    return neg(space, _max(space, neg(space, u), neg(space, v)))


def _reduce_max(space: Space, u: Enclosure, *, axes: Any, **_: Any) -> Enclosure:
    axes = tuple(int(axis) for axis in axes)
    value, centre = ((a.max(axis=axes), b.max(axis=axes)) for a, b in (interval(u), at_centre(u)))
    slopes = u.slopes(space)
    if slopes is not None:
        possible = u.high >= u.low.max(axis=axes, keepdims=True)
        behind = tuple(axis + 1 for axis in axes)
        slopes = (
            np.where(possible, slopes[0], np.inf).min(axis=behind),
            np.where(possible, slopes[1], -np.inf).max(axis=behind),
        )
    return made(space, value, centre, slopes, u)


def _reduce_min(space: Space, u: Enclosure, *, axes: Any, **_: Any) -> Enclosure:
    return neg(space, _reduce_max(space, neg(space, u), axes=axes))


def _sort(space: Space, u: Enclosure, *, dimension: int, **_: Any) -> Enclosure:
    """The k-th largest entry is made of maxima and minima of all entries."""
    values = [
        np.sort(part, axis=dimension) for part in (u.low, u.high, u.centre_low, u.centre_high)
    ]
    slopes = u.slopes(space)
    if slopes is not None:
        slopes = (
            slopes[0].min(axis=dimension + 1, keepdims=True),
            slopes[1].max(axis=dimension + 1, keepdims=True),
        )
    return made(space, (values[0], values[1]), (values[2], values[3]), slopes, u)


def _clamp(space: Space, low: Enclosure, u: Enclosure, high: Enclosure) -> Enclosure:
    return _max(space, low, _min(space, u, high))


def _compared(name: str) -> Callable[..., Enclosure]:
    def rule(space: Space, u: Enclosure, v: Enclosure, **_: Any) -> Enclosure:
        low, high = ORDERS[name](interval(u), interval(v))
        return Enclosure(np.asarray(low), np.asarray(high), low, high, moves=u.moves or v.moves)

    return rule


def _select(space: Space, which: Enclosure, *cases: Enclosure) -> Enclosure:
    """Cases that are certain are taken; otherwise all are possible, and a jump between them has no
    slope."""
    if len(cases) != 2 or which.low.dtype != bool:
        raise Unknown("a selection among more than two cases has no bound")
    no, yes = cases

    def chosen(a: Array, b: Array, outer: Callable[[Array, Array], Array], sure: Interval) -> Array:
        return np.where(sure[0], b, np.where(sure[1], outer(a, b), a))

    here, middle = interval(which), at_centre(which)
    value = chosen(no.low, yes.low, np.minimum, here), chosen(no.high, yes.high, np.maximum, here)
    centre = (
        chosen(no.centre_low, yes.centre_low, np.minimum, middle),
        chosen(no.centre_high, yes.centre_high, np.maximum, middle),
    )
    first, second, slopes = no.slopes(space), yes.slopes(space), None
    decided = not which.moves or bool(np.all(which.low == which.high))
    if decided and first is not None and second is not None:
        ndim = np.ndim(value[0])
        (a, b), (c, d) = lead(first, ndim), lead(second, ndim)
        slopes = chosen(a, c, np.minimum, here), chosen(b, d, np.maximum, here)
    return made(space, value, centre, slopes, which, no, yes)


def _converted(space: Space, u: Enclosure, *, new_dtype: Any, **_: Any) -> Enclosure:
    if np.dtype(new_dtype).kind == "b" and u.thin:
        return Enclosure.fixed(u.low != 0, u.low != 0)
    if np.dtype(new_dtype).kind != "f":
        raise Unknown(f"a conversion to {np.dtype(new_dtype)} has no bound")
    if u.low.dtype.kind == "f":
        return u
    return Enclosure(*u.values(lambda part: np.asarray(part, float)), moves=u.moves)


def _sign(space: Space, u: Enclosure, **_: Any) -> Enclosure:
    return Enclosure(*u.values(np.sign), moves=u.moves)


def _is_finite(space: Space, u: Enclosure, **_: Any) -> Enclosure:
    sure = np.isfinite(u.low) & np.isfinite(u.high)
    return Enclosure(sure, np.ones_like(sure), sure, np.ones_like(sure), moves=u.moves)


_RULES: dict[str, Callable[..., Enclosure]] = {
    **{name: curve_rule(name) for name in CURVES},
    **{name: _compared(name) for name in ORDERS},
    "add": add,
    "add_any": add,
    "clamp": _clamp,
    "concatenate": _concatenate,
    "convert_element_type": _converted,
    "cumsum": _cumsum,
    "div": div,
    "dot_general": dot,
    "integer_pow": lambda space, u, *, y: power(space, u, y),
    "is_finite": _is_finite,
    "logistic": gradual(lambda u: 1 / (1 + np.exp(-u)), 0.25),
    "max": _max,
    "min": _min,
    "mul": mul,
    "neg": neg,
    "pad": _pad,
    "pow": power_of,
    "reduce_max": _reduce_max,
    "reduce_min": _reduce_min,
    "reduce_sum": lambda space, u, *, axes, **_: total(u, axes, space),
    "select_n": _select,
    "sign": _sign,
    "sort": _sort,
    "stack": _stack,
    "stop_gradient": lambda space, u, **_: u,
    "sub": lambda space, u, v, **_: add(space, u, neg(space, v)),
    "tanh": gradual(np.tanh, 1.0),
}
