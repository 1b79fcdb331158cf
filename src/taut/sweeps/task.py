"""What a worker does: set JAX up, unpickle, play cells, and write their files.

A task consists of bytes and plain values only. JAX is set up before anything is unpickled, because
arrays of a user's function would otherwise be cut to 32 bits. Unpickled problems are kept by the
checksum of their bytes: the same object again means the same compiled program again.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import platform
import sys
import threading
import time
import traceback
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from importlib import metadata
from typing import Any

import jax

from .. import engine
from ..identity import numerics
from ..play.simulate import deadline, simulate
from .cell import Ready, is_recipe, make_stream
from .store import Played, Store, measured, run_arrays

BUDGET = 3.0
"""Seconds after which a task plays no further cell and returns those that are left."""
OBJECTS = 64
"""Unpickled problems and streams that a process keeps."""
RECIPES = 8
"""Streams made by recipes that a process keeps."""
_objects: OrderedDict[Any, Any] = OrderedDict()
_lock = threading.RLock()
OPTIONS = (
    *("horizon", "seeds", "score", "x1", "key", "record", "every", "chunk"),
    *("feedback", "unproven"),
)
"""Fields of a cell that are arguments of `simulate` by the same name."""
PICKLED_ONCE = ("problem", "score", "stream")
"""Fields of a cell that are sent apart, because cells share them."""


@dataclass(frozen=True)
class Failure:
    """A cell that failed: its name, the error, and where it happened."""

    name: str
    kind: str
    """The class of the error."""
    message: str
    traceback: str
    where: str = ""
    """The machine."""
    exception: Any = field(default=None, repr=False, compare=False)
    """The exception itself, if it is known in this process; on its way between processes, its
    pickle."""
    unwritten: bool = field(default=False, repr=False)
    """Whether the cell was played, but its file could not be written, for example because the disk
    is full. The next call plays it again."""

    @classmethod
    def of(cls, name: str, error: BaseException, where: str = "", pickled: bool = False) -> Failure:
        """Describe the exception of a cell."""
        exception: bytes | BaseException | None = error
        if pickled:
            try:
                exception = pickle.dumps(error)
                pickle.loads(exception)
            except Exception:  # many exceptions cannot be restored from their arguments
                exception = None
        text = "".join(traceback.format_exception(error))
        return cls(name, type(error).__name__, str(error), text, where, exception)

    def received(self) -> Failure:
        """Return the failure as this process sees it."""
        if not isinstance(self.exception, bytes):
            return self
        try:
            return replace(self, exception=pickle.loads(self.exception))
        except Exception:  # its class may not exist here
            return replace(self, exception=None)

    def __str__(self) -> str:
        return f"{self.name}: {self.kind}: {self.message}"


@dataclass(frozen=True)
class Outcome:
    """What became of one cell: played, failed, or neither if the task had no time left for it."""

    cell: str
    """Its name."""
    played: Played | None = None
    failure: Failure | None = None


def settings(cache: str | None) -> dict[str, Any]:
    """Return what a worker must set or check before it unpickles anything, as plain values."""
    return {"x64": bool(jax.config.read("jax_enable_x64")), "cache": cache, "versions": versions()}


def versions() -> dict[str, str]:
    """Return the versions that must agree, because other ones compute other bits or cannot read the
    pickles."""
    python = ".".join(map(str, sys.version_info[:2]))
    packages = {name: metadata.version(name) for name in ("jax", "jaxlib", "numpy")}
    return {"python": python, "taut": engine.VERSION, "taut's source": numerics(), **packages}


def environment() -> dict[str, Any]:
    """Return what a process computes with. The driver refuses a mix."""
    return {
        "host": platform.node(),
        "pid": os.getpid(),
        "x64": bool(jax.config.read("jax_enable_x64")),
        "passes": sorted(engine.chosen_passes() or ()),
        "backend": jax.default_backend(),
        "machine": platform.machine(),
    }


@contextmanager
def _prepared(wanted: Mapping[str, Any]) -> Iterator[None]:
    """Set up JAX in this thread as in the process that began the sweep, or raise an error if that
    is impossible."""
    engine.require_jax()
    here = versions()
    other = [
        f"{name} {here[name]} instead of {known}"
        for name, known in wanted["versions"].items()
        if here[name] != known
    ]
    if other:
        raise RuntimeError(
            f"executor: got a worker on {platform.node()} with {', '.join(other)}; expected the "
            "versions of the process that began the sweep, because other versions give other "
            "results"
        )
    if wanted["cache"] is not None and engine.cache_folder() != wanted["cache"]:
        engine.cache(wanted["cache"])
    with _Precision.shared(wanted["x64"]):
        yield


class _Precision:
    """The precision of JAX in this process while tasks run. Tasks with another precision wait until
    they have ended."""

    changed = threading.Condition()
    tasks = 0
    before = False

    @classmethod
    @contextmanager
    def shared(cls, x64: bool) -> Iterator[None]:
        """Compute with 64 or 32 bits, and restore the setting of the process when no task is
        left."""
        with cls.changed:
            cls.changed.wait_for(lambda: not cls.tasks or jax.config.read("jax_enable_x64") == x64)
            if not cls.tasks:
                cls.before = jax.config.read("jax_enable_x64")
                jax.config.update("jax_enable_x64", x64)
            cls.tasks += 1
        try:
            yield
        finally:
            with cls.changed:
                cls.tasks -= 1
                if not cls.tasks:
                    jax.config.update("jax_enable_x64", cls.before)
                    cls.changed.notify_all()


def packed(
    cell: Ready, known: dict[int, tuple[str, bytes, Any]]
) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Return a cell as plain values, and the pickles that it refers to, by their checksums.

    Arguments:
        cell: the cell.
        known: filled here with the checksum and the pickle of objects by their `id`; it keeps the
            objects alive.
    """
    objects, contents = {}, {}
    for part in PICKLED_ONCE:
        value = getattr(cell, part)
        if value is None:
            continue
        if id(value) not in known:
            content = _cloudpickle().dumps(value)
            known[id(value)] = hashlib.sha256(content).hexdigest(), content, value
        objects[part], contents[known[id(value)][0]] = known[id(value)][:2]
    names = {entry.name for entry in fields(cell)} - {*PICKLED_ONCE, "tags"}
    rest = _cloudpickle().dumps({name: getattr(cell, name) for name in sorted(names)})
    return {"name": cell.name, "objects": objects, "rest": rest}, contents


def _cloudpickle() -> Any:
    try:
        import cloudpickle
    except ImportError:
        raise ImportError(
            "executor: other processes need the package cloudpickle, which is not installed. "
            "Install it with: "
            'pip install "taut[cluster]"'
        ) from None
    return cloudpickle


def play_task(
    wanted: Mapping[str, Any],
    folder: str | None,
    timeout: float | None,
    blobs: Mapping[str, bytes],
    parts: Sequence[Any],
) -> tuple[dict[str, Any], list[Outcome]]:
    """Play cells that came as bytes. Returns the environment of this process, and what became of
    each cell."""
    with _prepared(wanted):
        cells, outcomes = [], []
        for part in parts:
            try:
                objects = {
                    name: _interned(wanted["x64"], key, blobs[key])
                    for name, key in part["objects"].items()
                }
                cells.append(Ready(**({"score": None} | objects), **pickle.loads(part["rest"])))
            except Exception as error:  # whatever a user's module raises when it is imported here
                failure = Failure.of(part["name"], error, platform.node(), pickled=True)
                outcomes.append(Outcome(part["name"], failure=failure))
        store = None if folder is None else Store(folder)
        return environment(), [*outcomes, *play_cells(cells, store, timeout, pickled=True)]


def _interned(x64: bool, checksum: str, content: bytes) -> Any:
    """Unpickle an object, or return the one that the same bytes gave before."""
    with _lock:
        key = x64, checksum
        if key not in _objects:
            _objects[key] = pickle.loads(content)
            while len(_objects) > OBJECTS:
                _objects.popitem(last=False)
        _objects.move_to_end(key)
        return _objects[key]


def play_cells(
    cells: Sequence[Ready], store: Store | None, timeout: float | None, pickled: bool = False
) -> list[Outcome]:
    """Play cells while there is time.

    Arguments:
        cells: what to play.
        store: where to write files, or None.
        timeout: seconds per cell, or None.
        pickled: whether results go to another process.
    """
    begun = time.monotonic()
    streams: OrderedDict[int, Any] = OrderedDict()
    outcomes: list[Outcome] = []
    for cell in cells:
        in_time = not outcomes or time.monotonic() - begun <= BUDGET
        outcomes.append(
            _outcome(cell, store, timeout, streams, pickled) if in_time else Outcome(cell.name)
        )
    return outcomes


def _outcome(
    cell: Ready,
    store: Store | None,
    timeout: float | None,
    streams: OrderedDict[int, Any],
    pickled: bool,
) -> Outcome:
    """Play one cell and write its file. The sweep goes on after an error, and lists it with its
    cell."""
    unwritten = False
    try:
        played = _play(cell, timeout, streams, here=store is None and not pickled)
        if store is not None:
            unwritten = True
            store.write(cell.identity, played)
            played = played.brief()
        return Outcome(cell.name, played)
    except Exception as error:  # the sweep lists it with its cell
        failure = Failure.of(cell.name, error, platform.node(), pickled)
        unwritten = unwritten and isinstance(error, OSError)
        return Outcome(cell.name, failure=replace(failure, unwritten=unwritten))


def _play(cell: Ready, timeout: float | None, streams: OrderedDict[int, Any], here: bool) -> Played:
    """Play one cell and measure its run. A run that stays `here`, in this process, is kept as it
    is."""
    begun = time.perf_counter()
    with deadline(timeout):
        options = {name: getattr(cell, name) for name in OPTIONS}
        run = simulate(cell.learner, cell.problem, _stream(cell.stream, streams), **options)
        seconds = time.perf_counter() - begun
        measures = measured(run, cell.measure)
    if not cell.keep:
        run = replace(run, loss=None, excess=None, decisions=None, multipliers=None, path=None)
    if here:
        return Played.here(run, measures, seconds)
    return Played(*run_arrays(run, measures), seconds)


def _stream(stream: Any, made: OrderedDict[int, Any]) -> Any:
    """Return a stream; that of a recipe is made once for all cells of a task that share it."""
    if not is_recipe(stream):
        return stream
    if id(stream) not in made:
        made[id(stream)] = make_stream(stream)
        while len(made) > RECIPES:
            made.popitem(last=False)
    return made[id(stream)]
