"""How a round of a player is played: its data are revealed or measurements come, and the player
goes on with the state after it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np

from ..engine import Array
from ..learners.protocols import Grows
from ..problem.feasibility import check_feasible
from .data import checked_measurements
from .decision import begin, check_announced_data, played as with_decision
from .guards import check_flags
from .steps import measured, revealed

if TYPE_CHECKING:
    from .player import Player


Measured = tuple[Any, Any, Any, Any]
"""Gradient, excess, Jacobian and loss at the decision just played; None for what was not given."""


def play(player: Player, z: Any, played: Any, numbers: Measured) -> None:
    """Play the round with its data, or with measurements; see `Player.observe`."""
    gradient, excess, jacobian, loss = numbers
    is_measured = gradient is not None or excess is not None or jacobian is not None
    if is_measured == (z is not None):
        came = "both z and measurements" if is_measured else "neither z nor measurements"
        raise TypeError(f"z: got {came}; expected either z, or gradient, excess and jacobian")
    before, report = player._arrays, player._report
    if played is not None:
        before, report = with_decision(player, played)
    elif player._begun is not None or player.problem.announced is not None:
        before, report = begin(player)
    if is_measured:
        after = _measured(player, before, numbers)
        accept(player, *after, report, changed=played is not None)
        return
    if loss is not None:
        raise TypeError(
            "loss: got a value beside z; expected it only beside gradient, excess and jacobian"
        )
    arrays, told, data = _revealed(player, z, before)
    accept(player, arrays, told, report, changed=played is not None)
    if player._learns_of_data:
        remember(player, data, player.round - 1)


def _measured(player: Player, before: Any, numbers: Measured) -> tuple[Any, Array]:
    """Return the state after a round with these measurements, and its header."""
    if player.problem.announced is not None:
        raise TypeError(
            "excess: got measurements for a problem with announced constraints; expected z"
        )
    given = checked_measurements(
        *numbers, count=player._count, shape=player._shape, dtype=player._dtype
    )
    arrays, report = player._steps.take(measured, before, *given)
    if report[0]:
        check_flags(player, report, player.round)
    return arrays, report


def _revealed(player: Player, z: Any, before: Any) -> tuple[Any, Array, Any]:
    """Return the state after a round with these data, its header and the data. The player stays as
    it is."""
    data = player._data.quick_cast(z) if player._takes_arrays else None
    if data is None:  # rarely: walking a tree takes time
        data = player._data.cast(player.problem.arrange(z))
    if player._guard is not None:
        player._guard.refuse(data, player.round, player._last_data.last)
    if player._begun is not None:
        check_announced_data(player, data)
    arrays, report = player._steps.take(revealed, before, data)
    if report[0]:
        check_flags(player, report, player.round)
    if player._in_doubt:
        # A played decision that satisfies all constraints spares the search for another.
        if max(report[2 : player._played.start]) > 0:
            check_feasible(player.problem)
        player._in_doubt = False
    return arrays, report, data


def ask(player: Player, z: Any) -> Array:
    """Let a learner decide for a request; return the header, with the decision."""
    player._asked = _revealed(player, z, player._arrays)
    return player._asked[1]


def finish(player: Player, given: bool) -> None:
    """End the round of the last request; `given` says whether the user told more of it."""
    kind = type(player.learner).__name__
    if given:
        raise TypeError(
            f"observe: {kind} sees the request first; call player.decide(z), then player.observe()"
        )
    if player._asked is None:
        raise TypeError(
            f"observe: no request was made; {kind} needs player.decide(z) before player.observe()"
        )
    arrays, report, data = player._asked
    accept(player, arrays, report, report)
    remember(player, data, player.round - 1)


def accept(
    player: Player, arrays: Any, report: Array, before: Array, changed: bool = False
) -> None:
    """Take over the state after a round, and add the round to the history.

    Arguments:
        player: the player.
        arrays: the state.
        report: its header.
        before: the header of the state from which the round was played.
        changed: whether another decision was played than the learner's.
    """
    player._last = player._arrays, player._report, player._missing, player._changed, False
    player._history.add(report[player._row])
    if player._weights is not None:
        player._weights.add(player.round, before)
    player._arrays, player._report = arrays, report
    player._begun = player._asked = None
    player._changed += changed
    if player._room is not None and cast("Grows", player.learner).is_full(
        player._layout.unpack(arrays).game.learner
    ):
        player._make_room(2 * player._room)


def remember(player: Player, data: Any, round: int) -> None:
    """Remember the data of a round that was accepted. The first show the names of constraints."""
    player._data.remember(data)
    player._last_data.remember(data, round)
    history = player._history
    if not player._named:
        x, problem = np.zeros(player._shape, player._dtype), player.problem
        history.constraint_names = problem.names_for(x, problem.given(data, x))
        player._named = True
    player._learns_of_data = player._last_data.kept
