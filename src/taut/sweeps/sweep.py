"""The public function `taut.sweep`: many independent simulations, spread over threads, processes or
a cluster."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np

from .. import arguments, files
from ..engine import VERSION, cache_folder, default_float, require_jax
from ..identity import Descriptions, digest_of_tree, numerics, problem_digest
from ..problem.compatibility import first_decision, round_shapes
from ..problem.streams import Adversary, Arrays, Chunks, Stream, as_stream
from ..progress import Counter, counting
from .cell import Cell, Ready, make_stream, prepare
from .driver import Driver
from .executors import as_workers
from .result import Sweep
from .store import INDEX, Played, Store, write_index
from .task import Failure, Outcome, settings

NOTED = ("kind", "message", "traceback", "where")
"""What the folder keeps of a failure."""


def sweep(
    cells: Iterable[Cell],
    executor: Any = None,
    *,
    folder: str | Path | None = None,
    cache: str | Path | None = None,
    retry: bool = False,
    timeout: float | None = None,
    progress: bool | Counter | None = None,
) -> Sweep:
    """Play many independent simulations in threads, in processes or on a cluster.

    Arguments:
        cells: what to play, a list of `taut.Cell`.
        executor: where to play. None or a number: threads of this process. "processes": one new
            process per core. The address of a Dask scheduler such as "tcp://host:8786", or a Dask
            client: its workers. Otherwise anything with `submit(function, *arguments)` that returns
            futures, for example a `ProcessPoolExecutor` that spawns.
        folder: where results are kept, one small file per cell; workers must reach it under the
            same path. Called again with the same cells and folder, the sweep plays only what is
            missing. `index.parquet` there is the table of the cells of the last call.
        cache: a folder for compiled programs that all workers share; by default that of this
            process, if it has one.
        retry: whether to play again the cells that failed in an earlier call with this folder.
        timeout: seconds that a cell may take, checked between chunks of its rounds. It then counts
            as failed.
        progress: show how many cells are done, in a bar if standard error is a terminal, else in a
            line per minute; by default only in a terminal. A `Counter` counts the cells of several
            sweeps.

    Returns a `taut.Sweep`. A cell that fails does not stop the others: it is listed in `failed`
    with its error.

    Every executor gives the same results, bit for bit, on machines of the same kind; so does a
    sweep that was interrupted. On one machine threads are as fast as processes. Cells are sent in
    groups that take about two seconds. All workers must have the same versions of Python, NumPy,
    JAX and taut. Cells on the same problem should share the same `taut.Problem` object, so that it
    is compiled once.

    The name of a cell's file is a checksum of learner, problem, stream, horizon and versions. A
    changed loss or constraint is noticed, because its traced program changes. A changed recipe,
    `measure` or method of one's own is noticed, and so is a change of the functions, classes and
    variables that it reads. Not noticed are changes of files that a function reads.

    >>> import jax.numpy as jnp, numpy as np, taut
    >>> toy = taut.Problem(
    ...     lambda x, c: c @ x, lambda x: jnp.abs(x).sum() - 1, taut.Ball(1.0, shape=2)
    ... )
    >>> costs = np.tile([1.0, 0.0], (50, 1))
    >>> cells = [
    ...     taut.Cell(taut.ClippedOGD(eta, 4.0), toy, costs, tags={"eta": eta})
    ...     for eta in (0.1, 0.2)
    ... ]
    >>> found = taut.sweep(cells)
    >>> found.to_pandas()[["eta", "loss"]].round(2).to_dict("list")
    {'eta': [0.1, 0.2], 'loss': [-44.5, -47.0]}
    """
    require_jax()
    arguments.flag("retry", retry)
    if progress is not None and not isinstance(progress, Counter):
        arguments.flag("progress", progress)
    named = _named(cells)
    timeout = None if timeout is None else arguments.positive("timeout", timeout)
    shared = cache_folder() if cache is None else str(arguments.path("cache", cache).absolute())
    store = _store(folder)
    ready = _ready(named, store)
    played: dict[str, Played] = {}
    failures: dict[str, Failure] = {}
    notes: list[str] = []
    environments: list[dict[str, Any]] = []
    with nullcontext() if store is None else store.opened():
        if store is not None:
            played, failures = _known(ready, store, retry)
        known = len(played)
        waiting = {
            name: cell
            for name, cell in ready.items()
            if name not in played and name not in failures
        }
        if not waiting and isinstance(progress, Counter):
            progress.skip(len(ready))
        if waiting:
            workers = as_workers(executor)
            with _counting(progress, len(ready), workers.address) as counter:
                counter.skip(len(ready) - len(waiting))

                def done(outcome: Outcome) -> None:
                    if outcome.played is not None:
                        played[outcome.cell] = outcome.played
                    elif outcome.failure is not None:
                        failures[outcome.cell] = outcome.failure
                        notes.extend(_noted(outcome.failure, ready[outcome.cell], store))
                    counter.advance()

                driver = Driver(waiting, workers, store, settings(shared), timeout, done)
                driver.run()
                environments = driver.environments
        result = Sweep(
            cells=named,
            failed=tuple(failures[name] for name in ready if name in failures),
            played=len(played) - known,
            folder=None if store is None else store.folder,
            environments=tuple(environments),
            notes=tuple(notes),
            _played=played,
            _ready=ready,
        )
        if store is not None:
            try:
                write_index(store, result)
            except OSError as error:  # the disk may be full; the results themselves are there
                result = replace(result, notes=(*notes, f"{INDEX} is not written: {error}"))
    return result


def _counting(
    progress: bool | Counter | None, total: int, address: str
) -> AbstractContextManager[Counter]:
    if isinstance(progress, Counter):
        return nullcontext(progress)
    return counting(progress, total, address=address)


def _named(cells: Any) -> dict[str, Cell]:
    """Return the cells by name."""
    if not isinstance(cells, Iterable) or isinstance(cells, (str, bytes, jax.Array)):
        raise TypeError(
            f"cells: got {arguments.shown(cells)}; expected a list of taut.Cell(learner, problem, "
            "stream)"
        )
    named: dict[str, Cell] = {}
    for i, cell in enumerate(cells):
        if not isinstance(cell, Cell):
            raise TypeError(
                f"cells: got {arguments.shown(cell)} at position {i}; expected taut.Cell(learner, "
                "problem, stream)"
            )
        name = str(i) if cell.name is None else cell.name
        if name in named:
            raise ValueError(f"cells: got two cells called {name!r}; expected names that differ")
        named[name] = cell
    if not named:
        raise ValueError("cells: got none; expected at least one taut.Cell")
    return named


def _ready(named: dict[str, Cell], store: Store | None) -> dict[str, Ready]:
    """Return the cells with their arguments checked, and with the names of their files if there is
    a folder."""
    shared: dict[Any, Any] = {}
    known, prepared = Identities(), {}
    for number, (name, cell) in enumerate(named.items()):
        try:
            ready = prepare(cell, shared, name)
            prepared[name] = ready if store is None else replace(ready, identity=known.of(ready))
        except Exception as error:  # it is raised again with the name of its cell
            error.add_note(f"This happened for cell {number}, called {name!r}.")
            raise
    return prepared


def _store(folder: str | Path | None) -> Store | None:
    if folder is None:
        return None
    folder = arguments.path("folder", folder)
    if folder.exists() and not folder.is_dir():
        raise ValueError(
            f"folder: got {folder}, a file; expected a folder, which need not exist yet"
        )
    return Store(folder)


def _known(
    ready: dict[str, Ready], store: Store, retry: bool
) -> tuple[dict[str, Played], dict[str, Failure]]:
    """Return what an earlier call has played, and what failed then and is not played again."""
    played, failures = {}, {}
    for name, cell in ready.items():
        stored = store.read(cell.identity, cell.kept)
        noted = None if retry or stored is not None else store.failure(cell.identity)
        if stored is not None:
            played[name] = stored.brief()
        elif noted is not None:
            parts: dict[str, Any] = {part: str(noted.get(part, "")) for part in NOTED}
            failures[name] = Failure(name, **parts)
    return played, failures


def _noted(failure: Failure, cell: Ready, store: Store | None) -> list[str]:
    """Write what failed into the folder; return a note if that is impossible."""
    if store is None or failure.unwritten:
        return []
    try:
        store.fail(cell.identity, {part: getattr(failure, part) for part in ("name", *NOTED)})
    except OSError as reason:  # the disk may be full
        return [f"the failure of {cell.name} is not written, so it is played again: {reason}"]
    return []


class Identities:
    """Computes identities, and remembers what cells have in common: problems and recipes."""

    def __init__(self) -> None:
        self._known: dict[Any, Any] = {}
        self._descriptions = Descriptions()

    def of(self, cell: Ready) -> str:
        """Return the identity of a cell, 40 hexadecimal digits."""
        source, description = self._stream(cell)
        first = first_decision(cell.problem, cell.x1)
        describe = self._descriptions
        measured = None
        if cell.measure is not None:  # it may ask for a certificate, which needs the constants
            constants = files.pack(cell.problem.constants)
            measured = [describe.of(cell.measure, "measure"), constants]
        facts = {
            "learner": [files.pack(cell.learner), describe.of_classes(cell.learner, "learner")],
            "problem": self._problem(cell, source, first),
            "stream": description,
            "horizon": cell.horizon,
            "seeds": cell.seeds,
            "x1": describe.of(cell.x1, "x1"),
            "key": describe.of(cell.key, "key"),
            "record": cell.record,
            "every": cell.every,
            "chunk": cell.chunk,
            "feedback": describe.of(cell.feedback, "feedback"),
            "measure": measured,
            "keep": cell.keep,
            "float": str(default_float()),
            "versions": [VERSION, numerics(), jax.__version__],
        }
        return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:40]

    def _problem(self, cell: Ready, stream: Stream | None, first: jax.Array) -> Any:
        if stream is None:
            return None
        random_key = jax.random.key(0) if stream.reacts else None
        example = round_shapes(stream, first, random_key)
        reacting = (
            (id(stream.function), id(stream.state)) if isinstance(stream, Adversary) else None
        )
        key = (id(cell.problem), id(cell.score), reacting, str(example), first.dtype)

        def describe() -> Any:
            digest = problem_digest(cell.problem, cell.score, stream, first, example)
            return [cell.problem.domain.to_dict(), digest]

        return self._remembered(key, describe, cell.problem, cell.score, stream)

    def _stream(self, cell: Ready) -> tuple[Stream | None, Any]:
        """Return a stream of the same shapes, and what identifies the data. A recipe that fails
        here will fail when played."""
        stream = cell.stream
        if isinstance(stream, Stream):
            return stream, self._remembered((id(stream),), lambda: self._data(stream), stream)
        recipe = self._descriptions.of(stream, "stream")
        key = (json.dumps(recipe), id(cell.problem), cell.horizon, cell.seeds)

        def shapes() -> Stream | None:
            try:
                made = make_stream(stream)
                data = as_stream(cell.problem.arrange(made), horizon=cell.horizon, seeds=cell.seeds)
            except Exception:  # the cell will fail with this error, and the others are played
                return None
            if not isinstance(data, Arrays):
                return data
            return Arrays(jax.tree.map(np.zeros_like, data.block(0, 1)), 1, data.seeds, True)

        return self._remembered(key, shapes, cell.problem), recipe

    def _remembered(self, key: Any, make: Any, *alive: Any) -> Any:
        """Return what `make` returned the first time. The objects whose `id` is in the key are kept
        alive."""
        if key not in self._known:
            self._known[key] = make(), alive
        return self._known[key][0]

    def _data(self, stream: Stream) -> Any:
        """Describe what a stream reveals."""
        if isinstance(stream, Arrays):
            data = stream.block(0, stream.horizon)
            return ["arrays", str(jax.tree.structure(data)), digest_of_tree(data)]
        if isinstance(stream, (Chunks, Adversary)):
            function = self._descriptions.of(stream.function, "stream")
            return [type(stream).__name__.lower(), function]
        return [type(stream).__name__, self._descriptions.of(vars(stream), "stream")]
