"""A fleet beyond one machine: its members are partitioned by id over the workers of a Dask cluster.

Each part is a `Fleet` in an actor, with a folder of its own on a disk that all workers share. An
actor writes its part to the folder before it answers, and nobody else may write there: a new actor
takes the folder over, and an old one that still runs is refused. So a part can be given to another
worker at any moment, and goes on with what was answered.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from .. import arguments, storage
from ..display import Displayed, Summary, brief
from ..engine import Array
from ..extras import optional
from ..learners import Learner
from ..play.advice import check_advised
from ..player.player import Player
from ..player.steps import Extremes
from ..problem.problem import Problem
from ..problem.tables import plain
from ..runs.totals import Totals
from .coming import Refused, tell
from .data import advice_of_members, by_column, checked_parameters, table_of_members
from .fleet import Fleet
from .members import Id, as_ids, check_index, named, refuse_repeated
from .parts import Actors
from .views import certificate_of

if TYPE_CHECKING:
    import pandas

    from ..judge.certificate import Certificate


FACTS = "parts.npz"
"""The file that says how many parts a fleet has."""


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
        given = _columns(parameters, listed)
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
        self._rounds = dict.fromkeys(listed, 1)
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
        fleet._rounds = {
            each: int(due)
            for ids, rounds, _ in everything.values()
            for each, due in zip(ids, rounds, strict=True)
        }
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
        self._advised: set[Id] = set()  # members with advice for a round that was not observed

    def _listed(self, ids: Any) -> list[Id]:
        """Return ids as a list, all without ids; each must be a member, and be there once."""
        if ids is None:
            return self.ids
        listed = as_ids(ids)
        unknown = [each for each in listed if each not in self._rounds]
        if unknown:
            raise ValueError(
                f"ids: got {named(unknown)}, not in the fleet of {len(self):,} members; expected "
                "members, or fleet.join(ids) before"
            )
        refuse_repeated(listed)
        return listed

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
        return len(self._rounds)

    def __contains__(self, member: object) -> bool:
        return member in self._rounds

    @property
    def ids(self) -> list[Id]:
        """All members."""
        return list(self._rounds)

    def decisions(self, ids: Any = None, *, advice: Any = None, forecast: Any = None) -> Any:
        """As `Fleet.decisions`. Advice that is lost with a worker must be given again: the members
        are refused otherwise."""
        if advice is None and forecast is None:
            return self._read("decisions", ids)
        learner = check_advised(self.learner, None)
        listed = self._listed(ids)
        rule = forecast if isinstance(forecast, str) else None
        rows, given, _ = advice_of_members(
            advice, learner, self.problem, listed, forecast is not None
        )
        gaps = np.broadcast_to(~given.reshape(*given.shape, *[1] * (rows.ndim - 2)), rows.shape)
        said = np.ma.array(rows, mask=gaps) if rows.shape[1] else None
        predicted = None if forecast is None or rule else self._rows(listed, forecast)[1]
        answers = self._write("advised", listed, (said, predicted), rule)
        refused = {each: why for _, part in answers.values() for each, why in part.items()}
        self._advised.update(each for each in listed if each not in refused)
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
        told = self._told(listed)
        advised = np.array([each in self._advised for each in listed], bool)
        return self._played(listed, self._write("observe", listed, (rows, due, told, advised)))

    def skip(self, ids: Any, reason: str = "") -> None:
        """As `Fleet.skip`; when it returns, it is on the disk."""
        listed = self._listed(ids)
        told = self._told(listed)
        self._played(listed, self._write("skip", listed, (told,), reason))

    def _told(self, listed: list[Id]) -> Array:
        """Return the next rounds of members, by which parts notice a call that is repeated."""
        if self._in_doubt:  # a call ended with an error, after some parts may have played
            self._rounds.update(zip(self.ids, map(int, self.rounds()), strict=True))
        self._in_doubt = True
        return np.fromiter(map(self._rounds.__getitem__, listed), int, len(listed))

    def _played(self, listed: list[Id], answers: dict[int, tuple[Refused, Array]]) -> Refused:
        """Remember the next rounds of members, and tell who was refused."""
        refused: Refused = {}
        self._advised.difference_update(listed)
        for part, places in self._parts.split(listed):
            reasons, due = answers[part]
            refused |= reasons
            self._rounds.update(zip((listed[i] for i in places), map(int, due), strict=True))
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
        refuse_repeated(listed)
        known = [each for each in listed if each in self._rounds]
        if known:
            raise ValueError(f"ids: got {named(known)}, in the fleet already; expected new members")
        self._write("join", listed, (_columns(parameters, listed),))
        self._rounds |= dict.fromkeys(listed, 1)

    def leave(self, ids: Any) -> None:
        """As `Fleet.leave`; when it returns, it is on the disk."""
        listed = self._listed(as_ids(ids))
        self._write("leave", listed, ())
        for each in listed:
            del self._rounds[each]

    def set_parameters(self, ids: Any, parameters: Any) -> None:
        """As `Fleet.set_parameters`; when it returns, it is on the disk."""
        listed = self._listed(ids)
        self._write("set_parameters", listed, (_columns(parameters, listed),))

    def _of_member(self, name: str, member: Id) -> Any:
        (listed,) = self._listed([member])
        part = self._parts.of_member(listed)
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


def _columns(parameters: Any, listed: list[Id]) -> dict[str, Array]:
    """Return parameters as arrays by name; `Fleet` checks them."""
    if parameters is None:
        return {}
    by_name = by_column(parameters)
    if not isinstance(by_name, dict):
        raise TypeError(
            f"parameters: got {arguments.shown(parameters)}; expected a dict of arrays by name, or "
            "a table, with a row for each member"
        )
    for values in by_name.values():
        check_index("parameters", values, listed)
    arrays = {name: np.asarray(plain(values)) for name, values in by_name.items()}
    for name, array in arrays.items():
        if array.shape[:1] != (len(listed),):
            raise ValueError(
                f"parameters[{name!r}]: got shape {array.shape}; expected a row for each of "
                f"{len(listed)} members"
            )
    return arrays
