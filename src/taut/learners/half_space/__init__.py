"""The half-space family.

Read `method` first, then `cuts` (what is kept), `lifetimes` (for how long), `projection` (how a
decision is moved into them), `announced` (constraints that are known before a decision is played),
`joint_projection` and `guarantees`. The mathematics is on one page: docs/theory.md, "Beyond the
paper". `method` says how the members differ.

Learners that put half-space learners or others to a further use have modules of their own beside
this folder: `averaged` (estimates of noisy values), `advised`, `delay_tolerant`, `step_experts` and
`bandit`.
"""

from .method import CARDS, HalfSpace

__all__ = ["CARDS", "HalfSpace"]
