"""What a contender returns, and the check that all of them did the same work."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

Array = np.ndarray[Any, Any]


class Played(NamedTuple):
    """The last decision, loss and largest excess of each round, and the clipped total of each scored constraint."""

    x: Array
    loss: Array
    worst: Array
    violation: Array


Play = Callable[[], Played]


def difference(one: Played, other: Played) -> float:
    """The largest difference over the rounds that both played; of last decisions and totals too if they played as many."""
    rounds = min(one.loss.shape[1], other.loss.shape[1])
    seeds = min(one.loss.shape[0], other.loss.shape[0])
    pairs = [
        (one.loss[:seeds, :rounds], other.loss[:seeds, :rounds]),
        (one.worst[:seeds, :rounds], other.worst[:seeds, :rounds]),
    ]
    if one.loss.shape[1] == other.loss.shape[1]:
        pairs += [(one.x[:seeds], other.x[:seeds])]
        pairs += [(one.violation[:seeds] / rounds, other.violation[:seeds] / rounds)]
    return max(float(np.max(np.abs(np.asarray(a) - np.asarray(b)))) for a, b in pairs)
