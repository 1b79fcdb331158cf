"""The best fixed feasible decision for a stream, or for prefixes of it, with a proof that it is
optimal.

Read `solve` (the public function), then `exact` (the route, with Newton's method and cutting planes
for losses with kinks), `objective` (mean losses), `feasible_set` (constraints, their tangents and
what multipliers prove) and `program` (one quadratic program). `tolerances` holds every tolerance.
"""

from .result import Hindsight
from .solve import hindsight

__all__ = ["Hindsight", "hindsight"]
