"""The compiled steps of a player: a round is revealed or measured, announced constraints are
enforced, or another decision takes the place of the learner's.

Parameters are packed into one vector, once. The state is another vector, whose first entries (the
header) hold all that the player reads: each further array would cost as much as the step.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from ..learners import Learner
from ..play.announced import heeded
from ..play.packing import Packing
from ..play.step import CheckedRound, Remembered, all_finite, floats_of, play_round, with_previous
from ..problem.domains import Domain
from ..problem.programs import Programs
from ..problem.rounds import MeasuredRound, Round
from .extremes import COLUMNS, round_extremes

__all__ = ["FAULTS", "header", "heeded_step", "measured_step", "moved_step", "revealed_step"]

FAULTS = ("z", "loss", "loss gradient", "constraints", "next decision")
"""The quantities of a live round that may not be finite, in the order of the bits in its header."""


def header(
    faults: Any, loss: Any, excess: jax.Array, decision: jax.Array, extremes: Any = None
) -> jax.Array:
    """Return the first entries of the state vector: error flags, loss, constraint values, next
    decision, extremes."""
    extremes = jnp.zeros(len(COLUMNS), decision.dtype) if extremes is None else extremes
    start = jnp.stack([jnp.asarray(number, decision.dtype) for number in (faults, loss)])
    return jnp.concatenate([start, excess, decision.ravel(), extremes])


def revealed_step(
    programs: Programs,
    loss: Callable[[jax.Array, Any], Any],
    fixed: Packing,
    state: Packing,
    header_size: int,
) -> Any:
    """Return the compiled function (*fixed, *state, z) -> *state, for data z that are revealed."""

    return programs.compiled(_revealed, loss, fixed, state, header_size)


def _revealed(
    loss: Callable[[jax.Array, Any], Any],
    fixed: Packing,
    state: Packing,
    header_size: int,
    *arrays: Any,
) -> tuple[jax.Array, ...]:
    *given, z = arrays
    (constraints, domain, learner, scored, _), before = _unpacked(fixed, state, header_size, given)
    floats = floats_of(z)
    z = with_previous(z, Remembered.parts(before).previous)
    whole = None if scored is None else CheckedRound(loss, scored, domain, z)
    return _live(
        learner,
        before,
        CheckedRound(loss, constraints, domain, z),
        domain,
        all_finite(*floats),
        state,
        whole,
    )


def measured_step(programs: Programs, fixed: Packing, state: Packing, header_size: int) -> Any:
    """Return the compiled function (*fixed, *state, loss, gradient, excess, jacobian) -> *state,
    for measurements."""

    return programs.compiled(_measured, fixed, state, header_size)


def _measured(
    fixed: Packing, state: Packing, header_size: int, *arrays: Any
) -> tuple[jax.Array, ...]:
    *given, loss, gradient, excess, jacobian = arrays
    (_, domain, learner, _, _), before = _unpacked(fixed, state, header_size, given)
    round = MeasuredRound(loss, gradient, excess, jacobian, domain)
    return _live(learner, before, round, domain, jnp.asarray(True), state)


def _unpacked(
    fixed: Packing, state: Packing, header_size: int, arrays: list[jax.Array]
) -> tuple[Any, Any]:
    return fixed.unpack(tuple(arrays[: fixed.count])), state.unpack(
        tuple(arrays[fixed.count :]), header_size
    )


def _live(
    learner: Learner,
    carried: Any,
    round: Round,
    domain: Domain,
    data_finite: jax.Array,
    packing: Packing,
    scored: Round | None = None,
) -> tuple[jax.Array, ...]:
    state, previous, _ = Remembered.parts(carried)
    played = play_round(learner, state, round, scored)
    after, gradient = played.after, round.gradient(state.x)
    finite = (data_finite, *map(all_finite, (played.loss, gradient, played.excess, after.x)))
    faults = sum(jnp.where(good, 0, 2**bit) for bit, good in enumerate(finite))
    remembered = Remembered.around(after, None if previous is None else played.state.x)
    x = played.state.x
    extremes = round_extremes(
        round, x, played.loss, round.gradient(x), jnp.asarray(domain.centre, x.dtype)
    )
    return packing.pack_traced(
        remembered, header(faults, played.loss, played.excess, after.x, extremes)
    )


def heeded_step(programs: Programs, fixed: Packing, state: Packing, header_size: int) -> Any:
    """Return the compiled function (*fixed, *state, z) -> *state that enforces announced
    constraints, for live use."""
    return programs.compiled(_heeded, fixed, state, header_size)


def _heeded(
    fixed: Packing, packing: Packing, header_size: int, *arrays: Any
) -> tuple[jax.Array, ...]:
    *given, z = arrays
    _, domain, learner, _, announced = fixed.unpack(tuple(given[: fixed.count]))
    state, previous, _ = Remembered.parts(packing.unpack(tuple(given[fixed.count :]), header_size))
    after = heeded(learner, state, announced, domain, with_previous(z, previous))
    return _again(packing, header_size, after, previous)


def moved_step(programs: Programs, fixed: Packing, state: Packing, header_size: int) -> Any:
    """Return the compiled function (*fixed, *state, x) -> *state that puts another decision in the
    place of the learner's."""
    return programs.compiled(_moved, fixed, state, header_size)


def _moved(
    fixed: Packing, packing: Packing, header_size: int, *arrays: Any
) -> tuple[jax.Array, ...]:
    *given, x = arrays
    learner: Learner = fixed.unpack(tuple(given[: fixed.count]))[2]
    state, previous, _ = Remembered.parts(packing.unpack(tuple(given[fixed.count :]), header_size))
    return _again(packing, header_size, learner.moved(state, x), previous)


def _again(
    packing: Packing, header_size: int, state: Any, previous: jax.Array | None
) -> tuple[jax.Array, ...]:
    nothing = jnp.zeros(header_size - 2 - state.x.size - len(COLUMNS), state.x.dtype)
    return packing.pack_traced(Remembered.around(state, previous), header(0, 0, nothing, state.x))
