"""How a player is shown: as a summary, as numbers that fit into JSON, and as curves."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from ..display import Summary, brief, number, numbers

if TYPE_CHECKING:
    from .player import Player

__all__ = ["as_numbers", "drawn", "summary"]


def summary(player: Player, decision: Any) -> Summary:
    """Return what a player prints; `decision` is an array."""
    totals = player.totals
    facts = [
        ("learner", brief(player.learner)),
        ("decision", numbers(decision)),
        ("total loss", number(totals.loss)),
        ("clipped violation", number(totals.worst_violation)),
        ("peak violation", number(totals.peak.max())),
    ]
    return Summary(f"Player before round {player.round}", facts)


def as_numbers(player: Player) -> dict[str, Any]:
    """Return what `Player.state` describes."""
    decision = player.decision
    if isinstance(decision, dict):
        shown: Any = {name: np.asarray(value).tolist() for name, value in decision.items()}
    else:
        shown = decision.tolist()
    return {
        "learner": repr(player.learner),
        "round": player.round,
        "decision": shown,
        "totals": player.totals.to_dict(),
    }


def drawn(player: Player, quantity: str | None, ax: Any) -> Any:
    """Draw what `Player.plot` describes."""
    from ..plots.methods import plot_player

    problem, count = player.problem, player.totals.peak.size
    names = {
        "excess": list(problem.constraint_names or (f"g[{i}]" for i in range(count))),
        "decision": list(
            problem.coordinate_names or (f"x[{i}]" for i in range(math.prod(problem.domain.shape)))
        ),
    }
    return plot_player(player.history, quantity, ax, names)
