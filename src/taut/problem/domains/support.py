"""How far a domain reaches in a direction, for many directions at once, in NumPy."""

from __future__ import annotations

import math
from typing import Any

import jax
import numpy as np

from ...engine import Array, default_float
from .affine_box import AffineBox
from .balls import Ball, L1Ball
from .base import FAR, Domain
from .box import Box
from .product import Blocks, Product

DISTANCES = (FAR, 1e12)
"""Radii to the points whose projections bound a linear function; the better one counts."""
BATCH = 16
"""Rows that a compiled function takes at once: one size to compile, whatever the number of rows."""
FEW = 2000
"""So many points are projected on a box cut by equations in NumPy: about 1 ms each."""


def centre_of(domain: Domain) -> Array:
    """`domain.centre` as a NumPy array, in JAX's float type. JAX would compile a program that
    copies an array of each shape."""
    centre: Any
    if pieces := _pieces(domain):
        centre = np.zeros(math.prod(domain.shape))
        for part, places in pieces:
            centre[places] = centre_of(part).ravel()
        centre = centre.reshape(domain.shape)
    else:
        own = type(domain) in (AffineBox, Ball, Box, L1Ball)
        centre = domain.middle if own else domain.centre  # type: ignore[attr-defined]
    return np.asarray(centre, default_float())


def linear_minimisers(domain: Domain, directions: Array) -> Array:
    """For each row of `directions` a flat decision, as of `Domain.linear_minimiser`."""
    if pieces := _pieces(domain):
        minimisers = np.zeros(directions.shape)
        for part, places in pieces:
            minimisers[:, places] = linear_minimisers(part, directions[:, places])
        return minimisers
    if exact_in_numpy(domain):
        return np.broadcast_to(domain._minimisers(directions, np), directions.shape)
    return np.concatenate(
        [np.asarray(_minimised(domain, part), float) for part in in_batches(directions)]
    )[: len(directions)]


def project_rows(domain: Domain, points: Array) -> Array:
    """Each row of `points`, a flat decision, projected on the domain."""
    if pieces := _pieces(domain):
        projected = np.zeros(points.shape)
        for part, places in pieces:
            projected[:, places] = project_rows(part, points[:, places])
        return projected
    few = not isinstance(domain, AffineBox) or len(points) <= FEW
    if few and "_project_in_numpy" in vars(type(domain)):  # a subclass may be another set
        return domain._project_in_numpy(np.asarray(points, float))
    return np.concatenate(
        [np.asarray(_projected(domain, part), float) for part in in_batches(points)]
    )[: len(points)]


def in_batches(rows: Array) -> list[Array]:
    """The rows in parts of BATCH; the last one is filled up by repeating the last row. One row
    stays alone."""
    if len(rows) == 1:
        return [rows]
    missing = -len(rows) % BATCH if len(rows) else 0
    full = np.concatenate([rows, np.repeat(rows[-1:], missing, axis=0)]) if missing else rows
    return [full[i : i + BATCH] for i in range(0, len(full), BATCH)] or [rows]


def least_change(domain: Domain, directions: Array, points: Array) -> Array:
    """Lower bounds on min <direction, y - point> over all y of the domain, one per row of
    `directions` and `points`.

    They are equal to the minimum for domains that have a `linear_minimiser` of their own.
    """
    if pieces := _pieces(domain):
        parts = [least_change(part, directions[:, at], points[:, at]) for part, at in pieces]
        return np.asarray(np.sum(parts, axis=0))
    if exact_in_numpy(domain) or type(domain).linear_minimiser is not Domain.linear_minimiser:
        return np.sum(directions * (linear_minimisers(domain, directions) - points), axis=1)
    return np.maximum(
        *(_least_change_by_projection(domain, directions, points, far) for far in DISTANCES)
    )


def bounding_box(domain: Domain) -> tuple[Array, Array]:
    """Flat bounds of a box that contains the domain; the smallest one, if it can be computed."""
    known = domain._edges()
    if known is not None:
        return tuple(np.array(edge, float).ravel() for edge in known)  # type: ignore[return-value]
    if pieces := _pieces(domain):
        low, high = np.zeros((2, math.prod(domain.shape)))
        for part, places in pieces:
            low[places], high[places] = bounding_box(part)
        return low, high
    axes = np.eye(math.prod(domain.shape))
    origin = np.zeros_like(axes)
    return least_change(domain, axes, origin), -least_change(domain, -axes, origin)


def exact_in_numpy(domain: Domain) -> bool:
    """Whether minimisers of linear functions are computed exactly, in NumPy."""
    if pieces := _pieces(domain):
        return all(exact_in_numpy(part) for part, _ in pieces)
    return (
        domain._has_exact_minimisers() and type(domain).linear_minimiser is Domain.linear_minimiser
    )


def _pieces(domain: Domain) -> tuple[tuple[Domain, Any], ...]:
    """Each part of a product with an index of its entries; none for another domain."""
    return domain.pieces if type(domain) in (Blocks, Product) else ()  # type: ignore[attr-defined]


def _least_change_by_projection(
    domain: Domain, directions: Array, points: Array, far: float
) -> Array:
    """A bound from the projection p of w = x - s * direction.

    Its variational inequality <w - p, y - p> <= 0 reads <direction, y - x> >= <direction, p - x> +
    <x - p, y - p> / s, and the last term is at least -|x - p| * diameter / s.
    """
    size = np.abs(directions).max(axis=1, keepdims=True)
    unit = directions / np.where(size > 0, size, 1)  # so that squares neither overflow nor vanish
    s = far * float(domain.radius) / np.maximum(np.linalg.norm(unit, axis=1, keepdims=True), 1)
    offset = project_rows(domain, points - s * unit) - points
    lost = np.linalg.norm(offset, axis=1) * float(domain.diameter) / s[:, 0]
    return size[:, 0] * (np.sum(unit * offset, axis=1) - lost)


@jax.jit
def _projected(domain: Domain, rows: Any) -> Any:
    return jax.vmap(lambda row: domain.project(row.reshape(domain.shape)).ravel())(rows)


@jax.jit
def _minimised(domain: Domain, rows: Any) -> Any:
    return jax.vmap(lambda row: domain.linear_minimiser(row.reshape(domain.shape)).ravel())(rows)
