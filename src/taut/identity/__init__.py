"""The identity of a call: what it computes, in values that are the same in every process.

Checkpoints and sweeps compare it, so that results of another call are not reused. Read `programs`
first, which describes problems by the program that JAX traces from them; `functions` describes
functions and objects of the user by everything that they reach.
"""

from .functions import Descriptions
from .programs import digest_of_tree, numerics, problem_digest

__all__ = ["Descriptions", "digest_of_tree", "numerics", "problem_digest"]
