"""Dykstra's algorithm, compiled: the projection on the intersection of domain, half-spaces and
ellipsoids."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from .convexity import refuse_concave_constraints
from .scaling import Scaling
from .structure import Structure
from .tolerances import DYKSTRA_CYCLES, DYKSTRA_FEASIBLE, QUADRATIC_ROOT, QUADRATIC_STEPS, STILL

__all__ = ["Pieces", "pieces_of", "project"]


_State = tuple[jax.Array, ...]


class Pieces(NamedTuple):
    """Half-spaces rows @ u <= offsets of unit length, and quadratics c + sum_k (curvatures_k w_k^2
    / 2 + linear_k w_k) <= 0.

    There w = vectors' u are a quadratic's principal axes.
    """

    rows: jax.Array
    offsets: jax.Array
    vectors: jax.Array
    curvatures: jax.Array
    linear: jax.Array
    constant: jax.Array


def pieces_of(structure: Structure, scaling: Scaling) -> Pieces:
    """The pieces of constraints that are affine or quadratic, or an error that asks for a
    projection."""
    if structure.others.size:
        raise ValueError(
            f"projection: got None, but constraint {int(structure.others[0])} is neither affine "
            "nor quadratic; expected a projection on the feasible set"
        )
    lengths = np.linalg.norm(structure.slopes, axis=1)
    kept = lengths > 0
    if np.any(structure.offsets[~kept] > 0):
        raise ValueError(
            "constraints: got a constant above 0, which no decision satisfies; expected a "
            "feasible one"
        )
    curvatures, vectors = np.linalg.eigh(structure.hessians)
    refuse_concave_constraints(
        structure.quadratic,
        structure.hessians,
        np.abs(curvatures).max(axis=1, initial=0),
        float(scaling.radius),
    )
    linear = np.einsum("qik,qi->qk", vectors, structure.linear)
    rows, offsets = (
        structure.slopes[kept] / lengths[kept, None],
        -structure.offsets[kept] / lengths[kept],
    )
    return Pieces(
        *map(
            jnp.asarray,
            (rows, offsets, vectors, np.maximum(curvatures, 0), linear, structure.constant),
        )
    )


def project(pieces: Pieces, scaling: Scaling, u: jax.Array) -> jax.Array:
    """The point of the feasible set nearest to `u`.

    Each set in turn is projected on, after adding back what its last projection took away; Boyle
    and Dykstra (1986) show that this converges to the projection on the intersection. If the
    domain's projection is feasible, that is it.
    """

    def domain(v: jax.Array) -> jax.Array:
        return scaling.scaled(scaling.domain.project(scaling.decision(v)))

    count, quadratics = pieces.rows.shape[0], pieces.curvatures.shape[0]

    def cycle(carry: _State) -> _State:
        v, corrections, _, number = carry
        start = v

        def along(i: jax.Array, state: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
            v, corrections = state
            lifted = v + corrections[i]
            excess = jnp.maximum(pieces.rows[i] @ lifted - pieces.offsets[i], 0)
            moved = lifted - excess * pieces.rows[i]
            return moved, corrections.at[i].set(lifted - moved)

        if count:
            v, corrections = jax.lax.fori_loop(0, count, along, (v, corrections))
        for q in range(quadratics):
            lifted = v + corrections[count + q]
            v = _onto_quadratic(pieces, q, lifted)
            corrections = corrections.at[count + q].set(lifted - v)
        lifted = v + corrections[-1]
        v = domain(lifted)
        corrections = corrections.at[-1].set(lifted - v)
        return v, corrections, jnp.max(jnp.abs(v - start)), number + 1

    def unfinished(carry: _State) -> jax.Array:
        v, _, moved, number = carry
        return (number < DYKSTRA_CYCLES) & (
            (moved > STILL) | (_excess(pieces, v) > DYKSTRA_FEASIBLE)
        )

    first = domain(u)
    done = _excess(pieces, first) <= 0
    corrections = jnp.zeros((count + quadratics + 1, u.size), u.dtype)
    start: _State = (
        jnp.where(done, first, u),
        corrections,
        jnp.inf * jnp.ones(()),
        jnp.where(done, DYKSTRA_CYCLES, 0),
    )
    return jax.lax.while_loop(unfinished, cycle, start)[0]


def _excess(pieces: Pieces, u: jax.Array) -> jax.Array:
    parts = [jnp.full((1,), -jnp.inf, u.dtype)]
    if pieces.rows.shape[0]:
        parts.append(pieces.rows @ u - pieces.offsets)
    if pieces.curvatures.shape[0]:
        w = jnp.einsum("qik,i->qk", pieces.vectors, u)
        parts.append(
            jnp.sum(pieces.curvatures * w * w / 2 + pieces.linear * w, axis=1) + pieces.constant
        )
    return jnp.max(jnp.concatenate(parts))


def _onto_quadratic(pieces: Pieces, q: int, u: jax.Array) -> jax.Array:
    """The nearest point with g <= 0: w(m) = (w - m linear) / (1 + m curvatures), m >= 0 the root of
    g(w(m)) = 0.

    As m grows g(w(m)) decreases and is convex, so that Newton's method from m = 0 never passes the
    root.
    """
    curvatures, linear, constant, vectors = (
        pieces.curvatures[q],
        pieces.linear[q],
        pieces.constant[q],
        pieces.vectors[q],
    )
    start = vectors.T @ u

    def value(m: jax.Array) -> jax.Array:
        w = (start - m * linear) / (1 + m * curvatures)
        return jnp.sum(curvatures * w * w / 2 + linear * w) + constant

    def step(carry: _State) -> _State:
        m, _, number = carry
        height, slope = jax.value_and_grad(value)(m)
        move = jnp.where(slope < 0, -height / jnp.where(slope < 0, slope, 1), 0)
        return m + jnp.maximum(move, 0), height, number + 1

    def unfinished(carry: _State) -> jax.Array:
        _, height, number = carry
        return (number < QUADRATIC_STEPS) & (height > QUADRATIC_ROOT * (1 + jnp.abs(constant)))

    zero = jnp.zeros((), u.dtype)
    first: _State = (zero, value(zero), jnp.zeros((), int))
    m = jax.lax.while_loop(unfinished, step, first)[0]
    return vectors @ ((start - m * linear) / (1 + m * curvatures))
