"""Per-round parameters: their range, values to probe with, and a user's data checked against their
attributes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import cvxpy as cp
import jax
import numpy as np

from ...engine import Array
from .attributes import is_symmetric, limits, pattern, whole

__all__ = ["Keys", "Range", "draw_parameters", "guess_notes", "ranges"]


ROUNDING = 1e-6
"""Data may deviate from an attribute by this share of their size."""


class Range(NamedTuple):
    """The values that all per-round parameters take, as one flat vector."""

    lower: Array
    upper: Array
    guessed: Array
    """Entries without stated bounds, whose bounds are a guess."""

    @property
    def middle(self) -> Array:
        """The centre of the range."""
        return (self.lower + self.upper) / 2

    @property
    def half(self) -> Array:
        """Half the width of the range."""
        return (self.upper - self.lower) / 2


def ranges(parameters: list[Any], reach: float) -> Range:
    """The range of the parameters by their attributes.

    A parameter without bounds is taken to be at most `reach`, as large as decisions can get in sum:
    a guess, so that whatever rests on it is marked as estimated, and checked against the real
    stream by every certificate.
    """
    low, high, guessed = [np.zeros(0)], [np.zeros(0)], [np.zeros(0, bool)]
    for parameter in parameters:
        lower, upper = (np.ravel(edge) for edge in limits(parameter))
        known_low, known_high = np.isfinite(lower), np.isfinite(upper)
        low.append(np.where(known_low, lower, np.where(known_high, upper - reach, -reach)))
        high.append(np.where(known_high, upper, np.where(known_low, lower + reach, reach)))
        guessed.append(~(known_low & known_high))
    return Range(np.concatenate(low), np.concatenate(high), np.concatenate(guessed))


def guess_notes(parameters: list[Any], known: Range, estimated: frozenset[str]) -> list[str]:
    """A note for each parameter without bounds, if constants were estimated: the range that was
    assumed for it."""
    notes, start = [], 0
    for parameter in parameters:
        span = slice(start, start + parameter.size)
        if estimated and np.any(known.guessed[span]):
            low, high = known.lower[span].min(), known.upper[span].max()
            notes.append(
                f"{parameter.name()}: no bounds are stated; the constants "
                f"({', '.join(sorted(estimated))}) assume values between {low:.4g} and "
                f"{high:.4g}, a guess from the size of decisions; state bounds=[low, high], or "
                "use problem.estimate_constants(stream, key)"
            )
        start = span.stop
    return notes


def draw_parameters(
    parameters: list[Any], known: Range, random: np.random.Generator, count: int
) -> Array:
    """Values (count, size) of the parameters that respect their attributes: the middle, corners,
    and some between."""
    mix = random.uniform(size=(count, len(known.lower)))
    mix[1::2] = np.round(mix[1::2])  # extremes are attained at corners
    mix[:1] = 0.5
    values = known.lower + mix * (known.upper - known.lower)
    start = 0
    for parameter in parameters:
        span = slice(start, start + parameter.size)
        values[:, span] = _fitting(
            parameter, values[:, span].reshape(count, *parameter.shape)
        ).reshape(count, -1)
        start += parameter.size
    return values


def _fitting(parameter: Any, values: Array) -> Array:
    given = parameter.attributes
    values = np.where(whole(parameter), np.round(values), values) * pattern(parameter)
    if is_symmetric(parameter):
        values = (values + np.swapaxes(values, -1, -2)) / 2
    if given.get("PSD") or given.get("NSD"):
        size = np.sqrt(np.abs(values).max(axis=(-1, -2), keepdims=True) * parameter.shape[-1])
        square = values @ values / np.where(size > 0, size, 1) ** 2
        values = square * np.abs(values).max(axis=(-1, -2), keepdims=True)
        values = values if given.get("PSD") else -values
    return np.asarray(values)


class Keys:
    """Turns a user's data, keyed by parameter, name or position, into the tuple that loss and
    constraints take."""

    def __init__(self, parameters: list[Any]) -> None:
        self.parameters = parameters
        self.labels = frozenset(parameter.name() for parameter in parameters)
        self.names = ", ".join(parameter.name() for parameter in parameters)
        self._places: dict[Any, int] = {}
        for i, parameter in enumerate(parameters):
            self._places |= {parameter.name(): i, i: i, ("id", parameter.id): i}
        self._rules = [_Rule.of(parameter) for parameter in parameters]

    def arranged(self, data: Any, check: bool = True) -> tuple[Any, ...]:
        """The data in the order of the parameters, checked for their shapes and attributes.

        The leading axes (round, or seed and round, or none) are not looked at.
        """
        parts = self._parts(data)
        if check:
            for rule, part in zip(self._rules, parts, strict=True):
                rule.check(part)
        return parts

    def _parts(self, data: Any) -> tuple[Any, ...]:
        count = len(self.parameters)
        if isinstance(data, Mapping):
            return self._keyed(data)
        if isinstance(data, tuple) or (isinstance(data, list) and 1 < count == len(data)):
            if len(data) != count:
                raise ValueError(
                    f"data: got {len(data)} arrays; expected {count}, one for each of {self.names}"
                )
            return tuple(map(_numbers, data))
        if count == 1:
            return (_numbers(data),)
        raise TypeError(
            f"data: got {type(data).__name__}; expected a dict or a tuple with an array for each "
            f"of {self.names}"
        )

    def _keyed(self, data: Mapping[Any, Any]) -> tuple[Any, ...]:
        found: dict[int, Any] = {}
        for key, value in data.items():
            place = self._places.get(("id", key.id) if isinstance(key, cp.Parameter) else key)
            if place is None or place in found:
                what = (
                    "which is no parameter that changes with the round"
                    if place is None
                    else "twice"
                )
                shown = key.name() if isinstance(key, cp.Parameter) else repr(key)
                raise ValueError(f"data: got data for {shown}, {what}; expected {self.names}")
            found[place] = _numbers(value)
        missing = [
            parameter.name() for i, parameter in enumerate(self.parameters) if i not in found
        ]
        if missing:
            raise ValueError(f"data: got no data for {', '.join(missing)}; expected {self.names}")
        return tuple(found[i] for i in range(len(self.parameters)))


class _Rule(NamedTuple):
    """The attributes that the data of one parameter must have, because the proof of convexity
    relies on them."""

    name: str
    shape: tuple[int, ...]
    attributes: str
    lower: Array | None
    upper: Array | None
    symmetric: bool
    sign: float
    """1 for PSD, -1 for NSD, else 0."""
    whole: Array | None
    """Where numbers are whole."""

    @classmethod
    def of(cls, parameter: Any) -> _Rule:
        given = [
            name
            for name, value in parameter.attributes.items()
            if value is not False and value is not None
        ]
        lower, upper = limits(parameter)
        sign = float(bool(parameter.attributes["PSD"])) - float(bool(parameter.attributes["NSD"]))
        return cls(
            parameter.name(),
            parameter.shape,
            ", ".join(given),
            lower if np.any(np.isfinite(lower)) else None,
            upper if np.any(np.isfinite(upper)) else None,
            is_symmetric(parameter),
            sign,
            whole(parameter) if np.any(whole(parameter)) else None,
        )

    def check(self, data: Any) -> None:
        """Raise if the data do not fit."""
        if data.shape[max(data.ndim - len(self.shape), 0) :] != self.shape:
            raise ValueError(
                f"data: got shape {data.shape} for {self.name}; expected {self.shape} after the "
                "leading axes"
            )
        if not self.attributes or data.size == 0 or data.dtype.kind not in "fiub":
            return
        values = np.asarray(data)
        low, high = (
            float(values.min()),
            float(values.max()),
        )  # long streams: no more passes than needed
        size = ROUNDING * max(1.0, -low, high)
        if self.lower is not None and low < self.lower.max() and np.any(values < self.lower - size):
            self._outside(values, values < self.lower - size, self.lower, "at least")
        if (
            self.upper is not None
            and high > self.upper.min()
            and np.any(values > self.upper + size)
        ):
            self._outside(values, values > self.upper + size, self.upper, "at most")
        if self.whole is not None and np.any(
            self.whole & (np.abs(values - np.round(values)) > ROUNDING)
        ):
            self._refuse("a number that is not whole")
        if self.symmetric and np.abs(values - np.swapaxes(values, -1, -2)).max() > size:
            self._refuse("a matrix that is not symmetric")
        if self.sign and np.linalg.eigvalsh(self.sign * values).min() < -size:
            self._refuse("a matrix that is not semidefinite")

    def _outside(self, values: Array, outside: Array, bound: Array, side: str) -> None:
        """Name the first value outside a bound, the round in which it comes, and the bound."""
        place = tuple(int(i) for i in np.argwhere(outside)[0])
        lead = values.ndim - len(self.shape)
        where = (
            "",
            f" in round {place[0] + 1}",
            f" of seed {place[0]} in round {place[-len(self.shape) - 1] + 1}",
        )[min(lead, 2)]
        entry = f"[{', '.join(map(str, place[lead:]))}]" if self.shape else ""
        limit = float(np.broadcast_to(bound, values.shape)[place])
        raise ValueError(
            f"data: got {values[place]:g} for {self.name}{entry}{where}; expected {side} "
            f"{limit:g} ({self.attributes}). Correct the data, or the bounds of the parameter"
        )

    def _refuse(self, what: str) -> None:
        raise ValueError(
            f"data: got {what} for {self.name}; expected {self.attributes}, as the parameter says"
        )


def _numbers(value: Any) -> Any:
    return value if isinstance(value, (np.ndarray, jax.Array)) else np.asarray(value)
