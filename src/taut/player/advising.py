"""The decision of a player's round with advice, a forecast, or both."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from .. import arguments
from ..engine import require_jax
from ..play.advice import LAST, advice_of_round, check_advised
from .observation import as_data

if TYPE_CHECKING:
    from .player import Player

__all__ = ["advised"]


def advised(player: Player, z: Any, advice: Any, forecast: Any) -> Any:
    """Return the decision with advice, a forecast, or both; see `Player.decide`."""
    learner = check_advised(player.learner, player.feedback)
    if z is not None:
        raise TypeError(
            "z: got data beside advice; expected them in player.announce(z) if constraints are "
            "announced, or as forecast=z if they are a prediction"
        )
    require_jax(tracing=False)
    with player._lock:
        told = forecast is not None
        said = advice_of_round(advice, learner, player.problem, player._dtype, told)
        predicted = _predicted(player, forecast) if told else None
        begun = player._round_decision.advise(said, predicted, player._arrays, player.round)
        return player._presented(begun[1])


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
        data = as_data(player, forecast)
    except (TypeError, ValueError) as error:
        raise type(error)(f"forecast: {error}") from error
    if not all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(data)):
        raise ValueError(
            f"forecast: got a value that is not finite in round {player.round}; expected finite "
            "numbers, or no forecast"
        )
    return data, np.ones((), bool)
