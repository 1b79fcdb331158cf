"""Staging: a chunk's data where the compiled game reads them in place.

XLA takes a NumPy array over without a copy if it lies at an address divisible by 64, as JAX's own arrays do. Any other
array it copies into fresh memory, several times slower than NumPy copies it into memory that is in use already.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

__all__ = ["Stage", "aligned", "in_place"]

ALIGNMENT = 64
Array = np.ndarray[Any, Any]


def aligned(shape: tuple[int, ...], dtype: Any) -> Array:
    """An array that XLA can take over; its entries are whatever was in memory."""
    size = math.prod(shape) * np.dtype(dtype).itemsize
    memory = np.empty(size + ALIGNMENT, np.uint8)
    offset = -memory.ctypes.data % ALIGNMENT
    return memory[offset : offset + size].view(dtype).reshape(shape)


def in_place(array: Array) -> bool:
    """Whether XLA can take the array over."""
    return array.flags.c_contiguous and array.ctypes.data % ALIGNMENT == 0


class Stage:
    """Memory for one chunk's data, used again for the next: only when that has been played may another be placed."""

    def __init__(self) -> None:
        self._buffers: dict[int, Array] = {}

    def place(self, leaf: int, data: Array, length: int) -> Array:
        """`data`, with axes seed and round, in an array of `length` rounds; those after its own hold no data."""
        if data.shape[1] == length and in_place(data):
            return data
        shape = (data.shape[0], length, *data.shape[2:])
        buffer = self._buffers.get(leaf)
        if buffer is None or buffer.dtype != data.dtype or buffer.shape != shape:
            buffer = self._buffers[leaf] = aligned(shape, data.dtype)
        buffer[:, : data.shape[1]] = data
        return buffer
