"""The frame all solving happens in: decisions as flat vectors u with x = centre + radius * u, so that |u| <= 1."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ...engine import register_dataclass
from ...problem.domains import Ball, Box, Domain, L1Ball, Product, Simplex

__all__ = ["Array", "Frame", "as_double", "batches", "least_over_domain", "onto_domain"]

Array = np.ndarray[Any, Any]

BATCH = 16
"""Points that are evaluated together."""
FAR = (1e8, 1e12)
"""How many radii away points lie whose projections minimise a linear function; see `_least_by_projection`."""


@register_dataclass
@dataclass(frozen=True)
class Frame:
    """The unit frame of a domain: a pytree, so that compiled functions can take it as an argument."""

    domain: Domain
    centre: jax.Array
    scale: jax.Array

    @classmethod
    def of(cls, domain: Domain) -> Frame:
        """The frame around the domain's centre."""
        centre = jnp.asarray(np.asarray(domain.centre, float).ravel())
        return cls(domain, centre, jnp.asarray(float(domain.radius)))

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
    return array.astype(np.float64, copy=False) if np.issubdtype(array.dtype, np.floating) else array


def onto_domain(frame: Frame, u: Array) -> Array:
    """Each row of `u`, projected on the domain."""
    return np.concatenate([np.asarray(_onto_domain(frame, part)) for part in batches(u)])[: len(u)]


def least_over_domain(frame: Frame, slope: Array, u: Array) -> Array:
    """Lower bounds on min <slope, y - u> over all y of the domain, for each row of `slope` and `u`."""
    scale = float(frame.scale)
    return _least(frame.domain, slope / scale, np.asarray(frame.centre) + scale * u)


def _least(domain: Domain, slope: Array, x: Array) -> Array:
    """The same for flat decisions: in closed form for the domains we know, else from the projection."""
    if type(domain) is Ball:
        return -domain.radius * np.linalg.norm(slope, axis=1) - np.sum(slope * (x - np.ravel(domain.middle)), axis=1)
    if type(domain) is L1Ball:
        return -domain.radius * np.abs(slope).max(axis=1) - np.sum(slope * (x - np.ravel(domain.middle)), axis=1)
    if type(domain) is Box:
        low, high = np.ravel(domain.lower) - x, np.ravel(domain.upper) - x
        return np.sum(np.minimum(slope * low, slope * high), axis=1)
    if type(domain) is Simplex:
        return np.sum((slope.min(axis=1, keepdims=True) - slope) * x, axis=1)
    if type(domain) is Product:
        ends = np.cumsum([math.prod(part.shape) for part in domain.parts])[:-1]
        parts = zip(domain.parts, np.split(slope, ends, axis=1), np.split(x, ends, axis=1), strict=True)
        return np.sum([_least(*part) for part in parts], axis=0)
    return np.maximum(*(_least_by_projection(domain, slope, x, far) for far in FAR))


def _least_by_projection(domain: Domain, slope: Array, x: Array, far: float) -> Array:
    """A bound from the projection p of w = x - s * slope.

    Its variational inequality <w - p, y - p> <= 0 reads <slope, y - x> >= <slope, p - x> + <x - p, y - p> / s, and the
    last term is at least -|x - p| * diameter / s.
    """
    length = np.linalg.norm(slope, axis=1, keepdims=True)
    s = far * float(domain.radius) / np.where(length > 0, length, 1)
    w = (x - s * slope).reshape(-1, *domain.shape)
    offset = np.stack([np.ravel(domain.project(jnp.asarray(one))) for one in w]) - x
    return np.sum(slope * offset, axis=1) - np.linalg.norm(offset, axis=1) * float(domain.diameter) / s[:, 0]


@jax.jit
def _onto_domain(frame: Frame, u: jax.Array) -> jax.Array:
    return jax.vmap(lambda one: frame.flat(frame.domain.project(frame.decision(one))))(u)
