"""The public function `taut.sweep`: many independent simulations, spread over threads, processes or
a cluster."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax

from .. import arguments
from ..engine import cache_folder, require_jax
from ..progress import Counter, counting
from ..storage import lock_folder
from .cell import Cell, Ready, prepare
from .driver import Driver
from .executors import Workers, as_workers
from .identity import Identities
from .index import INDEX, write_index
from .result import Failure, Sweep
from .store import Played, Store
from .task import Error, Outcome, settings

__all__ = ["sweep"]


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
            missing. `index.parquet` there is the table of all cells.
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
    shared: dict[Any, Any] = {}
    ready = {name: _prepared(i, name, cell, shared) for i, (name, cell) in enumerate(named.items())}
    store = _store(folder)
    identities = {} if store is None else _identities(ready)
    options = {"cache": cache, "timeout": timeout, "progress": progress}
    with nullcontext() if store is None else _locked(store):
        played, failures, waiting = _known(ready, identities, store, retry)
        new: list[str] = []
        notes: list[str] = []
        environments: list[dict[str, Any]] = []
        if not waiting and isinstance(progress, Counter):
            progress.skip(len(ready))
        if waiting:
            workers = as_workers(executor)
            try:
                with _counter(progress, len(ready), workers) as counter:
                    counter.skip(len(ready) - len(waiting))
                    names = list(ready)
                    twins = _twins(waiting, identities)

                    def done(outcome: Outcome) -> None:
                        for name in twins[names[outcome.cell]]:
                            identity = identities.get(name)
                            notes.extend(_keep(name, outcome, played, failures, store, identity))
                            new.append(name)
                            counter.advance()

                    numbers = {names.index(name): ready[name] for name in twins}
                    driver = Driver(
                        numbers,
                        {i: identities[names[i]] for i in numbers if names[i] in identities},
                        workers,
                        store,
                        settings(_cache(cache)),
                        timeout,
                        done,
                    )
                    driver.run()
                    environments = driver.environments
            finally:
                workers.close()
        result = Sweep(
            names=tuple(ready),
            cells=named,
            failed=tuple(failures[name] for name in ready if name in failures),
            played=sum(name in played for name in new),
            folder=None if store is None else store.folder,
            environments=tuple(environments),
            notes=tuple(notes),
            _played=played,
            _ready=ready,
            _identities=identities,
            _options=options,
        )
        if store is not None:
            try:
                write_index(store, result)
            except OSError as error:  # the disk may be full; the results themselves are there
                result = replace(result, notes=(*notes, f"{INDEX} is not written: {error}"))
    return result


def _named(cells: Any) -> dict[str, Cell]:
    """Return the cells by name."""
    if not isinstance(cells, Iterable) or isinstance(cells, (str, bytes, jax.Array)):
        raise TypeError(
            f"cells: got {arguments.shown(cells)}; expected a list of taut.Cell(learner, problem, "
            "stream)"
        )
    found: dict[str, Cell] = {}
    for i, cell in enumerate(cells):
        if not isinstance(cell, Cell):
            raise TypeError(
                f"cells: got {arguments.shown(cell)} at position {i}; expected taut.Cell(learner, "
                "problem, stream)"
            )
        name = str(i) if cell.name is None else cell.name
        if name in found:
            raise ValueError(f"cells: got two cells called {name!r}; expected names that differ")
        found[name] = cell
    if not found:
        raise ValueError("cells: got none; expected at least one taut.Cell")
    return found


def _prepared(number: int, name: str, cell: Cell, shared: dict[Any, Any]) -> Ready:
    try:
        return prepare(cell, shared)
    except Exception as error:  # it is raised again with the name of its cell
        error.add_note(f"This happened for cell {number}, called {name!r}.")
        raise


def _identities(ready: dict[str, Ready]) -> dict[str, str]:
    known, found = Identities(), {}
    for name, cell in ready.items():
        try:
            found[name] = known.of(cell)
        except Exception as error:  # it is raised again with the name of its cell
            error.add_note(f"This happened for cell {name!r}, while its file was given a name.")
            raise
    return found


def _store(folder: str | Path | None) -> Store | None:
    if folder is None:
        return None
    folder = arguments.path("folder", folder)
    if folder.exists() and not folder.is_dir():
        raise ValueError(
            f"folder: got {folder}, a file; expected a folder, which need not exist yet"
        )
    return Store(folder)


@contextmanager
def _locked(store: Store) -> Iterator[None]:
    store.create()
    with lock_folder(store.folder, "folder"):
        yield


def _known(
    ready: dict[str, Ready], identities: dict[str, str], store: Store | None, retry: bool
) -> tuple[dict[str, Played], dict[str, Failure], list[str]]:
    """Return what an earlier call has played, what failed then, and what is left to play."""
    if store is None:
        return {}, {}, list(ready)
    played, failures, waiting = {}, {}, []
    for name, cell in ready.items():
        found = store.read(identities[name], cell.kept)
        noted = None if found is not None else store.failure(identities[name])
        if found is not None:
            played[name] = found.brief()
        elif noted is not None and not retry:
            kind, message, trace, where = (
                str(noted.get(key, "")) for key in ("kind", "message", "traceback", "where")
            )
            failures[name] = Failure(name, kind, message, trace, where)
        else:
            waiting.append(name)
    return played, failures, waiting


def _twins(waiting: list[str], identities: dict[str, str]) -> dict[str, list[str]]:
    """Return for each cell to be played all cells that are the same, up to their names and tags."""
    first: dict[str, str] = {}
    found: dict[str, list[str]] = {}
    for name in waiting:
        chosen = first.setdefault(identities.get(name, name), name)
        found.setdefault(chosen, []).append(name)
    return found


def _keep(
    name: str,
    outcome: Outcome,
    played: dict[str, Played],
    failures: dict[str, Failure],
    store: Store | None,
    identity: str | None,
) -> list[str]:
    """Keep what became of a cell; return a note if its failure could not be written."""
    if outcome.played is not None:
        played[name] = outcome.played
        failures.pop(name, None)
        if store is not None and identity is not None:
            store.forgive(identity)
    elif outcome.error is not None:
        error: Error = outcome.error
        failures[name] = Failure.of(name, error)
        if store is not None and identity is not None and not error.unwritten:
            noted = {
                "name": name,
                "kind": error.kind,
                "message": error.message,
                "traceback": error.traceback,
            }
            try:
                store.fail(identity, {**noted, "where": error.where})
            except OSError as reason:  # the disk may be full
                return [f"the failure of {name} is not written, so it is played again: {reason}"]
    return []


def _cache(folder: str | Path | None) -> str | None:
    if folder is None:
        return cache_folder()
    return str(arguments.path("cache", folder).absolute())


def _counter(
    progress: bool | Counter | None, total: int, workers: Workers
) -> AbstractContextManager[Counter]:
    if isinstance(progress, Counter):
        return nullcontext(progress)
    return counting(progress, total, address=workers.address)
