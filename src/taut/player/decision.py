"""The decision of a player's round if it is not the learner's own: announced constraints are
enforced, or another was played."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .. import arguments
from ..engine import Array
from ..play.announced import announced_needs_data
from ..problem.compatibility import cast_data
from ..problem.problem import Problem
from ..problem.tables import plain
from .steps import Steps, heeded_step, moved_step

__all__ = ["RoundDecision"]

Begun = tuple[Any, Array]
"""A state as arrays, and its first array in NumPy: the header, which contains the decision."""


class RoundDecision:
    """With which state and decision a player begins a round.

    Arguments:
        problem: the problem.
        dtype: the float type of all computations.
        steps: the compiled steps of the player.
    """

    def __init__(self, problem: Problem, dtype: Any, steps: Steps) -> None:
        self._problem, self._dtype, self._steps = problem, dtype, steps
        self._begun: Begun | None = None  # for the round about to be played
        self._data: Any = None  # what was announced for it
        self._advice: tuple[Any, Any] = None, None  # advice and forecast for it

    @property
    def known(self) -> bool:
        """Whether advice for the coming round was taken, or announced constraints enforced."""
        return self._begun is not None

    def announce(self, z: Any, arrays: Any, round: int) -> Begun:
        """Enforce the constraints that the data `z` announce; return state and header."""
        if self._problem.announced is None:
            raise TypeError(
                "announce: the problem has no announced constraints; expected taut.Problem(..., "
                "announced=...)"
            )
        data = jax.tree.map(lambda leaf: cast_data("z", leaf, self._dtype), plain(z))
        if not all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(data)):
            raise ValueError(
                f"z: got a value that is not finite in round {round}; expected finite numbers"
            )
        self._data = data
        return self._heeded(arrays)

    def advise(self, advice: Array, forecast: Any, arrays: Any, round: int) -> Begun:
        """Take the advice of all advisers, and a forecast or None; return state and header."""
        announced = self._problem.announced is not None
        if announced and self._begun is None and announced_needs_data(self._problem):
            raise TypeError(
                f"advice: the announced constraints of round {round} are not known; call "
                "player.announce(z) before"
            )
        self._advice = advice, forecast
        return self._heeded(arrays)

    def enforced(self, arrays: Any, round: int) -> Begun:
        """Return state and header after announced constraints were enforced; if they need data,
        these must be announced."""
        if self._begun is None:
            if announced_needs_data(self._problem):
                raise TypeError(
                    f"decision: the announced constraints of round {round} are not known; call "
                    "player.announce(z) before"
                )
            return self._heeded(arrays)
        return self._begun

    def _heeded(self, arrays: Any) -> Begun:
        heeded = self._steps.take(heeded_step, arrays, self._data, *self._advice)
        self._begun = heeded, np.asarray(heeded[0])
        return self._begun

    def played(self, decision: Any, arrays: Any) -> Begun:
        """Return state and header with the decision that was really played."""
        given, shape = (
            arguments.finite("played", self._problem.assemble(decision)),
            self._problem.domain.shape,
        )
        if given.shape != shape:
            raise ValueError(
                f"played: got shape {given.shape}; expected {shape}, that of a decision"
            )
        x = jnp.asarray(given, self._dtype)
        if not np.asarray(self._problem.domain.contains(x, 1e-9)):
            raise ValueError(
                f"played: got {np.array2string(given, threshold=8)}, outside the domain; expected "
                "a point inside"
            )
        if self._begun is not None:
            arrays = self._begun[0]
        moved = self._steps.take(moved_step, arrays, x)
        return moved, np.asarray(moved[0])

    def forget(self) -> None:
        """The round is over: what was announced and advised no longer applies."""
        self._begun, self._data, self._advice = None, None, (None, None)
