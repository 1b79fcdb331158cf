"""What XLA takes for the passes of one round over the decision: loops in plain JAX with one pass after the other.

Logistic regression with 1,000 coefficients. The loops compute no loss, keep no totals and check nothing, so the last of them is
about what a JAX program with these passes takes at least.
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

PASSES = ("step", "+ product with the data", "+ norm", "+ norm of the step, projection")
"""In the order in which they are added. The step is first, because XLA would leave out passes whose result no round needs."""


def measure(repeats: int) -> list[dict[str, Any]]:
    """Return the time per round with one pass, two passes, and so on; then that of taut and of hand-written C."""
    case = cases.logistic(1000, 1, 5000)
    data, first = jax.device_put(case.data(1)[0]), jnp.asarray(case.first, float)
    calls: dict[str, Callable[[], Any]] = {}
    for count, name in enumerate(PASSES, 1):
        run = _loop(count, *case.steps, case.radius)
        calls[name] = partial(lambda run: jax.block_until_ready(run(first, data, len(data))), run)
    calls["taut, chunk = horizon"] = ours.fitted(case, 1, case.horizon)
    calls["C"] = native.prepare(case, 1, case.horizon)
    took = interleaved(calls, repeats)
    c = took["C"].median
    return [{"name": name, **took[name].per(case.horizon)._asdict(), "ratio": took[name].median / c} for name in calls]


def _loop(count: int, eta: float, sigma: float, radius: float) -> Any:
    """Return a compiled loop over the rounds with the first `count` passes."""

    def one(data: jax.Array, i: jax.Array, x: jax.Array) -> jax.Array:
        z = lax.dynamic_index_in_dim(data, i, 0, keepdims=False)
        margin = jnp.sum(lax.optimization_barrier(z) * x) if count >= 2 else 1.0
        length = jnp.sqrt(jnp.sum(x * x)) if count >= 3 else 1.0
        excess = jnp.maximum(length - 2.0, 0)
        y = x + eta / (1 + jnp.exp(margin)) * z - excess / (sigma * length + 1e-9) * x
        if count < 4:
            return y
        squares = jnp.sum(lax.optimization_barrier(y) ** 2)
        return y * (radius * lax.rsqrt(jnp.maximum(squares, radius**2)))

    def run(x: jax.Array, data: jax.Array, rounds: int) -> jax.Array:
        return lax.fori_loop(0, rounds, partial(one, data), x)

    return jax.jit(run, compiler_options=COMPILER_OPTIONS | TESTED_OPTIONS)
