"""A round: the only view of the world that a learner gets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import jax
import jax.extend.core as jex
import jax.numpy as jnp

from .constraints import Constraints, Linearisation
from .domains import Domain

__all__ = ["FullInformation", "Observed", "Round"]


def _trace() -> Any:
    """What JAX is tracing just now; equal only to itself."""
    if hasattr(jex, "get_opaque_trace_state"):
        return jex.get_opaque_trace_state()
    return jax.core.get_opaque_trace_state(convention="taut")  # before JAX 0.10


class Round(Protocol):
    """The oracles of round t. All are pure; which of them a learner calls is declared in `taut.LEARNERS`."""

    def loss(self, x: jax.Array) -> jax.Array:
        """f_t(x)."""

    def gradient(self, x: jax.Array) -> jax.Array:
        """A subgradient of f_t at x."""

    def constraints(self, x: jax.Array) -> Linearisation:
        """g_t(x) with its Jacobian products."""

    def project(self, x: jax.Array) -> jax.Array:
        """The nearest point of the domain B."""


@dataclass(frozen=True)
class FullInformation:
    """The loss and the constraints themselves are revealed.

    An answer is remembered for the decision it was asked at: referee and learner ask about the same x_t, and inside a
    compiled round the question is then traced once. Only answers given where the round itself was made are remembered: one
    given inside a branch, a loop or a derivative is made of values that do not exist outside of it.
    """

    loss_function: Callable[[jax.Array, Any], Any]
    stated: Constraints
    domain: Domain
    data: Any
    _memory: dict[tuple[str, int], tuple[jax.Array, Any]] = field(default_factory=dict, repr=False, compare=False)
    _home: Any = field(default_factory=_trace, repr=False, compare=False)

    def loss(self, x: jax.Array) -> jax.Array:
        """f_t(x)."""
        return self._value_and_gradient(x)[0]

    def gradient(self, x: jax.Array) -> jax.Array:
        """A subgradient of f_t at x, by automatic differentiation."""
        return self._value_and_gradient(x)[1]

    def constraints(self, x: jax.Array) -> Linearisation:
        """g_t(x) with its Jacobian products."""
        return self._once("g", x, lambda: self.stated.linearise(x, self.data))

    def project(self, x: jax.Array) -> jax.Array:
        """The nearest point of the domain B."""
        return self.domain.project(x)

    def _value_and_gradient(self, x: jax.Array) -> tuple[jax.Array, jax.Array]:
        def scalar(y: jax.Array) -> jax.Array:
            return jnp.asarray(self.loss_function(y, self.data), x.dtype)

        return self._once("f", x, lambda: jax.value_and_grad(scalar)(x))

    def _once(self, oracle: str, x: jax.Array, answer: Callable[[], Any]) -> Any:
        if (oracle, id(x)) in self._memory:
            return self._memory[oracle, id(x)][1]
        given = answer()
        if isinstance(x, jax.Array) and _trace() == self._home:  # NumPy's arrays may change
            # The decision is kept beside the answer so that its id cannot be given to another array.
            self._memory[oracle, id(x)] = (x, given)
        return given


@dataclass(frozen=True)
class Observed:
    """Numbers that were measured at the decision just played: for users who cannot write their loss down."""

    value: jax.Array
    slope: jax.Array
    excess: jax.Array
    jacobian: jax.Array
    domain: Domain

    def loss(self, x: jax.Array) -> jax.Array:
        """The loss that was measured."""
        return self.value

    def gradient(self, x: jax.Array) -> jax.Array:
        """The gradient that was measured."""
        return self.slope

    def constraints(self, x: jax.Array) -> Linearisation:
        """The excess and Jacobian that were measured."""
        return Linearisation(
            self.excess,
            lambda weights: jnp.tensordot(weights, self.jacobian, axes=1),
            lambda direction: jnp.tensordot(self.jacobian, direction, axes=direction.ndim),
        )

    def project(self, x: jax.Array) -> jax.Array:
        """The nearest point of the domain B."""
        return self.domain.project(x)
