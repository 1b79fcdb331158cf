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
from .simplex import Simplex

DISTANCES = (FAR, 1e12)
"""How many radii away points lie whose projections bound a linear function from below; the better
bound counts."""
BATCH = 16
"""Rows that a compiled function takes at once: one size to compile, whatever the number of rows."""
FEW = 2000
"""Up to this many points are projected in NumPy on a box cut by equations, which takes about a
millisecond each."""


def centre_of(domain: Domain) -> Array:
    """`domain.centre` as a NumPy array, in JAX's float type. JAX would compile a program that
    copies an array of each shape."""
    found: Any
    if isinstance(domain, (Blocks, Product)) and type(domain) in (Blocks, Product):
        found = np.zeros(math.prod(domain.shape))
        for part, places in _parts(domain):
            found[places] = centre_of(part).ravel()
        found = found.reshape(domain.shape)
    elif isinstance(domain, (Ball, L1Ball, AffineBox)) and type(domain) in (
        Ball,
        L1Ball,
        AffineBox,
    ):
        found = domain.middle
    elif type(domain) is Box:
        found = domain.lower + (domain.upper - domain.lower) / 2
    else:
        found = domain.centre
    return np.asarray(found, default_float())


def linear_minimisers(domain: Domain, directions: Array) -> Array:
    """For each row of `directions` a flat decision at which <direction, x> is smallest; see
    `Domain.linear_minimiser`."""
    if isinstance(domain, (Blocks, Product)) and type(domain) in (Blocks, Product):
        found = np.zeros(directions.shape)
        for part, places in _parts(domain):
            found[:, places] = linear_minimisers(part, directions[:, places])
        return found
    if exact_in_numpy(domain):
        return np.broadcast_to(domain._minimisers(directions, np), directions.shape)
    return np.concatenate(
        [np.asarray(_minimised(domain, part), float) for part in in_batches(directions)]
    )[: len(directions)]


def project_rows(domain: Domain, points: Array) -> Array:
    """Each row of `points`, a flat decision, projected on the domain."""
    if type(domain) in (Blocks, Product):
        found = np.zeros(points.shape)
        for part, places in _parts(domain):  # type: ignore[arg-type]
            found[:, places] = project_rows(part, points[:, places])
        return found
    if (
        type(domain) is AffineBox and len(points) <= FEW
    ):  # an interior-point method takes long to compile
        with np.errstate(all="ignore"):
            return np.stack([domain._project_in_numpy(one) for one in points]).reshape(points.shape)
    if type(domain) in (Ball, Box, L1Ball, Simplex):
        return _projected_in_numpy(domain, np.asarray(points, float))
    return np.concatenate(
        [np.asarray(_projected(domain, part), float) for part in in_batches(points)]
    )[: len(points)]


def _projected_in_numpy(domain: Domain, points: Array) -> Array:
    """The formulas of the domains' own `project`, which would be traced for every new shape."""
    if isinstance(domain, Box):
        return np.clip(points, _flat(domain, domain.lower), _flat(domain, domain.upper))
    if isinstance(domain, Simplex):
        return _onto_simplex(points, float(domain.total))[0]
    assert isinstance(domain, (Ball, L1Ball))
    middle = _flat(domain, domain.middle)
    offset, radius = points - middle, float(domain.radius)
    if isinstance(domain, L1Ball):
        sizes, threshold = _onto_simplex(np.abs(offset), radius)
        return np.where(threshold <= 0, points, middle + np.sign(offset) * sizes)
    largest = np.max(
        np.abs(offset), axis=1, keepdims=True
    )  # first to size 1, so that squares do not overflow
    unit = offset / np.where(largest > 0, largest, 1)
    share = radius / np.maximum(largest * np.linalg.norm(unit, axis=1, keepdims=True), radius)
    return middle + offset * share


def _flat(domain: Domain, value: Any) -> Array:
    return np.broadcast_to(np.asarray(value, float), domain.shape).ravel()


def _onto_simplex(rows: Array, total: float) -> tuple[Array, Array]:
    """See `taut.problem.domains.simplex.onto_simplex`; for each row."""
    ordered, counts = np.sort(rows, axis=1)[:, ::-1], np.arange(1, rows.shape[1] + 1)

    def threshold_from(origin: Array) -> Array:
        return np.asarray(
            np.max((np.cumsum(ordered - origin, axis=1) - total) / counts, axis=1, keepdims=True)
        )

    origin = ordered[:, :1] + threshold_from(ordered[:, :1])
    threshold = threshold_from(origin)
    return np.maximum(rows - origin - threshold, 0), origin + threshold


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
    if isinstance(domain, (Blocks, Product)) and type(domain) in (Blocks, Product):
        parts: list[Array] = [
            least_change(part, directions[:, places], points[:, places])
            for part, places in _parts(domain)
        ]
        return np.sum(parts, axis=0)
    if exact_in_numpy(domain) or type(domain).linear_minimiser is not Domain.linear_minimiser:
        return np.sum(directions * (linear_minimisers(domain, directions) - points), axis=1)
    return np.maximum(
        *(_least_change_by_projection(domain, directions, points, far) for far in DISTANCES)
    )


def bounding_box(domain: Domain) -> tuple[Array, Array]:
    """A box that contains the domain, as flat lower and upper bounds; the smallest one, if its
    edges can be computed."""
    known = domain._edges()
    if known is not None:
        return tuple(np.array(edge, float).ravel() for edge in known)  # type: ignore[return-value]
    if type(domain) in (Blocks, Product):
        low, high = np.zeros((2, math.prod(domain.shape)))
        for part, places in _parts(domain):  # type: ignore[arg-type]
            low[places], high[places] = bounding_box(part)
        return low, high
    axes = np.eye(math.prod(domain.shape))
    origin = np.zeros_like(axes)
    return least_change(domain, axes, origin), -least_change(domain, -axes, origin)


def exact_in_numpy(domain: Domain) -> bool:
    """Whether minimisers of linear functions are computed exactly, in NumPy."""
    if type(domain) in (Blocks, Product):
        return all(exact_in_numpy(part) for part, _ in _parts(domain))  # type: ignore[arg-type]
    return (
        domain._has_exact_minimisers() and type(domain).linear_minimiser is Domain.linear_minimiser
    )


def _parts(domain: Product | Blocks) -> list[tuple[Domain, Array]]:
    """Each part of a product with the places of its entries."""
    if isinstance(domain, Blocks):
        return [
            (part, np.asarray(places))
            for part, places in zip(domain.parts, domain.places, strict=True)
        ]
    ends = np.cumsum([math.prod(part.shape) for part in domain.parts])
    return list(zip(domain.parts, np.split(np.arange(ends[-1]), ends[:-1]), strict=True))


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
    return jax.vmap(lambda one: domain.project(one.reshape(domain.shape)).ravel())(rows)


@jax.jit
def _minimised(domain: Domain, rows: Any) -> Any:
    return jax.vmap(lambda one: domain.linear_minimiser(one.reshape(domain.shape)).ravel())(rows)
