"""Losses with their derivatives in the coordinates u of `Scaling`, at many points and rounds.

They are evaluated in NumPy while that is cheaper than to compile them (`taut.problem.jets`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ...engine import Array
from ...problem.interpreter import evaluated
from ...problem.jets import Jets, loss_jets
from .scaling import Scaling

__all__ = ["BlockSums", "block_sums", "decisions", "loss_lines", "loss_products", "loss_slopes"]

SMALL_BLOCK = 2**16
"""Up to this many entries of decisions times rounds, all columns of a Hessian are computed at
once."""


class BlockSums(NamedTuple):
    """Sums over the rounds of a block, by seed."""

    value: Any
    slope: Any
    hessian: Any
    """None if it was not asked for."""
    misfit: Any
    """The largest relative error of a round's second-order polynomial at the probe; None without
    one."""


def loss_slopes(loss: Callable[..., Any], scaling: Scaling, points: Array, data: Any) -> Array:
    """The gradient of each round's loss at each point, (round, point, entry); data have the axis
    `round` first."""
    jets, rounds = _jets(loss, scaling, data), _length(data)
    if jets is None or not jets.cheap(len(points), rounds, 1):
        return np.asarray(_slopes(loss, scaling, points, data))
    found = jets.slopes(decisions(scaling, points), (), _rounds(data))[1]
    return float(scaling.radius) * found.transpose(1, 0, 2)


def loss_lines(
    loss: Callable[..., Any], scaling: Scaling, point: Array, data: Any
) -> tuple[Array, Array]:
    """The value (round,) and the gradient (round, entry) of each round's loss at a point."""
    jets = _jets(loss, scaling, data)
    if jets is None or not jets.cheap(1, _length(data), 1):
        both = _lines(loss, scaling, point, data)
        return np.asarray(both[0]), np.asarray(both[1])
    values, found = jets.slopes(decisions(scaling, point[None]), (), _rounds(data))
    return values[0], float(scaling.radius) * found[0]


def loss_products(
    loss: Callable[..., Any], scaling: Scaling, point: Array, data: Any, directions: Array
) -> Array:
    """The Hessian of each round's loss at the point, times each direction, (round, direction,
    entry)."""
    jets, rounds = _jets(loss, scaling, data), _length(data)
    if jets is None or not jets.cheap(1, rounds, 2, len(directions)):
        return np.asarray(_products(loss, scaling, point, data, directions))
    found = jets.products(decisions(scaling, point[None]), (), _rounds(data), directions)[2]
    return float(scaling.radius) ** 2 * found[:, 0].transpose(1, 0, 2)


def block_sums(
    loss: Callable[..., Any],
    scaling: Scaling,
    with_hessian: bool,
    u: Array,
    data: Any,
    rounds: int,
    probe: Array | None = None,
    second_order: float | None = None,
) -> BlockSums:
    """Sums over a block's first `rounds` rounds: value, slope, the Hessian if wanted, the largest
    misfit at the probe.

    Arguments:
        loss: the loss.
        scaling: the scaling.
        with_hessian: whether the Hessian is wanted.
        u: the point of each seed, (seed, entry).
        data: (seed, round, ...).
        rounds: how many rounds count; the others are padding.
        probe: a direction in which the losses are compared with their polynomials of second order.
        second_order: what the second derivative contributes to these, if it is known.
    """
    one = jax.tree.map(lambda a: a[0], data)
    jets = _jets(loss, scaling, one)
    order = 2 if with_hessian or (probe is not None and second_order is None) else 1
    if jets is None or not jets.cheap(len(u), rounds, order):
        known = None if second_order is None else np.asarray(second_order)
        return BlockSums(
            *_block_sums(loss, scaling, with_hessian, u, probe, known, data, np.asarray(rounds))
        )
    return _sums_in_numpy(
        jets, scaling, order, with_hessian, u, probe, second_order, _first(data, rounds)
    )


def _sums_in_numpy(
    jets: Jets,
    scaling: Scaling,
    order: int,
    with_hessian: bool,
    u: Array,
    probe: Array | None,
    second_order: float | None,
    z: Any,
) -> BlockSums:
    radius, x = float(scaling.radius), decisions(scaling, u)
    if order == 2:
        here, slope, hessian = jets.products(
            x, (), z
        )  # the Hessian has the axes entry, seed, round, entry
        hessian = radius**2 * hessian
    else:
        (here, slope), hessian = jets.slopes(x, (), z), np.zeros(0)
    slope = radius * slope
    total = None
    if with_hessian:
        total = hessian.sum(axis=2).transpose(1, 0, 2)
        total = (total + total.transpose(0, 2, 1)) / 2
    misfit = None
    if probe is not None:
        first = slope @ probe
        second = (
            float(second_order or 0)
            if order == 1
            else np.einsum("isrj,i,j->sr", hessian, probe, probe) / 2
        )
        there = jets.values(decisions(scaling, u + probe), (), z)
        with np.errstate(all="ignore"):
            size = np.abs(here) + np.abs(first) + np.abs(second) + np.abs(there)
            misfit = np.max(
                np.abs(there - here - first - second) / np.where(size > 0, size, 1), axis=1
            )
    return BlockSums(here.sum(axis=1), slope.sum(axis=1), total, misfit)


def _jets(loss: Callable[..., Any], scaling: Scaling, data: Any) -> Jets | None:
    return loss_jets(
        loss, np.zeros(scaling.domain.shape), jax.tree.map(lambda a: np.asarray(a)[0], data)
    )


def decisions(scaling: Scaling, u: Array) -> Array:
    """The decisions at the rows of `u`, the same in all rounds: (point, 1, ...)."""
    return scaling.flat_decision(u).reshape(len(u), 1, *scaling.domain.shape)


def _rounds(data: Any) -> Any:
    return jax.tree.map(lambda a: np.asarray(a)[None], data)


def _first(data: Any, rounds: int) -> Any:
    return jax.tree.map(lambda a: np.asarray(a)[:, :rounds], data)


def _length(data: Any) -> int:
    return len(jax.tree.leaves(data)[0])


@evaluated(static_argnames=("loss",))
def _slopes(loss: Callable[..., Any], scaling: Scaling, points: Any, data: Any) -> jax.Array:
    slope = _slope_of(loss, scaling)
    return jax.vmap(lambda z: jax.vmap(lambda u: slope(u, z))(points))(data)


@evaluated(static_argnames=("loss",))
def _products(
    loss: Callable[..., Any], scaling: Scaling, point: Any, data: Any, directions: Any
) -> jax.Array:
    slope = _slope_of(loss, scaling)

    def one(z: Any) -> jax.Array:
        return jax.vmap(jax.linearize(lambda u: slope(u, z), point)[1])(directions)

    return jax.vmap(one)(data)


@evaluated(static_argnames=("loss",))
def _lines(
    loss: Callable[..., Any], scaling: Scaling, point: Any, data: Any
) -> tuple[jax.Array, jax.Array]:
    def value(u: jax.Array, z: Any) -> jax.Array:
        return jnp.asarray(loss(scaling.decision(u), z), u.dtype)

    found: tuple[jax.Array, jax.Array] = jax.vmap(jax.value_and_grad(value), (None, 0))(point, data)
    return found


def _slope_of(loss: Callable[..., Any], scaling: Scaling) -> Callable[..., jax.Array]:
    return jax.grad(lambda u, z: jnp.asarray(loss(scaling.decision(u), z), u.dtype))


@evaluated(static_argnames=("loss", "with_hessian"))
def _block_sums(
    loss: Callable[..., Any],
    scaling: Scaling,
    with_hessian: bool,
    u: Any,
    probe: Any,
    second_order: Any,
    data: Any,
    rounds: Any,
) -> tuple[jax.Array, jax.Array, jax.Array | None, jax.Array | None]:
    """Sums over the block's first `rounds` rounds: value, slope, the Hessian if wanted, the largest
    misfit at the probe."""

    def one(v: jax.Array, z: Any) -> jax.Array:
        return jnp.asarray(loss(scaling.decision(v), z), v.dtype)

    def seed(
        at: jax.Array, z: Any
    ) -> tuple[jax.Array, jax.Array, jax.Array | None, jax.Array | None]:
        inside = jnp.arange(jax.tree.leaves(z)[0].shape[0]) < rounds

        def total(v: jax.Array) -> jax.Array:
            return jnp.sum(jnp.where(inside, jax.vmap(one, (None, 0))(v, z), 0))

        value, slope = jax.value_and_grad(total)(at)
        columns = None
        if with_hessian:  # one Hessian-vector product per column; few at a time, to save memory

            def column(direction: jax.Array) -> jax.Array:
                return jax.jvp(jax.grad(total), (at,), (direction,))[1]

            unit = jnp.eye(at.size, dtype=at.dtype)
            small = at.size <= 8 or at.size * inside.size <= SMALL_BLOCK
            columns = jax.vmap(column)(unit) if small else jax.lax.map(column, unit, batch_size=8)
            columns = (columns + columns.T) / 2
        if probe is None:
            return value, slope, columns, None

        def misfit(z: Any) -> jax.Array:
            def change(v: jax.Array) -> tuple[jax.Array, jax.Array]:
                return jax.jvp(lambda w: one(w, z), (v,), (probe,))

            if second_order is None:
                (here, first), (_, second) = jax.jvp(change, (at,), (probe,))
                second = second / 2
            else:
                (here, first), second = change(at), second_order
            there = one(at + probe, z)
            size = jnp.abs(here) + jnp.abs(first) + jnp.abs(second) + jnp.abs(there)
            return jnp.abs(there - here - first - second) / jnp.where(size > 0, size, 1)

        return value, slope, columns, jnp.max(jnp.where(inside, jax.vmap(misfit)(z), 0))

    return jax.vmap(seed)(u, data)
