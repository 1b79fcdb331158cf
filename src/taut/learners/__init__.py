"""Methods. One file per family holds the update, the parameters from theory, the guarantees and the
cards.

Read `base` first (the contract), then `clipped_ogd` (an example), `protocols` (what a method may
offer besides) and `registry` (names); `theorem` is what formulas of bounds share.
"""

from .advised import Advised as Advised
from .averaged import Averaged as Averaged
from .bandit import OnePoint as OnePoint, TwoPoint as TwoPoint
from .base import (
    Learner as Learner,
    MultiplierState as MultiplierState,
    State as State,
    learner_dataclass as learner_dataclass,
)
from .block_frank_wolfe import BlockFrankWolfe as BlockFrankWolfe
from .bounded_game import BoundedGame as BoundedGame
from .card import Card as Card, Growth as Growth
from .clipped_ogd import ClippedOGD as ClippedOGD
from .delay_tolerant import DelayTolerant as DelayTolerant
from .doubling import Doubling as Doubling
from .drift_plus_penalty import DriftPlusPenalty as DriftPlusPenalty
from .dual_mirror import DualMirror as DualMirror
from .guarantee import (
    QUANTITIES as QUANTITIES,
    Assumes as Assumes,
    Guarantee as Guarantee,
    Observed as Observed,
    Setting as Setting,
)
from .half_space.method import HalfSpace as HalfSpace
from .no_slater import NoSlater as NoSlater
from .projected_ogd import ProjectedOGD as ProjectedOGD
from .registry import LEARNERS as LEARNERS, learner as learner, register_learner as register_learner
from .saddle_point import SaddlePoint as SaddlePoint
from .step_experts import StepExperts as StepExperts
from .surrogate import (
    ExponentialPotential as ExponentialPotential,
    OptimisticSurrogate as OptimisticSurrogate,
    QuadraticPotential as QuadraticPotential,
    StrongSurrogate as StrongSurrogate,
    Surrogate as Surrogate,
)
from .theorem import OutsideTheorem as OutsideTheorem
from .yu_neely import YuNeely as YuNeely
