"""What a run with advisers observed, for its certificate."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..engine import Array
from ..learners.base import ObservedAdvice

if TYPE_CHECKING:
    from ..learners.advised import AdvisedState

__all__ = ["AdviceFacts", "advice_facts", "least_sum"]


class AdviceFacts(NamedTuple):
    """What the state of a learner with advisers says at the end; arrays with a leading axis of
    seeds."""

    gap: Array
    """Delta_{T-1} + Delta_T."""
    regret: Array
    """Loss beyond that of each adviser, in its rounds, (seed, adviser)."""
    slopes: Array
    """Of the loss at the learner's own decisions, as in `AdvisedState`."""
    correction: Array
    """What the learner's feasibility moves take off its bound on regret."""

    def observed(self, rounds: int) -> ObservedAdvice:
        """Return what bounds need after so many rounds, the worst over the seeds."""
        largest, total, first, excess = self.slopes.T
        return ObservedAdvice(
            float(self.gap.max()),
            float(largest.max()),
            float(total.max()),
            float(first.min()),
            float(excess.max()),
            least_sum(self.correction, rounds),
        )


def advice_facts(state: AdvisedState) -> AdviceFacts:
    """Return the facts of a state, or of states with leading axes."""
    gap = np.asarray(state.gap, float) + np.asarray(state.gap_before, float)
    correction = np.asarray(getattr(state.base, "correction", np.zeros_like(state.gap)))
    return AdviceFacts(
        gap, np.asarray(state.regret, float), np.asarray(state.slopes, float), correction
    )


def least_sum(sums: Array, rounds: int) -> float:
    """Return the smallest of some sums of so many numbers that are not negative, less what rounding
    can have added to it: half a unit of the last place in each addition."""
    room = max(0.0, 1 - rounds * float(np.finfo(sums.dtype).eps))
    return room * float(np.min(sums))
