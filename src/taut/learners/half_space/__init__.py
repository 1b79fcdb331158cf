"""The half-space family.

Read `method` first, then `cuts` (what is kept), `joint_projection` and `guarantees`.
"""

from .method import CARDS, HalfSpace

__all__ = ["CARDS", "HalfSpace"]
