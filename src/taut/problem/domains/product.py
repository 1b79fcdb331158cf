"""Products: several decisions at once, each in a domain of its own."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ... import files
from ...extras import optional
from .base import Domain, domain_from_dict, norm

__all__ = ["OfParts", "Product", "check_parts"]


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


@dataclass(frozen=True, init=False, eq=False)
class Product(OfParts, leaves=("parts",)):
    """The product of domains: a decision is the flat concatenation of the parts' decisions, in
    order."""

    parts: tuple[Domain, ...]
    shape: tuple[int, ...]

    def __init__(self, *parts: Domain) -> None:
        if not parts:
            raise TypeError("parts: got none; expected at least one Domain")
        check_parts(parts)
        self._set(parts=parts, shape=(sum(math.prod(part.shape) for part in parts),))

    def split(self, x: Any) -> tuple[Any, ...]:
        """The parts of the decision `x`, each in its own shape."""
        ends = np.cumsum([math.prod(part.shape) for part in self.parts])[:-1].tolist()
        starts = zip([0, *ends], [*ends, self.shape[0]], self.parts, strict=True)
        return tuple(x[start:end].reshape(part.shape) for start, end, part in starts)

    def join(self, parts: Sequence[Any]) -> jax.Array:
        """The decision whose parts are `parts`."""
        if len(parts) != len(self.parts):
            raise ValueError(f"parts: got {len(parts)}; expected {len(self.parts)}")
        pieces = [part._decision(x) for part, x in zip(self.parts, parts, strict=True)]
        return jnp.concatenate([piece.ravel() for piece in pieces])

    def project(self, x: jax.Array) -> jax.Array:
        """Each part on its own domain."""
        pieces = self.split(self._decision(x))
        return self.join(
            [part.project(piece) for part, piece in zip(self.parts, pieces, strict=True)]
        )

    def scaled(self, factor: float) -> Domain:
        """Every part times `factor`."""
        return type(self)(*(part.scaled(factor) for part in self.parts))

    def to_cvxpy(self, x: Any) -> list[Any]:
        """The parts' constraints on slices of `x`."""
        cp = optional("cvxpy")

        constraints, start = [], 0
        for part in self.parts:
            end = start + math.prod(part.shape)
            constraints += part.to_cvxpy(cp.reshape(x[start:end], part.shape, order="C"))
            start = end
        return constraints

    def to_dict(self) -> dict[str, Any]:
        """The parts' descriptions."""
        return {
            "kind": files.class_name(type(self)),
            "parts": [part.to_dict() for part in self.parts],
        }

    @classmethod
    def from_dict(cls, description: Mapping[str, Any]) -> Domain:
        """The domain that `to_dict` described."""
        return cls(*map(domain_from_dict, description["parts"]))
