"""Shared by several streams: linear losses with a mean direction, random half-spaces, and a linear
program for the comparator."""

from __future__ import annotations

from functools import cache
from typing import Any

import jax
import numpy as np

from ...engine import Array

__all__ = ["half_spaces", "inner", "linear_best", "linear_loss", "unit_losses"]


def inner(x: jax.Array, c: jax.Array) -> jax.Array:
    """Return <c, x>."""
    return c @ x


def linear_loss(x: jax.Array, z: Any) -> jax.Array:
    """Return <c, x> for data with other entries."""
    return z["c"] @ x


@cache
def half_spaces(d: int, rows: int = 64, slack: float = 0.1) -> tuple[Array, Array]:
    """Return unit normals a and levels b of random half-spaces a.x <= b that share a point with the
    slack."""
    rng = np.random.default_rng([0, d])
    a = rng.normal(size=(rows, d))
    a /= np.linalg.norm(a, axis=1, keepdims=True)
    return a, a @ (0.2 * rng.uniform(-1, 1, size=d) / np.sqrt(d)) + slack


@cache
def direction(d: int) -> Array:
    """Return the unit vector that is the mean direction of the losses."""
    found = np.random.default_rng([1, d]).normal(size=d)
    return np.asarray(found / np.linalg.norm(found))


def unit_losses(seed: int, rounds: int, d: int) -> Array:
    """Return linear unit losses with a mean direction, (round, d)."""
    c = np.random.default_rng([2, seed]).normal(size=(rounds, d)) + direction(d)
    return np.asarray(c / np.linalg.norm(c, axis=-1, keepdims=True))


def linear_best(total: Array, normals: Array, levels: Array, side: float) -> float:
    """The smallest total.x with normals x <= levels and |x_i| <= side, by a linear program."""
    from scipy.optimize import linprog

    found = linprog(total, A_ub=normals, b_ub=levels, bounds=(-side, side), method="highs")
    if found.status != 0:
        raise RuntimeError(f"the linear program of the comparator failed: {found.message}")
    return float(found.fun)
