"""Constants estimated by sampling decisions of the domain and rounds of the stream."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..engine import Array
from .compatibility import count_constraints, round_shapes
from .constants import Constants
from .domains.support import linear_minimisers
from .problem import Problem
from .sampling import generator, sample_decisions, sample_large_rounds, sample_revealed
from .streams import Adversary, RoundData, Stream

ROUNDS = 64
"""Rounds that are evaluated at all sampled decisions, fewer if these are many."""
ENTRIES = 50_000_000
"""The number of entries of gradients that are computed for all these pairs."""
ALONG = 16
"""Rounds with the largest loss gradients, along which further decisions are added."""
SCAN_POINTS = 4
"""Decisions at which the gradient of the loss is computed in every round of the stream,"""
SCANNED = 100_000_000
"""if that takes at most this many entries of gradients."""
DENSE = 200
"""Up to this many entries of a decision, second derivatives are looked at as full matrices."""


def estimate(problem: Problem, stream: Stream, key: jax.Array, samples: int) -> Constants:
    """All constants that sampling can estimate, marked as estimated; `basis` says from what.

    Rounds with large data and rounds drawn at random are evaluated at all sampled decisions.
    Gradients of the loss are also evaluated in every round of the stream, at a few decisions,
    unless that would take long.
    """
    where, when = jax.random.split(key)
    centre = jnp.asarray(problem.domain.centre)
    count = count_constraints(
        problem, centre, problem.given(round_shapes(stream, centre, key), centre), "stream"
    )
    size = int(np.prod(problem.domain.shape)) * (1 + count)
    points = sample_decisions(
        problem.domain, where, int(np.clip(ENTRIES // (ROUNDS * size), min(samples, 32), samples))
    )
    wanted = int(np.clip(ENTRIES // (len(points) * size), 8, ROUNDS))
    if isinstance(stream, Adversary):
        data, read = sample_revealed(stream, when, wanted, points), 0
    else:
        data, read = sample_large_rounds(stream, when, wanted)
    if problem.previous:
        data = RoundData(data, _previous_decisions(points, when, jax.tree.leaves(data)[0].shape[0]))
    points = np.concatenate([points, _along_gradients(problem, data)])
    losses, loss_slopes, reach, slopes, values = _first_order(problem, points, data)
    seen = {
        "loss": losses,
        "loss gradient": loss_slopes,
        "constraints": reach,
        "constraint gradient": slopes,
    }
    for name, numbers in seen.items():
        if not np.all(np.isfinite(numbers)):
            raise ValueError(
                f"{name}: got a value that is not finite inside the domain; expected finite numbers"
            )
    steepest, scanned = _steepest_of_all(problem, points, loss_slopes, stream)
    known: dict[str, Any] = {
        "loss_lipschitz": max(steepest, float(loss_slopes.max())),
        "constraint_lipschitz": float(slopes.max()),
        "loss_range": float((losses.max(axis=1) - losses.min(axis=1)).max()),
        "constraint_range": float(reach.max()),
    }
    if known["loss_lipschitz"] == 0 and problem.constants.loss_lipschitz is None:
        raise ValueError(
            f"loss: the gradient is zero in all of {len(losses)} sampled rounds at {len(points)} "
            "decisions, so that loss_lipschitz cannot be estimated. Check that the loss depends "
            "on the decision and that the stream is the one to be played, or give loss_lipschitz "
            "in taut.Constants(...)"
        )
    # At the sampled decision that satisfies all constraints by most in every round.
    deepest = float(values.max(axis=(0, 2)).min())
    if deepest < 0:
        known["slater"] = -deepest
    few = points[:: max(1, len(points) // 16)]
    known |= _second_order(
        problem, jnp.asarray(few), jax.tree.map(lambda a: jnp.asarray(a[:8]), data)
    )
    basis = f"{len(points)} decisions x {len(losses)} rounds"
    if scanned:
        basis += f", loss gradients in all {scanned:,} rounds at {SCAN_POINTS} decisions"
    elif read:
        basis += f" chosen by the size of their data among {read:,}"
    halves = min(float(part.max()) for part in (loss_slopes[:, ::2], loss_slopes[:, 1::2]))
    basis += (
        f"; half of the decisions reach {halves / max(float(loss_slopes.max()), 1e-300):.0%} of "
        "the largest loss gradient"
    )
    sampled = Constants(basis=basis).with_values(estimated=True, **known)
    return sampled.with_values(exact=True, constraint_count=count)


def _previous_decisions(points: Array, key: jax.Array, count: int) -> Array:
    """Previous decisions for so many rounds: any decision may have been played before."""
    return points[generator(key).integers(0, len(points), size=count)]


def _along_gradients(problem: Problem, data: Any) -> Array:
    """The decisions that lie furthest along, and against, the steepest loss gradients at the
    centre.

    Affine losses attain their range there, and quadratic ones often their largest gradient.
    """
    domain = problem.domain
    centre, batch = jnp.asarray(domain.centre), jax.tree.map(jnp.asarray, data)
    gradients = np.asarray(
        jax.jit(lambda data: jax.lax.map(lambda z: problem.round(z).gradient(centre), data))(batch),
        float,
    )
    directions = gradients.reshape(len(gradients), -1)
    directions = directions[np.isfinite(directions).all(axis=1)]
    steepest = np.argsort(-np.linalg.norm(directions, axis=1), kind="stable")[:ALONG]
    directions = directions[steepest]
    both = np.concatenate([directions, -directions])
    return linear_minimisers(domain, both[np.any(both, axis=1)]).reshape(-1, *domain.shape)


def _first_order(problem: Problem, points: Array, data: Any) -> tuple[Array, ...]:
    """Loss and its slope, max |g_i|, the largest slope of g_i, and g: rounds x decisions."""

    def first_order(x: jax.Array, z: Any) -> tuple[jax.Array, ...]:
        round = problem.round(z)
        values, pull, _ = round.constraints(x)
        # One gradient per constraint: pull every unit vector back.
        slopes = jax.vmap(lambda w: jnp.sqrt(jnp.sum(pull(w) ** 2)))(
            jnp.eye(values.shape[0], dtype=values.dtype)
        )
        loss_slope = jnp.sqrt(jnp.sum(round.gradient(x) ** 2))
        return round.loss(x), loss_slope, jnp.max(jnp.abs(values)), jnp.max(slopes), values

    # One round after the other, so that memory holds the gradients of one round only.
    everywhere = jax.jit(
        lambda points, data: jax.lax.map(
            lambda z: jax.vmap(lambda x: first_order(x, z))(points), data
        )
    )
    return tuple(
        np.asarray(a) for a in everywhere(jnp.asarray(points), jax.tree.map(jnp.asarray, data))
    )


def _steepest_of_all(
    problem: Problem, points: Array, slopes: Array, stream: Stream
) -> tuple[float, int]:
    """The largest loss gradient at the steepest decisions in all rounds, and their number."""
    rounds = stream.horizon * stream.seeds
    if stream.reacts or rounds * int(np.prod(problem.domain.shape)) * SCAN_POINTS > SCANNED:
        return 0.0, 0
    few = jnp.asarray(points[np.argsort(-slopes.max(axis=0), kind="stable")[:SCAN_POINTS]])
    block = max(1, min(stream.horizon, 4096 // stream.seeds))

    @jax.jit
    def steepest(data: Any) -> jax.Array:
        def slope(x: jax.Array, z: Any) -> jax.Array:
            return jnp.sqrt(jnp.sum(problem.round(z).gradient(x) ** 2))

        return jnp.max(jax.vmap(lambda x: jax.vmap(jax.vmap(lambda z: slope(x, z)))(data))(few))

    maximum = 0.0
    for start in range(0, stream.horizon, block):
        at = min(start, stream.horizon - block)  # the last block overlaps: all have one length
        data = jax.tree.map(jnp.asarray, stream.block(at, block))
        if problem.previous:
            drawn = _previous_decisions(points, jax.random.key(at), stream.seeds * block)
            data = RoundData(
                data, jnp.asarray(drawn.reshape(stream.seeds, block, *problem.domain.shape))
            )
        largest = float(steepest(data))
        if not np.isfinite(largest):
            raise ValueError(
                "loss gradient: got a value that is not finite inside the domain; expected "
                "finite numbers"
            )
        maximum = max(maximum, largest)
    return maximum, rounds


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
        return jnp.linalg.eigvalsh(jax.hessian(loss)(x))[0], jnp.max(
            jnp.abs(jnp.linalg.eigvalsh(bends))
        )

    lowest, highest = jax.jit(jax.vmap(jax.vmap(curvature, in_axes=(0, None)), in_axes=(None, 0)))(
        flat, data
    )
    modulus = float(np.asarray(lowest).min())
    known = {"strong_convexity": modulus if modulus > 1e-9 else 0.0}
    bend = float(np.asarray(highest).max())
    # Kinks have no curvature almost everywhere: a zero second derivative proves nothing unless g is
    # affine.
    if np.isfinite(bend) and _no_kinks(problem, points, data, bend):
        known["constraint_smoothness"] = bend
    return known


def _no_kinks(problem: Problem, points: jax.Array, data: Any, bend: float) -> bool:
    """Whether gradients of pairs differ by no more than the sampled curvature explains."""

    def slopes(x: jax.Array, z: Any) -> jax.Array:
        return problem.constraints.linearise(x, z).jacobian()

    rows = np.asarray(jax.vmap(lambda x: slopes(x, jax.tree.map(lambda a: a[0], data)))(points))
    flat = np.asarray(points).reshape(len(points), -1)
    change = np.linalg.norm(rows[1:] - rows[:-1], axis=-1).max(axis=-1)
    return bool(
        np.all(change <= (1.001 * bend) * np.linalg.norm(flat[1:] - flat[:-1], axis=-1) + 1e-9)
    )
