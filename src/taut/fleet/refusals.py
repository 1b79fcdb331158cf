"""Members whose data were refused, with the reasons."""

from __future__ import annotations

import logging
import warnings

import numpy as np

from ..engine import Array
from ..play.round import FAULTS
from .ids import Id, named

__all__ = ["Refused", "refused", "tell"]

LOG = logging.getLogger("taut.fleet")
Refused = dict[Id, str]
"""The members whose data were refused, with the reasons."""


def refused(listed: list[Id], rounds: Array, faults: Array) -> Refused:
    """Return why members were refused.

    Arguments:
        listed: the members.
        rounds: the round that each was to play.
        faults: for each, one bit for each name of `FAULTS` that is not finite.
    """
    wrong = np.flatnonzero(faults)
    return {listed[i]: _reason(int(faults[i]), int(rounds[i])) for i in wrong}


def _reason(faults: int, round: int) -> str:
    """Say what is not finite in a round; `faults` has one bit for each name of `FAULTS`."""
    name = next(name for bit, name in enumerate(FAULTS) if faults >> bit & 1)
    argument = "z" if name == "data" else name
    return f"{argument}: got a value that is not finite in round {round}; expected finite numbers"


def tell(reasons: Refused) -> Refused:
    """Warn of refused members, and return them."""
    if reasons:
        who, why = named(list(reasons)), next(iter(reasons.values()))
        LOG.warning("refused %d members: %s (%s)", len(reasons), who, why)
        warnings.warn(
            f"refused the members {who}, who stay as they were ({why})",
            RuntimeWarning,
            stacklevel=3,
        )
    return reasons
