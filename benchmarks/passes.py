"""What the passes of one round over a long decision take: loops in plain JAX, with passes one after
the other and joined.

Logistic regression with 1,000 coefficients. The loops compute no loss, keep no totals and check
nothing, so the last of them is about what a JAX program takes at least.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from taut.engine import COMPILER_OPTIONS
from taut.play.loop import TESTED_OPTIONS

from . import cases, native, ours
from .timing import interleaved

LOOPS = {
    "five: product with the data; norm; step; norm of the step; projection": (False, False),
    "four: product and norm are formed together": (True, False),
    "three: and the projection is left to the passes of the next round": (True, True),
}
"""What a round has -> whether sums are formed together, and whether the decision is carried as step
and scale."""


def measure(repeats: int) -> list[dict[str, Any]]:
    """Return the time per round of each loop; then that of taut and of hand-written C."""
    case = cases.logistic(1000, 1, 5000)
    data, first = case.placed(1, case.horizon)[0], jnp.asarray(case.first, float)
    calls: dict[str, Callable[[], Any]] = {}
    for name, kind in LOOPS.items():
        run = loop_with(*kind, *case.steps, case.radius)
        calls[name] = partial(lambda run: jax.block_until_ready(run(first, data, len(data))), run)
    calls["taut, chunk = horizon"] = ours.fitted(case, 1, case.horizon)
    calls["C"] = native.prepare(case, 1, case.horizon)
    took = interleaved(calls, repeats)
    c = took["C"].median
    return [
        {"name": name, **took[name].per(case.horizon)._asdict(), "ratio": took[name].median / c}
        for name in calls
    ]


def loop_with(together: bool, carries_scale: bool, eta: float, sigma: float, radius: float) -> Any:
    """Return a compiled loop over the rounds."""

    def sums(z: jax.Array, x: jax.Array) -> Any:
        products = lax.optimization_barrier(z) * x, x * x
        if not together:
            return map(jnp.sum, products)
        zero = jnp.zeros((), x.dtype)
        return lax.reduce(
            products,
            (zero, zero),
            lambda left, right: (left[0] + right[0], left[1] + right[1]),
            (0,),
        )

    def one(
        data: jax.Array, i: jax.Array, carry: tuple[jax.Array, jax.Array]
    ) -> tuple[jax.Array, jax.Array]:
        x = carry[0] * carry[1] if carries_scale else carry[0]
        z = lax.dynamic_index_in_dim(data, i, 0, keepdims=False)
        margin, squares = sums(z, x)
        length = jnp.sqrt(squares)
        excess = jnp.maximum(length - 2.0, 0)
        y = x + eta / (1 + jnp.exp(margin)) * z - excess / (sigma * length + 1e-9) * x
        scale = radius * lax.rsqrt(
            jnp.maximum(jnp.sum(lax.optimization_barrier(y) ** 2), radius**2)
        )
        return (y, scale) if carries_scale else (y * scale, scale)

    def run(x: jax.Array, data: jax.Array, rounds: int) -> jax.Array:
        last, scale = lax.fori_loop(0, rounds, partial(one, data), (x, jnp.ones((), x.dtype)))
        return last * scale if carries_scale else last

    return jax.jit(run, compiler_options=COMPILER_OPTIONS | TESTED_OPTIONS)
