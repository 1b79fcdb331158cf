"""Players of another problem: a changed capacity, a new unit, other names.

What a player has learned is taken over as far as it is true of the new problem. Entries of a
decision are matched by name. A kept cut stays if all decisions satisfy it that the new constraints
allow; this is computed, not assumed. Everything that is not taken over is said in a sentence.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np

from .. import arguments, files
from ..engine import Array
from ..learners import Learner
from ..learners.half_space.method import HalfSpace, HalfSpaceState
from ..play.announced import announced_needs_data
from ..play.packing import as_arrays
from ..play.with_feedback import through
from ..problem.domains import Domain
from ..problem.domains.base import domain_from_dict
from ..problem.problem import Problem
from .file import Differences, as_parts, check_size
from .memory import MissingRounds
from .steps import with_room

if TYPE_CHECKING:
    from .player import Player


LOG = logging.getLogger("taut.player")
TOUCHING = 1e-6
"""A cut that excludes feasible decisions by less than this share of the diameter is moved until it
excludes none."""


def as_names(migrate: Any) -> dict[str, str] | None:
    """Return the new names of entries of a decision by their old ones; None if nothing may
    change."""
    if isinstance(migrate, Mapping):
        if not all(isinstance(name, str) for pair in migrate.items() for name in pair):
            raise TypeError(
                f"migrate: got {arguments.shown(migrate)}; expected new names by old ones"
            )
        return dict(migrate)
    return {} if arguments.flag("migrate", migrate) else None


def migrated(
    problem: Problem,
    saved: Mapping[str, Any],
    arrays: Mapping[str, Array],
    changed: Differences,
    renamed: Mapping[str, str],
    learner: Learner | None,
    feedback: Any,
    options: Mapping[str, Any],
) -> Player:
    """Return a player of the problem that goes on with what a file knows.

    `changed` says how the problems differ, `renamed` has new names of entries of the decision by
    old ones. Without a learner, that of the file plays, with the sizes of the new domain.
    """
    from .player import Player

    parts, notes = as_parts(arrays), list[str]()
    by: Learner = files.unpack(saved["learner"])
    before = domain_from_dict(saved["domain"])
    place = _places(problem, before, saved["problem"], renamed, notes)
    decision = np.asarray(parts["state"]["0"], float)  # the first part of every state
    inner: Any = None
    old_previous: Any = None
    try:
        state, old_previous = _state(
            with_room(by, saved.get("room")), before, saved, parts, feedback
        )
        inner = getattr(state, "inner", state)
    except files.OtherState as error:
        if decision.shape != before.shape or not np.isfinite(decision).all():
            raise
        notes.append(f"all but the decision: the file is of taut {saved['version']}, and {error}")
    centre = np.asarray(problem.domain.centre, float).ravel()
    x = np.where(place >= 0, decision.ravel()[place], centre)
    x1 = problem.domain.project(jnp.asarray(x.reshape(problem.domain.shape), saved["dtype"]))
    needs_count = (
        problem.announced is not None
        and problem.announced_count is None
        and announced_needs_data(problem)
    )
    player = Player(
        learner or _resized(by, before, problem, notes),
        problem,
        x1=np.asarray(x1),
        count=saved["count"] if problem.constants.constraint_count is None else None,
        announced_count=saved.get("announced_count") if needs_count else None,
        feedback=feedback,
        unproven=True,
        history=saved.get("history"),
        **options,
    )
    if player._room is not None and saved.get("room") is not None:
        player._make_room(saved["room"])
    begun = player._state()
    own, previous = begun.game.learner, begun.game.previous
    if previous is not None and old_previous is not None:
        there = np.asarray(old_previous, float).ravel()[place]
        there = np.where(place >= 0, there, np.asarray(x1, float).ravel())
        previous = jnp.asarray(there.reshape(problem.domain.shape), saved["dtype"])
    taken = own if inner is None else _taken(player, own, inner, place, changed, notes)
    rounds = _rounds(parts, before, saved)
    game = begun.game._replace(learner=taken, previous=previous)
    skipped = jnp.asarray(rounds, jnp.int32)
    player._now = player._steps.pack(begun._replace(x=taken.x, game=game, skipped=skipped))
    player._missing = MissingRounds(migrated=rounds)
    player._history.restore({}, rounds)
    notes.append(f"totals and history of the {rounds} rounds before: they are of another problem")
    player.migration = (*saved.get("migration", ()), *changed.all, *notes)
    for note in notes:
        LOG.warning("not taken over: %s", note, extra={"taut_event": "migrated"})
    return player


def _rounds(parts: Mapping[str, dict[str, Array]], before: Domain, saved: Mapping[str, Any]) -> int:
    """Return how many rounds the file has seen."""
    size = int(np.prod(before.shape))
    remembers = bool(saved["problem"].get("previous"))
    missing = MissingRounds.from_arrays(parts["missing"], size, remembers)
    observed, unknown, _ = saved["rounds"]
    return int(observed) + int(unknown) + missing.migrated


def _places(
    problem: Problem,
    before: Domain,
    tag: Mapping[str, Any],
    renamed: Mapping[str, str],
    notes: list[str],
) -> Array:
    """Return, for each entry of the new decision, its place in the old one; -1 if it is new."""
    size, old = int(np.prod(problem.domain.shape)), tag.get("coordinate_names")
    new = problem.coordinate_names
    if old is None or new is None:
        if renamed:
            raise ValueError(
                f"migrate: got new names {dict(renamed)}, but the decisions of the problem or of "
                "the file have no names; expected migrate=True"
            )
        if problem.domain.shape != before.shape:
            raise ValueError(
                f"problem: got decisions of shape {problem.domain.shape}, the file has "
                f"{before.shape}; expected coordinate_names in both, by which they are matched"
            )
        return np.arange(size)
    unknown = [name for name in renamed if name not in old] + [
        name for name in renamed.values() if name not in new
    ]
    if unknown:
        raise ValueError(
            f"migrate: got {unknown}; expected names of the file, {list(old)}, with names of the "
            f"problem, {list(new)}"
        )
    known = {renamed.get(name, name): i for i, name in enumerate(old)}
    if len(known) < len(old):
        raise ValueError(f"migrate: got {dict(renamed)}, which gives two entries one name")
    gone = [name for name in known if name not in new]
    added = [name for name in new if name not in known]
    if gone:
        notes.append(f"the entries {', '.join(gone)} of the decision: the problem has none")
    if added:
        notes.append(f"the entries {', '.join(added)} are new and begin at the domain's centre")
    return np.array([known.get(name, -1) for name in new])


def _state(
    learner: Learner, before: Domain, saved: Mapping[str, Any], parts: Any, feedback: Any
) -> Any:
    """Return the state in the file: of the learner, and the previous decision or None."""
    check_size(through(learner, feedback), before.shape, saved, parts)
    ready = as_arrays(through(learner, feedback), np.dtype(saved["dtype"]))
    x = jnp.zeros(before.shape, saved["dtype"])
    previous = x if saved["problem"].get("previous") else None
    return files.like((ready.init(x, saved["count"]), previous), parts["state"])


def _resized(learner: Learner, before: Domain, problem: Problem, notes: list[str]) -> Learner:
    """Return the learner of the file, with the sizes of the new domain if it had those of the
    old one."""
    after = problem.domain
    if files.same(before.to_dict(), after.to_dict()):
        return learner
    if isinstance(learner, HalfSpace):
        names = ("memory", "sweeps", "joint", "rows", "life")
        cuts = {name: getattr(learner, name) for name in names}
        fresh = HalfSpace.adaptive(before, **cuts)
        if files.same(files.pack(fresh), files.pack(learner)):
            return HalfSpace.adaptive(after, **cuts)
    notes.append(
        f"{learner!r} is the learner of the old domain; pass learner= for one that is tuned for "
        "the new one"
    )
    return learner


def _taken(
    player: Player, own: Any, old: Any, place: Array, changed: Differences, notes: list[str]
) -> Any:
    """Return the state of the new player with what is taken over from the old one."""
    if not isinstance(own, HalfSpaceState) or not isinstance(old, HalfSpaceState):
        notes.append(
            f"the state of {type(player.learner).__name__} other than its decision: only "
            "half-space learners without feedback can use it"
        )
        return own
    taken = own._replace(t=old.t)
    if (own.slopes is None) == (old.slopes is None):
        taken = taken._replace(slopes=old.slopes)
    else:
        notes.append("the step size: the learners have different ones")
    if old.cuts is None or own.cuts is None:
        return taken
    normals, offsets = np.asarray(old.cuts.normals), np.asarray(old.cuts.offsets)
    used = np.any(normals != 0, axis=1)
    if not used.any():
        return taken
    if len(own.cuts.normals) != len(normals):
        notes.append("the kept cuts: the learners keep different numbers of them")
        return taken
    moved = np.where(place >= 0, normals[:, place], 0)
    gone = np.setdiff1d(np.arange(normals.shape[1]), place)
    hold, highest = np.zeros(len(used), bool), offsets
    problem = player.problem
    if not changed.constraints and not changed.shape:
        hold, highest = used, offsets
    elif not problem.constraints.takes_data:
        hold, highest = _that_hold(problem, moved, offsets, used)
    hold = hold & ~np.any(normals[:, gone] != 0, axis=1)
    if (used & ~hold).any():
        notes.append(
            f"{int((used & ~hold).sum())} of {int(used.sum())} kept cuts: they exclude decisions "
            "that the new constraints allow, or it cannot be known whether they do"
        )
    dtype = own.cuts.normals.dtype
    return taken._replace(
        cuts=old.cuts._replace(
            normals=jnp.asarray(np.where(hold[:, None], moved, 0), dtype),
            offsets=jnp.asarray(np.where(hold, highest, 0), dtype),
            active=jnp.asarray(np.where(hold, np.asarray(old.cuts.active), 0), jnp.int32),
        )
    )


def _that_hold(
    problem: Problem, normals: Array, offsets: Array, used: Array
) -> tuple[Array, Array]:
    """Return which cuts contain all decisions that the constraints allow, and offsets with which
    they exclude none."""
    from ..judge.hindsight import hindsight

    towards = normals[used]
    linear = Problem(lambda x, z: -jnp.sum(z * x.reshape(-1)), problem.constraints, problem.domain)
    best = hindsight(linear, towards[:, None, :], seeds=len(towards))
    highest = offsets.copy()
    highest[used] = -np.asarray(best.loss) + np.asarray(best.slack)
    room = TOUCHING * float(problem.domain.diameter)
    return used & (highest <= offsets + room), np.maximum(highest, offsets)
