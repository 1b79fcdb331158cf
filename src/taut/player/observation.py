"""The rounds of a player: what is known of a round before its decision, then its data or
measurements, after which the player goes on with another state. Rounds can be skipped, come late or
be taken back."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np

from .. import arguments
from ..engine import Array, require_jax
from ..learners import Learner
from ..learners.protocols import Grows, LateRounds, uncovered
from ..play.advice import LAST, advice_of_round, check_advised
from ..play.announced import announced_needs_data
from ..problem.compatibility import cast_data
from ..problem.evaluation import constraint_evaluation
from ..problem.feasibility import check_feasible, find_feasible
from ..problem.feedback import Delayed
from ..problem.problem import Problem
from . import steps
from .data import checked_measurements
from .guards import Refused, alarm, check_flags, refuse_outside, refused
from .memory import MissingRounds, Pending
from .steps import PackedState

if TYPE_CHECKING:
    from .player import Player


LOG = logging.getLogger("taut.player")
WEIGHTS = 512
"""Rounds whose weights are remembered."""
EXACT = 1e-12
"""Relative violation of announced constraints that counts as none."""
Measured = tuple[Any, Any, Any, Any]
"""Gradient, excess, Jacobian and loss at the decision just played; None for what was not given."""


def play(player: Player, z: Any, played: Any, numbers: Measured) -> None:
    """Play the round with its data, or with measurements; see `Player.observe`."""
    gradient, excess, jacobian, loss = numbers
    is_measured = gradient is not None or excess is not None or jacobian is not None
    if is_measured == (z is not None):
        came = "both z and measurements" if is_measured else "neither z nor measurements"
        raise TypeError(f"z: got {came}; expected either z, or gradient, excess and jacobian")
    before = begin(player) if played is None else _with_decision(player, played)
    if is_measured:
        accept(player, _measured(player, before, numbers), before, changed=played is not None)
        return
    if loss is not None:
        raise TypeError(
            "loss: got a value beside z; expected it only beside gradient, excess and jacobian"
        )
    after, data = _revealed(player, z, before)
    accept(player, after, before, changed=played is not None)
    if player._keeps_data or not player._data.known:
        remember(player, data)


def _measured(player: Player, before: PackedState, numbers: Measured) -> PackedState:
    """Return the state after a round with these measurements."""
    if player.problem.announced is not None:
        raise TypeError(
            "excess: got measurements for a problem with announced constraints; expected z"
        )
    measured = checked_measurements(
        *numbers, count=player._count, shape=player._shape, dtype=player._dtype
    )
    after = player._steps.take(steps.measured, before, *measured)
    if after.report[0]:
        check_flags(player, after.report, player.round)
    return after


def _revealed(player: Player, z: Any, before: PackedState) -> tuple[PackedState, Any]:
    """Return the state after a round with these data, and the data. The player stays as it is."""
    data = player._data.quick_cast(z)
    if data is None:  # rarely: walking a tree takes time
        data = player._data.cast(player.problem.arrange(z))
    if player._guard is not None:
        refuse_outside(player._guard, data, player.round, player._last_data)
    if player._begun is not None:
        check_announced_data(player, data)
    after = player._steps.take(steps.revealed, before, data)
    if after.report[0]:
        check_flags(player, after.report, player.round)
    if player._in_doubt:
        # A played decision that satisfies all constraints spares the search for another.
        if max(after.report[2 : player._played.start]) > 0:
            check_feasible(player.problem)
        player._in_doubt = False
    return after, data


def ask(player: Player, z: Any) -> PackedState:
    """Let a learner decide for a request; return the state after the round, with the decision."""
    player._asked = _revealed(player, z, player._now)
    return player._asked[0]


def finish(player: Player, told: bool) -> None:
    """End the round of the last request; `told` says whether the user told more of it."""
    kind = type(player.learner).__name__
    if told:
        raise TypeError(
            f"observe: {kind} sees the request first; call player.decide(z), then player.observe()"
        )
    if player._asked is None:
        raise TypeError(
            f"observe: no request was made; {kind} needs player.decide(z) before player.observe()"
        )
    after, data = player._asked
    accept(player, after, after)
    remember(player, data)


class Undo(NamedTuple):
    """What is needed to take back the last round."""

    before: PackedState
    missing: MissingRounds
    changed: int
    """The number of rounds in which another decision was played than the learner's."""
    data: tuple[int, Any] | None
    known: bool
    """Whether it was known what data are like."""


def accept(player: Player, after: PackedState, before: PackedState, changed: bool = False) -> None:
    """Take over the state after a round, and add the round to the history.

    `before` is the state from which it was played; `changed` says whether another decision was
    played than the learner's.
    """
    if player._past_weights is not None:
        player._past_weights[player.round] = player._weights_in(before)
        if len(player._past_weights) > WEIGHTS:
            del player._past_weights[next(iter(player._past_weights))]
    _go_on(player, after, after.report[player._row])
    player._changed += changed
    if player._room is not None and cast("Grows", player.learner).is_full(
        player._steps.unpack(after).game.learner
    ):
        player._make_room(2 * player._room)


def _go_on(player: Player, after: PackedState, row: Array) -> None:
    """Replace the state by that after a round, of which the history gets a row."""
    player._last = Undo(
        player._now, player._missing, player._changed, player._last_data, player._data.known
    )
    player._history.add(row)
    player._now, player._begun, player._asked = after, None, None


def remember(player: Player, data: Any, round: int | None = None) -> None:
    """Remember the data of a round that was accepted, by default the last one."""
    player._data.remember(data)
    number = player.round - 1 if round is None else round
    last = player._last_data
    if player._keeps_data and (last is None or number > last[0]):
        player._last_data = number, jax.tree.map(np.array, data)


class Begun(NamedTuple):
    """The round about to be played, if something of it is known before its decision."""

    state: PackedState | None
    """The state with which it is played; None if advice is not in the file from which the player
    was loaded."""
    data: Any = None
    """What was announced."""
    said: Any = None
    """Advice."""
    predicted: Any = None
    """A forecast."""

    @property
    def advised(self) -> bool:
        """Whether it was begun with advice or a forecast."""
        return self.state is None or self.said is not None or self.predicted is not None


LOST = Begun(None)
"""A round that was begun with advice, before the player was saved."""


def begin(player: Player) -> PackedState:
    """Return the state with which the round is played; announced constraints that need data must be
    announced before."""
    begun = player._begun
    if begun is None:
        if player.problem.announced is None:
            return player._now
        _check_known(player, "decision")
        return _take(player, None, None, None)
    if begun.state is None:
        raise TypeError(
            f"advice: round {player.round} was begun with advice before the player was saved, and "
            "a file does not hold it; call player.decide again with the same advice"
        )
    return begun.state


def _check_known(player: Player, name: str) -> None:
    if announced_needs_data(player.problem):
        raise TypeError(
            f"{name}: the announced constraints of round {player.round} are not known; call "
            "player.announce(z) before"
        )


def announce(player: Player, z: Any) -> PackedState:
    """Enforce the constraints that the data `z` announce; see `Player.announce`."""
    if player.problem.announced is None:
        raise TypeError(
            "announce: the problem has no announced constraints; expected taut.Problem(..., "
            "announced=...)"
        )
    arranged = player.problem.arrange_announced(z)
    data = jax.tree.map(lambda leaf: cast_data("z", leaf, player._dtype), arranged)
    _refuse_not_finite(player, "z", data)
    before = player._begun or LOST
    return _take(player, data, before.said, before.predicted)


def advise(player: Player, z: Any, advice: Any, forecast: Any) -> PackedState:
    """Take advice, a forecast, or both; see `Player.decide`."""
    learner = check_advised(player.learner, player.feedback)
    if z is not None:
        raise TypeError(
            "z: got data beside advice; expected them in player.announce(z) if constraints are "
            "announced, or as forecast=z if they are a prediction"
        )
    known = forecast is not None
    said = advice_of_round(advice, learner, player.problem, player._dtype, known)
    predicted = _predicted(player, forecast) if known else None
    before = player._begun or LOST
    if player.problem.announced is not None and before.state is None:
        _check_known(player, "advice")
    return _take(player, before.data, said, predicted)


def _predicted(player: Player, forecast: Any) -> Any:
    """Return predicted data in the form of a round's data and whether they are known, or refuse
    them."""
    if isinstance(forecast, str):
        arguments.one_of("forecast", forecast, (LAST,))
        last = player._last_data
        if last is None and player.observed:
            raise ValueError(
                f"forecast: got {LAST!r}, but the data before round {player.round} are not in "
                "the file; expected the predicted data"
            )
        return None if last is None else (last[1], np.ones((), bool))
    try:
        data = player._data.cast(player.problem.arrange(forecast))
    except (TypeError, ValueError) as error:
        raise type(error)(f"forecast: {error}") from error
    _refuse_not_finite(player, "forecast", data, ", or no forecast")
    return data, np.ones((), bool)


def _refuse_not_finite(player: Player, name: str, data: Any, otherwise: str = "") -> None:
    if not all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(data)):
        raise ValueError(
            f"{name}: got a value that is not finite in round {player.round}; expected finite "
            f"numbers{otherwise}"
        )


def _take(player: Player, data: Any, said: Any, predicted: Any) -> PackedState:
    """Take advice and enforce announced constraints, or raise an error if no decision satisfies
    them. Returns the state with which the round is played."""
    after = player._steps.take(steps.heeded, player._now, data, said, predicted)
    if after.report[0]:  # advice, announced and predicted data are finite
        raise Refused(
            f"forecast: got predicted data with which the loss of round {player.round} is not "
            "finite; expected data with a finite loss",
            entry="forecast",
        )
    if after.report[1] > max(EXACT, 1e3 * float(np.finfo(player._dtype).eps)):
        game = player._steps.unpack(after).game
        x = np.asarray(game.x)
        inside = _nearest_known(player.problem, x, data, game.previous, player.round)
        after = player._steps.take(steps.replaced, after, np.asarray(inside, player._dtype))
    player._begun = Begun(after, data, said, predicted)
    return after


def check_announced_data(player: Player, data: Any) -> None:
    """Refuse data of the round that differ from those that were announced."""
    if player._begun is None or player._begun.data is None:
        return
    observed = dict(jax.tree_util.tree_flatten_with_path(data)[0])
    for path, value in jax.tree_util.tree_flatten_with_path(player._begun.data)[0]:
        other = observed.get(path, value)
        if not np.array_equal(other, value):
            name = f"z{jax.tree_util.keystr(path)}"
            came, announced = arguments.entries(other), arguments.entries(value)
            raise Refused(
                f"{name}: got {came} in round {player.round}; expected {announced}, as was "
                "announced",
                entry=name,
                came=came,
                announced=announced,
            )


def _with_decision(player: Player, decision: Any) -> PackedState:
    """Return the state with the decision that was really played."""
    shape = player.problem.domain.shape
    came = arguments.finite("played", player.problem.assemble(decision))
    if came.shape != shape:
        raise ValueError(f"played: got shape {came.shape}; expected {shape}, that of a decision")
    x = np.asarray(came, player._dtype)
    if not np.asarray(player.problem.domain.contains(jnp.asarray(x), 1e-9)):
        raise ValueError(
            f"played: got {arguments.entries(came)}, outside the domain; expected a point inside"
        )
    begun = player._begun
    before = player._now if begun is None or begun.state is None else begun.state
    return player._steps.take(steps.replaced, before, x)


def _nearest_known(problem: Problem, x: Array, data: Any, previous: Any, round: int) -> Array:
    """Return a decision that satisfies the announced constraints, on the way from `x` to one that
    satisfies them; an error says that there is none and by how much they miss.

    If all that is found satisfies them up to rounding of a solver, `x` is returned.
    """
    announced = problem.announced
    assert announced is not None
    revealed = problem.given(data, previous)
    alone = Problem(
        lambda u, z: jnp.sum(u), lambda u: announced.values(u, revealed), problem.domain
    )
    search = find_feasible(alone)
    if search.proven:
        raise Refused(
            f"announced: no decision of the domain satisfies the announced constraints of round "
            f"{round}; every one exceeds some by {search.bound:.6g} at least, and the best that "
            f"was found by {search.violation:.6g}",
            least=search.bound,
            violation=search.violation,
        )
    values = constraint_evaluation(alone)
    inside = np.asarray(search.least_violating, x.dtype)
    if values.values(inside[None, None]).max() > 0:
        return x
    shares = 1 - 2.0 ** -np.arange(1, 53)  # towards x, from the nearest to the farthest
    points = inside + np.concatenate([shares[::-1], [0.0]]).reshape(-1, *[1] * x.ndim) * (
        x - inside
    )
    holds = values.values(points.astype(x.dtype)[:, None]).max(axis=(1, 2)) <= 0
    return np.asarray(points[int(np.argmax(holds))], x.dtype)


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
        before = player._now if player._begun is None else begin(player)
        missing = player._missing
        lost = np.asarray(missing.lost(player.learner), np.int32)
        after = player._steps.take(steps.skipped, before, lost)
        previous = player._steps.unpack(before).game.previous
        new = Pending(
            player.round,
            int(after.report[1]),
            np.array(after.report[player._played]),
            None if previous is None else np.array(previous).ravel(),
        )
        LOG.info(
            "round %d was skipped: %s",
            new.round,
            reason or "no reason was given",
            extra={"taut_event": "skipped", "taut_round": new.round},
        )
        unknown = np.full(1 + player._count, np.nan)
        _go_on(player, after, np.append(unknown, new.decision))
        player._missing = missing.skipped(player.learner, new)


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
                earlier = player._last_data
                known = earlier if earlier is not None and earlier[0] < number else None
                refuse_outside(player._guard, data, number, known)
            x, previous = (
                None if flat is None else flat.reshape(player._shape).astype(player._dtype)
                for flat in (late.decision, late.previous)
            )
            numbers = (np.asarray(each, np.int32) for each in (number, late.tag))
            after = player._steps.take(steps.late, player._now, data, *numbers, x, previous)
            if after.report[0]:
                check_flags(player, after.report, number)
        except (TypeError, ValueError) as error:
            refused(player, number, error)
            raise
        player._now, player._last = after, None
        player._history.fill(number, after.report[1 : player._played.start])
        player._missing = player._missing.arrived(number)
        remember(player, data, number)
        if after.report[0]:
            alarm(player, number)


def undo(player: Player) -> None:
    """Take back the last round; see `Player.undo`."""
    with player._lock:
        if player._last is None:
            raise TypeError(
                f"undo: nothing can be taken back before round {player.round}; expected it once "
                "after observe or skip, in the same process"
            )
        player._now, player._missing, player._changed, player._last_data, known = player._last
        player._last = player._begun = player._asked = None
        player._history.take_back()
        if player._past_weights is not None:
            player._past_weights.pop(player.round, None)
        if not known:
            player._data.forget()
        LOG.info(
            "round %d was taken back",
            player.round,
            extra={"taut_event": "undone", "taut_round": player.round},
        )
