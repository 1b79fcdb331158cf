"""Linear losses under an l1 constraint in the plane, the same with strongly convex losses, and with
losses that switch."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np

from ...engine import Array
from ...problem.constants import Constants
from ...problem.domains import Ball, L1Ball
from ...problem.problem import Problem
from ..stream import Stream

SWITCHES = 8


@dataclass(frozen=True)
class Choice:
    """A choice of what the paper does not specify."""

    radius: float = 1.0
    """Radius of the outer ball B. With 1 the ball touches the corners of the l1 ball, as in the
    paper's figure."""

    @property
    def label(self) -> str:
        """A short text for tables."""
        return f"R = {self.radius:.4g}"


DEFAULT = Choice()
"""What the reproduction of the paper uses first."""


@cache
def problem(choice: Choice = DEFAULT) -> Problem:
    """Return the problem: minimise sum_t c_t.x subject to |x_1| + |x_2| <= 1."""
    constants = Constants(
        loss_lipschitz=1.0,
        loss_range=2 * choice.radius,
        constraint_lipschitz=2**0.5,
        constraint_range=max(1.0, 2**0.5 * choice.radius - 1),
        slater=1.0,
        error_bound=1.0,  # outside the l1 ball, |x|_1 - 1 is at least the distance to it
    )
    return Problem(_loss, _excess, Ball(choice.radius, shape=2), constants)


def _loss(x: jax.Array, c: jax.Array) -> jax.Array:
    return jnp.vdot(c, x)


def _excess(x: jax.Array) -> jax.Array:
    return jnp.abs(x[0]) + jnp.abs(x[1]) - 1


def costs(seeds: int, rounds: int) -> Array:
    """Draw c_t uniformly from [0, 1.2] x [0, 1] and rescale it to norm 1. The result has shape
    (seed, round, 2)."""
    return np.stack([_costs(s, rounds) for s in range(seeds)])


def _costs(seed: int, rounds: int) -> Array:
    c = np.random.default_rng([0, 1, seed]).uniform(size=(rounds, 2)) * (1.2, 1.0)
    return np.asarray(c / np.linalg.norm(c, axis=-1, keepdims=True))


def strong_problem() -> Problem:
    """Return the problem with the strongly convex losses |x + 1.5 c_t|^2 / 2."""
    constants = Constants(
        loss_lipschitz=2.5,
        loss_range=3.0,
        constraint_lipschitz=2**0.5,
        constraint_range=1.0,
        strong_convexity=1.0,
        slater=1.0,
        error_bound=1.0,
    )
    return Problem(_quadratic, _excess, Ball(1.0, shape=2), constants)


def _quadratic(x: jax.Array, c: jax.Array) -> jax.Array:
    return jnp.sum((x + 1.5 * c) ** 2) / 2


def switching_costs(seed: int, rounds: int) -> Array:
    """Return unit costs that are constant on nine equal segments, (round, 2)."""
    c = np.random.default_rng([4, seed]).normal(size=(SWITCHES + 1, 2))
    c /= np.linalg.norm(c, axis=1, keepdims=True)
    return np.asarray(c[np.arange(rounds) * (SWITCHES + 1) // rounds])


def _best_of_segments(c: Array, rounds: int) -> float:
    """The total loss of the best vertex of each segment, whose costs are constant."""
    return -float(np.abs(c).max(axis=1).sum())


_KNOWN = {"Slater gap": "1", "error bound": "1", "smoothness": "none: the constraint has kinks"}
_YUAN = (
    "Yuan & Lamperski, NeurIPS 2018, figure 1: losses uniform on [0, 1.2] x [0, 1], rescaled to "
    "norm 1"
)

STREAMS = (
    Stream(
        "toy",
        "linear losses on the unit disc, |x_1| + |x_2| <= 1",
        problem,
        _costs,
        _YUAN,
        known=_KNOWN,
        feasible=L1Ball(1.0, shape=2),
        family="toy",
    ),
    Stream(
        "toy-strong",
        "the toy with losses |x + 1.5 c_t|^2 / 2",
        strong_problem,
        _costs,
        _YUAN,
        "strongly convex",
        known=_KNOWN | {"strong convexity": "1"},
        feasible=L1Ball(1.0, shape=2),
        family="toy",
    ),
    Stream(
        "switching",
        "the toy with losses that are constant between 8 switches",
        problem,
        switching_costs,
        "losses that are predictable except at switches; rewards optimism",
        known=_KNOWN | {"switches": "8"},
        feasible=L1Ball(1.0, shape=2),
        cumulative=False,
        shortest=SWITCHES + 1,
        shifting=_best_of_segments,
        shifts="the best decision of each of the nine segments",
        family="toy",
    ),
)
