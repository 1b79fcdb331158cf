"""Where cells are played: threads of this process, processes of this machine, or whatever has
`submit`, such as a cluster."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterable
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeVar

import jax

from .. import arguments
from ..jax_internals import backend_started

if TYPE_CHECKING:
    from concurrent.futures import ProcessPoolExecutor


CLUSTER = 'pip install "taut[cluster]"'
Result = TypeVar("Result")


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

    def renew(self) -> None:
        """Replace workers that died, if the executor does not do it by itself."""

    def kill(self, future: Future[Any]) -> bool:
        """End the worker that runs a task, if that is possible."""
        return False

    def close(self) -> None:
        """Release what the sweep itself has started."""


class Threads(Workers):
    """Threads of this process. Compiled code does not hold the interpreter lock."""

    remote = False
    ahead = 1

    def __init__(self, count: int) -> None:
        self._count = count
        self._pool = ThreadPoolExecutor(count)

    def count(self) -> int:
        """Return the number of threads."""
        return self._count

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        """Start a task."""
        return self._pool.submit(function, *arguments)

    def lost(self, error: BaseException) -> bool:
        """Return False: a thread does not die alone."""
        return False

    def close(self) -> None:
        """Wait for the tasks that run, and forget the others."""
        self._pool.shutdown(wait=True, cancel_futures=True)


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


class Given(Workers):
    """An executor of the user."""

    def __init__(self, executor: Any) -> None:
        self._executor: Any = executor
        self._own: Processes | None = None

    def count(self) -> int:
        """Return the number of workers, if the executor tells it."""
        return (
            self._own.count()
            if self._own
            else int(getattr(self._executor, "_max_workers", 0) or cores())
        )

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        """Start a task."""
        if self._own:
            return self._own.submit(function, *arguments)
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

    def renew(self) -> None:
        """Go on with processes of our own: a pool of which one process died takes no further
        tasks."""
        if _is_process_pool(self._executor) and self._own is None:
            self._own, self.ahead, self.isolates = Processes(self.count()), 1, True

    def kill(self, future: Future[Any]) -> bool:
        """End the process that runs a task, if it is one of ours."""
        return self._own is not None and self._own.kill(future)

    def close(self) -> None:
        """Release our own processes. The executor belongs to the user."""
        if self._own:
            self._own.close()


def as_workers(executor: Any) -> Workers:
    """Return the workers that a user's `executor` stands for."""
    if executor is None or executor == "threads":
        return Threads(cores())
    if isinstance(executor, (int, float)) and not isinstance(executor, bool):
        return Threads(arguments.count("executor", executor))
    if executor == "processes":
        return Processes(cores())
    if isinstance(executor, str) and "://" in executor:
        from .dask_workers import DaskWorkers, connect

        return DaskWorkers(connect(executor), owned=True)
    if isinstance(executor, ThreadPoolExecutor):
        return _given_threads(executor)
    if _is_process_pool(executor):
        _refuse_fork(executor)
        return Given(executor)
    client = getattr(executor, "_client", executor)
    if type(client).__module__.partition(".")[0] == "distributed" and hasattr(client, "scheduler"):
        from .dask_workers import DaskWorkers

        return DaskWorkers(client)
    if isinstance(executor, Executor) or (
        callable(getattr(executor, "submit", None)) and not isinstance(executor, type)
    ):
        return Given(executor)
    raise TypeError(
        f"executor: got {arguments.shown(executor)}; expected None or a number of threads, "
        '"processes", the address of a Dask scheduler such as "tcp://host:8786", a Dask client, '
        "or an executor with submit"
    )


def _given_threads(executor: ThreadPoolExecutor) -> Workers:
    given = Given(executor)
    given.remote = False
    given.ahead = 1
    return given


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


def simulate_all(jobs: Iterable[Callable[[], Result]], threads: int | None = None) -> list[Result]:
    """The results of `jobs`, in their order; the first error among them is raised.

    Arguments:
        jobs: functions without arguments, for example `functools.partial(taut.simulate, learner,
            problem, stream)`.
        threads: how many run at a time; by default two per core that this process may use, because
            a simulation has moments in which its core has nothing to do.

    Seeds of one simulation need no threads: `simulate(..., seeds=n)` computes them together in one.
    Threads are for simulations that differ in more than data or parameters, and for more seeds than
    one core should compute.

    >>> simulate_all([lambda: 1, lambda: 2], threads=2)
    [1, 2]
    """
    if not isinstance(jobs, Iterable) or isinstance(jobs, (str, bytes, jax.Array)):
        raise TypeError(f"jobs: got {jobs!r}; expected a list of functions without arguments")
    jobs = list(jobs)
    for job in jobs:
        if not callable(job):
            raise TypeError(
                f"jobs: got {job!r}; expected functions without arguments, as functools.partial "
                "makes them"
            )
    workers = 2 * cores() if threads is None else arguments.count("threads", threads)
    with ThreadPoolExecutor(max_workers=workers) as pool:
        return [future.result() for future in [pool.submit(job) for job in jobs]]


def cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
