"""One round: the learner's decision is scored, and the round is revealed to the learner.

The compiled loop of a simulation and the live player both play their rounds with `play_round`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from ..learners import Learner
from ..problem.constraints import Linearisation
from ..problem.domains import Ball, Box, Domain
from ..problem.programs import Programs
from ..problem.round_data import RoundData, data_of
from ..problem.rounds import FullInformation, MeasuredRound, Round
from .extremes import COLUMNS, round_extremes
from .packing import Packing
from .scaled import Scaled, projects_by_scaling
from .wide_rounds import HUGE, WIDE, is_wide
from .xla import computed_once

__all__ = [
    "FAULTS",
    "CheckedRound",
    "PlayedRound",
    "Remembered",
    "StepCheckedRound",
    "all_finite",
    "header",
    "measured_step",
    "nan_unless_finite",
    "play_checked",
    "play_round",
    "revealed_step",
    "with_previous",
]

KEEP_NAN = (Ball, Box)
"""Domains whose projections leave a NaN where it is; their subclasses may have projections of their
own."""
FAULTS = ("z", "loss", "loss gradient", "constraints", "next decision")
"""The quantities of a live round that may not be finite, in the order of the bits in its header."""


class CheckedRound(FullInformation):
    """A revealed round in which gradients that are not finite become NaN.

    A projection could turn an infinite value into a finite one, for example onto a box, and the
    error would stay unnoticed. No projection removes a NaN.
    """

    def gradient(self, x: jax.Array) -> jax.Array:
        """Return a subgradient of f_t at x."""
        return _nan_if_infinite(super().gradient(x))

    def linearised(self, x: jax.Array) -> Linearisation:
        """Return g_t(x) with its Jacobian products."""
        values, pull, push = super().linearised(x)
        return Linearisation(
            computed_once(values), lambda weights: _nan_if_infinite(pull(weights)), push
        )

    def project(self, x: jax.Array) -> jax.Array:
        """Return the nearest point of the domain B."""
        return super().project(
            computed_once(x)
        )  # used twice: for its norm and for the projection itself


class StepCheckedRound(FullInformation):
    """A revealed round in which a step that is not finite becomes NaN before it is projected, for
    learners that show infinity.

    One check of the step takes less time than a check of each gradient. Data of its shape are
    checked with it, if it is short.
    """

    @staticmethod
    def suits(learner: Learner, domain: Domain) -> bool:
        """Return whether an infinite gradient and a NaN in the step are never lost."""
        return type(learner).step_shows_infinity() and type(domain) in KEEP_NAN

    def linearised(self, x: jax.Array) -> Linearisation:
        """Return g_t(x) with its Jacobian products."""
        found = super().linearised(x)
        return found._replace(values=computed_once(found.values))

    def project(self, x: jax.Array) -> jax.Array:
        """Return the nearest point of the domain B."""
        data, size = data_of(self.data), x.size
        step = (
            x if type(self.domain) is Ball else _nan_if_infinite(x)
        )  # a ball finds it when it adds the squares
        step = computed_once(_marked(step, data) if size > HUGE else step)
        scaled = (
            Scaled(step, self.domain.scale(step)) if projects_by_scaling(self.domain, x) else None
        )
        projected = super().project(step) if scaled is None else step * scaled.scale
        projected = _marked(projected, data) if size < WIDE else projected
        self._cache["projected", id(projected)] = (projected, scaled)
        return projected

    def has_projected(self, x: jax.Array) -> bool:
        """Return whether `project` returned this very array."""
        return ("projected", id(x)) in self._cache

    def scaled(self, x: jax.Array) -> Scaled | None:
        """Return the step and the number whose product `project` returned as x, if it was a
        product."""
        found: Scaled | None = self._cache["projected", id(x)][1]
        return found


def _nan_if_infinite(x: jax.Array) -> jax.Array:
    return x + 0 * x


class Remembered(NamedTuple):
    """What is carried from round to round if the learner's state alone is not enough."""

    learner: Any
    """The learner's state."""
    previous: jax.Array | None = None
    """x_{t-1}, for a problem that depends on it."""
    adversary: Any = None
    """The state of an adversary that has one."""

    @property
    def x(self) -> jax.Array:
        """The decision to play."""
        decision: jax.Array = self.learner.x
        return decision

    @classmethod
    def around(cls, state: Any, previous: jax.Array | None, adversary: Any = None) -> Any:
        """Return the learner's state with what else is to be remembered, or the state itself if
        there is nothing."""
        return state if previous is None and adversary is None else cls(state, previous, adversary)

    @classmethod
    def parts(cls, carried: Any) -> Remembered:
        """Return the parts of what `around` returned."""
        return carried if isinstance(carried, cls) else cls(carried)


def with_previous(z: Any, previous: jax.Array | None, wanted: bool = True) -> Any:
    """Return the round's data, with the previous decision if the problem depends on it."""
    return RoundData(z, previous) if wanted and previous is not None else z


class PlayedRound(NamedTuple):
    """A round after it was played."""

    learner: Learner
    round: Round
    state: Any
    """The learner's state before the round; `state.x` is the decision that was played."""
    after: Any
    """The learner's state after the round."""
    loss: jax.Array
    excess: jax.Array
    """The values of all scored constraints."""
    proposed: jax.Array | None = None
    """The decision before announced constraints were enforced, if there are any."""


def play_round(
    learner: Learner, state: Any, round: Round, scored: Round | None = None
) -> PlayedRound:
    """Reveal a round to the learner, and score the decision that the learner had chosen before.

    A learner with `request_first = True` sees the round before its decision; no other learner is
    asked to decide here.

    Arguments:
        learner: the method.
        state: its state before the round.
        round: what is revealed.
        scored: the round that defines loss and constraint values, if it is another one.
    """
    scored = round if scored is None else scored
    if learner.request_first:
        state = learner.decide(state, round)
    after = learner.step(state, round)
    losses, values = [], []
    for point in learner.points(state):  # one, except for bandit learners
        losses.append(scored.loss(point))
        values.append(scored.constraints(point).values)
    loss, excess = losses[0], values[0]
    if len(losses) > 1:
        loss, excess = jnp.mean(jnp.stack(losses)), jnp.max(jnp.stack(values), axis=0)
    return PlayedRound(learner, round, state, after, loss, excess)


def play_checked(
    learner: Learner, state: Any, reveal: Callable[[type[Any]], Any], scored: Round | None
) -> tuple[PlayedRound, list[jax.Array]]:
    """Play a round whose data and gradients are checked: what is not finite makes the next decision
    NaN.

    Loss and gradients need not show that data are not finite (a maximum may hide it), so every
    number of the data is subtracted from itself and added to something that is checked: to the
    decision if the shapes agree, because that needs no sum, which would cost as much as the loss
    itself (to the step before it, if they are huge and may have left the cache by then). For wide
    decisions a sum costs less: it is formed together with others.

    Arguments:
        learner: the method.
        state: its state before the round.
        reveal: returns the round as an object of the given class.
        scored: the round that defines loss and constraint values, if it is another one.

    Returns the round after it was played, and the floats of its data that are not checked.
    """
    round = reveal(CheckedRound)
    floats = _floats(data_of(round.data))
    others = [leaf for leaf in floats if leaf.shape != state.x.shape]
    if StepCheckedRound.suits(learner, round.domain):
        quick = reveal(StepCheckedRound)
        played = play_round(learner, state, quick, scored)
        if quick.has_projected(played.after.x):
            return played, floats if is_wide(state.x.shape) else others
    played = play_round(learner, state, round, scored)
    leaves, structure = jax.tree.flatten(played.after)
    x = played.after.x
    if sum(leaf is x for leaf in leaves) != 1:
        return played, floats
    marked = _marked(x, data_of(round.data))
    after = jax.tree.unflatten(structure, [marked if leaf is x else leaf for leaf in leaves])
    return played._replace(after=after), others


def _marked(x: jax.Array, data: Any) -> jax.Array:
    """Return x, NaN where data of the same shape are not finite."""
    same = (leaf.astype(x.dtype) for leaf in _floats(data) if leaf.shape == x.shape)
    return sum((leaf - leaf for leaf in same), x)


def _floats(data: Any) -> list[jax.Array]:
    return [leaf for leaf in jax.tree.leaves(data) if jnp.issubdtype(leaf.dtype, jnp.floating)]


def nan_unless_finite(arrays: list[jax.Array], dtype: Any) -> jax.Array:
    """Return 0 if all numbers are finite, otherwise NaN."""
    return sum((jnp.sum(array - array).astype(dtype) for array in arrays), jnp.zeros((), dtype))


def all_finite(*arrays: jax.Array) -> jax.Array:
    """Return whether every number is finite."""
    return (
        jnp.all(jnp.stack([jnp.all(jnp.isfinite(a)) for a in arrays]))
        if arrays
        else jnp.asarray(True)
    )


# The live step, compiled for short calls. Parameters are packed into one vector, once. The state is
# another vector, whose first entries (the header) hold all that the player reads: each further
# array would cost as much as the step.


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
    floats = _floats(z)
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
