"""A fleet in a folder, or in bytes: part files with the rows of members, and one file that names
the parts.

A save writes the members that changed since the last one to a new part file. Only then the file
with the names is replaced, atomically: until that moment, and after a crash at any moment, the
folder contains the fleet as it was. When the parts contain many rows that are out of date, all
members are written again and old parts are removed. Nothing is ever unpickled.
"""

from __future__ import annotations

import json
import os
import re
import secrets
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import numpy as np

from .. import arguments, files, storage
from ..engine import Array, wrapped_key
from ..learners import Advised, Learner
from ..play.packing import Place
from ..player.file import (
    check_learner,
    check_precision,
    described,
    differences,
    fingerprint_of,
)
from ..problem.problem import Problem
from .members import Id, ids_from_arrays, ids_to_arrays

if TYPE_CHECKING:
    from .fleet import Fleet


FORMAT = 2
STORED = ("state/", "parameters/", "last/")
"""The beginnings of the names of arrays that are saved."""
NAMES = "fleet.npz"
"""The file that names the parts."""
PART_FILE = re.compile(r"members-[0-9a-f]{16}\.npz")
PART = 2**16
"""Members of one part file, at most."""
SLACK = 4096
"""Rows that are out of date, beyond as many as there are members, with which all are written
again."""


class Saved(NamedTuple):
    """The last save of a fleet."""

    folder: str
    token: str
    """A random text in the file that names the parts: if it is still there, nobody else has saved
    another fleet."""
    parts: tuple[str, ...]
    rows: int
    """Rows in all parts together."""


class Superseded(RuntimeError):
    """Another fleet has saved itself to the folder."""


def save(fleet: Fleet, path: str | Path, exclusive: bool = False) -> Saved:
    """Write the members that changed to a folder, and return what was saved.

    If another fleet has saved itself there since, all members are written, or, with `exclusive`,
    `Superseded` is raised.
    """
    folder = Path(os.path.realpath(arguments.path("path", path)))
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"path: got {path}, a file; expected a folder for the fleet")
    folder.mkdir(parents=True, exist_ok=True)
    with storage.lock_folder(folder, "path"):
        last = fleet._saved
        if last is not None and (last.folder != str(folder) or _token(folder) != last.token):
            if exclusive:
                raise Superseded(f"path: got {path}, where another fleet has saved itself")
            last = None
        slots = fleet._members.slots(None)
        changed = slots[fleet._members.arrays["changed"][slots]]
        if last is None or last.rows + len(changed) > 2 * len(fleet) + SLACK:
            last, changed = Saved(str(folder), "", (), 0), slots
        left = sorted(fleet._left) if last.parts else []
        parts = list(last.parts)
        for first in range(0, max(len(changed), 1), PART):
            rows = changed[first : first + PART]
            if not len(rows) and not left:
                break
            parts.append(f"members-{secrets.token_hex(8)}.npz")
            arrays = _arrays_of(fleet, rows, left if first == 0 else [])
            storage.write_arrays(folder / parts[-1], {"what": "members"}, arrays, follow=False)
        now = Saved(str(folder), secrets.token_hex(8), tuple(parts), last.rows + len(changed))
        about = {"token": now.token, "parts": parts, "rows": now.rows}
        storage.write_arrays(
            folder / NAMES, {"what": "fleet"}, _about_of(fleet, about), follow=False
        )
        for file in folder.iterdir():
            if _is_part(file.name) and file.name not in parts:
                file.unlink(missing_ok=True)
        storage.remove_stale_drafts(folder)  # that a crash left
    return now


def _token(folder: Path) -> str | None:
    """Return the token of the fleet in a folder; None if there is none that can be read."""
    try:
        token = _about(*storage.read_arrays(folder / NAMES))["token"]
    except (FileNotFoundError, ValueError):
        return None
    return str(token)


def _arrays_of(fleet: Fleet, slots: Array, left: list[Id]) -> dict[str, Array]:
    """Return the rows of members in these slots, with their ids, and the ids of those that left."""
    members = fleet._members
    return {
        **{f"ids/{name}": array for name, array in ids_to_arrays(members.ids_in(slots)).items()},
        **{f"left/{name}": array for name, array in ids_to_arrays(left).items()},
        **{name: array[slots] for name, array in members.arrays.items() if name.startswith(STORED)},
    }


def _about_of(fleet: Fleet, more: Mapping[str, Any]) -> dict[str, Array]:
    """Return what describes a fleet besides its members: a text, as an array that the checksum of
    a file covers, and values of loss and constraints, by which another problem is noticed."""
    parameters = fleet._members.rows("parameters", np.zeros(0, int))
    about = {
        "format": FORMAT,
        **described(fleet, fleet._data.types),
        "announced_count": fleet._data.counts[1],
        "first": files.pack(np.asarray(fleet._first)),
        "key": np.asarray(jax.random.key_data(fleet._key)).tolist(),
        "parameters": {
            name: [list(array.shape[1:]), str(array.dtype)] for name, array in parameters.items()
        },
        **more,
    }
    arrays = {"about": np.frombuffer(json.dumps(about).encode(), np.uint8)}
    for name, array in fingerprint_of(fleet, fleet._data.types.skeleton).items():
        arrays[f"problem/{name}"] = array
    return arrays


def _about(header: Mapping[str, Any], arrays: Mapping[str, Array]) -> dict[str, Any]:
    """Return the description of a fleet in a file; ValueError if the file is something else."""
    if header.get("what") != "fleet" or "about" not in arrays:
        raise ValueError(f"it contains {header.get('what')!r}, not a fleet")
    about = json.loads(arrays["about"].tobytes())
    if not isinstance(about, dict) or about.get("format") != FORMAT:
        raise ValueError(f"its format is not {FORMAT}, the only one that is read")
    files.refuse_newer(about.get("version"))
    return about


def load(kind: type[Fleet], path: str | Path, problem: Problem, learner: Any) -> Fleet:
    """Return the fleet that was saved in a folder."""
    folder = Path(os.path.realpath(arguments.path("path", path)))
    if not (folder / NAMES).is_file():
        raise FileNotFoundError(
            f"path: got {path}, without {NAMES}; expected a folder that fleet.save wrote"
        )
    try:
        header, arrays = storage.read_arrays(folder / NAMES)
        about = _about(header, arrays)
        _check_problem(problem, about, arrays)
        parts = about["parts"]
        if not isinstance(parts, list) or not all(map(_is_part, parts)):
            raise ValueError(f"its parts are {parts!r}")
        contents = (storage.read_arrays(folder / part)[1] for part in parts)
        fleet = _revived(kind, about, contents, problem, learner)
        saved = Saved(str(folder), str(about["token"]), tuple(parts), int(about["rows"]))
    except (KeyError, TypeError, json.JSONDecodeError) as error:
        raise ValueError(
            f"path: got {path}, damaged ({error}); expected a folder that fleet.save wrote"
        ) from error
    fleet._saved = saved
    return fleet


def _is_part(name: Any) -> bool:
    return isinstance(name, str) and PART_FILE.fullmatch(name) is not None


def to_bytes(fleet: Fleet) -> bytes:
    """Return all of a fleet."""
    slots = fleet._members.slots(None)
    return storage.arrays_to_bytes(
        {"what": "fleet"},
        {**_about_of(fleet, {}), **_arrays_of(fleet, slots, [])},
    )


def from_bytes(kind: type[Fleet], content: bytes, problem: Problem, learner: Any) -> Fleet:
    """Return the fleet that `to_bytes` wrote."""
    if not isinstance(content, bytes):
        raise TypeError(f"content: got {arguments.shown(content)}; expected bytes")
    header, arrays = storage.arrays_from_bytes(content, "content", f"{len(content)} bytes")
    try:
        about = _about(header, arrays)
        _check_problem(problem, about, arrays)
        return _revived(kind, about, iter([arrays]), problem, learner)
    except (KeyError, TypeError, json.JSONDecodeError) as error:
        raise ValueError(
            f"content: got {len(content)} bytes, damaged ({error}); expected those that "
            "fleet.to_bytes returned"
        ) from error


def _check_problem(problem: Problem, about: Mapping[str, Any], arrays: Mapping[str, Array]) -> None:
    """Refuse a problem that is not that of the fleet."""
    arguments.instance("problem", problem, Problem, "taut.Problem(...)")
    other = differences(problem, about, _group(arrays, "problem"))
    if other.all:
        raise ValueError(f"{'. '.join(other.all)}. The fleet was saved with another problem")


def _group(arrays: Mapping[str, Array], group: str) -> dict[str, Array]:
    """Return the arrays whose names begin with this word, by the rest of their names."""
    parts = ((name.partition("/"), array) for name, array in arrays.items())
    return {rest: array for (word, _, rest), array in parts if word == group}


def _revived(
    kind: type[Fleet],
    about: Mapping[str, Any],
    parts: Iterator[dict[str, Array]],
    problem: Problem,
    learner: Any,
) -> Fleet:
    """Return the fleet with this description and the members of these parts."""
    saved, dtype = files.unpack(about["learner"]), np.dtype(about["dtype"])
    if not isinstance(saved, Learner):
        raise ValueError(f"its learner is {about['learner']!r}")
    if not isinstance(learner, Learner | None):
        raise TypeError(f"learner: got {arguments.shown(learner)}; expected a taut learner")
    check_learner(learner, about, "the fleet")
    check_precision("path: got a fleet", about)
    none = {
        name: np.zeros((0, *map(int, shape)), np.dtype(number))
        for name, (shape, number) in about["parameters"].items()
    }
    fleet = kind(
        saved,
        problem,
        [],
        none,
        x1=np.asarray(files.unpack(about["first"]), dtype),
        count=about["count"],
        announced_count=about["announced_count"] if problem.announced is not None else None,
        key=wrapped_key(jax.numpy.asarray(about["key"], jax.numpy.uint32)),
    )
    types = fleet._data.types
    types.restore(about)
    if isinstance(saved, Advised) and types.known:
        fleet._last_data.fit(jax.tree.map(lambda leaf: leaf[None], types.example))
    for arrays in parts:
        _add_part(fleet, arrays)
    fleet._members.arrays["changed"][:] = False
    fleet._left.clear()
    return fleet


def _add_part(fleet: Fleet, arrays: Mapping[str, Array]) -> None:
    """Let members leave and join, or continue, as a part says."""

    def ids_of(group: str) -> list[Id]:
        return ids_from_arrays(_group(arrays, group))

    members = fleet._members
    members.leave([each for each in ids_of("left") if each in members])
    listed = ids_of("ids")
    members.join([each for each in listed if each not in members])
    slots = members.slots(listed)
    fleet._renew(slots)
    for name, array in members.arrays.items():
        if not name.startswith(STORED):
            continue
        if name.startswith("last/") and name not in arrays:  # saved before anything was observed
            continue
        rows = arrays[name]
        if rows.shape != (len(slots), *array.shape[1:]) or rows.dtype != array.dtype:
            raise ValueError(f"{name} has the shape {rows.shape} and the type {rows.dtype}")
        array[slots] = rows
    for place in jax.tree.leaves(fleet._columns, is_leaf=lambda part: isinstance(part, Place)):
        if place.dtype.kind == "f" and np.isnan(place.read(fleet._state, slots)).any():
            raise ValueError("a state contains NaN")
