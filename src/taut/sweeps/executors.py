"""Where cells are played: threads of this process, processes of this machine, or whatever has
`submit`, such as a cluster."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from .. import arguments
from ..jax_internals import backend_started

if TYPE_CHECKING:
    from concurrent.futures import ProcessPoolExecutor


CLUSTER = 'pip install "taut[cluster]"'


class Workers:
    """An executor as the driver sees it."""

    remote = True
    """Whether cells are played in other processes, so that they must be pickled."""
    ahead = 2
    """Tasks per worker that are submitted at a time. One that waits keeps the worker busy while its
    result travels."""
    isolates = False
    """Whether a process that dies takes only its own task with it."""
    address = ""
    """Where a person can watch the workers, if anywhere."""

    def count(self) -> int:
        """Return the number of tasks that run at the same time."""
        raise NotImplementedError  # every subclass defines it

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        """Start a task."""
        raise NotImplementedError  # every subclass defines it

    def lost(self, error: BaseException) -> bool:
        """Return whether an error means that a worker died, rather than that a task raised it."""
        return isinstance(error, (BrokenExecutor, CancelledError))

    def check(self) -> None:
        """Raise an error if there is no hope that the tasks that wait are ever played."""

    def renew(self) -> Workers:
        """Return the workers that go on after some of them died."""
        return self

    def kill(self, future: Future[Any]) -> bool:
        """End the worker that runs a task, if that is possible."""
        return False

    def close(self) -> None:
        """Release what the sweep itself has started."""


class Processes(Workers):
    """Processes of this machine that are started anew (spawn), each with a pool of its own.

    If a process dies, only the task that it was playing is lost, and nobody else is suspected.
    """

    ahead = 1
    isolates = True

    def __init__(self, count: int) -> None:
        self._count = count
        self._free: list[ProcessPoolExecutor] = []
        self._busy: dict[Future[Any], ProcessPoolExecutor] = {}

    def count(self) -> int:
        """Return the number of processes."""
        return self._count

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        """Start a task in a free process, which is started first if there is none."""
        pool = self._free.pop() if self._free else _process()
        future = pool.submit(function, *arguments)
        self._busy[future] = pool
        future.add_done_callback(self._release)
        return future

    def _release(self, future: Future[Any]) -> None:
        pool = self._busy.pop(future)
        if future.cancelled() or isinstance(future.exception(), BrokenExecutor):
            pool.shutdown(wait=False, cancel_futures=True)
        else:
            self._free.append(pool)

    def kill(self, future: Future[Any]) -> bool:
        """End the process that runs a task; the task then fails as if the process had died."""
        pool = self._busy.get(future)
        for pid in list(getattr(pool, "_processes", None) or ()):
            os.kill(pid, signal.SIGKILL)
        return pool is not None

    def close(self) -> None:
        """End all processes; those that still play are killed."""
        for future, pool in list(self._busy.items()):
            self.kill(future)
            pool.shutdown(wait=False, cancel_futures=True)
        for pool in self._free:
            pool.shutdown(wait=True)


class Pool(Workers):
    """Threads of this process, whose compiled code does not hold the interpreter lock, or another
    executor of the user.

    Arguments:
        executor: anything with `submit`.
        owned: whether the sweep made the executor and has to close it.
    """

    def __init__(self, executor: Any, owned: bool = False) -> None:
        self._executor, self._owned = executor, owned
        if isinstance(executor, ThreadPoolExecutor):
            self.remote, self.ahead = False, 1

    def count(self) -> int:
        """Return the number of workers, if the executor tells it."""
        return int(getattr(self._executor, "_max_workers", 0) or cores())

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        """Start a task."""
        try:
            future = self._executor.submit(function, *arguments)
        except BrokenExecutor as error:
            future = Future()
            future.set_exception(error)
        if not callable(getattr(future, "add_done_callback", None)):
            raise TypeError(
                f"executor: got one whose submit returns {type(future).__name__}; expected "
                "futures like those of concurrent.futures"
            )
        return future

    def renew(self) -> Workers:
        """Go on with processes of our own: a pool of which one process died takes no further
        tasks."""
        return Processes(self.count()) if _is_process_pool(self._executor) else self

    def close(self) -> None:
        """Wait for the tasks that run, and forget the others. An executor of the user goes on."""
        if self._owned:
            self._executor.shutdown(wait=True, cancel_futures=True)


def as_workers(executor: Any) -> Workers:
    """Return the workers that a user's `executor` stands for."""
    if executor is None or executor == "threads":
        return Pool(ThreadPoolExecutor(cores()), owned=True)
    if isinstance(executor, (int, float)) and not isinstance(executor, bool):
        count = arguments.count("executor", executor)
        return Pool(ThreadPoolExecutor(count), owned=True)
    if executor == "processes":
        return Processes(cores())
    if isinstance(executor, str) and "://" in executor:
        from .dask_workers import DaskWorkers, connect

        return DaskWorkers(connect(executor), owned=True)
    if _is_process_pool(executor):
        _refuse_fork(executor)
    client = getattr(executor, "_client", executor)
    if type(client).__module__.partition(".")[0] == "distributed" and hasattr(client, "scheduler"):
        from .dask_workers import DaskWorkers

        return DaskWorkers(client)
    if isinstance(executor, Executor) or (
        callable(getattr(executor, "submit", None)) and not isinstance(executor, type)
    ):
        return Pool(executor)
    raise TypeError(
        f"executor: got {arguments.shown(executor)}; expected None or a number of threads, "
        '"processes", the address of a Dask scheduler such as "tcp://host:8786", a Dask client, '
        "or an executor with submit"
    )


def _process() -> ProcessPoolExecutor:
    """Return a pool of one process."""
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    return ProcessPoolExecutor(1, mp_context=get_context("spawn"))


def _is_process_pool(executor: Any) -> bool:
    """Return whether an executor is a pool of processes. The module that defines it is slow to
    load, so it is not loaded here."""
    loaded = sys.modules.get("concurrent.futures.process")
    return loaded is not None and isinstance(executor, loaded.ProcessPoolExecutor)


def _refuse_fork(executor: Any) -> None:
    context = getattr(executor, "_mp_context", None)
    if context is not None and context.get_start_method() == "fork" and backend_started():
        raise ValueError(
            "executor: got processes that are forked, in which JAX does not work; expected "
            "ProcessPoolExecutor(mp_context="
            'multiprocessing.get_context("spawn")), or "processes"'
        )


def cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
