"""Single members of a fleet as players, and the whole fleet as a table of pandas."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from .. import arguments
from ..engine import Array
from ..extras import optional
from ..learners import Advised
from ..player.player import Player
from ..player.steps import PlayerState
from ..problem.tables import plain
from .data import by_column, joined

if TYPE_CHECKING:
    import pandas

    from ..judge.certificate import Certificate
    from .fleet import Fleet


def player_of(fleet: Fleet, state: PlayerState) -> Player:
    """Return a player in the state of a member."""
    problem, counts = fleet.problem, fleet._data.counts
    player = Player(
        fleet.learner,
        problem,
        x1=fleet._first,
        count=counts[0],
        announced_count=None if problem.announced is None else counts[1],
        unproven=True,
    )
    player._set_state(state)
    player._history.restore({}, player.round - 1)
    player._data.restore(fleet._data.types.described())
    return player


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


def frame(fleet: Fleet, what: str) -> pandas.DataFrame:
    """Return the table that `Fleet.to_dataframe` describes."""
    pd = optional("pandas")

    with_advisers = isinstance(fleet.learner, Advised)
    usual = ("decisions", "totals", "parameters")
    arguments.one_of("what", what, (*usual, "weights") if with_advisers else usual)
    columns = {
        "decisions": _decisions,
        "totals": _totals,
        "parameters": _parameters,
        "weights": _weights,
    }[what](fleet)
    return pd.DataFrame(columns, index=pd.Index(fleet.ids, name="member"))


def _decisions(fleet: Fleet) -> dict[str, Array]:
    shape = fleet.problem.domain.shape
    rows = fleet._coming.read(fleet._columns.x, *fleet._members.slots(None))
    flat = rows.reshape(len(rows), math.prod(shape))
    names = fleet.problem.coordinate_names or [f"x[{i}]" for i in range(flat.shape[1])]
    return dict(zip(names, flat.T, strict=True))


def _parameters(fleet: Fleet) -> dict[str, Array]:
    return {
        name if values.ndim == 1 else f"{name}[{i}]": part
        for name, values in fleet.parameters().items()
        for i, part in enumerate(values.reshape(len(values), math.prod(values.shape[1:])).T)
    }


def _weights(fleet: Fleet) -> dict[str, Array]:
    weights = fleet.weights()
    names = ["learner", *(f"adviser {k}" for k in range(1, weights.shape[1]))]
    return {f"weight[{name}]": part for name, part in zip(names, weights.T, strict=True)}


def _totals(fleet: Fleet) -> dict[str, Any]:
    totals = fleet.totals()
    names = fleet.constraint_names or tuple(f"g[{i}]" for i in range(fleet._blocks.scored))
    columns = {"round": fleet.rounds(), "skipped": fleet.skipped(), "loss": totals.loss}
    for kind in ("violation", "peak", "excess"):
        parts = getattr(totals, kind).T
        columns |= {f"{kind} {name}": part for name, part in zip(names, parts, strict=True)}
    return columns
