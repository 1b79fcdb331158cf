"""Step-size schedules: numbers that depend on the round t = 1, 2, ... and on traced parameters only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .. import errors, kinds
from ..pytrees import register_dataclass

__all__ = [
    "Constant", "Inverse", "InverseRoot", "Power", "Reciprocal", "Schedule", "as_schedule", "check_positive", "power",
]  # fmt: skip


class Schedule:
    """A positive number for every round."""

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        kinds.add(cls)

    def __call__(self, t: jax.Array, dtype: Any) -> jax.Array:
        """The value at round t, in the decision's float type."""
        raise TypeError("abstract")


@register_dataclass
@dataclass(frozen=True)
class Constant(Schedule):
    """value."""

    value: Any

    def __post_init__(self) -> None:
        check_positive("value", self.value)

    def __call__(self, t: jax.Array, dtype: Any) -> jax.Array:
        """The same number in every round."""
        return jnp.asarray(self.value, dtype)


@dataclass(frozen=True)
class _Scaled(Schedule):
    scale: Any
    shift: Any = 0.0

    def __post_init__(self) -> None:
        check_positive("scale", self.scale)

    def _time(self, t: jax.Array, dtype: Any) -> jax.Array:
        return t.astype(dtype) + jnp.asarray(self.shift, dtype)


@register_dataclass
@dataclass(frozen=True)
class InverseRoot(_Scaled):
    """scale / sqrt(t + shift)."""

    def __call__(self, t: jax.Array, dtype: Any) -> jax.Array:
        """Falls like 1/sqrt(t)."""
        return jnp.asarray(self.scale, dtype) / jnp.sqrt(self._time(t, dtype))


@register_dataclass
@dataclass(frozen=True)
class Inverse(_Scaled):
    """scale / (t + shift)."""

    def __call__(self, t: jax.Array, dtype: Any) -> jax.Array:
        """Falls like 1/t."""
        return jnp.asarray(self.scale, dtype) / self._time(t, dtype)


@register_dataclass
@dataclass(frozen=True)
class Power(_Scaled):
    """scale * (t + shift)^-exponent, the exponent traced: powers are dear, so the usual ones have their own classes."""

    exponent: Any = 0.5

    def __call__(self, t: jax.Array, dtype: Any) -> jax.Array:
        """Falls like t^-exponent."""
        return jnp.asarray(self.scale, dtype) * self._time(t, dtype) ** -jnp.asarray(self.exponent, dtype)


@register_dataclass
@dataclass(frozen=True)
class Reciprocal(Schedule):
    """1 / (of(t) * (t + shift))."""

    of: Schedule
    shift: Any = 0.0

    def __call__(self, t: jax.Array, dtype: Any) -> jax.Array:
        """The reciprocal of another schedule times the round."""
        return 1 / (self.of(t, dtype) * (t.astype(dtype) + jnp.asarray(self.shift, dtype)))


def power(scale: float, exponent: float, shift: float = 0.0) -> Schedule:
    """scale * (t + shift)^-exponent, in the cheapest form."""
    if exponent == 0:
        return Constant(scale)
    if exponent == 0.5:
        return InverseRoot(scale, shift)
    if exponent == 1:
        return Inverse(scale, shift)
    return Power(scale, shift, exponent)


def as_schedule(name: str, value: Any) -> Any:
    """The schedule `value`, or a positive number as a constant one; what a trace puts in its place is left alone."""
    if isinstance(value, Schedule):
        return value
    check_positive(name, value)
    return Constant(value) if isinstance(value, (int, float, np.generic, np.ndarray)) else value


def check_positive(name: str, value: Any) -> None:
    """Refuse parameters that are not positive, where they are concrete: inside a trace there is nothing to check."""
    if isinstance(value, (bool, str, bytes, list, dict, set)) or value is None:
        raise TypeError(f"{name}: got {value!r}; expected a positive number")
    if isinstance(value, (int, float, np.generic, np.ndarray)):
        for entry in np.ravel(value):
            errors.positive(name, entry)
