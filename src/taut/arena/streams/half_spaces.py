"""Random half-spaces: all of them fixed, or one of them revealed in every round.

The fixed polytope comes with and without a Slater point, and in many dimensions to measure time. Of
the pool, a round reveals a random half-space, or half of the time the most violated one.
"""

from __future__ import annotations

from functools import cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ...engine import Array
from ...problem.constants import Constants
from ...problem.domains import Box
from ...problem.problem import Problem
from ..stream import Stream

UNIT = Constants(loss_lipschitz=1.0, constraint_lipschitz=1.0, loss_range=2.0)
"""What is known of unit losses on a domain of diameter 2, and of constraints with slope 1."""


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
    vector = np.random.default_rng([1, d]).normal(size=d)
    return np.asarray(vector / np.linalg.norm(vector))


def unit_losses(d: int, seed: int, rounds: int) -> Array:
    """Return linear unit losses with a mean direction, (round, d)."""
    c = np.random.default_rng([2, seed]).normal(size=(rounds, d)) + direction(d)
    return np.asarray(c / np.linalg.norm(c, axis=-1, keepdims=True))


def linear_best(total: Array, normals: Array, levels: Array, side: float) -> float:
    """The smallest total.x with normals x <= levels and |x_i| <= side, by a linear program."""
    from scipy.optimize import linprog

    solution = linprog(total, A_ub=normals, b_ub=levels, bounds=(-side, side), method="highs")
    if solution.status != 0:
        raise RuntimeError(f"the linear program of the comparator failed: {solution.message}")
    return float(solution.fun)


@cache
def polytope(d: int = 10, rows: int = 64, slack: float = 0.1) -> Problem:
    """Return linear unit losses on the box of diameter 2, cut by half-spaces that share a point
    with the slack."""
    a, b = half_spaces(d, rows, slack)
    side = 1 / np.sqrt(d)

    def excess(x: jax.Array) -> jax.Array:
        return jnp.asarray(a, x.dtype) @ x - jnp.asarray(b, x.dtype)

    known = UNIT.with_values(
        constraint_range=float(np.max(side * np.abs(a).sum(axis=1) + np.abs(b))),
        slater=slack if slack > 0 else None,
        constraint_smoothness=0.0,
    )
    return Problem(inner, excess, Box(-side, side, shape=d), known)


def _best_fixed(d: int, rows: int, slack: float, c: Any, rounds: int) -> float:
    return linear_best(c.sum(axis=0), *half_spaces(d, rows, slack), 1 / np.sqrt(d))


def fixed_rows(name: str, d: int = 10, rows: int = 64, slack: float = 0.1, **facts: Any) -> Stream:
    """Return the stream for a dimension, a number of half-spaces and a slack."""
    return Stream(
        name,
        f"linear losses in {d} dimensions, {rows} fixed half-spaces with slack {slack:g}",
        partial(polytope, d, rows, slack),
        partial(unit_losses, d),
        "random half-spaces through a common point; the slack is varied as in the code of Yu, "
        "Lee & Lee 2026",
        best=partial(_best_fixed, d, rows, slack),
        known={"Slater gap": f"{slack:g}" if slack > 0 else "none", "smoothness": "affine"},
        **facts,
        family="polytope",
    )


ROWS, SLACK = 64, 0.1


@cache
def pool(d: int, adaptive: bool) -> Problem:
    """Return the problem. `adaptive` rounds have the maximum of all rows, which is the most
    violated one at the decision."""
    a, b = half_spaces(d, ROWS, SLACK)
    side = 1 / np.sqrt(d)

    def row(x: jax.Array, z: Any) -> jax.Array:
        return jnp.asarray(a, x.dtype)[z["row"]] @ x - jnp.asarray(b, x.dtype)[z["row"]]

    def worst_or_row(x: jax.Array, z: Any) -> jax.Array:
        values = jnp.asarray(a, x.dtype) @ x - jnp.asarray(b, x.dtype)
        return values[jnp.where(z["worst"], jnp.argmax(values), z["row"])]

    known = UNIT.with_values(
        constraint_count=1,
        slater=SLACK,
        constraint_range=float(np.max(side * np.abs(a).sum(axis=1) + np.abs(b))),
        constraint_smoothness=None if adaptive else 0.0,
    )
    return Problem(linear_loss, worst_or_row if adaptive else row, Box(-side, side, shape=d), known)


def _draw(d: int, adaptive: bool, seed: int, rounds: int) -> Any:
    data: dict[str, Any] = {
        "c": unit_losses(d, seed, rounds),
        "row": np.random.default_rng([3, seed]).integers(ROWS, size=rounds).astype(np.int32),
    }
    if adaptive:
        data["worst"] = np.random.default_rng([5, seed]).random(rounds) < 0.5
    return data


def _best(d: int, z: Any, rounds: int) -> float:
    a, b = half_spaces(d, ROWS, SLACK)
    seen = np.arange(ROWS) if "worst" in z and np.any(z["worst"]) else np.unique(z["row"])
    return linear_best(z["c"].sum(axis=0), a[seen], b[seen], 1 / np.sqrt(d))


def drawn_rows(name: str, d: int, adaptive: bool) -> Stream:
    """Return the stream for a dimension, with rows at random or half of the time the most violated
    row."""
    kind = (
        "the most violated one half of the time, else a random one" if adaptive else "a random one"
    )
    return Stream(
        name,
        f"linear losses in {d} dimensions; every round reveals one of {ROWS} half-spaces, {kind}",
        partial(pool, d, adaptive),
        partial(_draw, d, adaptive),
        "rows that come back; separates methods that remember constraints from methods that do not",
        "changing constraints",
        best=partial(_best, d),
        known={"Slater gap": f"{SLACK:g}", "half-spaces": str(ROWS)},
        family="pool",
        normals=ROWS,
    )


STREAMS = (
    fixed_rows("polytope"),
    fixed_rows("polytope-thin", slack=0.01),
    fixed_rows("polytope-flat", slack=0.0),
    fixed_rows(
        "high-dimension",
        1000,
        500,
        setting="time only",
        longest=2**9,
        seeds=1,
        ranked=False,
    ),
    drawn_rows("pool-adaptive", 10, True),
    drawn_rows("pool-random", 20, False),
)
