"""optax in a `lax.scan` with a hand-written multiplier, as a JAX user without taut would write it.

It uses the same loss and constraint functions, `optax.sgd` on the gradient of the Lagrangian, and
`optax.projections`.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from .cases import Case
from .played import Play, Played


def prepare(case: Case, seeds: int, rounds: int) -> Play:
    """Return a function that simulates all seeds by vmap."""
    data = jax.device_put(case.data(seeds)[:, :rounds])
    eta, sigma = case.steps
    stated, loss = case.problem.constraints, case.problem.loss
    stated = getattr(stated, "inner", stated)  # the maximum over the constraints is taken below
    aggregated = case.scored < case.count
    optimiser = optax.sgd(eta)

    def constraints(x: Any, z: Any) -> Any:
        values = stated.values(x, z)
        return jnp.max(values, keepdims=True) if aggregated else values

    def lagrangian(x: Any, z: Any) -> Any:
        values = constraints(x, z)
        multiplier = jax.lax.stop_gradient(jnp.maximum(values, 0) / (sigma * eta))
        value = loss(x, z)
        return value + multiplier @ values, (value, values)

    def step(carry: Any, z: Any) -> Any:
        x, state, (violation, squared, excess, peak, total) = carry
        slope, (value, values) = jax.grad(lagrangian, has_aux=True)(x, z)
        update, state = optimiser.update(slope, state, x)
        clipped = jnp.maximum(values, 0)
        totals = (
            violation + clipped,
            squared + clipped**2,
            excess + values,
            jnp.maximum(peak, clipped),
            total + value,
        )
        x = optax.projections.projection_l2_ball(optax.apply_updates(x, update), case.radius)
        return (x, state, totals), (value, jnp.max(values))

    @jax.jit
    @partial(jax.vmap, in_axes=(None, 0))
    def run(x: Any, z: Any) -> Any:
        nothing = jnp.zeros(case.scored)
        (x, _, totals), rows = jax.lax.scan(
            step, (x, optimiser.init(x), (nothing,) * 4 + (0.0,)), z
        )
        return x, rows, totals  # all of them: XLA would not compute what is not returned

    first = jnp.asarray(case.first, float)

    def play() -> Played:
        x, (losses, worst), totals = jax.block_until_ready(run(first, data))
        return Played(np.asarray(x), np.asarray(losses), np.asarray(worst), np.asarray(totals[0]))

    return play
