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
    address: int
    address, _ = array.__array_interface__["data"]  # several times faster than array.ctypes.data
    return array.flags.c_contiguous and address % ALIGNMENT == 0


_free: list[Array] = []
_lock = threading.Lock()


def in_place(data: Array, length: int, borrowed: list[Array]) -> Array:
    """Return `data`, with axes seed and round, as an array of `length` rounds that XLA uses in
    place: itself or a copy. The rounds after those of the data are undefined.

    The memory of a copy is added to `borrowed`. Give it back when nobody reads it any more, or it
    is freed.
    """
    if data.shape[1] == length and is_aligned(data):
        return data
    shape = (data.shape[0], length, *data.shape[2:])
    size = math.prod(shape) * data.dtype.itemsize
    place = None  # of the smallest memory that is large enough
    with _lock:
        for i, memory in enumerate(_free):
            if memory.size >= size and (place is None or memory.size < _free[place].size):
                place = i
        memory = aligned((size,), np.uint8) if place is None else _free.pop(place)
    borrowed.append(memory)
    copied = memory[:size].view(data.dtype).reshape(shape)
    copied[:, : data.shape[1]] = data
    return copied


def give_back(borrowed: list[Array]) -> None:
    """Keep memory for the next chunk, and for the next simulation of any thread.

    Allocating memory costs more than copying into it. Beyond a limit, what was not used for the
    longest time is freed.
    """
    with _lock:
        _free.extend(borrowed)
        while sum(map(len, _free)) > KEPT:
            _free.pop(0)
