"""Per-round parameters: their range, values to probe with, and a user's data checked against their attributes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import cvxpy as cp
import jax
import numpy as np

from .attributes import is_symmetric, limits, pattern

__all__ = ["Range", "arranged", "draw_parameters", "names", "ranges"]

Array = np.ndarray[Any, Any]

ROUNDING = 1e-6
"""Data may miss an attribute by this share of their size."""


class Range(NamedTuple):
    """The values that all per-round parameters take, as one flat vector."""

    lower: Array
    upper: Array
    guessed: Array
    """Where nothing is stated and the bounds are a guess."""

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

    A parameter without bounds is taken to be at most `reach`, as large as decisions can get in sum: a guess, so that
    whatever rests on it is marked as estimated, and checked against the real stream by every certificate.
    """
    low, high, guessed = [np.zeros(0)], [np.zeros(0)], [np.zeros(0, bool)]
    for parameter in parameters:
        lower, upper = (np.ravel(edge) for edge in limits(parameter))
        known_low, known_high = np.isfinite(lower), np.isfinite(upper)
        low.append(np.where(known_low, lower, np.where(known_high, upper - reach, -reach)))
        high.append(np.where(known_high, upper, np.where(known_low, lower + reach, reach)))
        guessed.append(~(known_low & known_high))
    return Range(np.concatenate(low), np.concatenate(high), np.concatenate(guessed))


def draw_parameters(parameters: list[Any], known: Range, random: np.random.Generator, count: int) -> Array:
    """Values (count, size) of the parameters that respect their attributes: the middle, corners, and some between."""
    mix = random.uniform(size=(count, len(known.lower)))
    mix[1::2] = np.round(mix[1::2])  # extremes are attained at corners
    mix[:1] = 0.5
    values = known.lower + mix * (known.upper - known.lower)
    start = 0
    for parameter in parameters:
        span = slice(start, start + parameter.size)
        values[:, span] = _fitting(parameter, values[:, span].reshape(count, *parameter.shape)).reshape(count, -1)
        start += parameter.size
    return values


def _fitting(parameter: Any, values: Array) -> Array:
    given = parameter.attributes
    if given.get("integer") or given.get("boolean"):
        values = np.round(values)
    values = values * pattern(parameter)
    if is_symmetric(parameter):
        values = (values + np.swapaxes(values, -1, -2)) / 2
    if given.get("PSD") or given.get("NSD"):
        size = np.sqrt(np.abs(values).max(axis=(-1, -2), keepdims=True) * parameter.shape[-1])
        square = values @ values / np.where(size > 0, size, 1) ** 2
        values = square * np.abs(values).max(axis=(-1, -2), keepdims=True)
        values = values if given.get("PSD") else -values
    return np.asarray(values)


def arranged(parameters: list[Any], data: Any, check: bool = True) -> tuple[Any, ...]:
    """Data keyed by parameter, name or position, as a tuple in the order of the parameters, checked.

    The leading axes (round, or seed and round, or none) are not looked at.
    """
    parts = _parts(parameters, data)
    if check:
        for parameter, part in zip(parameters, parts, strict=True):
            _check(parameter, part)
    return parts


def names(parameters: list[Any]) -> str:
    """The parameters' names, for errors."""
    return ", ".join(parameter.name() for parameter in parameters)


def _parts(parameters: list[Any], data: Any) -> tuple[Any, ...]:
    if isinstance(data, Mapping):
        return _keyed(parameters, data)
    if isinstance(data, tuple) or (isinstance(data, Sequence) and len(parameters) > 1 and len(data) == len(parameters)):
        if len(data) != len(parameters):
            raise ValueError(
                f"stream: got {len(data)} arrays; expected {len(parameters)}, one for each of {names(parameters)}"
            )
        return tuple(map(_numbers, data))
    if len(parameters) == 1:
        return (_numbers(data),)
    raise TypeError(
        f"stream: got {type(data).__name__}; expected a dict or a tuple with an array for each of {names(parameters)}"
    )


def _keyed(parameters: list[Any], data: Mapping[Any, Any]) -> tuple[Any, ...]:
    found: dict[int, Any] = {}
    for key, value in data.items():
        place = next((i for i, parameter in enumerate(parameters) if _means(key, parameter, i)), None)
        if place is None or place in found:
            what = "no such parameter that changes with the round" if place is None else "a second time"
            shown = key.name() if isinstance(key, cp.Parameter) else repr(key)
            raise ValueError(f"stream: got data for {shown}, {what}; expected {names(parameters)}")
        found[place] = _numbers(value)
    missing = [parameter.name() for i, parameter in enumerate(parameters) if i not in found]
    if missing:
        raise ValueError(f"stream: got no data for {', '.join(missing)}; expected {names(parameters)}")
    return tuple(found[i] for i in range(len(parameters)))


def _means(key: Any, parameter: Any, place: int) -> bool:
    if isinstance(key, str):
        return bool(key == parameter.name())
    return key is parameter or (isinstance(key, int) and key == place)


def _numbers(value: Any) -> Any:
    return value if isinstance(value, (np.ndarray, jax.Array)) else np.asarray(value)


def _check(parameter: Any, data: Any) -> None:
    """Whether the data have the parameter's shape and attributes, on which the proof of convexity rests."""
    name, shape = parameter.name(), parameter.shape
    if data.ndim < len(shape) or data.shape[data.ndim - len(shape) :] != shape:
        raise ValueError(f"stream: got shape {data.shape} for {name}; expected {shape} after the leading axes")
    given = {key for key, value in parameter.attributes.items() if value is not False and value is not None}
    if not given or data.size == 0 or data.dtype.kind not in "fiub":
        return
    lower, upper = limits(parameter)
    values = np.asarray(data)
    lead = tuple(range(values.ndim - len(shape)))
    size = ROUNDING * max(1.0, float(np.abs(values).max()))
    low, high = values.min(axis=lead), values.max(axis=lead)
    if np.any(low < lower - size) or np.any(high > upper + size):
        seen, kind = (low.min(), "least") if np.any(low < lower - size) else (high.max(), "largest")
        raise ValueError(
            f"stream: got data for {name} whose {kind} entry is {seen:g}; expected {', '.join(sorted(given))}, as the "
            "parameter says"
        )
    if is_symmetric(parameter) and np.abs(values - np.swapaxes(values, -1, -2)).max() > size:
        raise ValueError(f"stream: got a matrix for {name} that is not symmetric; expected {', '.join(sorted(given))}")
    for attribute, sign in (("PSD", 1.0), ("NSD", -1.0)):
        if attribute in given and np.linalg.eigvalsh(sign * values).min() < -size:
            raise ValueError(f"stream: got a matrix for {name} that is not {attribute}; expected {attribute}")
