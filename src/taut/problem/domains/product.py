"""Products: several decisions at once, each in a domain of its own."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ... import files
from ...extras import optional
from .base import Domain, domain_from_dict
from .parts import OfParts, check_parts

__all__ = ["Product"]


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
