"""The workers of a Dask cluster. This is the only module that knows Dask, and it is imported when one is used."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from .executors import CLUSTER, Workers

__all__ = ["DaskWorkers", "connect"]

ASK = 2.0
"""Seconds between questions to the scheduler how many workers there are."""


def connect(address: str) -> Any:
    """Return a client of the scheduler at an address."""
    try:
        from distributed import Client
    except ImportError:
        raise ImportError(f"executor: got {address!r}, but Dask is not installed. Install it with: {CLUSTER}") from None
    try:
        return Client(address, timeout=20)
    except OSError as error:
        raise ConnectionError(f"executor: got {address!r}, where no Dask scheduler answers ({error})") from error


class DaskWorkers(Workers):
    """The workers of a cluster, through a client.

    Arguments:
        client: a Dask client.
        owned: whether the sweep made the client and has to close it.
    """

    def __init__(self, client: Any, owned: bool = False) -> None:
        self._client, self._owned = client, owned
        self._executor = client.get_executor(pure=False)
        self.address = str(client.dashboard_link or "")
        self._known, self._asked = 0, -ASK

    def count(self) -> int:
        """Return the number of threads of all workers; the cluster may grow and shrink."""
        if time.monotonic() > self._asked + ASK:
            self._known = sum(self._client.nthreads().values()) or self._known
            self._asked = time.monotonic()
        return max(1, self._known)

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        """Start a task."""
        future: Future[Any] = self._executor.submit(function, *arguments)
        return future

    def lost(self, error: BaseException) -> bool:
        """Return whether an error means that workers died while they ran the task."""
        from distributed import KilledWorker

        return isinstance(error, KilledWorker) or super().lost(error)

    def close(self) -> None:
        """Close the client, if it is ours."""
        if self._owned:
            self._client.close()
