"""Feasible sets that only shrink: boxes, one face at a time, and balls."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ...engine import Array
from ...problem.domains import Ball, Box
from ...problem.problem import Problem
from ..stream import Stream
from .half_spaces import UNIT, linear_loss, unit_losses

SIZE, LEAST = 10, 0.3
"""The dimension, and the part of the first size below which no set shrinks."""


@cache
def boxes() -> Problem:
    """Return linear unit losses on a box of diameter 2 with the bounds of the round as
    constraints."""
    side = 1 / np.sqrt(SIZE)
    known = UNIT.with_values(
        constraint_range=2 * side,
        slater=LEAST * side,
        constraint_smoothness=0.0,
        error_bound=side,
        constraint_count=2 * SIZE,
    )
    return Problem(linear_loss, _faces, Box(-side, side, shape=SIZE), known)


@cache
def spheres() -> Problem:
    """Return linear unit losses on the unit ball with (|x|^2 - r_t^2) / 2 <= 0."""
    known = UNIT.with_values(
        constraint_range=0.5,
        slater=LEAST**2 / 2,
        constraint_smoothness=1.0,
        error_bound=LEAST,
        constraint_count=1,
    )
    return Problem(linear_loss, _sphere, Ball(1.0, shape=SIZE), known)


def _faces(x: jax.Array, z: Any) -> jax.Array:
    return jnp.concatenate([x, -x]) - z["bounds"]


def _sphere(x: jax.Array, z: Any) -> jax.Array:
    return (jnp.sum(x**2) - z["radius"] ** 2) / 2


def _shrinking(seed: int, rounds: int, count: int) -> Array:
    """Sizes in (LEAST, 1] that never grow, (round, count): in round t one of them shrinks with
    probability 1 / sqrt(t)."""
    rng = np.random.default_rng([6, seed])
    draws = rng.random((rounds, 3))
    logs = np.zeros((rounds, count))
    hit = draws[:, 0] < 1 / np.sqrt(np.arange(1, rounds + 1))
    which = np.minimum((draws[:, 1] * count).astype(int), count - 1)
    logs[np.flatnonzero(hit), which[hit]] = np.log(0.5 + 0.5 * draws[hit, 2])
    return np.asarray(LEAST + (1 - LEAST) * np.exp(np.cumsum(logs, axis=0)))


def _draw_boxes(seed: int, rounds: int) -> Any:
    return {
        "c": unit_losses(SIZE, seed, rounds),
        "bounds": _shrinking(seed, rounds, 2 * SIZE) / np.sqrt(SIZE),
    }


def _draw_spheres(seed: int, rounds: int) -> Any:
    return {"c": unit_losses(SIZE, seed, rounds), "radius": _shrinking(seed, rounds, 1)[:, 0]}


def _best_box(z: Any, rounds: int) -> float:
    upper, lower = np.split(z["bounds"][rounds - 1], 2)
    total = z["c"].sum(axis=0)
    return float(total @ np.where(total > 0, -lower, upper))


def _best_sphere(z: Any, rounds: int) -> float:
    return -float(z["radius"][rounds - 1] * np.linalg.norm(z["c"].sum(axis=0)))


PARTS = 8


def _best_of_parts(best: Callable[[Any, int], float], z: Any, rounds: int) -> float:
    """The total loss of the best decision of each of eight equal parts of the rounds, which is
    feasible in its part."""
    ends = [rounds * k // PARTS for k in range(PARTS + 1)]
    return sum(
        best({name: values[low:high] for name, values in z.items()}, high - low)
        for low, high in pairwise(ends)
        if high > low
    )


_SOURCE = "the instance class of Vaze & Sinha 2025: every feasible set contains the next one"


def _stream(
    kind: str, make: Any, draw: Any, best: Callable[[Any, int], float], **facts: Any
) -> Stream:
    return Stream(
        f"nested-{kind}",
        f"linear losses in {SIZE} dimensions; {kind} that only shrink",
        make,
        draw,
        _SOURCE,
        "changing constraints",
        best=best,
        shifting=partial(_best_of_parts, best),
        shifts=f"the best decision of each of {PARTS} equal parts of the rounds, feasible there",
        family="nested",
        **facts,
    )


STREAMS = (
    _stream(
        "boxes",
        boxes,
        _draw_boxes,
        _best_box,
        known={"Slater gap": "0.0949", "smoothness": "affine", "sets": "nested"},
        normals=2 * SIZE,
    ),
    _stream(
        "spheres",
        spheres,
        _draw_spheres,
        _best_sphere,
        known={"Slater gap": "0.045", "smoothness": "1", "sets": "nested"},
    ),
)
