"""A best decision that walks around a circle: regret is measured against this path, whose length
grows with the horizon."""

from __future__ import annotations

from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np

from ...engine import Array
from ...problem.domains import Ball
from ...problem.problem import Problem
from ..stream import Stream
from .half_spaces import UNIT, inner

RADIUS = 0.5
"""Of the feasible disc."""


DISC = UNIT.with_values(
    constraint_range=(1 - RADIUS**2) / 2,
    slater=RADIUS**2 / 2,
    constraint_smoothness=1.0,
    error_bound=RADIUS,
)
"""What is known of linear losses and of the disc."""


@cache
def problem() -> Problem:
    """Return linear losses on the unit disc with (|x|^2 - 1/4) / 2 <= 0."""
    return Problem(inner, disc, Ball(1.0, shape=2), DISC)


def disc(x: jax.Array) -> jax.Array:
    """Return (|x|^2 - 1/4) / 2."""
    return (jnp.sum(x**2) - RADIUS**2) / 2


def path(rounds: int, power: float) -> Array:
    """The comparator u_t of every round, (round, 2): a walk of length rounds^power on the boundary
    of the feasible disc."""
    angle = rounds**power / RADIUS * np.arange(rounds) / rounds
    return RADIUS * np.stack([np.cos(angle), np.sin(angle)], axis=1)


def _draw(power: float, seed: int, rounds: int) -> Array:
    """The gradients -u_t plus noise of the same size: the mean loss of a round is smallest at
    u_t."""
    noise = np.random.default_rng([7, seed]).normal(size=(rounds, 2))
    noise *= RADIUS / np.linalg.norm(noise, axis=1, keepdims=True)
    return np.asarray(noise - path(rounds, power))


def _best(power: float, c: Array, rounds: int) -> float:
    return float(np.sum(c * path(rounds, power)))


def stream(name: str, power: float) -> Stream:
    """Return the stream whose comparator moves by T^power in T rounds."""
    return Stream(
        name,
        f"noisy linear losses whose best decision moves by T^{power:g} on a circle",
        problem,
        partial(_draw, power),
        "a comparator with a known path length, for dynamic regret",
        "moving comparator",
        best=partial(_best, power),
        comparator=f"the path on the circle, of length T^{power:g}",
        known={
            "Slater gap": "0.125",
            "smoothness": "1",
            "path length": f"T^{power:g}",
            "noise": "in the losses, bounded by 0.5",
        },
        bounded=("violation", "squared violation", "peak violation", "excess"),
        cumulative=False,
        family="drifting",
    )


STREAMS = (stream("drifting-fast", 0.5), stream("drifting-slow", 0.25))
