"""Replay: what an adversary revealed in a run, recovered by playing the same game again."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..learners import Learner
from ..problem.streams import Adversary
from .run import Run

__all__ = ["revealed"]


def revealed(run: Run) -> Any:
    """The data of every round, as a pytree of arrays (seed, round, ...).

    A game against an adversary is determined by learner, first decision and keys, so nothing had to be stored.
    """
    learner, problem, stream = run.learner, run.played, run.stream
    if not isinstance(learner, Learner) or not isinstance(stream, Adversary) or problem is None or run.first is None:
        raise ValueError("run: got a run without adversary or game; expected one fresh from simulate(..., reveal)")
    first, function = jnp.asarray(run.first), stream.function
    example = jax.eval_shape(function, jnp.asarray(1, jnp.int32), first, jax.random.key(0))
    count = int(jax.eval_shape(problem.constraints.values, first, example).shape[0])

    def play(key: jax.Array) -> Any:
        def one(state: Any, t: jax.Array) -> tuple[Any, Any]:
            z = function(t, state.x, jax.random.fold_in(key, t))
            return learner.step(state, problem.round(z)), z

        rounds = jnp.arange(1, run.horizon + 1, dtype=jnp.int32)
        return jax.lax.scan(one, learner.init(first, count), rounds)[1]

    keys = run.key if run.seeds > 1 else jnp.expand_dims(run.key, 0)  # type: ignore[arg-type]
    return jax.tree.map(np.asarray, jax.jit(jax.vmap(play))(keys))
