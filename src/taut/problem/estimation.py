"""Constants estimated by sampling decisions of the domain and rounds of the stream."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .compatibility import count_constraints, round_shapes
from .constants import Constants
from .problem import Problem
from .sampling import sample_decisions, sample_rounds
from .streams import Stream

__all__ = ["estimate"]

DENSE = 200
"""Up to this many entries of a decision, second derivatives are looked at as full matrices."""


def estimate(problem: Problem, stream: Stream, key: jax.Array, samples: int) -> Constants:
    """All constants that sampling can estimate, marked as estimated."""
    where, when = jax.random.split(key)
    centre = jnp.asarray(problem.domain.centre)
    count = count_constraints(problem, centre, round_shapes(stream, centre, key), "stream")
    points = jnp.asarray(sample_decisions(problem.domain, where, samples))
    data = sample_rounds(stream, when, min(64, stream.horizon * stream.seeds), points)

    def first_order(x: jax.Array, z: Any) -> tuple[jax.Array, ...]:
        round = problem.round(z)
        values, pull, _ = round.constraints(x)
        # One gradient per constraint: pull every unit vector back.
        slopes = jax.vmap(lambda w: jnp.sqrt(jnp.sum(pull(w) ** 2)))(jnp.eye(values.shape[0], dtype=values.dtype))
        loss_slope = jnp.sqrt(jnp.sum(round.gradient(x) ** 2))
        return round.loss(x), loss_slope, jnp.max(jnp.abs(values)), jnp.max(slopes), values

    everywhere = jax.jit(jax.vmap(jax.vmap(first_order, in_axes=(0, None)), in_axes=(None, 0)))  # rounds x decisions
    losses, loss_slopes, reach, slopes, values = (np.asarray(a) for a in everywhere(points, data))
    seen = {"loss": losses, "loss gradient": loss_slopes, "constraints": reach, "constraint gradient": slopes}
    for name, numbers in seen.items():
        if not np.all(np.isfinite(numbers)):
            raise ValueError(f"{name}: got a value that is not finite inside the domain; expected finite numbers")
    known: dict[str, Any] = {
        "loss_lipschitz": float(loss_slopes.max()),
        "constraint_lipschitz": float(slopes.max()),
        "loss_range": float((losses.max(axis=1) - losses.min(axis=1)).max()),
        "constraint_range": float(reach.max()),
    }
    deepest = float(
        values.max(axis=(0, 2)).min()
    )  # at the sampled decision that satisfies all constraints by most in every round
    if deepest < 0:
        known["slater"] = -deepest
    known |= _second_order(problem, points[:: max(1, samples // 16)], jax.tree.map(lambda a: a[:8], data))
    sampled = Constants().with_values(estimated=True, **known)
    return sampled.with_values(exact=True, constraint_count=count)


def _second_order(problem: Problem, points: jax.Array, data: Any) -> dict[str, float]:
    size = int(np.prod(problem.domain.shape))
    if size > DENSE:
        return {}
    flat = points.reshape(points.shape[0], size)

    def curvature(x: jax.Array, z: Any) -> tuple[jax.Array, jax.Array]:
        def loss(v: jax.Array) -> jax.Array:
            return problem.round(z).loss(v.reshape(problem.domain.shape))

        def values(v: jax.Array) -> jax.Array:
            return problem.constraints.values(v.reshape(problem.domain.shape), z)

        bends = jax.hessian(values)(x)
        return jnp.linalg.eigvalsh(jax.hessian(loss)(x))[0], jnp.max(jnp.abs(jnp.linalg.eigvalsh(bends)))

    lowest, highest = jax.jit(jax.vmap(jax.vmap(curvature, in_axes=(0, None)), in_axes=(None, 0)))(flat, data)
    modulus = float(np.asarray(lowest).min())
    known = {"strong_convexity": modulus if modulus > 1e-9 else 0.0}
    bend = float(np.asarray(highest).max())
    # Kinks have no curvature almost everywhere: a zero second derivative proves nothing unless g is affine.
    if np.isfinite(bend) and _no_kinks(problem, points, data, bend):
        known["constraint_smoothness"] = bend
    return known


def _no_kinks(problem: Problem, points: jax.Array, data: Any, bend: float) -> bool:
    """Whether gradients differ by no more than the sampled curvature explains, over pairs of decisions."""

    def slopes(x: jax.Array, z: Any) -> jax.Array:
        values, pull, _ = problem.constraints.linearise(x, z)
        return jax.vmap(lambda w: pull(w).ravel())(jnp.eye(values.shape[0], dtype=values.dtype))

    rows = np.asarray(jax.vmap(lambda x: slopes(x, jax.tree.map(lambda a: a[0], data)))(points))
    flat = np.asarray(points).reshape(len(points), -1)
    change = np.linalg.norm(rows[1:] - rows[:-1], axis=-1).max(axis=-1)
    return bool(np.all(change <= (1.001 * bend) * np.linalg.norm(flat[1:] - flat[:-1], axis=-1) + 1e-9))
