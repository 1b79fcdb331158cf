"""Players of learners whose state grows: `memory=None` keeps all cuts.

The state has a number of slots, which doubles when all of them are filled. A round fills one slot
at most, so nothing is lost before that. The steps are compiled again for the larger state.
"""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from ..learners import Learner
from ..learners.protocols import Grows
from ..play.simulation import ROOM
from ..problem.feedback import Feedback


def first_room(learner: Learner, feedback: Feedback | None) -> int | None:
    """Return the number of slots with which a player begins; None for a learner whose state does
    not grow. With feedback it does not, because what the learner sees is not the whole round."""
    grows = isinstance(learner, Grows) and learner.with_room(ROOM) is not learner
    return ROOM if grows and feedback is None else None


def with_room(learner: Learner, room: Any) -> Learner:
    """Return the learner with a state of so many slots; None leaves it as it is."""
    if room is None or not isinstance(learner, Grows):
        return learner
    if type(room) is not int or room < 1:
        raise ValueError(f"room is {room!r}")
    sized: Learner = learner.with_room(room)
    return sized


def padded(state: Any, larger: Any) -> Any:
    """Return a state with zeros in the slots that a larger one has in addition."""

    def pad(leaf: Any, like: Any) -> Any:
        more = zip(np.shape(leaf), np.shape(like), strict=True)
        widths = [(0, wanted - size) for size, wanted in more]
        return np.pad(np.asarray(leaf), widths) if any(map(any, widths)) else leaf

    return jax.tree.map(pad, state, larger)
