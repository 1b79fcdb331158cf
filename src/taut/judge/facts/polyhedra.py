"""Polyhedra with few rows: their half-spaces, vertices and error bounds (Hoffman's constant)."""

from __future__ import annotations

import itertools
import math

import numpy as np

from ...engine import Array
from ...intervals.pieces import Unknown

SUBSETS = 5_000
"""Sets of rows that are looked at, at most."""
DEPENDENT, INDEPENDENT = 1e-12, 1e-7
"""Rows whose smallest singular value is below the first share of the largest are dependent, and
above the second independent; between them nothing is certain."""
SPHERE = 1e-12
"""A point whose distance from the centre is smaller than the radius by at most this share is on the
sphere."""
ROOM = 1e-6
"""Inequalities may be exceeded by this share of their numbers before a face counts as empty."""
SAME = 1e-12
"""Half-spaces whose unit normals and offsets differ by less than this, relatively, are the same."""
APART = 1.5e-6
"""Kept cuts whose unit normals differ by less than this share a slot."""


def hoffman(
    slopes: Array,
    offsets: Array,
    more: Array,
    levels: Array,
    low: Array,
    high: Array,
    ball: tuple[Array, float] | None = None,
) -> float:
    """The largest kappa with max_i [a_i.x + b_i]_+ >= kappa dist(x, P) for all x of a set, or a
    smaller number.

    P = {x : a_i.x + b_i <= 0, c_j.x <= l_j}, and c_j.x <= l_j holds on the set. Let p be the point
    of P that is nearest to x. Then x - p = sum_i lambda_i a_i + sum_j mu_j c_j with lambda, mu >= 0
    over independent rows that are active at p, so |x - p|^2 <= sum_i lambda_i max_i [a_i.x + b_i]_+
    and kappa is the smallest |sum lambda_i a_i + mu_j c_j| with sum lambda_i = 1, over all such
    sets of rows. Sets that are not active at a vertex of P in the box are left out,
    because P is bounded.

    Arguments:
        slopes: a_i, (row, entry).
        offsets: b_i.
        more: c_j.
        levels: l_j.
        low: lower edges of a box that contains P, and
        high: its upper edges.
        ball: centre and radius, if the set is a ball. A vertex of P on its sphere whose normals all
            point outwards is nearest to no other point of the ball, so it does not count.
    """
    rows = np.concatenate([slopes, more])
    ends = np.concatenate([offsets, -levels])
    counted = np.arange(len(rows)) < len(slopes)
    sizes = range(1, 1 + min(rows.shape))
    total = sum(math.comb(len(rows), k) for k in sizes)
    if total > SUBSETS:
        raise Unknown(f"the polyhedron has {total} sets of rows; at most {SUBSETS} are looked at")
    candidates = []
    for size in sizes:
        sets = np.array(list(itertools.combinations(range(len(rows)), size)))
        sets = sets[counted[sets].any(axis=1)]
        candidates += _smallest_normals(rows, counted, sets)
    active = _active(rows, ends, low, high)
    return min(
        length
        for length, chosen in candidates
        if (active is None or active[:, chosen].all(axis=1).any())
        and not _points_outwards(rows, ends, chosen, ball)
    )


def vertices(slopes: Array, offsets: Array) -> Array | None:
    """All vertices of the polyhedron {x : slopes x + offsets <= 0}, in doubt more, (vertex, entry);
    None if it is not bounded, as far as is known, or empty."""
    count, size = slopes.shape
    if count <= size or math.comb(count, size) > SUBSETS or math.comb(count, size - 1) > SUBSETS:
        return None
    length = np.linalg.norm(slopes, axis=1)
    units, ends = slopes / length[:, None], offsets / length
    # An unbounded polyhedron contains a ray that lies in all but one of `size` rows.
    edges = np.array(list(itertools.combinations(range(count), size - 1)), int)
    rays = np.linalg.svd(units[edges])[2][:, -1]
    along = rays @ units.T
    if np.any(np.all(along <= ROOM, axis=1) | np.all(along >= -ROOM, axis=1)):
        return None
    points = _corners(units, ends)
    room = ROOM * (np.linalg.norm(points, axis=1, keepdims=True) + np.abs(ends))
    points = points[np.all(points @ units.T + ends <= room, axis=1)]
    return points if len(points) else None


def _points_outwards(
    rows: Array, ends: Array, chosen: Array, ball: tuple[Array, float] | None
) -> bool:
    """Whether these rows meet in a point of the sphere, and all of them point out of the ball."""
    if ball is None or len(chosen) < max(rows.shape[1], 2):
        return False
    centre, radius = ball
    ray = np.linalg.solve(rows[chosen], -ends[chosen]) - centre
    outwards = bool(np.all(rows[chosen] @ ray >= 0))
    return outwards and bool(np.linalg.norm(ray) >= radius * (1 - SPHERE))


def _smallest_normals(rows: Array, counted: Array, sets: Array) -> list[tuple[float, Array]]:
    """For each independent set of rows, the smallest norm of a combination whose weights are not
    negative and sum to 1 over the counted rows, if all its weights are in use."""
    chosen = rows[sets]
    singular = np.linalg.svd(
        chosen / np.linalg.norm(chosen, axis=2, keepdims=True), compute_uv=False
    )
    ratio = singular[:, -1] / singular[:, 0]
    if np.any((ratio > DEPENDENT) & (ratio < INDEPENDENT)):
        raise Unknown("rows are nearly dependent")
    independent = ratio >= INDEPENDENT
    sets, chosen = sets[independent], chosen[independent]
    weights = counted[sets].astype(float)
    solved = np.linalg.solve(chosen @ chosen.swapaxes(1, 2), weights[..., None])[..., 0]
    squared = np.sum(weights * solved, axis=1)
    # A weight that is nearly 0 belongs to a smaller set, which has nearly the same norm.
    valid = np.all(solved >= -1e-9 * np.abs(solved).max(axis=1, keepdims=True), axis=1)
    lengths = (1 - 1e-9) / np.sqrt(squared[valid])
    return list(zip(lengths.tolist(), sets[valid], strict=True))


def _corners(rows: Array, ends: Array) -> Array:
    """The points in which independent sets of as many rows as a decision has entries meet."""
    chosen = np.array(list(itertools.combinations(range(len(rows)), rows.shape[1])))
    units = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    singular = np.linalg.svd(units[chosen], compute_uv=False)
    chosen = chosen[singular[:, -1] > INDEPENDENT * singular[:, 0]]
    return np.linalg.solve(rows[chosen], -ends[chosen][..., None])[..., 0]


def _active(rows: Array, ends: Array, low: Array, high: Array) -> Array | None:
    """Which rows are active at each vertex of the polyhedron in the box, (vertex, row), in doubt
    more; None if it has no vertex. A face of a bounded polyhedron has a vertex, at which all rows
    of its set are active."""
    if len(rows) < rows.shape[1]:
        return None
    points = _corners(rows, ends)
    reach = np.maximum(np.abs(low), np.abs(high))
    room = ROOM * (np.abs(rows) @ reach + np.abs(ends)) + 1e-300
    values = points @ rows.T + ends
    inside = np.all(values <= room, axis=1)
    spare = ROOM * np.max(high - low)
    inside &= np.all((points >= low - spare) & (points <= high + spare), axis=1)
    return np.abs(values[inside]) <= room if inside.any() else None


def distinct(functions: Array) -> Array:
    """Unit normals of the different half-spaces {x : slope.x + offset <= 0}, one for each; the
    offset is the last entry of a function.

    Pieces that do not depend on the decision and hold are left out.
    """
    length = np.linalg.norm(functions[:, :-1], axis=-1)
    if np.any(functions[length == 0, -1] > 0):
        raise Unknown("a constraint does not depend on the decision and is violated")
    moving = length > 0
    rows = functions[moving] / length[moving][:, None]
    scale = np.maximum(1, np.abs(rows[:, -1:]))
    _, first = np.unique(np.round(rows / scale / SAME), axis=0, return_index=True)
    normals: Array = rows[np.sort(first), :-1]
    return normals


def nearly_parallel(normals: Array) -> bool:
    """Whether two unit normals differ by so little that their cuts share a slot, although they are
    not the same."""
    distances = (np.linalg.norm(normals[k + 1 :] - row, axis=1) for k, row in enumerate(normals))
    return any(np.any((each > 10 * SAME) & (each < APART)) for each in distances)
