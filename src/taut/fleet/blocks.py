"""The compiled steps of a fleet: members that report play their round one after the other.

A block of rows goes through one compiled loop, in one kernel, with the number of members as an
argument: what a member computes does not depend on the others in its block, nor on the size of the
block. Programs that no kernel can contain play members side by side instead.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ..engine import Array
from ..learners import Learner
from ..play.compile import Executables
from ..player.layout import Layout
from ..problem.problem import Problem
from .layout import Arrays
from .steps import MemberStep

__all__ = ["Blocks"]

SIZES = (16, 256, 2048)
"""Members of a block. One that is not full is padded to the next size."""
LARGEST = 2**20
"""Numbers of a block, at most, unless a few members alone have more: blocks should fit into the
processor's cache."""
LANES = 256
"""Members that are played side by side where no kernel can contain the program."""


class Blocks:
    """Takes steps with many members: in blocks of a few sizes, so that little is compiled.

    Arguments:
        problem: what is played; it owns the compiled functions.
        learner: as it is played.
        layout: how arrays are packed.
        fixed: game and learner, packed.
    """

    def __init__(
        self, problem: Problem, learner: Learner, layout: Layout, fixed: tuple[Any, ...]
    ) -> None:
        self._executables = Executables(problem, layout)
        self._layout, self._fixed = layout, fixed
        fitting = [size for size in SIZES if size * layout.state.size <= LARGEST]
        self.sizes = tuple(fitting or SIZES[:1])

    @property
    def floating(self) -> Any:
        """The float type of all computations."""
        return self._layout.state.floating

    def take(
        self, step: MemberStep, arrays: Arrays, results: Arrays, slots: Array, z: Any
    ) -> Array:
        """Take a step with the members in `slots` of `arrays`; return their faults.

        The rows of members without faults are written to the same slots of `results`.
        """
        faults = np.zeros(len(slots), np.int32)
        for first in range(0, len(slots), self.sizes[-1]):
            part = slice(first, min(first + self.sizes[-1], len(slots)))
            here = _consecutive(slots[part])
            data = jax.tree.map(lambda leaf, part=part: leaf[part], z)
            after, faults[part] = self._block(step, [each[here] for each in arrays], data)
            well = faults[part] == 0
            if not well.all():
                here, after = slots[part][well], [each[well] for each in after]
            for result, rows in zip(results, after, strict=True):
                result[here] = rows
        return faults

    def _block(self, step: MemberStep, rows: Arrays, z: Any) -> tuple[Arrays, Array]:
        """Take a step with the members of one block."""
        count = len(rows[0])
        size = next(size for size in self.sizes if size >= count)
        rows, z = jax.tree.map(partial(_padded, size=size), (rows, z))
        passed = (self._fixed, rows, z, np.asarray(count, np.int32))
        after, bits = self._executables.call(
            _one_by_one, step, passed, (rows, z), in_pieces=_side_by_side
        )
        return [np.asarray(each)[:count] for each in after], np.asarray(bits)[:count]


def _consecutive(slots: Array) -> Any:
    """Return slots as a slice if they follow each other: their rows are then not copied one by
    one."""
    first, count = int(slots[0]), len(slots)
    return slice(first, first + count) if np.all(np.diff(slots) == 1) else slots


def _padded(rows: Array, size: int) -> Array:
    """Return an array with so many rows. Those that are added repeat the first one, so that they
    never contain what a function cannot take."""
    if len(rows) == size:
        return rows
    padded = np.empty((size, *rows.shape[1:]), rows.dtype)
    padded[: len(rows)] = rows
    padded[len(rows) :] = rows[0]
    return padded


def _one_by_one(
    static: tuple[MemberStep, Layout],
    rewrite: Callable[..., Any],
    fixed: Any,
    rows: Any,
    z: Any,
    count: jax.Array,
) -> Any:
    """Return rows and faults after the first `count` members have played."""
    one = rewrite(partial(_step_of_row, *static))

    def body(i: Any, carry: Any) -> Any:
        rows, faults = carry
        row, data = jax.tree.map(lambda a: lax.dynamic_index_in_dim(a, i, 0, False), (rows, z))
        after, bits = one(fixed, row, data)
        rows = jax.tree.map(lambda a, r: lax.dynamic_update_index_in_dim(a, r, i, 0), rows, after)
        return rows, lax.dynamic_update_index_in_dim(faults, bits, i, 0)

    none = jnp.zeros(rows[0].shape[0], jnp.int32)
    return lax.fori_loop(0, count, body, (rows, none))


def _side_by_side(
    static: tuple[MemberStep, Layout],
    rewrite: Callable[..., Any],
    fixed: Any,
    rows: Any,
    z: Any,
    count: jax.Array,
) -> Any:
    """The same as `_one_by_one`, for so many members at a time."""
    size = rows[0].shape[0]
    lanes = min(size, LANES)
    several = jax.vmap(rewrite(partial(_step_of_row, *static)), in_axes=(None, 0, 0))

    def body(i: Any, carry: Any) -> Any:
        rows, faults = carry
        part = jax.tree.map(lambda a: lax.dynamic_slice_in_dim(a, i * lanes, lanes, 0), (rows, z))
        after, bits = several(fixed, *part)
        rows = jax.tree.map(
            lambda a, r: lax.dynamic_update_slice_in_dim(a, r, i * lanes, 0), rows, after
        )
        return rows, lax.dynamic_update_slice_in_dim(faults, bits, i * lanes, 0)

    none = jnp.zeros(size, jnp.int32)
    return lax.fori_loop(0, (count + lanes - 1) // lanes, body, (rows, none))


def _step_of_row(
    step: MemberStep, layout: Layout, fixed: Any, row: Any, z: Any
) -> tuple[Any, jax.Array]:
    """Take a step with one member; if something is not finite, it stays as it was."""
    game, learner = layout.fixed.unpack(fixed)
    after, bits = step(learner, game, layout.unpack(row), z)
    packed = layout.pack(after)
    kept = jax.tree.map(lambda a, b: jnp.where(bits == 0, a, b), packed, tuple(row))
    return list(kept), bits
