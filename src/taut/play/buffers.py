"""Staging: a chunk's data where the compiled game reads them in place.

XLA takes a NumPy array over without a copy if it lies at an address divisible by 64, as JAX's own arrays do. Any other
array it copies into fresh memory, several times slower than NumPy copies it into memory that is in use already.
"""

from __future__ import annotations

import math
import threading
from typing import Any

import numpy as np

__all__ = ["STAGE", "aligned", "in_place"]

ALIGNMENT = 64
KEPT = 16 * 2**20
"""Bytes of an array, at most, that are kept between games."""
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


class Stage(threading.local):
    """Memory for one chunk's data, a thread's own, used again for the next chunk and the next game.

    Fresh memory costs more than the copy itself, page by page. So data may be placed only when those placed before, in
    the same thread, have been played.
    """

    def __init__(self) -> None:
        self._memory: dict[int, Array] = {}

    def place(self, leaf: int, data: Array, length: int) -> Array:
        """`data`, with axes seed and round, in an array of `length` rounds; those after its own hold no data."""
        if data.shape[1] == length and in_place(data):
            return data
        shape = (data.shape[0], length, *data.shape[2:])
        size = math.prod(shape) * data.dtype.itemsize
        memory = self._memory.get(leaf)
        if memory is None or memory.size < size:
            memory = aligned((size,), np.uint8)
            if size <= KEPT:
                self._memory[leaf] = memory
        placed = memory[:size].view(data.dtype).reshape(shape)
        placed[:, : data.shape[1]] = data
        return placed


STAGE = Stage()
