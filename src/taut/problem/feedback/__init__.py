"""Feedback: what a learner gets to see of a round. Decisions are always scored with the true loss and constraints.

Read `base` first (the contract and full information), then one file per kind of feedback.
"""

from .base import Feedback, FullInformation, as_feedback
from .noisy import Noisy

__all__ = ["Feedback", "FullInformation", "Noisy", "as_feedback"]
