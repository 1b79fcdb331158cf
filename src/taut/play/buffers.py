"""Host memory for a chunk's data, from which the compiled loop reads without a copy.

XLA uses a NumPy array in place if its address is divisible by 64, as those of JAX's own arrays are. It copies any other
array into fresh memory, which takes several times longer than NumPy needs to copy it into memory that is in use already.
"""

from __future__ import annotations

import math
import threading
from typing import Any

import numpy as np

__all__ = ["BUFFERS", "aligned", "is_aligned"]

ALIGNMENT = 64
KEPT = 16 * 2**20
"""Arrays of at most so many bytes are kept between simulations."""
Array = np.ndarray[Any, Any]


def aligned(shape: tuple[int, ...], dtype: Any) -> Array:
    """Return an uninitialised array that XLA uses in place."""
    size = math.prod(shape) * np.dtype(dtype).itemsize
    memory = np.empty(size + ALIGNMENT, np.uint8)
    offset = -memory.ctypes.data % ALIGNMENT
    return memory[offset : offset + size].view(dtype).reshape(shape)


def is_aligned(array: Array) -> bool:
    """Return whether XLA uses the array in place."""
    address: int = array.__array_interface__["data"][0]  # several times faster than array.ctypes.data
    return array.flags.c_contiguous and address % ALIGNMENT == 0


class Buffers(threading.local):
    """Memory for the data of one chunk, one per thread, reused for the next chunk and the next simulation.

    Allocating memory costs more than copying into it. Data may be copied here only after the chunk whose data were copied
    before, in the same thread, has been played.
    """

    def __init__(self) -> None:
        self._memory: dict[int, Array] = {}

    def copy(self, leaf: int, data: Array, length: int) -> Array:
        """Return `data`, with axes seed and round, in an array of `length` rounds; the rounds after them are undefined."""
        if data.shape[1] == length and is_aligned(data):
            return data
        shape = (data.shape[0], length, *data.shape[2:])
        size = math.prod(shape) * data.dtype.itemsize
        memory = self._memory.get(leaf)
        if memory is None or memory.size < size:
            memory = aligned((size,), np.uint8)
            if size <= KEPT:
                self._memory[leaf] = memory
        copied = memory[:size].view(data.dtype).reshape(shape)
        copied[:, : data.shape[1]] = data
        return copied


BUFFERS = Buffers()
