"""The compiled loop over the rounds of a chunk.

In every round the learner's decision is scored, then the round is revealed to the learner. A
simulation is played in chunks of a fixed length with a traced number of rounds, so that neither the
horizon, nor a parameter, nor the data compile anything again. Totals are always kept; records of
single rounds are optional.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from ..engine import COMPILER_OPTIONS, default_float, unless_chosen
from ..jax_internals import marks_calls
from ..learners import Learner
from ..problem.programs import Programs
from ..runs.totals import ChunkTotals, round_terms
from .announced import heeded
from .compile_key import BLOCK_TOTALS, RECORDS, BatchShape, Carry, CompileKey, Inputs
from .kernel import Separate, check_for_kernel, equations, first_numbers, in_one_kernel
from .packing import Packed
from .scaled import Scaled, carried, decided, projects_by_scaling
from .step import (
    CheckedRound,
    Remembered,
    StepCheckedRound,
    all_finite,
    nan_unless_finite,
    play_checked,
    with_previous,
)
from .xla import hidden_zero, rewritten, separate_zeros

__all__ = [
    "count_compiled",
    "initial_carry",
    "play",
    "plays_alone",
    "with_program",
]


LANES = 4
"""Numbers in a vector register: 4 of float64 with AVX2. Another width costs some speed and changes
no result."""
SIDE_BY_SIDE = 1024
"""Numbers of all decisions computed side by side, at most: their intermediate results should stay
in the first cache."""


SHORT_ROUND, SMALL_DECISION = 128, 8
"""Operations and numbers up to which two rounds per pass are faster. With more, the passes compete
for registers: half-space takes longer."""
SHORT_CHUNK = 2**11
"""Simulations of so few rounds take less time than compiling a round twice."""
NO_KERNEL = ("UNIMPLEMENTED", "Failed to materialize symbols")
"""What XLA says if it cannot compile an operation into a kernel."""
TESTED_OPTIONS: dict[str, Any] = {
    "xla_cpu_copy_insertion_use_region_analysis": True,
    "xla_cpu_scheduler_type": "CPU_SCHEDULER_TYPE_MEMORY_OPTIMIZED",
}
"""For versions of XLA in which these were tested; others may not know them. The first looks closely
at which arrays are in use at the same time, so that a round copies fewer of them; the second
computes a number right before it is used."""
KERNEL_OPTIONS: dict[str, Any] = {"xla_cpu_experimental_ynn_fusion_type": ""}
"""For programs that are one kernel: XLA would hand long sums to a library, which no kernel can
contain."""
QUICK_OPTIONS: dict[str, Any] = {"xla_backend_optimization_level": 0}
"""Compiling takes less than half the time, and the program runs up to ten times longer."""
QUICKER_OPTIONS = QUICK_OPTIONS | {"xla_cpu_use_fusion_emitters": False}
"""The same for versions of XLA that have this option."""


def play(
    programs: Programs,
    key: CompileKey,
    inputs: Packed,
    state: Packed,
    data: Any,
    random_keys: Any,
    span: Any,
) -> tuple[Packed, dict[str, Any]]:
    """Play the rounds of a chunk. Returns the state after it, behind a header, and the records.

    Arguments:
        programs: where compiled programs are kept.
        key: what is compiled.
        inputs: `Inputs`, packed.
        state: the packed state that the chunk before returned. In the first chunk the state is
            initialised here and this argument is ignored.
        data: arrays (seed, round, ...) of the chunk's length, or None.
        random_keys: of the adversary, the feedback and the learner, one per seed, or None.
        span: three whole numbers: rounds before the chunk, rounds to play, and rounds of the data
            to skip.
    """
    arguments = inputs, state, data, random_keys, span
    result: tuple[Packed, dict[str, Any]] = with_program(
        programs, key, lambda program: program(*arguments)
    )
    return result


def with_program(programs: Programs, key: CompileKey, use: Callable[[Any], Any]) -> Any:
    """Return `use(program)` for the program of `key`; for one in pieces, if it shows that no kernel
    can contain it."""
    try:
        return use(programs.loop(key, partial(_program, programs)))
    except Separate:
        pass
    except jax.errors.JaxRuntimeError as error:
        if not key.whole or not any(text in str(error) for text in NO_KERNEL):
            raise  # an error of the user's own callback, for example
    programs.keep((in_pieces, key), key._replace(whole=False))
    programs.drop((play_chunk, (key,)))
    return use(programs.loop(key, partial(_program, programs)))


def _program(programs: Programs, key: CompileKey) -> Any:
    key = in_pieces(programs, key)
    options = COMPILER_OPTIONS | (unless_chosen(TESTED_OPTIONS) if marks_calls() else {})
    options |= (KERNEL_OPTIONS if key.whole else {}) | (_quick_options() if key.quick else {})
    return programs.compiled(play_chunk, key, compiler_options=options)


def in_pieces(programs: Programs, key: CompileKey) -> CompileKey:
    """Return what is compiled in place of `key` if that could not be compiled into one kernel."""
    found: CompileKey | None = programs.find((in_pieces, key)) if key.whole else None
    return found or key


@cache
def _quick_options() -> dict[str, Any]:
    """Return the options that compile most quickly in this version of XLA, which refuses those that
    it does not know."""
    try:
        jax.jit(jnp.zeros, static_argnums=0, compiler_options=QUICKER_OPTIONS)(())
    except Exception:
        return QUICK_OPTIONS
    return QUICKER_OPTIONS


class _Compiled:
    lock = threading.Lock()
    loops = 0


def count_compiled() -> int:
    """Return how many loops were compiled in this process so far, for tests that nothing is
    compiled twice."""
    return _Compiled.loops


def initial_carry(batch: BatchShape, inputs: Inputs, random_keys: jax.Array | None = None) -> Carry:
    """Return states and totals before round 1, with leading axes learner and seed; `random_keys`
    has one key per seed."""
    x1 = jnp.asarray(inputs.x1)

    def one(learner: Learner, key: jax.Array | None) -> Carry:
        begun = learner.init(x1, batch.played)
        if key is not None and learner.random:
            begun = learner.seeded(begun, key)
        state = Remembered.around(begun, inputs.start, inputs.adversary)
        return Carry(state, ChunkTotals.zero(batch.scored, x1.dtype))

    by_seed = jax.vmap(
        one, in_axes=(None, None if random_keys is None else 0), axis_size=batch.seeds
    )
    return jax.vmap(by_seed, in_axes=(0, None), axis_size=batch.learners)(
        inputs.learner, random_keys
    )


def play_chunk(key: CompileKey, *arguments: Any) -> tuple[Packed, dict[str, Any]]:
    result: tuple[Packed, dict[str, Any]]
    result = (
        in_one_kernel(partial(_play_chunk, key), *arguments)
        if key.whole
        else _play_chunk(key, *arguments)
    )
    with _Compiled.lock:
        _Compiled.loops += 1  # JAX calls this function once for each program that it compiles
    return result


def _play_chunk(
    key: CompileKey, inputs: Packed, state: Packed, data: Any, random_keys: Any, span: jax.Array
) -> tuple[Packed, dict[str, Any]]:
    start, rounds, skipped = span
    batch = key.batch
    fixed: Inputs = key.inputs.unpack(inputs)
    learner, domain = fixed.learner, fixed.domain
    first = initial_carry(batch, fixed, random_keys)
    given = key.state.unpack(state, key.header)
    carry = first._replace(state=jax.tree.map(partial(jnp.where, start == 0), first.state, given))
    learner_group, seed_group = (
        _group_sizes(batch, math.prod(domain.shape)) if learner.side_by_side else (1, 1)
    )
    one_round = partial(_round, key, fixed, start)
    replaceable = hasattr(
        Remembered.parts(first.state).learner, "_replace"
    )  # a user's state need not be a named tuple
    by_scaling = (
        replaceable
        and StepCheckedRound.suits(learner, domain)
        and projects_by_scaling(domain, fixed.x1)
    )

    def some_learners(learner: Learner, carry: Carry, swept: bool) -> Any:
        chunk = partial(_chunk, key, one_round, rounds, skipped, by_scaling, learner, swept)
        one, several = partial(chunk, False), partial(chunk, True)
        arguments, axes = (carry, data, random_keys), (int(swept), 0, 0)
        after, records, finite = _in_groups(one, several, arguments, axes, batch.seeds, seed_group)
        return after, records, jnp.all(finite)

    one, several = partial(some_learners, swept=False), partial(some_learners, swept=True)
    after, records, finite = _in_groups(
        one, several, (learner, carry), (0, 0), batch.learners, learner_group
    )
    totals = after.totals
    if key.blocks > 1:
        each = [jax.tree.map(lambda a, k=block: a[:, :, k], totals) for block in range(key.blocks)]
        records[BLOCK_TOTALS] = jnp.stack([key.totals.pack_traced(one)[0] for one in each])
        totals = each[0]
    (header,) = key.totals.pack_traced(totals, jnp.all(finite).astype(key.inputs.floating)[None])
    last = first_numbers((inputs, state, data, random_keys, span), key.inputs.floating)
    return key.state.pack_traced(after.state, header, last), records


def _group_sizes(batch: BatchShape, size: int) -> tuple[int, int]:
    """Return how many learners and how many seeds, with decisions of so many numbers, to play side
    by side."""
    room = SIDE_BY_SIDE // size
    seeds = _divisor(batch.seeds, room)
    return _divisor(batch.learners, room // batch.seeds) if seeds == batch.seeds else 1, seeds


def plays_alone(batch: BatchShape, size: int) -> bool:
    """Return whether decisions of so many numbers are too large to play two seeds side by side.

    Then it is faster to play seeds in calls of their own, which read the data where they are.
    """
    return batch.seeds > 1 and SIDE_BY_SIDE // size <= 1


def _divisor(count: int, most: int) -> int:
    """Return the largest divisor of `count` that is at most `most`, or 1."""
    return next(k for k in range(max(1, min(count, most)), 0, -1) if count % k == 0)


def _in_groups(
    one: Callable[..., Any],
    several: Callable[..., Any],
    batch: tuple[Any, ...],
    axes: tuple[int, ...],
    count: int,
    group: int,
) -> Any:
    """Apply a function to all entries of an axis of its arguments, `group` of them at a time.

    Arguments:
        one: the function for a single entry; its arguments come without the axis.
        several: the function for a group; its arguments come with the axis.
        batch: the arguments.
        axes: where each argument has the axis. Results have it where the first argument does.
        count: the length of the axis. If it is neither 1 nor `group`, all axes are 0.
        group: a divisor of it.
    """
    if count == 1:
        squeezed = (
            jax.tree.map(partial(lax.squeeze, dimensions=(k,)), a)
            for k, a in zip(axes, batch, strict=True)
        )
        return jax.tree.map(lambda a: lax.expand_dims(a, (min(axes[0], a.ndim),)), one(*squeezed))
    if group == count:
        return several(*batch)
    if group == 1:
        return lax.map(lambda entry: one(*entry), batch)
    split = jax.tree.map(lambda a: a.reshape(count // group, group, *a.shape[1:]), batch)
    out = lax.map(lambda entries: several(*entries), split)
    return jax.tree.map(lambda a: a.reshape(count, *a.shape[2:]) if a.ndim > 1 else a, out)


def _chunk(
    key: CompileKey,
    one_round: Callable[..., Any],
    rounds: jax.Array,
    skipped: jax.Array,
    by_scaling: bool,
    learner: Learner,
    swept: bool,
    seeded: bool,
    carry: Carry,
    data: Any,
    random_keys: Any,
) -> tuple[Carry, dict[str, Any], jax.Array]:
    """Play the rounds of a chunk one after the other, with all learners and seeds of a group side
    by side.

    Returns the carry after the chunk, the records, and whether all numbers are finite.
    """
    batch_ndim = int(swept) + int(seeded)
    seed_axis = batch_ndim - 1
    shape = carry.state.x.shape
    padding = 0
    if seeded and random_keys is None:
        padding = _padding(shape[seed_axis], math.prod(shape[batch_ndim:]))
    play_rounds = rewritten(one_round)
    if seeded:
        play_rounds = jax.vmap(play_rounds, (None, 0, 0, 0, None))
    if swept:
        play_rounds = jax.vmap(play_rounds, (0, 0, None, None, None))

    def revealed(i: jax.Array) -> Any:
        now = jax.tree.map(
            lambda a: lax.dynamic_index_in_dim(a, skipped + i, int(seeded), keepdims=False), data
        )
        return _pad_seeds(now, 0, padding)

    def one(i: jax.Array, carry: Carry) -> Any:
        (carry, row), stored = play_rounds(learner, carry, revealed(i), random_keys, i)
        return carry, _pad_seeds(row, seed_axis, -padding), stored

    # initial carry
    zero = jnp.zeros_like(rounds)
    carry = _pad_seeds(carry, seed_axis, padding)
    floating = carry.totals.loss.value.dtype
    if default_float().itemsize >= 8:
        carry = carry._replace(totals=carry.totals.widened())
    carry, traced, row, stored = _traced(
        partial(one, zero), carry, batch_ndim if by_scaling else None
    )
    if key.whole:
        check_for_kernel(traced)  # the whole chunk is checked too, but this is noticed sooner
    records = _buffers(key, row, batch_ndim, rounds)
    blank = [jnp.zeros(value.shape, value.dtype) for value in stored]

    def body(i: jax.Array, previous: Any) -> Any:
        carry, records, _ = previous
        carry, row, stored = one(i, carry)
        kept = i // key.every

        def put(name: str) -> Any:
            position = kept if RECORDS[name].thinned else i
            write = partial(lax.dynamic_update_index_in_dim, index=position, axis=batch_ndim)
            return jax.tree.map(write, records[name], row[name])

        return carry, {name: put(name) for name in records}, stored

    # loop
    state = carry, records, blank
    if key.blocks > 1:
        state = _in_blocks(key, body, rounds, batch_ndim, state)
    else:
        done = zero
        if batch_ndim == 0 and _pays_to_unroll(key, shape, traced):
            two = lambda i, state: body(2 * i + 1, body(2 * i, state))  # noqa: E731
            state, done = lax.fori_loop(zero, rounds // 2, two, state), rounds // 2 * 2
        state = lax.fori_loop(done, rounds, body, state)
    carry, records, stored = state

    # result
    carry, stored = _pad_seeds((carry, stored), seed_axis, -padding)
    carry = _with_learner(carry, partial(decided, nothing=hidden_zero(rounds)))
    totals = carry.totals.narrowed(floating)
    carry = carry._replace(totals=totals)
    finite = all_finite(
        carry.state.x, totals.loss.value, totals.excess.value, totals.squared.value, *stored
    )
    return carry, records, finite


def _traced(
    one: Callable[[Carry], Any], carry: Carry, batch_ndim: int | None
) -> tuple[Carry, Any, Any, Any]:
    """Trace a round. Returns the first carry, the traced program, and shapes and types of records
    and stored values.

    With a number of axes for learners and seeds, the decision is carried as a step and a scale,
    unless it turns out to be no projection.
    """
    scaled = (
        carry
        if batch_ndim is None
        else _with_learner(carry, partial(carried, batch_ndim=batch_ndim))
    )
    traced, (after, row, stored) = jax.make_jaxpr(one, return_shape=True)(scaled)
    if batch_ndim is None or isinstance(Remembered.parts(after.state).x, Scaled):
        return scaled, traced, row, stored
    return _traced(one, carry, None)


def _in_blocks(
    key: CompileKey, body: Callable[..., Any], rounds: jax.Array, axis: int, state: Any
) -> Any:
    """Play a chunk block by block. The totals that are returned have an axis for the block, at the
    given place."""
    empty, size = state[0].totals, key.length // key.blocks

    def play_block(block: jax.Array, parts: Any) -> Any:
        (carry, *others), sums = parts
        begin = block * size
        state = lax.fori_loop(
            begin, jnp.minimum(begin + size, rounds), body, (carry._replace(totals=empty), *others)
        )
        put = partial(lax.dynamic_update_index_in_dim, index=block, axis=axis)
        return state, jax.tree.map(put, sums, state[0].totals)

    sums = jax.tree.map(
        lambda a: jnp.zeros((*a.shape[:axis], key.blocks, *a.shape[axis:]), a.dtype), empty
    )
    (carry, *others), sums = lax.fori_loop(
        jnp.zeros_like(rounds), -(-rounds // size), play_block, (state, sums)
    )
    return (carry._replace(totals=sums), *others)


def _with_learner(carry: Carry, change: Callable[[Any], Any]) -> Carry:
    """Return a carry with another state of the learner."""
    remembered = Remembered.parts(carry.state)
    return carry._replace(state=Remembered.around(change(remembered.learner), *remembered[1:]))


def _pays_to_unroll(key: CompileKey, shape: tuple[int, ...], round: Any) -> bool:
    """Return whether to play two rounds per pass of the loop, which takes up to a fifth less time
    if a round is short.

    Arguments:
        key: what is compiled.
        shape: of a decision.
        round: the traced program of a round.
    """
    if key.length <= SHORT_CHUNK or math.prod(shape) > SMALL_DECISION:
        return False
    return sum(1 for _ in equations(round)) <= SHORT_ROUND


def _buffers(
    key: CompileKey, row: dict[str, Any], batch_ndim: int, rounds: jax.Array
) -> dict[str, Any]:
    """Return an empty array for each record, with the axis round behind those of the batch."""
    numbers = iter(range(1, 1 + len(jax.tree.leaves(row))))

    def buffer(name: str, leaf: Any) -> jax.Array:
        length = -(-key.length // key.every) if RECORDS[name].thinned else key.length
        shape = (*leaf.shape[:batch_ndim], length, *leaf.shape[batch_ndim:])
        return separate_zeros(shape, leaf.dtype, next(numbers), rounds)

    return {name: jax.tree.map(partial(buffer, name), leaf) for name, leaf in row.items()}


def _padding(seeds: int, size: int) -> int:
    """Return how many seeds to add so that decisions of `size` numbers fill whole vector registers.

    Loops over a few numbers that leave a remainder are compiled into scalar instructions: 10 seeds
    of 3 numbers take longer than 12. With more numbers, or more than two seeds to add, padding does
    not pay. The added seeds are discarded.
    """
    padding = -seeds % LANES
    return (
        padding if padding <= 2 and LANES < seeds <= 32 and size < 8 and seeds * size % LANES else 0
    )


def _pad_seeds(tree: Any, axis: int, by: int) -> Any:
    """Make an axis of all arrays longer by so many entries, which repeat the first ones, or shorter
    if `by` is negative.

    The padding repeats real seeds, because artificial data could make a user's loop run forever or
    produce NaN.
    """

    def one(a: jax.Array) -> jax.Array:
        if by < 0:
            return lax.slice_in_dim(a, 0, a.shape[axis] + by, axis=axis)
        return lax.concatenate([a, lax.slice_in_dim(a, 0, by, axis=axis)], axis)

    return jax.tree.map(one, tree) if by else tree


def _round(
    key: CompileKey,
    fixed: Inputs,
    start: jax.Array,
    learner: Learner,
    carry: Carry,
    data: Any,
    random_key: Any,
    i: jax.Array,
) -> tuple[Carry, dict[str, Any]]:
    """Play one round of one learner and one seed. Returns the carry after it, and what to
    record."""
    (given, previous, adversary), totals = Remembered.parts(carry.state), carry.totals
    state = decided(given, hidden_zero(start))
    domain, proposed = fixed.domain, None
    if fixed.announced is not None:
        proposed = state.x
        state = heeded(
            learner, state, fixed.announced, domain, with_previous(data, previous, key.previous[0])
        )
    x, z = state.x, data
    if key.reveal is not None:
        adversary, z = _ask(key.reveal, adversary, (start + i + 1).astype(jnp.int32), x, random_key)
    seen = with_previous(z, previous, key.previous[0])
    scored = None
    if fixed.scored_constraints is not None:
        whole = with_previous(z, previous, key.previous[1])
        scored = CheckedRound(key.scored_loss, fixed.scored_constraints, domain, whole)
    played, unchecked = play_checked(
        learner, state, lambda kind: kind(key.loss, fixed.constraints, domain, seen), scored
    )
    loss = played.loss + nan_unless_finite(unchecked, x.dtype)
    played, after = played._replace(loss=loss, proposed=proposed), played.after
    row = {name: record.value(played, z) for name, record in key.records().items()}
    if isinstance(given.x, Scaled) and isinstance(played.round, StepCheckedRound):
        after = after._replace(x=played.round.scaled(after.x))
    after = Remembered.around(after, None if previous is None else played.state.x, adversary)
    return Carry(after, totals.add(round_terms(jnp, played.loss, played.excess))), row


def _ask(
    reveal: Callable[..., Any], state: Any, t: jax.Array, x: jax.Array, random_key: jax.Array
) -> tuple[Any, Any]:
    """Return the adversary's state after round t and the data z_t that it chooses, with floats in
    the type of the decision."""
    key = jax.random.fold_in(random_key, t)
    after, z = (None, reveal(t, x, key)) if state is None else reveal(state, t, x, key)
    return jax.tree.map(
        lambda a: (
            jnp.asarray(a, x.dtype)
            if jnp.issubdtype(jnp.result_type(a), jnp.floating)
            else jnp.asarray(a)
        ),
        (after, z),
    )
