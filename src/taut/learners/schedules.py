"""Step-size schedules: numbers that depend on the round t = 1, 2, ... and on traced parameters only."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from .. import arguments, files
from ..engine import register_dataclass
from ..jax_internals import is_tracer

__all__ = [
    "AdaGradNorm", "Constant", "Inverse", "InverseRoot", "Power", "PowerLaw", "Reciprocal", "Schedule", "Slopes",
    "as_schedule", "check_positive", "power",
]  # fmt: skip


_NUMBERS = (int, float, complex, np.generic, np.ndarray)


class PowerLaw(NamedTuple):
    """The numbers of a schedule scale / (t + shift)^beta."""

    scale: float
    beta: float
    shift: float


class Schedule:
    """A positive number for every round."""

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        files.add_class(cls)

    def __call__(self, t: jax.Array, dtype: Any) -> jax.Array:
        """The value at round t, in the decision's float type."""
        raise TypeError("abstract")

    def power_law(self) -> PowerLaw | None:
        """Return the numbers of a schedule scale / (t + shift)^beta, or `None` for any other schedule."""
        return None


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

    def power_law(self) -> PowerLaw:
        """Return beta = 0."""
        return PowerLaw(float(self.value), 0.0, 0.0)


@dataclass(frozen=True)
class _Scaled(Schedule):
    scale: Any
    shift: Any = 0.0

    def __post_init__(self) -> None:
        check_positive("scale", self.scale)
        _check_shift(self.shift)

    def _time(self, t: jax.Array, dtype: Any) -> jax.Array:
        return t.astype(dtype) + jnp.asarray(self.shift, dtype)


@register_dataclass
@dataclass(frozen=True)
class InverseRoot(_Scaled):
    """scale / sqrt(t + shift)."""

    def __call__(self, t: jax.Array, dtype: Any) -> jax.Array:
        """Falls like 1/sqrt(t)."""
        return jnp.asarray(self.scale, dtype) / jnp.sqrt(self._time(t, dtype))

    def power_law(self) -> PowerLaw:
        """Return beta = 1/2."""
        return PowerLaw(float(self.scale), 0.5, float(self.shift))


@register_dataclass
@dataclass(frozen=True)
class Inverse(_Scaled):
    """scale / (t + shift)."""

    def __call__(self, t: jax.Array, dtype: Any) -> jax.Array:
        """Falls like 1/t."""
        return jnp.asarray(self.scale, dtype) / self._time(t, dtype)

    def power_law(self) -> PowerLaw:
        """Return beta = 1."""
        return PowerLaw(float(self.scale), 1.0, float(self.shift))


@register_dataclass
@dataclass(frozen=True)
class Power(_Scaled):
    """scale * (t + shift)^-exponent, with a traced exponent. Powers are slow, so the usual ones have classes of their own."""

    exponent: Any = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        for entry in _entries("exponent", self.exponent, "a finite real number"):
            arguments.real("exponent", entry)

    def __call__(self, t: jax.Array, dtype: Any) -> jax.Array:
        """Falls like t^-exponent."""
        return jnp.asarray(self.scale, dtype) * self._time(t, dtype) ** -jnp.asarray(self.exponent, dtype)

    def power_law(self) -> PowerLaw:
        """Return beta = exponent."""
        return PowerLaw(float(self.scale), float(self.exponent), float(self.shift))


@register_dataclass
@dataclass(frozen=True)
class Reciprocal(Schedule):
    """1 / (of(t) * (t + shift))."""

    of: Schedule
    shift: Any = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "of", as_schedule("of", self.of))
        _check_shift(self.shift)

    def __call__(self, t: jax.Array, dtype: Any) -> jax.Array:
        """The reciprocal of another schedule times the round."""
        return 1 / (self.of(t, dtype) * (t.astype(dtype) + jnp.asarray(self.shift, dtype)))


class Slopes(NamedTuple):
    """What `AdaGradNorm` keeps of the loss gradients p_1, ..., p_t."""

    largest: jax.Array
    """The largest |p_s|^2."""
    total: jax.Array
    """The sum of |p_s|^2."""


@register_dataclass
@dataclass(frozen=True)
class AdaGradNorm(Schedule):
    """scale / sqrt(start_up * max_s |p_s|^2 + sum_s |p_s|^2), the p_s being the loss gradients up to this round.

    It needs no constant and no horizon. Multiplying all losses by a constant does not change the steps eta_t p_t. No step is
    longer than scale / sqrt(1 + start_up). A learner that uses it keeps `Slopes` in its state.
    """

    scale: Any
    start_up: Any = 0.0

    def __post_init__(self) -> None:
        check_positive("scale", self.scale)
        for entry in _entries("start_up", self.start_up, "a number that is not negative"):
            arguments.non_negative("start_up", entry)

    def __call__(self, t: jax.Array, dtype: Any) -> jax.Array:
        """The step depends on the gradients, not on the round alone."""
        raise TypeError("AdaGradNorm: this step depends on the loss gradients; the learner must call `with_gradient`")

    @staticmethod
    def begin(dtype: Any) -> Slopes:
        """Return what is known before round 1."""
        return Slopes(jnp.zeros((), dtype), jnp.zeros((), dtype))

    def with_gradient(self, slopes: Slopes, gradient: jax.Array) -> tuple[jax.Array, Slopes]:
        """Return the step of the round in which `gradient` was observed; 0 before the first that is not zero."""
        squared = jnp.sum(jnp.square(gradient))
        after = Slopes(jnp.maximum(slopes.largest, squared), slopes.total + squared)
        weighted = jnp.asarray(self.start_up, gradient.dtype) * after.largest + after.total
        known = weighted > 0
        scale = jnp.asarray(self.scale, gradient.dtype)
        return jnp.where(known, scale / jnp.sqrt(jnp.where(known, weighted, 1)), 0), after


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
    """The schedule `value`, or a positive number as a constant one; a placeholder for either is left alone."""
    if isinstance(value, Schedule):
        return value
    check_positive(name, value, "a positive number or a schedule")
    return Constant(value) if isinstance(value, (*_NUMBERS, jax.Array)) else value


def check_positive(name: str, value: Any, expected: str = "a positive number") -> None:
    """Refuse parameters that are not positive, where they are concrete: inside a trace there is nothing to check."""
    for entry in _entries(name, value, expected):
        arguments.positive(name, entry)


def _check_shift(shift: Any) -> None:
    """Refuse shifts that make t + shift zero or negative for a t = 1, 2, ..."""
    for entry in _entries("shift", shift, "a number above -1"):
        if arguments.real("shift", entry) <= -1:
            raise ValueError(f"shift: got {entry:g}; expected a number above -1, because rounds are counted from 1")


def _entries(name: str, value: Any, expected: str) -> Iterable[Any]:
    """The numbers in a parameter; none if it is traced, or a placeholder that JAX puts where a parameter was."""
    if isinstance(value, (bool, str, bytes, tuple, list, dict, set)) or value is None or callable(value):
        raise TypeError(f"{name}: got {value!r}; expected {expected}")
    if isinstance(value, _NUMBERS) or (isinstance(value, jax.Array) and not is_tracer(value)):
        return np.ravel(value).tolist()  # so that NumPy's complex numbers are not taken for real ones
    return ()
