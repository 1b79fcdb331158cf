"""The decision of a player's round if it is not the learner's own: announced constraints are
enforced, advice or a forecast is taken, or another decision was played."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from .. import arguments
from ..engine import Array
from ..play.advice import LAST, advice_of_round, check_advised
from ..play.announced import announced_needs_data
from ..problem.compatibility import cast_data
from ..problem.evaluation import constraint_evaluation
from ..problem.feasibility import find_feasible
from ..problem.problem import Problem
from .guards import Refused
from .steps import heeded, replaced

if TYPE_CHECKING:
    from .player import Player


EXACT = 1e-12
"""Relative violation of announced constraints that counts as none."""


class Begun(NamedTuple):
    """The round about to be played, if something of it is known before its decision."""

    arrays: Any
    """The state with which it is played; None if advice is not in the file from which the player
    was loaded."""
    report: Any
    """The first of the arrays in NumPy, which contains the decision."""
    data: Any = None
    """What was announced."""
    said: Any = None
    """Advice."""
    predicted: Any = None
    """A forecast."""

    @property
    def advised(self) -> bool:
        """Whether it was begun with advice or a forecast."""
        return self.arrays is None or self.said is not None or self.predicted is not None


LOST = Begun(None, None)
"""A round that was begun with advice, before the player was saved."""


def begin(player: Player) -> tuple[Any, Array]:
    """Return the state with which the round is played, and its header; announced constraints that
    need data must be announced before."""
    begun = player._begun
    if begun is None:
        if player.problem.announced is None:
            return player._arrays, player._report
        _check_known(player, "decision")
        begun = _take(player, None, None, None)
    if begun.arrays is None:
        raise TypeError(
            f"advice: round {player.round} was begun with advice before the player was saved, and "
            "a file does not hold it; call player.decide again with the same advice"
        )
    return begun.arrays, begun.report


def _check_known(player: Player, name: str) -> None:
    if announced_needs_data(player.problem):
        raise TypeError(
            f"{name}: the announced constraints of round {player.round} are not known; call "
            "player.announce(z) before"
        )


def announce(player: Player, z: Any) -> Begun:
    """Enforce the constraints that the data `z` announce; see `Player.announce`."""
    if player.problem.announced is None:
        raise TypeError(
            "announce: the problem has no announced constraints; expected taut.Problem(..., "
            "announced=...)"
        )
    arranged = player.problem.arrange_announced(z)
    data = jax.tree.map(lambda leaf: cast_data("z", leaf, player._dtype), arranged)
    _refuse_not_finite(player, "z", data)
    before = player._begun or LOST
    return _take(player, data, before.said, before.predicted)


def advise(player: Player, z: Any, advice: Any, forecast: Any) -> Begun:
    """Take advice, a forecast, or both; see `Player.decide`."""
    learner = check_advised(player.learner, player.feedback)
    if z is not None:
        raise TypeError(
            "z: got data beside advice; expected them in player.announce(z) if constraints are "
            "announced, or as forecast=z if they are a prediction"
        )
    known = forecast is not None
    said = advice_of_round(advice, learner, player.problem, player._dtype, known)
    predicted = _predicted(player, forecast) if known else None
    before = player._begun or LOST
    if player.problem.announced is not None and before.arrays is None:
        _check_known(player, "advice")
    return _take(player, before.data, said, predicted)


def _predicted(player: Player, forecast: Any) -> Any:
    """Return predicted data in the form of a round's data and whether they are known, or refuse
    them."""
    if isinstance(forecast, str):
        arguments.one_of("forecast", forecast, (LAST,))
        last = player._last_data.last
        if last is None and player.observed:
            raise ValueError(
                f"forecast: got {LAST!r}, but the data before round {player.round} are not in "
                "the file; expected the predicted data"
            )
        return None if last is None else (last[1], np.ones((), bool))
    try:
        data = player._data.cast(player.problem.arrange(forecast))
    except (TypeError, ValueError) as error:
        raise type(error)(f"forecast: {error}") from error
    _refuse_not_finite(player, "forecast", data, ", or no forecast")
    return data, np.ones((), bool)


def _refuse_not_finite(player: Player, name: str, data: Any, otherwise: str = "") -> None:
    if not all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(data)):
        raise ValueError(
            f"{name}: got a value that is not finite in round {player.round}; expected finite "
            f"numbers{otherwise}"
        )


def _take(player: Player, data: Any, said: Any, predicted: Any) -> Begun:
    """Take advice and enforce announced constraints, or raise an error if no decision satisfies
    them."""
    arrays, report = player._steps.take(heeded, player._arrays, data, said, predicted)
    if report[0]:  # advice, announced and predicted data are finite
        raise Refused(
            f"forecast: got predicted data with which the loss of round {player.round} is not "
            "finite; expected data with a finite loss",
            entry="forecast",
        )
    if report[1] > max(EXACT, 1e3 * float(np.finfo(player._dtype).eps)):
        before = player._layout.unpack((report, *arrays[1:])).game
        x = np.asarray(before.x)
        inside = _nearest_known(player.problem, x, data, before.previous, player.round)
        arrays, report = player._steps.take(replaced, arrays, np.asarray(inside, player._dtype))
    player._begun = Begun(arrays, report, data, said, predicted)
    return player._begun


def check_announced_data(player: Player, data: Any) -> None:
    """Refuse data of the round that differ from those that were announced."""
    if player._begun is None or player._begun.data is None:
        return
    observed = dict(jax.tree_util.tree_flatten_with_path(data)[0])
    for path, value in jax.tree_util.tree_flatten_with_path(player._begun.data)[0]:
        other = observed.get(path, value)
        if not np.array_equal(other, value):
            name = f"z{jax.tree_util.keystr(path)}"
            came, announced = arguments.entries(other), arguments.entries(value)
            raise Refused(
                f"{name}: got {came} in round {player.round}; expected {announced}, as was "
                "announced",
                entry=name,
                came=came,
                announced=announced,
            )


def played(player: Player, decision: Any) -> tuple[Any, Array]:
    """Return state and header with the decision that was really played."""
    shape = player.problem.domain.shape
    given = arguments.finite("played", player.problem.assemble(decision))
    if given.shape != shape:
        raise ValueError(f"played: got shape {given.shape}; expected {shape}, that of a decision")
    x = np.asarray(given, player._dtype)
    if not np.asarray(player.problem.domain.contains(jnp.asarray(x), 1e-9)):
        raise ValueError(
            f"played: got {arguments.entries(given)}, outside the domain; expected a point inside"
        )
    before = player._arrays if player._begun is None else player._begun.arrays
    return player._steps.take(replaced, player._arrays if before is None else before, x)


def _nearest_known(problem: Problem, x: Array, data: Any, previous: Any, round: int) -> Array:
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
