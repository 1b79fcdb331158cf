"""Rounds of which no observation came, and those among them that may still come late."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..engine import Array
from ..learners import Learner
from ..learners.protocols import LateRounds, uncovered
from ..problem.feedback import Delayed
from .hooks import Refused

__all__ = ["MissingRounds", "Pending", "check_late"]


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

    unknown: int = 0
    """How many rounds were never observed."""
    late: int = 0
    """How many were observed late."""
    pending: tuple[Pending, ...] = ()
    """Those of the unknown rounds that may still come, in their order."""
    migrated: int = 0
    """How many rounds were played on another problem, before the player was migrated."""

    @property
    def passed(self) -> int:
        """How many rounds are over that totals do not contain."""
        return self.unknown + self.migrated

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
            return self._replace(unknown=self.unknown + 1)
        waiting = (*self.pending, new)[-learner.delay :]
        return self._replace(unknown=self.unknown + 1, pending=waiting)

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
        return self._replace(unknown=self.unknown - 1, late=self.late + 1, pending=rest)

    def to_arrays(self, size: int) -> dict[str, Array]:
        """Return the arrays that `from_arrays` needs; `size` is that of a decision."""
        if self == MissingRounds():
            return {}
        before = [each.previous for each in self.pending if each.previous is not None]
        return {
            "about": np.array([self.unknown, self.late, self.migrated]),
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
        unknown, late, migrated = map(int, arrays["about"])
        rounds, decisions = arrays["rounds"], arrays["decisions"]
        count = len(rounds)
        previous = arrays.get("previous", np.zeros((0, size)))
        if (
            min(unknown, late, migrated) < 0
            or count > unknown
            or rounds.shape != (count, 2)
            or rounds.dtype.kind not in "iu"
            or np.any(rounds < 0)
            or decisions.shape != (count, size)
            or previous.shape != (count if remembers else 0, size)
            or not (np.isfinite(decisions).all() and np.isfinite(previous).all())
        ):
            raise ValueError("the missing rounds are not those of this player")
        pending = tuple(
            Pending(int(t), int(tag), decisions[i], previous[i] if remembers else None)
            for i, (t, tag) in enumerate(rounds)
        )
        return cls(unknown, late, pending, migrated)


def check_late(learner: Learner, feedback: Any) -> None:
    """Refuse late rounds for a learner whose guarantees do not cover them."""
    if feedback is not None:
        raise TypeError(
            f"observe_late: this player has feedback={feedback!r}; expected full information"
        )
    if isinstance(learner, LateRounds):
        return
    why = uncovered(learner, Delayed(1)) or (
        f"{type(learner).__name__} does not keep apart which decision a late round belongs to"
    )
    raise TypeError(
        f"observe_late: {why}; expected taut.DelayTolerant(learner, delay=d), whose guarantees "
        "cover rounds that come late. Skip the round instead"
    )
