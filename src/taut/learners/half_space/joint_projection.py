r"""Projection onto a domain and a half-space together, from the domain's own projection.

The nearest point to y in X and {u : a.u <= o} is P_X(y - lambda a) for the smallest lambda >= 0 at
which it lies in the half-space (the optimality conditions, if the interior of the half-space meets
X). The function

    f(lambda) = a.P_X(y - lambda a) - o

does not increase, and with |a| = 1 its slope is at least -1, because a projection does not expand.
So lambda + f(lambda) never passes the root from below, which gives the first bracket. The rest is
the Illinois method: a secant step, in which the end of the bracket that stays is halved. On boxes,
simplices and l1 balls f is piecewise linear and the secant is exact on the last piece; on balls f
is smooth.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from ...problem.domains.base import finfo
from .projection import Project

STEPS = 60
"""Most evaluations of the domain's projection. A box in ten dimensions takes about ten."""


class _Bracket(NamedTuple):
    low: jax.Array
    """A multiplier at which the point is outside the half-space."""
    high: jax.Array
    """A multiplier at which it is inside, once `found`."""
    above: jax.Array
    """f(low), perhaps halved."""
    below: jax.Array
    """f(high), perhaps halved."""
    point: jax.Array
    """P_X(y - high a)."""
    found: jax.Array
    last: jax.Array
    """Whether the last trial was inside, so that `high` moved."""
    done: jax.Array
    steps: jax.Array


def project_jointly(
    project: Project,
    y: jax.Array,
    normal: jax.Array,
    excess: Callable[[jax.Array], jax.Array],
) -> jax.Array:
    """Return the point of X and of a half-space that is nearest to y, up to rounding.

    Arguments:
        project: the projection onto X.
        y: any point, not necessarily in X.
        normal: the unit normal a of the half-space, in the shape of y; zeros mean no half-space.
        excess: a.u - o for a point u; exact where the caller can avoid cancellation.
    """
    start = project(y)
    outside = excess(start)
    # What rounding makes of a.u - o for points of this size.
    slack = 4 * finfo(y.dtype).eps * (jnp.sum(jnp.abs(normal * start)) + jnp.abs(outside))

    def far(bracket: _Bracket) -> Any:
        return ~bracket.done & (bracket.steps < STEPS)

    def body(b: _Bracket) -> _Bracket:
        secant = b.low + (b.high - b.low) * (b.above / jnp.where(b.found, b.above - b.below, 1))
        middle = (b.low + b.high) / 2
        trial = jnp.where(
            b.found, jnp.where((secant > b.low) & (secant < b.high), secant, middle), b.high
        )
        point = project(y - trial * normal)
        value = excess(point)
        inside = value <= slack
        # Until a point inside is found the step grows; lambda + f(lambda) never passes the root.
        grown = jnp.where(b.found, b.high, trial + jnp.maximum(value, trial))
        # The same end moves twice: halve the value at the other.
        again = b.found & (b.last == inside)
        return _Bracket(
            low=jnp.where(inside, b.low, trial),
            high=jnp.where(inside, trial, grown),
            above=jnp.where(inside, jnp.where(again, b.above / 2, b.above), value),
            below=jnp.where(inside, value, jnp.where(again, b.below / 2, b.below)),
            point=jnp.where(inside, point, b.point),
            found=b.found | inside,
            last=inside,
            done=(jnp.abs(value) <= slack) | (b.found & ((trial <= b.low) | (trial >= b.high))),
            steps=b.steps + 1,
        )

    zero = jnp.zeros_like(outside)
    no = outside <= slack
    never, none = jnp.zeros_like(no), jnp.zeros((), jnp.int32)
    first = _Bracket(zero, outside, outside, zero, start, never, never, no, none)
    last = lax.while_loop(far, body, first)
    # Without any point inside (the half-space misses X) the last trial is as near to it as X comes.
    return jnp.where(last.found | no, last.point, project(y - last.high * normal))
