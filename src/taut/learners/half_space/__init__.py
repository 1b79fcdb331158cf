"""The half-space family.

Read `method` first, then `cuts` (what is kept), `lifetimes` (for how long), `projection` (how a
decision is moved into them), `joint_projection` and `guarantees`.
"""

from .method import CARDS, HalfSpace

__all__ = ["CARDS", "HalfSpace"]
