"""The step before a decision is played: it is moved into the constraints that are announced.

Announced constraints of round t are known before x_t is played, for example ramp limits around
x_{t-1} or today's capacity. Every row is linearised at the decision that the learner has prepared,
and the decision is projected exactly on the domain and these half-spaces (`half_space.projection`).
Half-spaces contain the announced set, so the step does not lead away from a decision that satisfies
the announced constraints. If a curved row is still exceeded there, all rows are linearised again at
the new decision, and the first decision is projected on the half-spaces of the last few times.

What is still exceeded after that is removed by moving back towards x_{t-1}, if that satisfies the
announced constraints of the round: for convex rows every violation then is exactly zero.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from ...problem.domains.base import finfo
from ...problem.rounds import FullInformation
from ...problem.streams import RoundData
from ..base import first_round
from .cuts import LinearModels, Rows
from .projection import exact_projection, of_flat_points

TIMES = 40
"""How often rows are linearised, at most."""
KEPT = 3
"""How many linearisations are kept."""
ROUNDING = 16
"""Units of rounding by which half-spaces are made smaller, relative to the diameter, so that no row
is exceeded. More would make a set empty that has a single point."""


class _Carry(NamedTuple):
    """What is known after some linearisations."""

    x: jax.Array
    normals: jax.Array
    """Of the last linearisations, (KEPT, m, d)."""
    offsets: jax.Array
    """(KEPT, m)."""
    excess: jax.Array
    """The largest distance by which a half-space at x is exceeded."""
    times: jax.Array


def enforced(x: jax.Array, round: FullInformation) -> jax.Array:
    """Return the decision to play instead of `x`, which satisfies the announced constraints of the
    round if that is possible."""
    start, diameter = x.reshape(-1), jnp.asarray(round.domain.diameter, x.dtype)
    rounding = ROUNDING * finfo(x.dtype).eps
    project = of_flat_points(round.project, x.shape)

    def further(carry: _Carry) -> _Carry:
        normals, offsets = carry.normals.reshape(-1, start.size), carry.offsets.reshape(-1)
        t = first_round()
        ages = jnp.full(offsets.shape, t)
        projected = exact_projection(project, start, normals, offsets, ages, t, diameter)
        y = projected.point.reshape(x.shape)
        rows, excess = _rows(y, round, rounding * diameter)
        slot = (jnp.arange(KEPT) == carry.times % KEPT)[:, None]
        return _Carry(
            y,
            jnp.where(slot[..., None], rows.normals[None], carry.normals),
            jnp.where(slot, rows.offsets[None], carry.offsets),
            excess,
            carry.times + 1,
        )

    rows, excess = _rows(x, round, rounding * diameter)
    begun = _Carry(
        x,
        jnp.broadcast_to(rows.normals[None], (KEPT, *rows.normals.shape)),
        jnp.broadcast_to(rows.offsets[None], (KEPT, *rows.offsets.shape)),
        excess,
        jnp.ones((), jnp.int32),
    )
    last = lax.while_loop(lambda c: (c.excess > 0) & (c.times <= TIMES), further, begun)
    return moved_back(last.x, round)


def _rows(x: jax.Array, round: FullInformation, room: jax.Array) -> tuple[Rows, jax.Array]:
    """Return the half-spaces of all rows at x, smaller by a little room, and the largest distance
    by which a row is exceeded at x."""
    rows = rows_at(x, round)
    distances = jnp.sum(rows.normals * x.reshape(-1)[None], axis=1) - rows.offsets
    known = jnp.any(rows.normals != 0, axis=1)
    return rows._replace(offsets=rows.offsets - jnp.where(known, room, 0)), jnp.max(distances)


def relative_violation(x: jax.Array, round: FullInformation) -> jax.Array:
    """Return the largest violation at x, relative to the values that linear rows with these
    gradients have on the domain."""
    constraints = round.constraints(x)
    values, slopes = constraints.values, constraints.jacobian()
    reach = jnp.max(jnp.abs(x)) + jnp.asarray(round.domain.diameter, x.dtype)
    size = jnp.sqrt(jnp.sum(jnp.square(slopes), axis=1)) * reach
    return jnp.max(jnp.where(values > 0, values, 0) / jnp.where(size > 0, size, 1))


def rows_at(x: jax.Array, round: FullInformation) -> Rows:
    """Return the half-spaces of the announced constraints, linearised at x."""
    constraints = round.constraints(x)
    return LinearModels.of(x, constraints.values, constraints.jacobian()).rows


def moved_back(y: jax.Array, round: FullInformation) -> jax.Array:
    """Return a decision between the previous one and y that satisfies the constraints, if the
    previous one does; y if the problem does not depend on the previous decision.

    Rows are convex, so g(previous + s (y - previous)) <= (1 - s) g(previous) + s g(y). The share s
    is made smaller by a few units in the last place, so that rounding does not exceed a row.
    """
    if not isinstance(round.data, RoundData):
        return y
    stated, previous = round.stated, round.data.previous
    there, here = stated.values(previous, round.data), stated.values(y, round.data)
    exceeded = here > 0
    room = jnp.where(exceeded, here - there, 1)
    share = jnp.min(
        jnp.where(exceeded, jnp.where(room > 0, -there / jnp.where(room > 0, room, 1), 0), 1)
    )
    share = jnp.clip(share * (1 - 2**12 * finfo(y.dtype).eps), 0, 1)
    between = previous + share * (y - previous)
    between = jnp.where(jnp.max(stated.values(between, round.data)) <= 0, between, previous)
    return jnp.where((jnp.max(here) > 0) & (jnp.max(there) <= 0), between, y)
