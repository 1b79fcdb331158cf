"""A domain as rows and cones of a conic program, in the coordinates u of `Scaling`.

The library's own domains are written down here, because importing CVXPY takes longer than solving a
small problem. CVXPY states all others.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ...engine import Array
from ...extras import optional
from ...problem.conic import ConicSet, second_order_cone
from ...problem.domains import Ball, Box, Domain, L1Ball, Product, Simplex
from ...problem.sparse import Entries
from .scaling import Scaling

__all__ = ["DomainRows", "domain_rows"]


class DomainRows(NamedTuple):
    """A domain as matrix @ v + s = offsets: s is zero for `equal`, not negative for `below`, in
    `cones` for the rest.

    v is u, followed by variables of the domain's own.
    """

    equal: Entries
    equal_offsets: Array
    below: Entries
    below_offsets: Array
    rest: Entries
    rest_offsets: Array
    cones: list[Any]


class _Part(NamedTuple):
    """Rows over the entries of one part of a domain: of u first, then of further variables of its
    own."""

    equal: Array
    equal_offsets: Array
    below: Array
    below_offsets: Array
    cone: Array
    """At most one second-order cone."""
    cone_offsets: Array


def domain_rows(scaling: Scaling) -> DomainRows:
    """The domain's constraints on u and on further variables of its own."""
    parts = list(_library_parts(scaling.domain))
    if None in parts:
        return _stated_by_cvxpy(scaling)
    centre, radius = np.asarray(scaling.centre, float).ravel(), float(scaling.radius)
    made, start = [], 0
    for part in parts:
        assert part is not None
        size = math.prod(part.shape)
        made.append((start, size, _rows(part, centre[start : start + size], radius)))
        start += size
    return _joined(made, scaling.size)


def _library_parts(domain: Domain) -> list[Domain | None]:
    """The domain's factors; None for one that is not of this library."""
    if type(domain) is Product:
        return [part for factor in domain.parts for part in _library_parts(factor)]
    return [domain if type(domain) in (Ball, Box, L1Ball, Simplex) else None]


def _rows(domain: Domain, centre: Array, radius: float) -> _Part:
    """The rows of x = centre + radius * u in the domain, divided by `radius`."""
    size = len(centre)
    unit, none, zero = np.eye(size), np.zeros((0, size)), np.zeros(0)

    def flat(value: Any) -> Array:
        return np.broadcast_to(np.asarray(value, float), domain.shape).ravel()

    if isinstance(domain, Box):
        lower, upper = (
            (flat(domain.lower) - centre) / radius,
            (flat(domain.upper) - centre) / radius,
        )
        fixed = lower == upper
        free = unit[~fixed]
        below, offsets = (
            np.concatenate([-free, free]),
            np.concatenate([-lower[~fixed], upper[~fixed]]),
        )
        return _Part(unit[fixed], lower[fixed], below, offsets, none, zero)
    if isinstance(domain, Simplex):
        total = np.array([(float(domain.total) - centre.sum()) / radius])
        return _Part(np.ones((1, size)), total, -unit, centre / radius, none, zero)
    assert isinstance(domain, (Ball, L1Ball))
    reach, shift = float(domain.radius) / radius, (centre - flat(domain.middle)) / radius
    if isinstance(domain, Ball):  # |u + shift| <= reach
        cone = np.concatenate([np.zeros((1, size)), -unit])
        return _Part(none, zero, none, zero, cone, np.append(reach, shift))
    # -t <= u + shift <= t and sum t <= reach
    below = np.block([[unit, -unit], [-unit, -unit], [np.zeros((1, size)), np.ones((1, size))]])
    wide = np.zeros((0, 2 * size))
    return _Part(wide, zero, below, np.concatenate([-shift, shift, [reach]]), wide, zero)


def _joined(parts: list[tuple[int, int, _Part]], size: int) -> DomainRows:
    """The rows of all parts over (u, further variables of the first part, of the second, ...)."""
    width = size + sum(part.below.shape[1] - own for _, own, part in parts)
    blocks: dict[str, list[Entries]] = {"equal": [], "below": [], "cone": []}
    extra = size
    for start, own, part in parts:
        further = part.below.shape[1] - own
        columns = np.concatenate([np.arange(start, start + own), np.arange(extra, extra + further)])
        extra += further
        for name, made in blocks.items():
            block = Entries.of(getattr(part, name))
            made.append(
                Entries(block.rows, columns[block.columns], block.values, (block.shape[0], width))
            )

    def joined(name: str) -> tuple[Entries, Array]:
        offsets = np.concatenate([getattr(part, f"{name}_offsets") for *_, part in parts])
        return Entries.stacked(blocks[name]), offsets

    cones = [
        second_order_cone(len(part.cone_offsets)) for *_, part in parts if len(part.cone_offsets)
    ]
    return DomainRows(*joined("equal"), *joined("below"), *joined("cone"), cones)


def _stated_by_cvxpy(scaling: Scaling) -> DomainRows:
    cp = optional("cvxpy")

    u = cp.Variable(scaling.size)
    x = np.asarray(scaling.centre) + float(scaling.radius) * u
    form = ConicSet.of(
        [u], scaling.domain.to_cvxpy(cp.reshape(x, scaling.domain.shape, order="C"))
    ).form
    others = np.setdiff1d(np.arange(form.matrix.shape[1]), form.columns)
    matrix = form.matrix[:, np.concatenate([form.columns, others])]
    equal, below = form.zero, form.zero + form.positive
    parts = [
        (Entries.of(matrix[rows]), form.offsets[rows])
        for rows in (slice(0, equal), slice(equal, below), slice(below, None))
    ]
    linear = (form.zero > 0) + (form.positive > 0)
    return DomainRows(*parts[0], *parts[1], *parts[2], form.cones[linear:])
