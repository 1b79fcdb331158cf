"""What a live player remembers of its rounds beside its state: the last rounds, earlier ones
thinned, the last data, and the rounds that are missing. All of it takes
bounded memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import numpy as np

from .. import arguments, files
from ..engine import Array
from ..extras import optional
from ..learners import Learner
from ..learners.protocols import LateRounds
from .data import DataTypes
from .guards import Refused

if TYPE_CHECKING:
    import pandas


ROWS = 512
"""Recent rounds that are all kept, and at most as many earlier ones."""
NUMBERS = 2**19
"""Numbers that each of the two parts holds at most, so that a player with large decisions stays
small."""


class History:
    """Loss, constraint values and decision of the last rounds, and of every s-th round before them.

    The spacing s starts at 1. When the earlier rounds fill their buffer, every other one is dropped
    and s doubles.

    >>> history = History(constraints=1, size=1, rows=4)
    >>> for t in range(1, 20):
    ...     history.add(np.array([float(t), -1.0, 0.5]))
    >>> history.rounds.tolist()
    [4, 8, 12, 16, 17, 18, 19]
    """

    def __init__(self, constraints: int, size: int, rows: int | None = None) -> None:
        self._constraints, self._width = constraints, 1 + constraints + size
        self.constraint_names: tuple[str, ...] | None = None
        """The names of the constraints, in the order of `excess`, if they have names."""
        self.coordinate_names: tuple[str, ...] | None = None
        """The names of the entries of a decision, if they have names."""
        self.asked = ROWS if rows is None else rows
        """How many rounds the user wants to be kept."""
        self._recent = max(4, min(self.asked, NUMBERS // self._width)) if self.asked else 0
        # Rounds of which nothing is known, played before a file without a history was loaded.
        self._before = 0
        self._count = 0  # rounds after these
        self._spacing = 1
        self._rows: dict[int, Array] = {}
        """By the number of the round among those that were counted, increasing."""
        # The spacing before the last round was added, and the rows that were dropped for it.
        self._dropped: tuple[int, dict[int, Array]] = (1, {})

    def add(self, row: Array) -> None:
        """Add a round: its loss and g_1..g_m, NaN if they are not known, and the decision."""
        self._count += 1
        if not self.asked:
            return
        self._rows[self._count] = np.array(row, float)
        leaving = self._count - self._recent
        dropped: dict[int, Array] = {}
        self._dropped = self._spacing, dropped
        if leaving < 1:
            return
        if leaving % self._spacing == 0 and leaving // self._spacing > self._recent:
            for round in range(self._spacing, leaving, 2 * self._spacing):
                dropped[round] = self._rows.pop(round)
            self._spacing *= 2
        if leaving % self._spacing:
            dropped[leaving] = self._rows.pop(leaving)

    def take_back(self) -> None:
        """Forget the last round, as if it had not been added. Only one can be taken back."""
        self._rows.pop(self._count, None)
        self._count -= 1
        self._spacing, dropped = self._dropped
        self._rows = dict(sorted({**self._rows, **dropped}.items()))

    def fill(self, round: int, loss_and_excess: Array) -> None:
        """Write loss and constraint values of a round that was added without them, if it is still
        remembered."""
        row = self._rows.get(round - self._before)
        if row is not None:
            row[: 1 + self._constraints] = loss_and_excess

    @property
    def rounds(self) -> Array:
        """The numbers of the remembered rounds, increasing."""
        return self._before + np.array(list(self._rows), int)

    @property
    def loss(self) -> Array:
        """The losses of these rounds; NaN where none was observed."""
        return self._values()[:, 0]

    @property
    def excess(self) -> Array:
        """The constraint values, (round, constraint); NaN in rounds that were skipped."""
        return self._values()[:, 1 : 1 + self._constraints]

    @property
    def decision(self) -> Array:
        """The decisions, flat: (round, entry)."""
        return self._values()[:, 1 + self._constraints :]

    @property
    def names(self) -> dict[str, list[str]]:
        """The names of the constraints ("excess") and of the entries of a decision, or names made
        from letters."""
        size = self._width - 1 - self._constraints
        return {
            "excess": list(self.constraint_names or (f"g[{i}]" for i in range(self._constraints))),
            "decision": list(self.coordinate_names or (f"x[{i}]" for i in range(size))),
        }

    def _values(self) -> Array:
        return np.array(list(self._rows.values())).reshape(-1, self._width)

    def to_frame(self, times: Any = None) -> pandas.DataFrame:
        """Return the remembered rounds as a pandas table: loss, constraints and the entries of the
        decision, by name.

        Arguments:
            times: the times of all rounds, `times[t - 1]` being that of round t (for example a
                pandas index), or a function of the round. They become the index. By default that is
                the number of the round.

        >>> import pandas as pd
        >>> history = History(constraints=1, size=1)
        >>> history.add(np.array([2.0, -1.0, 0.5]))
        >>> history.to_frame(pd.date_range("2026-01-01", periods=1, freq="5min"))
                    loss  g[0]  x[0]
        time
        2026-01-01   2.0  -1.0   0.5
        """
        pd = optional("pandas")

        rounds = self.rounds
        index = pd.Index(rounds, name="round")
        if callable(times):
            index = pd.Index([times(int(t)) for t in rounds], name="time")
        elif times is not None:
            one_axis = hasattr(times, "__len__") and getattr(times, "ndim", 1) == 1
            if isinstance(times, str | bytes) or not one_axis:
                raise TypeError(
                    f"times: got {arguments.shown(times)}; expected the times of all rounds, or a "
                    "function of the round"
                )
            if len(times) < rounds.max(initial=0):
                raise ValueError(
                    f"times: got {len(times)} times; expected those of all {rounds.max()} rounds"
                )
            index = pd.Index(list(times), name="time")[rounds - 1]
        columns = ["loss", *self.names["excess"], *self.names["decision"]]
        return pd.DataFrame(self._values(), index=index, columns=columns)

    def to_arrays(self) -> dict[str, Array]:
        """Return the arrays that `restore` needs."""
        earlier = len(self._rows) - min(len(self._rows), self._recent)
        about = np.array([self._count, self._spacing, earlier])
        return {"about": about, "values": self._values()}

    def restore(self, arrays: dict[str, Array], rounds: int) -> None:
        """Continue from `to_arrays` after so many rounds; ValueError or KeyError if the arrays do
        not fit. Without arrays, nothing is known of the rounds before."""
        if not arrays or not self.asked:
            self._before = rounds
            return
        count, spacing, earlier = map(int, arrays["about"])
        values = arrays["values"]
        recent = min(count, self._recent)
        if (
            not 0 <= count <= rounds
            or spacing < 1
            or earlier != (count - recent) // spacing
            or earlier > self._recent
            or values.shape != (earlier + recent, self._width)
        ):
            raise ValueError("the history is not that of this player")
        numbers = [*range(spacing, earlier * spacing + 1, spacing)]
        numbers += range(count - recent + 1, count + 1)
        self._before, self._count, self._spacing = rounds - count, count, spacing
        self._rows = dict(zip(numbers, np.array(values, float), strict=True))


def data_to_arrays(last: tuple[int, Any] | None) -> dict[str, Array]:
    """Return the arrays that describe a round and its data; none if nothing is known."""
    return {} if last is None else {"round": np.asarray(last[0]), **files.flat(last[1])}


def data_from_arrays(arrays: Mapping[str, Array], types: DataTypes) -> tuple[int, Any] | None:
    """Return what `data_to_arrays` described, for data of these types."""
    if not arrays or not types.known:
        return None
    expected, structure = jax.tree.flatten(types.example)
    leaves = [arrays[str(i)] for i in range(len(arrays) - 1)]
    if [(leaf.shape, leaf.dtype) for leaf in leaves] != [
        (leaf.shape, leaf.dtype) for leaf in expected
    ]:
        raise ValueError("its last data have other shapes or types")
    return int(arrays["round"]), jax.tree.unflatten(structure, leaves)


class Pending(NamedTuple):
    """A round that was skipped and may come late."""

    round: int
    tag: int
    """What the learner is told when it comes."""
    decision: Array
    """The decision that was played, flat."""
    previous: Array | None
    """The decision before it, flat, if the problem depends on it."""


class MissingRounds(NamedTuple):
    """The rounds of a player without an observation. Immutable, so that a round can be undone."""

    late: int = 0
    """How many were observed late."""
    pending: tuple[Pending, ...] = ()
    """Those of the rounds that may still come, in their order."""
    migrated: int = 0
    """How many rounds were played on another problem, before the player was migrated."""

    @property
    def rounds(self) -> tuple[int, ...]:
        """The numbers of the rounds that may still come."""
        return tuple(each.round for each in self.pending)

    def lost(self, learner: Learner) -> int:
        """Return the tag of the round that is given up if one more is skipped; -1 for none."""
        full = isinstance(learner, LateRounds) and len(self.pending) >= learner.delay
        return self.pending[0].tag if full and self.pending else -1

    def skipped(self, learner: Learner, new: Pending) -> MissingRounds:
        """Return the rounds with one more, without those that are given up."""
        if not isinstance(learner, LateRounds) or not learner.delay:
            return self
        return self._replace(pending=(*self.pending, new)[-learner.delay :])

    def find(self, round: int, expected: int) -> Pending:
        """Return the pending round with this number, or say why there is none."""
        for each in self.pending:
            if each.round == round:
                return each
        why = "which was observed, or was given up because the learner waits for no older rounds"
        if round >= expected:
            why = f"which is not over; call player.observe(z) for round {expected}"
        listed = ", ".join(map(str, self.rounds)) or "none"
        raise Refused(
            f"round: got {round}, {why}; expected one that was skipped and may still come: "
            f"{listed}",
            came=round,
            pending=list(self.rounds),
        )

    def arrived(self, round: int) -> MissingRounds:
        """Return the rounds without one that was observed late."""
        rest = tuple(each for each in self.pending if each.round != round)
        return self._replace(late=self.late + 1, pending=rest)

    def to_arrays(self, size: int) -> dict[str, Array]:
        """Return the arrays that `from_arrays` needs; `size` is that of a decision."""
        if self == MissingRounds():
            return {}
        before = [each.previous for each in self.pending if each.previous is not None]
        return {
            "about": np.array([self.late, self.migrated]),
            "rounds": np.array([[each.round, each.tag] for each in self.pending], int).reshape(
                -1, 2
            ),
            "decisions": np.array([each.decision for each in self.pending]).reshape(-1, size),
            **({"previous": np.array(before)} if before else {}),
        }

    @classmethod
    def from_arrays(cls, arrays: dict[str, Array], size: int, remembers: bool) -> MissingRounds:
        """Return what `to_arrays` described; ValueError or KeyError if the arrays do not fit."""
        if not arrays:
            return cls()
        late, migrated = map(int, arrays["about"])
        rounds, decisions = arrays["rounds"], arrays["decisions"]
        count = len(rounds)
        previous = arrays.get("previous", np.zeros((0, size)))
        if (
            min(late, migrated) < 0
            or rounds.shape != (count, 2)
            or rounds.dtype.kind not in "iu"
            or np.any(rounds < 0)
            or decisions.shape != (count, size)
            or previous.shape != (count if remembers else 0, size)
        ):
            raise ValueError("the missing rounds are not those of this player")
        pending = tuple(
            Pending(int(t), int(tag), decisions[i], previous[i] if remembers else None)
            for i, (t, tag) in enumerate(rounds)
        )
        return cls(late, pending, migrated)
