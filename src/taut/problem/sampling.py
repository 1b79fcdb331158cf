"""Samples of decisions and of rounds, for everything that is estimated or checked by sampling."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..engine import Array
from .domains import Domain
from .domains.support import centre_of, linear_minimisers, project_rows
from .streams import Adversary, Stream

OUTSIDE = 3.0
"""How many radii from the centre points lie whose projections are on the boundary."""
BLOCK = 2**20
"""Numbers that are read from a stream at once,"""
READ = 50_000_000
"""and all together."""


def generator(key: Any) -> np.random.Generator:
    """A NumPy generator that is seeded by a JAX random key; a generator is returned as it is."""
    if isinstance(key, np.random.Generator):
        return key
    if jnp.issubdtype(key.dtype, jax.dtypes.prng_key):
        key = jax.random.key_data(key)
    return np.random.default_rng(np.asarray(key).ravel())


def sample_decisions(domain: Domain, key: Any, count: int) -> Array:
    """`count` decisions of the domain, (count, *shape): the centre first, then three kinds of
    points in turn.

    These are points inside, points on the boundary (projections from outside), and extreme points
    (minimisers of random linear functions, which are the vertices of boxes and simplices). `key` is
    a JAX random key or a NumPy generator.
    """
    rng, size = generator(key), math.prod(domain.shape)
    centre = centre_of(domain).astype(float).reshape(1, -1)
    normal = rng.normal(size=(count - 1, size))
    unit = normal / np.linalg.norm(normal, axis=1, keepdims=True)
    kind = np.arange(count - 1) % 3
    length = np.where(kind == 1, OUTSIDE, rng.uniform(size=count - 1) ** (1 / size))
    points = centre + float(domain.radius) * length[:, None] * unit
    extreme = kind == 2
    points[~extreme] = project_rows(domain, points[~extreme])
    if extreme.any():
        points[extreme] = linear_minimisers(domain, normal[extreme])
    return np.concatenate([centre, points]).reshape(count, *domain.shape)


def sample_rounds(stream: Stream, key: Any, count: int, horizon: int | None = None) -> Any:
    """Data of `count` rounds drawn from a stream, as a pytree of NumPy arrays with leading axis
    `count`. The same round can be drawn twice.

    Arguments:
        stream: the data.
        key: a JAX random key or a NumPy generator.
        count: number of rounds.
        horizon: draw from the first so many rounds; by default from all.
    """
    rng = generator(key)
    rounds = np.sort(rng.integers(0, horizon or stream.horizon, size=count))
    return rounds_at(stream, rng.integers(0, stream.seeds, size=count), rounds)


def sample_revealed(adversary: Adversary, key: Any, count: int, points: Array) -> Any:
    """The same for an adversary, which reveals its data to decisions drawn from `points`, (n,
    *shape): in rounds that are drawn, or from round 1 on if it has a state."""
    rng = generator(key)
    rounds = np.sort(rng.integers(0, adversary.horizon, size=count)) + 1
    decisions = jnp.asarray(points)[rng.integers(0, len(points), size=count)]
    keys = jax.random.split(jax.random.key(int(rng.integers(2**31))), count)
    if adversary.state is None:
        revealed = jax.vmap(adversary.function)(jnp.asarray(rounds, jnp.int32), decisions, keys)
        return jax.tree.map(np.asarray, revealed)
    floating = decisions.dtype
    state = jax.tree.map(
        lambda a: jnp.asarray(a, floating if a.dtype.kind == "f" else None), adversary.state
    )

    def reveal(state: Any, inputs: Any) -> Any:
        after, z = adversary.function(state, *inputs)
        return jax.tree.map(lambda new, old: jnp.asarray(new, old.dtype), after, state), z

    in_turn = jnp.arange(1, count + 1, dtype=jnp.int32)
    return jax.tree.map(np.asarray, jax.lax.scan(reveal, state, (in_turn, decisions, keys))[1])


def rounds_at(stream: Stream, seeds: Array, rounds: Array) -> Any:
    """The data of the given pairs of seed and round (counted from 0), with a leading axis."""
    rows = []
    for seed, number in zip(seeds.tolist(), rounds.tolist(), strict=True):
        block = stream.block(number, 1)
        rows.append([np.asarray(leaf[seed, 0]) for leaf in jax.tree.leaves(block)])
    return jax.tree.unflatten(jax.tree.structure(block), map(np.stack, zip(*rows, strict=True)))


def sample_large_rounds(stream: Stream, key: Any, count: int) -> tuple[Any, int]:
    """Data of at most `count` rounds: half of them have the largest data, the others are drawn from
    those not all zero.

    Large data make large gradients, and rounds without data say nothing. Also returns the number of
    rounds that were read: all, unless the stream is so long that reading would take seconds; then
    evenly spaced blocks are read.
    """
    rng = generator(key)
    width = max(1, stream.width * stream.seeds)
    length = max(1, min(stream.horizon, BLOCK // width))
    starts = np.arange(0, stream.horizon, length)
    most = max(1, READ // (width * length))
    if len(starts) > most:
        starts = starts[np.unique(np.linspace(0, len(starts) - 1, most).astype(int))]
    sizes, numbers = [], []
    for start in starts.tolist():
        block = stream.block(start, min(length, stream.horizon - start))
        leaves = [
            np.asarray(leaf, float).reshape(*leaf.shape[:2], -1) for leaf in jax.tree.leaves(block)
        ]
        with np.errstate(over="ignore"):
            sizes.append(np.stack([np.linalg.norm(leaf, axis=2) for leaf in leaves]))
        numbers.append(start + np.arange(sizes[-1].shape[2]))
    size, rounds = np.concatenate(sizes, axis=2), np.concatenate(numbers)  # (leaf, seed, round)
    if not np.isfinite(size).all():
        bad = int(rounds[np.argmax(~np.isfinite(size).all(axis=(0, 1)))]) + 1
        raise ValueError(
            f"stream: got a value that is not finite in round {bad}; expected finite numbers"
        )
    flat = size.reshape(len(size), -1)
    largest = np.argsort(-flat, axis=1, kind="stable")[:, : max(1, count // (2 * len(flat)))]
    filled = np.flatnonzero(flat.any(axis=0))
    pool = filled if filled.size else np.arange(flat.shape[1])
    drawn = rng.choice(pool, size=min(count // 2, len(pool)), replace=False)
    chosen = np.unique(np.concatenate([largest.ravel(), drawn]))[:count]
    who, when = np.divmod(chosen, len(rounds))
    return rounds_at(stream, who, rounds[when]), len(rounds) * stream.seeds
