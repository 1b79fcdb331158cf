"""What an operator should know of: events of a player, as log records and as calls of the
operator's own functions."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from .. import arguments

__all__ = ["EVENTS", "Event", "Hooks", "Refused"]

LOG = logging.getLogger("taut.player")
EVENTS = {
    "refuted": "a stated constant was exceeded",
    "bound": "a measured quantity is above its bound",
    "refused": "a round was refused",
    "violated": "a constraint was violated by more than the tolerance",
}


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


class Hooks:
    """The functions that are called for each event."""

    def __init__(self) -> None:
        self._functions: dict[str, list[Callable[[Event], Any]]] = {name: [] for name in EVENTS}

    def add(self, event: str, function: Callable[[Event], Any]) -> None:
        """Call the function whenever the event happens."""
        arguments.one_of("event", event, tuple(EVENTS))
        if not callable(function):
            raise TypeError(
                f"function: got {arguments.shown(function)}; expected a function of an event"
            )
        self._functions[event].append(function)

    def report(self, event: Event) -> None:
        """Write a log record, then call the functions. What these raise is not caught."""
        LOG.warning(
            "%s",
            event.message,
            extra={
                "taut_event": event.name,
                "taut_round": event.round,
                "taut_numbers": dict(event.numbers),
            },
        )
        for function in tuple(self._functions[event.name]):
            function(event)

    def refused(self, round: int, error: Exception) -> None:
        """Report a round that was refused with this error."""
        numbers = error.numbers if isinstance(error, Refused) else {}
        self.report(Event("refused", round, f"round {round} was refused: {error}", numbers))
