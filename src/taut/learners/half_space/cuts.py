r"""Cuts: half-spaces that contain every comparator, kept from earlier rounds and projected on
again.

The linear model of a convex constraint, g_s(x_s) + dg_s(x_s).(u - x_s) <= 0, holds at every
decision u that is feasible in round s, for ever. A cut is stored with a unit normal a and an offset
o: a.u <= o. The rules for what is stored are part of the theorems; `docs/theory.md` names a
counterexample for each rule that was tried and dropped.

In all functions x and y are flat points, `project` is the projection of flat points onto the
domain, t is the round, `rows` are the cuts of this round if there are several, and a cut holds if
it is exceeded by no more than `tolerance`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from ...jaxpr.maxima import place_of_largest
from ...problem.domains.base import finfo
from . import lifetimes
from .lifetimes import Lifetimes
from .projection import exact_projection

PARALLEL = 2e-12
"""Two unit normals are parallel if |a - b|^2 = 2 (1 - cosine) is below this: cosine > 1 - 1e-12."""

LONG = 64
"""Numbers of a decision from which products with all normals are left to XLA's own product of a
matrix and a vector; sums are faster for fewer. Chosen by `python -m benchmarks.speed`."""


class Cuts(NamedTuple):
    """The kept cuts. An empty slot has a normal of zeros and holds everywhere."""

    normals: jax.Array
    """Unit vectors as rows, (memory, d)."""
    offsets: jax.Array
    """(memory,)."""
    active: jax.Array
    """The round in which each cut last moved a decision or was stored; 0 for an empty slot."""
    lifetimes: Lifetimes | None = None
    """How long each cut is projected on; `None` if cuts are kept for ever."""

    def alive(self, t: jax.Array) -> Cuts:
        """Return the cuts with huge offsets, which hold everywhere, for those that are not alive in
        round t."""
        if self.lifetimes is None:
            return self
        alive = lifetimes.alive(self.lifetimes, t)
        return self._replace(offsets=jnp.where(alive, self.offsets, _huge(self)))

    @property
    def ages(self) -> jax.Array:
        """The round in which each cut was last active, or confirmed if cuts have lifetimes."""
        return self.active if self.lifetimes is None else self.lifetimes.last

    @property
    def in_force(self) -> jax.Array:
        """A mask of the cuts that do not hold everywhere by their offset."""
        return self.offsets < _huge(self)


class Rows(NamedTuple):
    """The linear models of all constraints of one round."""

    normals: jax.Array
    """Unit vectors, (m, d); zeros where a gradient is zero."""
    offsets: jax.Array
    """(m,)."""


def no_cuts(memory: int, size: int, dtype: Any, life: int | None = None) -> Cuts:
    """Return a memory with empty slots, for cuts with lifetimes if `life` is given."""
    return Cuts(
        jnp.zeros((memory, size), dtype),
        jnp.zeros((memory,), dtype),
        jnp.zeros((memory,), jnp.int32),
        None if life is None else lifetimes.begin(memory),
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
    same = _parallel(cuts, normal)
    place = place_of_largest(jnp.where(same, 1, -cuts.active))
    before = _at(cuts.offsets, place)
    write = worth & (~_at(same, place) | (offset < before))
    return Cuts(
        _put(cuts.normals, place, jnp.where(write, normal, _at(cuts.normals, place))),
        _put(cuts.offsets, place, jnp.where(write, offset, before)),
        _put(cuts.active, place, jnp.where(worth, t, _at(cuts.active, place))),
    )


def remember_for_a_life(
    cuts: Cuts,
    normal: jax.Array,
    distance: jax.Array,
    worth: jax.Array,
    x: jax.Array,
    t: jax.Array,
    tolerance: jax.Array,
    life: int,
) -> Cuts:
    """Store, tighten or confirm the cut of a half-space with this normal (zeros if there is none)
    that x is `distance` outside of; `life` is that of a new cut.

    A cut takes the slot with the same normal, whether that is alive or not. Otherwise it takes, if
    it is `worth` it, a slot that has expired, or else the one that has been inactive longest.
    """
    lives = cuts.lifetimes
    assert lives is not None
    same = _parallel(cuts, normal) & (jnp.sum(normal * normal) > 0)
    expired = jnp.where(lifetimes.alive(lives, t), 0, lifetimes.LONGEST)
    place = place_of_largest(jnp.where(same, 2 * lifetimes.LONGEST - 1, expired - cuts.active))
    slot = lax.iota(jnp.int32, same.shape[0]) == place
    stored = _at(cuts.normals, place)
    position = jnp.sum(stored * x) - _at(cuts.offsets, place)
    seen = lifetimes.Revealed(slot, same, worth, distance, position)
    lives, write = lifetimes.updated(lives, seen, t, tolerance, life)
    return Cuts(
        _put(cuts.normals, place, jnp.where(_at(write, place), normal, stored)),
        jnp.where(write, jnp.sum(normal * x) - distance, cuts.offsets),
        jnp.where(slot & worth, t, cuts.active),
        lives,
    )


def confirm(
    cuts: Cuts, rows: Callable[[], Rows], x: jax.Array, t: jax.Array, tolerance: jax.Array
) -> Cuts:
    """Confirm cuts by all rows of this round, if a cut needs it; `rows` computes them."""
    lives = cuts.lifetimes
    assert lives is not None

    def by_rows() -> Lifetimes:
        normals, offsets = rows()
        apart = normals[:, None] - cuts.normals[None]
        same = jnp.sum(jnp.square(apart), axis=2) < PARALLEL
        distances = jnp.sum(normals * x[None], axis=1) - offsets + tolerance
        return lifetimes.confirmed(lives, same, distances, _excess(cuts, x), t)

    needed = jnp.any(lifetimes.in_need(lives, t))
    return cuts._replace(lifetimes=lax.cond(needed, by_rows, lambda: lives))


def sweep(
    project: Callable[[jax.Array], jax.Array],
    y: jax.Array,
    cuts: Cuts | None,
    rows: Rows | None,
    t: jax.Array,
    tolerance: jax.Array,
    most: int,
) -> tuple[jax.Array, Cuts | None, jax.Array]:
    """Project a point of the domain on one cut after the other and then on the domain, `most` times
    at most; return y, the cuts, and whether a cut is still exceeded.
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


def exactly(
    left: jax.Array,
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
    """If a cut is `left` that y exceeds, project exactly on the cuts that the others do not
    contradict; return y, the cuts, and whether all of them hold and none expired.

    `ages` are those of the kept cuts before this round; that of a cut of this round is t. `first`
    is a mask of the row that is projected on first, if the order matters.
    """
    count = 0 if cuts is None else cuts.offsets.shape[0]

    def ended() -> tuple[jax.Array, ...]:  # normals are left out, which would be copied
        parts = [] if cuts is None or ages is None else [(cuts.normals, cuts.offsets, ages)]
        if rows is not None:
            parts.append((rows.normals, rows.offsets, jnp.full(rows.offsets.shape, t)))
        normals, offsets, rounds = (jnp.concatenate(each) for each in zip(*parts, strict=True))
        mask = first
        if first is not None:
            mask = jnp.concatenate([jnp.zeros(normals.shape[0] - first.shape[0], bool), first])
        result = exact_projection(project, y, normals, offsets, rounds, t, diameter, mask)
        moved, expired = result.multipliers[:count] > 0, result.expired[:count]
        holds = ~exceeded(result.point, cuts, rows, tolerance) & ~jnp.any(expired)
        return result.point, moved, expired, holds

    none = jnp.zeros((count,), bool)
    point, moved, expired, holds = lax.cond(
        left, ended, lambda: (y, none, none, jnp.ones((), bool))
    )
    if cuts is None:
        return point, None, holds
    active = jnp.where(moved, t, cuts.active)
    if cuts.lifetimes is not None:
        lives = lifetimes.contradicted(cuts.lifetimes, expired)
        return point, cuts._replace(active=active, lifetimes=lives), holds
    # Cuts that expired hold everywhere.
    offsets = jnp.where(expired, _huge(cuts), cuts.offsets)
    active = jnp.where(expired, 0, active)
    return point, cuts._replace(offsets=offsets, active=active), holds


def _huge(cuts: Cuts) -> float:
    """An offset of a cut that holds everywhere; finite, because 0 times infinity is no number."""
    return float(finfo(cuts.offsets.dtype).max) / 4


def exceeded(
    y: jax.Array, cuts: Cuts | None, rows: Rows | None, tolerance: jax.Array | float = 0.0
) -> jax.Array:
    """Whether a cut or a row is exceeded by more than the tolerance and rounding."""
    most = tolerance + 8 * finfo(y.dtype).eps * jnp.max(jnp.abs(y))
    over = jnp.zeros((), bool)
    if cuts is not None:
        # Counted: a reduction of whole numbers takes vector instructions, and one of truths none.
        over |= jnp.sum(_excess(cuts, y) > most, dtype=jnp.int32) > 0
    if rows is not None:
        over |= jnp.any(jnp.sum(rows.normals * y[None], axis=1) - rows.offsets > most)
    return over


def _at(values: jax.Array, place: jax.Array) -> jax.Array:
    """Return the entry of one cut."""
    return lax.dynamic_index_in_dim(values, place, 0, keepdims=False)


def _put(values: jax.Array, place: jax.Array, value: jax.Array) -> jax.Array:
    """Return the values with another entry of one cut. Only this entry is touched."""
    return lax.dynamic_update_index_in_dim(values, value, place, 0)


def _parallel(cuts: Cuts, normal: jax.Array) -> jax.Array:
    """A mask of the cuts with this normal."""
    if normal.shape[0] < LONG or normal.dtype != jnp.float64:
        return jnp.sum(jnp.square(cuts.normals - normal[None]), axis=1) < PARALLEL
    # Cosines need one product, but tell parallel normals apart from others in 64 bits only.
    nearest = place_of_largest(_products(cuts, normal))
    apart = _at(cuts.normals, nearest) - normal
    place = lax.iota(jnp.int32, cuts.offsets.shape[0])
    return (place == nearest) & (jnp.sum(jnp.square(apart)) < PARALLEL)


def _excess(cuts: Cuts, y: jax.Array) -> jax.Array:
    return _products(cuts, y) - cuts.offsets


def _products(cuts: Cuts, y: jax.Array) -> jax.Array:
    """The inner products of all normals with a vector."""
    if y.shape[0] < LONG:
        return jnp.sum(cuts.normals * y[None], axis=1)
    return cuts.normals @ y


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
        y = y - _at(excess, j) * _at(cuts.normals, j)
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
