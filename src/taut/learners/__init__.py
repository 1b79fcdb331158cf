"""Methods. One file per family holds the update, the parameters from theory, the guarantees and the cards.

Read `base` first (the contract), then `clipped_ogd` (an example), then `registry` (names); formulas are in `bounds`.
"""

from .base import (
    QUANTITIES,
    Assumes,
    Guarantee,
    Learner,
    MultiplierState,
    Observed,
    OutsideTheorem,
    Setting,
    State,
    learner_dataclass,
)
from .card import Card, Growth
from .clipped_ogd import ClippedOGD
from .doubling import Doubling
from .drift_plus_penalty import DriftPlusPenalty
from .projected_ogd import ProjectedOGD
from .registry import LEARNERS, learner, register_learner
from .saddle_point import SaddlePoint

__all__ = [
    "LEARNERS", "QUANTITIES", "Assumes", "Card", "ClippedOGD", "Doubling", "DriftPlusPenalty", "Growth", "Guarantee",
    "Learner", "MultiplierState", "Observed", "OutsideTheorem", "ProjectedOGD", "SaddlePoint", "Setting", "State",
    "learner", "learner_dataclass", "register_learner",
]  # fmt: skip
