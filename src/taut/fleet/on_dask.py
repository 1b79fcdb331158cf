"""A fleet beyond one machine: its members are partitioned by id over the workers of a Dask cluster.

Each part is a `Fleet` in an actor, with a folder of its own on a disk that all workers share. An
actor writes its part to the folder before it answers, and nobody else may write there: a new actor
takes the folder over, and an old one that still runs is refused. So a part can be given to another
worker at any moment, and goes on with what was answered.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from .. import arguments, storage
from ..display import Displayed, Summary, brief
from ..engine import Array, default_float
from ..extras import optional
from ..learners import Learner
from ..play.advice import check_advised
from ..player.player import Player
from ..player.steps import Extremes
from ..problem.problem import Problem
from ..problem.tables import plain
from ..runs.totals import Totals
from .data import (
    advice_of_members,
    as_parameters,
    by_column,
    checked_parameters,
    table_of_members,
)
from .file import NAMES, Superseded
from .fleet import Fleet, certificate_of
from .members import Id, Members, as_ids, check_index, hash_of, refuse_repeated
from .rounds import Refused, tell

if TYPE_CHECKING:
    import pandas

    from ..judge.certificate import Certificate


FACTS = "parts.npz"
"""The file that says how many parts a fleet has."""
PATIENCE = 300.0
"""Seconds in which a lost part must be on another worker."""
CHANGES = frozenset(("join", "leave", "set_parameters", "observe", "skip"))
"""Calls after which a part is saved."""
PAUSE = 0.2
"""Seconds between attempts to give a part to another worker."""


class DaskFleet(Displayed):
    """A fleet on the workers of a Dask cluster, with the methods of `taut.Fleet`.

    Arguments:
        client: a Dask client.
        learner: as for `taut.Fleet`; it is pickled.
        problem: likewise.
        ids: likewise.
        parameters: likewise.
        folder: a folder that all workers share, one for each fleet.
        parts: the number of parts; by default that of the workers. It stays as it is when workers
            come and go.
        options: further arguments of `taut.Fleet`.

    What is promised: a call that changes members is on the disk before it returns. When a worker is
    lost, its parts go on with other workers, during the next call, from their last saved state, and
    the call that was lost is repeated: each member plays a round once. What was announced or
    advised for a round that was not observed must be announced or advised again; members for which
    it is missing are refused. While no worker is there, calls wait, for five minutes at
    most; after an error, `rounds` tells which members have played. If the process with the client
    is lost, `DaskFleet.load` goes on. One client at a time may use a folder.
    """

    def __init__(
        self,
        client: Any,
        learner: Learner | str,
        problem: Problem,
        ids: Any,
        parameters: Any = None,
        *,
        folder: str | Path,
        parts: int | None = None,
        **options: Any,
    ) -> None:
        listed = as_ids(ids)
        refuse_repeated(listed)
        given = as_parameters(parameters, listed, default_float())
        none = {name: values[:0] for name, values in given.items()} or None
        # A fleet without members refuses bad arguments here, in the process of the user.
        model = Fleet(learner, problem, [], none, **options)
        checked_parameters(given or None, listed, model._members, model._dtype)
        self._open(client, model.learner, problem, folder)
        if (self._folder / FACTS).exists():
            raise ValueError(
                f"folder: got {folder}, with a fleet; expected another folder, or "
                "DaskFleet.load(client, folder, problem, learner)"
            )
        workers = len(client.scheduler_info(n_workers=-1)["workers"])
        count = arguments.count("parts", max(workers, 1) if parts is None else parts)
        self._parts = Actors(client, self._folder, model.learner, problem, count)
        self._join(listed, 1)
        self._names = list(given)
        new: list[Any] = [([], none, options)] * count
        for part, places in self._parts.split(listed):
            rows = {name: values[places] for name, values in given.items()} or None
            new[part] = ([listed[i] for i in places], rows, options)
        self._parts.start(new)
        about = {"what": "parts of a fleet", "parts": count}
        storage.write_arrays(self._folder / FACTS, about, {})

    @classmethod
    def load(cls, client: Any, folder: str | Path, problem: Problem, learner: Learner) -> DaskFleet:
        """Go on with the fleet in a folder.

        Arguments:
            client: a Dask client.
            folder: the folder.
            problem: that of the fleet.
            learner: likewise.
        """
        fleet = cls.__new__(cls)
        fleet._open(client, learner, problem, folder)
        about, _ = storage.read_arrays(fleet._folder / FACTS, "folder")
        count = arguments.count("folder: its parts", about.get("parts"))
        fleet._parts = Actors(client, fleet._folder, learner, problem, count)
        fleet._parts.start([None] * count)
        everything = fleet._parts.call("about", {part: () for part in range(count)})
        for ids, rounds, _ in everything.values():
            fleet._join(ids, rounds)
        fleet._names = everything[0][2]
        return fleet

    def _open(self, client: Any, learner: Learner, problem: Problem, folder: str | Path) -> None:
        if getattr(client, "asynchronous", False) or not hasattr(client, "submit"):
            raise TypeError(
                f"client: got {arguments.shown(client)}; expected a Dask client, "
                "distributed.Client(address)"
            )
        self.learner, self.problem = learner, problem
        self._folder = Path(arguments.path("folder", folder)).resolve()
        self._in_doubt = False
        # The next round of each member, and the last one for which it has advice.
        self._members = Members({"round": ((), np.int64), "advised": ((), np.int64)})

    def _join(self, listed: list[Id], rounds: Any) -> None:
        """Remember new members and their next rounds."""
        slots = self._members.join(listed)
        self._members.arrays["round"][slots] = rounds
        self._members.arrays["advised"][slots] = 0

    def _listed(self, ids: Any) -> list[Id]:
        """Return ids as a list, all without ids; each must be a member, and be there once."""
        return self._members.chosen(ids).ids

    def _read(self, name: str, ids: Any) -> Any:
        """Return what a method returns, with the rows in the order of the ids."""
        listed = self._listed(ids)
        split = self._parts.split(listed) or [(0, np.zeros(0, int))]
        answers = self._parts.call(
            name, {part: ([listed[i] for i in places],) for part, places in split}
        )
        return _ordered(split, answers)

    def _write(self, name: str, listed: list[Id], rows: Any, *rest: Any) -> dict[int, Any]:
        """Call a method that changes members, with the rows that belong to them."""
        return self._parts.call(
            name,
            {
                part: (
                    [listed[i] for i in places],
                    *jax.tree.map(lambda leaf, places=places: leaf[places], rows),
                    *rest,
                )
                for part, places in self._parts.split(listed)
            },
        )

    def __len__(self) -> int:
        return len(self._members)

    def __contains__(self, member: object) -> bool:
        return member in self._members

    @property
    def ids(self) -> list[Id]:
        """All members."""
        return self._members.ids

    def decisions(self, ids: Any = None, *, advice: Any = None, forecast: Any = None) -> Any:
        """As `Fleet.decisions`. Advice that is lost with a worker must be given again: the members
        are refused otherwise."""
        if advice is None and forecast is None:
            return self._read("decisions", ids)
        learner = check_advised(self.learner, None)
        listed = self._listed(ids)
        rule = forecast if isinstance(forecast, str) else None
        rows, speaks, _ = advice_of_members(
            advice, learner, self.problem, listed, forecast is not None
        )
        gaps = np.broadcast_to(~speaks.reshape(*speaks.shape, *[1] * (rows.ndim - 2)), rows.shape)
        said = np.ma.array(rows, mask=gaps) if rows.shape[1] else None
        predicted = None if forecast is None or rule else self._rows(listed, forecast)[1]
        answers = self._write("advised", listed, (said, predicted), rule)
        refused = {each: why for _, part in answers.values() for each, why in part.items()}
        told = [each for each in listed if each not in refused]
        self._members.arrays["advised"][self._members.slots(told)] = self._due(told)
        tell(refused)
        made = {part: decisions for part, (decisions, _) in answers.items()}
        return _ordered(self._parts.split(listed), made)

    def weights(self, ids: Any = None) -> Array:
        """As `Fleet.weights`."""
        return np.asarray(self._read("weights", ids))

    def points(self, ids: Any = None) -> Array:
        """As `Fleet.points`."""
        return np.asarray(self._read("points", ids))

    def rounds(self, ids: Any = None) -> Array:
        """As `Fleet.rounds`."""
        return np.asarray(self._read("rounds", ids))

    def skipped(self, ids: Any = None) -> Array:
        """As `Fleet.skipped`."""
        return np.asarray(self._read("skipped", ids))

    def totals(self, ids: Any = None) -> Totals:
        """As `Fleet.totals`."""
        totals: Totals = self._read("totals", ids)
        return totals

    def parameters(self, ids: Any = None) -> dict[str, Array]:
        """As `Fleet.parameters`."""
        return dict(self._read("parameters", ids))

    def announce(self, ids: Any, z: Any) -> Refused:
        """As `Fleet.announce`."""
        listed, rows = self._rows(ids, z)
        answers = self._write("announce", listed, (rows,))
        return tell({each: why for part in answers.values() for each, why in part.items()})

    def observe(self, ids: Any, z: Any = None, *, rounds: Any = None) -> Refused:
        """As `Fleet.observe`; when it returns, it is on the disk."""
        listed, rows = self._rows(ids, z)
        due = None if rounds is None else np.broadcast_to(np.asarray(rounds), len(listed))
        told = self._due(listed)
        # Advice counts until its round is over: a member that is refused keeps it.
        advised = self._members.arrays["advised"][self._members.slots(listed)] == told
        self._in_doubt = True
        return self._played(listed, self._write("observe", listed, (rows, due, told, advised)))

    def skip(self, ids: Any, reason: str = "") -> None:
        """As `Fleet.skip`; when it returns, it is on the disk."""
        listed = self._listed(ids)
        told = self._due(listed)
        self._in_doubt = True
        self._played(listed, self._write("skip", listed, (told,), reason))

    def _due(self, listed: list[Id]) -> Array:
        """Return the next rounds of members, by which parts notice a call that is repeated."""
        if self._in_doubt:  # a call ended with an error, after some parts may have played
            self._members.arrays["round"][self._members.slots()] = self.rounds()
            self._in_doubt = False
        due: Array = self._members.arrays["round"][self._members.slots(listed)]
        return due

    def _played(self, listed: list[Id], answers: dict[int, tuple[Refused, Array]]) -> Refused:
        """Remember the next rounds of members, and tell who was refused."""
        refused: Refused = {}
        slots = self._members.slots(listed)
        for part, places in self._parts.split(listed):
            reasons, due = answers[part]
            refused |= reasons
            self._members.arrays["round"][slots[places]] = due
        self._in_doubt = False
        return tell(refused)

    def _rows(self, ids: Any, z: Any) -> tuple[list[Id], Any]:
        """Return ids as a list, and the data as arrays with a row for each."""
        ids, z = table_of_members(ids, z)
        listed = self._listed(ids)
        for table in z.values() if isinstance(z, dict) else (z,):
            check_index("z", table, listed)
        rows = jax.tree.map(np.asarray, plain(by_column(z) if self._names else z))
        for leaf in jax.tree.leaves(rows):
            if leaf.shape[:1] != (len(listed),):
                raise ValueError(
                    f"z: got an array of shape {leaf.shape}; expected a row for each of "
                    f"{len(listed)} members"
                )
        return listed, rows

    def join(self, ids: Any, parameters: Any = None) -> None:
        """As `Fleet.join`; when it returns, it is on the disk."""
        listed = as_ids(ids)
        self._members.check_new(listed)
        self._write("join", listed, (as_parameters(parameters, listed, default_float()),))
        self._join(listed, 1)

    def leave(self, ids: Any) -> None:
        """As `Fleet.leave`; when it returns, it is on the disk."""
        listed = self._listed(as_ids(ids))
        self._write("leave", listed, ())
        self._members.leave(listed)

    def set_parameters(self, ids: Any, parameters: Any) -> None:
        """As `Fleet.set_parameters`; when it returns, it is on the disk."""
        listed = self._listed(ids)
        self._write("set_parameters", listed, (as_parameters(parameters, listed, default_float()),))
        self._members.arrays["advised"][self._members.slots(listed)] = 0  # as in `Fleet`

    def _of_member(self, name: str, member: Id) -> Any:
        (listed,) = self._listed([member])
        ((part, _),) = self._parts.split([listed])
        return self._parts.call(name, {part: (listed,)})[part]

    def extremes(self, member: Id) -> Extremes:
        """As `Fleet.extremes`."""
        extremes: Extremes = self._of_member("extremes", member)
        return extremes

    def player(self, member: Id) -> Player:
        """As `Fleet.player`."""
        player: Player = self._of_member("player", member)
        return player

    def certificate(self, member: Id, stream: Any = None, **options: Any) -> Certificate:
        """As `Fleet.certificate`."""
        return certificate_of(self.player(member), self.parameters([member]), stream, options)

    def to_dataframe(self, what: str = "decisions") -> pandas.DataFrame:
        """As `Fleet.to_dataframe`."""
        pd = optional("pandas")

        everywhere = {part: (what,) for part in range(self._parts.count)}
        parts = self._parts.call("to_dataframe", everywhere)
        return pd.concat(list(parts.values())).loc[self.ids]

    def close(self) -> None:
        """Release the actors. The fleet stays in its folder."""
        self._parts.release()

    def _summary(self) -> Summary:
        facts = [
            ("learner", brief(self.learner)),
            ("parts", f"{self._parts.count}"),
            ("folder", str(self._folder)),
        ]
        return Summary(f"Fleet of {len(self):,} members on a Dask cluster", facts)


def _ordered(split: list[tuple[int, Array]], answers: dict[int, Any]) -> Any:
    """Return the rows of all parts in the order of the ids."""
    order = np.argsort(np.concatenate([places for _, places in split]))
    parts = [answers[part] for part, _ in split]
    return jax.tree.map(lambda *rows: np.concatenate(rows)[order], *parts)


class Part:
    """The members of one partition, in the process of a worker.

    Every change can be asked for again: what was done before an answer was lost is not done twice.
    `new` is None or ids, parameters and options of `Fleet`, for a part that does not exist yet.
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
            answer = own(*given)
            if name in CHANGES:
                self._save()
            return True, answer
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
        return refused, self._fleet.rounds(ids)

    def do_skip(self, ids: list[Id], told: Array, reason: str) -> tuple[Refused, Array]:
        """Skip a round of members whose next round is `told`."""
        refused, places = self._still_due(ids, told)
        if len(places):
            self._fleet.skip([ids[i] for i in places], reason)
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

    def do_leave(self, ids: list[Id]) -> None:
        """Let members leave that are still there."""
        self._fleet.leave([each for each in ids if each in self._fleet])


class Actors:
    """The actors of all parts."""

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
