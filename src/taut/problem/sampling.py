"""Samples of decisions and of rounds, for everything that is estimated or checked by sampling."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..engine import Array
from .domains import Domain
from .domains.support import linear_minimisers, project_rows
from .streams import Adversary, Stream

__all__ = ["generator", "sample_decisions", "sample_rounds"]

OUTSIDE = 3.0
"""How many radii from the centre points lie whose projections are on the boundary."""


def generator(key: Any) -> np.random.Generator:
    """A NumPy generator that is seeded by a JAX random key; a generator is returned as it is."""
    if isinstance(key, np.random.Generator):
        return key
    if jnp.issubdtype(key.dtype, jax.dtypes.prng_key):
        key = jax.random.key_data(key)
    return np.random.default_rng(np.asarray(key).ravel())


def sample_decisions(domain: Domain, key: Any, count: int) -> Array:
    """`count` decisions of the domain, (count, *shape): the centre first, then three kinds of points in turn.

    These are points inside, points on the boundary (projections from outside), and extreme points (minimisers of random
    linear functions, which are the vertices of boxes and simplices). `key` is a JAX random key or a NumPy generator.
    """
    rng, size = generator(key), math.prod(domain.shape)
    centre = np.asarray(domain.centre, float).reshape(1, -1)
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


def sample_rounds(
    stream: Stream, key: Any, count: int, points: Any = None, horizon: int | None = None, finite: bool = True
) -> Any:
    """Data of `count` rounds drawn from the stream, as a pytree of NumPy arrays with leading axis `count`.

    Arguments:
        stream: the stream. An adversary reveals its data to decisions drawn from `points`, (n, *shape).
        key: a JAX random key or a NumPy generator.
        count: number of rounds; the same round can be drawn twice.
        points: decisions, needed for an adversary only.
        horizon: draw from the first so many rounds; by default from all.
        finite: raise if the data are not finite.
    """
    rng = generator(key)
    rounds = np.sort(rng.integers(0, horizon or stream.horizon, size=count))
    if isinstance(stream, Adversary):
        against = jnp.asarray(points)[rng.integers(0, len(points), size=count)]
        keys = jax.random.split(jax.random.key(int(rng.integers(2**31))), count)
        revealed = jax.vmap(stream.function)(jnp.asarray(rounds + 1, jnp.int32), against, keys)
        return jax.tree.map(np.asarray, revealed)
    seeds = rng.integers(0, stream.seeds, size=count)
    rows = [
        jax.tree.map(lambda a, s=int(s): np.asarray(a[s, 0]), stream.block(int(t), 1))
        for t, s in zip(rounds, seeds, strict=True)
    ]
    data = jax.tree.map(lambda *leaves: np.stack(leaves), *rows)
    if finite and not all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(data)):
        raise ValueError("stream: got a value that is not finite; expected finite numbers")
    return data
