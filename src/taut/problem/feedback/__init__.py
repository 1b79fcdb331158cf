"""Feedback: what a learner gets to see of a round. Decisions are always scored with the true loss
and constraints.

Read `base` first (the contract and full information), then `noisy` (an example), then `batched`,
`delayed` and `bandit`.
"""

from .bandit import Bandit as Bandit
from .base import (
    Feedback as Feedback,
    FullInformation as FullInformation,
    as_feedback as as_feedback,
)
from .batched import Batched as Batched
from .delayed import Delayed as Delayed
from .noisy import Noisy as Noisy
