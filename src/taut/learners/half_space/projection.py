r"""The exact projection on kept cuts and the domain, by the dual active-set method of Goldfarb and
Idnani (1983).

A working set W holds half-spaces {u : b_j.u <= c_j}, |b_j| = 1, with multipliers lambda_j >= 0 such
that

    x = y - sum_W lambda_j b_j,        b_j.x = c_j on W,

so x is the projection of y on the half-spaces of W. The half-space that x exceeds most is added
until z = P_X(x) satisfies all cuts. If x satisfies all cuts and z does not, the half-space between
x and the domain X, whose normal is x - z, is added too. X is asked for nothing but its projection.

The rows of `dual` are the dual basis of the normals in W: dual_i.b_j is 1 for i = j and 0
otherwise. With it an addition or a removal costs one product of a matrix and a vector. Nothing here
calls LAPACK, and entries are written by masks, so that a round can become one compiled loop.

Every x on the way is the projection of y on a set that contains all decisions in X and in the cuts.
So x and z are at least as near to each of them as y is, also if the method ends early.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeVar

import jax
import jax.numpy as jnp
from jax import lax

from ...jaxpr.maxima import first_largest
from ...problem.domains.base import finfo

Tree = TypeVar("Tree")
Project = Callable[[jax.Array], jax.Array]
"""A projection onto the domain."""
DOMAIN_CUTS = 128
"""Half-spaces around the domain in the working set, at most one more than this."""


class Projection(NamedTuple):
    """The result of an exact projection."""

    point: jax.Array
    """z, a point of the domain."""
    multipliers: jax.Array
    """lambda_j of each cut, (n,)."""
    expired: jax.Array
    """The cuts that were left out because others contradict them, (n,)."""
    steps: jax.Array


class _Task(NamedTuple):
    """The arguments of `exact_projection`, without the projection onto the domain."""

    y: jax.Array
    normals: jax.Array
    offsets: jax.Array
    ages: jax.Array
    t: jax.Array
    diameter: jax.Array
    first: jax.Array | None

    @property
    def size(self) -> int:
        """The number of cuts."""
        return self.offsets.shape[0]

    @property
    def eps(self) -> float:
        """The unit of rounding."""
        return float(finfo(self.y.dtype).eps)

    @property
    def own(self) -> jax.Array:
        """Which half-spaces are cuts; the others are places for half-spaces of the domain."""
        return lax.iota(jnp.int32, self.size + self.places) < self.size

    @property
    def places(self) -> int:
        """The number of half-spaces of the domain that are kept at a time."""
        return min(self.y.shape[0], DOMAIN_CUTS) + 1

    def padded(self, values: jax.Array) -> jax.Array:
        """Values of cuts, and zeros for the half-spaces of the domain."""
        rest = jnp.zeros((self.places, *values.shape[1:]), values.dtype)
        return jnp.concatenate([values, rest])

    def begun(self) -> _Working:
        """The empty working set."""
        total = self.size + self.places
        return _Working(
            self.y,
            jnp.zeros((total,), self.y.dtype),
            jnp.zeros((total,), bool),
            jnp.zeros((total, self.y.shape[0]), self.y.dtype),
        )


class _Working(NamedTuple):
    """The working set. Arrays have an entry for each cut, then for each place of the domain."""

    x: jax.Array
    multipliers: jax.Array
    """Zero outside the working set."""
    members: jax.Array
    """Whether each half-space is in the working set."""
    dual: jax.Array
    """(n, d); zeros outside the working set."""


class _Carry(NamedTuple):
    working: _Working
    before: _Working
    """The working set before the present addition began."""
    normals: jax.Array
    """All half-spaces, (n, d). Those of the domain come last and are written on the way."""
    offsets: jax.Array
    adding: jax.Array
    """The half-space whose addition is unfinished, as a mask."""
    left_out: jax.Array
    """Half-spaces that are not added (any more)."""
    expired: jax.Array
    steps: jax.Array
    done: jax.Array


def exact_projection(
    project: Project,
    y: jax.Array,
    normals: jax.Array,
    offsets: jax.Array,
    ages: jax.Array,
    t: jax.Array,
    diameter: jax.Array,
    first: jax.Array | None = None,
) -> Projection:
    """Return a point of the domain that satisfies all cuts and is at least as near to every other
    such point as y is.

    If the cuts contradict each other, the oldest cut that takes part in the contradiction expires.
    If all that take part are of this round t, they are left out. `ages` are the rounds of the cuts,
    (n,); a normal of zeros means no cut. `first` is a mask of the cut that is added first; the
    result is then the projection on the domain of a projection on a set inside this cut.
    """
    task = _Task(y, normals, offsets, ages, t, diameter, first)
    nothing = jnp.zeros((task.size,), bool)
    start = _Carry(
        working=task.begun(),
        before=task.begun(),
        normals=task.padded(normals),
        offsets=task.padded(offsets),
        adding=task.padded(nothing),
        left_out=task.padded(jnp.all(normals == 0, axis=1)),
        expired=nothing,
        steps=jnp.zeros((), jnp.int32),
        done=jnp.zeros((), bool),
    )

    def advanced(carry: _Carry) -> _Carry:
        begun = _either(
            jnp.any(carry.adding), carry, _chosen(task, project(carry.working.x), carry)
        )
        return _either(begun.done, begun, _stepped(task, begun))

    limit = 200 + 4 * (task.size + task.places)
    last = lax.while_loop(lambda c: ~c.done & (c.steps < limit), advanced, start)
    sound = _is_no_farther(task, last)
    multipliers = jnp.where(sound, last.working.multipliers[: task.size], 0)
    point = project(jnp.where(sound, last.working.x, y))
    return Projection(point, multipliers, last.expired, last.steps)


def of_flat_points(project: Project, shape: tuple[int, ...]) -> Project:
    """Return a projection of decisions of this shape as one of flat points."""
    return lambda flat: project(flat.reshape(shape)).reshape(-1)


def _is_no_farther(task: _Task, carry: _Carry) -> jax.Array:
    """Whether no decision u in X and the cuts is farther from x than from y, up to rounding.

    With rho = y - x - sum lambda_j b_j, which is zero without rounding, and b_j.u <= c_j,

        |x - u|^2 <= |y - u|^2 - |y - x|^2 + 2 sum lambda_j (c_j - b_j.x) + 2 |rho| |x - u|.

    Normals that are almost opposite have huge multipliers, which can lose all digits; and a cut
    that misses u by rounding alone then leads away from it.
    """
    (x, multipliers, _, _), back = carry.working, task.y - carry.working.x
    # The offset of a cut that is not alive is infinite; its multiplier is zero.
    moved, offsets = jnp.sum(back * back), jnp.where(multipliers > 0, carry.offsets, 0)
    short = offsets - _products(carry.normals, x)
    rest = back - _combined(multipliers, carry.normals)
    away = jnp.sqrt(jnp.sum(rest * rest)) * (task.diameter + jnp.sqrt(moved))
    # A cut whose products are rounded may miss u, and so may the sum of the multipliers.
    size = jnp.max(jnp.abs(x)) + task.diameter
    missed = 16 * task.eps * size * jnp.sum(multipliers)
    rounding = 64 * task.eps * jnp.square(task.diameter)
    return 2 * (jnp.sum(multipliers * short) + away + missed) <= moved + rounding


def _chosen(task: _Task, point: jax.Array, carry: _Carry) -> _Carry:
    """End if the nearest point of the domain satisfies all cuts, or choose what to add."""
    working, x = carry.working, carry.working.x
    rounding = 8 * task.eps * jnp.max(jnp.abs(x))
    slack = 1e3 * task.eps * task.diameter + rounding
    there = _products(task.normals, point) - task.offsets
    done = jnp.all((there <= slack) | carry.left_out[: task.size])
    excess = _products(carry.normals, x) - carry.offsets
    excess = jnp.where(working.members | carry.left_out, -jnp.inf, excess)
    if task.first is not None:
        outside = task.padded(task.first) & (excess > rounding)
        done &= ~jnp.any(outside)
        excess = jnp.where(outside & (carry.steps == 0), jnp.inf, excess)
    cut = jnp.max(excess) > rounding
    # Without an exceeded cut, x lies outside the domain.
    outward = x - point
    distance = jnp.sqrt(jnp.sum(outward * outward))
    normal = outward / jnp.where(distance > 0, distance, 1)
    carry = _either(cut | jnp.any(~task.own & ~working.members), carry, _aggregated(task, carry))
    place = first_largest(jnp.where(task.own | carry.working.members, 0, 1)) & ~cut
    return carry._replace(
        before=carry.working,
        normals=jnp.where(place[:, None], normal[None], carry.normals),
        offsets=jnp.where(place, jnp.sum(normal * point), carry.offsets),
        adding=jnp.where(cut, first_largest(excess), place),
        done=done | (~cut & (distance <= slack)),
    )


def _aggregated(task: _Task, carry: _Carry) -> _Carry:
    """Put one half-space in the place of the working set: {u : (y - x).(u - x) <= 0} contains the
    intersection of the working set, and the projection of y on it is x."""
    x = carry.working.x
    back = task.y - x
    length = jnp.sqrt(jnp.sum(back * back))
    normal = back / jnp.where(length > 0, length, 1)
    place = first_largest(jnp.where(task.own, 0, 1))
    row = jnp.where(place[:, None], normal[None], 0)
    return carry._replace(
        working=_Working(x, jnp.where(place, length, 0), place, row),
        normals=jnp.where(place[:, None], normal[None], carry.normals),
        offsets=jnp.where(place, jnp.sum(normal * x), carry.offsets),
    )


def _stepped(task: _Task, carry: _Carry) -> _Carry:
    """Move towards the half-space that is being added, until it holds or a multiplier becomes 0."""
    (x, multipliers, members, dual), adding = carry.working, carry.adding
    normal = jnp.sum(jnp.where(adding[:, None], carry.normals, 0), axis=0)
    # What the working set spans of the normal, and the rest of it; twice, against rounding.
    shares = _products(dual, normal)
    rest = normal - _combined(shares, carry.normals)
    more = _products(dual, rest)
    shares, rest = shares + more, rest - _combined(more, carry.normals)
    squared, excess = jnp.sum(rest * rest), jnp.sum(normal * x)
    excess = excess - jnp.sum(jnp.where(adding, carry.offsets, 0))
    # How far the half-space is along `rest`, and how far multipliers allow to go.
    free, positive = squared > task.eps ** (4 / 3), task.eps**0.75
    length = jnp.where(free, jnp.maximum(excess, 0) / jnp.where(free, squared, 1), jnp.inf)
    falls = members & (shares > positive)
    each = jnp.where(falls, multipliers / jnp.where(falls, shares, 1), jnp.inf)
    finished = length <= jnp.min(each)
    length = jnp.minimum(length, jnp.min(each))
    stuck = jnp.isinf(length)
    length = jnp.where(stuck, 0, length)
    removed = first_largest(-each) & ~finished
    multipliers = jnp.where(members, jnp.maximum(multipliers - length * shares, 0), multipliers)
    moved = _Working(
        x - jnp.where(free, length, 0) * rest,
        jnp.where(removed, 0, multipliers + jnp.where(adding, length, 0)),
        jnp.where(finished, members | adding, members & ~removed),
        jnp.where(
            finished,
            _with_one_more(dual, adding, shares, rest / jnp.where(free, squared, 1)),
            _with_one_less(dual, removed),
        ),
    )
    after = carry._replace(
        working=_either(finished, _refined(carry, moved), moved),
        adding=adding & ~finished,
        steps=carry.steps + 1,
    )
    contradicts = excess > 8 * task.eps**0.5 * task.diameter
    guilty = adding | (members & (shares < -positive))
    given_up = _either(contradicts, _without(task, carry, guilty), _skipped(task, carry))
    return _either(stuck, given_up, after)


def _with_one_more(
    dual: jax.Array, adding: jax.Array, shares: jax.Array, unit: jax.Array
) -> jax.Array:
    """The dual basis with one more normal; `unit`: its part outside the others, over its square."""
    return jnp.where(adding[:, None], unit[None], dual - shares[:, None] * unit[None])


def _with_one_less(dual: jax.Array, removed: jax.Array) -> jax.Array:
    """The dual basis of the normals without one of them."""
    gone = jnp.sum(jnp.where(removed[:, None], dual, 0), axis=0)
    squared = jnp.sum(gone * gone)
    along = _products(dual, gone) / jnp.where(squared > 0, squared, 1)
    return jnp.where(removed[:, None], 0, dual - along[:, None] * gone[None])


def _refined(carry: _Carry, working: _Working) -> _Working:
    """Move x so that the half-spaces of the working set hold with equality up to rounding."""
    misses = _products(carry.normals, working.x) - carry.offsets
    misses = jnp.where(working.members, misses, 0)
    return working._replace(x=working.x - _combined(misses, working.dual))


def _without(task: _Task, carry: _Carry, guilty: jax.Array) -> _Carry:
    """Begin again without the oldest of the half-spaces that contradict each other."""
    guilty = guilty[: task.size]
    older = guilty & (task.ages < task.t)
    oldest = first_largest(jnp.where(older, -task.ages, -task.t)) & older
    left_out = jnp.where(jnp.any(older), oldest, guilty)
    return carry._replace(
        working=task.begun(),
        left_out=carry.left_out | task.padded(left_out),
        expired=carry.expired | oldest,
        adding=jnp.zeros_like(carry.adding),
        steps=carry.steps + 1,
        done=~jnp.any(left_out),
    )


def _skipped(task: _Task, carry: _Carry) -> _Carry:
    """Give up a half-space that depends on others and is exceeded by rounding alone."""
    return carry._replace(
        working=carry.before,
        left_out=carry.left_out | (carry.adding & task.own),
        adding=jnp.zeros_like(carry.adding),
        steps=carry.steps + 1,
        done=jnp.any(carry.adding & ~task.own),
    )


def _products(rows: jax.Array, x: jax.Array) -> jax.Array:
    return jnp.sum(rows * x[None], axis=1)


def _combined(weights: jax.Array, rows: jax.Array) -> jax.Array:
    return jnp.sum(weights[:, None] * rows, axis=0)


def _either(first: jax.Array, tree: Tree, other: Tree) -> Tree:
    """Return `tree` if `first` holds, otherwise `other`."""
    return jax.tree.map(lambda a, b: jnp.where(first, a, b), tree, other)
