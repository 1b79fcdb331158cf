"""The file of a player: an npz archive with a JSON header, as `taut.storage` writes it.

The header holds learner, domain, feedback and the types of the data; the arrays are those of the
learner's state, of totals and extremes, the history, the rounds that are missing, the fingerprint
of the problem and the last data of a guard, each under the name of its part.

A file cannot hold the functions of a problem. It holds the values that they have at fixed decisions
and data, so that another loss, another capacity or swapped names are noticed when it is loaded.
Values do not depend on how a function is written, nor on versions of JAX.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from .. import arguments, files, storage
from ..engine import VERSION, Array
from ..learners import Learner
from ..play.with_feedback import through
from ..problem.domains.support import centre_of, project_rows
from ..problem.evaluation import constraint_evaluation, loss_evaluation
from ..problem.feedback import Feedback, as_feedback
from ..problem.problem import Problem
from .data import DataTypes, data_in, example_of
from .guards import as_limits, check_reaction
from .memory import MissingRounds, data_from_arrays, data_to_arrays
from .observation import LOST
from .steps import PlayerState, with_room

if TYPE_CHECKING:
    from ..fleet.fleet import Fleet
    from .player import Player


FORMAT = 5
"""The only format that is read."""
PROBES = 6
"""Decisions at which loss and constraints are evaluated, each with data of its own."""
PARTS = ("state", "totals", "extremes", "history", "first", "missing", "problem", "last")


def contents(player: Player, history: bool = True) -> tuple[dict[str, Any], dict[str, Array]]:
    """Return header and arrays of a file."""
    arguments.flag("history", history)
    with player._lock:
        problem, names = player.problem, player.constraint_names
        header = {
            "what": "player",
            "format": FORMAT,
            **described(player, player._data),
            "history": player._history.asked,
            "rounds": [player.observed, player.unknown, player._changed],
        }
        optional = {
            "announced_count": None if problem.announced is None else player._data.counts[1],
            "feedback": None if player.feedback is None else files.pack(player.feedback),
            "constraint_names": None if names is None else list(names),
            "room": player._room,
            "advised": True if player._begun is not None and player._begun.advised else None,
            "migration": list(player.migration) or None,
        }
        header |= {name: value for name, value in optional.items() if value is not None}
        state = player._state()
        parts = {
            "state": files.flat((state.game.learner, state.game.previous)),
            "totals": files.flat(state.game.totals),
            "extremes": files.flat(state.seen),
            "history": player._history.to_arrays() if history else {},
            "first": {"0": player._first},
            "missing": player._missing.to_arrays(math.prod(player._shape)),
            "problem": fingerprint_of(player, player._data.skeleton),
            "last": data_to_arrays(player._last_data),
        }
        return header, as_arrays(parts)


def described(owner: Player | Fleet, data: DataTypes) -> dict[str, Any]:
    """Return what a header says of a player or of a fleet, and of the data of its rounds."""
    problem, names = owner.problem, owner.constraint_names
    coordinates = problem.coordinate_names
    return {
        "version": VERSION,
        "learner": files.pack(owner.learner),
        "domain": problem.domain.to_dict(),
        "count": data.counts[0],
        "dtype": str(owner._dtype),
        "data": data.described(),
        "problem": {
            "shape": list(problem.domain.shape),
            "coordinate_names": None if coordinates is None else list(coordinates),
            "constraint_names": None if names is None else list(names),
            "previous": problem.previous,
        },
    }


def fingerprint_of(owner: Player | Fleet, structure: Any) -> dict[str, Array]:
    """Return the fingerprint of the problem of a player or of a fleet for data of this structure.
    It is computed once."""
    if owner._fingerprint is None or owner._fingerprint[0] != structure:
        owner._fingerprint = structure, fingerprint(owner.problem, structure, owner._dtype)
    return owner._fingerprint[1]


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
    from . import migrate as migration

    arguments.instance("problem", problem, Problem, "taut.Problem(...)")
    if not isinstance(learner, Learner | None):
        raise TypeError(f"learner: got {arguments.shown(learner)}; expected a taut learner")
    renamed = migration.as_names(migrate)
    check_reaction(on_refuted)
    if limits is not None:
        as_limits(limits)  # wrong ones are the caller's, not the file's
    same = learner if renamed is None else None  # a migrated player may get another learner
    saved, arrays, came = _read(source, same)
    own_feedback = _saved_feedback(came, saved.get("feedback"), as_feedback(feedback))
    options = {"limits": limits, "on_refuted": on_refuted}
    try:
        changed = differences(problem, saved, as_parts(arrays)["problem"])
        same_learner = learner is None or files.same(files.pack(learner), saved["learner"])
        if not changed.all and not renamed and same_learner:  # nothing has to be migrated
            return revived(
                files.unpack(saved["learner"]), problem, saved, arrays, own_feedback, **options
            )
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
        raise ValueError(f"{'. '.join(changed.all)}. Pass migrate=True to go on with it ({came})")
    return migration.migrated(
        problem, saved, arrays, changed, renamed, learner, own_feedback, options
    )


def unpickled(
    learner: Learner,
    problem: Problem,
    saved: dict[str, Any],
    arrays: dict[str, Array],
    feedback: Feedback | None = None,
) -> Player:
    """Return a copy of a player, perhaps in another process."""
    check_precision(
        "player: got one", saved, " is unpickled, or JAX_ENABLE_X64=1 in the environment"
    )
    return revived(learner, problem, saved, arrays, feedback)


def revived(
    learner: Learner,
    problem: Problem,
    saved: dict[str, Any],
    arrays: dict[str, Array],
    feedback: Feedback | None = None,
    **options: Any,
) -> Player:
    """Return the player whose file has these contents; `options` are arguments of `Player`."""
    from .player import Player

    parts = as_parts(arrays)
    sized = through(with_room(learner, saved.get("room")), feedback)
    check_size(sized, problem.domain.shape, saved, parts)
    player = Player(
        learner,
        problem,
        x1=jnp.asarray(problem.domain.centre, saved["dtype"]),
        count=saved["count"],
        announced_count=saved.get("announced_count"),
        feedback=feedback,
        unproven=True,
        history=saved.get("history"),
        **options,
    )
    restore(player, saved, parts)
    return player


def restore(player: Player, saved: dict[str, Any], parts: dict[str, dict[str, Array]]) -> None:
    """Set state, history and the type of the data to those of a file."""
    if player._room is not None:
        player._make_room(saved["room"])
    model, size = player._state(), math.prod(player._shape)
    learner, previous = files.like((model.game.learner, model.game.previous), parts["state"])
    totals = files.like(model.game.totals, parts["totals"])
    seen = files.like(model.seen, parts["extremes"])
    observed, unknown, changed = (_whole(number) for number in saved["rounds"])
    x, first = np.asarray(learner.x), parts["first"]["0"]
    if not np.isfinite(x).all() or not player.problem.domain.contains(jnp.asarray(x), 1e-6):
        raise ValueError("its decision is outside the domain")
    if first.shape != (size,):
        raise ValueError("its first decision is not one of this problem")
    player._missing = MissingRounds.from_arrays(parts["missing"], size, player.problem.previous)
    over = unknown + player._missing.migrated
    game = model.game._replace(
        learner=learner, previous=previous, totals=totals, t=jnp.asarray(observed + 1, jnp.int32)
    )
    state = PlayerState(learner.x, game, seen, jnp.asarray(over, jnp.int32))
    player._now = player._steps.pack(state)
    player._first, player._changed = first, changed
    player._history.restore(parts["history"], player.round - 1)
    player._saved_names = _saved_names(saved, player._count)
    player._data.restore(saved)
    player._begun = LOST if saved.get("advised") else None
    player.migration = _saved_texts(saved.get("migration", []))
    if player._keeps_data:
        player._last_data = data_from_arrays(parts["last"], player._data)


def _saved_names(saved: Mapping[str, Any], count: int) -> tuple[str, ...] | None:
    """Return the names of the constraints in a header; None if it has none."""
    names = saved.get("constraint_names")
    if names is None:
        return None
    if not isinstance(names, list) or [type(name) for name in names] != [str] * count:
        raise ValueError(f"constraint_names is not a list of {count} texts")
    return tuple(names)


def _saved_texts(texts: Any) -> tuple[str, ...]:
    """Return sentences of a header."""
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise ValueError(f"migration is {texts!r}")
    return tuple(texts)


def as_arrays(parts: Mapping[str, Mapping[str, Array]]) -> dict[str, Array]:
    """Return the arrays of all parts under one name each."""
    return {
        f"{part}/{name}": array
        for part, entries in parts.items()
        for name, array in entries.items()
    }


def as_parts(arrays: Mapping[str, Array]) -> dict[str, dict[str, Array]]:
    """Return the arrays of a file by part."""
    parts: dict[str, dict[str, Array]] = {part: {} for part in PARTS}
    for name, array in arrays.items():
        part, _, entry = name.partition("/")
        parts[part][entry] = array
    return parts


def _read(
    source: str | Path | bytes, learner: Any = None
) -> tuple[dict[str, Any], dict[str, Array], str]:
    """Read a file, or the bytes of one, and check that its header is one of a player, and by this
    learner if one is given. Returns header, arrays, and how errors call the source."""
    if isinstance(source, bytes):
        shown, came = f"{len(source)} bytes", f"content: got {len(source)} bytes"
        saved, arrays = storage.arrays_from_bytes(source, "content", shown)
    else:
        came = f"path: got {source}"
        saved, arrays = storage.read_arrays(arguments.path("path", source))
    what, number = saved.get("what"), saved.get("format")
    if what != "player" or type(number) is not int or number != FORMAT:
        raise ValueError(
            f"{came}, with {what!r} in format {number!r}; expected 'player' in format {FORMAT}"
        )
    try:
        files.refuse_newer(saved.get("version"))
        wanted = {"learner": dict, "domain": dict, "count": int, "dtype": str, "problem": dict}
        for name, kind in wanted.items():
            if type(saved.get(name)) is not kind:
                raise ValueError(f"{name} is {saved.get(name)!r}")
        np.dtype(saved["dtype"])
        if not isinstance(files.unpack(saved["learner"]), Learner):
            raise ValueError(f"learner is {saved['learner']!r}")
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{came}, damaged ({error}); expected a player that taut saved") from error
    check_learner(learner, saved, came.partition("got ")[2])
    check_precision(came, saved)
    return saved, arrays, came


def check_learner(learner: Any, saved: Mapping[str, Any], what: str) -> None:
    """Refuse a learner that is not the one in a header."""
    if learner is not None and not files.same(files.pack(learner), saved["learner"]):
        by = files.unpack(saved["learner"])
        raise ValueError(
            f"learner: got {learner!r}, but {what} is by {by!r}; expected the learner that saved it"
        )


def check_precision(came: str, saved: Mapping[str, Any], more: str = "") -> None:
    """Refuse contents in 64 bits if JAX has 32."""
    dtype = np.dtype(saved["dtype"])
    if jax.dtypes.canonicalize_dtype(dtype) != dtype:
        raise ValueError(
            f'{came} in {dtype}; expected jax.config.update("jax_enable_x64", True) before it{more}'
        )


def check_size(
    learner: Any,
    shape: tuple[int, ...],
    saved: Mapping[str, Any],
    parts: Mapping[str, Mapping[str, Array]],
) -> None:
    """Raise ValueError if the learner of a file has another state than the file, before any memory
    is taken for it; `shape` is that of a decision.

    A small file could otherwise name a learner with a memory of 10^9 rounds, or 10^9 constraints.
    """
    count, announced = saved["count"], saved.get("announced_count", 0)
    if type(announced) is not int or min(count, announced) < 0:
        raise ValueError(f"count is {count} and announced_count is {announced}")
    stored = sum(array.size for entries in parts.values() for array in entries.values())
    if count + announced > stored:
        raise ValueError(f"it has {count + announced} constraints, but {stored} numbers")
    if any(array.dtype.kind == "f" and np.isnan(array).any() for array in parts["state"].values()):
        raise ValueError("the state contains NaN")
    x1 = jax.ShapeDtypeStruct(shape, np.dtype(saved["dtype"]))
    needed = sum(
        leaf.size for leaf in jax.tree.leaves(jax.eval_shape(lambda x: learner.init(x, count), x1))
    )
    if needed > stored:
        raise ValueError(f"its learner has a state of {needed} numbers, but it contains {stored}")


def _saved_feedback(came: str, packed: Any, own: Feedback | None) -> Feedback | None:
    """Return the feedback of a file, or the given one if it is the same."""
    try:
        saved = as_feedback(files.unpack(packed))
    except (KeyError, TypeError, ValueError) as error:
        if own is None or not files.same(
            files.pack(own), packed
        ):  # a function of the user is not in the file
            raise ValueError(
                f"{came}, damaged ({error}); expected a player that taut saved"
            ) from error
        return own
    if own is None:
        return saved
    if not files.same(files.pack(own), packed):
        raise ValueError(
            f"feedback: got {own!r}, but {came.partition('got ')[2]} is by {saved!r}; expected "
            "the same feedback"
        )
    return own


def _whole(number: Any) -> int:
    if type(number) is not int or number < 0:
        raise ValueError(f"the number of rounds is {number!r}")
    return number


def fingerprint(
    problem: Problem, structure: Any, dtype: Any, points: Array | None = None
) -> dict[str, Array]:
    """Return a few decisions with the values of loss and constraints there, by name.

    They are decisions of the domain, or `points`, those of another fingerprint. Without a
    description of the data, only constraints that take no data are evaluated.
    """
    scored = problem.scored_constraints
    if structure is None and (scored.takes_data or problem.previous):
        return {}
    rng, shape = np.random.default_rng(0), problem.domain.shape
    if points is None:
        centre = centre_of(problem.domain).ravel()
        reach = float(problem.domain.radius) / max(1, centre.size) ** 0.5
        away = rng.uniform(-1, 1, (PROBES, centre.size)) * reach
        points = project_rows(problem.domain, centre + away).astype(dtype)
    x = points.reshape(-1, 1, *shape)
    if structure is None:
        return {"points": points, "excess": _excess(problem, x, None)}
    rng = np.random.default_rng(1)
    rows = [example_of(structure, rng) for _ in points]
    z = jax.tree.map(lambda *each: np.stack(each)[:, None], *rows)
    data = problem.given(z, np.roll(x, 1, axis=0))
    loss = loss_evaluation(problem).values(x, data)[:, 0]
    return {"points": points, "loss": loss.astype(float), "excess": _excess(problem, x, data)}


def _excess(problem: Problem, x: Array, given: Any) -> Array:
    scored = problem.scored_constraints
    data = given if scored.takes_data else None
    return constraint_evaluation(problem, scored).values(x, data)[:, 0].astype(float)


class Differences(NamedTuple):
    """What differs between a problem and that of a file, in sentences; empty if nothing does."""

    domain: str = ""
    names: tuple[str, ...] = ()
    shape: str = ""
    loss: str = ""
    constraints: str = ""

    @property
    def all(self) -> tuple[str, ...]:
        """All sentences."""
        texts = (self.domain, *self.names, self.shape, self.loss, self.constraints)
        return tuple(filter(None, texts))


def differences(
    problem: Problem, header: Mapping[str, Any], saved: Mapping[str, Array]
) -> Differences:
    """Compare a problem with the header and the fingerprint of a file; ValueError if the header is
    damaged."""
    tag, texts, domain = header["problem"], [], ""
    if not files.same(problem.domain.to_dict(), header["domain"]):
        domain = (
            f"problem: got the domain {problem.domain!r}; expected that in the file: "
            f"{header['domain']}"
        )
    for what in ("coordinate_names", "constraint_names"):
        own, other = getattr(problem, what), tag.get(what)
        if other is not None and own is not None and list(own) != list(other):
            texts.append(f"{what}: got {list(own)}; expected {list(other)}, as in the file")
    shape = tuple(tag.get("shape", ()))
    if shape != problem.domain.shape:
        text = f"problem: got decisions of shape {problem.domain.shape}; expected {shape}"
        return Differences(domain, tuple(texts), text)
    values = _other_values(problem, data_in(header), saved, np.dtype(header["dtype"]))
    return Differences(domain, tuple(texts), "", *values)


def _other_values(
    problem: Problem, data: Any, saved: Mapping[str, Array], dtype: Any
) -> tuple[str, str]:
    """Say whether loss and constraints have other values than the fingerprint of a file."""
    if not saved:
        return "", ""
    points = saved["points"]
    if points.ndim != 2 or points.shape[1] != np.prod(problem.domain.shape, dtype=int):
        raise ValueError("its fingerprint has other decisions")
    if data is not None:
        example_of(data)  # a damaged description is no fault of the user's functions
    try:
        here = fingerprint(problem, data, dtype, points.astype(dtype))
    except (TypeError, ValueError, KeyError, IndexError, AttributeError) as error:
        # The user's functions take other data than the player observed.
        return f"loss: got one that raised {error!r} with data like those in the file", ""
    room = max(1e-6, 1e3 * float(np.finfo(dtype).eps))
    texts = []
    for name in ("loss", "excess"):
        value, before = here.get(name), saved.get(name)
        if value is None or before is None:
            texts.append("")
        elif value.shape != before.shape:
            texts.append(f"got values of shape {value.shape[1:]}; expected {before.shape[1:]}")
        elif not _close(value, before, room):
            with np.errstate(invalid="ignore"):
                far = np.abs(value - before)
            place = np.unravel_index(int(np.nanargmax(np.nan_to_num(far, nan=-1))), value.shape)
            texts.append(
                f"got a function with the value {value[place]:.6g} at a decision where it was "
                f"{before[place]:.6g} when the file was written"
            )
        else:
            texts.append("")
    loss, constraints = texts
    return (loss and f"loss: {loss}"), (constraints and f"constraints: {constraints}")


def _close(values: Array, before: Array, room: float) -> bool:
    """Return whether two arrays are the same up to rounding of their largest entries."""
    finite = np.abs(before[np.isfinite(before)])
    return np.allclose(values, before, rtol=room, atol=room * finite.max(initial=0), equal_nan=True)
