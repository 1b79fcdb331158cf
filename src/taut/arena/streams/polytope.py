"""A fixed polytope of 64 random half-spaces, with and without a Slater point, and one in many
dimensions that measures time."""

from __future__ import annotations

from functools import cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ...problem.constants import Constants
from ...problem.domains import Box
from ...problem.problem import Problem
from ..stream import Stream
from .linear import half_spaces, inner, linear_best, unit_losses

__all__ = ["STREAMS", "problem", "stream"]


@cache
def problem(d: int = 10, rows: int = 64, slack: float = 0.1) -> Problem:
    """Return linear unit losses on the box of diameter 2, cut by half-spaces that share a point
    with the slack."""
    a, b = half_spaces(d, rows, slack)
    side = 1 / np.sqrt(d)

    def excess(x: jax.Array) -> jax.Array:
        return jnp.asarray(a, x.dtype) @ x - jnp.asarray(b, x.dtype)

    known = Constants(
        loss_lipschitz=1.0,
        constraint_lipschitz=1.0,
        loss_range=2.0,
        constraint_range=float(np.max(side * np.abs(a).sum(axis=1) + np.abs(b))),
        slater=slack if slack > 0 else None,
        constraint_smoothness=0.0,
    )
    return Problem(inner, excess, Box(-side, side, shape=d), known)


def _best(d: int, rows: int, slack: float, c: Any, rounds: int) -> float:
    return linear_best(c.sum(axis=0), *half_spaces(d, rows, slack), 1 / np.sqrt(d))


def stream(d: int = 10, rows: int = 64, slack: float = 0.1, name: str = "", **facts: Any) -> Stream:
    """Return the stream for a dimension, a number of half-spaces and a slack."""
    return Stream(
        name or f"polytope-d{d}-m{rows}-slack{slack:g}",
        f"linear losses in {d} dimensions, {rows} fixed half-spaces with slack {slack:g}",
        partial(problem, d, rows, slack),
        partial(_draw, d),
        "random half-spaces through a common point; the slack is varied as in the code of Yu, "
        "Lee & Lee 2026",
        best=partial(_best, d, rows, slack),
        known={"Slater gap": f"{slack:g}" if slack > 0 else "none", "smoothness": "affine"},
        **facts,
        family="polytope",
    )


def _draw(d: int, seed: int, rounds: int) -> Any:
    return unit_losses(seed, rounds, d)


STREAMS = (
    stream(name="polytope"),
    stream(slack=0.01, name="polytope-thin"),
    stream(slack=0.0, name="polytope-flat"),
    stream(
        1000,
        500,
        name="high-dimension",
        setting="time only",
        longest=2**9,
        seeds=1,
        ranked=False,
    ),
)
