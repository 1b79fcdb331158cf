"""The data of rounds: a user's data, keyed by parameter, name or position, in the order in which
loss and constraints take them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Any

import cvxpy as cp
import jax
import numpy as np

from ...engine import Array
from ...problem.streams import StatefulAdversary, Stream, required_arguments
from ...problem.tables import plain
from .attributes import is_symmetric, limits, whole

ROUNDING = 1e-6
"""Data may deviate from an attribute by this share of their size."""


class Keys:
    """Turns a user's data, keyed by parameter, name or position, into the tuple that loss and
    constraints take.

    Arguments:
        parameters: those that change with the round.
        fixed: those that do not. Data for them are refused.
    """

    def __init__(self, parameters: list[Any], fixed: list[Any]) -> None:
        self.parameters, self._fixed = parameters, fixed
        self.labels = frozenset(parameter.name() for parameter in parameters)
        self.names = ", ".join(parameter.name() for parameter in parameters)
        self._columns = self.labels | {parameter.name() for parameter in fixed}
        self._places: dict[Any, int] = {}
        for i, parameter in enumerate(parameters):
            self._places |= {parameter.name(): i, i: i, ("id", parameter.id): i}
        self._rules = [_Rule(parameter) for parameter in parameters]
        self._wrappers: dict[Any, Any] = {}

    def stream(self, data: Any, present: Callable[[Any], Any]) -> Any:
        """A stream, table, function of chunks or adversary whose data are in the order of the
        parameters.

        An adversary gets the decision as `present` gives it. The same function gives the same
        wrapper, so that it is compiled once.
        """
        if data is None or isinstance(data, Stream):
            return data
        if isinstance(data, StatefulAdversary):
            return StatefulAdversary(self.stream(data.reveal, present), data.state)
        if callable(data):
            key = data if isinstance(data, Hashable) else id(data)
            if key not in self._wrappers:
                self._wrappers[key] = self._wrapped(data, present)
            return self._wrappers[key]
        if isinstance(data, list) and 1 < len(self.parameters) == len(data):
            return self._checked(tuple(map(plain, data)))
        return self._checked(plain(data, self._columns))

    def announced(self, data: Any, needed: frozenset[int]) -> Any:
        """The data of one round as far as they are known before it, in the order of the parameters;
        None in the place of the others.

        Arguments:
            data: by parameter or name, or for all parameters as `stream` takes them.
            needed: the ids of the parameters that must be known.
        """
        data = plain(data, self._columns)
        must = [parameter for parameter in self.parameters if parameter.id in needed]
        if not isinstance(data, Mapping):
            if len(must) != 1 or isinstance(data, (tuple, list)):
                return self._checked(data)
            data = {must[0].name(): data}
        _refuse_unused(data, self._fixed, self.labels)
        parts = self._keyed(data, must)
        for rule, part in zip(self._rules, parts, strict=True):
            if part is not None:
                rule.check(part)
        return parts

    def _wrapped(
        self, function: Callable[..., Any], present: Callable[[Any], Any]
    ) -> Callable[..., Any]:
        def chunk(start: int, length: int) -> Any:
            return self._checked(function(start, length))

        def reveal(round: jax.Array, decision: jax.Array, key: jax.Array) -> Any:
            return self._checked(function(round, present(decision), key), values=False)

        def reveal_with_state(
            state: Any, round: jax.Array, decision: jax.Array, key: jax.Array
        ) -> Any:
            after, z = function(state, round, present(decision), key)
            return after, self._checked(z, values=False)

        wrappers: dict[int, Callable[..., Any]] = {2: chunk, 3: reveal, 4: reveal_with_state}
        return wrappers.get(required_arguments(function), function)

    def _checked(self, data: Any, values: bool = True) -> Any:
        _refuse_unused(data, self._fixed, self.labels)
        return self.arranged(data, values) if self.parameters else data

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
            return self._keyed(data, self.parameters)
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

    def _keyed(self, data: Mapping[Any, Any], needed: list[Any]) -> tuple[Any, ...]:
        """The parts in the order of the parameters, None for missing ones that are not `needed`."""
        parts: list[Any] = [None] * len(self.parameters)
        for key, value in data.items():
            place = self._places.get(("id", key.id) if isinstance(key, cp.Parameter) else key)
            if place is None or parts[place] is not None:
                why = "which is no parameter that changes with the round"
                shown = key.name() if isinstance(key, cp.Parameter) else repr(key)
                raise ValueError(
                    f"data: got data for {shown}, {why if place is None else 'twice'}; expected "
                    f"{self.names}"
                )
            parts[place] = _numbers(value)
        missing = [p.name() for p in needed if parts[self._places[p.name()]] is None]
        if missing:
            expected = ", ".join(parameter.name() for parameter in needed)
            raise ValueError(f"data: got no data for {', '.join(missing)}; expected {expected}")
        return tuple(parts)


class _Rule:
    """The attributes that the data of a parameter must have: the proof of convexity needs them."""

    def __init__(self, parameter: Any) -> None:
        self.name, self.shape = parameter.name(), parameter.shape
        stated = parameter.attributes
        self.attributes = ", ".join(
            name for name, value in stated.items() if value is not False and value is not None
        )
        self.lower, self.upper = limits(parameter)
        self.symmetric = is_symmetric(parameter)
        self.sign = float(bool(stated["PSD"])) - float(bool(stated["NSD"]))
        self.whole = whole(parameter)

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
        # Long streams: no more passes than needed.
        low, high = float(values.min()), float(values.max())
        size = ROUNDING * max(1.0, -low, high)
        if low < self.lower.max():
            self._refuse_outside(values, values < self.lower - size, self.lower, "at least")
        if high > self.upper.min():
            self._refuse_outside(values, values > self.upper + size, self.upper, "at most")
        if self.whole.any() and np.any(self.whole & (np.abs(values - np.round(values)) > ROUNDING)):
            self._refuse("a number that is not whole")
        if self.symmetric and np.abs(values - np.swapaxes(values, -1, -2)).max() > size:
            self._refuse("a matrix that is not symmetric")
        if self.sign and np.linalg.eigvalsh(self.sign * values).min() < -size:
            self._refuse("a matrix that is not semidefinite")

    def _refuse_outside(self, values: Array, outside: Array, bound: Array, side: str) -> None:
        """Name the first value outside a bound, the round in which it comes, and the bound."""
        if not outside.any():
            return
        place = tuple(int(i) for i in np.argwhere(outside)[0])
        lead = values.ndim - len(self.shape)
        where = f" in round {place[lead - 1] + 1}" if lead else ""  # one round of a player has none
        where = f" of seed {place[0]}{where}" if lead > 1 else where
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


def _refuse_unused(data: Any, fixed: list[Any], changing: frozenset[str]) -> None:
    """Raise for data that have no effect: of a fixed parameter, or, if none is `changing`, more
    than a number per round."""
    by_id = {parameter.id: parameter.name() for parameter in fixed}
    for key in data if isinstance(data, Mapping) else ():
        name = by_id.get(key.id) if isinstance(key, cp.Parameter) else key
        if name in by_id.values() and name not in changing:
            raise ValueError(
                f"data: got data for {name}, which had a value when the model was built and is "
                "therefore fixed. Pass "
                f'per_round=["{name}"] to taut.from_cvxpy so that it changes with the round'
            )
        if not changing:
            shown = key.name() if isinstance(key, cp.Parameter) else repr(key)
            raise ValueError(
                f"data: got data for {shown}, but no parameter of the model changes with the "
                "round; expected an array with one entry per round, such as np.zeros(1000)"
            )
    if (
        fixed
        and not changing
        and isinstance(data, np.ndarray)
        and data.size
        and np.any(data != data.flat[0])
    ):
        raise ValueError(
            f"data: got an array of shape {data.shape} without names, which would have no effect, "
            "because all parameters have values and are fixed at them; expected zeros, or "
            f"per_round= in taut.from_cvxpy for {', '.join(by_id.values())}"
        )
