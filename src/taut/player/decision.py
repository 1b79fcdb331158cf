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
from ..problem.evaluation import constraint_evaluation
from ..problem.feasibility import find_feasible
from ..problem.problem import Problem
from .hooks import Refused
from .layout import Layout
from .steps import Steps, heeded_step, moved_step

__all__ = ["RoundDecision"]

EXACT = 1e-12
"""Relative violation of announced constraints that counts as none."""
Begun = tuple[Any, Array]
"""A state as arrays, and its first array in NumPy: the header, which contains the decision."""


class RoundDecision:
    """With which state and decision a player begins a round.

    Arguments:
        problem: the problem.
        dtype: the float type of all computations.
        steps: the compiled steps of the player.
        layout: how its arrays are packed.
    """

    def __init__(self, problem: Problem, dtype: Any, steps: Steps, layout: Layout) -> None:
        self._problem, self._dtype, self._steps, self._layout = problem, dtype, steps, layout
        self._begun: Begun | None = None  # for the round about to be played
        self._data: Any = None  # what was announced for it
        self._told: tuple[Any, Any] = None, None  # advice and forecast for it
        self.lost = False
        """Whether the round was begun with advice that is not in the file from which the player was
        loaded."""

    @property
    def known(self) -> bool:
        """Whether advice for the coming round was taken, or announced constraints enforced."""
        return self._begun is not None

    @property
    def advised(self) -> bool:
        """Whether the coming round was begun with advice or a forecast, perhaps before a file was
        saved."""
        return self.lost or self._told != (None, None)

    def check_told(self, round: int) -> None:
        """Refuse to play a round whose advice was lost."""
        if self.lost:
            raise TypeError(
                f"advice: round {round} was begun with advice before the player was saved, and a "
                "file does not hold it; call player.decide again with the same advice"
            )

    def announce(self, z: Any, arrays: Any, round: int) -> Begun:
        """Enforce the constraints that the data `z` announce; return state and header."""
        if self._problem.announced is None:
            raise TypeError(
                "announce: the problem has no announced constraints; expected taut.Problem(..., "
                "announced=...)"
            )
        arranged = self._problem.arrange_announced(z)
        data = jax.tree.map(lambda leaf: cast_data("z", leaf, self._dtype), arranged)
        if not all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(data)):
            raise ValueError(
                f"z: got a value that is not finite in round {round}; expected finite numbers"
            )
        return self._take(arrays, data, self._told, round)

    def advise(self, said: Any, predicted: Any, arrays: Any, round: int) -> Begun:
        """Take advice and a forecast, as `as_told` takes them; return state and header."""
        announced = self._problem.announced is not None
        if announced and self._begun is None and announced_needs_data(self._problem):
            raise TypeError(
                f"advice: the announced constraints of round {round} are not known; call "
                "player.announce(z) before"
            )
        begun = self._take(arrays, self._data, (said, predicted), round)
        self.lost = False
        return begun

    def check(self, data: Any, round: int) -> None:
        """Refuse data of the round that differ from those that were announced."""
        if self._data is None:
            return
        observed = dict(jax.tree_util.tree_flatten_with_path(data)[0])
        for path, value in jax.tree_util.tree_flatten_with_path(self._data)[0]:
            other = observed.get(path, value)
            if not np.array_equal(other, value):
                name = f"z{jax.tree_util.keystr(path)}"
                came, announced = arguments.entries(other), arguments.entries(value)
                raise Refused(
                    f"{name}: got {came} in round {round}; expected {announced}, as was announced",
                    entry=name,
                    came=came,
                    announced=announced,
                )

    def enforced(self, arrays: Any, round: int) -> Begun:
        """Return state and header after announced constraints were enforced; if they need data,
        these must be announced."""
        self.check_told(round)
        if self._begun is None:
            if announced_needs_data(self._problem):
                raise TypeError(
                    f"decision: the announced constraints of round {round} are not known; call "
                    "player.announce(z) before"
                )
            return self._take(arrays, None, self._told, round)
        return self._begun

    def _take(self, arrays: Any, data: Any, told: tuple[Any, Any], round: int) -> Begun:
        """Take advice and enforce announced constraints, or raise an error if no decision satisfies
        them."""
        heeded = self._steps.take(heeded_step, arrays, data, *told)
        report = np.asarray(heeded[0])
        if report[0]:  # advice and predicted data are finite
            raise Refused(
                f"forecast: got predicted data with which the loss of round {round} is not finite; "
                "expected data with a finite loss",
                entry="forecast",
            )
        if report[1] > max(EXACT, 1e3 * float(np.finfo(self._dtype).eps)):
            state, previous = self._layout.unpack(heeded)
            inside = nearest_known(self._problem, np.asarray(state.x), data, previous, round)
            heeded = self._steps.take(moved_step, heeded, jnp.asarray(inside, self._dtype))
            report = np.asarray(heeded[0])
        self._begun, self._data, self._told = (heeded, report), data, told
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
                f"played: got {arguments.entries(given)}, outside the domain; expected "
                "a point inside"
            )
        if self._begun is not None:
            arrays = self._begun[0]
        moved = self._steps.take(moved_step, arrays, x)
        return moved, np.asarray(moved[0])

    def forget(self) -> None:
        """The round is over: what was announced and advised no longer applies."""
        self._begun, self._data, self._told, self.lost = None, None, (None, None), False


def nearest_known(problem: Problem, x: Array, data: Any, previous: Any, round: int) -> Array:
    """Return a decision that satisfies the announced constraints, on the way from `x` to one that
    satisfies them; an error says that there is none and by how much they miss.

    If all that is found satisfies them up to rounding of a solver, `x` is returned.
    """
    announced = problem.announced
    assert announced is not None
    given = problem.given(data, previous)
    alone = Problem(lambda u, z: jnp.sum(u), lambda u: announced.values(u, given), problem.domain)
    found = find_feasible(alone)
    if found.proven:
        raise Refused(
            f"announced: no decision of the domain satisfies the announced constraints of round "
            f"{round}; every one exceeds some by {found.bound:.6g} at least, and the best that was "
            f"found by {found.violation:.6g}",
            least=found.bound,
            violation=found.violation,
        )
    values = constraint_evaluation(alone)
    inside = np.asarray(found.least_violating, x.dtype)
    if values.values(inside[None, None]).max() > 0:
        return x
    shares = 1 - 2.0 ** -np.arange(1, 53)  # towards x, from the nearest to the farthest
    points = inside + np.concatenate([shares[::-1], [0.0]]).reshape(-1, *[1] * x.ndim) * (
        x - inside
    )
    holds = values.values(points.astype(x.dtype)[:, None]).max(axis=(1, 2)) <= 0
    return np.asarray(points[int(np.argmax(holds))], x.dtype)
