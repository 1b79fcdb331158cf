"""The driver: hands cells to workers in groups, collects what became of them, and survives the
death of workers.

Cells are pure and their files are written atomically, so a cell may be played more than once: the
results have the same bits.
"""

from __future__ import annotations

import queue
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass, replace
from typing import Any

from .cell import Ready
from .executors import Workers
from .store import Store
from .task import Failure, Outcome, packed, play_cells, play_task

SECONDS = (0.5, 2.0)
"""A task should take between these times. Short ones cost more to send than to play, long ones
leave workers idle at the end."""
UNKNOWN = 64
"""Cells of a task, at most, while it is not known how long they take. A worker returns those that
it has no time for."""
ATTEMPTS = 2
"""How often a cell is played alone after the process that played it had died, before it counts as
failed."""
LOST, AGAIN = 5, 1.0
"""How often in a row all workers may be lost before the sweep ends with an error, and seconds
between two such losses."""
GRACE = 120.0
"""Seconds beyond twice the time limit after which the process of a cell is ended, if the executor
can do that. A new process may need most of them to import JAX and to compile."""
TICK = 0.5


@dataclass
class Task:
    """Cells that were submitted together."""

    cells: list[str]
    begun: float
    killed: bool = False


class Driver:
    """Plays cells with workers.

    Arguments:
        cells: what to play, by name.
        workers: the executor.
        store: where files are written, or None.
        settings: what workers set before they unpickle.
        timeout: seconds per cell, or None.
        done: called with each outcome.
    """

    def __init__(
        self,
        cells: dict[str, Ready],
        workers: Workers,
        store: Store | None,
        settings: dict[str, Any],
        timeout: float | None,
        done: Callable[[Outcome], None],
    ) -> None:
        self.cells, self.workers, self.store = cells, workers, store
        self.settings, self.timeout, self.done = settings, timeout, done
        self.waiting: dict[Any, deque[str]] = {}
        """Cells that wait, by program, so that a task compiles one program only."""
        order: dict[int, int] = {}
        for name in sorted(
            cells, key=lambda name: order.setdefault(id(cells[name].stream), len(order))
        ):
            self.waiting.setdefault(cells[name].program(), deque()).append(name)
        self.suspects: deque[str] = deque()
        """Cells whose worker died. They are played alone, to find the one that kills its
        process."""
        self.attempts: dict[str, int] = {}
        self.running: dict[Future[Any], Task] = {}
        self.finished: queue.SimpleQueue[Future[Any]] = queue.SimpleQueue()
        self.rates: dict[Any, float] = {}
        """Seconds per round and seed, by program."""
        self.environments: list[dict[str, Any]] = []
        self.pickles: dict[int, tuple[str, bytes, Any]] = {}
        """Pickles of problems and streams, made once per object."""
        self.losses = 0
        self.last_loss = -AGAIN

    def run(self) -> None:
        """Play all cells, and close the workers."""
        try:
            while self._submit() or self.running:
                try:
                    future = self.finished.get(timeout=TICK)
                except queue.Empty:
                    self.workers.check()
                    self._end_overdue()
                    continue
                self._collect(future)
        finally:
            for future in self.running:
                future.cancel()
            self.workers.close()

    def _submit(self) -> bool:
        """Submit tasks while workers have room. Returns whether any cell still waits."""
        room = max(1, self.workers.count()) * self.workers.ahead
        while len(self.running) < room:
            cells = self._next()
            if not cells:
                break
            future = self._start(cells)
            self.running[future] = Task(cells, time.monotonic())
            future.add_done_callback(self.finished.put)
        return bool(self.waiting or self.suspects)

    def _next(self) -> list[str]:
        """Choose the cells of the next task."""
        if not self.waiting:
            alone = (
                self.workers.isolates or not self.running
            )  # or it could take the worker of another cell with it
            return [self.suspects.popleft()] if self.suspects and alone else []
        running = {self.cells[task.cells[0]].program() for task in self.running.values()}
        free = [key for key in self.waiting if key not in running] or list(self.waiting)
        program = next(
            (key for key in free if key in self.rates), free[0]
        )  # finish what is compiled, then compile more
        group = self.waiting[program]
        left = sum(map(len, self.waiting.values()))
        fair = max(1, left // (2 * max(1, self.workers.count())))
        rate = self.rates.get(program)
        if rate is None:
            size = min(UNKNOWN, max(fair, 1))
        else:
            each = max(rate * self.cells[group[0]].work, 1e-6)
            size = int(min(max(fair, SECONDS[0] / each), SECONDS[1] / each))
        taken = [group.popleft() for _ in range(min(max(1, size), len(group)))]
        if not group:
            del self.waiting[program]
        return taken

    def _start(self, cells: Sequence[str]) -> Future[Any]:
        listed = [self.cells[name] for name in cells]
        if not self.workers.remote:
            return self.workers.submit(play_cells, listed, self.store, self.timeout)
        parts: list[Any] = []
        contents: dict[str, bytes] = {}
        for cell in listed:
            part, pickles = packed(cell, self.pickles)
            parts.append(part)
            contents |= pickles
        folder = None if self.store is None else str(self.store.folder.absolute())
        return self.workers.submit(play_task, self.settings, folder, self.timeout, contents, parts)

    def _collect(self, future: Future[Any]) -> None:
        task = self.running.pop(future)
        error = CancelledError() if future.cancelled() else future.exception()
        if error is not None:
            self._lose(task, error)
            return
        self.losses = 0
        result = future.result()
        if self.workers.remote:
            environment, outcomes = result
            self._check(environment)
        else:
            outcomes = result
        left = []
        for outcome in outcomes:
            if outcome.played is not None:
                cell = self.cells[outcome.cell]
                rate, program = outcome.played.seconds / cell.work, cell.program()
                # The first play of a program includes its compilation.
                self.rates[program] = min(self.rates.get(program, rate), rate)
                self.done(outcome)
            elif outcome.failure is not None:
                self.done(Outcome(outcome.cell, failure=outcome.failure.received()))
            else:
                left.append(outcome.cell)
        if left:
            self._wait(left)

    def _lose(self, task: Task, error: BaseException) -> None:
        """A task ended without a result: keep the cells that were written, and play the others
        again.

        If a process died, its cells are played alone, because one of them may have killed it. If
        the executor cancelled the task, as a cluster does whose scheduler was lost, nobody is
        suspected.
        """
        self.workers = self.workers.renew()
        cancelled = isinstance(error, CancelledError) and not task.killed
        if cancelled and time.monotonic() > self.last_loss + AGAIN:
            self.losses, self.last_loss = self.losses + 1, time.monotonic()
        if self.losses > LOST:
            raise ConnectionError(
                "executor: all workers were lost several times. Finished cells are kept in the "
                "folder, if one was given: call taut.sweep again with the same arguments to go "
                "on."
            ) from error
        for name in task.cells:
            cell = self.cells[name]
            played = None if self.store is None else self.store.read(cell.identity, cell.kept)
            if len(task.cells) == 1 and not cancelled:
                self.attempts[name] = self.attempts.get(name, 0) + 1
            if played is not None:
                self.done(Outcome(name, played.brief()))
            elif cancelled:
                self._wait([name])
            elif len(task.cells) == 1 and (
                task.killed or not self.workers.lost(error) or self.attempts[name] >= ATTEMPTS
            ):
                self.done(Outcome(name, failure=_failure(error, task, self.timeout)))
            else:
                self.suspects.append(name)

    def _wait(self, names: Sequence[str]) -> None:
        """Put cells of one program back to those that wait."""
        self.waiting.setdefault(self.cells[names[0]].program(), deque()).extendleft(reversed(names))

    def _end_overdue(self) -> None:
        """End processes whose task takes far longer than its cells may, for example in a compiled
        loop without end."""
        if self.timeout is None:
            return
        for future, task in self.running.items():
            allowed = self.workers.ahead * (
                2 * self.timeout * len(task.cells) + GRACE
            )  # a task may wait for another
            if not task.killed and time.monotonic() - task.begun > allowed:
                task.killed = self.workers.kill(future)

    def _check(self, environment: dict[str, Any]) -> None:
        """Raise an error if workers compute in different ways."""
        if environment in self.environments:
            return
        self.environments.append(environment)
        first = self.environments[0]
        for name in ("x64", "passes", "backend", "machine"):
            if environment[name] != first[name]:
                raise RuntimeError(
                    f"executor: got workers with {name} {first[name]} (process {first['pid']} on "
                    f"{first['host']}) and {environment[name]} (process {environment['pid']} on "
                    f"{environment['host']}); expected one setting, because results would differ"
                )


def _failure(error: BaseException, task: Task, timeout: float | None) -> Failure:
    """Return the failure of a cell that was played alone and whose process was ended or died."""
    if task.killed:
        text = (
            "The process was ended because the cell took far longer than the time limit of "
            f"{timeout:g} s."
        )
        return Failure.of(task.cells[0], TimeoutError(text))
    failure = Failure.of(task.cells[0], error)
    prefix = "The process that played this cell alone ended, more than once. "
    return replace(failure, message=prefix + failure.message)
