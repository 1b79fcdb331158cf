"""Data of a model: which parameters change with the round, and a user's data in their order."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

import jax
import numpy as np

from ...engine import Array
from ...problem.streams import StatefulAdversary, Stream, required_arguments
from ...problem.tables import plain
from .parameters import Keys, Range
from .per_round import refuse_unused
from .reading import parameters_of

__all__ = ["RoundData"]


class RoundData:
    """The part of a model that knows its parameters."""

    parameters: list[Any]
    fixed: list[Any]
    keys: Keys
    present: Callable[[Any], Any]
    _values_of_fixed: dict[int, Any]
    _reveals: dict[Any, Any]

    def changing(self, part: Any) -> bool:
        """Whether an expression or constraint contains a parameter that changes with the round."""
        ids = {parameter.id for parameter in self.parameters}
        return any(parameter.id in ids for parameter in parameters_of(part))

    def arrange(self, data: Any) -> Any:
        """Data keyed by parameter, name or position, as the tuple that loss and constraints take.

        Their shapes and the parameters' attributes, on which convexity rests, are checked.
        """
        if data is None or isinstance(data, Stream):
            return data
        if callable(data):
            key = data if isinstance(data, Hashable) else id(data)
            if (
                key not in self._reveals
            ):  # the same function gives the same wrapper, so that it is compiled once
                self._reveals[key] = self._arranging(data)
            return self._reveals[key]
        if isinstance(data, StatefulAdversary):
            return StatefulAdversary(self.arrange(data.reveal), data.state)
        if isinstance(data, list) and 1 < len(self.parameters) == len(data):
            return self._keyed(tuple(map(plain, data)))
        return self._keyed(
            plain(data, self.keys.labels | {parameter.name() for parameter in self.fixed})
        )

    def _keyed(self, data: Any, check: bool = True) -> Any:
        refuse_unused(data, self.fixed, self.keys.labels)
        return self.keys.arranged(data, check) if self.parameters else data

    def _arranging(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def chunk(start: int, length: int) -> Any:
            return self._keyed(function(start, length))

        def reveal(round: jax.Array, decision: jax.Array, key: jax.Array) -> Any:
            return self._keyed(function(round, self.present(decision), key), check=False)

        def reveal_with_state(
            state: Any, round: jax.Array, decision: jax.Array, key: jax.Array
        ) -> Any:
            after, z = function(state, round, self.present(decision), key)
            return after, self._keyed(z, check=False)

        wrappers: dict[int, Callable[..., Any]] = {2: chunk, 3: reveal, 4: reveal_with_state}
        return wrappers.get(required_arguments(function), function)

    def guessed(self, parts: list[Any], known: Range) -> bool:
        """Whether expressions contain a parameter whose range is a guess."""
        ends = np.cumsum([parameter.size for parameter in self.parameters])
        unsure = {
            p.id
            for p, end in zip(self.parameters, ends, strict=True)
            if np.any(known.guessed[end - p.size : end])
        }
        return any(parameter.id in unsure for part in parts for parameter in parameters_of(part))

    def fixed_value(self, parameter: Any) -> Array:
        """The value of a parameter that does not change with the round."""
        return np.asarray(self._values_of_fixed[parameter.id], float)

    def data_of(self, flat: Array) -> tuple[Array, ...]:
        """One round's data from a flat vector of all parameters."""
        ends = np.cumsum([parameter.size for parameter in self.parameters], dtype=int)
        return tuple(
            flat[end - p.size : end].reshape(p.shape)
            for p, end in zip(self.parameters, ends, strict=True)
        )

    def _values(self, z: Any) -> dict[int, Any]:
        z = (
            ()
            if not self.parameters
            else z
            if isinstance(z, tuple)
            else self.keys.arranged(z, check=False)
        )
        return self._values_of_fixed | {
            p.id: part for p, part in zip(self.parameters, z, strict=True)
        }
