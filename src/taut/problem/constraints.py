"""Constraints g_1..g_m as one oracle, and the transforms of it that stay honest about their constants.

Every object here answers one question, `linearise(x, z)`: the values g(x) and the two products with the Jacobian.
A transform asks the same question of what it wraps and adjusts the answer, so no maximum is ever differentiated:
its pull-back goes straight to the active constraints.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from .. import arguments
from ..engine import register_dataclass
from .constants import Constants
from .smoothing import smooth_from_above, smoothing_gap

__all__ = ["Constraints", "Linearisation", "LogSumExp", "Max", "Smoothed", "Squared", "Stated", "Tightened"]


class Linearisation(NamedTuple):
    """Constraint values at a decision, and the Jacobian there as two functions."""

    values: jax.Array
    """g(x), shape (m,)."""
    pullback: Callable[[jax.Array], jax.Array]
    """weights (m,) -> sum_i weights_i * gradient g_i(x), of the decision's shape."""
    pushforward: Callable[[jax.Array], jax.Array]
    """direction -> (<gradient g_i(x), direction>)_i, shape (m,)."""


class Parts(NamedTuple):
    """A linearisation whose m values lie in several arrays."""

    values: list[jax.Array]
    pullback: Callable[[list[jax.Array]], jax.Array]
    pushforward: Callable[[jax.Array], list[jax.Array]]


class Constraints:
    """What all constraints answer. Feasible always means that every value is at most 0."""

    takes_data: bool
    """Whether the constraints depend on the round's data."""

    def values(self, x: jax.Array, z: Any) -> jax.Array:
        """g(x), shape (m,)."""
        raise TypeError("abstract")

    def linearise(self, x: jax.Array, z: Any) -> Linearisation:
        """Values and Jacobian products at `x`, by automatic differentiation unless a transform knows better."""
        values, pull = jax.vjp(lambda y: self.values(y, z), x)

        def push(direction: jax.Array) -> jax.Array:
            slopes: jax.Array = jax.jvp(lambda y: self.values(y, z), (x,), (direction,))[1]
            return slopes

        return Linearisation(values, lambda weights: pull(weights)[0], push)

    def in_parts(self, x: jax.Array, z: Any) -> Parts:
        """The same answer with each array of constraints by itself: joining them costs more than evaluating them."""
        values, pull, push = self.linearise(x, z)
        return Parts([values], lambda weights: pull(weights[0]), lambda direction: [push(direction)])

    def constants(self, base: Constants) -> Constants:
        """The constants after this transform, from those of the constraints it wraps."""
        return base


@register_dataclass
@dataclass(frozen=True)
class Stated(Constraints):
    """Constraints as the user wrote them: a function of x, or of x and z, that returns a scalar or arrays."""

    function: Callable[..., Any] = field(metadata={"static": True})
    takes_data: bool = field(metadata={"static": True})

    @classmethod
    def of(cls, function: Any) -> Stated:
        """Wrap a user's function, finding out whether it takes the round's data."""
        return cls(function, _takes_data(function))

    def values(self, x: jax.Array, z: Any) -> jax.Array:
        """The function's outputs in one vector."""
        parts = [jnp.ravel(part) for part in self._arrays(x, z)]
        return parts[0] if len(parts) == 1 else jnp.concatenate(parts)

    def in_parts(self, x: jax.Array, z: Any) -> Parts:
        """One part for each array that the function returns."""
        values, pull = jax.vjp(lambda y: self._arrays(y, z), x)

        def push(direction: jax.Array) -> list[jax.Array]:
            slopes: list[jax.Array] = jax.jvp(lambda y: self._arrays(y, z), (x,), (direction,))[1]
            return slopes

        return Parts(values, lambda weights: pull(weights)[0], push)

    def _arrays(self, x: jax.Array, z: Any) -> list[jax.Array]:
        out = self.function(x, z) if self.takes_data else self.function(x)
        arrays = [jnp.asarray(leaf, x.dtype) for leaf in jax.tree.leaves(out)]
        if sum(array.size for array in arrays) == 0:
            raise ValueError("constraints: got a function that returns no number; expected a scalar or a vector")
        return [array for array in arrays if array.size]


@dataclass(frozen=True)
class _Transform(Constraints):
    inner: Constraints

    @property
    def takes_data(self) -> bool:  # type: ignore[override]
        return self.inner.takes_data


@register_dataclass
@dataclass(frozen=True)
class Max(_Transform):
    """max_i g_i: one constraint with the same feasible set. Its subgradient is the mean of the active gradients."""

    def values(self, x: jax.Array, z: Any) -> jax.Array:
        """The largest value, as a vector of one."""
        return jnp.max(self.inner.values(x, z), keepdims=True)

    def linearise(self, x: jax.Array, z: Any) -> Linearisation:
        """Pull back through the active constraints alone."""
        parts, pull, push = self.inner.in_parts(x, z)
        if sum(part.size for part in parts) == 1:
            return self.inner.linearise(x, z)
        largest = reduce(jnp.maximum, [jnp.max(part) for part in parts])
        active = [(part == largest).astype(part.dtype) for part in parts]
        share = 1 / sum(jnp.sum(mask) for mask in active)

        def pulled(weights: jax.Array) -> jax.Array:
            each = share * weights[0]
            return pull([mask * each for mask in active])

        def pushed(direction: jax.Array) -> jax.Array:
            slopes = push(direction)
            return jnp.reshape(share * sum(jnp.sum(m * s) for m, s in zip(active, slopes, strict=True)), 1)

        return Linearisation(jnp.reshape(largest, 1), pulled, pushed)

    def constants(self, base: Constants) -> Constants:
        """One constraint; Lipschitz constant and range stay, smoothness is lost."""
        smooth = base.constraint_smoothness if base.constraint_count == 1 else None
        return replace(base, constraint_count=1, constraint_smoothness=smooth)


@register_dataclass
@dataclass(frozen=True)
class LogSumExp(_Transform):
    r"""(1/tau) log sum_i exp(tau g_i): smooth, between max g and max g + ln(m)/tau.

    The paper's Proposition 1 has tau = 1, which lies up to ln m above the maximum whatever T is and can make the
    feasible set empty (it does on the paper's own toy problem).
    """

    temperature: Any

    def values(self, x: jax.Array, z: Any) -> jax.Array:
        """The soft maximum, as a vector of one."""
        return self._soft(self.inner.values(x, z))[0]

    def linearise(self, x: jax.Array, z: Any) -> Linearisation:
        """Pull back through the soft-max weights."""
        values, pull, push = self.inner.linearise(x, z)
        soft, weights = self._soft(values)
        return Linearisation(soft, lambda w: pull(weights * w), lambda v: jnp.sum(weights * push(v), keepdims=True))

    def _soft(self, values: jax.Array) -> tuple[jax.Array, jax.Array]:
        tau = jnp.asarray(self.temperature, values.dtype)
        largest = jnp.max(values, keepdims=True)  # subtracted, or exp overflows
        powers = jnp.exp(tau * (values - largest))
        total = jnp.sum(powers, keepdims=True)
        return largest + jnp.log(total) / tau, powers / total

    def constants(self, base: Constants) -> Constants:
        """Gap ln(m)/tau, smoothness L + tau G_g^2; the gradient is a convex combination, so G_g stays."""
        tau, slope, bend = float(self.temperature), base.constraint_lipschitz, base.constraint_smoothness
        changes: dict[str, Any] = {
            "constraint_count": 1,
            "constraint_smoothness": None if bend is None or slope is None else bend + tau * slope**2,
        }
        if base.constraint_count is None:  # the gap is unknown, and so is all that it enters
            return replace(base, **changes, constraint_range=None, slater=None, error_bound=None)
        return _lifted(base, math.log(base.constraint_count) / tau, **changes)


@register_dataclass
@dataclass(frozen=True)
class Squared(_Transform):
    """([g_i]_+)^2, the paper's g-tilde: convex, same feasible set, never negative, so Slater's condition is lost."""

    def values(self, x: jax.Array, z: Any) -> jax.Array:
        """The squared clipped values."""
        return jnp.maximum(self.inner.values(x, z), 0) ** 2

    def linearise(self, x: jax.Array, z: Any) -> Linearisation:
        """Chain rule with the factor 2 [g_i]_+."""
        values, pull, push = self.inner.linearise(x, z)
        clipped = jnp.maximum(values, 0)
        return Linearisation(clipped**2, lambda w: pull(2 * clipped * w), lambda v: 2 * clipped * push(v))

    def constants(self, base: Constants) -> Constants:
        """G_g becomes 2 D G_g, D becomes D^2, L becomes 2 (G_g^2 + D L)."""
        slope, reach, bend = base.constraint_lipschitz, base.constraint_range, base.constraint_smoothness
        return replace(
            base,
            constraint_lipschitz=None if slope is None or reach is None else 2 * reach * slope,
            constraint_range=None if reach is None else reach**2,
            constraint_smoothness=None
            if slope is None or reach is None or bend is None
            else 2 * (slope**2 + reach * bend),
            slater=None,
            error_bound=None,
        )


@register_dataclass
@dataclass(frozen=True)
class Tightened(_Transform):
    """g_i + rho: asks for a margin, so that small violations of the tightened constraint are none of the true one."""

    rho: Any

    def values(self, x: jax.Array, z: Any) -> jax.Array:
        """The values, raised by the margin."""
        values = self.inner.values(x, z)
        return values + jnp.asarray(self.rho, values.dtype)

    def linearise(self, x: jax.Array, z: Any) -> Linearisation:
        """The Jacobian does not change."""
        inner = self.inner.linearise(x, z)
        return inner._replace(values=inner.values + jnp.asarray(self.rho, inner.values.dtype))

    def in_parts(self, x: jax.Array, z: Any) -> Parts:
        """The parts, raised by the margin."""
        inner = self.inner.in_parts(x, z)
        return inner._replace(values=[part + jnp.asarray(self.rho, part.dtype) for part in inner.values])

    def constants(self, base: Constants) -> Constants:
        """The range grows by rho and Slater's margin shrinks by it."""
        rho = float(self.rho)
        if base.slater is not None and rho >= base.slater and "slater" not in base.estimated:
            raise ValueError(
                f"rho: got {rho:g}; expected less than the problem's Slater margin {base.slater:g}, "
                "beyond which no decision is known to be feasible"
            )
        return _lifted(base, rho, gap=base.gap)


@register_dataclass
@dataclass(frozen=True)
class Smoothed(_Transform):
    """Every |.| and max inside the constraints replaced by a smooth function from above (Nesterov smoothing)."""

    width: Any
    gap: float = field(metadata={"static": True})

    def values(self, x: jax.Array, z: Any) -> jax.Array:
        """The smooth values."""
        return smooth_from_above(self.inner.values, self.width)(x, z)

    def constants(self, base: Constants) -> Constants:
        """The gap is proven; the smoothness of the result is left to be estimated."""
        return _lifted(base, self.gap, constraint_smoothness=None)

    @classmethod
    def of(cls, inner: Constraints, width: float, x: Any, z: Any) -> Smoothed:
        """Smooth `inner` with the given width, proving the gap for arguments shaped like `x` and `z`."""
        width = arguments.positive("width", width)
        return cls(inner, width, float(jnp.max(jnp.asarray(smoothing_gap(inner.values, width, x, z)))))


def _lifted(base: Constants, by: float, **changes: Any) -> Constants:
    """Constants of something that lies between g and g + by."""
    margin = None if base.slater is None or base.slater <= by else base.slater - by
    return replace(
        base,
        **{
            "constraint_range": None if base.constraint_range is None else base.constraint_range + by,
            "slater": margin,
            "error_bound": None,
            "gap": base.gap + by,
            **changes,
        },
    )


def _takes_data(function: Any) -> bool:
    if not callable(function):
        raise TypeError(f"constraints: got {function!r}; expected a function of x, or of x and z")
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        raise TypeError("constraints: got a function whose signature cannot be read; wrap it in a lambda") from None
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    required = [p for p in positional if p.default is p.empty]
    if len(required) in (1, 2) and not any(p.kind is p.KEYWORD_ONLY and p.default is p.empty for p in parameters):
        return len(required) == 2
    raise TypeError(
        f"constraints: got a function with {len(required)} required arguments; expected one (x) or two (x, z)"
    )
