"""The compiled steps of a fleet: members that report play their round one after the other.

The state of a member is one row of numbers (and, in 32 bits, a few integers beside it). A block of
rows goes through one compiled loop, in one kernel, with the number of members as an argument: what
a member computes does not depend on the others in its block, nor on the size of the block. Programs
that no kernel can contain play members side by side instead.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ..engine import Array, default_float
from ..learners import Learner
from ..learners.clipping import clip_of
from ..play import round as rounds
from ..play.compile import Executable, compiled, facts_of
from ..play.packing import Packing
from ..play.round import BITS, Game, GameState, fault
from ..player.extremes import COLUMNS, NAMES, round_extremes
from ..problem.problem import Problem
from ..problem.programs import programs_of
from ..runs.totals import Sum

__all__ = [
    "Arrays",
    "Blocks",
    "Column",
    "Layout",
    "Member",
    "Seen",
    "announced_member",
    "new_member",
    "revealed_member",
]

SIZES = (16, 256, 2048)
"""Members of a block. One that is not full is padded to the next size."""
LARGEST = 2**20
"""Numbers of a block, at most, unless a few members alone have more: blocks should fit into the
processor's cache."""
LANES = 256
"""Members that are played side by side where no kernel can contain the program."""

Arrays = list[Array]
"""One array for each packed part, whose first axis is the member."""


class AcceptedSlopes(NamedTuple):
    """The numbers of `taut.learners.clipping.Clipping` for one member."""

    largest: jax.Array
    squares: Sum
    first_square: jax.Array
    excess: Sum
    clipped: jax.Array

    def add(self, slope: jax.Array, clip: float | None) -> AcceptedSlopes:
        """Return the numbers after a round with a loss gradient of this length."""
        slope = slope.astype(self.largest.dtype)
        above, accepted = jnp.asarray(False), slope
        if clip is not None:
            limit = clip * self.largest
            above = jnp.isposinf(slope) | ((self.largest > 0) & (slope > limit))
            accepted = jnp.where(jnp.isposinf(slope), 0, jnp.where(above, limit, slope))
        square = accepted * accepted
        return AcceptedSlopes(
            jnp.maximum(self.largest, accepted),
            self.squares.add(square),
            jnp.where(self.first_square > 0, self.first_square, square),
            self.excess.add(slope - accepted),
            self.clipped + above,
        )

    def numbers(self) -> Array:
        """Return the numbers of a `Clipping` with one seed."""
        sums = (self.largest, self.squares, self.first_square, self.excess, self.clipped)
        return np.array([[_number(each)] for each in sums])


def _number(value: Any) -> float:
    """A number, or the value of a compensated sum."""
    if not isinstance(value, Sum):
        return float(value)
    return float(value.value) + (0.0 if value.error is None else float(value.error))


class Seen(NamedTuple):
    """What a member has seen in all its rounds, as `taut.player.extremes` describes it."""

    values: jax.Array
    """The largest value of each of `COLUMNS`; minus infinity if none is known."""
    rounds: jax.Array
    """For each of `NAMES`, the round in which it was largest."""
    decisions: jax.Array
    """The flat decisions of these rounds."""
    slopes: AcceptedSlopes
    """What the learner accepted of the loss gradients."""

    @classmethod
    def nothing(cls, x: jax.Array) -> Seen:
        """Return what is known before round 1."""
        wide = jnp.promote_types(x.dtype, default_float())
        return cls(
            jnp.full(len(COLUMNS), -jnp.inf, x.dtype),
            jnp.zeros(len(NAMES), jnp.int32),
            jnp.zeros((len(NAMES), x.size), x.dtype),
            AcceptedSlopes(
                jnp.zeros((), wide),
                Sum.zero((), wide),
                jnp.zeros((), wide),
                Sum.zero((), wide),
                jnp.zeros((), jnp.int32),
            ),
        )

    def add(
        self, found: jax.Array, round: jax.Array, x: jax.Array, clip: float | None = None
    ) -> Seen:
        """Return what is known after one more round of a learner that clips gradients so."""
        known = jnp.where(jnp.isfinite(found), found, -jnp.inf)
        larger = known > self.values
        ours = larger[: len(NAMES)]
        return Seen(
            jnp.where(larger, known, self.values),
            jnp.where(ours, round, self.rounds),
            jnp.where(ours[:, None], x.ravel()[None], self.decisions),
            self.slopes.add(found[0], clip),
        )


class Member(NamedTuple):
    """The state of one member."""

    x: jax.Array
    """The decision to play."""
    game: GameState
    """Its round counts observed rounds only."""
    seen: Seen
    skipped: jax.Array
    """The number of rounds of which nothing was observed."""


def new_member(state: GameState) -> Member:
    """Return a member before its first round."""
    x = jnp.asarray(state.x)
    return Member(x, state, Seen.nothing(x), jnp.asarray(0, jnp.int32))


class Layout(NamedTuple):
    """How the arrays of a fleet are packed. Hashable."""

    fixed: Packing
    """Of the pair (game, learner), which all members share."""
    member: Packing
    """Of a member, with the numbers of random keys in the place of the keys."""
    keys: tuple[tuple[int, str], ...]
    """For each random key, its number among the leaves and its kind."""

    @classmethod
    def of(cls, fixed: Any, member: Member, floating: np.dtype[Any]) -> Layout:
        """Return the layout for members like this one."""
        keys = tuple(
            (i, str(jax.random.key_impl(leaf)))
            for i, leaf in enumerate(jax.tree.leaves(member))
            if jnp.issubdtype(jnp.result_type(leaf), jax.dtypes.prng_key)
        )
        plain = _without_keys(keys, member)
        return cls(Packing.of(fixed, floating), Packing.of(plain, floating), keys)

    def pack(self, member: Member) -> tuple[jax.Array, ...]:
        """Return the packed arrays of a member."""
        return self.member.pack_traced(_without_keys(self.keys, member))

    def unpack(self, arrays: Any) -> Member:
        """Return the member of packed arrays."""
        leaves, structure = jax.tree.flatten(self.member.unpack(tuple(arrays)))
        for i, kind in self.keys:
            leaves[i] = jax.random.wrap_key_data(leaves[i].astype(jnp.uint32), impl=kind)
        member: Member = jax.tree.unflatten(structure, leaves)
        return member

    @property
    def columns(self) -> Any:
        """A member with a `Column` in the place of each of its numbers and arrays."""
        columns, start, others = [], 0, 0
        for size, shape, dtype in self.member.places:
            if size is None:
                others += 1
            columns.append(Column(0 if size is not None else others, start, shape, dtype))
            start += size or 0
        return jax.tree.unflatten(self.member.structure, columns)

    @property
    def kinds(self) -> list[tuple[tuple[int, ...], Any]]:
        """Shape and type of each array of a member."""
        others = [(shape, dtype) for size, shape, dtype in self.member.places if size is None]
        return [((self.member.size,), self.member.floating), *others]


class Column(NamedTuple):
    """Where a part of the members' state is."""

    array: int
    """The number of the packed array."""
    start: int
    """Its first entry in the rows of the first array; other arrays hold nothing else."""
    shape: tuple[int, ...]
    dtype: Any

    @property
    def place(self) -> slice:
        """The entries of a row."""
        return slice(self.start, self.start + math.prod(self.shape))

    def read(self, arrays: Arrays, slots: Any) -> Array:
        """Return the part of the members in these slots; their axis comes first."""
        if self.array:
            part: Array = arrays[self.array][slots]
            return part
        part = arrays[0][slots, self.place]
        return part.reshape(len(part), *self.shape).astype(self.dtype)

    def write(self, arrays: Arrays, slots: Any, values: Array) -> None:
        """Replace the part of the members in these slots."""
        if self.array:
            arrays[self.array][slots] = values
        else:
            arrays[0][slots, self.place] = values.reshape(len(values), math.prod(self.shape))


def _without_keys(keys: tuple[tuple[int, str], ...], member: Member) -> Any:
    leaves, structure = jax.tree.flatten(member)
    for i, _ in keys:
        leaves[i] = jax.random.key_data(leaves[i])
    return jax.tree.unflatten(structure, leaves)


MemberStep = Callable[[Learner, Game, Member, Any], tuple[Member, jax.Array]]
"""(learner, game, member, z) -> the member afterwards, and one bit for each of `FAULTS`."""


def revealed_member(
    learner: Learner, game: Game, member: Member, z: Any
) -> tuple[Member, jax.Array]:
    """Play a round whose announced constraints were enforced before."""
    after, played = rounds.reveal(learner, game, member.game, z)
    x = played.state.x
    gradient = played.round.gradient(x)
    centre = jnp.asarray(game.domain.centre, x.dtype)
    found = round_extremes(played.round, x, played.loss, gradient, centre)
    seen = member.seen.add(found, member.game.t + member.skipped, x, clip_of(learner))
    bits = after.faults % 2**BITS | fault("loss gradient", gradient)
    return Member(after.x, after, seen, member.skipped), bits


def announced_member(
    learner: Learner, game: Game, member: Member, z: Any
) -> tuple[Member, jax.Array]:
    """Move the decision into the announced constraints of the coming round."""
    heeded = rounds.announce(learner, game, member.game, z)
    bits = fault("data", *rounds.floats_of(z)) | fault("next decision", heeded.x)
    return member._replace(x=heeded.x, game=heeded), bits


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
        self._problem, self._layout, self._fixed = problem, layout, fixed
        self._facts = facts_of(learner, problem.domain, seeds=1)
        self._compiled: dict[Any, Executable] = {}
        fitting = [size for size in SIZES if size * layout.member.size <= LARGEST]
        self.sizes = tuple(fitting or SIZES[:1])

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
        leaves, structure = jax.tree.flatten(z)
        key = (step, size, structure, *((leaf.shape[1:], leaf.dtype) for leaf in leaves))
        executable = self._compiled.get(key)
        passed = (self._fixed, rows, z, np.asarray(count, np.int32))
        if executable is None:
            executable = self._compiled[key] = compiled(
                programs_of(self._problem),
                _one_by_one,
                (step, self._layout),
                self._facts,
                passed,
                in_pieces=_side_by_side,
            )
        after, bits = executable(*passed)
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
