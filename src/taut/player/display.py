"""How a player is shown: as a summary, as numbers that fit into JSON, and as curves."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import arguments
from ..display import Summary, brief, number, numbers
from ..extras import optional

if TYPE_CHECKING:
    import pandas

    from .player import Player


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
    decision, coordinates = player.decision, player.problem.coordinate_names
    if isinstance(decision, dict):
        shown: Any = {name: np.asarray(value).tolist() for name, value in decision.items()}
    elif coordinates is not None:
        shown = dict(zip(coordinates, decision.ravel().tolist(), strict=True))
    else:
        shown = decision.tolist()
    names = player.constraint_names
    return {
        "learner": repr(player.learner),
        "round": player.round,
        "unknown": player.unknown,
        "pending": list(player.pending),
        "decision": shown,
        **({} if names is None else {"constraint_names": list(names)}),
        **_weights(player),
        "totals": player.totals.to_dict(),
    }


def _weights(player: Player) -> dict[str, Any]:
    """Return the weights of the coming round, nothing without advisers."""
    weights = player.weights
    return {} if weights is None else {"weights": weights[player.round].tolist()}


def frame(player: Player, what: str) -> pandas.DataFrame:
    """Return what `Player.to_dataframe` describes."""
    pd = optional("pandas")

    arguments.one_of("what", what, ("rounds", "totals"))
    names, history = _names(player), player.history
    if what == "totals":
        kinds = ("excess", "violation", "squared", "peak")
        values = {name: getattr(player.totals, name) for name in kinds}
        return pd.DataFrame(values, index=pd.Index(names["excess"], name="constraint"))
    return history.to_frame()


def drawn(player: Player, quantity: str | None, ax: Any) -> Any:
    """Draw what `Player.plot` describes."""
    from ..plots.methods import plot_player

    return plot_player(player.history, quantity, ax, _names(player), player.weights)


def _names(player: Player) -> dict[str, list[str]]:
    """Return the names of the constraints and of the entries of a decision, or names made from
    letters."""
    problem, count = player.problem, player.totals.peak.size
    return {
        "excess": list(player.constraint_names or (f"g[{i}]" for i in range(count))),
        "decision": list(
            problem.coordinate_names or (f"x[{i}]" for i in range(math.prod(problem.domain.shape)))
        ),
    }
