from . import bounds as bounds, engine as engine, metrics as metrics
from .fleet.fleet import Fleet as Fleet
from .fleet.on_dask import DaskFleet as DaskFleet
from .judge.certificate import Certificate as Certificate
from .judge.certify import certify as certify
from .judge.compare import Comparison as Comparison, compare as compare
from .judge.hindsight import Hindsight as Hindsight, hindsight as hindsight
from .judge.rates import rates as rates
from .judge.recommend import recommend as recommend
from .learners import (
    LEARNERS as LEARNERS,
    Advised as Advised,
    Averaged as Averaged,
    Card as Card,
    ClippedOGD as ClippedOGD,
    DelayTolerant as DelayTolerant,
    Doubling as Doubling,
    DriftPlusPenalty as DriftPlusPenalty,
    Growth as Growth,
    Guarantee as Guarantee,
    HalfSpace as HalfSpace,
    Learner as Learner,
    OnePoint as OnePoint,
    ProjectedOGD as ProjectedOGD,
    SaddlePoint as SaddlePoint,
    Setting as Setting,
    TwoPoint as TwoPoint,
    learner as learner,
    learner_dataclass as learner_dataclass,
    register_learner as register_learner,
)
from .modelling.model import from_cvxpy as from_cvxpy
from .modelling.translation.parameters import previous as previous
from .modelling.translation.reading import recourse as recourse
from .play.simulate import simulate as simulate
from .play.step import announce as announce, init as init, step as step
from .player.guards import Event as Event, Limits as Limits
from .player.player import Player as Player
from .problem.constants import Constants as Constants
from .problem.domains import (
    AffineBox as AffineBox,
    Ball as Ball,
    Blocks as Blocks,
    Box as Box,
    Domain as Domain,
    L1Ball as L1Ball,
    Product as Product,
    Simplex as Simplex,
    Spectral as Spectral,
)
from .problem.feasibility import NoFeasibleDecision as NoFeasibleDecision
from .problem.feedback import (
    Bandit as Bandit,
    Batched as Batched,
    Delayed as Delayed,
    FullInformation as FullInformation,
    Noisy as Noisy,
)
from .problem.memory import steady as steady
from .problem.problem import Problem as Problem
from .problem.rescaling import rescaled as rescaled
from .problem.streams import adversary as adversary
from .problem.transforms import (
    log_sum_exp as log_sum_exp,
    max_of as max_of,
    squared as squared,
    tightened as tightened,
)
from .runs.run import Run as Run
from .sweeps import Cell as Cell, Sweep as Sweep, sweep as sweep

__all__: list[str]
__version__: str
