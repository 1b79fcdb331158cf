"""A round: everything that a learner gets to see in it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import jax
import jax.numpy as jnp

from ..jax_internals import trace_state
from ..jaxpr.maxima import by_index
from .constraints import Constraints, Linearisation
from .domains import Domain


class Round(Protocol):
    """The oracles of round t, all pure. `taut.LEARNERS` says which of them a learner calls."""

    def loss(self, x: jax.Array) -> jax.Array:
        """f_t(x)."""

    def gradient(self, x: jax.Array) -> jax.Array:
        """A subgradient of f_t at x."""

    def constraints(self, x: jax.Array) -> Linearisation:
        """g_t(x) with its Jacobian products."""

    def project(self, x: jax.Array) -> jax.Array:
        """The nearest point of the domain B."""

    def minimise(self, direction: jax.Array) -> jax.Array:
        """A point x of the domain B at which <direction, x> is smallest."""


class RoundSeen:
    """A round that is seen through something, such as noise, which a subclass describes."""

    def __init__(self, round: Round) -> None:
        self.round = round

    def loss(self, x: jax.Array) -> jax.Array:
        """f_t(x)."""
        return self.round.loss(x)

    def gradient(self, x: jax.Array) -> jax.Array:
        """A subgradient of f_t at x."""
        return self.round.gradient(x)

    def constraints(self, x: jax.Array) -> Linearisation:
        """g_t(x) with its Jacobian products."""
        return self.round.constraints(x)

    def project(self, x: jax.Array) -> jax.Array:
        """The nearest point of the domain B."""
        return self.round.project(x)

    def minimise(self, direction: jax.Array) -> jax.Array:
        """A point x of the domain B at which <direction, x> is smallest."""
        return self.round.minimise(direction)


def with_jacobian(values: jax.Array, jacobian: jax.Array) -> Linearisation:
    """Return constraints with a known Jacobian, (m, *decision)."""
    return Linearisation(
        values,
        lambda weights: jnp.tensordot(weights, jacobian, axes=1),
        lambda direction: jnp.tensordot(jacobian, direction, axes=direction.ndim),
    )


@dataclass(frozen=True)
class FullInformation:
    """The loss and the constraints themselves are revealed.

    Results are cached per decision: learner and scoring evaluate the same x_t, so that each
    function is traced once in a compiled round. Results computed inside a branch, loop or
    derivative are not cached, because their tracers are invalid outside.
    """

    loss_function: Callable[[jax.Array, Any], Any]
    stated: Constraints
    domain: Domain
    data: Any
    _cache: dict[tuple[str, int], tuple[jax.Array, Any]] = field(
        default_factory=dict, repr=False, compare=False
    )
    _made_in: Any = field(default_factory=trace_state, repr=False, compare=False)

    def loss(self, x: jax.Array) -> jax.Array:
        """f_t(x)."""
        return self._value_and_gradient(x)[0]

    def gradient(self, x: jax.Array) -> jax.Array:
        """A subgradient of f_t at x, by automatic differentiation."""
        return self._value_and_gradient(x)[1]

    def constraints(self, x: jax.Array) -> Linearisation:
        """g_t(x) with its Jacobian products."""
        return self._cached("g", x, lambda: self.linearised(x))

    def linearised(self, x: jax.Array) -> Linearisation:
        """What `constraints` returns; subclasses change it, and it is cached too."""
        return self.stated.linearise(x, self.data)

    def project(self, x: jax.Array) -> jax.Array:
        """The nearest point of the domain B."""
        return self.domain.project(x)

    def minimise(self, direction: jax.Array) -> jax.Array:
        """A point x of the domain B at which <direction, x> is smallest."""
        return self.domain.linear_minimiser(direction)

    def _value_and_gradient(self, x: jax.Array) -> tuple[jax.Array, jax.Array]:
        def scalar(y: jax.Array) -> jax.Array:
            return jnp.asarray(self.loss_function(y, self.data), x.dtype)

        return self._cached("f", x, lambda: jax.value_and_grad(by_index(scalar))(x))

    def _cached(self, oracle: str, x: jax.Array, compute: Callable[[], Any]) -> Any:
        if (oracle, id(x)) in self._cache:
            return self._cache[oracle, id(x)][1]
        result = compute()
        if isinstance(x, jax.Array) and trace_state() == self._made_in:  # NumPy's arrays may change
            # The decision is stored too, so that no other array can get its id.
            self._cache[oracle, id(x)] = (x, result)
        return result


@dataclass(frozen=True)
class MeasuredRound:
    """Measurements at the decision just played, for losses that are no functions."""

    value: jax.Array
    slope: jax.Array
    excess: jax.Array
    jacobian: jax.Array
    domain: Domain

    def loss(self, x: jax.Array) -> jax.Array:
        """Return the measured loss."""
        return self.value

    def gradient(self, x: jax.Array) -> jax.Array:
        """Return the measured gradient."""
        return self.slope

    def constraints(self, x: jax.Array) -> Linearisation:
        """Return the measured excess and Jacobian."""
        return with_jacobian(self.excess, self.jacobian)

    def project(self, x: jax.Array) -> jax.Array:
        """The nearest point of the domain B."""
        return self.domain.project(x)

    def minimise(self, direction: jax.Array) -> jax.Array:
        """A point x of the domain B at which <direction, x> is smallest."""
        return self.domain.linear_minimiser(direction)
