"""What each primitive operation of JAX is in NumPy, for programs that are evaluated rather than
compiled."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ..engine import Array
from .indexing_rules import INDEXING

__all__ = ["RULES", "Rule", "usual"]

Rule = Callable[..., Any]


def usual(equation: Any) -> bool:
    """Whether the operation has the parameters that the rules expect."""
    name, params = equation.primitive.name, equation.params
    real = all(np.dtype(v.aval.dtype).kind in "fiub" for v in (*equation.invars, *equation.outvars))
    if name == "pad":
        return real and all(
            low >= 0 and high >= 0 and inside == 0 for low, high, inside in params["padding_config"]
        )
    if name in ("div", "pow", "integer_pow", "rem"):
        return real and all(np.dtype(v.aval.dtype).kind == "f" for v in equation.outvars)
    if name == "sort":
        return real and params["num_keys"] == 1
    return real


def _dynamic_slice(x: Array, *starts: Array, slice_sizes: Any) -> Array:
    return x[tuple(_span(x, starts, slice_sizes))]


def _dynamic_update_slice(x: Array, update: Array, *starts: Array) -> Array:
    result = x.copy()
    result[tuple(_span(x, starts, update.shape))] = update
    return result


def _span(x: Array, starts: Sequence[Array], sizes: Sequence[int]) -> Iterator[slice]:
    for start, size, length in zip(starts, sizes, x.shape, strict=True):
        first = int(np.clip(start, 0, length - size))
        yield slice(first, first + size)


def _broadcast_in_dim(
    x: Array, *dynamic: Any, shape: Any, broadcast_dimensions: Any, **_: Any
) -> Array:
    full = [1] * len(shape)
    for source, target in enumerate(broadcast_dimensions):
        full[target] = x.shape[source]
    return np.broadcast_to(x.reshape(full), shape)


def _dot_general(a: Array, b: Array, *, dimension_numbers: Any, **_: Any) -> Array:
    (left, right), (left_batch, right_batch) = dimension_numbers
    letters = iter("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
    first = [next(letters) for _ in range(a.ndim)]
    second: list[str] = [""] * b.ndim
    for i, j in [*zip(left, right, strict=True), *zip(left_batch, right_batch, strict=True)]:
        second[j] = first[i]
    second = [letter or next(letters) for letter in second]
    free = [first[i] for i in range(a.ndim) if i not in (*left, *left_batch)]
    free += [second[j] for j in range(b.ndim) if j not in (*right, *right_batch)]
    out = [first[i] for i in left_batch] + free
    return np.asarray(
        np.einsum(f"{''.join(first)},{''.join(second)}->{''.join(out)}", a, b, optimize=True)
    )


def _iota(*_: Any, dtype: Any, shape: Any, dimension: int, **__: Any) -> Array:
    line = np.arange(shape[dimension], dtype=dtype).reshape(
        [-1 if i == dimension else 1 for i in range(len(shape))]
    )
    return np.broadcast_to(line, shape)


def _pad(x: Array, value: Array, *, padding_config: Any) -> Array:
    return np.pad(x, [(low, high) for low, high, _ in padding_config], constant_values=value)


def _select(which: Array, *cases: Array) -> Array:
    if which.dtype == bool:
        return np.where(which, cases[1], cases[0])
    return np.choose(which, cases)


def _slice(x: Array, *, start_indices: Any, limit_indices: Any, strides: Any) -> Array:
    steps = strides or [1] * x.ndim
    return x[
        tuple(slice(*edges) for edges in zip(start_indices, limit_indices, steps, strict=True))
    ]


def _split(x: Array, *, sizes: Any, axis: int) -> list[Array]:
    return np.split(x, np.cumsum(sizes)[:-1], axis=axis)


def _reducing(function: Callable[..., Any]) -> Rule:
    return lambda x, *, axes, **_: function(x, axis=tuple(axes))


def _plain(function: Callable[..., Any]) -> Rule:
    return lambda *operands, **_: function(*operands)


def _cumulative(function: Callable[..., Any]) -> Rule:
    def rule(x: Array, *, axis: int, reverse: bool) -> Array:
        return (
            np.flip(function(np.flip(x, axis), axis=axis), axis)
            if reverse
            else function(x, axis=axis)
        )

    return rule


ELEMENTWISE: dict[str, Callable[..., Any]] = {
    "abs": np.abs,
    "acos": np.arccos,
    "acosh": np.arccosh,
    "add": np.add,
    "add_any": np.add,
    "and": np.logical_and,
    "asin": np.arcsin,
    "asinh": np.arcsinh,
    "atan": np.arctan,
    "atan2": np.arctan2,
    "atanh": np.arctanh,
    "cbrt": np.cbrt,
    "ceil": np.ceil,
    "copy": np.asarray,
    "copy_p": np.asarray,
    "cos": np.cos,
    "cosh": np.cosh,
    "div": np.divide,
    "eq": np.equal,
    "exp": np.exp,
    "exp2": np.exp2,
    "expm1": np.expm1,
    "floor": np.floor,
    "ge": np.greater_equal,
    "gt": np.greater,
    "is_finite": np.isfinite,
    "le": np.less_equal,
    "log": np.log,
    "log1p": np.log1p,
    "logistic": lambda x: 1 / (1 + np.exp(-x)),
    "lt": np.less,
    "max": np.maximum,
    "min": np.minimum,
    "mul": np.multiply,
    "ne": np.not_equal,
    "neg": np.negative,
    "not": np.logical_not,
    "or": np.logical_or,
    "pow": np.power,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "select_n": _select,
    "sign": np.sign,
    "sin": np.sin,
    "sinh": np.sinh,
    "sqrt": np.sqrt,
    "square": np.square,
    "stop_gradient": np.asarray,
    "sub": np.subtract,
    "tan": np.tan,
    "tanh": np.tanh,
}
RULES: dict[str, Rule] = {name: _plain(function) for name, function in ELEMENTWISE.items()} | {
    "argmax": lambda x, *, axes, index_dtype: np.argmax(x, axis=axes[0]).astype(index_dtype),
    "argmin": lambda x, *, axes, index_dtype: np.argmin(x, axis=axes[0]).astype(index_dtype),
    "broadcast_in_dim": _broadcast_in_dim,
    "clamp": lambda low, x, high: np.minimum(np.maximum(x, low), high),
    "concatenate": lambda *parts, dimension: np.concatenate(parts, axis=dimension),
    "convert_element_type": lambda x, *, new_dtype, **_: x.astype(new_dtype),
    "cummax": _cumulative(np.maximum.accumulate),
    "cummin": _cumulative(np.minimum.accumulate),
    "cumsum": _cumulative(np.cumsum),
    "dot_general": _dot_general,
    "dynamic_slice": _dynamic_slice,
    "dynamic_update_slice": _dynamic_update_slice,
    "expand_dims": lambda x, *, dimensions: np.expand_dims(x, tuple(dimensions)),
    "integer_pow": lambda x, *, y: x**y if y >= 0 else 1 / x**-y,
    "iota": _iota,
    "pad": _pad,
    "reduce_and": _reducing(np.all),
    "reduce_max": _reducing(np.max),
    "reduce_min": _reducing(np.min),
    "reduce_or": _reducing(np.any),
    "reduce_prod": _reducing(np.prod),
    "reduce_sum": _reducing(np.sum),
    "reshape": lambda x, *_, new_sizes, **__: x.reshape(new_sizes),
    "rev": lambda x, *, dimensions: np.flip(x, tuple(dimensions)),
    "slice": _slice,
    "split": _split,
    "squeeze": lambda x, *, dimensions: np.squeeze(x, tuple(dimensions)),
    "stack": lambda *parts, axis=0, **_: np.stack(parts, axis=axis),
    "transpose": lambda x, *, permutation: np.transpose(x, permutation),
    "unstack": lambda x, *, axis=0, **_: [np.take(x, i, axis=axis) for i in range(x.shape[axis])],
    **INDEXING,
}
"""What each primitive of JAX is in NumPy. Arguments that only matter to a compiler are ignored."""
