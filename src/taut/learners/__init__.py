"""Methods. One file per family holds the update, the parameters from theory, the guarantees and the
cards.

Read `base` first (the contract), then `clipped_ogd` (an example), `protocols` (what a method may
offer besides) and `registry` (names); `theorem` is what formulas of bounds share.
"""

from .advised import Advised
from .averaged import Averaged
from .bandit import OnePoint, TwoPoint
from .base import (
    QUANTITIES,
    Assumes,
    Guarantee,
    Learner,
    MultiplierState,
    Observed,
    Setting,
    State,
    learner_dataclass,
)
from .block_frank_wolfe import BlockFrankWolfe
from .bounded_game import BoundedGame
from .card import Card, Growth
from .clipped_ogd import ClippedOGD
from .delay_tolerant import DelayTolerant
from .doubling import Doubling
from .drift_plus_penalty import DriftPlusPenalty
from .dual_mirror import DualMirror
from .half_space.method import HalfSpace
from .no_slater import NoSlater
from .projected_ogd import ProjectedOGD
from .registry import LEARNERS, learner, register_learner
from .saddle_point import SaddlePoint
from .step_experts import StepExperts
from .surrogate import (
    ExponentialPotential,
    OptimisticSurrogate,
    QuadraticPotential,
    StrongSurrogate,
    Surrogate,
)
from .theorem import OutsideTheorem
from .yu_neely import YuNeely

__all__ = [
    "LEARNERS",
    "QUANTITIES",
    "Advised",
    "Assumes",
    "Averaged",
    "BlockFrankWolfe",
    "BoundedGame",
    "Card",
    "ClippedOGD",
    "DelayTolerant",
    "Doubling",
    "DriftPlusPenalty",
    "DualMirror",
    "ExponentialPotential",
    "Growth",
    "Guarantee",
    "HalfSpace",
    "Learner",
    "MultiplierState",
    "NoSlater",
    "Observed",
    "OnePoint",
    "OptimisticSurrogate",
    "OutsideTheorem",
    "ProjectedOGD",
    "QuadraticPotential",
    "SaddlePoint",
    "Setting",
    "State",
    "StepExperts",
    "StrongSurrogate",
    "Surrogate",
    "TwoPoint",
    "YuNeely",
    "learner",
    "learner_dataclass",
    "register_learner",
]
