"""The best fixed feasible decision for a stream, or for prefixes of it, with a proof that it is optimal.

Read `solve` first, then `newton` (smooth losses), `cutting_planes` (losses with kinks) and `lower_bound` (the proof).
"""

from .solve import Hindsight, hindsight

__all__ = ["Hindsight", "hindsight"]
