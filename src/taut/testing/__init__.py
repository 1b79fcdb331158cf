"""Checks that any learner must pass, and problems with known answers.

Read `check_learner` first, then `checks` (what is checked, in order) and `problems` (what it is
checked on).
"""

from .check_learner import check_learner, parametrize_with_checks, run_check
from .checks import checks_for
from .problems import PROBLEMS, KnownProblem

__all__ = [
    "PROBLEMS",
    "KnownProblem",
    "check_learner",
    "checks_for",
    "parametrize_with_checks",
    "run_check",
]
