"""Noisy feedback: zero-mean errors on what is observed of the constraints and of the loss."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from ... import arguments, files
from ...engine import register_dataclass
from ...jax_internals import is_tracer
from ..constraints import Linearisation
from ..rounds import Round, RoundSeen, with_jacobian
from .base import Feedback, feedback_dataclass

DISTRIBUTIONS = ("normal", "uniform")
QUANTITIES = ("values", "gradients", "loss", "loss_gradients")


@register_dataclass
@dataclass(frozen=True)
class Normal:
    """Independent normal errors with a standard deviation."""

    scale: Any

    def draw(self, key: jax.Array, t: jax.Array, x: jax.Array, shape: tuple[int, ...]) -> jax.Array:
        """Return the errors of one round."""
        return _spread(self.scale, shape, x.dtype) * jax.random.normal(key, shape, x.dtype)

    @property
    def sigma(self) -> float:
        """The errors are sigma-sub-Gaussian."""
        return float(np.max(np.asarray(self.scale)))


@register_dataclass
@dataclass(frozen=True)
class Uniform:
    """Independent errors, uniformly distributed between -scale and scale."""

    scale: Any

    def draw(self, key: jax.Array, t: jax.Array, x: jax.Array, shape: tuple[int, ...]) -> jax.Array:
        """Return the errors of one round."""
        return _spread(self.scale, shape, x.dtype) * jax.random.uniform(key, shape, x.dtype, -1, 1)

    @property
    def sigma(self) -> float:
        """A uniform error is sub-Gaussian with its standard deviation."""
        return float(np.max(np.asarray(self.scale))) / math.sqrt(3)


@register_dataclass
@dataclass(frozen=True)
class NoiseFunction:
    """Errors that a user's function noise(key, round, x) returns."""

    function: Callable[..., Any] = field(metadata={"static": True})

    def draw(self, key: jax.Array, t: jax.Array, x: jax.Array, shape: tuple[int, ...]) -> jax.Array:
        """Return the errors of one round."""
        errors = jnp.asarray(self.function(key, t, x), x.dtype)
        try:
            return jnp.broadcast_to(errors, shape)
        except ValueError:
            raise ValueError(
                f"feedback: the noise function returned shape {errors.shape}; expected {shape}, "
                "or a shape that broadcasts to it"
            ) from None

    @property
    def sigma(self) -> None:
        """Unknown for a function."""
        return None


for _kind in (Normal, Uniform):
    files.add_class(_kind)


def _not_stored(name: str) -> NoiseFunction:
    def lost(key: jax.Array, t: jax.Array, x: jax.Array) -> Any:
        raise ValueError(
            f"feedback: files do not hold the noise function {name!r}; pass feedback=... again"
        )

    lost.__name__ = str(name)
    return NoiseFunction(lost)


files.add_format("noise function", NoiseFunction, lambda noise: _name(noise.function), _not_stored)

Noise = Normal | Uniform | NoiseFunction


def _spread(scale: Any, shape: tuple[int, ...], dtype: Any) -> jax.Array:
    """One scale, or one per constraint: along the first axis of the errors."""
    scale = jnp.asarray(scale, dtype)
    if scale.ndim == 0:
        return scale
    if not shape or scale.shape != shape[:1]:
        expected = f"one number per constraint, {shape[0]} of them," if shape else "one number"
        raise ValueError(
            f"feedback: got {scale.shape[0]} scales of the noise; expected {expected} or a single "
            "one"
        )
    return scale.reshape(-1, *(1,) * (len(shape) - 1))


@feedback_dataclass
class Noisy(Feedback):
    """Constraint values, their gradients, or the loss are observed with zero-mean errors.

    Arguments:
        values: the errors of the constraint values g(x_t): a scale, an array with one scale per
            constraint, or a function `noise(key, round, x)` in jax.numpy that returns errors of
            shape (m,) or (). Functions can depend on the decision; they must have mean zero.
        gradients: the same for the gradients of the constraints; a function returns the shape (m,
            *decision).
        loss: the same for the value of the loss.
        loss_gradients: the same for the gradient of the loss; a function returns the shape of the
            decision.
        distribution: of errors that are given by a scale. "normal": the scale is the standard
            deviation. "uniform": the errors lie between -scale and scale.

    In each round the errors are drawn once, independently of all other rounds and seeds. Methods
    that clip observed values
    fail on them: see `docs/feedback.md`, and `taut.Averaged` for what to use instead.

    >>> import taut
    >>> taut.Noisy(values=0.3)
    Noisy(values=0.3)
    """

    kind: ClassVar[str] = "noisy"

    values: Any = None
    gradients: Any = None
    loss: Any = None
    loss_gradients: Any = None
    distribution: str = field(default="normal", metadata={"static": True})

    def __post_init__(self) -> None:
        arguments.one_of("distribution", self.distribution, DISTRIBUTIONS)
        for name in QUANTITIES:
            object.__setattr__(self, name, _as_noise(name, getattr(self, name), self.distribution))
        if all(getattr(self, name) is None for name in QUANTITIES):
            raise ValueError(
                "values: got no noise at all; expected a scale, for example taut.Noisy(values=0.1)"
            )

    def __repr__(self) -> str:
        shown = [
            f"{name}={_shown(getattr(self, name))}"
            for name in QUANTITIES
            if getattr(self, name) is not None
        ]
        if self.distribution != DISTRIBUTIONS[0]:
            shown.append(f"distribution={self.distribution!r}")
        return f"Noisy({', '.join(shown)})"

    @property
    def random(self) -> bool:
        """Always."""
        return True

    def seen(self, round: Round, key: jax.Array, t: jax.Array) -> Round:
        """Return the round with errors."""
        return NoisyRound(round, self, key, t)


class NoisyRound(RoundSeen):
    """A round whose answers have errors, the same ones if asked twice about a decision."""

    def __init__(self, round: Round, noise: Noisy, key: jax.Array, t: jax.Array) -> None:
        super().__init__(round)
        self.noise, self.key, self.t = noise, key, t

    def _error(self, name: str, x: jax.Array, shape: tuple[int, ...]) -> jax.Array | None:
        source: Noise | None = getattr(self.noise, name)
        if source is None:
            return None
        return source.draw(jax.random.fold_in(self.key, QUANTITIES.index(name)), self.t, x, shape)

    def loss(self, x: jax.Array) -> jax.Array:
        """f_t(x) with an error."""
        error, value = self._error("loss", x, ()), self.round.loss(x)
        return value if error is None else value + error

    def gradient(self, x: jax.Array) -> jax.Array:
        """A subgradient of f_t at x with an error."""
        error, slope = self._error("loss_gradients", x, x.shape), self.round.gradient(x)
        return slope if error is None else slope + error

    def constraints(self, x: jax.Array) -> Linearisation:
        """g_t(x) with errors, and Jacobian products of a Jacobian with errors."""
        values, pull, push = self.round.constraints(x)
        error = self._error("values", x, values.shape)
        if error is not None:
            values = values + error
        slopes = self._error("gradients", x, (*values.shape, *x.shape))
        if slopes is None:
            return Linearisation(values, pull, push)
        _, pulled, pushed = with_jacobian(values, slopes)
        return Linearisation(
            values,
            lambda weights: pull(weights) + pulled(weights),
            lambda direction: push(direction) + pushed(direction),
        )


def _as_noise(name: str, value: Any, distribution: str) -> Any:
    if value is None or isinstance(value, (Normal, Uniform, NoiseFunction)):
        return value
    if callable(value):
        return NoiseFunction(value)
    scale = arguments.finite(name, value).astype(float)
    if scale.ndim > 1 or np.any(scale < 0):
        raise ValueError(
            f"{name}: got {arguments.shown(value)}; expected a scale that is not negative, one "
            "scale per constraint, or a function noise(key, round, x)"
        )
    if not np.any(scale > 0):
        return None
    made = float(scale) if scale.ndim == 0 else scale
    return Normal(made) if distribution == "normal" else Uniform(made)


def _shown(noise: Noise) -> str:
    if isinstance(noise, NoiseFunction):
        return _name(noise.function)
    if is_tracer(noise.scale):
        return "..."
    scale = np.asarray(noise.scale)
    return f"{float(scale):g}" if scale.ndim == 0 else str(scale.tolist())


def _name(function: Any) -> str:
    return str(getattr(function, "__name__", "a function"))
