r"""Cuts: half-spaces that contain every comparator, kept from earlier rounds and projected on
again.

The linear model of a convex constraint, g_s(x_s) + dg_s(x_s).(u - x_s) <= 0, holds at every
decision u that is feasible in round s, for ever. A cut is stored with a unit normal a and an offset
o: a.u <= o. The rules for what is stored are part of the theorems; `docs/theory.md` names a
counterexample for each rule that was tried and dropped.

In all functions x and y are flat points, `project` is the projection of flat points onto the
domain, t is the round, `rows` are the half-spaces of this round if it projects on several, and a
cut holds if it is exceeded by no more than `tolerance`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from ...jaxpr.maxima import first_largest, place_of_largest
from ...problem.domains.base import finfo
from . import lifetimes
from .lifetimes import Lifetimes
from .projection import Project, exact_projection

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
    def in_force(self) -> jax.Array:
        """A mask of the cuts that do not hold everywhere by their offset."""
        return self.offsets < _huge(self)


class Rows(NamedTuple):
    """The linear models of all constraints of one round."""

    normals: jax.Array
    """Unit vectors, (m, d); zeros where a gradient is zero."""
    offsets: jax.Array
    """(m,)."""


class HalfSpaceAt(NamedTuple):
    """H_t: the half-space whose boundary x_t exceeds most."""

    x: jax.Array
    """x_t, flat."""
    normal: jax.Array
    """A unit vector; zeros if a gradient of zero leaves no half-space."""
    distance: jax.Array
    """The signed distance of x_t from the boundary."""
    place: jax.Array
    """A mask of its row among those of the round."""

    @property
    def exists(self) -> jax.Array:
        """Whether there is one."""
        return jnp.sum(self.normal * self.normal) > 0

    def excess(self, u: jax.Array) -> jax.Array:
        """How far u is outside; negative inside."""
        return self.distance + jnp.sum(self.normal * (u - self.x))


class LinearModels(NamedTuple):
    """The linear models of a round, divided by the norms of their gradients and flattened."""

    x: jax.Array
    """The decision, flat."""
    normals: jax.Array
    """Unit normals (n, d); zeros where a gradient is zero."""
    distances: jax.Array
    """(g_i(x) + rho) / |dg_i(x)|, the signed distance of x from the boundary of each half-space."""

    @classmethod
    def of(cls, x: jax.Array, values: jax.Array, slopes: jax.Array) -> LinearModels:
        """Return the models of constraints with these values and gradients, (n,) and (n, d)."""
        length = jnp.sqrt(jnp.sum(jnp.square(slopes), axis=1))
        scale = jnp.where(length > 0, 1 / jnp.where(length > 0, length, 1), 0)
        return cls(x.reshape(-1), slopes * scale[:, None], values * scale)

    @property
    def rows(self) -> Rows:
        """The half-spaces of the models."""
        return Rows(self.normals, jnp.sum(self.normals * self.x[None], axis=1) - self.distances)

    def most_violated(self) -> HalfSpaceAt:
        """Return the half-space whose boundary x exceeds most."""
        x, normals, distances = self
        if distances.shape[0] == 1:
            return HalfSpaceAt(x, normals[0], distances[0], jnp.ones((1,), bool))
        flat = jnp.all(normals == 0, axis=1)  # a gradient of zero is no half-space
        place = first_largest(jnp.where(flat, -jnp.inf, distances))
        weights = place.astype(distances.dtype)
        normal = jnp.sum(weights[:, None] * normals, axis=0)
        return HalfSpaceAt(x, normal, jnp.sum(weights * distances), place)


def no_cuts(memory: int, size: int, dtype: Any, life: int | None = None) -> Cuts:
    """Return a memory with empty slots, for cuts with lifetimes if `life` is given."""
    return Cuts(
        jnp.zeros((memory, size), dtype),
        jnp.zeros((memory,), dtype),
        jnp.zeros((memory,), jnp.int32),
        None if life is None else lifetimes.begin(memory),
    )


def remember(
    cuts: Cuts,
    seen: HalfSpaceAt,
    worth: jax.Array,
    t: jax.Array,
    diameter: jax.Array,
    life: int | None,
) -> Cuts:
    """Store, tighten or confirm the cut of a half-space.

    It takes the slot with the same normal, of which the tighter cut stays. Otherwise it takes, if
    it is `worth` it, the slot that has been inactive longest; with lifetimes first one that has
    expired. `life` is that of a new cut; `None` if cuts are kept for ever.
    """
    x, normal, distance, _ = seen
    same, worth = _parallel(cuts, normal), worth & seen.exists
    offset = jnp.sum(normal * x) - distance
    lives = cuts.lifetimes
    if lives is None or life is None:
        place = place_of_largest(jnp.where(same, 1, -cuts.active))
        before = _at(cuts.offsets, place)
        write = worth & (~_at(same, place) | (offset < before))
        return Cuts(
            _put(cuts.normals, place, jnp.where(write, normal, _at(cuts.normals, place))),
            _put(cuts.offsets, place, jnp.where(write, offset, before)),
            _put(cuts.active, place, jnp.where(worth, t, _at(cuts.active, place))),
        )
    same &= seen.exists
    expired = jnp.where(lifetimes.alive(lives, t), 0, lifetimes.LONGEST)
    place = place_of_largest(jnp.where(same, 2 * lifetimes.LONGEST - 1, expired - cuts.active))
    slot = lax.iota(jnp.int32, same.shape[0]) == place
    stored = _at(cuts.normals, place)
    position = jnp.sum(stored * x) - _at(cuts.offsets, place)
    revealed = lifetimes.Revealed(slot, same, worth, distance, position)
    lives, writes = lifetimes.updated(lives, revealed, t, lifetimes.slack(x, diameter), life)
    return Cuts(
        _put(cuts.normals, place, jnp.where(_at(writes, place), normal, stored)),
        jnp.where(writes, offset, cuts.offsets),
        jnp.where(slot & worth, t, cuts.active),
        lives,
    )


def confirm(
    cuts: Cuts, models: Callable[[], LinearModels], t: jax.Array, diameter: jax.Array
) -> Cuts:
    """Confirm cuts by all rows of this round, if a cut needs it; `models` computes them."""
    lives = cuts.lifetimes
    assert lives is not None

    def by_rows() -> Lifetimes:
        x, normals, distances = models()
        apart = normals[:, None] - cuts.normals[None]
        same = jnp.sum(jnp.square(apart), axis=2) < PARALLEL
        near = distances + lifetimes.slack(x, diameter)
        return lifetimes.confirmed(lives, same, near, _excess(cuts, x), t)

    needed = jnp.any(lifetimes.in_need(lives, t))
    return cuts._replace(lifetimes=lax.cond(needed, by_rows, lambda: lives))


def onto_cuts(
    project: Project,
    y: jax.Array,
    cuts: Cuts | None,
    rows: Rows | None,
    t: jax.Array,
    diameter: jax.Array,
    *,
    alive_in: jax.Array,
    sweeps: int | None = None,
    ends_exactly: bool = True,
    first: jax.Array | None = None,
) -> tuple[jax.Array, Cuts | None, jax.Array]:
    """Move a point y of the domain into the cuts and the rows. Return it, the cuts, and whether all
    of them hold there within D / (t + 1)^2 and none expired, because others contradict it.

    Arguments:
        alive_in: the round in which cuts must be alive.
        sweeps: how often each cut is projected on, at most; `None` projects exactly at once.
        ends_exactly: whether the exact projection follows where a cut is still exceeded.
        first: a mask of the row that is projected on first, if the order matters.
    """
    if cuts is None and rows is None:
        return y, cuts, jnp.ones((), bool)
    tolerance = diameter / jnp.square(t.astype(y.dtype) + 1)
    spaces = _together(cuts, rows, t, alive_in)
    if sweeps is None:
        active, left = spaces.active, _exceeds(_excess(spaces, y), y)
    else:
        y, active, left = sweep(project, y, spaces, t, tolerance, sweeps)
    count = 0 if rows is None else rows.offsets.shape[0]
    if not ends_exactly:
        return y, None if cuts is None else cuts._replace(active=active[count:]), ~left
    none = jnp.zeros(active.shape, bool)

    def exactly() -> tuple[jax.Array, ...]:  # normals are left out, which would be copied
        mask = None if first is None else jnp.concatenate([first, none[count:]])
        normals, offsets, _, ages = spaces
        result = exact_projection(project, y, normals, offsets, ages, t, diameter, mask)
        left = _exceeds(_excess(spaces, result.point), result.point, tolerance)
        return result.point, result.multipliers > 0, result.expired, ~left & ~result.expired.any()

    y, moved, expired, holds = lax.cond(left, exactly, lambda: (y, none, none, ~none.any()))
    if cuts is None:
        return y, None, holds
    active, expired = jnp.where(moved, t, active)[count:], expired[count:]
    if cuts.lifetimes is not None:
        lives = lifetimes.contradicted(cuts.lifetimes, expired)
        return y, cuts._replace(active=active, lifetimes=lives), holds
    # Cuts that expired hold everywhere.
    offsets = jnp.where(expired, _huge(cuts), cuts.offsets)
    return y, cuts._replace(offsets=offsets, active=jnp.where(expired, 0, active)), holds


class HalfSpaces(NamedTuple):
    """The half-spaces that a round projects on: its rows, then the kept cuts."""

    normals: jax.Array
    offsets: jax.Array
    active: jax.Array
    """The round in which each was last active."""
    ages: jax.Array
    """The round by which a contradiction chooses what expires."""


def _together(
    cuts: Cuts | None, rows: Rows | None, t: jax.Array, alive_in: jax.Array
) -> HalfSpaces:
    parts = []
    if rows is not None:
        now = jnp.full(rows.offsets.shape, t)
        parts.append(HalfSpaces(rows.normals, rows.offsets, now, now))
    if cuts is not None:
        normals, offsets, active, lives = cuts.alive(alive_in)
        parts.append(HalfSpaces(normals, offsets, active, active if lives is None else lives.last))
    return parts[0] if len(parts) == 1 else jax.tree.map(lambda *a: jnp.concatenate(a), *parts)


def sweep(
    project: Project,
    y: jax.Array,
    spaces: HalfSpaces,
    t: jax.Array,
    tolerance: jax.Array,
    most: int,
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Project a point of the domain on one half-space after the other and then on the domain,
    `most` times at most; return y, the rounds in which each was last active, and whether one is
    still exceeded."""

    def once(carry: tuple[Any, ...]) -> tuple[Any, ...]:
        swept, y, excess, active, _ = carry
        y, active = _one_by_one(spaces, y, excess, active, t)
        y = project(y)
        excess = _excess(spaces, y)
        return swept + 1, y, excess, active, _exceeds(excess, y, tolerance)

    excess = _excess(spaces, y)
    start = (jnp.zeros((), jnp.int32), y, excess, spaces.active, _exceeds(excess, y))
    _, y, _, active, left = lax.while_loop(lambda carry: (carry[0] < most) & carry[4], once, start)
    return y, active, left


def _huge(cuts: Cuts) -> float:
    """An offset of a cut that holds everywhere; finite, because 0 times infinity is no number."""
    return float(finfo(cuts.offsets.dtype).max) / 4


def _exceeds(excess: jax.Array, y: jax.Array, tolerance: jax.Array | float = 0.0) -> jax.Array:
    """Whether a half-space is exceeded at y by more than the tolerance and rounding."""
    most = tolerance + 8 * finfo(y.dtype).eps * jnp.max(jnp.abs(y))
    # Counted: a reduction of whole numbers takes vector instructions, and one of truths none.
    return jnp.sum(excess > most, dtype=jnp.int32) > 0


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
    nearest = place_of_largest(_products(cuts.normals, normal))
    apart = _at(cuts.normals, nearest) - normal
    place = lax.iota(jnp.int32, cuts.offsets.shape[0])
    return (place == nearest) & (jnp.sum(jnp.square(apart)) < PARALLEL)


def _excess(spaces: Cuts | HalfSpaces, y: jax.Array) -> jax.Array:
    return _products(spaces.normals, y) - spaces.offsets


def _products(normals: jax.Array, y: jax.Array) -> jax.Array:
    """The inner products of all normals with a vector."""
    if y.shape[0] < LONG:
        return jnp.sum(normals * y[None], axis=1)
    return normals @ y


def _one_by_one(
    spaces: HalfSpaces, y: jax.Array, excess: Any, active: jax.Array, t: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Project on every half-space in turn. Only those that y exceeds cost anything."""
    places = lax.iota(jnp.int32, spaces.offsets.shape[0])

    def following(excess: jax.Array, first: jax.Array | int) -> jax.Array:
        """The next one that is exceeded, from `first` on; their number if there is none."""
        return jnp.min(jnp.where((excess > 0) & (places >= first), places, places.shape[0]))

    def onto(carry: tuple[Any, ...]) -> tuple[Any, ...]:
        y, excess, active, j = carry
        y = y - _at(excess, j) * _at(spaces.normals, j)
        excess = _excess(spaces, y)
        return y, excess, jnp.where(places == j, t, active), following(excess, j + 1)

    start = (y, excess, active, following(excess, 0))
    y, _, active, _ = lax.while_loop(lambda carry: carry[3] < places.shape[0], onto, start)
    return y, active
