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

from ..constraints import Constraints, Max, Squared, Tightened
from ..estimation import sample_decisions, sample_rounds
from ..streams import Stream
from .frame import Array, Frame

__all__ = ["Structure", "fixed_structure", "loss_kind", "probe_varying", "sample_points", "simplified"]

SAME = 1e-9
"""Numbers that differ by less than this share of their size are taken as equal."""
BENT = 1e-7
"""A chord below a tangent by more than this share of the values refutes convexity."""
ROUNDS = 12
POINTS = 32


@dataclass(frozen=True)
class Structure:
    """Constraints sorted by kind. All in the frame's flat coordinates."""

    count: int
    reach: Array
    """(constraint,) The size of each constraint's values over the domain, at least 1: what tolerances refer to."""
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
    loss: Callable[..., Any], frame: Frame, stream: Stream, ends: tuple[int, ...], key: jax.Array
) -> tuple[str, Array | None]:
    """"affine", "quadratic" or "general", judged by sampled rounds; and the Hessian if it is the same in all of them."""
    where, when, way = jax.random.split(key, 3)
    points = jnp.asarray(sample_points(frame, where, 7))
    data = sample_rounds(_Part(stream, ends[-1]), when, min(ROUNDS, ends[-1] * stream.seeds), points)
    direction = jax.random.normal(way, (frame.size,))
    misfit, change, bend = (np.asarray(a) for a in _loss_samples(loss, frame, points, data, direction))
    if not np.all(np.isfinite(misfit)) or misfit.max() > SAME:
        return "general", None
    if change.max() > SAME:
        return "quadratic", None
    return ("quadratic" if np.any(bend) else "affine"), bend


@partial(jax.jit, static_argnames=("loss",))
def _loss_samples(
    loss: Callable[..., Any], frame: Frame, points: jax.Array, data: Any, direction: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array]:
    def slope(u: jax.Array, z: Any) -> jax.Array:
        return jax.grad(lambda v: jnp.asarray(loss(frame.decision(v), z), v.dtype))(u)

    def product(u: jax.Array, z: Any, way: jax.Array) -> jax.Array:
        return jax.jvp(lambda v: slope(v, z), (u,), (way,))[1]

    def misfit(u: jax.Array, z: Any) -> jax.Array:  # is the gradient affine?
        here, there, turn = slope(points[0], z), slope(u, z), product(points[0], z, u - points[0])
        return _share(there - here - turn, here, there, turn)

    first = jax.tree.map(lambda a: a[0], data)
    bend = jax.jacfwd(lambda v: slope(v, first))(points[0])
    base = bend @ direction
    turned = jax.vmap(lambda z: product(points[0], z, direction))(data)
    change = jax.vmap(lambda one: _share(one - base, one, base))(turned)
    return jax.vmap(lambda z: jax.vmap(lambda u: misfit(u, z))(points))(data), change, (bend + bend.T) / 2


def fixed_structure(constraints: Constraints, frame: Frame, key: jax.Array) -> Structure:
    """Sort constraints that do not depend on the round, and refuse what is not convex."""
    zero = jax.ShapeDtypeStruct((frame.size,), jnp.float64)
    count = int(jax.eval_shape(lambda u: constraints.values(frame.decision(u), None), zero).shape[0])
    points = sample_points(frame, key, int(np.clip(4_000_000 // (count * frame.size), 7, POINTS + 1)))
    values, slopes = (np.asarray(a) for a in _tangents(constraints, frame, jnp.asarray(points), None))
    u, values, slopes = _usable(points, values, slopes)
    reach = np.maximum(1.0, np.abs(values).max(axis=0))
    _refuse_concave(u, values, slopes, reach)
    size = reach + np.linalg.norm(slopes, axis=2).max(axis=0)
    steady = np.abs(slopes - slopes[0]).max(axis=(0, 2)) <= SAME * size
    steady &= np.abs(values - values[0] - np.einsum("md,kd->km", slopes[0], u - u[0])).max(axis=0) <= SAME * size
    affine, rest = np.flatnonzero(steady), np.flatnonzero(~steady)
    bends = np.asarray(_hessians(constraints, frame, jnp.asarray(u[0]), jnp.asarray(rest)))
    turn = np.einsum("mij,kj->kmi", bends, u - u[0])
    fits = np.abs(slopes[:, rest] - slopes[0, rest] - turn).max(axis=(0, 2)) <= SAME * size[rest]
    curved = np.einsum("kmi,ki->km", slopes[0, rest] + turn / 2, u - u[0])
    fits &= np.abs(values[:, rest] - values[0, rest] - curved).max(axis=0) <= SAME * size[rest]
    fits &= np.isfinite(bends).all(axis=(1, 2))
    quadratic, bends = rest[fits], bends[fits]
    linear = slopes[0, quadratic] - np.einsum("mij,j->mi", bends, u[0])
    return Structure(
        count, reach,
        affine, slopes[0, affine], values[0, affine] - slopes[0, affine] @ u[0],
        quadratic, values[0, quadratic] - np.einsum("mi,i->m", slopes[0, quadratic] + linear, u[0]) / 2, linear, bends,
        rest[~fits],
    )  # fmt: skip


def probe_varying(constraints: Constraints, frame: Frame, stream: Stream, ends: tuple[int, ...], key: jax.Array) -> Structure:
    """Constraints that depend on the round's data: refuse what is not convex in sampled rounds; the rest is tangents."""
    where, when = jax.random.split(key)
    points = jnp.asarray(sample_points(frame, where, 13))
    data = sample_rounds(_Part(stream, ends[-1]), when, min(ROUNDS, ends[-1] * stream.seeds), points)
    every = jax.vmap(lambda z: _tangents(constraints, frame, points, z))(data)
    reach: Array | None = None
    for values, slopes in zip(*(np.asarray(a) for a in every), strict=True):
        u, values, slopes = _usable(np.asarray(points), values, slopes)
        size = np.maximum(1.0, np.abs(values).max(axis=0))
        _refuse_concave(u, values, slopes, size)
        reach = size if reach is None else np.maximum(reach, size)
    assert reach is not None  # at least one round is sampled
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

    return jax.lax.map(bend, which) if which.size else jnp.zeros((0, u.size, u.size))


def _usable(u: Array, values: Array, slopes: Array) -> tuple[Array, Array, Array]:
    """The samples at which everything is finite; values may be infinite, or gradients missing, at isolated points."""
    if np.isnan(values).any() or np.isneginf(values).any():
        raise ValueError("constraints: got a value that is not finite inside the domain; expected finite numbers")
    good = np.isfinite(values).all(axis=1) & np.isfinite(slopes).all(axis=(1, 2))
    if good.sum() < 2:
        raise ValueError(
            "constraints: got no finite gradient at sampled decisions; expected finite subgradients (jnp.linalg.norm, for "
            "one, has none at 0)"
        )
    return u[good], values[good], slopes[good]


def _refuse_concave(u: Array, values: Array, slopes: Array, reach: Array) -> None:
    """Raise if a constraint lies below one of its tangents: g(y) >= g(x) + <gradient g(x), y - x> for convex g."""
    planes = values[:, None, :] + np.einsum("kmd,kld->klm", slopes, u[None, :, :] - u[:, None, :])
    below = planes - values[None, :, :]
    allowed = BENT * (reach + np.linalg.norm(slopes, axis=2).max(axis=0))
    if np.any(below > allowed):
        x, y, i = np.unravel_index(int(np.argmax(below / allowed)), below.shape)
        raise ValueError(
            f"constraints: got a function that is not convex: constraint {i} lies {below[x, y, i]:.3g} below its own "
            "tangent inside the domain; expected convex constraints"
        )


def sample_points(frame: Frame, key: jax.Array, count: int) -> Array:
    """Points of the frame: the centre first, then inner and outer ones in turn."""
    every = np.asarray(_sampled(frame, key))
    inner, outer = every[1 : 1 + POINTS // 2], every[1 + POINTS // 2 :]
    return np.concatenate([every[:1], np.stack([inner, outer], axis=1).reshape(-1, frame.size)])[:count]


@jax.jit
def _sampled(frame: Frame, key: jax.Array) -> jax.Array:
    return jax.vmap(frame.flat)(sample_decisions(frame.domain, key, POINTS))


def _share(error: jax.Array, *terms: jax.Array) -> jax.Array:
    size = sum(jnp.max(jnp.abs(term)) for term in terms)
    return jnp.max(jnp.abs(error)) / jnp.where(size > 0, size, 1)


@dataclass(frozen=True)
class _Part(Stream):
    """The first rounds of a stream."""

    whole: Stream
    horizon: int  # type: ignore[misc]

    @property
    def seeds(self) -> int:  # type: ignore[override]
        return self.whole.seeds

    def block(self, start: int, length: int) -> Any:
        return self.whole.block(start, length)
