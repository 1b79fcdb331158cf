"""Learners, and the registry of all published methods: `taut.LEARNERS`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from ..problem.constants import Constants
from ..problem.domains import Domain
from .base import Learner, State, Weighted
from .clipped_ogd import ClippedOGD
from .doubling import Doubling
from .drift_plus_penalty import DriftPlusPenalty
from .projected_ogd import ProjectedOGD
from .saddle_point import SaddlePoint

__all__ = [
    "LEARNERS", "ClippedOGD", "Doubling", "DriftPlusPenalty", "Learner", "Method", "ProjectedOGD", "SaddlePoint",
    "State", "Weighted",
]  # fmt: skip

MAHDAVI = "Mahdavi, Jin & Yang, JMLR 13, 2012"
JENATTON = "Jenatton, Huang & Archambeau, ICML 2016"
YUAN = "Yuan & Lamperski, NeurIPS 2018"


@dataclass(frozen=True)
class Method:
    """A published method: how to build it from constants, and what is promised of it."""

    name: str
    title: str
    """What the paper's figures call it, or its usual name."""
    make: Callable[[Constants, int, Domain | None], Learner]
    """(constants, horizon, feasible set if it has an exact projection) -> learner."""
    reference: str
    losses: str
    """ "convex" or "strongly convex"."""
    assumptions: tuple[str, ...]
    oracles: frozenset[str]
    """Of "gradient", "values", "pullback", "pushforward", "project"."""
    regret: str
    violation: str
    cost: str
    """Work a round besides the loss gradient: P is a projection on the domain, PS one on the feasible set."""
    needs_horizon: bool
    aggregated: bool = False
    """Whether it plays one aggregated constraint only (`taut.max_of`)."""


_SADDLE = frozenset({"gradient", "values", "pullback", "project"})
_COMMON = ("convex losses and constraints", "domain contains the feasible set")
_STRONG = ("strongly convex losses", "convex constraints", "domain contains the feasible set")

_METHODS = (
    Method(
        "clipped-ogd", "Clipped-OGD", lambda c, horizon, s: ClippedOGD.tuned(c, horizon),
        f"{YUAN}, Theorem 1", "convex", _COMMON, _SADDLE,
        "O(T^max(b,1-b))", "squared O(T^(1-b)), clipped O(T^(1-b/2)), peak O(T^(-b/3))",
        "P, m values, 1 pull-back", True,
    ),
    Method(
        "clipped-ogd-paper", "Clipped-OGD (literal step)",
        lambda c, horizon, s: ClippedOGD.tuned(c, horizon, rule="paper"),
        f"{YUAN}, section 5", "convex", _COMMON, _SADDLE,
        "O(T^max(b,1-b))", "squared O(T^(1-b)), clipped O(T^(1-b/2))", "P, m values, 1 pull-back", True,
    ),
    Method(
        "clipped-ogd-strong", "Our-strong", lambda c, horizon, s: ClippedOGD.strongly_convex(c),
        f"{YUAN}, Theorem 2", "strongly convex", _STRONG, _SADDLE,
        "O(log T)", "clipped O(sqrt(T log T)), squared O(log T)", "P, m values, 1 pull-back", False,
    ),
    Method(
        "clipped-ogd-anytime", "Clipped-OGD (anytime)", lambda c, horizon, s: ClippedOGD.anytime(c),
        f"{YUAN}, with a step that falls like 1/sqrt(t)", "convex", _COMMON, _SADDLE,
        "O(sqrt T)", "squared O(sqrt T), clipped O(T^(3/4))", "P, m values, 1 pull-back", False,
    ),
    Method(
        "clipped-ogd-doubling", "Clipped-OGD (doubling)",
        lambda c, horizon, s: Doubling.of(lambda length: ClippedOGD.tuned(c, length)),
        f"{YUAN}, with the doubling trick", "convex", _COMMON, _SADDLE,
        "O(sqrt T)", "squared O(sqrt T), clipped O(T^(3/4))", "P, m values, 1 pull-back", False,
    ),
    Method(
        "ogd", "OGD", lambda c, horizon, s: SaddlePoint.mahdavi(c, horizon),
        f"{MAHDAVI}, Theorem 4", "convex", _COMMON, _SADDLE,
        "O(sqrt T)", "signed O(T^(3/4))", "P, m values, 1 pull-back", True,
    ),
    Method(
        "ogd-clipped", "OGD, clipped", lambda c, horizon, s: SaddlePoint.mahdavi(c, horizon, clipped=True),
        f"{YUAN}, Proposition 4", "convex", _COMMON, _SADDLE,
        "O(sqrt T)", "clipped O(T^(3/4))", "P, m values, 1 pull-back", True,
    ),
    Method(
        "a-ogd", "A-OGD", lambda c, horizon, s: SaddlePoint.jenatton(c),
        JENATTON, "convex", _COMMON, _SADDLE,
        "O(T^max(b,1-b))", "signed O(T^(1-b/2))", "P, 1 value, 1 pull-back", False, True,
    ),
    Method(
        "a-ogd-clipped", "A-OGD, clipped", lambda c, horizon, s: SaddlePoint.jenatton(c, clipped=True),
        f"{YUAN}, Proposition 5", "convex", _COMMON, _SADDLE,
        "O(T^max(b,1-b))", "clipped O(T^(1-b/2))", "P, 1 value, 1 pull-back", False, True,
    ),
    Method(
        "a-ogd-strong", "A-OGD, strongly convex", lambda c, horizon, s: SaddlePoint.jenatton_strongly_convex(c),
        JENATTON, "strongly convex", _STRONG, _SADDLE,
        "O(T^b)", "signed O(T^(1-b/2))", "P, 1 value, 1 pull-back", False, True,
    ),
    Method(
        "a-ogd-strong-clipped", "A-OGD, strongly convex, clipped",
        lambda c, horizon, s: SaddlePoint.jenatton_strongly_convex(c, clipped=True),
        f"{YUAN}, Proposition 5", "strongly convex", _STRONG, _SADDLE,
        "O(T^b)", "clipped O(T^(1-b/2))", "P, 1 value, 1 pull-back", False, True,
    ),
    Method(
        "projected-ogd", "Projected OGD", lambda c, horizon, s: ProjectedOGD.zinkevich(c, _given(s)),
        "Zinkevich, ICML 2003", "convex", ("convex losses", "exact projection on the feasible set"),
        frozenset({"gradient"}), "O(sqrt T)", "none", "PS", False,
    ),
    Method(
        "projected-ogd-strong", "Projected OGD, strongly convex",
        lambda c, horizon, s: ProjectedOGD.strongly_convex(c, _given(s)),
        "Hazan, Agarwal & Kale, Machine Learning 69, 2007", "strongly convex",
        ("strongly convex losses", "exact projection on the feasible set"),
        frozenset({"gradient"}), "O(log T)", "none", "PS", False,
    ),
    Method(
        "drift-plus-penalty", "Drift-plus-penalty", lambda c, horizon, s: DriftPlusPenalty.tuned(c, horizon),
        "Yu, Neely & Wei, NeurIPS 2017", "convex", (*_COMMON, "Slater's condition"), _SADDLE | {"pushforward"},
        "O(sqrt T)", "signed O(sqrt T)", "P, m values, 1 pull-back, 1 push-forward", True,
    ),
)  # fmt: skip

LEARNERS: Mapping[str, Method] = MappingProxyType({method.name: method for method in _METHODS})
"""Every published method by name."""


def _given(feasible: Domain | None) -> Domain:
    if feasible is None:
        raise ValueError("feasible: got None; expected the feasible set as a domain with an exact projection")
    return feasible
