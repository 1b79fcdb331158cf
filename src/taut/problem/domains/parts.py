"""What all products of domains share: a decision is made of parts, each in a domain of its own."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

from .arrays import norm
from .base import Domain

__all__ = ["OfParts", "check_parts"]


def check_parts(parts: Sequence[Any]) -> None:
    """Raise if a part is no domain."""
    for i, part in enumerate(parts):
        if not isinstance(part, Domain):
            raise TypeError(f"parts: got {part!r} at index {i}; expected a Domain")


class OfParts(Domain):
    """A product of domains. Subclasses say where the entries of the parts are in a decision."""

    parts: tuple[Domain, ...]

    @abstractmethod
    def split(self, x: Any) -> tuple[Any, ...]:
        """The parts of the decision `x`, each in its own shape."""

    @abstractmethod
    def join(self, parts: Sequence[Any]) -> jax.Array:
        """The decision whose parts are `parts`."""

    @property
    def centre(self) -> jax.Array:
        """The parts' centres."""
        return self.join([part.centre for part in self.parts])

    @property
    def radius(self) -> Any:
        """The root of the sum of the parts' squared radii."""
        return norm([part.radius for part in self.parts])

    @property
    def diameter(self) -> Any:
        """The root of the sum of the parts' squared diameters."""
        return norm([part.diameter for part in self.parts])

    def contains(self, x: jax.Array, tolerance: float = 1e-9) -> jax.Array:
        """Whether each part is in its own domain."""
        pieces = zip(self.parts, self.split(self._decision(x)), strict=True)
        return jnp.all(jnp.stack([part.contains(piece, tolerance) for part, piece in pieces]))

    def sample(self, key: jax.Array) -> jax.Array:
        """Independent parts."""
        keys = jax.random.split(key, len(self.parts))
        return self.join([part.sample(keys[i]) for i, part in enumerate(self.parts)])

    def linear_minimiser(self, direction: jax.Array) -> jax.Array:
        """Each part's own minimiser."""
        direction = self._decision(direction, "direction")
        pieces = zip(self.parts, self.split(direction), strict=True)
        return self.join([part.linear_minimiser(piece) for part, piece in pieces])
