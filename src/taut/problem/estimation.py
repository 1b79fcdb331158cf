"""Constants by sampling: decisions all over the domain, its boundary included, against rounds of the stream."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .compatibility import count_constraints, round_shapes
from .constants import Constants
from .domains import Domain
from .problem import Problem
from .streams import Adversary, Stream

__all__ = ["estimate", "sample_decisions", "sample_rounds"]

DENSE = 200
"""Up to this many entries of a decision, second derivatives are looked at as full matrices."""


def estimate(problem: Problem, stream: Stream, key: jax.Array, samples: int) -> Constants:
    """Every entry that sampling can tell, marked as estimated."""
    where, when = jax.random.split(key)
    centre = jnp.asarray(problem.domain.centre)
    count = count_constraints(problem, centre, round_shapes(stream, centre, key), "stream")
    points = sample_decisions(problem.domain, where, samples)
    data = sample_rounds(stream, when, min(64, stream.horizon * stream.seeds), points)

    def first_order(x: jax.Array, z: Any) -> tuple[jax.Array, ...]:
        round = problem.round(z)
        values, pull, _ = round.constraints(x)
        # One gradient a constraint: pull every unit vector back.
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
    deepest = float(values.max(axis=(0, 2)).min())  # the sampled decision that is furthest inside in every round
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


@partial(jax.jit, static_argnums=2)
def sample_decisions(domain: Domain, key: jax.Array, count: int) -> jax.Array:
    """Decisions of the domain: its centre, uniform ones, and as many pushed out to the boundary."""
    inside = jax.vmap(domain.sample)(jax.random.split(key, max(1, count // 2)))
    centre = domain.centre[None]
    pushed = jax.vmap(domain.project)(centre + 1e3 * (inside - centre))
    return jnp.concatenate([centre, inside, pushed])


def sample_rounds(stream: Stream, key: jax.Array, count: int, points: jax.Array) -> Any:
    """Data of `count` rounds drawn from the stream, as a pytree with leading axis `count`."""
    seeds, rounds = jax.random.split(key)
    if isinstance(stream, Adversary):
        when = jax.random.randint(rounds, (count,), 1, stream.horizon + 1, jnp.int32)
        against = points[jax.random.randint(seeds, (count,), 0, len(points))]
        return jax.vmap(stream.function)(when, against, jax.random.split(key, count))
    start = np.sort(np.asarray(jax.random.randint(rounds, (count,), 0, stream.horizon)))
    who = np.asarray(jax.random.randint(seeds, (count,), 0, stream.seeds))
    blocks = [jax.tree.map(lambda a, s=s: a[s, 0], stream.block(int(t), 1)) for t, s in zip(start, who, strict=True)]
    data = jax.tree.map(lambda *rows: np.stack(rows), *blocks)
    if not all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(data)):
        raise ValueError("stream: got a value that is not finite; expected finite numbers")
    return jax.tree.map(jnp.asarray, data)
