"""The public names of taut. `taut` loads this module when one of them is first used."""

from . import bounds, engine, metrics
from .engine import VERSION as __version__
from .fleet.fleet import Fleet
from .fleet.on_dask import DaskFleet
from .judge.certificate import Certificate
from .judge.certify import certify
from .judge.compare import Comparison, compare
from .judge.hindsight import Hindsight, hindsight
from .judge.rates import rates
from .judge.recommend import recommend
from .learners import (
    LEARNERS,
    Advised,
    Averaged,
    Card,
    ClippedOGD,
    DelayTolerant,
    Doubling,
    DriftPlusPenalty,
    Growth,
    Guarantee,
    HalfSpace,
    Learner,
    OnePoint,
    ProjectedOGD,
    SaddlePoint,
    Setting,
    TwoPoint,
    learner,
    learner_dataclass,
    register_learner,
)
from .play.simulate import simulate
from .play.step import announce, init, step
from .player.guards import Event, Limits
from .player.player import Player
from .problem.constants import Constants
from .problem.domains import (
    AffineBox,
    Ball,
    Blocks,
    Box,
    Domain,
    L1Ball,
    Product,
    Simplex,
    Spectral,
)
from .problem.feasibility import NoFeasibleDecision
from .problem.feedback import Bandit, Batched, Delayed, FullInformation, Noisy
from .problem.memory import steady
from .problem.problem import Problem
from .problem.rescaling import rescaled
from .problem.streams import adversary
from .problem.transforms import log_sum_exp, max_of, squared, tightened
from .runs.run import Run
from .sweeps import Cell, Sweep, sweep

NEEDING_CVXPY = {
    "from_cvxpy": "taut.modelling.model",
    "previous": "taut.modelling.translation.parameters",
    "recourse": "taut.modelling.translation.reading",
}
"""Names whose modules load CVXPY; they wait until they are used."""

__all__ = [
    "LEARNERS",
    "Advised",
    "AffineBox",
    "Averaged",
    "Ball",
    "Bandit",
    "Batched",
    "Blocks",
    "Box",
    "Card",
    "Cell",
    "Certificate",
    "ClippedOGD",
    "Comparison",
    "Constants",
    "DaskFleet",
    "DelayTolerant",
    "Delayed",
    "Domain",
    "Doubling",
    "DriftPlusPenalty",
    "Event",
    "Fleet",
    "FullInformation",
    "Growth",
    "Guarantee",
    "HalfSpace",
    "Hindsight",
    "L1Ball",
    "Learner",
    "Limits",
    "NoFeasibleDecision",
    "Noisy",
    "OnePoint",
    "Player",
    "Problem",
    "Product",
    "ProjectedOGD",
    "Run",
    "SaddlePoint",
    "Setting",
    "Simplex",
    "Spectral",
    "Sweep",
    "TwoPoint",
    "__version__",
    "adversary",
    "announce",
    "bounds",
    "certify",
    "compare",
    "engine",
    "from_cvxpy",
    "hindsight",
    "init",
    "learner",
    "learner_dataclass",
    "log_sum_exp",
    "max_of",
    "metrics",
    "previous",
    "rates",
    "recommend",
    "recourse",
    "register_learner",
    "rescaled",
    "simulate",
    "squared",
    "steady",
    "step",
    "sweep",
    "tightened",
]


def __getattr__(name: str) -> object:
    """Load a name that needs CVXPY."""
    from importlib import import_module

    if name not in NEEDING_CVXPY:
        raise AttributeError(f"module 'taut' has no attribute {name!r}")
    return getattr(import_module(NEEDING_CVXPY[name]), name)
