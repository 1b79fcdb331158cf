"""What a file of a player contains, and how a player goes on from it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np

from .. import arguments, files
from ..engine import VERSION, Array
from ..learners import Learner
from ..problem.feedback import Feedback, as_feedback
from ..problem.problem import Problem
from ..runs.totals import RunningTotals
from . import file as player_file
from . import migrate as migration
from . import tag
from .copies import revived
from .guards import as_limits, check_reaction
from .missing import MissingRounds

if TYPE_CHECKING:
    from .player import Player

__all__ = ["contents", "loaded", "restore"]


def contents(player: Player, history: bool = True) -> tuple[dict[str, Any], dict[str, Array]]:
    """Return header and arrays of a file."""
    arguments.flag("history", history)
    with player._lock:
        counts = player._learned, player._announced
        names, structure = player.constraint_names, player._data.structure
        if player._fingerprint is None or player._fingerprint[0] != structure:
            made = tag.fingerprint(player.problem, structure, player._dtype)
            player._fingerprint = structure, made
        header = player_file.header(
            player.learner,
            player.problem,
            player.feedback,
            counts,
            player._dtype,
            player._data.described(),
            names,
            tag.tag_of(player.problem, names, structure),
        )
        header["history"] = player._history.asked
        if player._room is not None:
            header["room"] = player._room
        if player._round_decision.advised:
            header["advised"] = True
        if player.migration:
            header["migration"] = list(player.migration)
        parts = {
            "state": files.flat(player._layout.unpack(player._arrays)),
            "totals": player._running.to_arrays(),
            "history": player._history.to_arrays() if history else {},
            "extremes": player._extremes.to_arrays(),
            "missing": player._missing.to_arrays(math.prod(player._shape)),
            "problem": player._fingerprint[1],
            "last": player._last_data.to_arrays(),
        }
        return header, player_file.as_arrays(parts)


def loaded(
    source: Any,
    problem: Problem,
    learner: Learner | None,
    feedback: Feedback | None,
    migrate: bool | Mapping[str, str],
    limits: Any,
    on_refuted: Any,
) -> Player:
    """Return the player of a file or of its bytes."""
    arguments.instance("problem", problem, Problem, "taut.Problem(...)")
    if not isinstance(learner, Learner | None):
        raise TypeError(f"learner: got {arguments.shown(learner)}; expected a taut learner")
    renamed = migration.as_names(migrate)
    check_reaction(on_refuted)
    as_limits(limits)  # wrong ones are the caller's, not the file's
    same = learner if renamed is None else None  # a migrated player may get another learner
    saved, arrays, came = player_file.read(source, same)
    given = player_file.saved_feedback(came, saved.get("feedback"), as_feedback(feedback))
    options = {"limits": limits, "on_refuted": on_refuted}
    try:
        changes = migration.changes(problem, saved, arrays)
        kept = learner is None or files.same(files.pack(learner), saved["learner"])
        if not changes.any and not renamed and kept:  # nothing has to be migrated
            return revived(files.unpack(saved["learner"]), problem, saved, arrays, given, **options)
    except files.OtherState as error:
        if renamed is None:
            raise ValueError(
                f"{came}, saved by taut {saved['version']}: {error} than those of "
                f"{files.unpack(saved['learner'])!r} here, in taut {VERSION}. Load it with the "
                "code that saved it, or pass migrate=True to go on from its decision"
            ) from error
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{came}, damaged ({error}); expected a player that taut saved") from error
    if renamed is None:
        raise ValueError(f"{'. '.join(changes.texts)}. Pass migrate=True to go on with it ({came})")
    return migration.migrated(problem, saved, arrays, changes, renamed, learner, given, options)


def restore(player: Player, saved: dict[str, Any], parts: dict[str, dict[str, Array]]) -> None:
    """Set the state, the totals and the type of the data to those of a file."""
    if player._room is not None:
        player._make_room(saved["room"])
    model = player._layout.unpack(player._arrays)
    player._set_state(files.like(model, parts["state"]))
    decision = player._decision_in(player._report)
    if not np.isfinite(decision).all() or not player.problem.domain.contains(
        jnp.asarray(decision), 1e-6
    ):
        raise ValueError("its decision is outside the domain")
    player._running = RunningTotals.from_arrays(player._count, parts["totals"])
    player._missing = MissingRounds.from_arrays(
        parts["missing"], math.prod(player._shape), player.problem.previous
    )
    rounds = player.round - 1
    player._history.restore(parts["history"], rounds)
    if player._history.constraint_names is None:
        player._history.constraint_names = player_file.saved_names(saved, player._count)
        player._named = player._named or player.constraint_names is not None
    player._extremes.restore(parts["extremes"], rounds)
    player._data.restore(saved.get("data"), saved["problem"].get("data"))
    player._round_decision.lost = bool(saved.get("advised"))
    player.migration = player_file.saved_texts(saved.get("migration", []))
    player._last_data.restore(parts["last"], saved["problem"].get("data"))
