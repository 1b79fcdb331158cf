"""The parts of a fleet on a Dask cluster: each is a `Fleet` in an actor, with a folder of its own.

An actor writes its part to the folder before it answers, and nobody else may write there: a new
actor takes the folder over, and an old one that still runs is refused. A part whose worker is lost
is given to another worker, and the call that was lost is repeated.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import jax
import numpy as np

from ..engine import Array
from ..learners import Learner
from ..problem.problem import Problem
from .coming import Refused
from .file import NAMES, Superseded
from .fleet import Fleet
from .members import Id, hash_of

PATIENCE = 300.0
"""Seconds in which a lost part must be on another worker."""
PAUSE = 0.2
"""Seconds between attempts to give a part to another worker."""


class Part:
    """The members of one partition, in the process of a worker.

    Every change can be asked for again: what was done before an answer was lost is not done twice.

    Arguments:
        x64: whether JAX has 64 bits.
        folder: where the part is saved.
        learner: the learner.
        problem: the problem.
        new: ids, parameters and options of `Fleet` for a part that does not exist yet.
    """

    def __init__(
        self, x64: bool, folder: str, learner: Learner, problem: Problem, new: Any
    ) -> None:
        if jax.config.read("jax_enable_x64") != x64:
            jax.config.update("jax_enable_x64", x64)
        self._folder = folder
        if (Path(folder) / NAMES).exists():
            self._fleet = Fleet.load(folder, problem, learner)
        else:
            ids, parameters, options = new
            self._fleet = Fleet(learner, problem, ids, parameters, **options)
        self._save()

    def _save(self) -> None:
        self._fleet._save(self._folder, exclusive=True)

    def call(self, name: str, *given: Any) -> tuple[bool, Any]:
        """Return True and what a method returns, or False and the error that it raised.

        So an error that this raises itself means that the part must be held by another worker.
        """
        own = getattr(self, f"do_{name}", None) or getattr(self._fleet, name)
        try:
            return True, own(*given)
        except Superseded:
            raise
        except Exception as error:  # it is raised again where the fleet is called
            return False, error

    def do_about(self) -> tuple[list[Id], Array, list[str]]:
        """Return ids, rounds and the names of parameters."""
        return self._fleet.ids, self._fleet.rounds(), list(self._fleet.parameters([]))

    def do_advised(
        self, ids: list[Id], advice: Any, forecast: Any, rule: str | None = None
    ) -> tuple[Any, Refused]:
        """Take advice, and predicted data or the name of a forecast; they are not saved."""
        return self._fleet._advised(ids, advice, rule or forecast)

    def do_observe(
        self, ids: list[Id], z: Any, rounds: Any, told: Array, advised: Array
    ) -> tuple[Refused, Array]:
        """Observe a round of members whose next round is `told`; return the refused members, and
        the next rounds of all. `advised` are those to whom advice was given for it."""
        refused, places = self._still_due(ids, told)
        lost = places[advised[places] & ~self._fleet._has_begun([ids[i] for i in places])]
        refused |= {
            ids[i]: "advice: it was lost with a worker before the round was observed; expected "
            "fleet.decisions(ids, advice=...) again"
            for i in lost
        }
        places = np.setdiff1d(places, lost)
        if len(places):
            data = jax.tree.map(lambda leaf: leaf[places], z)
            due = rounds if rounds is None or np.ndim(rounds) == 0 else rounds[places]
            refused |= self._fleet._observe([ids[i] for i in places], data, due)
            self._save()
        return refused, self._fleet.rounds(ids)

    def do_skip(self, ids: list[Id], told: Array, reason: str) -> tuple[Refused, Array]:
        """Skip a round of members whose next round is `told`."""
        refused, places = self._still_due(ids, told)
        if len(places):
            self._fleet.skip([ids[i] for i in places], reason)
            self._save()
        return refused, self._fleet.rounds(ids)

    def _still_due(self, ids: list[Id], told: Array) -> tuple[Refused, Array]:
        """Return why members are refused that are in another round than was told, and the places of
        those that are in it. A member that is one round further has played it already."""
        due = self._fleet.rounds(ids)
        strange = np.flatnonzero((due != told) & (due != told + 1))
        reasons = {
            ids[i]: f"round: got {told[i]}; expected {due[i]}, because another client or a loss "
            "of the disk has changed the member"
            for i in strange
        }
        return reasons, np.flatnonzero(due == told)

    def do_announce(self, ids: list[Id], z: Any) -> Refused:
        """Announce; it is not saved."""
        return self._fleet._announce(ids, z)

    def do_join(self, ids: list[Id], parameters: dict[str, Array]) -> None:
        """Let members join that have not joined yet."""
        new = [i for i, each in enumerate(ids) if each not in self._fleet]
        rows = {name: values[new] for name, values in parameters.items()}
        self._fleet.join([ids[i] for i in new], rows or None)
        self._save()

    def do_leave(self, ids: list[Id]) -> None:
        """Let members leave that are still there."""
        self._fleet.leave([each for each in ids if each in self._fleet])
        self._save()

    def do_set_parameters(self, ids: list[Id], parameters: dict[str, Array]) -> None:
        """Change parameters."""
        self._fleet.set_parameters(ids, parameters)
        self._save()


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
