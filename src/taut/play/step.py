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
from ..problem.round_data import RoundData, data_of
from ..problem.rounds import FullInformation, Round
from .scaled import Scaled, projects_by_scaling
from .wide_rounds import HUGE, WIDE, is_wide
from .xla import computed_once

__all__ = [
    "CheckedRound",
    "PlayedRound",
    "Remembered",
    "StepCheckedRound",
    "all_finite",
    "floats_of",
    "nan_unless_finite",
    "play_checked",
    "play_round",
    "with_previous",
]

KEEP_NAN = (Ball, Box)
"""Domains whose projections leave a NaN where it is; their subclasses may have projections of their
own."""


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
    floats = floats_of(data_of(round.data))
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
    same = (leaf.astype(x.dtype) for leaf in floats_of(data) if leaf.shape == x.shape)
    return sum((leaf - leaf for leaf in same), x)


def floats_of(data: Any) -> list[jax.Array]:
    """Return the arrays of a round's data that hold floats."""
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
