"""Half-spaces of which every round reveals one: a random one, or half of the time the most violated
one."""

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
from .linear import half_spaces, linear_best, linear_loss, unit_losses

__all__ = ["STREAMS", "problem", "stream"]

ROWS, SLACK = 64, 0.1


@cache
def problem(d: int, adaptive: bool) -> Problem:
    """Return the problem. `adaptive` rounds have the maximum of all rows, which is the most
    violated one at the decision."""
    a, b = half_spaces(d, ROWS, SLACK)
    side = 1 / np.sqrt(d)

    def row(x: jax.Array, z: Any) -> jax.Array:
        return jnp.asarray(a, x.dtype)[z["row"]] @ x - jnp.asarray(b, x.dtype)[z["row"]]

    def worst_or_row(x: jax.Array, z: Any) -> jax.Array:
        values = jnp.asarray(a, x.dtype) @ x - jnp.asarray(b, x.dtype)
        return values[jnp.where(z["worst"], jnp.argmax(values), z["row"])]

    known = Constants(
        loss_lipschitz=1.0,
        constraint_lipschitz=1.0,
        loss_range=2.0,
        constraint_count=1,
        slater=SLACK,
        constraint_range=float(np.max(side * np.abs(a).sum(axis=1) + np.abs(b))),
        constraint_smoothness=None if adaptive else 0.0,
    )
    return Problem(linear_loss, worst_or_row if adaptive else row, Box(-side, side, shape=d), known)


def _draw(d: int, adaptive: bool, seed: int, rounds: int) -> Any:
    found: dict[str, Any] = {
        "c": unit_losses(seed, rounds, d),
        "row": np.random.default_rng([3, seed]).integers(ROWS, size=rounds).astype(np.int32),
    }
    if adaptive:
        found["worst"] = np.random.default_rng([5, seed]).random(rounds) < 0.5
    return found


def _best(d: int, z: Any, rounds: int) -> float:
    a, b = half_spaces(d, ROWS, SLACK)
    seen = np.arange(ROWS) if "worst" in z and np.any(z["worst"]) else np.unique(z["row"])
    return linear_best(z["c"].sum(axis=0), a[seen], b[seen], 1 / np.sqrt(d))


def stream(d: int, adaptive: bool, name: str = "") -> Stream:
    """Return the stream for a dimension, with rows at random or half of the time the most violated
    row."""
    kind = (
        "the most violated one half of the time, else a random one" if adaptive else "a random one"
    )
    return Stream(
        name or f"pool-{'adaptive' if adaptive else 'random'}-d{d}",
        f"linear losses in {d} dimensions; every round reveals one of {ROWS} half-spaces, {kind}",
        partial(problem, d, adaptive),
        partial(_draw, d, adaptive),
        "rows that come back; separates methods that remember constraints from methods that do not",
        "changing constraints",
        best=partial(_best, d),
        known={"Slater gap": f"{SLACK:g}", "half-spaces": str(ROWS)},
        family="pool",
        normals=ROWS,
    )


STREAMS = (stream(10, True, "pool-adaptive"), stream(20, False, "pool-random"))
