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
from ..player.steps import SHORT, Compiled, Layout, Step
from ..problem.problem import Problem
from .members import Arrays, Id, hash_of

SIZES = (16, 256, 2048)
"""Members of a block. One that is not full is padded to the next size."""
LARGEST = 2**20
"""Numbers of a block, at most, unless a few members alone have more: blocks should fit into the
processor's cache."""
LANES = 256
"""Members that are played side by side where no kernel can contain the program."""


class Blocks(Compiled):
    """The state of members, and steps with many of them: in blocks of a few sizes, so that little
    is compiled."""

    def __init__(
        self,
        problem: Problem,
        learner: Learner,
        first: jax.Array,
        counts: tuple[int, int],
        key: jax.Array,
    ) -> None:
        own = 0 if problem.scored_constraints is problem.announced else counts[0]
        self.scored = counts[1] + own
        """The number of constraints that decisions are scored by."""
        super().__init__(problem, learner, first, (counts[0], self.scored), key)
        self._key = key
        self._row = [np.asarray(each) for each in self.packing.pack(self.begun)]
        fitting = [size for size in SIZES if size * self.packing.size <= LARGEST]
        self.sizes = tuple(fitting or SIZES[:1])

    def rows(self, listed: list[Id]) -> Arrays:
        """Return the packed state of new members, one row for all unless they draw random
        numbers."""
        if not self.random or not listed:
            return self._row
        words = np.array([hash_of(each) for each in listed], np.uint32)
        size = 1 << (len(listed) - 1).bit_length()
        padded = np.concatenate([words, np.zeros((size - len(words), 2), np.uint32)])

        def row(word: jax.Array) -> Any:
            return self.packing.pack(self.begin(member_key(self._key, word)), xp=jnp)

        packed = jax.jit(jax.vmap(row))(padded)
        return [np.asarray(each)[: len(listed)] for each in packed]

    def take(self, step: Step, arrays: Arrays, results: Arrays, slots: Array, *given: Any) -> Array:
        """Take a step with the members in `slots` of `arrays`; return their faults.

        The rows of members without faults are written to the same slots of `results`.
        """
        faults = self._take(step, arrays, results, slots, given)
        again = np.flatnonzero(faults >= SHORT)
        if len(again):
            rows = jax.tree.map(lambda leaf: leaf[again], given)
            faults[again] = self._take(step, arrays, results, slots[again], rows, all_parts=True)
        return faults

    def _take(
        self,
        step: Step,
        arrays: Arrays,
        results: Arrays,
        slots: Array,
        given: Any,
        all_parts: bool = False,
    ) -> Array:
        faults = np.zeros(len(slots), np.int32)
        for first in range(0, len(slots), self.sizes[-1]):
            part = slice(first, min(first + self.sizes[-1], len(slots)))
            here = _consecutive(slots[part])
            data = jax.tree.map(lambda leaf, part=part: leaf[part], given)
            count = len(slots[part])
            size = next(size for size in self.sizes if size >= count)
            rows, data = jax.tree.map(
                partial(_padded, size=size), ([each[here] for each in arrays], data)
            )
            passed = (self.fixed, rows, data, np.asarray(count, np.int32))
            varying = rows, data
            played, bits = self.call(_one_by_one, step, passed, varying, all_parts, _side_by_side)
            faults[part] = np.asarray(bits)[:count]
            well = faults[part] == 0
            for result, rows_after in zip(results, played, strict=True):
                if well.all():
                    result[here] = np.asarray(rows_after)[:count]
                else:
                    result[slots[part][well]] = np.asarray(rows_after)[:count][well]
        return faults


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
    static: tuple[Step, Layout],
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
    static: tuple[Step, Layout],
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
    step: Step, layout: Layout, fixed: Any, row: Any, given: Any
) -> tuple[Any, jax.Array]:
    """Take a step with one member; if something is not finite, it stays as it was."""
    game, learner, stated = layout.fixed.unpack(fixed)
    after, told = step(learner, game, stated, layout.state.unpack(row), *given)
    packed, bits = layout.state.pack(after, xp=jnp), jnp.asarray(told.flags, jnp.int32)
    kept = jax.tree.map(lambda a, b: jnp.where(bits == 0, a, b), packed, tuple(row))
    return list(kept), bits


def member_key(key: jax.Array, words: Any) -> jax.Array:
    """Return the random key of the member whose id has this hash."""
    return jax.random.fold_in(jax.random.fold_in(key, words[0]), words[1])
