"""Probes: values, slopes and first-order gaps of losses and constraints at many decisions and
rounds, in one pass each."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import numpy as np

from ..engine import Array
from ..problem.constraints import Constraints
from ..problem.domains import Domain
from ..problem.domains.support import centre_of
from ..problem.evaluation import Evaluation, constraint_evaluation, loss_evaluation
from ..problem.problem import Problem
from ..problem.programs import programs_of

__all__ = [
    "Linear",
    "entry",
    "largest_values",
    "linear",
    "losses_at",
    "probe",
    "values_at",
    "walk_back",
]

WALK = 200
"""Steps of a walk from outside the domain to the feasible set."""
NUMBERS = 2**23
"""Entries of constraint gradients that are computed at a time, at most."""


class Linear(NamedTuple):
    """Loss and constraints with their gradients at (point, round), decisions as flat vectors.

    The axis `round` of constraints that do not depend on it has length 1.
    """

    loss: Array
    slope: Array
    """(point, round, entry)"""
    values: Array
    """(point, round, constraint)"""
    rows: Array
    """(point, round, constraint, entry)"""


def linear(problem: Problem, x: Array, z: Any, repeats: int = 1) -> Linear:
    """Return losses and constraints at decisions (point, round or 1, *shape) with the data, arrays
    (point or 1, round, ...); see `Evaluation`."""
    given = z if problem.constraints.takes_data else None
    return Linear(
        *loss_evaluation(problem, repeats).slopes(x, z),
        *constraint_evaluation(problem, repeats=repeats).slopes(x, given),
    )


def probe(problem: Problem, points: Array, order: Array, data: Any) -> dict[str, Array]:
    """Values, slopes and first-order gaps at (round, point).

    Each point is paired with another one, `points[order]`: gaps are those between the two.
    """
    rounds = len(jax.tree.leaves(data)[0])
    width = rounds
    if problem.constraints.takes_data:
        one = jax.tree.map(lambda a: np.asarray(a)[None], data)
        count = constraint_evaluation(problem).count(points[:, None], one)
        while width > 1 and width * points.size * count > NUMBERS:
            width = -(-width // 2)
    parts = []
    for start in range(0, rounds, width):
        some = slice(start, start + width)
        rows = jax.tree.map(lambda a, some=some: np.asarray(a)[some], data)
        parts.append(_gaps(problem, points, order, rows))
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _gaps(problem: Problem, points: Array, order: Array, data: Any) -> dict[str, Array]:
    here = linear(problem, points[:, None], jax.tree.map(lambda a: a[None], data))
    there = Linear(*(part[order] for part in here))
    x = points.reshape(len(points), 1, -1)
    y = x[order]
    step, lead = y - x, here.loss.shape
    with np.errstate(all="ignore"):
        along = np.sum(here.slope * step, axis=-1)
        rise = np.sum(here.rows * step[..., None, :], axis=-1)
        # f(y) - f(x) - <f'(x), y - x>: never negative for a convex function.
        excess_gap = there.values - here.values - rise
        worst = np.argmin(excess_gap, axis=-1)
        slopes, far = _length(here.rows), _length(x) + _length(y)
        scale = np.abs(here.values) + np.abs(there.values) + np.abs(rise) + slopes * far[..., None]
        steep = _length(here.slope)
        found = {
            "loss": here.loss,
            "loss_slope": steep,
            "loss_gap": there.loss - here.loss - along,
            "loss_scale": np.abs(here.loss) + np.abs(there.loss) + np.abs(along) + steep * far,
            "excess": here.values,
            "excess_slope": np.max(slopes, axis=-1),
            "excess_reach": np.max(np.abs(here.values), axis=-1),
            "excess_gap": entry(excess_gap, worst),
            "excess_scale": entry(scale, worst),
            "excess_bend": np.max(_length(here.rows - there.rows), axis=-1),
            "length": _length(step),
        }
    return {
        name: np.swapaxes(np.broadcast_to(value, lead + value.shape[2:]), 0, 1)
        for name, value in found.items()
    }


def largest_values(problem: Problem, points: Array) -> Array:
    """The largest constraint value at each point, of constraints that do not change."""
    at = np.asarray(points)[:, None]
    return np.asarray(constraint_evaluation(problem).values(at)[:, 0].max(axis=1))


def values_at(problem: Problem, constraints: Constraints, points: Array) -> Array:
    """All values of constraints that do not change, (point, constraint)."""
    at = np.asarray(points)[:, None]
    return constraint_evaluation(problem, constraints).values(at)[:, 0].astype(float)


def losses_at(problem: Problem, points: Array, data: Any) -> Array:
    """The loss of one round at each point: the i-th point with the i-th row of the data."""
    rows = jax.tree.map(lambda a: np.asarray(a)[:, None], data)
    return loss_evaluation(problem).values(points[:, None], rows)[:, 0].astype(float)


def walk_back(problem: Problem, points: Array) -> tuple[Array, Array, Array]:
    """Whether each walk from far outside to g <= 0 ends outside the domain, whether it ends
    feasible, and where.

    A step goes to the tangent plane of the largest constraint, and a little further, to land
    inside.
    """
    constraints, domain = problem.constraints, problem.domain
    evaluation = constraint_evaluation(problem, constraints, repeats=WALK)
    centre = centre_of(domain).astype(points.dtype).ravel()
    ray = points.reshape(len(points), -1) - centre
    length = np.linalg.norm(ray, axis=1, keepdims=True)
    y = centre + ray * points.dtype.type(3 * float(domain.radius)) / np.where(length > 0, length, 1)
    for _ in range(WALK):
        at = y.reshape(-1, 1, *domain.shape)
        values = evaluation.values(at)[:, 0]
        largest = values.max(axis=1, keepdims=True)
        if not np.any(largest > 0):
            break
        slope = evaluation.rows(at, None, values.argmax(axis=1))[1]
        with np.errstate(all="ignore"):
            size = np.sum(slope**2, axis=1, keepdims=True)
            move = 1.001 * np.maximum(largest, 0) / np.where(size > 0, size, 1)
            y = (y - move * slope).astype(points.dtype)
    ends = y.reshape(-1, 1, *domain.shape)
    inside = Evaluation(programs_of(problem), _contains, None, domain).values(ends)[:, 0]
    return ~inside, evaluation.values(ends)[:, 0].max(axis=1) <= 0, ends[:, 0]


def _contains(_: None, domain: Domain, x: jax.Array, __: None) -> jax.Array:
    return domain.contains(x, 1e-6)


def entry(values: Array, i: Array) -> Array:
    """values[..., i] for an index of each row."""
    return np.take_along_axis(values, i[..., None], axis=-1)[..., 0]


def _length(vectors: Array) -> Array:
    return np.asarray(np.sqrt(np.sum(vectors**2, axis=-1)))
