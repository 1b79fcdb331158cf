"""Rounds of a player that do not come in their order: they are skipped, observed late, or taken
back."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import arguments
from ..engine import require_jax
from .alarms import alarm, check_flags
from .missing import Pending, check_late
from .observation import as_data, remember
from .steps import late_step, skipped_step

if TYPE_CHECKING:
    from .player import Player

__all__ = ["observe_late", "skip", "undo"]

LOG = logging.getLogger("taut.player")


def skip(player: Player, reason: str) -> None:
    """Go on to the next round without an observation; see `Player.skip`."""
    if not isinstance(reason, str):
        raise TypeError(f"reason: got {arguments.shown(reason)}; expected a text")
    require_jax(tracing=False)
    with player._lock:
        arrays, report = player._arrays, player._report
        if player._round_decision.known or player._round_decision.lost:
            arrays, report = player._before_round()
        missing, lost = player._missing, player._missing.lost(player.learner)
        after = player._steps.take(skipped_step, arrays, np.asarray(lost, np.int32))
        before = player._layout.unpack(arrays)[1]
        new = Pending(
            player.round,
            int(np.asarray(after[0])[1]),
            np.array(report[player._played]),
            None if before is None else np.asarray(before).ravel(),
        )
        LOG.info(
            "round %d was skipped: %s",
            new.round,
            reason or "no reason was given",
            extra={"taut_event": "skipped", "taut_round": new.round},
        )
        player._last = player._arrays, player._report, missing, True, False
        player._history.add(np.full(1 + player._count, np.nan), new.decision)
        player._extremes.skip()
        player._missing = missing.skipped(player.learner, new)
        player._arrays, player._report = after, np.asarray(after[0])
        player._round_decision.forget()
        player._asked = None


def observe_late(player: Player, round: int, z: Any) -> None:
    """Reveal the data of a round that was skipped; see `Player.observe_late`."""
    check_late(player.learner, player.feedback)
    require_jax(tracing=False)
    with player._lock:
        number = arguments.count("round", round)
        try:
            late = player._missing.find(number, player.round)
            data = as_data(player, z)
            if player._guard is not None:
                earlier = player._last_data.last
                known = earlier if earlier is not None and earlier[0] < number else None
                player._guard.refuse(data, number, known)
            shape, dtype = player._shape, player._dtype
            previous = late.previous
            given = (
                data,
                np.asarray(late.tag, np.int32),
                late.decision.reshape(shape).astype(dtype),
                None if previous is None else previous.reshape(shape).astype(dtype),
            )
            arrays = player._steps.take(late_step, player._arrays, *given)
            report = np.asarray(arrays[0])
            if report[0]:
                check_flags(player, report, number)
        except (TypeError, ValueError) as error:
            player._hooks.refused(number, error)
            raise
        scored = report[1 : player._played.start]
        player._arrays, player._report, player._last = arrays, report, None
        player._history.fill(number, scored)
        player._running.add(scored)
        player._extremes.add_late(report[player._seen], number, late.decision)
        player._missing = player._missing.arrived(number)
        remember(player, data, number)
        if report[0]:
            alarm(player, number)


def undo(player: Player) -> None:
    """Take back the last round; see `Player.undo`."""
    with player._lock:
        if player._last is None:
            raise TypeError(
                f"undo: nothing can be taken back before round {player.round}; expected it once "
                "after observe or skip, in the same process"
            )
        player._arrays, player._report, player._missing, skipped, moved = player._last
        player._last = None
        player._history.take_back()
        player._extremes.take_back()
        player._extremes.changed -= moved
        player._round_decision.forget()
        player._asked = None
        if not skipped:
            player._running.take_back()
            player._last_data.take_back()
            if not player._running.rounds:
                player._data.forget()
        LOG.info(
            "round %d was taken back",
            player.round,
            extra={"taut_event": "undone", "taut_round": player.round},
        )
