"""How a round of a player is played: its data are revealed or measurements come, and the player
goes on with the state after it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from ..engine import Array
from ..learners.protocols import Grows
from .alarms import check_flags
from .checks import checked_data, checked_measurements
from .steps import measured_step, revealed_step

if TYPE_CHECKING:
    from .player import Player

__all__ = ["Measured", "as_data", "play", "remember", "revealed"]


class Measured(NamedTuple):
    """Measurements at the decision just played; None for what was not given."""

    gradient: Any
    excess: Any
    jacobian: Any
    loss: Any

    @property
    def known(self) -> bool:
        """Whether there are any beside the loss."""
        return any(part is not None for part in self[:3])


def play(player: Player, z: Any, played: Any, measured: Measured) -> None:
    """Play the round with its data, or with measurements; see `Player.observe`."""
    if player.learner.request_first:
        given = any(part is not None for part in (z, played, *measured))
        _finish(player, given)
        return
    if measured.known == (z is not None):
        came = "both z and measurements" if measured.known else "neither z nor measurements"
        raise TypeError(f"z: got {came}; expected either z, or gradient, excess and jacobian")
    if played is None:
        arrays, before = player._before_round()
    else:
        arrays, before = player._round_decision.played(played, player._arrays)
    if measured.known:
        arrays, report = _measured(player, arrays, measured)
        _accept(player, arrays, report, before, without_loss=measured.loss is None)
    elif measured.loss is not None:
        raise TypeError(
            "loss: got a value beside z; expected it only beside gradient, excess and jacobian"
        )
    else:
        arrays, report, data = revealed(player, z, arrays)
        _accept(player, arrays, report, before)
        if not player._data.known or player._last_data.kept or not player._named:
            remember(player, data, player.round - 1)
    if played is not None:
        player._extremes.changed += 1
        player._last = (*player._last[:-1], True)


def _finish(player: Player, given: bool) -> None:
    """End the round of the last request."""
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
    _accept(player, arrays, report, report)
    remember(player, data, player.round - 1)
    player._asked = None


def _measured(player: Player, before: Any, measured: Measured) -> tuple[Any, Array]:
    """Return the state after a round with these measurements, and its header."""
    if player.problem.announced is not None:
        raise TypeError(
            "excess: got measurements for a problem with announced constraints; expected z"
        )
    numbers = checked_measurements(
        measured.gradient,
        measured.excess,
        measured.jacobian,
        0.0 if measured.loss is None else measured.loss,
        count=player._count,
        shape=player._shape,
        dtype=player._dtype,
    )
    return _taken(player, measured_step, before, *numbers)


def revealed(player: Player, z: Any, before: Any) -> tuple[Any, Array, Any]:
    """Return the state after a round with these data, its header and the data. The player stays as
    it is."""
    data = player._data.quick_cast(z) if player._takes_arrays else None
    if data is None:  # rarely: walking a tree takes time
        data = as_data(player, z)
    if player._guard is not None:
        player._guard.refuse(data, player.round, player._last_data.last)
    if player.problem.announced is not None:
        player._round_decision.check(data, player.round)
    return *_taken(player, revealed_step, before, data), data


def _taken(player: Player, step: Any, before: Any, *given: Any) -> tuple[Any, Array]:
    """Take a step; return the state after it and its header, unless the round is refused."""
    arrays = player._steps.take(step, before, *given)
    report = np.asarray(arrays[0])  # all that is read in one array: each transfer costs time
    if report[0]:
        check_flags(player, report, player.round)
    return arrays, report


def as_data(player: Player, z: Any) -> Any:
    """Return data in the types of earlier rounds, or refuse them."""
    counts = player._learned, player._announced
    decision = player._decision_in(player._report)
    return checked_data(player.problem, player._data, decision, counts, player.problem.arrange(z))


def _accept(
    player: Player, arrays: Any, report: Array, before: Array, without_loss: bool = False
) -> None:
    """Take over the state after a round, and add the round to what is remembered."""
    scored = report[1 : player._played.start]
    if without_loss:
        scored = np.concatenate([[np.nan], scored[1:]])
    player._last = player._arrays, player._report, player._missing, False, False
    player._history.add(scored, before[player._played])
    player._arrays, player._report = arrays, report
    if player._weights is not None:
        player._weights.add(player.round, before)
    player._round_decision.forget()
    player._running.add(scored)
    player._extremes.add(report[player._seen])
    if player._room is not None:
        state, _ = player._layout.unpack(arrays)
        if cast("Grows", player.learner).is_full(state):
            player._make_room(2 * player._room)


def remember(player: Player, data: Any, round: int) -> None:
    """Remember the data of a round that was accepted. The first show the names of constraints."""
    player._data.remember(data)
    player._last_data.remember(data, round)
    if not player._named:
        decision, problem = player._decision_in(player._report), player.problem
        player._history.constraint_names = problem.names_for(
            decision, problem.given(data, decision)
        )
        player._named = True
