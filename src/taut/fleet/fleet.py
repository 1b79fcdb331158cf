"""Thousands of independent players of one family of problems, with their state as arrays."""

from __future__ import annotations

import logging
import math
import threading
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from .. import arguments
from ..display import Displayed, Summary, brief, number
from ..engine import Array, first_key, random_key, require_jax
from ..extras import optional
from ..learners import Learner
from ..learners.clipping import clip_of
from ..learners.protocols import PlaysPoints, is_random, points_of
from ..learners.registry import DEFAULT, as_learner
from ..play import round as rounds
from ..play.announced import check_announced
from ..play.packing import as_arrays
from ..play.round import FAULTS, Game
from ..player.extremes import Extremes
from ..player.player import Player
from ..problem.compatibility import first_decision
from ..problem.feasibility import check_feasible
from ..problem.memory import shared_start
from ..problem.problem import Problem
from ..runs.totals import Totals
from . import file as fleet_file
from . import member as one_member
from .data import FleetData, as_parameters, constraint_count, joined, traced_count
from .ids import Id, as_ids, hash_of, named
from .members import Members
from .steps import Blocks, Column, Layout, announced_member, new_member, revealed_member

if TYPE_CHECKING:
    import pandas

    from ..judge.certificate import Certificate

__all__ = ["Fleet", "Refused", "member_key", "table_of_members", "tell"]

LOG = logging.getLogger(__name__)
Refused = dict[Id, str]
"""The members whose observation was refused, with the reasons."""


class Fleet(Displayed):
    """Many players of one problem, each with rounds of its own: read `decisions`, act on them, then
    `observe` what happened to those that report.

    Arguments:
        learner: the method with its parameters, or the name of one that needs no horizon. All
            members have the same.
        problem: loss, constraints and domain, the same for all members.
        ids: the members: different texts, or different whole numbers.
        parameters: what differs between members (budgets, capacities): a dict of arrays, or a table
            of pandas, with a row per member. Loss and constraints find them in their data `z`,
            which is a dict with the entries of the observation and the parameters.
        x1: the first decision of all members; by default the centre of the domain.
        count: the number of constraints, needed only if it depends on what is observed.
        announced_count: the number of announced constraints, likewise.
        key: JAX random key for learners that draw random numbers. Each member gets a key of its
            own, which depends on this one and its id alone.

    A member computes what a `taut.Player` with the same data computes. Nothing depends on the
    members that report with it. A number that is not finite is refused for its member alone: that
    member stays as it was. Members may join and leave; nothing is compiled again for it. Several
    threads may use one fleet: one call is carried out after the other.

    >>> import numpy as np, taut
    >>> pacing = taut.Problem(
    ...     lambda x, z: -z["value"] @ x,
    ...     lambda x, z: z["price"] @ x - z["budget"],
    ...     taut.Box(0.0, 1.0, shape=2),
    ... )
    >>> fleet = taut.Fleet(
    ...     "half-space", pacing, ["a", "b"], parameters={"budget": [0.5, 1.0]}, count=1
    ... )
    >>> value, price = np.array([[1.0, 2.0], [2.0, 1.0]]), np.ones((2, 2))
    >>> fleet.observe(["a", "b"], {"value": value, "price": price})
    {}
    >>> fleet.decisions(["b"]).shape, fleet.rounds().tolist()
    ((1, 2), [2, 2])
    >>> fleet.totals().violation.tolist()
    [[0.5], [0.0]]
    """

    def __init__(
        self,
        learner: Learner | str,
        problem: Problem,
        ids: Any,
        parameters: Any = None,
        *,
        x1: Any = None,
        count: int | None = None,
        announced_count: int | None = None,
        key: jax.Array | None = None,
    ) -> None:
        require_jax()
        if not isinstance(problem, Problem):
            raise TypeError(
                f"problem: got {arguments.shown(problem)}; expected taut.Problem(...). The order "
                "is Fleet(learner, problem, ids)"
            )
        learner = as_learner(DEFAULT if learner is None else learner, problem, None)
        if not isinstance(learner, Learner):
            raise TypeError(
                f"learner: got {arguments.shown(learner)}; expected a taut learner or the name of "
                "one. The order is Fleet(learner, problem, ids)"
            )
        if learner.request_first:
            raise TypeError(
                f"learner: {type(learner).__name__} sees a request before it decides; expected a "
                "learner that decides before a round is revealed, or taut.Player"
            )
        check_announced((learner,), problem)
        check_feasible(problem)
        self.learner, self.problem = learner, problem
        listed = as_ids(ids)
        self._first = first_decision(problem, x1)
        self._dtype, self._shape = np.dtype(self._first.dtype), problem.domain.shape
        given = as_parameters(parameters, listed, self._dtype)
        self._data = FleetData(problem, self._dtype, self._counted(count, announced_count, given))
        self._key = first_key() if key is None else random_key("key", key, usual=True)
        self._lock = threading.RLock()
        self._saved: fleet_file.Saved | None = None  # the last save to a folder
        self._left: set[Id] = set()  # members that left since then
        self._prepare()
        kinds = {f"state/{i}": kind for i, kind in enumerate(self._layout.kinds)}
        if problem.announced is not None:
            kinds |= {f"begun/{i}": kind for i, kind in enumerate(self._layout.kinds)}
            kinds["is_begun"] = ((), bool)
        kinds |= {
            f"parameters/{name}": (each.shape[1:], each.dtype) for name, each in given.items()
        }
        self._parameter_names = tuple(given)
        self._members = Members({**kinds, "changed": ((), bool)})
        self.join(listed, given)

    def _counted(
        self, count: int | None, announced_count: int | None, parameters: dict[str, Array]
    ) -> tuple[int, int]:
        """Return how many constraints the learner sees, and how many are announced."""
        row = {
            name: jax.ShapeDtypeStruct(each.shape[1:], each.dtype)
            for name, each in parameters.items()
        }
        data, x = row or None, self._first
        # Whether announced constraints are known without data beside the parameters.
        self._announced_is_known = (
            traced_count(self.problem, self.problem.announced, data, x) is not None
        )
        return (
            constraint_count(self.problem, count, data, x),
            constraint_count(self.problem, announced_count, data, x, announced=True),
        )

    def _prepare(self) -> None:
        """Compute the state of a new member, and what all members share."""
        problem, counts = self.problem, self._data.counts
        self._ready = as_arrays(self.learner, self._dtype)
        self._random = is_random(self._ready)
        scored = counts[1] + (0 if problem.scored_constraints is problem.announced else counts[0])
        self._scored = scored
        game, start = Game.of(problem), shared_start(problem, None, self._first)
        learned = counts[0]

        def begun(key: Any) -> Any:
            state = rounds.init(self._ready, game, self._first, (learned, scored), key, start)
            return new_member(state)

        self._begun = begun
        member = begun(self._key if self._random else None)
        self._layout = Layout.of((game, self._ready), member, self._dtype)
        self._columns = self._layout.columns
        self._new_row = [np.asarray(each) for each in self._layout.pack(member)]
        fixed = jax.device_put(self._layout.fixed.pack((game, self._ready)))
        self._blocks = Blocks(problem, self._ready, self._layout, fixed)

    def __len__(self) -> int:
        return len(self._members)

    def __contains__(self, member: object) -> bool:
        return member in self._members

    @property
    def ids(self) -> list[Id]:
        """All members, in the order in which they joined."""
        with self._lock:
            return self._members.ids

    @property
    def constraint_names(self) -> tuple[str, ...] | None:
        """The names of the constraints, announced ones last; None if they have none, or if the
        names come with the data."""
        return self.problem.constraint_names

    def decisions(self, ids: Any = None) -> Any:
        """Return the decisions to play now, a row for each of these members; without ids, for all.

        For a problem written in CVXPY with several variables, a dict of them by name. If announced
        constraints depend on data, call `announce` before.
        """
        with self._lock:
            listed, slots = self._members.slots(ids)
            if self.problem.announced is not None:
                self._begin(listed, slots)
            state = self._state if self.problem.announced is None else self._begun_state
            decisions = self._columns.x.read(state, slots)
        return self.problem.present(decisions)

    def points(self, ids: Any = None) -> Array:
        """Return the points to play in this round, (member, point, *decision): the decision, or
        those around it that a bandit learner plays."""
        if not isinstance(self._ready, PlaysPoints):
            with self._lock:
                slots = self._members.slots(ids)[1]
                decisions: Array = self._columns.x.read(self._state, slots)
            return decisions[:, None]

        def of_row(row: Any) -> jax.Array:
            return jnp.stack(points_of(self._ready, self._layout.unpack(row).game.learner))

        with self._lock:
            slots = self._members.slots(ids)[1]
            return np.asarray(jax.vmap(of_row)([array[slots] for array in self._state]))

    def announce(self, ids: Any, z: Any) -> Refused:
        """Reveal the data of announced constraints before the round; `decisions` then satisfies
        them, as far as a decision does.

        Arguments:
            ids: the members; None for all.
            z: data with which the announced constraints can be computed, a row per member; other
                data of the round may be missing. `observe` gets all of them.

        Returns the members whose data are not finite, with the reasons; it is empty if there are
        none. It may be called again before the round is observed.
        """
        require_jax(tracing=False)
        if self.problem.announced is None:
            raise TypeError(
                "announce: the problem has no announced constraints; expected taut.Problem(..., "
                "announced=...)"
            )
        return tell(self._announce(*table_of_members(ids, z)))

    def _announce(self, ids: Any, z: Any) -> Refused:
        with self._lock:
            listed, slots = self._members.slots(ids)
            listed = self.ids if listed is None else listed
            data = self._data.announced(z, listed, self._parameters_of(slots))
            return self._refused(listed, slots, self._heed(slots, data))

    def observe(self, ids: Any, z: Any = None, *, rounds: Any = None) -> Refused:
        """Reveal a round to the members that report it.

        Arguments:
            ids: the members, each at most once; None for all. A table of pandas may take the place
                of `ids` and `z`: its index are the ids.
            z: the data, as the problem's loss takes them, with a leading axis for the members; with
                parameters, a dict or a table by name.
            rounds: the number of the round for each member, or one number for all. Members that
                expect another round are refused, so that nothing is counted twice when a report is
                sent again.

        Returns the members whose observation was refused, with the reasons; it is empty if there
        are none. Refused members stay as they were; all others have played their round. Refusals
        also are a warning and a log record. Data that do not fit at all raise an error and change
        nothing.
        """
        require_jax(tracing=False)
        return tell(self._observe(*table_of_members(ids, z), rounds))

    def _observe(self, ids: Any, z: Any, rounds: Any) -> Refused:
        with self._lock:
            listed, slots = self._members.slots(ids)
            if not len(slots):
                return {}
            listed = self.ids if listed is None else listed
            data = self._data.arranged(z, listed, self._parameters_of(slots))
            data, row = self._data.cast(data)
            reasons, playing = self._expected(listed, slots, rounds)
            if self.problem.announced is not None:
                unknown, playing = self._announced_members(listed, slots, playing)
                reasons |= unknown
            if len(playing) < len(slots):
                slots = slots[playing]
                listed = [listed[i] for i in playing]
                data = jax.tree.map(lambda leaf: leaf[playing], data)
            source = self._state if self.problem.announced is None else self._begun_state
            faults = self._blocks.take(revealed_member, source, self._state, slots, data)
            accepted = slots[faults == 0]
            self._members.arrays["changed"][accepted] = True
            if self.problem.announced is not None:
                self._members.arrays["is_begun"][accepted] = False
            if len(accepted):
                self._data.types.remember(row)
            return reasons | self._refused(listed, slots, faults)

    def _expected(self, listed: list[Id], slots: Array, given: Any) -> tuple[Refused, Array]:
        """Return why members are refused whose round is not the given one, and the places of the
        others."""
        places = np.arange(len(slots))
        if given is None:
            return {}, places
        array = np.asarray(given)
        if array.dtype.kind not in "iu" or array.shape not in ((), slots.shape):
            raise TypeError(
                f"rounds: got {arguments.shown(given)}; expected a whole number, or one for each "
                f"of {len(slots)} members"
            )
        told, due = np.broadcast_to(array, slots.shape), self._rounds(slots)
        wrong = np.flatnonzero(told != due)
        reasons = {
            listed[i]: f"rounds: got {told[i]}; expected {due[i]}, the round that comes next"
            for i in wrong
        }
        return reasons, np.delete(places, wrong)

    def _announced_members(
        self, listed: list[Id], slots: Array, playing: Array
    ) -> tuple[Refused, Array]:
        """Enforce announced constraints that need no data; return why members are refused whose
        announced constraints are not known, and the places of the others."""
        begun = self._members.arrays["is_begun"]
        waiting = playing[~begun[slots[playing]]]
        if self._announced_is_known:
            chosen = [listed[i] for i in waiting]
            self._begin(chosen, slots[waiting])
            return {}, playing
        reasons = {
            listed[i]: "z: the announced constraints of the round are not known; expected "
            "fleet.announce(ids, z) before"
            for i in waiting
        }
        return reasons, np.setdiff1d(playing, waiting)

    def _begin(self, listed: list[Id] | None, slots: Array) -> None:
        """Enforce the announced constraints of members who have not begun their round."""
        waiting = np.flatnonzero(~self._members.arrays["is_begun"][slots])
        if not len(waiting):
            return
        if not self._announced_is_known:
            listed = self.ids if listed is None else listed
            raise TypeError(
                f"decisions: the announced constraints of {named([listed[i] for i in waiting])} "
                "are not known; call fleet.announce(ids, z) before"
            )
        slots = slots[waiting]
        self._heed(slots, joined(None, self._parameters_of(slots)))

    def _heed(self, slots: Array, data: Any) -> Array:
        faults = self._blocks.take(announced_member, self._state, self._begun_state, slots, data)
        self._members.arrays["is_begun"][slots[faults == 0]] = True
        return faults

    def skip(self, ids: Any, reason: str = "") -> None:
        """Count a round of which nothing was observed. The decisions stay.

        Totals and extremes are those of the observed rounds; certificates say how many are missing.

        Arguments:
            ids: the members; None for all.
            reason: why, for the log.
        """
        with self._lock:
            listed, slots = self._members.slots(ids)
            columns, state = self._columns, self._state
            if columns.game.previous is not None:  # the decision was played nevertheless
                announced = self.problem.announced is not None
                if announced:
                    self._begin(listed, slots)
                played = columns.x.read(self._begun_state if announced else state, slots)
                columns.game.previous.write(state, slots, played)
            if self.problem.announced is not None:
                self._members.arrays["is_begun"][slots] = False
            columns.skipped.write(state, slots, columns.skipped.read(state, slots) + 1)
            self._members.arrays["changed"][slots] = True
        LOG.info("skipped a round of %d members: %s", len(slots), reason or "no reason given")

    def join(self, ids: Any, parameters: Any = None) -> None:
        """Add members, before their first round.

        Arguments:
            ids: the new members.
            parameters: theirs, with the names of the others' parameters.
        """
        with self._lock:
            listed = as_ids(ids)
            given = self._checked_parameters(parameters, listed)
            rows = self._new_rows(listed)
            slots = self._members.join(listed)
            self._put(slots, rows, given)

    def _put(self, slots: Array, rows: list[Array], parameters: dict[str, Array]) -> None:
        """Write the rows of new members."""
        for array, row in zip(self._state, rows, strict=True):
            array[slots] = row
        for name, values in parameters.items():
            self._members.arrays[f"parameters/{name}"][slots] = values
        if "is_begun" in self._members.arrays:
            self._members.arrays["is_begun"][slots] = False
        self._members.arrays["changed"][slots] = True

    def _new_rows(self, listed: list[Id]) -> list[Array]:
        """Return the packed state of new members, one row for all unless they draw random
        numbers."""
        if not self._random or not listed:
            return self._new_row
        words = np.array([hash_of(each) for each in listed], np.uint32)
        size = 1 << (len(listed) - 1).bit_length()
        padded = np.concatenate([words, np.zeros((size - len(words), 2), np.uint32)])

        def row(word: jax.Array) -> Any:
            return self._layout.pack(self._begun(member_key(self._key, word)))

        packed = jax.jit(jax.vmap(row))(padded)
        return [np.asarray(each)[: len(listed)] for each in packed]

    def leave(self, ids: Any) -> None:
        """Remove members. Others may take their place in the arrays; nothing is compiled again."""
        with self._lock:
            listed, _ = self._members.slots(as_ids(ids))
            assert listed is not None
            self._members.leave(listed)
            self._left.update(listed)

    def parameters(self, ids: Any = None) -> dict[str, Array]:
        """Return the parameters of these members by name, a row for each; without ids, of all."""
        with self._lock:
            return self._parameters_of(self._members.slots(ids)[1])

    def set_parameters(self, ids: Any, parameters: Any) -> None:
        """Change parameters of members from their next round on; other names stay as they are."""
        with self._lock:
            listed, slots = self._members.slots(ids)
            listed = self.ids if listed is None else listed
            given = self._checked_parameters(parameters, listed, some=True)
            for name, values in given.items():
                self._members.arrays[f"parameters/{name}"][slots] = values
            self._members.arrays["changed"][slots] = True
            if "is_begun" in self._members.arrays:
                self._members.arrays["is_begun"][slots] = False

    def _checked_parameters(
        self, parameters: Any, listed: list[Id], some: bool = False
    ) -> dict[str, Array]:
        given = as_parameters(parameters, listed, self._dtype)
        wrong = set(given) ^ set(self._parameter_names)
        if some:
            wrong -= set(self._parameter_names)
        if wrong and listed:
            raise ValueError(
                f"parameters: got {', '.join(given) or 'none'}; expected "
                f"{', '.join(self._parameter_names) or 'none'}"
            )
        for name, values in given.items():
            expected = self._members.arrays[f"parameters/{name}"].shape[1:]
            if values.shape[1:] != expected:
                raise ValueError(
                    f"parameters[{name!r}]: got rows of shape {values.shape[1:]}; expected "
                    f"{expected}, as the others have"
                )
            dtype = self._members.arrays[f"parameters/{name}"].dtype
            if not np.can_cast(values.dtype, dtype, "same_kind"):
                raise TypeError(
                    f"parameters[{name!r}]: got values of type {values.dtype}; expected {dtype}, "
                    "as the others have"
                )
        return given

    def _parameters_of(self, slots: Array) -> dict[str, Array]:
        return {
            name: self._members.arrays[f"parameters/{name}"][slots]
            for name in self._parameter_names
        }

    @property
    def _state(self) -> list[Array]:
        return self._members.group("state")

    @property
    def _begun_state(self) -> list[Array]:
        return self._members.group("begun")

    def rounds(self, ids: Any = None) -> Array:
        """Return the round about to be played, from 1, for each of these members; without ids, for
        all."""
        with self._lock:
            return self._rounds(self._members.slots(ids)[1])

    def _rounds(self, slots: Array) -> Array:
        observed = self._columns.game.t.read(self._state, slots)
        return np.asarray(observed + self._columns.skipped.read(self._state, slots), np.int64)

    def skipped(self, ids: Any = None) -> Array:
        """Return how many rounds of each of these members were skipped; without ids, of all."""
        with self._lock:
            slots = self._members.slots(ids)[1]
            return np.asarray(self._columns.skipped.read(self._state, slots), np.int64)

    def totals(self, ids: Any = None) -> Totals:
        """Return the totals of loss and violations of observed rounds; the first axis is the
        member. Without ids, those of all."""
        with self._lock:
            slots, state = self._members.slots(ids)[1], self._state
            chunk = jax.tree.map(
                lambda column: column.read(state, slots),
                self._columns.game.totals,
                is_leaf=_is_column,
            )
        return Totals.of_chunk(chunk)

    def extremes(self, member: Id) -> Extremes:
        """Return the largest gradients, constraint values and loss differences that a member has
        seen, with their rounds."""
        with self._lock:
            return one_member.extremes(self._member(member), self._shape, clip_of(self.learner))

    def player(self, member: Id) -> Player:
        """Return a player that goes on where a member stands; the member stays in the fleet.

        Its data are those of the problem: with parameters, each observation contains them.
        """
        with self._lock:
            return one_member.player_of(
                self.learner,
                self.problem,
                self._data.counts,
                self._member(member),
                self._data.types.described(),
                np.asarray(self._first),
            )

    def certificate(self, member: Id, stream: Any = None, **options: Any) -> Certificate:
        """Return a member's measured violations beside the guarantee, and the assumptions compared
        with all rounds that it observed.

        Arguments:
            member: its id.
            stream: the data of all rounds that it observed, in their order, if regret is to be
                measured. Parameters that it does not contain are added, as they are now.
            options: as for `taut.Player.certificate`.
        """
        own = self.parameters([member])
        return one_member.certificate_of(self.player(member), own, stream, options)

    def _member(self, member: Id) -> Any:
        """Return the state of one member, its arrays in NumPy without keys."""
        slots = self._members.slots([member])[1]
        state = self._state
        return jax.tree.map(
            lambda column: column.read(state, slots)[0], self._columns, is_leaf=_is_column
        )

    def to_dataframe(self, what: str = "decisions") -> pandas.DataFrame:
        """Return a pandas table with a row per member.

        Arguments:
            what: "decisions": the entries of the decision by name; "totals": round, skipped rounds,
                loss and the violations of the constraints; "parameters".
        """
        pd = optional("pandas")

        arguments.one_of("what", what, ("decisions", "totals", "parameters"))
        with self._lock:
            index = pd.Index(self.ids, name="member")
            if what == "decisions":
                slots = self._members.slots(None)[1]
                if self.problem.announced is not None:
                    self._begin(None, slots)
                state = self._state if self.problem.announced is None else self._begun_state
                flat = self._columns.x.read(state, slots).reshape(len(slots), self._first.size)
                names = self.problem.coordinate_names or [f"x[{i}]" for i in range(flat.shape[1])]
                return pd.DataFrame(flat, index=index, columns=list(names))
            if what == "parameters":
                columns = {
                    name if values.ndim == 1 else f"{name}[{i}]": part
                    for name, values in self.parameters().items()
                    for i, part in enumerate(
                        values.reshape(len(values), math.prod(values.shape[1:])).T
                    )
                }
                return pd.DataFrame(columns, index=index)
            totals = self.totals()
            names = self.constraint_names or tuple(f"g[{i}]" for i in range(self._scored))
            columns = {"round": self.rounds(), "skipped": self.skipped(), "loss": totals.loss}
            for kind in ("violation", "peak", "excess"):
                parts = getattr(totals, kind).T
                columns |= {f"{kind} {name}": part for name, part in zip(names, parts, strict=True)}
            return pd.DataFrame(columns, index=index)

    def save(self, path: str | Path) -> None:
        """Write the fleet to a folder, atomically: a crash leaves the last complete state.

        Only members that changed since the last save to this folder are written; now and then all
        are. When the call returns, the fleet is on the disk.
        """
        self._save(path)

    def _save(self, path: str | Path, exclusive: bool = False) -> None:
        with self._lock:
            self._saved = fleet_file.save(self, path, exclusive)
            self._members.arrays["changed"][:] = False
            self._left.clear()

    def to_bytes(self) -> bytes:
        """Return all of the fleet as bytes, for `from_bytes`; with a checksum, without pickle."""
        with self._lock:
            return fleet_file.to_bytes(self)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle and copy a fleet as its bytes, its problem and its learner."""
        return Fleet.from_bytes, (self.to_bytes(), self.problem, self.learner)

    @classmethod
    def load(cls, path: str | Path, problem: Problem, learner: Learner | None = None) -> Fleet:
        """Load a fleet that `save` wrote. It continues exactly where it stopped.

        Arguments:
            path: the folder.
            problem: the problem, because a folder cannot hold its functions; domain, names of the
                coordinates and number of constraints must match.
            learner: if given, the fleet must have been saved with this learner.
        """
        fleet = fleet_file.load(cls, path, problem, learner)
        LOG.info("loaded a fleet of %d members from %s", len(fleet), path)
        return fleet

    @classmethod
    def from_bytes(cls, content: bytes, problem: Problem, learner: Learner | None = None) -> Fleet:
        """Return the fleet that `to_bytes` wrote; arguments as in `load`."""
        return fleet_file.from_bytes(cls, content, problem, learner)

    def _refused(self, listed: list[Id], slots: Array, faults: Array) -> Refused:
        """Return why members with faults were refused."""
        wrong = np.flatnonzero(faults)
        due = self._rounds(slots[wrong])
        return {listed[i]: _reason(int(faults[i]), int(t)) for i, t in zip(wrong, due, strict=True)}

    def _summary(self) -> Summary:
        with self._lock:
            totals = self.totals()
            due = self.rounds()
            facts = [
                ("learner", brief(self.learner)),
                ("parameters", ", ".join(self._parameter_names) or "none"),
                ("rounds", f"{due.min() - 1:,} to {due.max() - 1:,}" if len(due) else "none"),
                ("total loss", number(totals.loss.sum())),
                ("clipped violation", number(totals.worst_violation.sum())),
            ]
            return Summary(f"Fleet of {len(self):,} members", facts)


def member_key(key: jax.Array, words: Any) -> jax.Array:
    """Return the random key of the member whose id has this hash."""
    return jax.random.fold_in(jax.random.fold_in(key, words[0]), words[1])


def _is_column(part: Any) -> bool:
    return isinstance(part, Column)


def _reason(faults: int, round: int) -> str:
    """Say what is not finite in a round; `faults` has one bit for each name of `FAULTS`."""
    name = next(name for bit, name in enumerate(FAULTS) if faults >> bit & 1)
    argument = "z" if name == "data" else name
    return f"{argument}: got a value that is not finite in round {round}; expected finite numbers"


def tell(refused: Refused) -> Refused:
    """Warn of refused members, and return them."""
    if refused:
        who, why = named(list(refused)), next(iter(refused.values()))
        LOG.warning("refused %d members: %s (%s)", len(refused), who, why)
        warnings.warn(
            f"refused the members {who}, who stay as they were ({why})",
            RuntimeWarning,
            stacklevel=3,
        )
    return refused


def table_of_members(ids: Any, z: Any) -> tuple[Any, Any]:
    """Return ids and data; a table of pandas alone has the ids in its index."""
    if z is None and type(ids).__module__.split(".")[0] == "pandas" and hasattr(ids, "columns"):
        return ids.index, ids
    return ids, z
