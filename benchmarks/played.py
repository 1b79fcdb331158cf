"""The result of an implementation, and the comparison of two results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

Array = np.ndarray[Any, Any]


class Played(NamedTuple):
    """The last decision, loss and largest excess per round, and the violation per constraint."""

    x: Array
    loss: Array
    worst: Array
    violation: Array


Play = Callable[[], Played]


def differing(one: Played, other: Played, tolerance: float) -> float:
    """Return the share of common rounds and seeds whose records differ by more than this."""
    rounds = min(one.loss.shape[1], other.loss.shape[1])
    seeds = min(one.loss.shape[0], other.loss.shape[0])
    gaps = [
        np.abs(np.asarray(a)[:seeds, :rounds] - np.asarray(b)[:seeds, :rounds])
        for a, b in ((one.loss, other.loss), (one.worst, other.worst))
    ]
    return float(np.mean(np.maximum(*gaps) > tolerance))


def difference(one: Played, other: Played) -> float:
    """Return the largest difference over common rounds, and of final decisions and totals if the
    horizons are equal."""
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
