"""Many variables and many constraints: the half-space learner with and without memory on affine,
curved and kinked sets."""

from __future__ import annotations

import time
from typing import Any

import jax.numpy as jnp
import numpy as np

import taut
from taut.arena.streams.half_spaces import half_spaces, inner, unit_losses
from taut.runs import metrics

SIZES = ((10, 64), (50, 200), (200, 1000))
"""(number of variables, number of constraints)."""
MEMORY = (0, 16, 64)


def problem(kind: str, d: int, count: int) -> taut.Problem:
    """A set of `count` constraints in the box of diameter 2, all of which the origin satisfies
    strictly."""
    normals, offsets = (np.asarray(part) for part in half_spaces(d, count))
    radius = 1 / np.sqrt(d)

    def affine(x: Any) -> Any:
        return jnp.asarray(normals, x.dtype) @ x - jnp.asarray(offsets, x.dtype)

    def curved(
        x: Any,
    ) -> Any:  # balls whose boundary passes the point at which the half-space's does
        distance = jnp.sum((x[None] + jnp.asarray(normals, x.dtype)) ** 2, axis=1)
        return distance - (1 + jnp.asarray(offsets, x.dtype)) ** 2

    def kinked(x: Any) -> Any:
        return jnp.abs(jnp.asarray(normals, x.dtype) @ x) - jnp.abs(jnp.asarray(offsets, x.dtype))

    constraints = {"affine": affine, "curved": curved, "kinked": kinked}[kind]
    return taut.Problem(inner, constraints, taut.Box(-radius, radius, shape=d))


def sizes(quick: bool) -> None:
    """Print clipped violation, peak and time per round by size, kind of constraint and memory."""
    rounds = 256 if quick else 4096
    print(f"\nsizes: clipped violation / peak / microseconds per round, {rounds} rounds, one seed")
    for d, count in SIZES[: 1 if quick else None]:
        losses = unit_losses(d, 0, rounds)
        for kind in ("affine", "curved", "kinked"):
            game = problem(kind, d, count)
            cells = []
            for memory in MEMORY:
                learner = taut.learner("half-space", game, memory=memory)
                taut.simulate(learner, game, losses, record=())  # compiles
                begun = time.process_time()
                run = taut.simulate(learner, game, losses, record=())
                spent = (time.process_time() - begun) / rounds * 1e6
                clipped, peak = (
                    float(metrics.violation(run)[0]),
                    float(metrics.peak_violation(run)[0]),
                )
                cells.append(f"{clipped:9.4g} / {peak:7.2g} / {spent:7.1f}")
            print(
                f"  d = {d:3}, m = {count:4}, {kind:6}: "
                + " | ".join(f"K = {k}: {c}" for k, c in zip(MEMORY, cells, strict=True))
            )
