"""The workers of a Dask cluster. This is the only module that knows Dask, and it is imported when
one is used."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from .executors import CLUSTER, Workers

ASK = 2.0
"""Seconds between questions to the scheduler how many workers there are."""
PATIENCE = 300.0
"""Seconds without any worker after which a sweep ends with an error."""
GO_ON = (
    "Finished cells are kept in the folder, if one was given: call taut.sweep again with the same "
    "arguments to go on."
)


def connect(address: str) -> Any:
    """Return a client of the scheduler at an address."""
    try:
        from distributed import Client
    except ImportError:
        raise ImportError(
            f"executor: got {address!r}, but Dask is not installed. Install it with: {CLUSTER}"
        ) from None
    try:
        return Client(address, timeout=20)
    except (OSError, ValueError) as error:
        raise ConnectionError(
            f"executor: got {address!r}, where no Dask scheduler answers ({error})"
        ) from error


class DaskWorkers(Workers):
    """The workers of a cluster, through a client.

    Arguments:
        client: a Dask client.
        owned: whether the sweep made the client and has to close it.
    """

    def __init__(self, client: Any, owned: bool = False) -> None:
        if getattr(client, "asynchronous", False):
            raise TypeError(
                "executor: got an asynchronous Dask client; expected one made with Client(address)"
            )
        self._client, self._owned = client, owned
        self.address = str(client.dashboard_link or "")
        self._known, self._asked = 0, -ASK
        self._seen = time.monotonic()
        """When there were workers, as far as is known; at the beginning, now."""
        self._tasks: dict[Future[Any], Any] = {}

    def count(self) -> int:
        """Return the number of threads of all workers; the cluster may grow and shrink."""
        if time.monotonic() > self._asked + ASK and self._connected:
            threads = 0
            with contextlib.suppress(OSError):  # the scheduler does not answer now, but may later
                threads = sum(self._client.nthreads().values())
            self._asked = time.monotonic()
            if threads:
                self._known, self._seen = threads, self._asked
        return max(1, self._known)

    @property
    def _connected(self) -> bool:
        return str(self._client.status) == "running"

    def check(self) -> None:
        """Raise an error if there have been no workers for long, for example because the scheduler
        was started again without them."""
        self.count()
        if time.monotonic() - self._seen > PATIENCE:
            raise ConnectionError(
                f"executor: the Dask scheduler has had no workers for {PATIENCE:g} s. Start "
                "workers; if they take longer to start, wait for them with "
                f"client.wait_for_workers(1) first. {GO_ON}"
            )

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        """Start a task. Dask would take the result of an earlier task with equal arguments if it
        were called pure."""
        try:
            task = self._client.submit(function, *arguments, pure=False)
        except Exception as error:  # Dask raises many kinds for a lost connection
            raise ConnectionError(
                f"executor: the connection to the Dask scheduler is lost ({error}). {GO_ON}"
            ) from error
        future: Future[Any] = Future()
        self._tasks[future] = task
        task.add_done_callback(lambda done: self._finish(done, future))
        return future

    def _finish(self, task: Any, future: Future[Any]) -> None:
        self._tasks.pop(future, None)
        try:
            if task.status == "finished":
                future.set_result(task.result())
            elif task.status == "error":
                future.set_exception(task.exception())
            else:
                raise RuntimeError("cancelled")
        except Exception:  # the result lay on a worker that was lost, or the task was cancelled
            if future.cancel():
                future.set_running_or_notify_cancel()

    def lost(self, error: BaseException) -> bool:
        """Return whether an error means that workers died while they ran the task."""
        from distributed import KilledWorker

        return isinstance(error, KilledWorker) or super().lost(error)

    def kill(self, future: Future[Any]) -> bool:
        """Cancel a task and end the worker that runs it, since a compiled loop does not notice that
        it is cancelled.

        Dask's nanny starts a new worker in its place.
        """
        task = self._tasks.get(future)
        if task is None or not self._connected:
            return False
        busy = [address for address, keys in self._client.processing().items() if task.key in keys]
        task.cancel(force=True)
        if busy:
            with contextlib.suppress(OSError):  # the worker cannot answer any more
                self._client.run(_end_process, workers=busy, wait=False, on_error="ignore")
        return True

    def close(self) -> None:
        """Cancel what is left, and close the client if it is ours."""
        if self._connected:  # otherwise nothing is left
            for task in list(self._tasks.values()):
                task.cancel()
        if self._owned:
            self._client.close()


async def _end_process() -> None:
    """Run by the event loop of a worker, also while its threads are busy. Dask waits for other
    functions, not for coroutines."""
    os.kill(os.getpid(), signal.SIGKILL)
