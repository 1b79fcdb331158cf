"""Thousands of independent players of one family of problems, with their state as arrays."""

from __future__ import annotations

import logging
import math
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from .. import arguments
from ..display import Displayed, Summary, brief, number
from ..engine import Array, first_key, random_key, require_jax
from ..extras import optional
from ..learners import Advised, Learner
from ..learners.clipping import clip_of
from ..learners.protocols import PlaysPoints, points_of
from ..play.announced import traced_count
from ..play.packing import Place
from ..play.with_feedback import checked_learner
from ..player.data import constraint_count
from ..player.player import Player
from ..player.steps import Extremes, PlayerState
from ..problem.compatibility import first_decision
from ..problem.feasibility import check_feasible
from ..problem.problem import Problem
from ..problem.tables import plain
from ..runs.totals import Totals
from . import file as fleet_file, rounds as fleet_rounds
from .blocks import Blocks
from .data import (
    FleetData,
    as_parameters,
    by_column,
    checked_parameters,
    joined,
    table_of_members,
)
from .members import Id, KeptData, Members, as_ids
from .rounds import Refused, tell

if TYPE_CHECKING:
    import pandas

    from ..judge.certificate import Certificate


LOG = logging.getLogger(__name__)


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
        learner = checked_learner(learner, problem, "Fleet(learner, problem, ids)")
        if learner.request_first:
            raise TypeError(
                f"learner: {type(learner).__name__} sees a request before it decides; expected a "
                "learner that decides before a round is revealed, or taut.Player"
            )
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
        self._fingerprint: Any = None  # of the problem, for files
        self._blocks = Blocks(problem, learner, self._first, self._data.counts, self._key)
        packing = self._blocks.packing
        self._columns = packing.where()
        others = [(place.shape, place.dtype) for place in packing.places if place.array]
        of_state = [((packing.size,), packing.floating), *others]
        kinds = {f"state/{i}": kind for i, kind in enumerate(of_state)}
        kinds |= fleet_rounds.kinds_of_begun(learner, problem, of_state)
        kinds |= {
            f"parameters/{name}": (each.shape[1:], each.dtype) for name, each in given.items()
        }
        self._members = Members({**kinds, "changed": ((), bool)})
        self._told = KeptData(self._members, "announced")
        # What members observed last, if they have advisers: a forecast.
        self._last_data = KeptData(self._members, "last")
        self.join(listed, given)

    def _counted(
        self, count: int | None, announced_count: int | None, parameters: dict[str, Array]
    ) -> tuple[int, int]:
        """Return how many constraints the learner sees, and how many are announced."""
        row = {
            name: jax.ShapeDtypeStruct(each.shape[1:], each.dtype)
            for name, each in parameters.items()
        }
        problem, data, announced = self.problem, row or None, self.problem.announced
        # Whether announced constraints are known without data beside the parameters.
        known = announced is None or traced_count(problem, announced, data) is not None
        self._announced_is_known = known
        return (
            constraint_count(problem, count, "Fleet", data),
            constraint_count(problem, announced_count, "Fleet", data, announced=True),
        )

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

    def decisions(self, ids: Any = None, *, advice: Any = None, forecast: Any = None) -> Any:
        """Return the decisions to play now, a row for each of these members; without ids, for all.

        For a problem written in CVXPY with several variables, a dict of them by name. If announced
        constraints depend on data, call `announce` before.

        Arguments:
            ids: the members; None for all.
            advice: for `taut.Advised(learner)`, what your own controllers would play: an array or a
                table with a row per member, or a list with a decision or None for each. Missing
                advice is None, a masked row (`numpy.ma`), or an empty row of a table. For several
                advisers, the next axis is the adviser.
            forecast: predictions of the round's data, a row per member, or "last" for the data that
                each observed last. The last adviser is then the decision that is best for them, and
                `advice` is for the others.

        The round is not over until it is observed. Until then advice may be given again, and the
        last one counts; a new announcement and new parameters forget it. It is not saved: a fleet
        that is loaded from a file needs it again. Advice that is not
        finite is refused for its member alone, whose decision stays as it was: a warning and a log
        record name it.

        >>> import numpy as np, taut
        >>> demand = taut.Problem(
        ...     lambda x, z: (x[0] - z) ** 2, lambda x: x[0] - 2.0, taut.Box(0.0, 3.0, shape=1)
        ... )
        >>> advised = taut.Advised(taut.learner("half-space", demand))
        >>> fleet = taut.Fleet(advised, demand, ["a", "b"])
        >>> fleet.decisions(advice=[[1.0], None]).tolist()
        [[1.25], [1.5]]
        """
        if advice is None and forecast is None:
            return self._decisions(ids)
        require_jax(tracing=False)
        decisions, refused = self._advised(ids, advice, forecast)
        tell(refused)
        return decisions

    def _decisions(self, ids: Any) -> Any:
        with self._lock:
            chosen = self._members.chosen(ids)
            return self.problem.present(fleet_rounds.read(self, self._columns.x, chosen))

    def _advised(self, ids: Any, advice: Any, forecast: Any) -> tuple[Any, Refused]:
        with self._lock:
            refused = fleet_rounds.advise(self, self._members.chosen(ids), advice, forecast)
            return self._decisions(ids), refused

    def _has_begun(self, ids: list[Id]) -> Array:
        """Return which members have begun their round."""
        return fleet_rounds.has_begun(self, self._members.slots(ids))

    def weights(self, ids: Any = None) -> Array:
        """Return the weights of learner and advisers in the coming round, a row per member."""
        if not isinstance(self.learner, Advised):
            raise TypeError(
                f"weights: {type(self.learner).__name__} has no advisers; expected a fleet of "
                "taut.Advised(learner)"
            )
        with self._lock:
            weights = self._columns.game.learner.weights
            return fleet_rounds.read(self, weights, self._members.chosen(ids))

    def points(self, ids: Any = None) -> Array:
        """Return the points to play in this round, (member, point, *decision): the decision, or
        those around it that a bandit learner plays."""
        if not isinstance(self._blocks.learner, PlaysPoints):
            with self._lock:
                slots = self._members.slots(ids)
                decisions: Array = self._columns.x.read(self._state, slots)
            return decisions[:, None]

        def of_row(row: Any) -> jax.Array:
            state = self._blocks.packing.unpack(tuple(row))
            return jnp.stack(points_of(self._blocks.learner, state.game.learner))

        with self._lock:
            slots = self._members.slots(ids)
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
            return fleet_rounds.announce(self, self._members.chosen(ids), z)

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
            chosen = self._members.chosen(ids)
            return fleet_rounds.observe(self, chosen, z, rounds) if len(chosen) else {}

    def skip(self, ids: Any, reason: str = "") -> None:
        """Count a round of which nothing was observed. The decisions stay.

        Totals and extremes are those of the observed rounds; certificates say how many are missing.

        Arguments:
            ids: the members; None for all.
            reason: why, for the log.
        """
        arguments.instance("reason", reason, str, "a text")
        with self._lock:
            chosen = self._members.chosen(ids)
            fleet_rounds.skip(self, chosen)
        LOG.info("skipped a round of %d members: %s", len(chosen), reason or "no reason given")

    def join(self, ids: Any, parameters: Any = None) -> None:
        """Add members, before their first round.

        Arguments:
            ids: the new members.
            parameters: theirs, with the names of the others' parameters.
        """
        with self._lock:
            listed = as_ids(ids)
            given = checked_parameters(parameters, listed, self._members, self._dtype)
            rows = self._blocks.rows(listed)
            slots = self._members.join(listed)
            for array, row in zip(self._state, rows, strict=True):
                array[slots] = row
            self._renew(slots)
            self._set(slots, given)

    def _renew(self, slots: Array) -> None:
        """Forget what is known of the members that were in these slots."""
        fleet_rounds.forget(self, slots)
        self._last_data.forget(slots)

    def _set(self, slots: Array, parameters: dict[str, Array]) -> None:
        """Write parameters of members, who count as changed."""
        for name, values in parameters.items():
            self._members.arrays[f"parameters/{name}"][slots] = values
        self._members.arrays["changed"][slots] = True

    def leave(self, ids: Any) -> None:
        """Remove members. Others may take their place in the arrays; nothing is compiled again."""
        with self._lock:
            leaving = self._members.chosen(as_ids(ids)).ids
            self._members.leave(leaving)
            self._left.update(leaving)

    def parameters(self, ids: Any = None) -> dict[str, Array]:
        """Return the parameters of these members by name, a row for each; without ids, of all."""
        with self._lock:
            return self._members.rows("parameters", self._members.slots(ids))

    def set_parameters(self, ids: Any, parameters: Any) -> None:
        """Change parameters of members from their next round on; other names stay as they are."""
        with self._lock:
            chosen = self._members.chosen(ids)
            changed = checked_parameters(
                parameters, chosen.ids, self._members, self._dtype, some=True
            )
            self._set(chosen.slots, changed)
            fleet_rounds.forget(self, chosen.slots)

    @property
    def _state(self) -> list[Array]:
        return self._members.group("state")

    def rounds(self, ids: Any = None) -> Array:
        """Return the round about to be played, from 1, for each of these members; without ids, for
        all."""
        with self._lock:
            return fleet_rounds.coming(self, self._members.slots(ids))

    def skipped(self, ids: Any = None) -> Array:
        """Return how many rounds of each of these members were skipped; without ids, of all."""
        with self._lock:
            slots = self._members.slots(ids)
            return np.asarray(self._columns.skipped.read(self._state, slots), np.int64)

    def totals(self, ids: Any = None) -> Totals:
        """Return the totals of loss and violations of observed rounds; the first axis is the
        member. Without ids, those of all."""
        with self._lock:
            return Totals.of_chunk(self._read(self._columns.game.totals, self._members.slots(ids)))

    def extremes(self, member: Id) -> Extremes:
        """Return the largest gradients, constraint values and loss differences that a member has
        seen, with their rounds."""
        with self._lock:
            state, rounds = self._member(member), int(self.rounds([member])[0]) - 1
            return state.seen.extremes(self._shape, clip_of(self.learner), 1, rounds)

    def player(self, member: Id) -> Player:
        """Return a player that goes on where a member stands; the member stays in the fleet.

        Its data are those of the problem: with parameters, each observation contains them.
        """
        problem, counts = self.problem, self._data.counts
        with self._lock:
            player = Player(
                self.learner,
                problem,
                x1=self._first,
                count=counts[0],
                announced_count=None if problem.announced is None else counts[1],
                unproven=True,
            )
            player._now = player._steps.pack(self._member(member))
            player._history.restore({}, player.round - 1)
            if self._data.types.known:
                player._data.remember(self._data.types.example)
            return player

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
        return certificate_of(self.player(member), own, stream, options)

    def _member(self, member: Id) -> PlayerState:
        """Return the state of one member."""
        slot = self._members.slots([member])[0]
        row = tuple(np.array(array[slot]) for array in self._state)
        state: PlayerState = self._blocks.packing.unpack(row)
        return state

    def _read(self, columns: Any, slots: Array) -> Any:
        """Return the arrays of members at these columns, a row for each."""
        state = self._state
        return jax.tree.map(
            lambda column: column.read(state, slots),
            columns,
            is_leaf=lambda part: isinstance(part, Place),
        )

    def to_dataframe(self, what: str = "decisions") -> pandas.DataFrame:
        """Return a pandas table with a row per member.

        Arguments:
            what: "decisions": the entries of the decision by name; "totals": round, skipped rounds,
                loss and the violations of the constraints; "parameters"; with advisers, "weights".
        """
        pd, usual = optional("pandas"), ("decisions", "totals", "parameters")
        with_advisers = isinstance(self.learner, Advised)
        arguments.one_of("what", what, (*usual, "weights") if with_advisers else usual)
        with self._lock:
            columns: dict[str, Array] = {}
            if what == "decisions":
                read = fleet_rounds.read(self, self._columns.x, self._members.chosen())
                flat = read.reshape(len(self), math.prod(self._shape))
                names = self.problem.coordinate_names or [f"x[{i}]" for i in range(flat.shape[1])]
                columns = dict(zip(names, flat.T, strict=True))
            elif what == "weights":
                for k, part in enumerate(self.weights().T):
                    columns[f"weight[adviser {k}]" if k else "weight[learner]"] = part
            elif what == "parameters":
                for name, values in self.parameters().items():
                    parts = values.reshape(len(self), math.prod(values.shape[1:])).T
                    for i, part in enumerate(parts):
                        columns[name if values.ndim == 1 else f"{name}[{i}]"] = part
            else:
                totals, count = self.totals(), self._blocks.scored
                names = self.constraint_names or [f"g[{i}]" for i in range(count)]
                columns = {"round": self.rounds(), "skipped": self.skipped(), "loss": totals.loss}
                for kind in ("violation", "peak", "excess"):
                    for name, part in zip(names, getattr(totals, kind).T, strict=True):
                        columns[f"{kind} {name}"] = part
            return pd.DataFrame(columns, index=pd.Index(self.ids, name="member"))

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
            problem: the problem, because a folder cannot hold its functions. Domain, names and
                shapes must match, and loss and constraints must have the values that they had, at
                a few decisions.
            learner: if given, the fleet must have been saved with this learner.
        """
        fleet = fleet_file.load(cls, path, problem, learner)
        LOG.info("loaded a fleet of %d members from %s", len(fleet), path)
        return fleet

    @classmethod
    def from_bytes(cls, content: bytes, problem: Problem, learner: Learner | None = None) -> Fleet:
        """Return the fleet that `to_bytes` wrote; arguments as in `load`."""
        return fleet_file.from_bytes(cls, content, problem, learner)

    def _summary(self) -> Summary:
        with self._lock:
            totals = self.totals()
            due = self.rounds()
            facts = [
                ("learner", brief(self.learner)),
                ("parameters", ", ".join(self.parameters([])) or "none"),
                ("rounds", f"{due.min() - 1:,} to {due.max() - 1:,}" if len(due) else "none"),
                ("total loss", number(totals.loss.sum())),
                ("clipped violation", number(totals.worst_violation.sum())),
            ]
            return Summary(f"Fleet of {len(self):,} members", facts)


def certificate_of(
    player: Player, parameters: dict[str, Array], stream: Any, options: dict[str, Any]
) -> Certificate:
    """Return the certificate of a member's player. Its parameters, in one row, are added to the
    data."""
    if stream is not None and parameters:
        given = plain(by_column(stream))
        length = len(next(iter(jax.tree.leaves(given)), ()))
        known = given if isinstance(given, dict) else {}
        own = {
            name: np.repeat(row, length, axis=0)
            for name, row in parameters.items()
            if name not in known
        }
        stream = joined(given, own)
    return player.certificate(stream=stream, **options)
