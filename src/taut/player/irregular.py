"""Rounds of a player that do not come in their order: they are skipped, observed late, or taken
back."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .. import arguments
from ..engine import Array, require_jax
from ..learners import Learner
from ..learners.protocols import LateRounds, uncovered
from ..problem.feedback import Delayed
from .decision import begin
from .guards import Refused, alarm, check_flags
from .observation import remember
from .steps import late as late_step, skipped as skipped_step

if TYPE_CHECKING:
    from .player import Player


LOG = logging.getLogger("taut.player")


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
            or not (np.isfinite(decisions).all() and np.isfinite(previous).all())
        ):
            raise ValueError("the missing rounds are not those of this player")
        pending = tuple(
            Pending(int(t), int(tag), decisions[i], previous[i] if remembers else None)
            for i, (t, tag) in enumerate(rounds)
        )
        return cls(late, pending, migrated)


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


def skip(player: Player, reason: str) -> None:
    """Go on to the next round without an observation; see `Player.skip`."""
    arguments.instance("reason", reason, str, "a text")
    require_jax(tracing=False)
    with player._lock:
        arrays, report = player._arrays, player._report
        if player._begun is not None:
            arrays, report = begin(player)
        missing = player._missing
        lost = np.asarray(missing.lost(player.learner), np.int32)
        after, told = player._steps.take(skipped_step, arrays, lost)
        before = player._layout.unpack((report, *arrays[1:])).game.previous
        new = Pending(
            player.round,
            int(told[1]),
            np.array(told[player._played]),
            None if before is None else np.array(before).ravel(),
        )
        LOG.info(
            "round %d was skipped: %s",
            new.round,
            reason or "no reason was given",
            extra={"taut_event": "skipped", "taut_round": new.round},
        )
        player._last = player._arrays, player._report, missing, player._changed, True
        player._history.add(np.append(np.full(1 + player._count, np.nan), new.decision))
        player._missing = missing.skipped(player.learner, new)
        player._arrays, player._report = after, told
        player._begun = player._asked = None


def observe_late(player: Player, round: int, z: Any) -> None:
    """Reveal the data of a round that was skipped; see `Player.observe_late`."""
    check_late(player.learner, player.feedback)
    require_jax(tracing=False)
    with player._lock:
        number = arguments.count("round", round)
        try:
            late = player._missing.find(number, player.round)
            data = player._data.cast(player.problem.arrange(z))
            if player._guard is not None:
                earlier = player._last_data.last
                known = earlier if earlier is not None and earlier[0] < number else None
                player._guard.refuse(data, number, known)
            x, previous = (
                None if flat is None else flat.reshape(player._shape).astype(player._dtype)
                for flat in (late.decision, late.previous)
            )
            numbers = (np.asarray(each, np.int32) for each in (number, late.tag))
            arrays, report = player._steps.take(
                late_step, player._arrays, data, *numbers, x, previous
            )
            if report[0]:
                check_flags(player, report, number)
        except (TypeError, ValueError) as error:
            player._hooks.refused(number, error)
            raise
        player._arrays, player._report, player._last = arrays, report, None
        player._history.fill(number, report[1 : player._played.start])
        player._missing = player._missing.arrived(number)
        remember(player, data, number)
        if report[0]:
            alarm(player, number)


def undo(player: Player) -> None:
    """Take back the last round; see `Player.undo`."""
    with player._lock:
        if player._last is None:
            raise TypeError(
                f"undo: nothing can be taken back before round {player.round}; expected it once "
                "after observe or skip, in the same process"
            )
        player._arrays, player._report, player._missing, player._changed, skipped = player._last
        player._last = player._begun = player._asked = None
        player._history.take_back()
        if not skipped:
            player._last_data.take_back()
            if not player.observed:
                player._data.forget()
                player._learns_of_data = True
        LOG.info(
            "round %d was taken back",
            player.round,
            extra={"taut_event": "undone", "taut_round": player.round},
        )
