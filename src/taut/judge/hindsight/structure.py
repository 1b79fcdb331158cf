"""What loss and constraints are made of, found numerically: affine, quadratic, or something else that is convex.

Nothing here is taken on trust later: the pass over the stream compares every round's loss with its polynomial, and the
constraints are evaluated again at the solution.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ...problem.constraints import Constraints
from ...problem.streams import Stream
from ...problem.transforms import Max, Squared, Tightened
from .scaling import Array, Frame, as_double, onto_domain

__all__ = ["Structure", "fixed_structure", "loss_kind", "probe_varying", "sample_points", "simplified"]

FEASIBLE = 1e-9
"""The largest value of a constraint that counts as feasible,"""
ROUNDING = 1e-11
"""and the same as a share of the constraint's steepness, where that is more."""
SAME = 1e-9
"""Numbers that differ by less than this share of their size are taken as equal."""
BENT = 1e-7
"""A chord below a tangent by more than this share of the values refutes convexity."""
JUMP = 0.25
"""A gradient that changes by more than this share at once has a kink."""
ROUNDS = 12
POINTS = 32


@dataclass(frozen=True)
class Structure:
    """Constraints sorted by kind. All in the frame's flat coordinates."""

    count: int
    reach: Array
    """(constraint,) How much each constraint changes over a radius of the domain near its boundary, at least 1."""
    affine: Array
    """Indices of the affine ones,"""
    slopes: Array
    """their gradients,"""
    offsets: Array
    """and their values at u = 0."""
    quadratic: Array
    """Indices of the quadratic ones: value at 0, gradient at 0, Hessian."""
    constant: Array
    linear: Array
    bends: Array
    others: Array
    """Indices of those that are known by their tangents only."""

    @property
    def allowed(self) -> Array:
        """(constraint,) The values that count as 0: an absolute 1e-9, or rounding where constraints are steep."""
        return np.maximum(FEASIBLE, ROUNDING * self.reach)

    def without(self, wrong: Array) -> Structure:
        """The same, with the constraints `wrong` known by their tangents only."""
        affine, quadratic = ~np.isin(self.affine, wrong), ~np.isin(self.quadratic, wrong)
        return Structure(
            self.count, self.reach,
            self.affine[affine], self.slopes[affine], self.offsets[affine],
            self.quadratic[quadratic], self.constant[quadratic], self.linear[quadratic], self.bends[quadratic],
            np.union1d(self.others, wrong).astype(int),
        )  # fmt: skip

    def predicted(self, u: Array) -> tuple[Array, Array]:
        """Values of the affine and of the quadratic constraints at each row of `u`."""
        bent = np.einsum("ei,qij,ej->eq", u, self.bends, u) / 2
        return u @ self.slopes.T + self.offsets, self.constant + u @ self.linear.T + bent


def simplified(constraints: Constraints) -> Constraints:
    """Constraints with the same feasible set and more structure: maxima and squares unwrapped."""
    if isinstance(constraints, (Max, Squared)):
        return simplified(constraints.inner)
    if isinstance(constraints, Tightened) and isinstance(constraints.inner, Max):  # max g + rho = max (g + rho)
        return simplified(Tightened(constraints.inner.inner, constraints.rho))
    return constraints


def loss_kind(
    loss: Callable[..., Any], frame: Frame, stream: Stream, ends: tuple[int, ...], rng: np.random.Generator
) -> tuple[str, Array | None]:
    """ "affine", "quadratic", "smooth" or "kinked", judged by sampled rounds; the Hessian if they all have the same."""
    points, data = sample_points(frame, rng, 7), _sample_rounds(stream, ends, rng)
    direction = rng.normal(size=frame.size)
    misfit, change, bend = (np.asarray(a) for a in _loss_samples(loss, frame, points, data, direction))
    if not np.all(np.isfinite(misfit)) or misfit.max() > SAME:
        jump = float(_jumps(loss, frame, sample_points(frame, rng, 9), data))
        return ("kinked" if jump > JUMP else "smooth"), None
    if change.max() > SAME:
        return "quadratic", None
    return ("quadratic" if np.any(bend) else "affine"), bend


@partial(jax.jit, static_argnames=("loss",))
def _loss_samples(
    loss: Callable[..., Any], frame: Frame, points: jax.Array, data: Any, direction: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array]:
    def slope(u: jax.Array, z: Any) -> jax.Array:
        return jax.grad(lambda v: jnp.asarray(loss(frame.decision(v), z), v.dtype))(u)

    def one(z: Any) -> tuple[jax.Array, jax.Array]:
        """Whether a round's gradient is affine, and its Hessian along the direction."""
        here, product = jax.linearize(lambda v: slope(v, z), points[0])
        there = jax.vmap(lambda u: slope(u, z))(points[1:])
        turn = jax.vmap(product)(points[1:] - points[:1])
        return jax.vmap(lambda s, t: _share(s - here - t, here, s, t))(there, turn), product(direction)

    misfit, turned = jax.vmap(one)(data)
    _, product = jax.linearize(lambda v: slope(v, jax.tree.map(lambda a: a[0], data)), points[0])
    bend = jax.vmap(product)(jnp.eye(frame.size))
    change = jax.vmap(lambda row: _share(row - turned[0], row, turned[0]))(turned)
    return misfit, change, (bend + bend.T) / 2


@partial(jax.jit, static_argnames=("loss",))
def _jumps(loss: Callable[..., Any], frame: Frame, points: jax.Array, data: Any) -> jax.Array:
    """The largest change of any round's gradient over 1/64 of a segment, as a share of the gradient."""
    shares = jnp.linspace(0, 1, 65)

    def jump(start: jax.Array, end: jax.Array, z: Any) -> jax.Array:
        def slope(share: jax.Array) -> jax.Array:
            return jax.grad(lambda v: jnp.asarray(loss(frame.decision(v), z), v.dtype))(start + share * (end - start))

        slopes = jax.vmap(slope)(shares)
        size = jnp.max(jnp.abs(slopes))
        change = jnp.max(jnp.abs(slopes[1:] - slopes[:-1])) / jnp.where(size > 0, size, 1)
        return jnp.where(jnp.isfinite(change), change, 0)

    segments = jax.vmap(jump, (0, 0, None))
    return jnp.max(jax.vmap(lambda z: segments(points[1:-1], points[2:], z))(data))


def fixed_structure(constraints: Constraints, frame: Frame, rng: np.random.Generator) -> Structure:
    """Sort constraints that do not depend on the round, and refuse what is not convex."""
    zero = jax.ShapeDtypeStruct((frame.size,), jnp.float64)
    count = int(jax.eval_shape(lambda u: constraints.values(frame.decision(u), None), zero).shape[0])
    points = sample_points(frame, rng, int(np.clip(4_000_000 // (count * frame.size), 7, POINTS + 1)))
    values, slopes = (np.asarray(a) for a in _tangents(constraints, frame, points, None))
    u, values, slopes = _usable(points, values, slopes)
    _refuse_concave(u, values, slopes)
    size = 1 + np.abs(values).max(axis=0) + np.linalg.norm(slopes, axis=2).max(axis=0)
    steady = np.abs(slopes - slopes[0]).max(axis=(0, 2)) <= SAME * size
    steady &= np.abs(values - values[0] - np.einsum("md,kd->km", slopes[0], u - u[0])).max(axis=0) <= SAME * size
    affine, rest = np.flatnonzero(steady), np.flatnonzero(~steady)
    bends = np.zeros((0, frame.size, frame.size))
    if rest.size:
        bends = np.asarray(_hessians(constraints, frame, u[0], rest))
    turn = np.einsum("mij,kj->kmi", bends, u - u[0])
    fits = np.abs(slopes[:, rest] - slopes[0, rest] - turn).max(axis=(0, 2)) <= SAME * size[rest]
    curved = np.einsum("kmi,ki->km", slopes[0, rest] + turn / 2, u - u[0])
    fits &= np.abs(values[:, rest] - values[0, rest] - curved).max(axis=0) <= SAME * size[rest]
    fits &= np.isfinite(bends).all(axis=(1, 2))
    quadratic, bends = rest[fits], bends[fits]
    linear = slopes[0, quadratic] - np.einsum("mij,j->mi", bends, u[0])
    return Structure(
        count, _reach(values, slopes),
        affine, slopes[0, affine], values[0, affine] - slopes[0, affine] @ u[0],
        quadratic, values[0, quadratic] - np.einsum("mi,i->m", slopes[0, quadratic] + linear, u[0]) / 2, linear, bends,
        rest[~fits],
    )  # fmt: skip


def probe_varying(
    constraints: Constraints, frame: Frame, stream: Stream, ends: tuple[int, ...], rng: np.random.Generator
) -> Structure:
    """Constraints that depend on the round's data: refuse what is not convex in sampled rounds."""
    points, data = sample_points(frame, rng, 13), _sample_rounds(stream, ends, rng)
    reach: Array = np.ones(1)
    for number in range(ROUNDS):
        sampled = _tangents(constraints, frame, points, jax.tree.map(lambda a, i=number: a[i], data))
        u, values, slopes = _usable(points, *(np.asarray(a) for a in sampled))
        reach = np.maximum(reach, _reach(values, slopes))
        _refuse_concave(u, values, slopes)
    count, size = len(reach), frame.size
    none = np.zeros(0, int)
    return Structure(
        count, reach, none, np.zeros((0, size)), np.zeros(0), none, np.zeros(0), np.zeros((0, size)),
        np.zeros((0, size, size)), np.arange(count),
    )  # fmt: skip


@jax.jit
def _tangents(constraints: Constraints, frame: Frame, points: jax.Array, z: Any) -> tuple[jax.Array, jax.Array]:
    def values(u: jax.Array) -> jax.Array:
        return constraints.values(frame.decision(u), z)

    forward = jax.eval_shape(values, points[0]).shape[0] > frame.size
    return jax.vmap(values)(points), jax.vmap((jax.jacfwd if forward else jax.jacrev)(values))(points)


@jax.jit
def _hessians(constraints: Constraints, frame: Frame, u: jax.Array, which: jax.Array) -> jax.Array:
    def bend(i: jax.Array) -> jax.Array:
        one = jax.hessian(lambda v: constraints.values(frame.decision(v), None)[i])(u)
        return (one + one.T) / 2

    return jax.lax.map(bend, which)


def _usable(u: Array, values: Array, slopes: Array) -> tuple[Array, Array, Array]:
    """The samples at which everything is finite; values may be infinite, or gradients missing, at isolated points."""
    if np.isnan(values).any() or np.isneginf(values).any():
        raise ValueError("constraints: got a value that is not finite inside the domain; expected finite numbers")
    good = np.isfinite(values).all(axis=1) & np.isfinite(slopes).all(axis=(1, 2))
    if good.sum() < 2:
        raise ValueError(
            "constraints: got no finite gradient at sampled decisions; expected finite subgradients (jnp.linalg.norm, "
            "for one, has none at 0)"
        )
    return u[good], values[good], slopes[good]


def _reach(values: Array, slopes: Array) -> Array:
    """The length of each constraint's gradient at the sample nearest to its boundary, at least 1."""
    nearest = np.argmin(np.abs(values), axis=0)
    return np.maximum(1.0, np.linalg.norm(slopes[nearest, np.arange(values.shape[1])], axis=1))


def _refuse_concave(u: Array, values: Array, slopes: Array) -> None:
    """Raise if a constraint lies below one of its tangents: g(y) >= g(x) + <gradient g(x), y - x> for convex g."""
    planes = values[:, None, :] + np.einsum("kmd,kld->klm", slopes, u[None, :, :] - u[:, None, :])
    below = planes - values[None, :, :]
    allowed = BENT * (1 + np.abs(values).max(axis=0) + np.linalg.norm(slopes, axis=2).max(axis=0))
    if np.any(below > allowed):
        x, y, i = np.unravel_index(int(np.argmax(below / allowed)), below.shape)
        raise ValueError(
            f"constraints: got a function that is not convex: constraint {i} lies {below[x, y, i]:.3g} below its own "
            "tangent inside the domain; expected convex constraints"
        )


def sample_points(frame: Frame, rng: np.random.Generator, count: int) -> Array:
    """Points of the frame: the centre first, then inner and outer ones in turn."""
    way = rng.normal(size=(count - 1, frame.size))
    way /= np.linalg.norm(way, axis=1, keepdims=True)
    length = np.where(np.arange(count - 1) % 2, 3.0, rng.uniform(size=count - 1) ** (1 / frame.size))
    return np.concatenate([np.zeros((1, frame.size)), onto_domain(frame, length[:, None] * way)])


def _sample_rounds(stream: Stream, ends: tuple[int, ...], rng: np.random.Generator) -> Any:
    """Data of some rounds of some seeds, with a leading axis."""
    rounds = np.sort(rng.integers(0, ends[-1], size=ROUNDS))
    seeds = rng.integers(0, stream.seeds, size=ROUNDS)
    picked = [(stream.block(int(t), 1), int(s)) for t, s in zip(rounds, seeds, strict=True)]
    rows = [jax.tree.map(lambda a, s=s: as_double(a[s, 0]), block) for block, s in picked]
    return jax.tree.map(lambda *leaves: np.stack(leaves), *rows)


def _share(error: jax.Array, *terms: jax.Array) -> jax.Array:
    size = sum(jnp.max(jnp.abs(term)) for term in terms)
    return jnp.max(jnp.abs(error)) / jnp.where(size > 0, size, 1)
