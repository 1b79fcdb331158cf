"""Operations of traced programs in NumPy that pick, sort or decompose: for
`taut.problem.interpreter`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..engine import Array

__all__ = ["INDEXING"]


def _gather(
    operand: Array,
    indices: Array,
    *,
    dimension_numbers: Any,
    slice_sizes: Any,
    mode: Any,
    fill_value: Any = None,
    **_: Any,
) -> Array:
    """XLA's gather: windows of `operand` that start at `indices`, one per entry of the leading axes
    of `indices`."""
    places, inside = _places(operand.shape, indices, dimension_numbers, slice_sizes, _fills(mode))
    found = operand[places]
    if inside is not None:
        blank = np.nan if fill_value is None and found.dtype.kind == "f" else fill_value or 0
        found = np.where(
            np.broadcast_to(inside, found.shape), found, np.asarray(blank, found.dtype)
        )
    offset = [int(d) for d in dimension_numbers.offset_dims]
    order = [d for d in range(found.ndim) if d not in offset]
    back = np.empty(found.ndim, int)
    back[[*order, *offset]] = range(found.ndim)
    return np.transpose(found, back)


def _fills(mode: Any) -> bool:
    return "FILL" in str(mode)


def _places(
    shape: Any, indices: Array, numbers: Any, sizes: Any, fills: bool
) -> tuple[tuple[Array, ...], Array | None]:
    """For each axis of the operand the positions, of shape (leading axes of indices, axes of the
    window)."""
    lead = indices.shape[:-1]
    gone = {*map(int, numbers.collapsed_slice_dims), *map(int, numbers.operand_batching_dims)}
    window = [d for d in range(len(shape)) if d not in gone]
    starts = dict(zip(map(int, numbers.start_index_map), range(indices.shape[-1]), strict=True))
    batched = dict(
        zip(
            map(int, numbers.operand_batching_dims),
            map(int, numbers.start_indices_batching_dims),
            strict=True,
        )
    )
    found, inside = [], None
    for d, length in enumerate(shape):
        if d in batched:
            axis = batched[d]
            start = np.arange(length).reshape([-1 if k == axis else 1 for k in range(len(lead))])
        elif d in starts:
            start = indices[..., starts[d]]
            last = length - sizes[d]
            if fills:
                good = (start >= 0) & (start <= last)
                inside = good if inside is None else inside & good
            start = np.clip(start, 0, last)
        else:
            start = np.zeros((1,) * len(lead), int)
        start = start.reshape(*start.shape, *(1 for _ in window))
        if d in window:
            axes = [-1 if d == one else 1 for one in window]
            start = start + np.arange(sizes[d]).reshape((1,) * len(lead) + tuple(axes))
        found.append(start)
    whole = (*lead, *(sizes[d] for d in window))
    if inside is not None:
        inside = inside.reshape(*inside.shape, *(1 for _ in window))
    return tuple(np.broadcast_to(one, whole) for one in found), inside


def _sort(*operands: Array, dimension: int, **_: Any) -> list[Array]:
    """Sort several arrays by the first one."""
    if len(operands) == 1:
        return [np.sort(operands[0], axis=dimension)]
    order = np.argsort(operands[0], axis=dimension, kind="stable")
    return [np.take_along_axis(one, order, axis=dimension) for one in operands]


def _eigh(x: Array, **_: Any) -> list[Array]:
    """Eigenvectors and eigenvalues, in this order."""
    values, vectors = np.linalg.eigh(x)
    return [vectors, values]


INDEXING: dict[str, Callable[..., Any]] = {
    "eigh": _eigh,
    "gather": _gather,
    "sort": _sort,
}
