"""The check of learners that say that infinite slopes cannot get lost in their steps."""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from ..learners import Card
from ..play.simulate import simulate
from ..problem.domains import Box
from ..problem.problem import Problem
from .playing import tuned
from .problems import KnownProblem, linear_loss
from .requirements import require

__all__ = ["check_infinite_slopes_are_noticed"]


@jax.custom_jvp
def _steep(u: jax.Array) -> jax.Array:
    """u, with an infinite slope."""
    return u


_steep.defjvp(lambda primals, tangents: (primals[0], jnp.inf * tangents[0]))
_STEEP = {
    "loss": Problem(
        lambda x, z: _steep(x[0]) + jnp.sum(x * z), lambda x: x[0] - 1, Box(-1.0, 1.0, shape=2)
    ),
    "constraint": Problem(linear_loss, lambda x: _steep(x[0]) - 0.5, Box(-1.0, 1.0, shape=2)),
}


def check_infinite_slopes_are_noticed(card: Card, problems: Sequence[KnownProblem]) -> None:
    """If a learner says that its steps show infinity, an infinite slope ends the simulation,
    although a box would clip the step."""
    learner = tuned(card, problems[0])
    if not type(learner).step_shows_infinity():
        return  # every gradient is checked
    for name, problem in _STEEP.items():
        try:
            simulate(
                learner, problem, np.ones((3, 2)), x1=np.array([0.9, 0.0])
            )  # violates the constraint
        except ValueError:
            continue
        require(
            False,
            f"an infinite slope of the {name} must make the step infinite or NaN: remove "
            "shows_infinity = True",
        )
