"""The coming rounds of the members of a fleet: announced constraints are enforced, advice is taken,
then data are revealed.

A member begins its round when something of it is known before its decision. What it begins with is
kept beside its state, which a refusal, another announcement or other advice leaves as it is.
"""

from __future__ import annotations

import logging
import warnings
from typing import Any

import jax
import numpy as np

from .. import arguments
from ..engine import Array
from ..learners import Advised, Learner
from ..play.advice import LAST, MISSING, check_advised
from ..player.guards import not_finite
from ..player.steps import heeded, revealed, skipped
from ..problem.problem import Problem
from .blocks import Arrays, Blocks
from .data import FleetData, advice_of_members, joined
from .members import Id, KeptData, Kinds, Members, named

LOG = logging.getLogger("taut.fleet")
Refused = dict[Id, str]
"""The members whose data were refused, with the reasons."""


class ComingRounds:
    """Plays the rounds of members.

    Arguments:
        learner: the learner.
        problem: the problem.
        members: the arrays of the members.
        blocks: the compiled steps.
        columns: where the parts of a member's state are.
        data: converts what members observe.
        known: whether announced constraints need no data beside the parameters.
    """

    def __init__(
        self,
        learner: Learner,
        problem: Problem,
        members: Members,
        blocks: Blocks,
        columns: Any,
        data: FleetData,
        known: bool,
    ) -> None:
        self._learner, self._problem, self._members = learner, problem, members
        self._blocks, self._columns, self._data, self._known = blocks, columns, data, known
        self._announced = problem.announced is not None
        self._advised = isinstance(learner, Advised)
        self._told = KeptData(members, "announced")
        self.last = KeptData(members, "last")
        """What members observed last, if they have advisers: a forecast."""

    @staticmethod
    def kinds(
        learner: Learner, problem: Problem, state: list[tuple[tuple[int, ...], Any]]
    ) -> Kinds:
        """Return the arrays that members need beside those of their state."""
        if problem.announced is None and not isinstance(learner, Advised):
            return {}
        return {f"begun/{i}": kind for i, kind in enumerate(state)} | {"is_begun": ((), bool)}

    @property
    def state(self) -> Arrays:
        """The state of members between rounds."""
        return self._members.group("state")

    @property
    def _begun(self) -> Arrays:
        return self._members.group("begun")

    @property
    def _is_begun(self) -> Array:
        return self._members.arrays["is_begun"]

    def forget(self, slots: Array) -> None:
        """The members in these slots have not begun their round."""
        if "is_begun" in self._members.arrays:
            self._is_begun[slots] = False
        self._told.forget(slots)

    def renew(self, slots: Array) -> None:
        """The members in these slots are new."""
        self.forget(slots)
        self.last.forget(slots)

    def has_begun(self, slots: Array) -> Array:
        """Return which members have begun their round."""
        if "is_begun" not in self._members.arrays:
            return np.zeros(len(slots), bool)
        begun: Array = self._is_begun[slots]
        return begun

    def read(self, part: Any, listed: list[Id] | None, slots: Array) -> Array:
        """Return a part of the state with which members play their round."""
        if self._announced:
            self._begin(listed, slots)
        own: Array = part.read(self.state, slots)
        begun = np.flatnonzero(self.has_begun(slots))
        if len(begun):
            own = own.copy()
            own[begun] = part.read(self._begun, slots[begun])
        return own

    def rounds(self, slots: Array) -> Array:
        """Return the round about to be played, for each member."""
        observed = self._columns.game.t.read(self.state, slots)
        return np.asarray(observed + self._columns.skipped.read(self.state, slots), np.int64)

    def parameters(self, slots: Array) -> dict[str, Array]:
        """Return the parameters of members by name."""
        return {
            name.partition("/")[2]: array[slots]
            for name, array in self._members.arrays.items()
            if name.startswith("parameters/")
        }

    def announce(self, listed: list[Id], slots: Array, z: Any) -> Refused:
        """Move decisions into announced constraints; return the members with bad data."""
        data = self._data.announced(z, listed, self.parameters(slots))
        if self._known:  # other data make no difference
            return self._take(listed, slots, data, None, None)
        self._told.check(data)
        refused = self._take(listed, slots, data, None, None)
        well = np.array([each not in refused for each in listed], bool)
        self._told.keep(slots[well], jax.tree.map(lambda leaf: leaf[well], data))
        return refused

    def _take(self, listed: list[Id], slots: Array, *given: Any) -> Refused:
        """Begin rounds from the state of members with announced data, advice and forecasts; return
        those in whose numbers one is not finite."""
        faults = self._blocks.take(heeded, self.state, self._begun, slots, *given)
        self._is_begun[slots[faults == 0]] = True
        return _refused(listed, self.rounds(slots), faults)

    def advise(self, listed: list[Id], slots: Array, advice: Any, forecast: Any) -> Refused:
        """Take advice and forecasts; return the members with bad ones, who stay as they were."""
        learner = check_advised(self._learner, None)
        due, predicted = self.rounds(slots), forecast is not None
        rows, given, wrong = advice_of_members(advice, learner, self._problem, listed, predicted)
        reasons = {
            listed[i]: f"advice: got a value that is not finite in round {due[i]}; expected finite "
            f"numbers. {MISSING}"
            for i in np.flatnonzero(wrong)
        }
        said = (rows.astype(self._blocks.packing.floating), given) if rows.shape[1] else None
        expected: Any = None
        if predicted:
            expected, bad = self._forecast(forecast, listed, slots)
            reasons |= {
                listed[i]: f"forecast: got a value that is not finite in round {due[i]}; expected "
                "finite numbers"
                for i in np.flatnonzero(bad & ~wrong)
            }
            wrong = wrong | bad
        if self._announced:
            self._begin(listed, slots)
        well = np.flatnonzero(~wrong)
        if len(well):
            chosen = jax.tree.map(lambda leaf: leaf[well], (said, expected))
            known = [listed[i] for i in well]
            told = self._announced_data(slots[well])
            reasons |= self._take(known, slots[well], told, *chosen)
        return reasons

    def _announced_data(self, slots: Array) -> Any:
        """Return the announced data of members who have begun their round."""
        if not self._announced:
            return None
        return joined(None, self.parameters(slots)) if self._known else self._told.read(slots)

    def _forecast(self, forecast: Any, listed: list[Id], slots: Array) -> tuple[Any, Array]:
        """Return predicted data with a row for each member and whether they are known, and whose
        are not finite."""
        if isinstance(forecast, str):
            arguments.one_of("forecast", forecast, (LAST,))
            return self._last(listed, slots), np.zeros(len(slots), bool)
        try:
            data = self._data.arranged(forecast, listed, self.parameters(slots))
            data, _ = self._data.cast(data)
        except (TypeError, ValueError) as error:
            raise type(error)(f"forecast: {error}") from error
        bad = np.zeros(len(slots), bool)
        for leaf in jax.tree.leaves(data):
            bad |= ~np.isfinite(leaf.reshape(len(slots), -1)).all(axis=1)
        return (data, np.ones(len(slots), bool)), bad

    def _last(self, listed: list[Id], slots: Array) -> tuple[Any, Array] | None:
        """Return what members observed last, with their present parameters, and who observed
        something; None if nobody did."""
        known = self.last.known(slots)
        lost = ~known & (self._columns.game.t.read(self.state, slots) > 1)
        if lost.any():
            raise ValueError(
                f"forecast: got {LAST!r}, but the last data of "
                f"{named([listed[i] for i in np.flatnonzero(lost)])} were not saved; expected "
                "predicted data"
            )
        data, parameters = self.last.read(slots), self.parameters(slots)
        if data is None:
            return None
        return ({**data, **parameters} if parameters else data), known

    def _begin(self, listed: list[Id] | None, slots: Array) -> None:
        """Enforce the announced constraints of members who have not begun their round."""
        waiting = np.flatnonzero(~self._is_begun[slots])
        if not len(waiting):
            return
        listed = self._members.ids if listed is None else listed
        chosen = [listed[i] for i in waiting]
        if not self._known:
            raise TypeError(
                f"decisions: the announced constraints of {named(chosen)} are not known; call "
                "fleet.announce(ids, z) before"
            )
        slots = slots[waiting]
        self._take(chosen, slots, joined(None, self.parameters(slots)), None, None)

    def observe(self, listed: list[Id], slots: Array, z: Any, rounds: Any) -> Refused:
        """Reveal a round; return the members that were refused."""
        data = self._data.arranged(z, listed, self.parameters(slots))
        data, row = self._data.cast(data)
        reasons, playing = self._expected(listed, slots, rounds)
        if self._announced:
            unknown, playing = self._announced_members(listed, slots, playing)
            different, playing = self._as_announced(listed, slots, playing, data)
            reasons |= unknown | different
        if len(playing) < len(slots):
            slots = slots[playing]
            listed = [listed[i] for i in playing]
            data = jax.tree.map(lambda leaf: leaf[playing], data)
        due = self.rounds(slots)
        faults = self._blocks.take(revealed, self._source(slots), self.state, slots, data)
        accepted = slots[faults == 0]
        if self._advised:
            self.last.keep(accepted, jax.tree.map(lambda leaf: leaf[faults == 0], data))
        self._members.arrays["changed"][accepted] = True
        self.forget(accepted)
        if len(accepted):
            self._data.types.remember(row)
        return reasons | _refused(listed, due, faults)

    def _source(self, slots: Array) -> Arrays:
        """Return the arrays from which members play: as they began, or their state."""
        if "is_begun" not in self._members.arrays:
            return self.state
        waiting = slots[~self._is_begun[slots]]
        for begun, own in zip(self._begun, self.state, strict=True):
            begun[waiting] = own[waiting]
        return self._begun

    def _expected(self, listed: list[Id], slots: Array, given: Any) -> tuple[Refused, Array]:
        """Return why members are refused whose round is not the given one, and the places of the
        others."""
        places = np.arange(len(slots))
        if given is None:
            return {}, places
        array = arguments.as_array("rounds", given)
        if array.dtype.kind not in "iu" or array.shape not in ((), slots.shape):
            raise TypeError(
                f"rounds: got {arguments.shown(given)}; expected a whole number, or one for each "
                f"of {len(slots)} members"
            )
        told, due = np.broadcast_to(array, slots.shape), self.rounds(slots)
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
        waiting = playing[~self._is_begun[slots[playing]]]
        if self._known:
            self._begin([listed[i] for i in waiting], slots[waiting])
            return {}, playing
        reasons = {
            listed[i]: "z: the announced constraints of the round are not known; expected "
            "fleet.announce(ids, z) before"
            for i in waiting
        }
        return reasons, np.setdiff1d(playing, waiting)

    def _as_announced(
        self, listed: list[Id], slots: Array, playing: Array, data: Any
    ) -> tuple[Refused, Array]:
        """Return why members are refused whose data differ from those that were announced, and the
        places of the others."""
        announced = dict(jax.tree_util.tree_flatten_with_path(self._told.read(slots))[0])
        told, reasons = self._told.known(slots), {}
        for path, leaf in jax.tree_util.tree_flatten_with_path(data)[0]:
            kept = announced.get(path, leaf)
            same = np.zeros(leaf.shape, bool) if kept.shape != leaf.shape else kept == leaf
            differs = told & ~same.reshape(len(slots), -1).all(axis=1)
            for i in playing[differs[playing]]:
                reasons[listed[i]] = (
                    f"z{jax.tree_util.keystr(path)}: got {arguments.entries(leaf[i])}; expected "
                    f"{arguments.entries(kept[i])}, as was announced"
                )
        wrong = [i for i in playing if listed[i] in reasons]
        return reasons, np.setdiff1d(playing, wrong)

    def skip(self, listed: list[Id] | None, slots: Array) -> None:
        """Count a round of which nothing was observed; the decision was played nevertheless."""
        if self._columns.game.previous is not None and self._announced:
            self._begin(listed, slots)
        nothing = np.full(len(slots), -1, np.int32)
        self._blocks.take(skipped, self._source(slots), self.state, slots, nothing)
        self.forget(slots)
        self._members.arrays["changed"][slots] = True


def _refused(listed: list[Id], rounds: Array, faults: Array) -> Refused:
    """Return why members were refused.

    Arguments:
        listed: the members.
        rounds: the round that each was to play.
        faults: for each, one bit for each name of `FAULTS` that is not finite.
    """
    wrong = np.flatnonzero(faults)
    return {listed[i]: not_finite(int(faults[i]), int(rounds[i]))[1] for i in wrong}


def tell(reasons: Refused) -> Refused:
    """Warn of refused members, and return them."""
    if reasons:
        who, why = named(list(reasons)), next(iter(reasons.values()))
        LOG.warning("refused %d members: %s (%s)", len(reasons), who, why)
        warnings.warn(
            f"refused the members {who}, who stay as they were ({why})",
            RuntimeWarning,
            stacklevel=3,
        )
    return reasons
