r"""The decision that is best for predicted data: minimise f(x) over the domain, kept cuts and
announced constraints.

A level method (Lemarechal, Nemirovskii & Nesterov, 1995). Linear models of f at the points so far
are rows; in each step the last point is moved into

    {x : f(x_j) + df(x_j).(x - x_j) <= level for all j}

and into the cuts, by the exact projection that learners use. Where that is impossible, the level is
a lower bound of f. Otherwise f is evaluated at the new point, which is a new row and perhaps the
best point so far. The level is half way between the lower bound and the best value, so the method
knows how accurate it is. It needs one value and one gradient of f per step, and f may have kinks.

Announced constraints may be curved. A point that exceeds one is not compared with the best point;
the half-space of the constraint that it exceeds most is the new row instead of the model of f.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from ..jaxpr.maxima import by_index
from ..learners.advised import Advised, AdvisedState
from ..learners.half_space.announced import rows_at
from ..learners.half_space.cuts import Rows
from ..learners.half_space.method import HalfSpace
from ..learners.half_space.projection import exact_projection
from ..problem.domains import Domain
from ..problem.domains.base import finfo
from ..problem.rounds import FullInformation

ACCURACY = 1e-6
"""The accuracy of the minimum, as a share of the range of the first linear model; in 32 bits it is
what rounding allows."""
MOST = 400
"""Steps at most."""
EXCEEDED = 0.1
"""The distance to the half-space of an announced constraint from which on it counts as exceeded, as
a share of accuracy times diameter. The result is moved into the announced constraints afterwards.
"""


class Minimum(NamedTuple):
    """The result of a minimisation."""

    point: jax.Array
    value: jax.Array
    lower: jax.Array
    """A lower bound of the minimum."""
    steps: jax.Array


class _Carry(NamedTuple):
    x: jax.Array
    best: jax.Array
    upper: jax.Array
    lower: jax.Array
    slopes: jax.Array
    """(M, d), zeros where there is no model."""
    constants: jax.Array
    """f(x_j) - df(x_j).x_j, (M,); for an announced constraint, minus its offset."""
    limits: jax.Array
    """Which models are half-spaces of announced constraints, (M,)."""
    used: jax.Array
    """The step in which each model last held with equality, (M,)."""
    steps: jax.Array


def best_for(
    loss: Callable[[jax.Array, Any], Any],
    data: Any,
    learner: Advised,
    state: AdvisedState,
    domain: Domain,
    announced: FullInformation | None,
) -> jax.Array:
    """Return the decision that is best for predicted data, NaN if their loss is not finite.

    Arguments:
        loss: the loss, of a decision and data.
        data: the prediction of the round's data, with the previous decision if the loss takes it.
        learner: the learner, whose kept cuts count.
        state: its state; the search begins at the last advice of the last adviser.
        domain: the domain.
        announced: the announced constraints of the round, or None.
    """
    shape, dtype = state.x.shape, state.x.dtype
    start, _ = learner.into(state.base, state.advice[-1], domain.project, announced)
    size = start.size
    rows = [Rows(jnp.zeros((1, size), dtype), jnp.zeros((1,), dtype))]
    if isinstance(learner.learner, HalfSpace):
        rows += [cuts for cuts in [learner.learner.kept(state.base)] if cuts is not None]
    if announced is not None:
        rows.append(rows_at(start, announced))

    def scalar(flat: jax.Array) -> jax.Array:
        return jnp.asarray(loss(flat.reshape(shape), data), dtype)

    def project(flat: jax.Array) -> jax.Array:
        return domain.project(flat.reshape(shape)).reshape(-1)

    def limits(flat: jax.Array) -> Rows:
        assert announced is not None
        return rows_at(flat.reshape(shape), announced)

    together = Rows(*(jnp.concatenate(parts) for parts in zip(*rows, strict=True)))
    least = minimised(
        jax.value_and_grad(by_index(scalar)),
        project,
        start.reshape(-1),
        together,
        jnp.asarray(domain.diameter, dtype),
        None if announced is None else limits,
    )
    return jnp.where(jnp.isfinite(least.value), least.point, jnp.nan).reshape(shape)


def minimised(
    value_and_gradient: Callable[[jax.Array], tuple[jax.Array, jax.Array]],
    project: Callable[[jax.Array], jax.Array],
    start: jax.Array,
    rows: Rows,
    diameter: jax.Array,
    limits: Callable[[jax.Array], Rows] | None = None,
) -> Minimum:
    """Return a minimiser of a convex function, and how far it may be from the minimum.

    Arguments:
        value_and_gradient: of the function, at flat points.
        project: the projection onto the domain, of flat points.
        start: a flat point that satisfies the rows, from which the search begins.
        rows: half-spaces, with unit normals or zeros.
        diameter: of the domain.
        limits: the half-spaces of further constraints at a point, which they may exceed elsewhere;
            None if there are none.
    """
    size, dtype = start.shape[0], start.dtype
    models = min(2 * size + 8, 64)
    rounding = jnp.sqrt(finfo(dtype).eps) * diameter
    value, slope = value_and_gradient(start)
    spread = jnp.sqrt(jnp.sum(slope * slope)) * diameter
    share = max(ACCURACY, 4 * float(finfo(dtype).eps) ** 0.5)
    tolerance = share * spread + 64 * finfo(dtype).eps * jnp.abs(value)
    count = rows.offsets.shape[0] + models
    ages = jnp.ones((count,), jnp.int32)
    places = lax.iota(jnp.int32, models)

    def exceeded_limit(point: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        """Whether a limit is exceeded at a point, and the half-space of the most exceeded one."""
        if limits is None:
            return jnp.zeros((), bool), jnp.zeros_like(point), jnp.zeros((), dtype)
        normals, offsets = limits(point)
        distances = jnp.sum(normals * point[None], axis=1) - offsets
        worst = distances >= jnp.max(distances)
        chosen = worst & (jnp.cumsum(worst) == 1)
        return (
            jnp.max(distances) > EXCEEDED * share * diameter,
            jnp.sum(jnp.where(chosen[:, None], normals, 0), axis=0),
            jnp.sum(jnp.where(chosen, offsets, 0)),
        )

    def moved(carry: _Carry) -> _Carry:
        level = (carry.lower + carry.upper) / 2
        length = jnp.sqrt(jnp.sum(carry.slopes * carry.slopes, axis=1))
        scale = jnp.where(length > 0, 1 / jnp.where(length > 0, length, 1), 0)
        normals = jnp.concatenate([rows.normals, carry.slopes * scale[:, None]])
        highest = jnp.where(carry.limits, 0, level)
        offsets = jnp.concatenate([rows.offsets, (highest - carry.constants) * scale])
        result = exact_projection(
            project, carry.x, normals, offsets, ages, jnp.asarray(1, jnp.int32), diameter
        )
        point = result.point
        excess = jnp.sum(normals * point[None], axis=1) - offsets
        empty = jnp.max(excess) > rounding
        value, slope = value_and_gradient(point)
        exceeded, normal, offset = exceeded_limit(point)
        used = jnp.where(result.multipliers[-models:] > 0, carry.steps, carry.used)
        place = (places == jnp.argmin(used)) & ~empty
        better = (value < carry.upper) & ~empty & ~exceeded
        slope = jnp.where(exceeded, normal, slope)
        constant = jnp.where(exceeded, -offset, value - jnp.sum(slope * point))
        return _Carry(
            x=jnp.where(empty, carry.x, point),
            best=jnp.where(better, point, carry.best),
            upper=jnp.where(better, value, carry.upper),
            lower=jnp.where(empty, level, carry.lower),
            slopes=jnp.where(place[:, None], slope[None], carry.slopes),
            constants=jnp.where(place, constant, carry.constants),
            limits=jnp.where(place, exceeded, carry.limits),
            used=jnp.where(place, carry.steps, used),
            steps=carry.steps + 1,
        )

    first = places == 0
    begun = _Carry(
        x=start,
        best=start,
        upper=value,
        lower=value - spread,
        slopes=jnp.where(first[:, None], slope[None], 0),
        constants=jnp.where(first, value - jnp.sum(slope * start), 0),
        limits=jnp.zeros((models,), bool),
        used=jnp.where(first, 0, -1),
        steps=jnp.zeros((), jnp.int32),
    )
    last = lax.while_loop(
        lambda c: (c.upper - c.lower > tolerance) & (c.steps < MOST), moved, begun
    )
    return Minimum(last.best, last.upper, last.lower, last.steps)
