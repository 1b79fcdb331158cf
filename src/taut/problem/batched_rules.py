"""Primitive operations of JAX in NumPy for many values at once: every array has the same number of
leading axes.

A leading axis has length 1 in arrays that do not depend on it, and operations broadcast over it.
`batched(equation, lead, fixed)` returns the operation of an equation as a function of such arrays,
or raises `Unbatched`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..engine import Array
from .indexing_rules import INDEXING
from .numpy_rules import ELEMENTWISE, RULES, usual

__all__ = ["Unbatched", "batched"]

Operation = Callable[..., Any]


class Unbatched(Exception):
    """The operation has no counterpart here."""


def batched(equation: Any, lead: int, fixed: Sequence[bool]) -> Operation:
    """Return the operation on arrays with `lead` leading axes; a list of arrays if the primitive
    has several results.

    `fixed` says which operands are constants. Those that say where to read, to write or to pad must
    be.
    """
    name = equation.primitive.name
    places = _PLACES.get(name)
    if not usual(equation) or (places is not None and not all(fixed[places:])):
        raise Unbatched(name)
    if name in _UNARY:
        parameters = equation.params
        return lambda x: RULES[name](x, **parameters)
    if name in ELEMENTWISE or name == "clamp":
        return _elementwise(RULES[name], equation, lead)
    if name not in _MAKERS:
        raise Unbatched(name)
    return _MAKERS[name](equation, lead)


def _elementwise(function: Operation, equation: Any, lead: int) -> Operation:
    ranks = [len(v.aval.shape) for v in equation.invars]
    rank = max(ranks)
    if min(ranks) == rank:
        return function

    def widened(x: Array, own: int) -> Array:
        return (
            x if own == rank else x.reshape(x.shape + (1,) * (rank - own))
        )  # a number among arrays

    return lambda *operands: function(*map(widened, operands, ranks))


def _reshape(equation: Any, lead: int) -> Operation:
    shape = tuple(equation.outvars[0].aval.shape)
    return lambda x, *_: x.reshape(x.shape[:lead] + shape)


def _broadcast(equation: Any, lead: int) -> Operation:
    shape = tuple(equation.params["shape"])
    full = [1] * len(shape)
    for own, target in enumerate(equation.params["broadcast_dimensions"]):
        full[target] = equation.invars[0].aval.shape[own]
    middle = tuple(full)
    return lambda x, *_: np.broadcast_to(x.reshape(x.shape[:lead] + middle), x.shape[:lead] + shape)


def _reduction(function: Callable[..., Any]) -> Callable[[Any, int], Operation]:
    def made(equation: Any, lead: int) -> Operation:
        axes = tuple(lead + axis for axis in equation.params["axes"])
        return lambda x: function(x, axis=axes)

    return made


def _cumulative(equation: Any, lead: int) -> Operation:
    rule, parameters = RULES[equation.primitive.name], dict(equation.params)
    parameters["axis"] += lead
    return lambda x: rule(x, **parameters)


def _extreme_place(equation: Any, lead: int) -> Operation:
    rule, parameters = RULES[equation.primitive.name], dict(equation.params)
    parameters["axes"] = tuple(lead + axis for axis in parameters["axes"])
    return lambda x: rule(x, **parameters)


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


def _joined(name: str, join: Callable[..., Array]) -> Callable[[Any, int], Operation]:
    def made(equation: Any, lead: int) -> Operation:
        axis = lead + equation.params.get(name, 0)

        def operation(*parts: Array) -> Array:
            shape = np.broadcast_shapes(*(part.shape[:lead] for part in parts))
            return join(
                [np.broadcast_to(part, shape + part.shape[lead:]) for part in parts], axis=axis
            )

        return operation

    return made


def _unstack(equation: Any, lead: int) -> Operation:
    axis = lead + equation.params.get("axis", 0)
    return lambda x: [np.take(x, i, axis=axis) for i in range(x.shape[axis])]


def _iota(equation: Any, lead: int) -> Operation:
    rule, parameters = RULES["iota"], equation.params
    return lambda *_: rule(**parameters)[(None,) * lead]


def _pad(equation: Any, lead: int) -> Operation:
    widths = [(0, 0)] * lead + [(low, high) for low, high, _ in equation.params["padding_config"]]

    return lambda x, value: np.pad(x, widths, constant_values=value.item())


def _dot_general(equation: Any, lead: int) -> Operation:
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

    def operation(a: Array, b: Array) -> Array:
        if (
            not left_batch and math.prod(b.shape[:lead]) == 1
        ):  # one matrix for all: a product of BLAS
            return np.tensordot(a, b.reshape(b.shape[lead:]), (axes, right))
        if not left_batch and math.prod(a.shape[:lead]) == 1:
            return np.tensordot(b, a.reshape(a.shape[lead:]), (turned, left)).transpose(swap)
        return np.asarray(np.einsum(spec, a, b))

    return operation


def _sort(equation: Any, lead: int) -> Operation:
    axis = lead + equation.params["dimension"]

    def operation(*operands: Array) -> list[Array]:
        shape = np.broadcast_shapes(*(one.shape for one in operands))
        found: list[Array] = INDEXING["sort"](
            *(np.broadcast_to(one, shape) for one in operands), dimension=axis
        )
        return found

    return operation


def _dynamic_slice(equation: Any, lead: int) -> Operation:
    sizes = equation.params["slice_sizes"]

    def operation(x: Array, *starts: Array) -> Array:
        return x[_span(x.shape[lead:], starts, sizes)]

    return operation


def _dynamic_update_slice(equation: Any, lead: int) -> Operation:
    def operation(x: Array, update: Array, *starts: Array) -> Array:
        shape = np.broadcast_shapes(x.shape[:lead], update.shape[:lead])
        result = np.array(np.broadcast_to(x, shape + x.shape[lead:]))
        result[_span(x.shape[lead:], starts, update.shape[lead:])] = update
        return result

    return operation


def _span(shape: tuple[int, ...], starts: Sequence[Array], sizes: Sequence[int]) -> Any:
    where = [int(start.item()) for start in starts]
    first = [
        min(max(start, 0), length - size)
        for start, size, length in zip(where, sizes, shape, strict=True)
    ]
    return (..., *(slice(start, start + size) for start, size in zip(first, sizes, strict=True)))


def _gather(equation: Any, lead: int) -> Operation:
    """The same places of every value: the leading axes become axes of the window."""
    params, numbers = dict(equation.params), equation.params["dimension_numbers"]
    if numbers.operand_batching_dims:
        raise Unbatched("gather")

    def shifted(axes: Any) -> tuple[int, ...]:
        return tuple(lead + int(axis) for axis in axes)

    params["dimension_numbers"] = numbers._replace(
        offset_dims=(*range(lead), *shifted(numbers.offset_dims)),
        collapsed_slice_dims=shifted(numbers.collapsed_slice_dims),
        start_index_map=shifted(numbers.start_index_map),
    )
    own = params["slice_sizes"]

    def operation(x: Array, indices: Array) -> Any:
        sizes = {"slice_sizes": (*x.shape[:lead], *own)}
        return INDEXING["gather"](x, indices.reshape(indices.shape[lead:]), **(params | sizes))

    return operation


_PLACES = {"dynamic_slice": 1, "dynamic_update_slice": 2, "gather": 1, "pad": 1}
"""The first operand that must be constant, with all after it."""
_UNARY = frozenset(("convert_element_type", "integer_pow", "eigh"))
"""Operations that are the same with leading axes."""
_MAKERS: dict[str, Callable[[Any, int], Operation]] = {
    "argmax": _extreme_place,
    "argmin": _extreme_place,
    "broadcast_in_dim": _broadcast,
    "concatenate": _joined("dimension", np.concatenate),
    "stack": _joined("axis", np.stack),
    "unstack": _unstack,
    "cummax": _cumulative,
    "cummin": _cumulative,
    "cumsum": _cumulative,
    "dot_general": _dot_general,
    "dynamic_slice": _dynamic_slice,
    "dynamic_update_slice": _dynamic_update_slice,
    "expand_dims": _reshape,
    "reshape": _reshape,
    "squeeze": _reshape,
    "gather": _gather,
    "iota": _iota,
    "pad": _pad,
    "reduce_and": _reduction(np.all),
    "reduce_max": _reduction(np.max),
    "reduce_min": _reduction(np.min),
    "reduce_or": _reduction(np.any),
    "reduce_prod": _reduction(np.prod),
    "reduce_sum": _reduction(np.sum),
    "rev": _rev,
    "slice": _slice,
    "sort": _sort,
    "split": _split,
    "transpose": _transpose,
}
