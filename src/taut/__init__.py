"""taut: online decisions under constraints that must really hold.

Define a problem once (loss, constraints, domain). Run any learner on it, in a compiled simulation
or live, one round at a time. A certificate compares regret and all kinds of violation with the
bounds that theory gives.
"""

import logging as _logging
from typing import TYPE_CHECKING as _TYPE_CHECKING

from . import engine as _engine

_logging.getLogger("taut").addHandler(
    _logging.NullHandler()
)  # silent until an application configures logging
_engine.prepare()  # before the first JAX array starts XLA

from . import bounds, metrics  # noqa: E402
from .engine import VERSION as __version__  # noqa: E402
from .judge.certificate import Certificate  # noqa: E402
from .judge.certify import certify  # noqa: E402
from .judge.compare import Comparison, compare  # noqa: E402
from .judge.hindsight import Hindsight, hindsight  # noqa: E402
from .judge.rates import rates  # noqa: E402
from .judge.recommend import recommend  # noqa: E402
from .learners import (  # noqa: E402
    LEARNERS,
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
from .play.simulate import simulate  # noqa: E402
from .play.threads import simulate_all  # noqa: E402
from .player.player import Player  # noqa: E402
from .problem.constants import Constants  # noqa: E402
from .problem.domains import (  # noqa: E402
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
from .problem.feasibility import NoFeasibleDecision  # noqa: E402
from .problem.feedback import Bandit, Batched, Delayed, FullInformation, Noisy  # noqa: E402
from .problem.memory import steady  # noqa: E402
from .problem.problem import Problem  # noqa: E402
from .problem.rescaling import rescaled  # noqa: E402
from .problem.streams import adversary  # noqa: E402
from .problem.transforms import log_sum_exp, max_of, smoothed, squared, tightened  # noqa: E402
from .runs.run import Run  # noqa: E402
from .sweeps import Cell, Sweep, sweep  # noqa: E402

__all__ = [
    "LEARNERS",
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
    "DelayTolerant",
    "Delayed",
    "Domain",
    "Doubling",
    "DriftPlusPenalty",
    "FullInformation",
    "Growth",
    "Guarantee",
    "HalfSpace",
    "Hindsight",
    "L1Ball",
    "Learner",
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
    "bounds",
    "certify",
    "compare",
    "from_cvxpy",
    "hindsight",
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
    "simulate_all",
    "smoothed",
    "squared",
    "steady",
    "sweep",
    "tightened",
]

if _TYPE_CHECKING:
    from .modelling.model import from_cvxpy
    from .modelling.recourse.recourse import recourse
    from .modelling.translation.parameters import previous


def __dir__() -> list[str]:
    return sorted(__all__)


def __getattr__(name: str) -> object:
    """Import `taut.from_cvxpy` and `taut.recourse`, which need CVXPY, and `taut.testing` when they
    are first used."""
    if name == "from_cvxpy":
        from .modelling.model import from_cvxpy

        return from_cvxpy
    if name == "previous":
        from .modelling.translation.parameters import previous

        return previous
    if name == "recourse":
        from .modelling.recourse.recourse import recourse

        return recourse
    if name == "testing":
        from importlib import import_module

        return import_module(".testing", __name__)
    raise AttributeError(f"module 'taut' has no attribute {name!r}")
