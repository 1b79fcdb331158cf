"""taut's default learner in a `lax.scan`, as a user of JAX and optax without taut would write it.

It uses the same loss and constraint functions, an optax transformation for the adaptive step, and
`optax.projections`. The formulas are those of `half_space.c`.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import lax

from .cases import Case
from .played import Play, Played

CUTS, SWEEPS, START_UP, LONGER, PARALLEL = 16, 2, 100.0, 2.0, 2e-12
ROUNDING = 8 * float(np.finfo(float).eps)


class Slopes(NamedTuple):
    """The largest squared gradient norm, and the sum of all of them."""

    largest: Any
    total: Any


class Cuts(NamedTuple):
    """Kept half-spaces: unit normals, offsets, and the rounds in which they were last active."""

    normals: Any
    offsets: Any
    active: Any


def step_of(radius: float, slopes: Slopes) -> Any:
    """The step after a round."""
    weighted = START_UP * slopes.largest + slopes.total
    return jnp.where(weighted > 0, radius / jnp.sqrt(weighted), 0.0)


def adaptive(radius: float) -> optax.GradientTransformation:
    """Steps of radius / sqrt(100 max |q|^2 + sum |q|^2), q being gradients that are shortened to
    twice the longest before them."""

    def init(x: Any) -> Slopes:
        return Slopes(jnp.zeros(()), jnp.zeros(()))

    def update(slope: Any, state: Slopes, x: Any = None) -> tuple[Any, Slopes]:
        squared = jnp.vdot(slope, slope)
        limit = LONGER**2 * state.largest
        long = (state.largest > 0) & (squared > limit)
        share = jnp.sqrt(jnp.where(long, limit / jnp.where(long, squared, 1.0), 1.0))
        squared = jnp.where(long, limit, squared)
        state = Slopes(jnp.maximum(state.largest, squared), state.total + squared)
        eta = step_of(radius, state)
        return -eta * share * slope, state

    return optax.GradientTransformation(init, update)


def remember(cuts: Cuts, normal: Any, offset: Any, worth: Any, t: Any) -> Cuts:
    """Store a cut in the slot of a parallel one, or in the one that was inactive longest."""
    same = jnp.sum((cuts.normals - normal[None]) ** 2, axis=1) < PARALLEL
    slot = jnp.argmax(jnp.where(same, 1, -cuts.active))
    write = worth & (~same[slot] | (offset < cuts.offsets[slot]))
    return Cuts(
        cuts.normals.at[slot].set(jnp.where(write, normal, cuts.normals[slot])),
        cuts.offsets.at[slot].set(jnp.where(write, offset, cuts.offsets[slot])),
        cuts.active.at[slot].set(jnp.where(worth, t, cuts.active[slot])),
    )


def sweep(project: Any, y: Any, cuts: Cuts, t: Any, diameter: float) -> tuple[Any, Cuts, Any]:
    """Project on all cuts in turn and on the ball, at most twice, while a cut is exceeded. Returns
    whether one still is, too."""

    def exceeded(y: Any, tolerance: Any) -> Any:
        worst = jnp.max(cuts.normals @ y - cuts.offsets)
        return worst > tolerance + ROUNDING * jnp.max(jnp.abs(y))

    def onto(y: Any, cut: Any) -> tuple[Any, Any]:
        normal, offset = cut
        excess = normal @ y - offset
        return y - jnp.maximum(excess, 0) * normal, excess > 0

    def once(carry: Any) -> Any:
        swept, y, active, _ = carry
        y, moved = lax.scan(onto, y, (cuts.normals, cuts.offsets))
        y = project(y)
        return swept + 1, y, jnp.where(moved, t, active), exceeded(y, diameter / (t + 1.0) ** 2)

    start = (0, y, cuts.active, exceeded(y, 0.0))
    _, y, active, left = lax.while_loop(lambda carry: (carry[0] < SWEEPS) & carry[3], once, start)
    return y, cuts._replace(active=active), left


def prepare(case: Case, seeds: int, rounds: int) -> Play:
    """Return a function that simulates all seeds by vmap."""
    data = jax.device_put(case.data(seeds)[:, :rounds])
    stated, loss = case.problem.constraints, case.problem.loss
    stated = getattr(stated, "inner", stated)  # the maximum over the constraints is taken below
    aggregated = case.scored < case.count
    shape, size = case.problem.domain.shape, case.first.size
    optimiser = adaptive(case.radius)

    def project(y: Any) -> Any:
        return optax.projections.projection_l2_ball(y, case.radius)

    def constraint(x: Any, z: Any) -> tuple[Any, Any]:
        values = stated.values(x.reshape(shape), z)
        worst = values[jnp.argmax(values)]
        return worst, worst[None] if aggregated else values

    def step(carry: Any, z: Any) -> Any:
        x, state, cuts, t, (violation, squared, excess, peak, total), (hold, correction) = carry
        value, slope = jax.value_and_grad(lambda x: loss(x.reshape(shape), z))(x)
        (worst, values), normal = jax.value_and_grad(constraint, has_aux=True)(x, z)
        clipped = jnp.maximum(values, 0)
        totals = (
            violation + clipped,
            squared + clipped**2,
            excess + values,
            jnp.maximum(peak, clipped),
            total + value,
        )
        length = jnp.linalg.norm(normal)
        scale = jnp.where(length > 0, 1 / jnp.where(length > 0, length, 1), 0)
        normal, distance = normal * scale, worst * scale
        update, state = optimiser.update(slope, state, x)
        y = optax.apply_updates(x, update)
        ahead = distance + normal @ (y - x)
        in_half_space = y - jnp.maximum(ahead, 0) * normal
        y = project(in_half_space)
        moves = jnp.maximum(ahead, 0) ** 2 + jnp.sum((y - in_half_space) ** 2)
        eta = step_of(case.radius, state)
        correction += jnp.where(eta > 0, moves / (2 * jnp.where(eta > 0, eta, 1.0)), 0.0)
        worth = (length > 0) & ((distance > 0) | (ahead > 0))
        cuts = remember(cuts, normal, normal @ x - distance, worth, t)
        y, cuts, left = sweep(project, y, cuts, t, 2 * case.radius)
        return (y, state, cuts, t + 1, totals, (hold & ~left, correction)), (value, worst)

    @jax.jit
    @partial(jax.vmap, in_axes=(None, 0))
    def run(x: Any, z: Any) -> Any:
        cuts = Cuts(jnp.zeros((CUTS, size)), jnp.zeros(CUTS), jnp.zeros(CUTS, int))
        nothing = jnp.zeros(case.scored)
        start = (x, optimiser.init(x), cuts, 1, (nothing,) * 4 + (0.0,), (True, 0.0))
        (x, _, _, _, totals, facts), rows = lax.scan(step, start, z)
        return x, rows, totals, facts  # all of them: XLA would not compute what is not returned

    first = jnp.asarray(case.first, float).ravel()

    def play() -> Played:
        x, (losses, worst), totals, _ = jax.block_until_ready(run(first, data))
        decisions = np.asarray(x).reshape(seeds, *shape)
        return Played(decisions, np.asarray(losses), np.asarray(worst), np.asarray(totals[0]))

    return play
