"""Three rounds to twelve digits, computed by two independent implementations, for methods that hand
arithmetic does not reach.

The domain is the unit ball, D = 2, G_f = G_g = 1, T = 16, H = 1, and x_1 = (0.5, 0). The loss is
c_t.x, or |x + c_t|^2 / 2 for strongly convex methods; the constraint is a_t.x <= b_t, or the first
two of these rows in every round.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

import taut

COSTS = np.array([(-1, 0), (0, -1), (-0.6, -0.8)], float)
NORMALS = np.array([(1, 0), (0.6, 0.8), (0.8, 0.6)], float)
LEVELS = np.array([0.25, 0.10, 0.20])
CONSTANTS = taut.Constants(
    radius=1.0,
    loss_lipschitz=1.0,
    constraint_lipschitz=1.0,
    constraint_range=1.0,
    strong_convexity=1.0,
    constraint_count=1,
)
HORIZON = 16


def linear(x, z):
    return z["c"] @ x


def quadratic(x, z):
    return jnp.sum((x + z["c"]) ** 2) / 2


def moving_row(x, z):
    return z["a"] @ x - z["b"]


def two_rows(x):
    return jnp.asarray(NORMALS[:2], x.dtype) @ x - jnp.asarray(LEVELS[:2], x.dtype)


BALL = taut.Ball(1.0, shape=2)
MOVING = taut.Problem(linear, moving_row, BALL, CONSTANTS)
STRONG = taut.Problem(quadratic, moving_row, BALL, CONSTANTS)
FIXED = taut.Problem(linear, two_rows, BALL, CONSTANTS.with_values(constraint_count=2))


def states(learner, problem=MOVING):
    """The states after rounds 1, 2 and 3, each entry stacked."""
    count = problem.constants.constraint_count
    state, found = learner.init(jnp.array([0.5, 0.0]), count), []
    for t in range(3):
        data = {
            "c": jnp.asarray(COSTS[t]),
            "a": jnp.asarray(NORMALS[t]),
            "b": jnp.asarray(LEVELS[t]),
        }
        state = learner.step(state, problem.round(data))
        found.append(jax.tree.map(np.asarray, state))
    return jax.tree.map(lambda *entries: np.stack(entries), *found)


def check(found, expected):
    """Equal to the twelve digits that are written down."""
    np.testing.assert_allclose(found, expected, rtol=0, atol=6e-13)
