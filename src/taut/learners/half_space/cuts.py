r"""Cuts: half-spaces that contain every comparator, kept from earlier rounds and projected on
again.

The linear model of a convex constraint, g_s(x_s) + dg_s(x_s).(u - x_s) <= 0, holds at every
decision u that is feasible in round s, for ever. A cut is stored with a unit normal a and an offset
o: a.u <= o. The rules for what is stored are part of the theorems; `docs/theory.md` names a
counterexample for each rule that was tried and dropped.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from ...jaxpr.maxima import place_of_largest
from ...problem.domains.arrays import finfo
from .projection import exact_projection

__all__ = ["Cuts", "Rows", "exceeded", "finished", "first_largest", "no_cuts", "remember", "sweep"]

PARALLEL = 2e-12
"""Two unit normals are parallel if |a - b|^2 = 2 (1 - cosine) is below this: cosine > 1 - 1e-12."""


class Cuts(NamedTuple):
    """The kept cuts. An empty slot has a normal of zeros and holds everywhere."""

    normals: jax.Array
    """Unit vectors as columns, (d, memory): sums over d then fill vector registers with cuts."""
    offsets: jax.Array
    """(memory,)."""
    active: jax.Array
    """The round in which each cut last moved a decision or was stored; 0 for an empty slot."""


class Rows(NamedTuple):
    """The linear models of all constraints of one round."""

    normals: jax.Array
    """Unit vectors, (m, d); zeros where a gradient is zero."""
    offsets: jax.Array
    """(m,)."""


def no_cuts(memory: int, size: int, dtype: Any) -> Cuts:
    """Return a memory with empty slots."""
    return Cuts(
        jnp.zeros((size, memory), dtype),
        jnp.zeros((memory,), dtype),
        jnp.zeros((memory,), jnp.int32),
    )


def first_largest(values: jax.Array) -> jax.Array:
    """Return a mask of the first largest entry."""
    return lax.iota(jnp.int32, values.shape[0]) == place_of_largest(values)


def remember(
    cuts: Cuts, normal: jax.Array, offset: jax.Array, worth: jax.Array, t: jax.Array
) -> Cuts:
    """Store a cut if it is `worth` it.

    A kept cut with the same normal shares its slot with it, and the tighter of the two stays.
    Otherwise the new cut takes the slot that has been inactive longest.
    """
    same = jnp.sum(jnp.square(cuts.normals - normal[:, None]), axis=0) < PARALLEL
    slot = first_largest(jnp.where(same, 1, -cuts.active)) & worth
    write = slot & (~same | (offset < cuts.offsets))
    return Cuts(
        jnp.where(write[None], normal[:, None], cuts.normals),
        jnp.where(write, offset, cuts.offsets),
        jnp.where(slot, t, cuts.active),
    )


def sweep(
    project: Callable[[jax.Array], jax.Array],
    y: jax.Array,
    cuts: Cuts | None,
    rows: Rows | None,
    t: jax.Array,
    tolerance: jax.Array,
    most: int,
) -> tuple[jax.Array, Cuts | None, jax.Array]:
    """Project on one cut after the other and then on the domain; return y, the cuts, and whether a
    cut is still exceeded.

    Arguments:
        project: the projection onto the domain, of flat points.
        y: a flat point of the domain.
        cuts: the kept cuts.
        rows: this round's cuts, if there are several.
        t: the round.
        tolerance: after the first sweep, a cut holds if it is exceeded by no more than this.
        most: number of sweeps at most.
    """

    def each(y: jax.Array) -> jax.Array | None:
        return None if cuts is None else _excess(cuts, y)

    def once(carry: tuple[Any, ...]) -> tuple[Any, ...]:
        swept, y, active, excess, _ = carry
        if rows is not None:
            y = _over_rows(rows, y)
            excess = each(y)
        if cuts is not None:
            y, active = _over_cuts(cuts, y, excess, active, t)
        y = project(y)
        return swept + 1, y, active, each(y), exceeded(y, cuts, rows, tolerance)

    active = None if cuts is None else cuts.active
    start = (jnp.zeros((), jnp.int32), y, active, each(y), exceeded(y, cuts, rows))
    _, y, active, _, left = lax.while_loop(lambda carry: (carry[0] < most) & carry[4], once, start)
    return y, None if cuts is None or active is None else cuts._replace(active=active), left


def finished(
    project: Callable[[jax.Array], jax.Array],
    y: jax.Array,
    cuts: Cuts | None,
    rows: Rows | None,
    t: jax.Array,
    tolerance: jax.Array,
    diameter: jax.Array,
    ages: jax.Array | None,
    first: jax.Array | None = None,
) -> tuple[jax.Array, Cuts | None, jax.Array]:
    """Project exactly; return the point, the cuts without those that the others contradict, and
    whether all cuts hold.

    Arguments:
        project: the projection onto the domain, of flat points.
        y: a flat point.
        cuts: the kept cuts.
        rows: this round's cuts.
        t: the round.
        tolerance: a cut holds if it is exceeded by no more than this.
        diameter: of the domain.
        ages: the round in which each kept cut was active before this one; that of a cut of this
            round is `t`.
        first: a mask of the row that is projected on first, if the order matters.
    """
    parts = [] if cuts is None or ages is None else [(cuts.normals.T, cuts.offsets, ages)]
    if rows is not None:
        parts.append((rows.normals, rows.offsets, jnp.full(rows.offsets.shape, t)))
    normals, offsets, rounds = (jnp.concatenate(each) for each in zip(*parts, strict=True))
    if first is not None:
        first = jnp.concatenate([jnp.zeros(normals.shape[0] - first.shape[0], bool), first])
    result = exact_projection(project, y, normals, offsets, rounds, t, diameter, first)
    point = result.point
    hold = ~exceeded(point, cuts, rows, tolerance)
    if cuts is None:
        return point, None, hold
    count = cuts.offsets.shape[0]
    moved, expired = result.multipliers[:count] > 0, result.expired[:count]
    active = jnp.where(expired, 0, jnp.where(moved, t, cuts.active))
    kept = Cuts(
        jnp.where(expired[None], 0, cuts.normals), jnp.where(expired, 0, cuts.offsets), active
    )
    return point, kept, hold & ~jnp.any(expired)


def exceeded(
    y: jax.Array, cuts: Cuts | None, rows: Rows | None, tolerance: jax.Array | float = 0.0
) -> jax.Array:
    """Whether a cut or a row is exceeded by more than the tolerance and rounding."""
    worst = []
    if cuts is not None:
        worst.append(jnp.max(_excess(cuts, y)))
    if rows is not None:
        worst.append(jnp.max(jnp.sum(rows.normals * y[None], axis=1) - rows.offsets))
    largest = worst[0] if len(worst) == 1 else jnp.maximum(*worst)
    return largest > tolerance + 8 * finfo(y.dtype).eps * jnp.max(jnp.abs(y))


def _excess(cuts: Cuts, y: jax.Array) -> jax.Array:
    return jnp.sum(cuts.normals * y[:, None], axis=0) - cuts.offsets


def _over_cuts(
    cuts: Cuts, y: jax.Array, excess: Any, active: jax.Array, t: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Project on every kept cut in turn. Only those that y exceeds cost anything."""
    places = lax.iota(jnp.int32, cuts.offsets.shape[0])

    def following(excess: jax.Array, first: jax.Array | int) -> jax.Array:
        """The next cut that is exceeded, from `first` on; the number of cuts if there is none."""
        return jnp.min(jnp.where((excess > 0) & (places >= first), places, places.shape[0]))

    def onto(carry: tuple[Any, ...]) -> tuple[Any, ...]:
        y, excess, active, j = carry
        normal = lax.dynamic_index_in_dim(cuts.normals, j, 1, keepdims=False)
        y = y - lax.dynamic_index_in_dim(excess, j, 0, keepdims=False) * normal
        excess = _excess(cuts, y)
        return y, excess, jnp.where(places == j, t, active), following(excess, j + 1)

    start = (y, excess, active, following(excess, 0))
    y, _, active, _ = lax.while_loop(lambda carry: carry[3] < places.shape[0], onto, start)
    return y, active


def _over_rows(rows: Rows, y: jax.Array) -> jax.Array:
    """Project on every row in turn."""

    def onto(j: jax.Array, y: jax.Array) -> jax.Array:
        excess = jnp.sum(rows.normals[j] * y) - rows.offsets[j]
        return y - jnp.maximum(excess, 0) * rows.normals[j]

    return lax.fori_loop(0, rows.offsets.shape[0], onto, y)
