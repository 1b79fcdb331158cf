"""Step-size schedules: numbers that depend on the round t = 1, 2, ... and on traced parameters
only."""

from __future__ import annotations

import decimal
import numbers
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from .. import arguments, files
from ..engine import register_dataclass
from ..jax_internals import is_tracer

CLIP = 2.0
"""How many times as long as the longest before it a gradient may be, by default."""
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
        raise TypeError(
            f"{type(self).__name__}: got a schedule without values; expected one that defines "
            "__call__(t, dtype)"
        )

    def power_law(self) -> PowerLaw | None:
        """Return the numbers of a schedule scale / (t + shift)^beta, or `None` for any other
        schedule."""
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
    beta: ClassVar[float]

    def __post_init__(self) -> None:
        check_positive("scale", self.scale)
        _check_shift(self.shift)

    def power_law(self) -> PowerLaw:
        """Return scale, beta and shift."""
        return PowerLaw(float(self.scale), self.beta, float(self.shift))

    def _time(self, t: jax.Array, dtype: Any) -> jax.Array:
        return t.astype(dtype) + jnp.asarray(self.shift, dtype)


@register_dataclass
@dataclass(frozen=True)
class InverseRoot(_Scaled):
    """scale / sqrt(t + shift)."""

    beta: ClassVar[float] = 0.5

    def __call__(self, t: jax.Array, dtype: Any) -> jax.Array:
        """Falls like 1/sqrt(t)."""
        return jnp.asarray(self.scale, dtype) / jnp.sqrt(self._time(t, dtype))


@register_dataclass
@dataclass(frozen=True)
class Inverse(_Scaled):
    """scale / (t + shift)."""

    beta: ClassVar[float] = 1.0

    def __call__(self, t: jax.Array, dtype: Any) -> jax.Array:
        """Falls like 1/t."""
        return jnp.asarray(self.scale, dtype) / self._time(t, dtype)


@register_dataclass
@dataclass(frozen=True)
class Power(_Scaled):
    """scale * (t + shift)^-exponent, with a traced exponent. Powers are slow, so the usual ones
    have classes of their own."""

    exponent: Any = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        exponent = concrete("exponent", self.exponent, "a finite real number")
        if exponent is not None:
            arguments.real("exponent", exponent)

    def __call__(self, t: jax.Array, dtype: Any) -> jax.Array:
        """Falls like t^-exponent."""
        exponent = jnp.asarray(self.exponent, dtype)
        return jnp.asarray(self.scale, dtype) * self._time(t, dtype) ** -exponent

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
    """What `AdaGradNorm` keeps of the loss gradients q_1, ..., q_t that it accepted."""

    largest: jax.Array
    """The largest |q_s|^2."""
    total: jax.Array
    """The sum of |q_s|^2."""


@register_dataclass
@dataclass(frozen=True)
class AdaGradNorm(Schedule):
    """scale / sqrt(start_up * max_s |q_s|^2 + sum_s |q_s|^2), the q_s being the loss gradients up
    to this round, after clipping.

    A gradient p_t that is longer than `clip` times the longest q_s before it is shortened to that
    length, so that one absurd reading does not shorten all later steps to nothing. If the square of
    its length is more than floats can represent, it is left out. `clip=None` accepts every
    gradient as it is.

    The step needs no constant and no horizon. Multiplying all losses by a constant does not change
    the steps eta_t q_t. No step is longer than scale / sqrt(1 + start_up). A learner that uses it
    keeps `Slopes` in its state.
    """

    scale: Any
    start_up: Any = 0.0
    clip: float | None = field(default=CLIP, metadata={"static": True})

    def __post_init__(self) -> None:
        check_positive("scale", self.scale)
        check_non_negative("start_up", self.start_up)
        if self.clip is not None and arguments.real("clip", self.clip) <= 1:
            raise ValueError(f"clip: got {self.clip:g}; expected a number above 1, or None")

    def __call__(self, t: jax.Array, dtype: Any) -> jax.Array:
        """The step depends on the gradients, not on the round alone."""
        raise TypeError(
            "AdaGradNorm: this step depends on the loss gradients; the learner must call "
            "`with_gradient`"
        )

    @staticmethod
    def begin(dtype: Any) -> Slopes:
        """Return what is known before round 1."""
        return Slopes(jnp.zeros((), dtype), jnp.zeros((), dtype))

    def with_gradient(self, slopes: Slopes, gradient: jax.Array) -> tuple[jax.Array, Slopes]:
        """Return the step of the round in which `gradient` was observed, times the share of it that
        was accepted; 0 before the first that is not zero, and where nothing was accepted."""
        accepted = squared = jnp.sum(jnp.square(gradient))
        share: Any = 1
        if self.clip is not None:
            limit = jnp.asarray(self.clip**2, squared.dtype) * slopes.largest
            long = (squared > limit) & (slopes.largest > 0)
            overflow = jnp.isposinf(squared)
            accepted = jnp.where(overflow, 0, jnp.where(long, limit, squared))
            share = jnp.sqrt(jnp.where(long, limit / jnp.where(long, squared, 1), 1))
            share = jnp.where(overflow, 0, share)
        after = Slopes(jnp.maximum(slopes.largest, accepted), slopes.total + accepted)
        return self.after(after) * share, after

    def after(self, slopes: Slopes) -> jax.Array:
        """Return the step eta_t itself, from what is known after round t; 0 before the first
        gradient that is not zero."""
        dtype = slopes.total.dtype
        weighted = jnp.asarray(self.start_up, dtype) * slopes.largest + slopes.total
        known = weighted > 0
        scale = jnp.asarray(self.scale, dtype)
        return jnp.where(known, scale / jnp.sqrt(jnp.where(known, weighted, 1)), 0)


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
    """The schedule `value`, or a positive number as a constant one; a placeholder for either is
    left alone."""
    if isinstance(value, Schedule):
        return value
    check_positive(name, value, "a positive number or a schedule")
    return value if _is_placeholder(value) else Constant(value)


def check_positive(name: str, value: Any, expected: str = "a positive number") -> Any:
    """Return a parameter, refused if it is not positive; inside a trace there is nothing to
    check."""
    if (number := concrete(name, value, expected)) is not None:
        arguments.positive(name, number)
    return value


def check_non_negative(name: str, value: Any) -> Any:
    """Return a parameter, refused if it is negative."""
    if (number := concrete(name, value, "a number that is not negative")) is not None:
        arguments.non_negative(name, number)
    return value


def _check_shift(shift: Any) -> None:
    """Refuse shifts that make t + shift zero or negative for a t = 1, 2, ..."""
    number = concrete("shift", shift, "a number above -1")
    if number is not None and arguments.real("shift", number) <= -1:
        raise ValueError(
            f"shift: got {number:g}; expected a number above -1, because rounds are counted from 1"
        )


def concrete(name: str, value: Any, expected: str) -> Any:
    """Return a parameter as a number of Python, or None if it is traced or a placeholder. Anything
    else is refused.

    An array would play a step of its own per coordinate, or per constraint, which no theorem here
    covers. Learners that are stacked for a sweep or for epochs are rebuilt without `__post_init__`,
    so they do not come here.
    """
    if is_tracer(value) or _is_placeholder(value):
        return None
    shape = np.shape(value) if isinstance(value, (np.ndarray, jax.Array)) else ()
    if shape:
        raise TypeError(
            f"{name}: got an array of shape {shape}; expected {expected}, one for all coordinates"
        )
    is_key = isinstance(value, jax.Array) and jnp.issubdtype(value.dtype, jax.dtypes.prng_key)
    if (
        is_key
        or isinstance(value, (bool, np.bool_))
        or not isinstance(value, (*_NUMBERS, jax.Array))
    ):
        exact = isinstance(value, (numbers.Rational, decimal.Decimal)) and not isinstance(
            value, bool
        )
        how = f": float({name}) is one" if exact else ""
        raise TypeError(f"{name}: got {arguments.shown(value)}; expected {expected}{how}")
    return np.asarray(value).item()  # so that NumPy's complex numbers are not taken for real ones


def _is_placeholder(value: Any) -> bool:
    """Whether JAX put this where a parameter was, in a class that it rebuilds itself."""
    return type(value) is object or isinstance(value, jax.ShapeDtypeStruct)
