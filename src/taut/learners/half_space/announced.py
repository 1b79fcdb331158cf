"""The step before a decision is played: it is moved into the half-spaces of constraints that are
announced.

Announced constraints of round t are known before x_t is played, for example ramp limits around
x_{t-1} or today's capacity. Every row is linearised once, at the decision that the learner has
prepared. The decision is projected on one half-space after the other and then on the domain,
several times if necessary. Half-spaces contain the announced set, so none of these steps leads away
from a decision that satisfies the announced constraints.

What is still exceeded after that (curved rows, rows that meet the domain at an angle) is removed by
moving back towards x_{t-1}, if that satisfies the announced constraints of the round: for convex
rows every violation then is exactly zero.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from ...problem.domains.arrays import finfo
from ...problem.round_data import RoundData
from ...problem.rounds import FullInformation
from ..base import first_round
from .cuts import Rows, sweep

__all__ = ["enforced", "moved_back", "rows_at"]

SWEEPS = 8
"""Number of sweeps over the announced rows at most."""


def enforced(x: jax.Array, round: FullInformation) -> jax.Array:
    """Return the decision to play instead of `x`, which satisfies the announced constraints of the
    round if that is possible."""
    values, rows = round.constraints(x).values, rows_at(x, round)

    def project(flat: jax.Array) -> jax.Array:
        return round.project(flat.reshape(x.shape)).reshape(-1)

    tolerance = jnp.zeros((), x.dtype)
    y, _, _ = sweep(project, x.reshape(-1), None, rows, first_round(), tolerance, SWEEPS)
    return moved_back(jnp.where(jnp.max(values) > 0, y.reshape(x.shape), x), round)


def rows_at(x: jax.Array, round: FullInformation) -> Rows:
    """Return the half-spaces of the announced constraints, linearised at x."""
    values, pull, _ = round.constraints(x)
    slopes = jax.vmap(lambda w: pull(w).reshape(-1))(jnp.eye(values.shape[0], dtype=values.dtype))
    length = jnp.sqrt(jnp.sum(jnp.square(slopes), axis=1))
    scale = jnp.where(length > 0, 1 / jnp.where(length > 0, length, 1), 0)
    normals = slopes * scale[:, None]
    return Rows(normals, jnp.sum(normals * x.reshape(-1)[None], axis=1) - values * scale)


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
