"""Host memory for a chunk's data, from which the compiled loop reads without a copy.

XLA uses a NumPy array in place if its address is divisible by 64, as those of JAX's own arrays are.
It copies any other array into fresh memory, which takes several times longer than NumPy needs to
copy it into memory that is in use already.
"""

from __future__ import annotations

import math
import threading
from typing import Any

import numpy as np

from ..engine import Array

ALIGNMENT = 64
KEPT = 64 * 2**20
"""At most so many bytes are kept between simulations: enough for two chunks in each of four
threads."""


def aligned(shape: tuple[int, ...], dtype: Any) -> Array:
    """Return an uninitialised array that XLA uses in place."""
    size = math.prod(shape) * np.dtype(dtype).itemsize
    memory = np.empty(size + ALIGNMENT, np.uint8)
    offset = -memory.ctypes.data % ALIGNMENT
    return memory[offset : offset + size].view(dtype).reshape(shape)


def is_aligned(array: Array) -> bool:
    """Return whether XLA uses the array in place."""
    address: int = array.__array_interface__["data"][
        0
    ]  # several times faster than array.ctypes.data
    return array.flags.c_contiguous and address % ALIGNMENT == 0


class Buffers:
    """Memory for the data of chunks, kept for the next chunk and for the next simulation of any
    thread.

    Allocating memory costs more than copying into it, and a new thread would have none of its own.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._free: list[Array] = []

    def take(self, size: int) -> Array:
        """Return at least so many bytes, which nobody else uses until they are returned."""
        with self._lock:
            fitting = [i for i, memory in enumerate(self._free) if memory.size >= size]
            if fitting:
                return self._free.pop(min(fitting, key=lambda i: self._free[i].size))
        return aligned((size,), np.uint8)

    def give_back(self, memory: Array) -> None:
        """Keep memory for later. Beyond a limit, what was not used for the longest time is
        freed."""
        with self._lock:
            self._free.append(memory)
            while sum(kept.size for kept in self._free) > KEPT:
                self._free.pop(0)


BUFFERS = Buffers()


class Staging:
    """The data of one chunk, copied to where the compiled loop reads them in place. `end` it after
    the chunk has been played."""

    def __init__(self) -> None:
        self._taken: list[Array] = []

    def copy(self, data: Array, length: int) -> Array:
        """Return `data`, with axes seed and round, in an array of `length` rounds; the rounds after
        them are undefined."""
        if data.shape[1] == length and is_aligned(data):
            return data
        shape = (data.shape[0], length, *data.shape[2:])
        size = math.prod(shape) * data.dtype.itemsize
        memory = BUFFERS.take(size)
        self._taken.append(memory)
        copied = memory[:size].view(data.dtype).reshape(shape)
        copied[:, : data.shape[1]] = data
        return copied

    def end(self) -> None:
        """Let the next chunk use the memory. Without this it is freed, once the loop that reads it
        has ended."""
        for memory in self._taken:
            BUFFERS.give_back(memory)
        self._taken = []
