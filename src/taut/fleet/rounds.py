"""The rounds of the members of a fleet: announced constraints are enforced, advice is taken, then
data are revealed.

A member begins its round when something of it is known before its decision. What it begins with is
kept beside its state, which a refusal, another announcement or other advice leaves as it is.
"""

from __future__ import annotations

import logging
import warnings
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from .. import arguments
from ..engine import Array
from ..learners import Advised, Learner
from ..play.advice import LAST, MISSING, check_advised
from ..player.guards import not_finite
from ..player.steps import heeded, revealed, skipped
from ..problem.problem import Problem
from .data import advice_of_members, joined
from .members import Arrays, Chosen, Id, Kinds, named

if TYPE_CHECKING:
    from .fleet import Fleet


LOG = logging.getLogger("taut.fleet")
Refused = dict[Id, str]
"""The members whose data were refused, with the reasons."""


def kinds_of_begun(learner: Learner, problem: Problem, state: list[Any]) -> Kinds:
    """Return the arrays that members need beside those of their state, which are of these kinds."""
    if problem.announced is None and not isinstance(learner, Advised):
        return {}
    return {f"begun/{i}": kind for i, kind in enumerate(state)} | {"is_begun": ((), bool)}


def forget(fleet: Fleet, slots: Array) -> None:
    """The members in these slots have not begun their round."""
    if "is_begun" in fleet._members.arrays:
        fleet._members.arrays["is_begun"][slots] = False
    fleet._told.forget(slots)


def has_begun(fleet: Fleet, slots: Array) -> Array:
    """Return which members have begun their round."""
    if "is_begun" not in fleet._members.arrays:
        return np.zeros(len(slots), bool)
    begun: Array = fleet._members.arrays["is_begun"][slots]
    return begun


def read(fleet: Fleet, part: Any, chosen: Chosen) -> Array:
    """Return a part of the state with which members play their round."""
    if fleet.problem.announced is not None:
        _begin(fleet, chosen)
    own: Array = part.read(fleet._state, chosen.slots)
    begun = np.flatnonzero(has_begun(fleet, chosen.slots))
    if len(begun):
        own = own.copy()
        own[begun] = part.read(fleet._members.group("begun"), chosen.slots[begun])
    return own


def coming(fleet: Fleet, slots: Array) -> Array:
    """Return the round about to be played, for each member."""
    observed = fleet._columns.game.t.read(fleet._state, slots)
    return np.asarray(observed + fleet._columns.skipped.read(fleet._state, slots), np.int64)


def announce(fleet: Fleet, chosen: Chosen, z: Any) -> Refused:
    """Move decisions into announced constraints; return the members with bad data."""
    data = fleet._data.announced(z, chosen.ids, fleet._members.rows("parameters", chosen.slots))
    if fleet._announced_is_known:  # other data make no difference
        return _take(fleet, chosen, data, None, None)
    fleet._told.check(data)
    refused = _take(fleet, chosen, data, None, None)
    well = chosen.places_without(refused)
    fleet._told.keep(chosen.slots[well], jax.tree.map(lambda leaf: leaf[well], data))
    return refused


def _take(fleet: Fleet, chosen: Chosen, announced: Any, said: Any, predicted: Any) -> Refused:
    """Begin rounds from the state of members with announced data, advice and forecasts; return
    those in whose numbers one is not finite."""
    begun, slots = fleet._members.group("begun"), chosen.slots
    faults = fleet._blocks.take(heeded, fleet._state, begun, slots, announced, said, predicted)
    fleet._members.arrays["is_begun"][slots[faults == 0]] = True
    return _refused(chosen, coming(fleet, slots), faults)


def advise(fleet: Fleet, chosen: Chosen, advice: Any, forecast: Any) -> Refused:
    """Take advice and forecasts; return the members with bad ones, who stay as they were."""
    learner = check_advised(fleet.learner, None)
    due, predicted = coming(fleet, chosen.slots), forecast is not None
    rows, speaks, wrong = advice_of_members(advice, learner, fleet.problem, chosen.ids, predicted)
    why = "got a value that is not finite in round"
    reasons = {
        chosen.ids[i]: f"advice: {why} {due[i]}; expected finite numbers. {MISSING}"
        for i in np.flatnonzero(wrong)
    }
    said = (rows.astype(fleet._dtype), speaks) if rows.shape[1] else None
    expected: Any = None
    if predicted:
        expected, bad = _forecast(fleet, forecast, chosen)
        for i in np.flatnonzero(bad & ~wrong):
            reasons[chosen.ids[i]] = f"forecast: {why} {due[i]}; expected finite numbers"
    if fleet.problem.announced is not None:
        _begin(fleet, chosen)
    well = chosen.places_without(reasons)
    if len(well):
        rest = chosen.at(well)
        said, expected = jax.tree.map(lambda leaf: leaf[well], (said, expected))
        announced: Any = None
        if fleet.problem.announced is not None and fleet._announced_is_known:
            announced = joined(None, fleet._members.rows("parameters", rest.slots))
        elif fleet.problem.announced is not None:
            announced = fleet._told.read(rest.slots)
        reasons |= _take(fleet, rest, announced, said, expected)
    return reasons


def _forecast(fleet: Fleet, forecast: Any, chosen: Chosen) -> tuple[Any, Array]:
    """Return predicted data with a row for each member and whether they are known, and whose are
    not finite."""
    bad = np.zeros(len(chosen), bool)
    if isinstance(forecast, str):
        arguments.one_of("forecast", forecast, (LAST,))
        return _last(fleet, chosen), bad
    parameters = fleet._members.rows("parameters", chosen.slots)
    try:
        data, _ = fleet._data.observed(forecast, chosen.ids, parameters)
    except (TypeError, ValueError) as error:
        raise type(error)(f"forecast: {error}") from error
    for leaf in jax.tree.leaves(data):
        bad |= ~np.isfinite(leaf.reshape(len(chosen), -1)).all(axis=1)
    return (data, np.ones(len(chosen), bool)), bad


def _last(fleet: Fleet, chosen: Chosen) -> tuple[Any, Array] | None:
    """Return what members observed last, with their present parameters, and who observed something;
    None if nobody did."""
    slots = chosen.slots
    known = fleet._last_data.known(slots)
    lost = ~known & (fleet._columns.game.t.read(fleet._state, slots) > 1)
    if lost.any():
        raise ValueError(
            f"forecast: got {LAST!r}, but the last data of "
            f"{named(chosen.at(np.flatnonzero(lost)).ids)} were not saved; expected "
            "predicted data"
        )
    data, parameters = fleet._last_data.read(slots), fleet._members.rows("parameters", slots)
    if data is None:
        return None
    return ({**data, **parameters} if parameters else data), known


def _begin(fleet: Fleet, chosen: Chosen) -> None:
    """Enforce the announced constraints of members who have not begun their round."""
    waiting = chosen.at(np.flatnonzero(~has_begun(fleet, chosen.slots)))
    if not len(waiting):
        return
    if not fleet._announced_is_known:
        raise TypeError(
            f"decisions: the announced constraints of {named(waiting.ids)} are not known; call "
            "fleet.announce(ids, z) before"
        )
    data = joined(None, fleet._members.rows("parameters", waiting.slots))
    _take(fleet, waiting, data, None, None)


def observe(fleet: Fleet, chosen: Chosen, z: Any, rounds: Any) -> Refused:
    """Reveal a round; return the members that were refused."""
    parameters = fleet._members.rows("parameters", chosen.slots)
    data, row = fleet._data.observed(z, chosen.ids, parameters)
    due = coming(fleet, chosen.slots)
    reasons = _unexpected(chosen, due, rounds)
    if fleet.problem.announced is not None:
        reasons |= _not_announced(fleet, chosen, chosen.places_without(reasons), data)
    if reasons:
        playing = chosen.places_without(reasons)
        chosen, due = chosen.at(playing), due[playing]
        data = jax.tree.map(lambda leaf: leaf[playing], data)
    slots = chosen.slots
    faults = fleet._blocks.take(revealed, _source(fleet, slots), fleet._state, slots, data)
    accepted = slots[faults == 0]
    if isinstance(fleet.learner, Advised):
        fleet._last_data.keep(accepted, jax.tree.map(lambda leaf: leaf[faults == 0], data))
    fleet._members.arrays["changed"][accepted] = True
    forget(fleet, accepted)
    if len(accepted):
        fleet._data.types.remember(row)
    return reasons | _refused(chosen, due, faults)


def _source(fleet: Fleet, slots: Array) -> Arrays:
    """Return the arrays from which members play: as they began, or their state."""
    state, begun = fleet._state, fleet._members.group("begun")
    if not begun:
        return state
    waiting = slots[~has_begun(fleet, slots)]
    for array, own in zip(begun, state, strict=True):
        array[waiting] = own[waiting]
    return begun


def _unexpected(chosen: Chosen, due: Array, rounds: Any) -> Refused:
    """Return why members are refused whose round is not the one that the user named."""
    if rounds is None:
        return {}
    array = arguments.as_array("rounds", rounds)
    if array.dtype.kind not in "iu" or array.shape not in ((), due.shape):
        raise TypeError(
            f"rounds: got {arguments.shown(rounds)}; expected a whole number, or one for each of "
            f"{len(due)} members"
        )
    told = np.broadcast_to(array, due.shape)
    return {
        chosen.ids[i]: f"rounds: got {told[i]}; expected {due[i]}, the round that comes next"
        for i in np.flatnonzero(told != due)
    }


def _not_announced(fleet: Fleet, chosen: Chosen, playing: Array, data: Any) -> Refused:
    """Return why those at the places `playing` are refused whose announced constraints are not
    known, or whose data differ from what was announced. Constraints that need no data are
    enforced."""
    slots = chosen.slots
    waiting = playing[~has_begun(fleet, slots[playing])]
    reasons = {}
    if fleet._announced_is_known:
        _begin(fleet, chosen.at(waiting))
    else:
        why = "z: the announced constraints of the round are not known; expected "
        reasons = {chosen.ids[i]: f"{why}fleet.announce(ids, z) before" for i in waiting}
        playing = np.setdiff1d(playing, waiting)
    announced = dict(jax.tree_util.tree_flatten_with_path(fleet._told.read(slots))[0])
    told = fleet._told.known(slots)
    for path, leaf in jax.tree_util.tree_flatten_with_path(data)[0]:
        before = announced.get(path, leaf)
        same = np.zeros(leaf.shape, bool) if before.shape != leaf.shape else before == leaf
        differs = told & ~same.reshape(len(slots), -1).all(axis=1)
        for i in playing[differs[playing]]:
            reasons[chosen.ids[i]] = (
                f"z{jax.tree_util.keystr(path)}: got {arguments.entries(leaf[i])}; expected "
                f"{arguments.entries(before[i])}, as was announced"
            )
    return reasons


def skip(fleet: Fleet, chosen: Chosen) -> None:
    """Count a round of which nothing was observed; the decision was played nevertheless."""
    if fleet._columns.game.previous is not None and fleet.problem.announced is not None:
        _begin(fleet, chosen)
    slots = chosen.slots
    nothing = np.full(len(slots), -1, np.int32)
    fleet._blocks.take(skipped, _source(fleet, slots), fleet._state, slots, nothing)
    forget(fleet, slots)
    fleet._members.arrays["changed"][slots] = True


def _refused(chosen: Chosen, rounds: Array, faults: Array) -> Refused:
    """Return why members were refused.

    `faults` has for each member one bit for each name of `FAULTS` that is not finite.
    """
    wrong = np.flatnonzero(faults)
    return {chosen.ids[i]: not_finite(int(faults[i]), int(rounds[i]))[1] for i in wrong}


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
