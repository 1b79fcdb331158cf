"""What a run with advisers observed, for its certificate."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..engine import Array
from ..learners.base import ObservedAdvice

if TYPE_CHECKING:
    from ..learners.advised import AdvisedState

__all__ = ["AdviceFacts", "advice_facts"]


class AdviceFacts(NamedTuple):
    """What the state of a learner with advisers says at the end; arrays with a leading axis of
    seeds."""

    gap: Array
    """Delta_{T-1} + Delta_T."""
    regret: Array
    """Loss beyond that of each adviser, in its rounds, (seed, adviser)."""
    slopes: Array
    """Of the loss at the learner's own decisions, as in `AdvisedState`."""

    def observed(self) -> ObservedAdvice:
        """Return what bounds need, the worst over the seeds."""
        largest, total, first, excess = self.slopes.T
        return ObservedAdvice(
            float(self.gap.max()),
            float(largest.max()),
            float(total.max()),
            float(first.min()),
            float(excess.max()),
        )


def advice_facts(state: AdvisedState) -> AdviceFacts:
    """Return the facts of a state, or of states with leading axes."""
    gap = np.asarray(state.gap, float) + np.asarray(state.gap_before, float)
    return AdviceFacts(gap, np.asarray(state.regret, float), np.asarray(state.slopes, float))
