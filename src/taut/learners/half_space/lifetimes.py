r"""Lifetimes of kept cuts, for constraints that change: a cut that is not seen again is forgotten.

A cut is alive for `life` rounds after the last round that confirmed it, and only cuts that are
alive are projected on. A round confirms a cut if it reveals a half-space with the same normal that
is at least as tight. A cut that has expired stays in its slot. If a round reveals its normal again,
a new period begins, and if that round, or the first tightening of the period, finds the decision
outside, the life doubles: what comes back is kept longer each time. So a normal is violated O(log
T) times per offset, and a cut is gone after the first life plus the time for which its normal was
in force (docs/theory.md, F1 to F3).

Distances are compared at the decision x_t, not at the origin, and the normal is written together
with the offset, so that every kept half-space is one that was revealed.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from ...problem.domains.base import finfo

LONGEST = 2**30
"""A life does not grow beyond this number of rounds."""


class Lifetimes(NamedTuple):
    """One entry per kept cut, (memory,)."""

    last: jax.Array
    """The round that confirmed the cut last; 0 for an empty slot."""
    life: jax.Array
    """Rounds that the cut lives without being confirmed; 0 for an empty slot."""
    fresh: jax.Array
    """Whether the present period may still double the life."""
    clash: jax.Array
    """Whether the cut expired because it contradicted others: its return does not double."""


class Revealed(NamedTuple):
    """What a round says about the slot with the revealed normal, or the slot that it takes."""

    slot: jax.Array
    """A mask of this slot."""
    same: jax.Array
    """A mask of the slots that hold the revealed normal."""
    worth: jax.Array
    """Whether the half-space excludes x_t or the point after the gradient step."""
    distance: jax.Array
    """How far x_t is outside the revealed half-space; negative inside."""
    position: jax.Array
    """How far x_t is outside the half-space of the slot."""


def begin(memory: int) -> Lifetimes:
    """Return the lifetimes of empty slots."""
    nothing, no = jnp.zeros((memory,), jnp.int32), jnp.zeros((memory,), bool)
    return Lifetimes(nothing, nothing, no, no)


def alive(lifetimes: Lifetimes, t: jax.Array) -> jax.Array:
    """A mask of the cuts that are alive in round t."""
    return t - lifetimes.last <= lifetimes.life


def slack(x: jax.Array, diameter: jax.Array) -> jax.Array:
    """The difference up to which two distances are equal: 1e-9 D and rounding."""
    return 1e-9 * diameter + 8 * finfo(x.dtype).eps * jnp.max(jnp.abs(x))


def updated(
    lifetimes: Lifetimes, seen: Revealed, t: jax.Array, tolerance: jax.Array, first: int
) -> tuple[Lifetimes, jax.Array]:
    """Return the lifetimes after a round, and a mask of the slot in which the revealed half-space
    is written. `first` is the life of a new cut; for the tolerance see `slack`.
    """
    last, life, fresh, clash = lifetimes
    holds = seen.slot & seen.same & alive(lifetimes, t)
    begins = seen.slot & seen.worth & ~holds
    tighter = holds & (seen.distance > seen.position)
    fresh = jnp.where(begins, seen.same & ~clash, fresh)
    outside = begins | (tighter & (seen.distance > seen.position + tolerance))
    doubles = fresh & outside & (seen.distance > tolerance)
    life = jnp.where(begins & ~seen.same, first, life)
    return (
        Lifetimes(
            jnp.where(begins | (holds & (seen.distance >= seen.position - tolerance)), t, last),
            jnp.where(doubles, jnp.minimum(2 * life, LONGEST), life),
            fresh & ~doubles,
            clash & ~begins,
        ),
        begins | tighter,
    )


def in_need(lifetimes: Lifetimes, t: jax.Array) -> jax.Array:
    """A mask of the cuts that have lived more than half of their life since they were confirmed."""
    return alive(lifetimes, t) & (2 * (t - lifetimes.last) > lifetimes.life)


def confirmed(
    lifetimes: Lifetimes, same: jax.Array, distances: jax.Array, positions: jax.Array, t: jax.Array
) -> Lifetimes:
    """Confirm cuts by all rows of a round: by value and gradient, which is what a revealed row is.

    `same` says whether row i has the normal of cut j, (m, memory). `distances` are how far x_t is
    outside each row, and the tolerance; `positions` how far it is outside each cut.
    """
    agrees = jnp.any(same & (distances[:, None] >= positions[None]), axis=0)
    return lifetimes._replace(last=jnp.where(agrees & alive(lifetimes, t), t, lifetimes.last))


def contradicted(lifetimes: Lifetimes, expired: jax.Array) -> Lifetimes:
    """End the lives of cuts that others contradict; when they come back, their life does not
    double."""
    return lifetimes._replace(
        last=jnp.where(expired, -LONGEST, lifetimes.last), clash=lifetimes.clash | expired
    )
