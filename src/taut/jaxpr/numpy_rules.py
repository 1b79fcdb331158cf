"""Primitive operations of JAX in NumPy, for many values at once.

`operation` returns the operation of one equation as a function of arrays. It returns None for
everything that is not known to be the same in NumPy; `_is_known` lists these cases. Tests compare
every operation in this file with JAX on random programs.

Every array has the same number of leading axes, over which the operation is mapped. A leading axis
has length 1 in arrays that do not depend on it, and operations broadcast over it. A rule is called
as `rule(form, *operands)`; the rules of operations on single numbers are NumPy's own functions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ..engine import Array

MOST_CASES = 32
"""The largest number of arrays among which `np.choose` chooses."""


class Form(NamedTuple):
    """What is known of an operation before its operands are."""

    params: dict[str, Any]
    """JAX's parameters, which count axes without the leading ones."""
    lead: int
    """The number of leading axes."""
    shape: tuple[int, ...]
    """The shape of the first result without leading axes."""


def operation(equation: Any, lead: int, fixed: Sequence[bool]) -> Callable[..., Any] | None:
    """Return an operation on arrays with `lead` leading axes; None if NumPy has no counterpart.

    It returns a list of arrays if the primitive has several results.

    Arguments:
        equation: of a traced program.
        lead: the number of leading axes.
        fixed: which operands are constants. Operands that say where to read or write, or what to
            pad with, must be constants.
    """
    name = equation.primitive.name
    if not _is_known(equation, fixed):
        return None
    if name in _RULES:
        shape = tuple(equation.outvars[0].aval.shape) if equation.outvars else ()
        return partial(_RULES[name][1], Form(equation.params, lead, shape))
    function = _ELEMENTWISE[name][1]
    ranks = {len(v.aval.shape) for v in equation.invars}
    return function if len(ranks) == 1 else partial(_widened, function)


def _is_known(equation: Any, fixed: Sequence[bool]) -> bool:
    """Whether a rule of this file computes what JAX computes."""
    name, params, operands = equation.primitive.name, equation.params, equation.invars
    if not all(is_ordinary(v.aval.dtype) for v in (*operands, *equation.outvars)):
        return False
    kinds, _ = _ELEMENTWISE.get(name) or _RULES.get(name) or ("", None)
    types = {np.dtype(v.aval.dtype) for v in operands}
    if not kinds or any(dtype.kind not in kinds for dtype in types):
        return False
    if name in _PLACES:
        constant = all(fixed[_PLACES[name] :])
        if name == "gather":
            return constant and not params["dimension_numbers"].operand_batching_dims
        if name == "pad":  # negative numbers cut something off
            return constant and all(min(ends) >= 0 for ends in params["padding_config"])
        return constant
    match name:
        case "broadcast_in_dim":  # a shape that is computed
            return len(operands) == 1
        case "dot_general":  # products in another type than their operands'
            return types == {np.dtype(equation.outvars[0].aval.dtype)}
        case "iota":  # a shape that is computed
            return not operands
        case "reduce_max" | "reduce_min":  # of nothing
            return 0 not in operands[0].aval.shape
        case "reshape":  # in another order of axes
            return params["dimensions"] is None
        case "round":  # halves away from zero instead of to even numbers
            return int(params["rounding_method"]) == 1
        case "select_n":
            return len(operands) <= MOST_CASES
        case "sort":
            return bool(params["num_keys"] == 1)
    return True


def is_ordinary(dtype: Any) -> bool:
    """Whether numbers of this type are the same in NumPy and JAX, operation by operation: no random
    keys, complex numbers or floats of 16 bits."""
    if jnp.issubdtype(dtype, jax.dtypes.extended):
        return False
    kind = np.dtype(dtype).kind
    return kind in "iub" or (kind == "f" and np.dtype(dtype).itemsize in (4, 8))


# -- Operations on single numbers


def _widened(function: Callable[..., Any], *operands: Array) -> Any:
    """A function of numbers and arrays; a number gets as many axes as the arrays have."""
    rank = max(map(np.ndim, operands))
    return function(*[x.reshape(x.shape + (1,) * (rank - x.ndim)) for x in operands])


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


_ELEMENTWISE: dict[str, tuple[str, Callable[..., Any]]] = {
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
    "round": ("f", np.rint),
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
"""The kinds of operands that an operation takes (float, integer, unsigned, boolean), and NumPy's
function."""


def _convert(form: Form, x: Array) -> Array:
    """The numbers in another type. Floats that are out of the range of whole numbers become the
    nearest one, NaN becomes 0."""
    target = np.dtype(form.params["new_dtype"])
    if x.dtype.kind != "f" or target.kind not in "iu":
        return x.astype(target)
    least, largest = np.iinfo(target).min, np.iinfo(target).max
    inside = (x > least) & (x < largest)
    integers = np.where(inside, x, 0).astype(target)
    integers = np.where(x >= largest, target.type(largest), integers)
    return np.where(x <= least, target.type(least), integers)


def _integer_pow(form: Form, x: Array) -> Array:
    """Powers by repeated squares: NumPy has no exponents that the type of `x` cannot hold."""
    exponent, square = abs(form.params["y"]), x
    power = np.ones_like(x)
    while exponent:
        power = power * square if exponent % 2 else power
        square, exponent = (square * square if exponent > 1 else square), exponent // 2
    return 1 / power if form.params["y"] < 0 else power


def _select_n(form: Form, which: Array, *cases: Array) -> Array:
    which = which.reshape(which.shape + (1,) * (cases[0].ndim - which.ndim))
    if which.dtype.kind == "b":
        return np.where(which, cases[1], cases[0])
    return np.choose(which, np.broadcast_arrays(*cases), mode="clip")


# -- Operations that move entries


def _reshape(form: Form, x: Array) -> Array:
    return x.reshape(x.shape[: form.lead] + form.shape)


def _broadcast(form: Form, x: Array) -> Array:
    shape = [1] * len(form.shape)
    for length, axis in zip(x.shape[form.lead :], form.params["broadcast_dimensions"], strict=True):
        shape[axis] = length
    lead = x.shape[: form.lead]
    return np.broadcast_to(x.reshape((*lead, *shape)), lead + form.shape)


def _iota(form: Form) -> Array:
    axis, rank = form.params["dimension"], len(form.shape)
    line = np.arange(form.shape[axis], dtype=form.params["dtype"])
    line = line.reshape([-1 if i == axis else 1 for i in range(rank)])
    return np.broadcast_to(line, form.shape)[(None,) * form.lead]


def _transpose(form: Form, x: Array) -> Array:
    order = [form.lead + axis for axis in form.params["permutation"]]
    return x.transpose((*range(form.lead), *order))


def _rev(form: Form, x: Array) -> Array:
    return np.flip(x, tuple(form.lead + axis for axis in form.params["dimensions"]))


def _slice(form: Form, x: Array) -> Array:
    starts, stops = form.params["start_indices"], form.params["limit_indices"]
    steps = form.params["strides"] or (None,) * len(starts)
    places: Any = (..., *map(slice, starts, stops, steps))
    return x[places]


def _split(form: Form, x: Array) -> list[Array]:
    edges = np.cumsum(form.params["sizes"])[:-1]
    return np.split(x, edges, axis=form.lead + form.params["axis"])


def _tile(form: Form, x: Array) -> Array:
    return np.tile(x, (1,) * form.lead + tuple(form.params["reps"]))


def _joined(join: Callable[..., Array], axis: str, form: Form, *parts: Array) -> Array:
    """Parts side by side, by `np.concatenate` or `np.stack`."""
    lead = np.broadcast_shapes(*[part.shape[: form.lead] for part in parts])
    parts = tuple(np.broadcast_to(part, lead + part.shape[form.lead :]) for part in parts)
    return join(parts, axis=form.lead + form.params[axis])


def _unstack(form: Form, x: Array) -> list[Array]:
    return list(np.moveaxis(x, form.lead + form.params["axis"], 0))


def _pad(form: Form, x: Array, value: Array) -> Array:
    padded = np.full(x.shape[: form.lead] + form.shape, value.item(), x.dtype)
    places: list[Any] = [...]
    for (low, high, inside), length in zip(form.params["padding_config"], form.shape, strict=True):
        places.append(slice(low, length - high, inside + 1))
    padded[tuple(places)] = x
    return padded


def _dynamic_slice(form: Form, x: Array, *starts: Array) -> Array:
    return x[_window(x.shape[form.lead :], starts, form.params["slice_sizes"])]


def _dynamic_update_slice(form: Form, x: Array, update: Array, *starts: Array) -> Array:
    lead = np.broadcast_shapes(x.shape[: form.lead], update.shape[: form.lead])
    result = np.array(np.broadcast_to(x, lead + form.shape))
    result[_window(form.shape, starts, update.shape[form.lead :])] = update
    return result


def _window(shape: tuple[int, ...], starts: Sequence[Array], sizes: Sequence[int]) -> Any:
    """The places of a window, which is moved inside if it would reach over an edge."""
    places: list[Any] = [...]
    for start, size, length in zip(starts, sizes, shape, strict=True):
        first = min(max(int(start.item()), 0), length - size)
        places.append(slice(first, first + size))
    return tuple(places)


def _gather(form: Form, x: Array, indices: Array) -> Array:
    """Windows of an array at fixed places, the same for every value.

    Windows outside the array are moved inside, or filled if the mode says so.
    """
    lead, numbers, sizes = form.lead, form.params["dimension_numbers"], form.params["slice_sizes"]
    shape, indices = x.shape[lead:], indices.reshape(indices.shape[lead:])
    window = [axis for axis in range(len(shape)) if axis not in numbers.collapsed_slice_dims]
    places: list[Array] = []
    inside = np.ones(indices.shape[:-1], bool)
    for axis, length in enumerate(shape):
        start = np.zeros(indices.shape[:-1], int)
        if axis in numbers.start_index_map:
            start = indices[..., numbers.start_index_map.index(axis)].astype(int)
            inside &= (start >= 0) & (start <= length - sizes[axis])
            start = np.clip(start, 0, length - sizes[axis])
        start = start.reshape(start.shape + (1,) * len(window))
        if axis in window:
            own = [-1 if axis == other else 1 for other in window]
            start = start + np.arange(sizes[axis]).reshape(own)
        places.append(start)
    # A slice before index arrays keeps the leading axes in front.
    at: Any = (slice(None), *np.broadcast_arrays(*places))
    gathered = x.reshape(math.prod(x.shape[:lead]), *shape)[at]
    gathered = gathered.reshape(x.shape[:lead] + gathered.shape[1:])
    if form.params["mode"].name == "FILL_OR_DROP":
        inside = inside.reshape(inside.shape + (1,) * len(window))
        blank = form.params["fill_value"]
        blank = _blank(x.dtype) if blank is None else blank
        gathered = np.where(inside, gathered, x.dtype.type(blank))
    # NumPy puts the axes of the indices first, then those of the window.
    offsets = tuple(lead + axis for axis in numbers.offset_dims)
    return np.moveaxis(gathered, range(gathered.ndim - len(offsets), gathered.ndim), offsets)


def _blank(dtype: np.dtype[Any]) -> Any:
    """What JAX fills in where a place is outside of an array."""
    if dtype.kind == "f":
        return np.nan
    if dtype.kind == "b":
        return True
    return np.iinfo(dtype).min if dtype.kind == "i" else np.iinfo(dtype).max


# -- Sums, products and orders


def _reduced(function: np.ufunc, form: Form, x: Array) -> Array:
    axes = tuple(form.lead + axis for axis in form.params["axes"])
    # Without its type NumPy would add small integers up as large ones.
    return np.asarray(function.reduce(x, axis=axes, dtype=x.dtype))


def _accumulated(function: np.ufunc, form: Form, x: Array) -> Array:
    axis, back = form.lead + form.params["axis"], form.params["reverse"]
    x = np.flip(x, axis) if back else x
    results = function.accumulate(x, axis=axis, dtype=x.dtype)
    return np.flip(results, axis) if back else results


def _extreme_place(function: Callable[..., Array], form: Form, x: Array) -> Array:
    (axis,) = form.params["axes"]
    return function(x, axis=form.lead + axis).astype(form.params["index_dtype"])


def _sort(form: Form, *operands: Array) -> list[Array]:
    """All operands in the order of the first one."""
    axis = form.lead + form.params["dimension"]
    if len(operands) == 1:
        return [np.sort(operands[0], axis=axis)]
    operands = np.broadcast_arrays(*operands)
    order = np.argsort(operands[0], axis=axis, kind="stable")
    return [np.take_along_axis(x, order, axis=axis) for x in operands]


def _dot_general(form: Form, a: Array, b: Array) -> Array:
    (left, right), (left_batch, right_batch) = form.params["dimension_numbers"]
    lead = form.lead
    if not left_batch and math.prod(b.shape[:lead]) == 1:  # one matrix for all: BLAS
        axes = [lead + axis for axis in left]
        return np.tensordot(a, b.reshape(b.shape[lead:]), (axes, right))
    if not left_batch and math.prod(a.shape[:lead]) == 1:
        axes = [lead + axis for axis in right]
        product = np.tensordot(b, a.reshape(a.shape[lead:]), (axes, left))
        free = a.ndim - lead - len(left)  # the axes of a, which JAX puts first
        return np.moveaxis(
            product, range(product.ndim - free, product.ndim), range(lead, lead + free)
        )
    # Equal numbers mark axes that are multiplied with each other.
    first = list(range(a.ndim - lead))
    second = [len(first) + axis for axis in range(b.ndim - lead)]
    for i, j in zip((*left, *left_batch), (*right, *right_batch), strict=True):
        second[j] = i
    results = [*left_batch, *(i for i in first if i not in (*left, *left_batch))]
    results += [j for j in second if j >= len(first)]
    return np.asarray(np.einsum(a, [..., *first], b, [..., *second], [..., *results]))


_PLACES = {"dynamic_slice": 1, "dynamic_update_slice": 2, "gather": 1, "pad": 1}
"""The first operand that must be constant, with all after it."""
_RULES: dict[str, tuple[str, Callable[..., Any]]] = {
    "argmax": ("fiub", partial(_extreme_place, np.argmax)),
    "argmin": ("fiub", partial(_extreme_place, np.argmin)),
    "broadcast_in_dim": ("fiub", _broadcast),
    "concatenate": ("fiub", partial(_joined, np.concatenate, "dimension")),
    "convert_element_type": ("fiub", _convert),
    "cummax": ("fiu", partial(_accumulated, np.maximum)),
    "cummin": ("fiu", partial(_accumulated, np.minimum)),
    "cumprod": ("fiu", partial(_accumulated, np.multiply)),
    "cumsum": ("fiu", partial(_accumulated, np.add)),
    "dot_general": ("fiu", _dot_general),
    "dynamic_slice": ("fiub", _dynamic_slice),
    "dynamic_update_slice": ("fiub", _dynamic_update_slice),
    "gather": ("fiub", _gather),
    "integer_pow": ("fiu", _integer_pow),
    "iota": ("fiub", _iota),
    "pad": ("fiub", _pad),
    "reduce_and": ("b", partial(_reduced, np.logical_and)),
    "reduce_max": ("fiub", partial(_reduced, np.maximum)),
    "reduce_min": ("fiub", partial(_reduced, np.minimum)),
    "reduce_or": ("b", partial(_reduced, np.logical_or)),
    "reduce_prod": ("fiu", partial(_reduced, np.multiply)),
    "reduce_sum": ("fiu", partial(_reduced, np.add)),
    "reshape": ("fiub", _reshape),
    "rev": ("fiub", _rev),
    "select_n": ("fiub", _select_n),
    "slice": ("fiub", _slice),
    "sort": ("fiub", _sort),
    "split": ("fiub", _split),
    "squeeze": ("fiub", _reshape),
    "stack": ("fiub", partial(_joined, np.stack, "axis")),
    "tile": ("fiub", _tile),
    "transpose": ("fiub", _transpose),
    "unstack": ("fiub", _unstack),
}
"""The kinds of operands that an operation takes, and its rule."""
NAMES = frozenset((*_ELEMENTWISE, *_RULES))
"""The operations of which some or all forms are here."""
