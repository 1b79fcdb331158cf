"""Feedback: what a learner gets to see of a round. Decisions are always scored with the true loss
and constraints.

Read `base` first (the contract and full information), then `noisy` (an example), then `batched`,
`delayed` and `bandit`.
"""

from .bandit import Bandit
from .base import Feedback, FullInformation, as_feedback
from .batched import Batched
from .delayed import Delayed
from .noisy import Noisy

__all__ = ["Bandit", "Batched", "Delayed", "Feedback", "FullInformation", "Noisy", "as_feedback"]
