"""Domains seen from outside, in NumPy: how far they reach in a direction, and decisions drawn from them."""

from __future__ import annotations

import math
from functools import singledispatch
from typing import Any

import jax
import numpy as np

from ..problem.domains import Ball, Box, Domain, L1Ball, Product, Simplex

__all__ = ["draw", "edges", "least"]

Array = np.ndarray[Any, Any]


@singledispatch
def least(domain: Domain, slope: Array) -> tuple[float, Array]:
    """The minimum of <slope, x> over the domain and a flat decision that attains it; minus infinity if unknown."""
    return -np.inf, _centre(domain)


@least.register
def _box(domain: Box, slope: Array) -> tuple[float, Array]:
    x = np.where(slope > 0, np.ravel(domain.lower), np.ravel(domain.upper))
    return float(slope @ x), x


@least.register
def _ball(domain: Ball, slope: Array) -> tuple[float, Array]:
    x, length = _centre(domain), float(np.linalg.norm(slope))
    x = x if length == 0 else x - domain.radius * slope / length
    return float(slope @ x), x


@least.register
def _l1_ball(domain: L1Ball, slope: Array) -> tuple[float, Array]:
    x, steepest = _centre(domain), int(np.argmax(np.abs(slope)))
    x[steepest] -= domain.radius * np.sign(slope[steepest])
    return float(slope @ x), x


@least.register
def _simplex(domain: Simplex, slope: Array) -> tuple[float, Array]:
    x = np.zeros(len(slope))
    x[int(np.argmin(slope))] = domain.total
    return float(slope @ x), x


@least.register
def _product(domain: Product, slope: Array) -> tuple[float, Array]:
    ends = np.cumsum([math.prod(part.shape) for part in domain.parts])[:-1]
    found = [least(part, piece) for part, piece in zip(domain.parts, np.split(slope, ends), strict=True)]
    return sum(value for value, _ in found), np.concatenate([x for _, x in found])


def edges(domain: Domain) -> tuple[Array, Array]:
    """The smallest box around the domain, flat."""
    if isinstance(domain, Box):
        return np.ravel(domain.lower), np.ravel(domain.upper)
    axes = np.eye(math.prod(domain.shape))
    return np.array([least(domain, axis)[0] for axis in axes]), -np.array([least(domain, -axis)[0] for axis in axes])


def draw(domain: Domain, random: np.random.Generator, count: int) -> Array:
    """Decisions (count, size) of the domain: its centre, inner ones, and as many on the boundary, corners included."""
    centre = _centre(domain)
    outer = np.stack([least(domain, slope)[1] for slope in random.normal(size=(count, centre.size))])
    if not np.isfinite(least(domain, centre)[0]):  # a user's own domain
        keys = jax.random.split(jax.random.key(0), count)
        outer = np.asarray(jax.vmap(domain.sample)(keys), float).reshape(count, -1)
    # Inner ones between the centre and the mean of three on the boundary; a domain is convex.
    mixed = (outer + outer[random.permutation(count)] + outer[random.permutation(count)]) / 3
    inner = centre + random.uniform(size=(count, 1)) * (mixed - centre)
    half = count // 2
    return np.concatenate([centre[None], inner[: count - half - 1], outer[:half]])


def _centre(domain: Domain) -> Array:
    return np.array(domain.centre, float).ravel()
