"""Vertices and rays of the multipliers of a linear program, by the double description method.

The value of the linear program min {q'y : W_E y + r_E = 0, W_I y + r_I <= 0}, as a function of r,
is the largest v'r over the vertices v of {v : W'v = -q, v_I >= 0}, as long as r'u <= 0 for all rays
u of that set; otherwise no y is feasible. Vertices and rays depend on W and q only, so that they
are found once.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.linalg import qr

from ...engine import Array

MOST = 400
"""The largest number of vertices and rays,"""
BETWEEN = 4000
"""and of rays while they are found."""
ZERO = 1e-9
"""Numbers below this, relatively, are zero."""
ROUNDING = 1e-13
"""Numbers below this, relatively, are zero after errors of the method were removed."""


class TooMany(ValueError):
    """There are too many vertices or rays to list them."""


class Multipliers(NamedTuple):
    """Convex hull of the points, plus the rays, plus the span of the lines; one per row."""

    points: Array
    rays: Array
    lines: Array


def multipliers(matrix: Array, costs: Array | None, equations: int) -> Multipliers:
    """Vertices, rays and lines of {v : matrix'v = -costs, v_i >= 0 for the rows after the first
    `equations`}.

    Without `costs` the set is the cone of {v : matrix'v = 0}, whose only vertex is zero.
    """
    rows = len(matrix)
    sizes = np.linalg.norm(matrix, axis=1)
    sizes = np.where(sizes > 0, sizes, 1.0)
    scaled = matrix / sizes[:, None]
    worth = np.zeros(matrix.shape[1]) if costs is None else costs
    size = float(np.abs(worth).max(initial=0)) or 1.0
    # The cone over the set, with one more coordinate that is 1 at its points and 0 at its rays.
    cone = np.concatenate([scaled.T, (worth / size)[:, None]], axis=1)
    basis = null_space(cone)
    signs = np.append(np.arange(equations, rows), rows)
    lines = basis @ null_space(basis[signs])
    if lines.shape[1]:
        basis = basis @ null_space((basis.T @ lines).T)
    extreme = cone_rays(basis[signs]) @ basis.T if basis.shape[1] else np.zeros((0, rows + 1))
    points, rays = list[Array](), list[Array]()
    for ray in extreme:
        top = ray[-1] > ZERO * np.abs(ray).max()
        scaled_ray = ray / ray[-1] if top else ray / np.abs(ray).max()
        (points if top else rays).append(_polished(cone, scaled_ray, signs, lines.shape[1] == 0))
    scale = np.append(1 / sizes, 1.0)
    made = [np.array(part).reshape(-1, rows + 1) * scale for part in (points, rays, lines.T)]
    return Multipliers(made[0][:, :-1] * size, *(_unit(part[:, :-1]) for part in made[1:]))


def _polished(cone: Array, ray: Array, signs: Array, pointed: bool) -> Array:
    """The point or ray from the rows at which it is zero, without the errors of the method."""
    ray = np.where(np.abs(ray) <= ZERO * np.abs(ray).max(), 0.0, ray)
    free = (
        np.flatnonzero(ray[:-1])
        if pointed
        else np.setdiff1d(np.arange(len(ray) - 1), signs[ray[signs] == 0])
    )
    # Of a ray, the largest entry is kept.
    pivot = len(ray) - 1 if ray[-1] else int(free[np.argmax(np.abs(ray[free]))])
    free = free[free != pivot]
    solved = np.zeros_like(ray)
    solved[pivot] = ray[pivot]
    solved[free] = np.linalg.lstsq(cone[:, free], -cone[:, pivot] * ray[pivot], rcond=None)[0]
    if np.abs(solved - ray).max() <= 1e-6 * np.abs(ray).max():
        ray = np.where(np.abs(solved) <= ROUNDING * np.abs(solved).max(), 0.0, solved)
    ray[signs] = np.maximum(ray[signs], 0.0)
    return ray


def _unit(rows: Array) -> Array:
    return rows / np.abs(rows).max(axis=1, keepdims=True, initial=1e-300) if len(rows) else rows


def null_space(matrix: Array) -> Array:
    """Orthonormal columns that the matrix maps to zero."""
    if not matrix.shape[0]:
        return np.eye(matrix.shape[1])
    _, values, right = np.linalg.svd(matrix)
    rank = int(np.sum(values > ZERO * max(1.0, values.max(initial=0))))
    return np.asarray(right[rank:].T)


def cone_rays(rows: Array) -> Array:
    """The extreme rays of the pointed cone {a : rows @ a >= 0}, (ray, entry), each with the largest
    entry 1.

    Starting from as many rows as there are entries, rows are added one by one: rays on the wrong
    side are replaced by those in which edges between neighbours on both sides meet the new row's
    plane.
    """
    width = rows.shape[1]
    sizes = np.linalg.norm(rows, axis=1)
    rows = rows[sizes > ZERO] / sizes[sizes > ZERO][:, None]
    rows = np.unique(np.round(rows, 12), axis=0)
    first = independent(rows)
    rays = np.linalg.inv(rows[first]).T
    rays = rays / np.abs(rays).max(axis=1, keepdims=True)
    used, left = list(first), [k for k in range(len(rows)) if k not in first]
    while left:
        values = rays @ rows[left].T
        above, below = (values > ZERO).sum(axis=0), (values < -ZERO).sum(axis=0)
        pick = int(np.argmin(above * below))  # fewest pairs to look at
        k, value = left.pop(pick), values[:, pick]
        used.append(k)
        plus, minus = np.flatnonzero(value > ZERO), np.flatnonzero(value < -ZERO)
        if not len(minus):
            continue
        tight = np.abs(rays @ rows[used[:-1]].T) <= ZERO
        both = tight[plus][:, None, :] & tight[minus][None, :, :]
        near = np.argwhere(both.sum(axis=2) >= width - 2)
        made = []
        for i, j in near:
            # Neighbours: no other ray lies on all planes on which both lie.
            if tight[:, both[i, j]].all(axis=1).sum() == 2:
                p, n = plus[i], minus[j]
                ray = value[p] * rays[n] - value[n] * rays[p]
                made.append(ray / np.abs(ray).max())
        rays = np.concatenate([rays[value >= -ZERO], np.array(made).reshape(-1, width)])
        if len(rays) > BETWEEN:
            raise TooMany
    if len(rays) > MOST:
        raise TooMany
    return np.asarray(rays)


def independent(rows: Array) -> list[int]:
    """Numbers of rows that span all of them."""
    if not len(rows):
        return []
    _, triangle, order = qr(rows.T, mode="economic", pivoting=True)
    size = np.abs(np.diag(triangle))
    return sorted(order[: int(np.sum(size > ZERO * size[0]))].tolist())
