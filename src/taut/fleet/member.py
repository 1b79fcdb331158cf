"""One member of a fleet: what it has seen, and a player that goes on where it stands."""

from __future__ import annotations

import math
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from .. import files
from ..engine import Array
from ..learners import Learner
from ..learners.clipping import Clipping
from ..player import file as player_file
from ..player.copies import revived
from ..player.extremes import NAMES, Extreme, Extremes
from ..player.missing import MissingRounds
from ..player.player import Player
from ..problem.problem import Problem
from ..problem.tables import plain
from ..runs.totals import Totals
from .data import by_column, joined

if TYPE_CHECKING:
    from ..judge.certificate import Certificate

__all__ = ["certificate_of", "extremes", "player_of"]


def extremes(member: Any, shape: tuple[int, ...], clip: float | None) -> Extremes:
    """Return what a member has seen whose learner clips loss gradients so."""
    seen, largest = member.seen, {}
    clipping = Clipping(clip, 1)
    clipping.numbers = seen.slopes.numbers()
    for i, name in enumerate(NAMES):
        value = float(seen.values[i])
        at = int(seen.rounds[i]), np.asarray(seen.decisions[i], float).reshape(shape)
        largest[name] = Extreme(value, None, *at) if math.isfinite(value) else None
    return Extremes(
        1,
        int(member.game.t) - 1 + int(member.skipped),
        **largest,
        constraint_slope=max(float(seen.values[len(NAMES)]), 0.0),
        clipping=clipping,
    )


def player_of(
    learner: Learner,
    problem: Problem,
    counts: tuple[int, int],
    member: Any,
    data: Any,
    first: Array,
) -> Player:
    """Return a player in the state of a member.

    Arguments:
        learner, problem: those of the fleet.
        counts: the number of constraints that the learner sees, and that of announced ones.
        member: its state, with arrays of NumPy and the numbers of random keys.
        data: the description of the data of earlier rounds.
        first: the first decision.
    """
    rounds, skipped, seen = int(member.game.t) - 1, int(member.skipped), member.seen
    totals = Totals.of_chunk(member.game.totals)
    header = {
        "count": counts[0],
        **({} if problem.announced is None else {"announced_count": counts[1]}),
        "dtype": str(first.dtype),
        "data": data,
        "problem": {},
    }
    none = np.zeros((1, first.size))
    parts = {
        "state": files.flat((member.game.learner, member.game.previous)),
        "totals": {
            "rounds": np.asarray(rounds),
            **{each.name: np.asarray(getattr(totals, each.name), float) for each in fields(Totals)},
        },
        "extremes": {
            "about": np.array([1, rounds + skipped, 0]),
            "values": np.asarray(seen.values, float),
            "rounds": np.append(seen.rounds, 0).astype(int),
            "decisions": np.concatenate([np.asarray(seen.decisions, float), none]),
            "clipping": seen.slopes.numbers(),
            "first": np.asarray(first, float).ravel(),
        },
    }
    if skipped:
        parts["missing"] = MissingRounds(unknown=skipped).to_arrays(first.size)
    return revived(learner, problem, header, player_file.as_arrays(parts))


def certificate_of(
    player: Player, parameters: dict[str, Array], stream: Any, options: dict[str, Any]
) -> Certificate:
    """Return the certificate of a member's player. Its parameters, in one row, are added to the
    data."""
    if stream is not None and parameters:
        given = plain(by_column(stream))
        length = len(next(iter(jax.tree.leaves(given)), ()))
        known = given if isinstance(given, dict) else {}
        own = {
            name: np.repeat(row, length, axis=0)
            for name, row in parameters.items()
            if name not in known
        }
        stream = joined(given, own)
    return player.certificate(stream=stream, **options)
