"""Guards of a player: limits on data, what becomes of a round that refutes a stated constant, and
the events that an operator should know of, as log records and calls of functions.

Limits are checked in Python before a round is played. Constants are compared with the extremes of
the round inside the compiled step, which raises a flag in the header: a player without alarms pays
nothing for it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from .. import arguments
from ..engine import Array
from ..play.round import FAULTS
from ..problem.problem import Problem
from .steps import FAULTY, NAMES, REFUTED, VIOLATED

if TYPE_CHECKING:
    from .player import Player


LOG = logging.getLogger("taut.player")
EVENTS = {
    "refuted": "a stated constant was exceeded",
    "bound": "a measured quantity is above its bound",
    "refused": "a round was refused",
    "violated": "a constraint was violated by more than the tolerance",
}


REACTIONS = ("warn", "refuse")
"""What may become of a round that refutes a constant."""
SLACK = 1e-6
"""Relative room for rounding before a constant counts as refuted, as in certificates."""


@dataclass(frozen=True)
class Event:
    """Something that happened in a round.

    The log record of an event has its fields as `taut_event`, `taut_round` and `taut_numbers`.
    """

    name: str
    """One of `EVENTS`."""
    round: int
    message: str
    numbers: Mapping[str, Any] = field(default_factory=dict)
    """What came and what was expected, by name: numbers and texts."""


class Refused(ValueError):
    """A round that was refused, with the numbers that say why."""

    def __init__(self, message: str, **numbers: Any) -> None:
        super().__init__(message)
        self.numbers = numbers


def happened(player: Player, event: Event) -> None:
    """Write a log record, then call the functions for the event. What these raise is not caught."""
    about = {"taut_event": event.name, "taut_round": event.round}
    LOG.warning("%s", event.message, extra={**about, "taut_numbers": dict(event.numbers)})
    for function in tuple(player._functions.get(event.name, ())):
        function(event)


def refused(player: Player, round: int, error: Exception) -> None:
    """Report a round that was refused with this error."""
    numbers = error.numbers if isinstance(error, Refused) else {}
    happened(player, Event("refused", round, f"round {round} was refused: {error}", numbers))


@dataclass(frozen=True)
class Limits:
    """What the data of a round may be; a round outside is refused.

    Arguments:
        low: the least value of every entry, a number or an array.
        high: the largest.
        change: how much an entry may change from one round to the next, at most. After rounds that
            were skipped it may change as many times more.
        check: a function of the data that returns whether they can be true.

    >>> import numpy as np, taut
    >>> problem = taut.Problem(lambda x, z: z @ x, lambda x: x.sum() - 1, taut.Box(0, 1, shape=2))
    >>> player = taut.Player(problem, limits=taut.Limits(0.0, 10.0, change=2.0))
    >>> player.observe(np.array([3.0, 4.0]))
    >>> player.observe(np.array([3.0, 400.0]))
    Traceback (most recent call last):
    taut.player.guards.Refused: z[1]: got 400 in round 2; expected at most 10
    """

    low: Any = None
    high: Any = None
    change: Any = None
    check: Callable[[Any], Any] | None = None

    def __post_init__(self) -> None:
        for name in ("low", "high", "change"):
            value = getattr(self, name)
            if value is not None:
                array = arguments.finite(name, value).astype(float)
                object.__setattr__(self, name, array)
        if self.change is not None and np.any(self.change < 0):
            raise ValueError(f"change: got {self.change}; expected numbers that are not negative")
        if self.low is not None and self.high is not None and np.any(self.low > self.high):
            raise ValueError(f"low: got {self.low}, above high={self.high}; expected less")
        if self.check is not None and not callable(self.check):
            raise TypeError(
                f"check: got {arguments.shown(self.check)}; expected a function of the data"
            )

    def refuse(self, name: str, value: Any, last: Any, rounds: int, round: int) -> None:
        """Raise an error if the value is outside.

        `last` are the data that were observed last, so many rounds ago, or None.
        """
        if self.check is not None and not self.check(value):
            raise Refused(
                f"{name}: got {arguments.shown(value)} in round {round}; expected data that "
                f"{getattr(self.check, '__name__', 'check')}(z) accepts",
                entry=name,
                limit="check",
            )
        leaves = jax.tree_util.tree_flatten_with_path(value)[0]
        others = [None] * len(leaves) if last is None else jax.tree.leaves(last)
        for (path, leaf), then in zip(leaves, others, strict=True):
            entry, numbers = f"{name}{jax.tree_util.keystr(path)}", np.asarray(leaf, float)
            if self.low is not None:
                _compare(entry, numbers, self.low, "at least", numbers, round)
            if self.high is not None:
                _compare(entry, numbers, self.high, "at most", numbers, round)
            if self.change is not None and then is not None:
                change = np.abs(numbers - np.asarray(then, float))
                most = rounds * self.change
                _compare(entry, change, most, "a change of at most", numbers, round)


def _compare(name: str, values: Array, limit: Array, side: str, shown: Array, round: int) -> None:
    """Raise an error that names the first entry that is outside."""
    try:
        limits = np.broadcast_to(limit, values.shape)
    except ValueError:
        raise ValueError(
            f"limits: got an array of shape {limit.shape} for {name}, of shape {values.shape}; "
            "expected a number or the same shape"
        ) from None
    places = np.argwhere(values < limits if side == "at least" else values > limits)
    if not len(places):
        return
    place = tuple(map(int, places[0]))
    came, entry = float(shown[place]), f"{name}[{', '.join(map(str, place))}]" if place else name
    raise Refused(
        f"{entry}: got {came:g} in round {round}; expected {side} {limits[place]:g}",
        entry=entry,
        value=came,
        limit=float(limits[place]),
        expected=side,
    )


Guard = dict[str | None, Limits]
"""Limits by the name of the data; under None for all of them."""


def as_limits(limits: Any) -> Guard:
    """Return the guard of data: of `Limits`, of a dict of them by name, or of a function."""
    if isinstance(limits, Limits):
        return {None: limits}
    if isinstance(limits, Mapping):
        for name, each in limits.items():
            if not isinstance(name, str) or not isinstance(each, Limits):
                raise TypeError(
                    f"limits: got {arguments.shown(each)} for {name!r}; expected taut.Limits(...) "
                    "for the name of data"
                )
        return dict(limits)
    if callable(limits):
        return {None: Limits(check=limits)}
    raise TypeError(
        f"limits: got {arguments.shown(limits)}; expected taut.Limits(...), a dict of them by the "
        "names of the data, or a function of the data"
    )


def refuse_outside(guard: Guard, data: Any, round: int, known: tuple[int, Any] | None) -> None:
    """Raise an error if data of this round are outside the limits; `known` are round and data that
    were observed last."""
    number, last = known or (round, None)
    for name, limits in guard.items():
        if name is None:
            limits.refuse("z", data, last, round - number, round)
            continue
        if not isinstance(data, Mapping) or name not in data:
            raise Refused(
                f"limits: got limits for {name!r}, which is not in the data of round {round}; "
                "expected the name of an entry of a dict",
                entry=name,
            )
        then = last[name] if isinstance(last, Mapping) and name in last else None
        limits.refuse(f"z[{name!r}]", data[name], then, round - number, round)


def check_reaction(reaction: Any, name: str = "on_refuted") -> None:
    """Refuse what is neither a reaction nor, for the argument of a player, a function."""
    if name != "on_refuted" or not callable(reaction):
        arguments.one_of(name, reaction, REACTIONS)


def thresholds(problem: Problem, tolerance: float, dtype: Any) -> Array:
    """Return what the extremes of a round are compared with: the stated constants in the order of
    `NAMES`, then the violation that is tolerated. Estimated constants are not stated."""
    known, stated = problem.constants, []
    for name in NAMES:
        constant = np.inf if name in known.estimated else getattr(known, name)
        stated.append(np.inf if constant is None else float(constant) * (1 + SLACK))
    with np.errstate(over="ignore"):
        return np.asarray([*stated, tolerance], dtype)


def refuted_event(problem: Problem, seen: Array, stated: Array, round: int) -> Event:
    """Return the event of a round that exceeds a stated constant by the most."""
    with np.errstate(all="ignore"):
        ratio = np.where(seen[: len(NAMES)] > stated[: len(NAMES)], seen[: len(NAMES)], 0)
        ratio = ratio / np.where(stated[: len(NAMES)] > 0, stated[: len(NAMES)], 1e-300)
    name, value = NAMES[int(np.argmax(ratio))], float(seen[int(np.argmax(ratio))])
    constant = float(getattr(problem.constants, name))
    return Event(
        "refuted",
        round,
        f"{name}: got {value:g} in round {round}; expected at most {constant:g}, as the problem "
        "states",
        {"constant": name, "value": value, "stated": constant},
    )


def check_flags(player: Player, header: Array, round: int) -> None:
    """Refuse a round in which something is not finite, or that refutes a constant if the user
    wants that."""
    flags = int(header[0])
    if flags % FAULTY:
        entry, reason = not_finite(flags, round)
        raise Refused(reason, entry=entry, limit="finite")
    if not flags & REFUTED:
        return
    reaction = player._on_refuted
    event = refuted_event(player.problem, header[player._seen], player._stated, round)
    if callable(reaction):
        reaction = reaction(event)
        check_reaction(reaction, "on_refuted(event)")
    if reaction == "refuse":
        happened(player, event)
        raise Refused(event.message, **event.numbers)


def alarm(player: Player, round: int | None = None) -> None:
    """Report what happened in the round that was just taken over."""
    header = player._now.report
    flags = int(header[0])
    number = player.round - 1 if round is None else round
    if flags & REFUTED:
        seen = header[player._seen][: len(NAMES)]
        event = refuted_event(player.problem, seen, player._stated, number)
        if not callable(player._on_refuted) and player._on_refuted == "warn":
            exceeded = seen > player._stated[: len(NAMES)]
            player._stated[: len(NAMES)][exceeded] = 2 * seen[exceeded]
            player._steps.state_thresholds(player._stated)
        happened(player, event)
    if flags & VIOLATED:
        excess = header[2 : player._played.start]
        names, worst = player.constraint_names, int(np.argmax(excess))
        name = f"g[{worst}]" if names is None else names[worst]
        tolerance = float(player._stated[-1])
        text = f"{name}: got {excess[worst]:g} in round {number}; expected at most {tolerance:g}"
        about = {"constraint": name, "value": float(excess[worst]), "tolerance": tolerance}
        happened(player, Event("violated", number, text, about))
    every = player._checked_every
    if round is None and every is not None and number % every == 0:
        player.certificate()


def not_finite(flags: int, round: int) -> tuple[str, str]:
    """Return what is not finite in a round, and a sentence about it; `flags` has one bit for each
    name of `FAULTS`."""
    name = next(name for bit, name in enumerate(FAULTS) if flags >> bit & 1)
    why = ": check the gradients of the constraints and the step size" if name == FAULTS[-1] else ""
    entry = "z" if name == "data" else name
    text = f"{entry}: got a value that is not finite in round {round}; expected finite numbers{why}"
    return entry, text
