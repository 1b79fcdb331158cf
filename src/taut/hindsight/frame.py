"""The frame all solving happens in: decisions as flat vectors u with x = centre + radius * u, so that |u| <= 1."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..domains import Domain

__all__ = ["Array", "Frame", "as_double", "batches", "least_over_domain", "onto_domain"]

Array = np.ndarray[Any, Any]

BATCH = 16
"""Points that are evaluated together."""
FAR = 1e13
"""How many radii away the point lies whose projection minimises a linear function; see `least_over_domain`."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Frame:
    """The unit frame of a domain: a pytree, so that compiled functions can take it as an argument."""

    domain: Domain
    centre: jax.Array
    scale: jax.Array

    @classmethod
    def of(cls, domain: Domain) -> Frame:
        """The frame around the domain's centre."""
        radius = float(domain.radius)
        if not math.isfinite(radius):
            raise ValueError(
                f"domain: got the radius {radius}; expected a bounded domain, over which no convex loss is unbounded"
            )
        centre = jnp.asarray(np.asarray(domain.centre, float).ravel())
        return cls(domain, centre, jnp.asarray(radius))

    @property
    def size(self) -> int:
        """The number of entries of a decision."""
        return math.prod(self.domain.shape)

    def decision(self, u: Any) -> jax.Array:
        """The decision at the flat vector `u`."""
        return (self.centre + self.scale * u).reshape(self.domain.shape)

    def flat(self, x: Any) -> jax.Array:
        """The flat vector of the decision `x`."""
        return (jnp.ravel(x) - self.centre) / self.scale


def batches(a: Array) -> list[Array]:
    """The array in parts of BATCH rows, the last row repeated to fill them: one size to compile, whatever there is."""
    short = -len(a) % BATCH
    full = np.concatenate([a, np.repeat(a[-1:], short, axis=0)]) if short else a
    return [full[i : i + BATCH] for i in range(0, len(full), BATCH)]


def as_double(a: Any) -> Any:
    """The array in 64 bits if it holds real numbers; whole numbers stay what they are."""
    array = np.asarray(a)
    return array.astype(np.float64) if np.issubdtype(array.dtype, np.floating) else array


def onto_domain(frame: Frame, u: Array) -> Array:
    """Each row of `u`, projected on the domain."""
    return np.concatenate([np.asarray(_onto_domain(frame, part)) for part in batches(u)])[: len(u)]


def least_over_domain(frame: Frame, slope: Array, u: Array) -> Array:
    r"""A lower bound on min <slope, y - u> over all y of the domain, for each row of `slope` and `u`.

    Let p be the projection of w = u - s * slope. Its variational inequality <w - p, y - p> <= 0 reads
    <slope, y - u> >= <slope, p - u> + <u - p, y - p> / s, and the last term is at least -|u - p| * diameter / s: a
    rigorous bound from the domain's projection alone, exact as s grows.
    """
    parts = [np.asarray(_least_over_domain(frame, *both)) for both in zip(batches(slope), batches(u), strict=True)]
    return np.concatenate(parts)[: len(u)]


@jax.jit
def _onto_domain(frame: Frame, u: jax.Array) -> jax.Array:
    return jax.vmap(lambda one: frame.flat(frame.domain.project(frame.decision(one))))(u)


@jax.jit
def _least_over_domain(frame: Frame, slope: jax.Array, u: jax.Array) -> jax.Array:
    def bound(v: jax.Array, at: jax.Array) -> jax.Array:
        length = jnp.sqrt(jnp.sum(v * v))
        far = FAR / jnp.where(length > 0, length, 1)
        p = frame.flat(frame.domain.project(frame.decision(at - far * v)))
        offset = p - at
        diameter = jnp.asarray(frame.domain.diameter) / frame.scale
        return v @ offset - jnp.sqrt(offset @ offset) * diameter / far

    return jax.vmap(bound)(slope, u)
