"""The actors that hold the parts of a fleet on a Dask cluster. A part whose worker is lost is given
to another worker, and the call that was lost is repeated."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import jax
import numpy as np

from ..engine import Array
from ..learners import Learner
from ..problem.problem import Problem
from .ids import Id, hash_of
from .part import Part

__all__ = ["Actors"]

PATIENCE = 300.0
"""Seconds in which a lost part must be on another worker."""
PAUSE = 0.2
"""Seconds between attempts to give a part to another worker."""


class Actors:
    """The actors of all parts.

    Arguments:
        client: a Dask client.
        folder: the folder of the fleet.
        learner: the learner.
        problem: the problem.
        count: the number of parts.
    """

    def __init__(
        self, client: Any, folder: Path, learner: Learner, problem: Problem, count: int
    ) -> None:
        self._client, self._folder, self._learner = client, folder, learner
        self._problem, self.count = problem, count
        self._x64 = bool(jax.config.read("jax_enable_x64"))
        self._actors: list[Any] = [None] * count

    def release(self) -> None:
        """Release the actors."""
        self._actors = [None] * self.count

    def start(self, new: list[Any]) -> None:
        """Start the actors of all parts, then wait for them."""
        begun = [self._submit(part, new[part]) for part in range(self.count)]
        for part, future in enumerate(begun):
            self._actors[part] = future.result(timeout=PATIENCE)

    def _submit(self, part: int, new: Any) -> Any:
        """Ask the scheduler for an actor that holds a part."""
        workers = sorted(self._client.scheduler_info(n_workers=-1)["workers"])
        near = [workers[part % len(workers)]] if workers else None
        return self._client.submit(
            Part,
            self._x64,
            str(self._folder / f"part-{part}"),
            self._learner,
            self._problem,
            new,
            actor=True,
            pure=False,
            workers=near,
            allow_other_workers=bool(near),
        )

    def call(self, name: str, given: dict[int, tuple[Any, ...]]) -> dict[int, Any]:
        """Call a method of several parts at once and return the answers by part."""
        end, answers, waiting = time.monotonic() + PATIENCE, {}, dict(given)
        while waiting:
            asked: dict[int, Any] = {}
            for part, arguments_of_part in waiting.items():
                try:
                    asked[part] = self._actors[part].call(name, *arguments_of_part)
                except Exception as error:  # Dask knows already that the worker is lost
                    asked[part] = error
            for part, future in asked.items():
                try:
                    if isinstance(future, Exception):
                        raise future
                    answers[part] = future.result(timeout=PATIENCE)
                except Exception as error:  # `Part.call` raises none but when it is superseded
                    self._move(part, error, end)
            waiting = {part: each for part, each in waiting.items() if part not in answers}
        for well, answer in answers.values():
            if not well:
                raise answer
        return {part: answer for part, (_, answer) in answers.items()}

    def _move(self, part: int, why: Exception, end: float) -> None:
        """Give a lost part to another worker."""
        while True:
            if time.monotonic() > end:
                raise ConnectionError(
                    f"client: a part of the fleet was lost ({why}), and no worker took it over "
                    f"within {PATIENCE:g} s. Start workers, then call again with rounds=..., so "
                    "that no member plays a round twice"
                ) from why
            try:
                self._actors[part] = self._submit(part, None).result(
                    timeout=max(end - time.monotonic(), 1.0)
                )
                return
            except Exception as error:  # that worker was lost too
                why = error
                time.sleep(PAUSE)

    def split(self, listed: list[Id]) -> list[tuple[int, Array]]:
        """Return the parts that hold these members, with their places in the list."""
        owner = np.fromiter((hash_of(each)[0] % self.count for each in listed), int, len(listed))
        return [(int(part), np.flatnonzero(owner == part)) for part in np.unique(owner)]

    def of_member(self, member: Id) -> int:
        """Return the part that holds a member."""
        return hash_of(member)[0] % self.count
