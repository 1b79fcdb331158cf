"""Players made from the contents of a file or a pickle."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from ..engine import Array
from ..learners import Learner
from ..play.with_feedback import through
from ..problem.feedback import Feedback
from ..problem.problem import Problem
from .file import as_parts, check_size
from .growth import with_room

if TYPE_CHECKING:
    from .player import Player

__all__ = ["revived", "unpickled"]


def unpickled(
    learner: Learner,
    problem: Problem,
    saved: dict[str, Any],
    arrays: dict[str, Array],
    feedback: Feedback | None = None,
) -> Player:
    """Return a copy of a player, perhaps in another process."""
    dtype = np.dtype(saved["dtype"])
    if jax.dtypes.canonicalize_dtype(dtype) != dtype:
        raise ValueError(
            f'player: got one in {dtype}; expected jax.config.update("jax_enable_x64", True) '
            "before it is unpickled, or "
            "JAX_ENABLE_X64=1 in the environment of the process"
        )
    return revived(learner, problem, saved, arrays, feedback)


def revived(
    learner: Learner,
    problem: Problem,
    saved: dict[str, Any],
    arrays: dict[str, Array],
    feedback: Feedback | None = None,
    **options: Any,
) -> Player:
    """Return the player whose file has these contents; `options` are arguments of `Player`."""
    from .player import Player

    parts = as_parts(arrays)
    sized = with_room(learner, saved.get("room"))
    check_size(through(sized, feedback), problem.domain.shape, saved, parts)
    player = Player(
        learner,
        problem,
        x1=jnp.asarray(problem.domain.centre, saved["dtype"]),
        count=saved["count"],
        announced_count=saved.get("announced_count"),
        feedback=feedback,
        unproven=True,
        history=saved.get("history"),
        **options,
    )
    player._restore(saved, parts)
    return player
