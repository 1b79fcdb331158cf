"""Probes: values, slopes and first-order gaps of losses and constraints at many decisions and
rounds, in one pass each.

Few decisions are probed, so small problems are evaluated in NumPy rather than compiled
(`taut.problem.jets`).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ..engine import Array
from ..problem.constraints import Constraints, active_rows
from ..problem.domains import Domain
from ..problem.domains.support import centre_of
from ..problem.interpreter import evaluated, owned_by
from ..problem.jets import Jets, constraint_jets, loss_jets
from ..problem.problem import Problem
from ..problem.programs import programs_of
from ..problem.rounds import FullInformation

__all__ = [
    "Linear",
    "entry",
    "largest_values",
    "linear_in_jax",
    "linear_in_numpy",
    "losses_at",
    "probe",
    "values_at",
    "walk_back",
]

WALK = 200
"""Steps of a walk from outside the domain to the feasible set."""


class Linear(NamedTuple):
    """Loss and constraints at a decision with their gradients, decisions as flat vectors; leading
    axes are batches."""

    loss: Any
    slope: Any
    """(entry,)"""
    values: Any
    """(constraint,)"""
    rows: Any
    """(constraint, entry)"""


def linear_in_numpy(problem: Problem, x: Array, z: Any) -> Linear | None:
    """Return losses and constraints at (point, round) in NumPy, or None if that takes long.

    Arguments:
        problem: whose programs own what is traced.
        x: decisions, (point, round or 1, *shape).
        z: the data, arrays (point or 1, round, ...).
    """
    one = jax.tree.map(lambda a: np.asarray(a)[0, 0], z)
    loss = loss_jets(problem.loss, x[0, 0], one)
    given = z if problem.constraints.takes_data else None
    excess = constraint_jets(problem.constraints, x[0, 0], None if given is None else one)
    points, rounds = np.broadcast_shapes(
        x.shape[:2], *(np.shape(a)[:2] for a in jax.tree.leaves(z))
    )
    if loss is None or excess is None:
        return None
    if not (
        loss.cheap(points, rounds, 1)
        and excess.cheap(points, x.shape[1] if given is None else rounds, 1)
    ):
        return None
    return Linear(*loss.slopes(x, (), z), *excess.slopes(x, problem.constraints, given))


def linear_in_jax(round: FullInformation, x: jax.Array) -> Linear:
    """Return the same for one decision and one round inside a function that is compiled."""
    values, pull, _ = round.constraints(x)
    rows = jax.vmap(lambda w: pull(w).ravel())(jnp.eye(values.shape[0], dtype=x.dtype))
    return Linear(round.loss(x), round.gradient(x).ravel(), values, rows)


def probe(problem: Problem, points: Array, order: Array, data: Any) -> dict[str, Array]:
    """Values, slopes and first-order gaps at (round, point), all in one pass.

    Each point is paired with another one, `points[order]`: gaps are those between the two.
    """
    with owned_by(programs_of(problem)):
        here = linear_in_numpy(
            problem, points[:, None], jax.tree.map(lambda a: np.asarray(a)[None], data)
        )
        if here is None:
            compiled = _probed(
                problem.loss, problem.constraints, problem.domain, points, points[order], data
            )
            return {name: np.asarray(value) for name, value in compiled.items()}
    flat = points.reshape(len(points), 1, -1)
    there = Linear(*(part[order] for part in here))
    with np.errstate(all="ignore"):
        found = _gaps(np, flat, flat[order], here, there)
    lead = here.loss.shape
    own = {name: value.shape[2:] for name, value in found.items()}
    return {
        name: np.swapaxes(np.broadcast_to(value, lead + own[name]), 0, 1)
        for name, value in found.items()
    }


def largest_values(problem: Problem, points: Array) -> Array:
    """The largest constraint value at each point, of constraints that do not change."""
    return np.asarray(_values(problem, problem.constraints, points).max(axis=1))


def values_at(problem: Problem, constraints: Constraints, points: Array) -> Array:
    """All values of constraints that do not change, (point, constraint)."""
    return _values(problem, constraints, points).astype(float)


def _values(problem: Problem, constraints: Constraints, points: Array) -> Array:
    points = np.asarray(points)
    with owned_by(programs_of(problem)):
        jets = constraint_jets(constraints, points[0], None)
        if jets is not None and jets.cheap(len(points), 1):
            return jets.values(points[:, None], constraints, None)[:, 0]
        return np.asarray(_values_at(constraints, points))


def losses_at(problem: Problem, points: Array, data: Any) -> Array:
    """The loss of one round at each point: the i-th point with the i-th row of the data."""
    rows = jax.tree.map(lambda a: np.asarray(a)[:, None], data)
    with owned_by(programs_of(problem)):
        jets = loss_jets(problem.loss, points[0], jax.tree.map(lambda a: a[0, 0], rows))
        if jets is not None and jets.cheap(len(points), 1):
            return jets.values(points[:, None], (), rows)[:, 0].astype(float)
        return np.asarray(_losses_at(problem.loss, points, data), float)


def walk_back(problem: Problem, points: Array) -> tuple[Array, Array, Array]:
    """Whether each walk from far outside to g <= 0 ends outside the domain, whether it ends
    feasible, and where."""
    constraints, domain = problem.stated_constraints, problem.domain
    with owned_by(programs_of(problem)):
        jets = constraint_jets(constraints, points[0], None)
        if jets is not None and jets.cheap(len(points), 1, 1):
            ends, feasible = _walked_in_numpy(jets, constraints, domain, points)
            return ~np.asarray(_contained(domain, ends)), feasible, ends
        outside, in_set, where = _walked_back(constraints, domain, points)
    return np.asarray(outside), np.asarray(in_set), np.asarray(where)


def _walked_in_numpy(
    jets: Jets, constraints: Constraints, domain: Domain, points: Array
) -> tuple[Array, Array]:
    centre = centre_of(domain).astype(points.dtype).ravel()
    ray = points.reshape(len(points), -1) - centre
    length = np.linalg.norm(ray, axis=1, keepdims=True)
    y = centre + ray * points.dtype.type(3 * float(domain.radius)) / np.where(length > 0, length, 1)
    for _ in range(WALK):
        values, rows = jets.slopes(y.reshape(-1, 1, *domain.shape), constraints, None)
        values, rows = values[:, 0], rows[:, 0]
        largest = values.max(axis=1, keepdims=True)
        if not np.any(largest > 0):
            break
        active = values == largest
        with np.errstate(all="ignore"):
            slope = np.einsum("pm,pmd->pd", active / active.sum(axis=1, keepdims=True), rows)
            size = np.sum(slope**2, axis=1, keepdims=True)
            y = (y - 1.001 * np.maximum(largest, 0) / np.where(size > 0, size, 1) * slope).astype(
                points.dtype
            )
    ends = y.reshape(points.shape)
    return ends, jets.values(ends[:, None], constraints, None)[:, 0].max(axis=1) <= 0


def entry(values: Any, i: Any, xp: Any = jnp) -> Any:
    """values[..., i] for a traced `i`, in operations that NumPy has."""
    return xp.sum(xp.where(xp.arange(values.shape[-1]) == i[..., None], values, 0), axis=-1)


@evaluated(static_argnames=("loss_function",))
def _losses_at(loss_function: Any, points: Any, data: Any) -> jax.Array:
    return jax.vmap(lambda x, z: jnp.asarray(loss_function(x, z), x.dtype))(points, data)


@evaluated
def _values_at(constraints: Constraints, points: Any) -> jax.Array:
    return jax.vmap(lambda x: constraints.values(x, None))(points)


@evaluated(static_argnames=("loss_function",))
def _probed(
    loss_function: Any,
    constraints: Constraints,
    domain: Domain,
    points: Any,
    partner: Any,
    data: Any,
) -> dict[str, jax.Array]:
    def at(x: jax.Array, y: jax.Array, z: Any) -> dict[str, jax.Array]:
        round = FullInformation(loss_function, constraints, domain, z)
        return _gaps(jnp, x.ravel(), y.ravel(), linear_in_jax(round, x), linear_in_jax(round, y))

    sweep = jax.vmap(jax.vmap(at, in_axes=(0, 0, None)), in_axes=(None, None, 0))
    return sweep(points, partner, data)


def _gaps(xp: Any, x: Any, y: Any, here: Linear, there: Linear) -> dict[str, Any]:
    """What is probed at pairs of decisions, flat vectors, in JAX or in NumPy with leading axes."""
    step = y - x
    along, rise = (
        xp.sum(here.slope * step, axis=-1),
        xp.sum(here.rows * step[..., None, :], axis=-1),
    )
    # f(y) - f(x) - <f'(x), y - x>: never negative for a convex function.
    excess_gap = there.values - here.values - rise
    worst = xp.argmin(excess_gap, axis=-1)
    slopes, far = xp.sqrt(xp.sum(here.rows**2, axis=-1)), _length(xp, x) + _length(xp, y)
    scale = xp.abs(here.values) + xp.abs(there.values) + xp.abs(rise) + slopes * far[..., None]
    steep = _length(xp, here.slope)
    return {
        "loss": here.loss,
        "loss_slope": steep,
        "loss_gap": there.loss - here.loss - along,
        "loss_scale": xp.abs(here.loss) + xp.abs(there.loss) + xp.abs(along) + steep * far,
        "excess": here.values,
        "excess_slope": xp.max(slopes, axis=-1),
        "excess_reach": xp.max(xp.abs(here.values), axis=-1),
        "excess_gap": entry(excess_gap, worst, xp),
        "excess_scale": entry(scale, worst, xp),
        "excess_bend": xp.max(xp.sqrt(xp.sum((here.rows - there.rows) ** 2, axis=-1)), axis=-1),
        "length": _length(xp, step),
    }


def _length(xp: Any, vector: Any) -> Any:
    return xp.sqrt(xp.sum(vector**2, axis=-1))


@evaluated
def _contained(domain: Domain, points: Any) -> jax.Array:
    return jax.vmap(lambda x: domain.contains(x, 1e-6))(points)


@evaluated
def _walked_back(
    constraints: Constraints, domain: Domain, points: Any
) -> tuple[jax.Array, jax.Array, jax.Array]:
    centre = domain.centre
    far = 3 * jnp.asarray(domain.radius, points.dtype)

    def walk(x: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        ray = x - centre
        length = jnp.sqrt(jnp.sum(ray**2))
        start = centre + ray * far / jnp.where(length > 0, length, 1)

        def step(_: int, y: jax.Array) -> jax.Array:
            values, pull, _push = constraints.linearise(y, None)
            largest = jnp.max(values)
            slope = pull(active_rows(values, largest))
            size = jnp.sum(slope**2)
            # A little further than the tangent plane, to land inside.
            move = 1.001 * (jnp.maximum(largest, 0)) / jnp.where(size > 0, size, 1)
            return y - move * slope

        end = jax.lax.fori_loop(0, WALK, step, start)
        return ~domain.contains(end, 1e-6), jnp.max(constraints.values(end, None)) <= 0, end

    return jax.vmap(walk)(points)
