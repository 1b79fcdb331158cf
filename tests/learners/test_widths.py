"""In a game in 32 bits, no method computes anything in 64 bits, whatever the width of its
parameters."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import taut
from taut.learners.protocols import multiplier_of

KNOWN = taut.Constants(
    radius=1.5,
    loss_lipschitz=2.0,
    constraint_lipschitz=1.0,
    loss_range=4.0,
    constraint_range=1.5,
    strong_convexity=1.0,
    constraint_smoothness=0.0,
    constraint_count=1,
    slater=0.5,
)
GAME = taut.Problem(
    lambda x, z: jnp.sum((x - z) ** 2) / 2,
    lambda x: x[0] - 0.5,
    taut.Box(-1.0, 1.0, shape=2),
    KNOWN,
)
COPIED = {
    "broadcast_in_dim",
    "dynamic_slice",
    "gather",
    "jit",
    "pjit",
    "reshape",
    "select_n",
    "slice",
    "squeeze",
}


def wide(function, *arguments):
    """Return the operations with a result in 64 bits that do more than copy it."""
    return (
        set(re.findall(r":f64\[[^]]*\] = (\w+)", str(jax.make_jaxpr(function)(*arguments))))
        - COPIED
    )


@pytest.mark.parametrize("name", taut.LEARNERS)
def test_steps_and_multipliers_are_computed_in_the_width_of_the_decision(name):
    learner = taut.LEARNERS[name].build(GAME, 100, feasible=taut.Ball(0.5, shape=2))
    learner = jax.tree.map(
        lambda leaf: np.asarray(leaf, np.float64) if isinstance(leaf, float) else leaf, learner
    )
    x1, z = np.zeros(2, np.float32), np.ones(2, np.float32)
    state = learner.init(jnp.asarray(x1), 1)
    assert not wide(lambda state, z: learner.step(state, GAME.round(z)), state, z)
    assert not wide(lambda state, z: multiplier_of(learner, state, GAME.round(z)), state, z)
