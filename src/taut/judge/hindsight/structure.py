"""The structure of loss and constraints, found numerically: affine, quadratic, or another convex
function.

Everything found here is checked again later: the pass over the stream compares every round's loss
with its polynomial, and the constraints are evaluated at the solution. Losses and constraints that
are not convex are refused by the functions at the end.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

import jax
import numpy as np

from ...engine import Array
from ...problem.constraints import Constraints
from ...problem.streams import Stream
from ...problem.transforms import Max, Squared, Tightened
from .scaling import ROUNDS, ScaledConstraints, ScaledLoss, Scaling, sample_data, sample_points
from .tolerances import BELOW_TANGENT, CONCAVE, CONCAVE_SLOPE, JUMP, LOSS_BELOW_TANGENT, SAME

POINTS = 32
"""Decisions that are sampled, fewer if constraints are many."""


@dataclass(frozen=True)
class Structure:
    """Constraints sorted by kind, in the coordinates u of `Scaling`."""

    constant: Array
    """(constraint,) Values at u = 0 of those that are affine or quadratic,"""
    linear: Array
    """(constraint, entry) and their gradients there."""
    affine: Array
    """Indices of the affine ones,"""
    quadratic: Array
    """of the quadratic ones,"""
    others: Array
    """and of all others, of which only tangents are known."""
    hessians: Array
    """Of the quadratic ones."""

    @property
    def count(self) -> int:
        """The number of constraints."""
        return len(self.constant)

    def without(self, wrong: Array) -> Structure:
        """The same, with the constraints `wrong` among `others`."""
        quadratic = ~np.isin(self.quadratic, wrong)
        return replace(
            self,
            affine=self.affine[~np.isin(self.affine, wrong)],
            quadratic=self.quadratic[quadratic],
            others=np.union1d(self.others, wrong).astype(int),
            hessians=self.hessians[quadratic],
        )

    def predicted(self, u: Array) -> Array:
        """The values at `u`; of others they mean nothing."""
        values = self.constant + self.linear @ u
        values[self.quadratic] += self.hessians @ u @ u / 2
        return values


def simplified(constraints: Constraints) -> Constraints:
    """Constraints with the same feasible set and more structure: maxima and squares unwrapped."""
    if isinstance(constraints, (Max, Squared)):
        return simplified(constraints.inner)
    if isinstance(constraints, Tightened) and isinstance(
        constraints.inner, Max
    ):  # max g + rho = max (g + rho)
        return simplified(Tightened(constraints.inner.inner, constraints.rho))
    return constraints


def loss_kind(
    loss: ScaledLoss, stream: Stream, ends: tuple[int, ...], rng: np.random.Generator
) -> tuple[str, Array | None]:
    """ "affine", "quadratic" or "other", judged by sampled rounds; the Hessian if they all have the
    same."""
    scaling = loss.scaling
    points, data = sample_points(scaling, rng, 7), sample_data(stream, ends, rng)
    middles = (points[:1] + points[1:]) / 2
    here, there, between = np.split(
        loss.lines(np.concatenate([points, middles]), data)[1], [1, len(points)]
    )  # gradients, (point, round, entry)
    # The gradient of a quadratic function is affine, so in the middle it is the mean.
    misfit = _share(here + there - 2 * between, here, there, between)
    if not np.all(np.isfinite(misfit)) or misfit.max() > SAME:
        return "other", None
    change = there - here
    if _share(change - change[:, :1], here, there).max() > SAME:
        return "quadratic", None
    first = jax.tree.map(lambda a: a[None, :1], data)
    hessian = loss.sums(points[:1], first, 1, second=True).hessian[0]
    return ("quadratic" if np.any(hessian) else "affine"), hessian


def has_kinks(
    loss: ScaledLoss, stream: Stream, ends: tuple[int, ...], rng: np.random.Generator
) -> bool:
    """Whether the gradient of some sampled round changes over 1/4096 of a segment by more than the
    share JUMP: a kink stays when one looks closer, a steep gradient does not."""
    points, data = sample_points(loss.scaling, rng, 9), sample_data(stream, ends, rng)
    shares = np.linspace(0, 1, 65)[:, None]
    for ends_of_segment in pairwise(points[1:]):
        low, high = ends_of_segment
        sizes: Array | None = None
        for _ in range(2):
            along = loss.lines(low + shares * (high - low), data)[1]  # (point, round, entry)
            with np.errstate(invalid="ignore", over="ignore"):
                sizes = np.max(np.abs(along), axis=(0, 2)) if sizes is None else sizes
                jumps = np.max(np.abs(np.diff(along, axis=0)), axis=2)
                change = jumps / np.where(sizes > 0, sizes, 1)
            change = np.where(np.isfinite(change), change, 0)
            at = int(np.argmax(change.max(axis=1)))
            low, high = (low + shares[i] * (high - low) for i in (at, at + 1))
        if change.max() > JUMP:
            return True
    return False


def fixed_structure(constraints: ScaledConstraints, rng: np.random.Generator) -> Structure:
    """Sort constraints that do not depend on the round; refuse those that are not convex."""
    scaling, count = constraints.scaling, constraints.count()
    points = sample_points(
        scaling, rng, int(np.clip(4_000_000 // (count * scaling.size), 7, POINTS + 1))
    )
    values, slopes = constraints.lines(points, None)
    u, values, slopes = _usable(points, values, slopes)
    _refuse_constraints_below_tangents(u, values, slopes, scaling)
    size = 1 + np.abs(values).max(axis=0) + np.linalg.norm(slopes, axis=2).max(axis=0)
    steady = np.abs(slopes - slopes[0]).max(axis=(0, 2)) <= SAME * size
    steady &= (
        np.abs(values - values[0] - np.einsum("md,kd->km", slopes[0], u - u[0])).max(axis=0)
        <= SAME * size
    )
    affine, rest = np.flatnonzero(steady), np.flatnonzero(~steady)
    hessians = np.zeros((0, scaling.size, scaling.size))
    if rest.size:
        hessians = constraints.expansions(u[0], rest)[2]
    hessian_u = np.einsum("mij,kj->kmi", hessians, u - u[0])
    fits = (
        np.abs(slopes[:, rest] - slopes[0, rest] - hessian_u).max(axis=(0, 2)) <= SAME * size[rest]
    )
    curved = np.einsum("kmi,ki->km", slopes[0, rest] + hessian_u / 2, u - u[0])
    fits &= np.abs(values[:, rest] - values[0, rest] - curved).max(axis=0) <= SAME * size[rest]
    fits &= np.isfinite(hessians).all(axis=(1, 2))
    quadratic, hessians = rest[fits], hessians[fits]
    constant, linear = np.zeros(count), slopes[0].copy()
    constant[affine] = values[0, affine] - slopes[0, affine] @ u[0]
    linear[quadratic] -= np.einsum("mij,j->mi", hessians, u[0])
    middle = slopes[0, quadratic] + linear[quadratic]
    constant[quadratic] = values[0, quadratic] - np.einsum("mi,i->m", middle, u[0]) / 2
    return Structure(constant, linear, affine, quadratic, rest[~fits], hessians)


def probe_varying(
    constraints: ScaledConstraints, stream: Stream, ends: tuple[int, ...], rng: np.random.Generator
) -> Structure:
    """The structure of constraints that depend on the round's data; refuses those not convex in
    sampled rounds."""
    scaling = constraints.scaling
    points, data = sample_points(scaling, rng, 13), sample_data(stream, ends, rng)
    count = 0
    for number in range(ROUNDS):
        sampled = constraints.lines(points, jax.tree.map(lambda a, i=number: a[i], data))
        u, values, slopes = _usable(points, *sampled)
        _refuse_constraints_below_tangents(u, values, slopes, scaling)
        count = values.shape[1]
    size, none = scaling.size, np.zeros(0, int)
    nothing = np.zeros(count), np.zeros((count, size))
    return Structure(*nothing, none, none, np.arange(count), np.zeros((0, size, size)))


def _usable(u: Array, values: Array, slopes: Array) -> tuple[Array, Array, Array]:
    """The samples at which everything is finite; values may be infinite, or gradients missing, at
    isolated points."""
    if np.isnan(values).any() or np.isneginf(values).any():
        raise ValueError(
            "constraints: got a value that is not finite inside the domain; expected finite numbers"
        )
    good = np.isfinite(values).all(axis=1) & np.isfinite(slopes).all(axis=(1, 2))
    if good.sum() < 2:
        raise ValueError(
            "constraints: got no finite gradient at sampled decisions; expected finite "
            "subgradients (jnp.linalg.norm, for one, has none at 0)"
        )
    return u[good], values[good], slopes[good]


def _share(error: Array, *terms: Array) -> Array:
    """The size of an error relative to the terms that it is made of, over the last axis."""
    with np.errstate(invalid="ignore", over="ignore"):
        size = np.sum(
            [np.max(np.abs(term), axis=-1) * np.ones(error.shape[:-1]) for term in terms], axis=0
        )
        return np.asarray(np.max(np.abs(error), axis=-1) / np.where(size > 0, size, 1))


def refuse_concave_loss(hessian: Array, slope: Array, scaling: Scaling, rounds: int) -> None:
    """Raise if the Hessian of a mean loss, scaled, has a negative eigenvalue."""
    values = np.linalg.eigvalsh(hessian)
    size = max(abs(values[-1]), abs(values[0]))
    if values[0] < -CONCAVE * size - CONCAVE_SLOPE * float(np.abs(slope).max()):
        curvature = values[0] * float(scaling.loss_unit) / float(scaling.radius) ** 2
        raise ValueError(
            f"loss: got losses whose sum over {rounds} rounds is not convex: its mean has the "
            f"curvature {curvature:.3g} in some direction; expected a convex sum"
        )


def refuse_loss_below_tangent(
    value: float,
    slope: Array,
    u: Array,
    witness: Array,
    there: float,
    rounds: int,
    scaling: Scaling,
) -> None:
    """Raise if a mean loss, with value and slope at `u`, is smaller at `witness` than its tangent
    allows."""
    plane = value + float(slope @ (witness - u))
    size = abs(value) + abs(plane) + float(np.linalg.norm(slope))
    if plane - there > LOSS_BELOW_TANGENT * size:
        depth = (plane - there) * float(scaling.loss_unit)
        raise ValueError(
            f"loss: got losses whose sum over {rounds} rounds is not convex: its mean lies "
            f"{depth:.3g} below its tangent at the solution; expected a convex sum"
        )


def refuse_concave_constraints(
    which: Array, hessians: Array, sizes: Array, scaling: Scaling
) -> None:
    """Raise if the Hessian of a quadratic constraint has an eigenvalue below minus CONCAVE times
    its size."""
    if not len(hessians):
        return
    least = np.linalg.eigvalsh(hessians)[:, 0]
    bad = np.flatnonzero(least < -CONCAVE * sizes)
    if bad.size:
        i = which[bad[0]]
        curvature = least[bad[0]] * scaling.unit_of(i) / float(scaling.radius) ** 2
        raise ValueError(
            f"constraints: got a function that is not convex: constraint {i} is quadratic with the "
            f"curvature {curvature:.3g}; expected convex constraints"
        )


def _refuse_constraints_below_tangents(
    u: Array, values: Array, slopes: Array, scaling: Scaling
) -> None:
    """Raise if a constraint lies below one of its tangents: g(y) >= g(x) + <gradient g(x), y - x>
    for convex g."""
    planes = values[:, None, :] + np.einsum("kmd,kld->klm", slopes, u[None, :, :] - u[:, None, :])
    below = planes - values[None, :, :]
    allowed = BELOW_TANGENT * (
        1 + np.abs(values).max(axis=0) + np.linalg.norm(slopes, axis=2).max(axis=0)
    )
    if np.any(below > allowed):
        x, y, i = np.unravel_index(int(np.argmax(below / allowed)), below.shape)
        depth = below[x, y, i] * scaling.unit_of(int(i))
        raise ValueError(
            f"constraints: got a function that is not convex: constraint {i} lies {depth:.3g} "
            "below its own tangent inside the domain; expected convex constraints"
        )
