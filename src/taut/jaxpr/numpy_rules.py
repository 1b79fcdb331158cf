"""Primitive operations of JAX in NumPy, for many values at once.

Every array has the same number of leading axes. A leading axis has length 1 in arrays that do not
depend on it, and operations broadcast over it. `operation` returns the operation of one equation
as a function of such arrays. It returns None for everything that is not known to be the same in
NumPy: half precision, products in another type than their operands', and operations or parameters
that are not listed here. Tests compare every operation in this file with JAX on random programs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..engine import Array

Operation = Callable[..., Any]
Maker = Callable[[Any, int], Operation | None]
"""(equation, number of leading axes) -> the operation."""

MOST_CASES = 32
"""The largest number of arrays among which `np.choose` chooses."""


def operation(equation: Any, lead: int, fixed: Sequence[bool]) -> Operation | None:
    """Return an operation on arrays with `lead` leading axes; None if NumPy has no counterpart.

    It returns a list of arrays if the primitive has several results.

    Arguments:
        equation: of a traced program.
        lead: the number of leading axes.
        fixed: which operands are constants. Operands that say where to read or write, or what to
            pad with, must be constants.
    """
    name = equation.primitive.name
    places = _PLACES.get(name)
    if places is not None and not all(fixed[places:]):
        return None
    if name in _ELEMENTWISE:
        kinds, function = _ELEMENTWISE[name]
        if any(np.dtype(v.aval.dtype).kind not in kinds for v in equation.invars):
            return None
        return _elementwise(function, equation)
    maker = _MAKERS.get(name)
    return None if maker is None else maker(equation, lead)


def is_ordinary(dtype: Any) -> bool:
    """Whether numbers of this type are the same in NumPy and JAX, operation by operation."""
    if jnp.issubdtype(dtype, jax.dtypes.extended):  # random keys
        return False
    kind = np.dtype(dtype).kind
    return kind in "iub" or (kind == "f" and np.dtype(dtype).itemsize in (4, 8))


def _elementwise(function: Operation, equation: Any) -> Operation:
    ranks = [len(v.aval.shape) for v in equation.invars]
    rank = max(ranks)
    if min(ranks) == rank:
        return function

    def widened(x: Array, own: int) -> Array:
        """A number among arrays gets as many axes as they have."""
        return x if own == rank else x.reshape(x.shape + (1,) * (rank - own))

    return lambda *operands: function(*map(widened, operands, ranks))


def _quotient(x: Array, y: Array) -> Array:
    """The quotient; of whole numbers it is rounded towards zero, and -1 if the divisor is zero."""
    if x.dtype.kind == "f":
        return np.divide(x, y)
    divisor = np.where(y == 0, y.dtype.type(1), y)
    rounded = np.floor_divide(x - np.fmod(x, divisor), divisor)
    return np.where(y == 0, ~np.zeros_like(rounded), rounded)


def _remainder(x: Array, y: Array) -> Array:
    """The remainder, with the sign of x; of whole numbers it is x if the divisor is zero."""
    if x.dtype.kind == "f":
        return np.fmod(x, y)
    divisor = np.where(y == 0, y.dtype.type(1), y)
    return np.where(y == 0, x, np.fmod(x, divisor))


_ELEMENTWISE: dict[str, tuple[str, Operation]] = {
    "abs": ("fi", np.abs),
    "acos": ("f", np.arccos),
    "acosh": ("f", np.arccosh),
    "add": ("fiu", np.add),
    "add_any": ("fiu", np.add),
    "and": ("iub", np.bitwise_and),
    "asin": ("f", np.arcsin),
    "asinh": ("f", np.arcsinh),
    "atan": ("f", np.arctan),
    "atan2": ("f", np.arctan2),
    "atanh": ("f", np.arctanh),
    "cbrt": ("f", np.cbrt),
    "ceil": ("f", np.ceil),
    "clamp": ("fiu", lambda low, x, high: np.minimum(np.maximum(x, low), high)),
    "copy": ("fiub", np.asarray),
    "cos": ("f", np.cos),
    "cosh": ("f", np.cosh),
    "div": ("fiu", _quotient),
    "eq": ("fiub", np.equal),
    "exp": ("f", np.exp),
    "exp2": ("f", np.exp2),
    "expm1": ("f", np.expm1),
    "floor": ("f", np.floor),
    "ge": ("fiub", np.greater_equal),
    "gt": ("fiub", np.greater),
    "is_finite": ("f", np.isfinite),
    "le": ("fiub", np.less_equal),
    "log": ("f", np.log),
    "log1p": ("f", np.log1p),
    "logistic": ("f", lambda x: 1 / (1 + np.exp(-x))),
    "lt": ("fiub", np.less),
    "max": ("fiub", np.maximum),
    "min": ("fiub", np.minimum),
    "mul": ("fiu", np.multiply),
    "ne": ("fiub", np.not_equal),
    "neg": ("fiu", np.negative),
    "not": ("iub", np.invert),
    "one_minus_square": ("fiu", lambda x: (1 + x) * (1 - x)),
    "or": ("iub", np.bitwise_or),
    "pow": ("f", np.power),
    "rem": ("fiu", _remainder),
    "rsqrt": ("f", lambda x: 1 / np.sqrt(x)),
    "shift_left": ("iu", np.left_shift),
    "shift_right_arithmetic": ("i", np.right_shift),
    "shift_right_logical": ("u", np.right_shift),
    "sign": ("fiu", np.sign),
    "sin": ("f", np.sin),
    "sinh": ("f", np.sinh),
    "sqrt": ("f", np.sqrt),
    "square": ("fiu", np.square),
    "stop_gradient": ("fiub", np.asarray),
    "sub": ("fiu", np.subtract),
    "tan": ("f", np.tan),
    "tanh": ("f", np.tanh),
    "xor": ("iub", np.bitwise_xor),
}
"""Operations on single numbers: the kinds of their operands (float, integer, unsigned, boolean),
and NumPy's function."""


def _select_n(equation: Any, lead: int) -> Operation | None:
    if np.dtype(equation.invars[0].aval.dtype).kind == "b":
        return _elementwise(lambda which, no, yes: np.where(which, yes, no), equation)
    if len(equation.invars) > MOST_CASES:
        return None
    return _elementwise(
        lambda which, *cases: np.choose(which, np.broadcast_arrays(*cases), mode="clip"), equation
    )


def _integer_pow(equation: Any, lead: int) -> Operation:
    y = equation.params["y"]
    return (lambda x: x**y) if y >= 0 else (lambda x: 1 / x**-y)


def _round(equation: Any, lead: int) -> Operation | None:
    """Halves are rounded to even numbers."""
    return np.rint if int(equation.params["rounding_method"]) == 1 else None


def _convert(equation: Any, lead: int) -> Operation:
    target = np.dtype(equation.params["new_dtype"])
    if np.dtype(equation.invars[0].aval.dtype).kind != "f" or target.kind not in "iu":
        return lambda x: x.astype(target)
    least, largest = np.iinfo(target).min, np.iinfo(target).max

    def nearest(x: Array) -> Array:
        """Numbers out of range become the nearest whole number, NaN becomes 0."""
        inside = (x > least) & (x < largest)
        integers = np.where(inside, x, 0).astype(target)
        integers = np.where(x >= largest, target.type(largest), integers)
        return np.where(x <= least, target.type(least), integers)

    return nearest


def _reshape(equation: Any, lead: int) -> Operation | None:
    if equation.params.get("dimensions") is not None and equation.primitive.name == "reshape":
        return None
    shape = tuple(equation.outvars[0].aval.shape)
    return lambda x: x.reshape(x.shape[:lead] + shape)


def _broadcast(equation: Any, lead: int) -> Operation | None:
    if len(equation.invars) > 1:
        return None
    shape = tuple(equation.outvars[0].aval.shape)
    full = [1] * len(shape)
    for own, target in enumerate(equation.params["broadcast_dimensions"]):
        full[target] = equation.invars[0].aval.shape[own]
    middle = tuple(full)
    return lambda x: np.broadcast_to(x.reshape(x.shape[:lead] + middle), x.shape[:lead] + shape)


def _iota(equation: Any, lead: int) -> Operation | None:
    if equation.invars:
        return None
    shape, axis = equation.outvars[0].aval.shape, equation.params["dimension"]
    line = np.arange(shape[axis], dtype=equation.outvars[0].aval.dtype)
    line = line.reshape([-1 if i == axis else 1 for i in range(len(shape))])
    full = np.broadcast_to(line, shape)[(None,) * lead]
    return lambda: full


def _reduction(function: Callable[..., Any], kinds: str, typed: bool = False) -> Maker:
    def made(equation: Any, lead: int) -> Operation | None:
        dtype = np.dtype(equation.invars[0].aval.dtype)
        axes = tuple(lead + axis for axis in equation.params["axes"])
        if dtype.kind not in kinds:
            return None
        if typed:  # NumPy would add small integers up as large ones
            return lambda x: function(x, axis=axes, dtype=dtype)
        return lambda x: function(x, axis=axes)

    return made


def _extreme_place(function: Callable[..., Any]) -> Maker:
    def made(equation: Any, lead: int) -> Operation:
        (axis,), dtype = equation.params["axes"], equation.params["index_dtype"]
        return lambda x: function(x, axis=lead + axis).astype(dtype)

    return made


def _cumulative(function: Any) -> Maker:
    def made(equation: Any, lead: int) -> Operation | None:
        axis, dtype = lead + equation.params["axis"], np.dtype(equation.invars[0].aval.dtype)
        if dtype.kind == "b":
            return None
        if equation.params["reverse"]:
            return lambda x: np.flip(
                function.accumulate(np.flip(x, axis), axis=axis, dtype=dtype), axis
            )
        return lambda x: function.accumulate(x, axis=axis, dtype=dtype)

    return made


def _transpose(equation: Any, lead: int) -> Operation:
    order = (*range(lead), *(lead + axis for axis in equation.params["permutation"]))
    return lambda x: x.transpose(order)


def _rev(equation: Any, lead: int) -> Operation:
    axes = tuple(lead + axis for axis in equation.params["dimensions"])
    return lambda x: np.flip(x, axes)


def _slice(equation: Any, lead: int) -> Operation:
    params = equation.params
    steps = params["strides"] or (None,) * len(params["start_indices"])
    places = (..., *map(slice, params["start_indices"], params["limit_indices"], steps))
    return lambda x: x[places]


def _split(equation: Any, lead: int) -> Operation:
    edges, axis = np.cumsum(equation.params["sizes"])[:-1], lead + equation.params["axis"]
    return lambda x: np.split(x, edges, axis=axis)


def _tile(equation: Any, lead: int) -> Operation:
    repeats = (1,) * lead + tuple(equation.params["reps"])
    return lambda x: np.tile(x, repeats)


def _joined(name: str, join: Callable[..., Array]) -> Maker:
    def made(equation: Any, lead: int) -> Operation:
        axis = lead + equation.params[name]

        def operation(*parts: Array) -> Array:
            shape = np.broadcast_shapes(*(part.shape[:lead] for part in parts))
            return join(
                [np.broadcast_to(part, shape + part.shape[lead:]) for part in parts], axis=axis
            )

        return operation

    return made


def _unstack(equation: Any, lead: int) -> Operation:
    axis = lead + equation.params["axis"]
    return lambda x: [np.take(x, i, axis=axis) for i in range(x.shape[axis])]


def _pad(equation: Any, lead: int) -> Operation | None:
    config, shape = equation.params["padding_config"], equation.outvars[0].aval.shape
    if any(low < 0 or high < 0 for low, high, _ in config):
        return None
    ends = [size - high for size, (_, high, _) in zip(shape, config, strict=True)]
    steps = [inside + 1 for _, _, inside in config]
    places: Any = (..., *map(slice, [low for low, _, _ in config], ends, steps))

    def padded(x: Array, value: Array) -> Array:
        result = np.full(x.shape[:lead] + tuple(shape), value.item(), x.dtype)
        result[places] = x
        return result

    return padded


def _dot_general(equation: Any, lead: int) -> Operation | None:
    types = {v.aval.dtype for v in (*equation.invars, *equation.outvars)}
    if len(types) > 1 or np.dtype(types.pop()).kind not in "fiu":
        return None
    (left, right), (left_batch, right_batch) = equation.params["dimension_numbers"]
    ranks = [len(v.aval.shape) for v in equation.invars]
    letters = iter("abcdefghijklmnopqrstuvwxyz")
    first = [next(letters) for _ in range(ranks[0])]
    second: list[str] = [""] * ranks[1]
    for i, j in [*zip(left, right, strict=True), *zip(left_batch, right_batch, strict=True)]:
        second[j] = first[i]
    second = [letter or next(letters) for letter in second]
    free = [first[i] for i in range(ranks[0]) if i not in (*left, *left_batch)]
    others = [second[j] for j in range(ranks[1]) if j not in (*right, *right_batch)]
    out = [first[i] for i in left_batch] + free + others
    spec = f"...{''.join(first)},...{''.join(second)}->...{''.join(out)}"
    axes = [lead + axis for axis in left]
    turned = [lead + axis for axis in right]
    swap = (
        *range(lead),
        *range(lead + len(others), lead + len(out)),
        *range(lead, lead + len(others)),
    )

    def product(a: Array, b: Array) -> Array:
        if not left_batch and math.prod(b.shape[:lead]) == 1:  # one matrix for all: BLAS
            return np.tensordot(a, b.reshape(b.shape[lead:]), (axes, right))
        if not left_batch and math.prod(a.shape[:lead]) == 1:
            return np.tensordot(b, a.reshape(a.shape[lead:]), (turned, left)).transpose(swap)
        return np.asarray(np.einsum(spec, a, b))

    return product


def _sort(equation: Any, lead: int) -> Operation | None:
    axis = lead + equation.params["dimension"]
    if equation.params["num_keys"] != 1:
        return None
    if len(equation.invars) == 1:
        return lambda x: [np.sort(x, axis=axis)]

    def sorted_by_first(*operands: Array) -> list[Array]:
        operands = tuple(np.broadcast_arrays(*operands))
        order = np.argsort(operands[0], axis=axis, kind="stable")
        return [np.take_along_axis(x, order, axis=axis) for x in operands]

    return sorted_by_first


def _dynamic_slice(equation: Any, lead: int) -> Operation:
    sizes = equation.params["slice_sizes"]
    return lambda x, *starts: x[_span(x.shape[lead:], starts, sizes)]


def _dynamic_update_slice(equation: Any, lead: int) -> Operation:
    def updated(x: Array, update: Array, *starts: Array) -> Array:
        shape = np.broadcast_shapes(x.shape[:lead], update.shape[:lead])
        result = np.array(np.broadcast_to(x, shape + x.shape[lead:]))
        result[_span(x.shape[lead:], starts, update.shape[lead:])] = update
        return result

    return updated


def _span(shape: tuple[int, ...], starts: Sequence[Array], sizes: Sequence[int]) -> Any:
    """The places of a window, which is moved inside if it would reach over an edge."""
    first = [
        min(max(int(start.item()), 0), length - size)
        for start, size, length in zip(starts, sizes, shape, strict=True)
    ]
    return (..., *(slice(start, start + size) for start, size in zip(first, sizes, strict=True)))


def _gather(equation: Any, lead: int) -> Operation | None:
    """Windows of an array at fixed places, the same for every value.

    Windows outside the array are moved inside, or filled if the mode says so.
    """
    params, numbers = equation.params, equation.params["dimension_numbers"]
    if numbers.operand_batching_dims:
        return None
    shape, sizes = tuple(equation.invars[0].aval.shape), params["slice_sizes"]
    fills = params["mode"].name == "FILL_OR_DROP"
    blank = params["fill_value"]
    if fills and blank is None:
        blank = _blank(np.dtype(equation.invars[0].aval.dtype))
    window = [axis for axis in range(len(shape)) if axis not in numbers.collapsed_slice_dims]
    offsets = tuple(numbers.offset_dims)
    rank = len(equation.outvars[0].aval.shape)
    outer = [axis for axis in range(rank) if axis not in offsets]
    # NumPy puts the axes of the indices first, then those of the window.
    order = [0] * rank
    for position, axis in enumerate((*outer, *offsets)):
        order[axis] = lead + position
    axes_of = {axis: number for number, axis in enumerate(numbers.start_index_map)}

    def windows(x: Array, indices: Array) -> Array:
        indices = indices.reshape(indices.shape[lead:])
        places: list[Array] = []
        inside = np.ones(indices.shape[:-1], bool)
        for axis, length in enumerate(shape):
            start = np.zeros(indices.shape[:-1], int)
            if axis in axes_of:
                start = indices[..., axes_of[axis]].astype(int)
                inside &= (start >= 0) & (start <= length - sizes[axis])
                start = np.clip(start, 0, length - sizes[axis])
            start = start.reshape(start.shape + (1,) * len(window))
            if axis in window:
                own = [-1 if axis == other else 1 for other in window]
                start = start + np.arange(sizes[axis]).reshape(own)
            places.append(start)
        # A slice before index arrays keeps the leading axes in front.
        at: Any = (slice(None), *np.broadcast_arrays(*places))
        gathered = x.reshape(-1, *shape)[at]
        gathered = gathered.reshape(x.shape[:lead] + gathered.shape[1:])
        if fills:
            inside = inside.reshape(inside.shape + (1,) * len(window))
            gathered = np.where(inside, gathered, gathered.dtype.type(blank))
        return gathered.transpose((*range(lead), *order))

    return windows


def _blank(dtype: np.dtype[Any]) -> Any:
    """What JAX fills in where a place is outside of an array."""
    if dtype.kind == "f":
        return np.nan
    if dtype.kind == "b":
        return True
    return np.iinfo(dtype).min if dtype.kind == "i" else np.iinfo(dtype).max


_PLACES = {"dynamic_slice": 1, "dynamic_update_slice": 2, "gather": 1, "pad": 1}
"""The first operand that must be constant, with all after it."""
_MAKERS: dict[str, Maker] = {
    "argmax": _extreme_place(np.argmax),
    "argmin": _extreme_place(np.argmin),
    "broadcast_in_dim": _broadcast,
    "concatenate": _joined("dimension", np.concatenate),
    "convert_element_type": _convert,
    "cummax": _cumulative(np.maximum),
    "cummin": _cumulative(np.minimum),
    "cumprod": _cumulative(np.multiply),
    "cumsum": _cumulative(np.add),
    "dot_general": _dot_general,
    "dynamic_slice": _dynamic_slice,
    "dynamic_update_slice": _dynamic_update_slice,
    "gather": _gather,
    "integer_pow": _integer_pow,
    "iota": _iota,
    "pad": _pad,
    "reduce_and": _reduction(np.all, "b"),
    "reduce_max": _reduction(np.max, "fiub"),
    "reduce_min": _reduction(np.min, "fiub"),
    "reduce_or": _reduction(np.any, "b"),
    "reduce_prod": _reduction(np.prod, "fiu", typed=True),
    "reduce_sum": _reduction(np.sum, "fiu", typed=True),
    "reshape": _reshape,
    "rev": _rev,
    "round": _round,
    "select_n": _select_n,
    "slice": _slice,
    "sort": _sort,
    "split": _split,
    "squeeze": _reshape,
    "stack": _joined("axis", np.stack),
    "tile": _tile,
    "transpose": _transpose,
    "unstack": _unstack,
}
NAMES = frozenset((*_ELEMENTWISE, *_MAKERS))
"""The operations of which some or all forms are here."""
