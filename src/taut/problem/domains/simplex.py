"""The simplex: shares of a total, and the projection by sorting that the l1 ball needs as well."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ... import arguments, files
from ...engine import Array
from ...extras import optional
from .base import Domain, working


@dataclass(frozen=True, init=False, eq=False)
class Simplex(Domain, leaves=("total",)):
    """The simplex {x : x >= 0, sum x = total}: `Simplex(3)`, or `Simplex(1.0, shape=3)`."""

    total: float
    shape: tuple[int, ...]

    def __init__(
        self,
        dimension: float | None = None,
        total: float | None = None,
        *,
        shape: int | tuple[int] | None = None,
    ) -> None:
        if shape is not None and dimension is not None and total is None:
            dimension, total = None, dimension  # Simplex(1.0, shape=3), as in Ball(1.0, shape=3)
        if (dimension is None) == (shape is None):
            came = "neither dimension nor shape" if shape is None else "both dimension and shape"
            raise TypeError(
                f"dimension: got {came}; expected one of them, for example taut.Simplex(3, "
                "total=1.0)"
            )
        if isinstance(dimension, float):
            raise TypeError(
                f"dimension: got {dimension}; expected a whole number. The number of entries "
                "comes first, then the total: taut.Simplex(80, 1.0)"
            )
        if isinstance(shape, tuple) and len(shape) != 1:
            raise ValueError(
                f"shape: got {shape}; expected one axis, because a simplex holds vectors"
            )
        size = dimension if shape is None else shape[0] if isinstance(shape, tuple) else shape
        self._set(
            total=arguments.positive("total", 1.0 if total is None else total),
            shape=(arguments.count("dimension", size),),
        )

    @property
    def dimension(self) -> int:
        """The number of entries."""
        return self.shape[0]

    @property
    def centre(self) -> jax.Array:
        """Equal shares."""
        return jnp.full(self.shape, self.total / self.dimension)

    @property
    def radius(self) -> Any:
        """From equal shares to a vertex: total * sqrt(1 - 1/n)."""
        return self.total * math.sqrt(1 - 1 / self.dimension)

    @property
    def diameter(self) -> Any:
        """From vertex to vertex: total * sqrt(2); zero in one dimension."""
        return self.total * math.sqrt(2) if self.dimension > 1 else self.total * 0.0

    def project(self, x: jax.Array) -> jax.Array:
        """max(x - threshold, 0), the threshold found by sorting."""
        x = self._decision(x)
        return onto_simplex(x.astype(working(x)), self.total)[0].astype(x.dtype)

    def _project_in_numpy(self, rows: Array) -> Array:
        return np.asarray(onto_simplex(rows, self.total, np)[0])

    def contains(self, x: jax.Array, tolerance: float = 1e-9) -> jax.Array:
        """Whether no entry is negative and the sum is `total`."""
        x = self._decision(x)
        total = jnp.asarray(self.total, working(x))
        slack = self._slack(x, total, tolerance)
        return (jnp.min(x) >= -slack) & (jnp.abs(jnp.sum(x.astype(total.dtype)) - total) <= slack)

    def sample(self, key: jax.Array) -> jax.Array:
        """Exponentials divided by their sum."""
        shares = jax.random.exponential(key, self.shape)
        return self.total * shares / jnp.sum(shares)

    def scaled(self, factor: float) -> Domain:
        """The total times `factor`."""
        return type(self)(self.dimension, factor * self.total)

    def _minimisers(self, directions: Any, xp: Any) -> Any:
        """All of the total in the first of the smallest entries."""
        first = xp.arange(directions.shape[1])[None] == xp.argmin(directions, axis=1)[:, None]
        return xp.where(first, self.total, 0.0)

    def to_cvxpy(self, x: Any) -> list[Any]:
        """Non-negativity and one linear equation."""
        cp = optional("cvxpy")

        return [x >= 0, cp.sum(x) == self.total]

    def to_dict(self) -> dict[str, Any]:
        """Dimension and total."""
        return {
            "kind": files.class_name(type(self)),
            "dimension": self.dimension,
            "total": float(self.total),
        }


def onto_simplex(x: Any, total: Any, xp: Any = jnp) -> tuple[Any, Any]:
    """The projection p = max(x - threshold, 0) of vectors, on the last axis of `x`, on {p >= 0, sum
    p = total}; the threshold. `xp` is numpy or jax.numpy.

    The threshold is max_j (sum of the j largest - total) / j: each j bounds it from below, and the
    j that counts the positive entries of p reaches it.
    """
    ordered = xp.flip(xp.sort(x, axis=-1), axis=-1)
    counts = xp.arange(1, x.shape[-1] + 1, dtype=x.dtype)

    def threshold_from(origin: Any) -> Any:
        sums = xp.cumsum(ordered - origin, axis=-1) - xp.asarray(total, x.dtype)
        return xp.max(sums / counts, axis=-1, keepdims=True)

    # Measured from the largest entry, far points lose no digits; measured once more from the
    # threshold found so, neither do many small entries beside a large one.
    origin = ordered[..., :1] + threshold_from(ordered[..., :1])
    if xp is jnp:
        origin = jax.lax.stop_gradient(origin)
    threshold = threshold_from(origin)
    return xp.maximum(x - origin - threshold, 0), origin + threshold
