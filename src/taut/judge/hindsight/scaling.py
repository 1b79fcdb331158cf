"""The coordinates in which everything is solved: flat vectors u with x = centre + radius * u, so
that |u| <= 1."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ...engine import Array, register_dataclass
from ...problem.domains import Domain
from ...problem.domains.support import centre_of, least_change, project_rows
from ...problem.sampling import sample_decisions

__all__ = ["Scaling", "as_double", "sample_points"]


@register_dataclass
@dataclass(frozen=True)
class Scaling:
    """Centre and radius of a domain as coordinates: a pytree, so that compiled functions can take
    it as an argument."""

    domain: Domain
    centre: jax.Array
    radius: jax.Array

    @classmethod
    def of(cls, domain: Domain) -> Scaling:
        """The coordinates around the domain's centre."""
        centre: Any = centre_of(domain).astype(float).ravel()
        radius: Any = np.asarray(domain.radius, float)
        return cls(domain, centre, radius)

    @property
    def size(self) -> int:
        """The number of entries of a decision."""
        return math.prod(self.domain.shape)

    def decision(self, u: Any) -> jax.Array:
        """The decision at the vector `u`."""
        return (self.centre + self.radius * u).reshape(self.domain.shape)

    def scaled(self, x: Any) -> jax.Array:
        """The vector of the decision `x`."""
        return (jnp.ravel(x) - self.centre) / self.radius

    def flat_decision(self, u: Array) -> Array:
        """The flat decisions at the rows of `u`, in NumPy."""
        return np.asarray(self.centre) + float(self.radius) * u

    def decisions(self, u: Array) -> Array:
        """The decisions at the rows of `u`, the same in all rounds: (point, 1, ...)."""
        return self.flat_decision(u).reshape(len(u), 1, *self.domain.shape)

    def project(self, u: Array) -> Array:
        """Each row of `u`, projected on the domain, in NumPy."""
        return (project_rows(self.domain, self.flat_decision(u)) - np.asarray(self.centre)) / float(
            self.radius
        )

    def least_change(self, slope: Array, u: Array) -> Array:
        """Lower bounds on min <slope, y - u> over all y of the domain, for each row of `slope` and
        `u`."""
        return least_change(self.domain, slope / float(self.radius), self.flat_decision(u))


def sample_points(scaling: Scaling, rng: np.random.Generator, count: int) -> Array:
    """Sampled decisions of the domain as vectors u, the centre first."""
    flat = sample_decisions(scaling.domain, rng, count).reshape(count, -1)
    return (flat - np.asarray(scaling.centre)) / float(scaling.radius)


def as_double(a: Any) -> Any:
    """The array in 64 bits if it holds real numbers; whole numbers stay what they are."""
    array = np.asarray(a)
    return (
        array.astype(np.float64, copy=False) if np.issubdtype(array.dtype, np.floating) else array
    )
