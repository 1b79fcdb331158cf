"""What a player looks at after a round was computed: numbers that are not finite, constants that
the round refutes, violations beyond a tolerance, and bounds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..engine import Array
from .checks import refuse
from .extremes import NAMES
from .guards import check_reaction, refuted_event
from .hooks import Event, Refused
from .steps import FAULTY, REFUTED, VIOLATED

if TYPE_CHECKING:
    from .player import Player

__all__ = ["alarm", "check_flags"]


def check_flags(player: Player, report: Array, round: int) -> None:
    """Refuse a round in which something is not finite, or that refutes a constant if the user
    wants that."""
    flags = int(report[0])
    if flags % FAULTY:
        refuse(flags % FAULTY, round)
    if not flags & REFUTED:
        return
    reaction = player._on_refuted
    event = refuted_event(player.problem, report[player._seen], player._stated, round)
    if callable(reaction):
        reaction = reaction(event)
        check_reaction(reaction, "on_refuted(event)")
    if reaction == "refuse":
        player._hooks.report(event)
        raise Refused(event.message, **event.numbers)


def alarm(player: Player, round: int | None = None) -> None:
    """Report what happened in the round that was just taken over."""
    report, flags = player._report, int(player._report[0])
    number = player.round - 1 if round is None else round
    if flags & REFUTED:
        seen = report[player._seen][: len(NAMES)]
        event = refuted_event(player.problem, seen, player._stated, number)
        if not callable(player._on_refuted) and player._on_refuted == "warn":
            exceeded = seen > player._stated[: len(NAMES)]
            player._stated[: len(NAMES)][exceeded] = 2 * seen[exceeded]
            player._steps.fix(player._packed())
        player._hooks.report(event)
    if flags & VIOLATED:
        excess = report[2 : player._played.start]
        names, worst = player.constraint_names, int(np.argmax(excess))
        name = f"g[{worst}]" if names is None else names[worst]
        tolerance = float(player._stated[-1])
        player._hooks.report(
            Event(
                "violated",
                number,
                f"{name}: got {excess[worst]:g} in round {number}; expected at most {tolerance:g}",
                {"constraint": name, "value": float(excess[worst]), "tolerance": tolerance},
            )
        )
    every = player._checked_every
    if round is None and every is not None and number % every == 0:
        player.certificate()
