"""Choosing: which learner for this problem, and why, from the assumptions that hold, with its
bounds as numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from .. import arguments
from ..display import Displayed, Grid, Summary, brief, counted, number
from ..engine import require_jax
from ..learners import LEARNERS, Card, ClippedOGD, Guarantee, HalfSpace, Learner, Setting
from ..learners.protocols import Announced
from ..learners.registry import DEFAULT
from ..learners.theorem import error_bound_from_slater
from ..problem.constants import SYMBOLS
from ..problem.domains import Domain
from ..problem.problem import Problem
from .facts.ranges import trivial_limits
from .guarantees import guarantees, setting_of

BEST = "clipped-ogd"
"""The method whose parameters are chosen by its own bound."""
NEEDED = ("radius", "loss_lipschitz", "constraint_lipschitz", "constraint_count")
"""Constants without which bounds cannot be compared."""
NEARLY = 2.0
"""A learner of the default's family is mentioned, with its measurements, if its bound is at most so
many times the smallest."""
REFERENCE = 10_000
"""Horizon at which bounds are compared when none is given."""


@dataclass(frozen=True)
class Candidate:
    """A method that applies to the problem, with its bounds at the horizon; or the reason why it
    does not apply."""

    method: Card
    learner: Learner | None
    guarantees: tuple[Guarantee, ...]
    reason: str

    def bound(self, quantity: str) -> float:
        """The bound on one quantity; infinite if there is none."""
        known = next((g.bound for g in self.guarantees if g.quantity == quantity), None)
        return math.inf if known is None else known


@dataclass(frozen=True, repr=False)
class Recommendation(Displayed):
    """The learner to play, why, and what else was considered, best first."""

    name: str
    learner: Learner
    reasons: tuple[str, ...]
    horizon: int
    candidates: tuple[Candidate, ...]

    @property
    def guarantees(self) -> tuple[Guarantee, ...]:
        """What is promised of the learner at the horizon."""
        return self.candidates[0].guarantees

    def to_dict(self) -> dict[str, Any]:
        """All of it as JSON-able values."""
        return {
            "name": self.name,
            "learner": repr(self.learner),
            "reasons": list(self.reasons),
            "horizon": self.horizon,
            "candidates": [
                {
                    "name": candidate.method.name,
                    "applies": candidate.learner is not None,
                    "reason": candidate.reason,
                    "bounds": {g.quantity: g.bound for g in candidate.guarantees},
                }
                for candidate in self.candidates
            ],
        }

    def _summary(self) -> Summary:
        quantities = ("regret", "violation", "squared violation", "peak violation")
        rows = []
        for candidate in self.candidates:
            bounds = [candidate.bound(quantity) for quantity in quantities]
            if candidate.learner is not None and min(bounds) < math.inf:
                shown = ("" if math.isinf(bound) else number(bound) for bound in bounds)
                rows.append((candidate.method.name, *shown))
        others, notes = len(self.candidates) - len(rows), []
        if others:
            few = counted(others, "learner")
            notes = [f"Not applicable or without a bound here: {few}; remarks() or --all says why."]
        facts = [
            ("learner", brief(self.learner)),
            *(("reason" if i == 0 else "", r) for i, r in enumerate(self.reasons)),
        ]
        first = f"bounds at T = {self.horizon}"
        grid = Grid((first, *quantities), tuple(rows), left=(first,))
        return Summary(f"Recommendation: {self.name}", facts, (grid,), notes)

    def remarks(self) -> Grid:
        """Return a table of the learners that do not apply or lack a bound, with the reason."""
        rows = tuple((c.method.name, c.reason) for c in self.candidates if c.reason)
        return Grid(("learner", "remark"), rows, left=("learner", "remark"))


def recommend(
    problem: Problem,
    horizon: int | None = None,
    *,
    per_round: bool = False,
    weight: float = 1.0,
    feasible: Domain | None = None,
    stream: Any = None,
) -> Recommendation:
    """The learner with the least bound on regret plus `weight` times violation among those whose
    assumptions hold.

    Arguments:
        problem: the problem. Bounds are compared if its constants are known: given, proven
            (`problem.facts(stream)`) or estimated
            (`problem.with_constants(problem.estimate_constants(...))`); otherwise the default
            learner is recommended.
        horizon: number of rounds, if it is known; without it only learners that need none are
            considered.
        per_round: whether every single round matters: then the peak violation counts instead of the
            sum.
        weight: what a unit of violation costs in units of loss.
        feasible: the feasible set as a domain, if it has an exact projection.
        stream: data like those that will be played, from which constants of losses are proven.
    """
    require_jax()
    arguments.instance("problem", problem, Problem, "taut.Problem(...), whose constants are used")
    arguments.flag("per_round", per_round)
    weight = arguments.positive("weight", weight)
    length = REFERENCE if horizon is None else arguments.count("horizon", horizon)
    stated = problem
    problem = problem.with_constants(problem.facts(stream).strengthened(problem.constants))
    unknown = [name for name in NEEDED if getattr(problem.constants, name) is None]
    setting = setting_of(problem)
    if unknown:
        return _without_constants(stated, setting, length, unknown)
    candidates = [
        _candidate(m, problem, setting, horizon, length, feasible, weight)
        for m in LEARNERS.values()
    ]
    if problem.announced is not None:
        why = "it does not enforce announced constraints"
        candidates = [
            c if isinstance(c.learner, Announced) else Candidate(c.method, None, (), why)
            for c in candidates
        ]

    def price(c: Candidate) -> float:
        violation = length * c.bound("peak violation") if per_round else c.bound("violation")
        return math.inf if c.learner is None else c.bound("regret") + weight * violation

    ranked = tuple(sorted(candidates, key=price))
    best = ranked[0]
    if best.learner is None or math.isinf(price(best)):
        raise ValueError(
            "problem: got constants under which no learner has a guarantee on regret and clipped "
            "violation; expected at least radius, loss_lipschitz, constraint_lipschitz and "
            "constraint_count"
        )
    reasons = _reasons(best, problem, horizon, per_round)
    if problem.previous:
        reasons = (
            *reasons,
            "the loss depends on the previous decision: bounds are on adaptive-adversary regret, "
            "not on policy regret",
        )
    nearly = next((c for c in ranked[1:] if isinstance(c.learner, HalfSpace)), None)
    if (
        nearly is not None
        and not isinstance(best.learner, HalfSpace)
        and price(nearly) <= NEARLY * price(best)
    ):
        reasons = (
            f"It has the smallest proven bound. In measurements {DEFAULT} violates less: try both "
            f"with taut.compare. The bound of {nearly.method.name}, of its family, is "
            f"{price(nearly) / price(best):.2g} times as large.",
            *reasons,
        )
    return Recommendation(
        best.method.name, best.learner, (*reasons, *_trivial(best, problem, length)), length, ranked
    )


def _trivial(best: Candidate, problem: Problem, horizon: int) -> tuple[str, ...]:
    """Say which bounds of the recommended learner say nothing, because every learner satisfies
    them."""
    limits = trivial_limits(problem, horizon).by_quantity
    names = [
        q for q, limit in limits.items() if q != "excess" and limit <= best.bound(q) < math.inf
    ]
    if not names:
        return ()
    listed = ", ".join(f"{name} (at most {limits[name]:.4g})" for name in names)
    return (f"At T = {horizon} these bounds say nothing, because no method can do worse: {listed}",)


def _without_constants(
    problem: Problem, setting: Setting, horizon: int, unknown: list[str]
) -> Recommendation:
    """Recommend the default learner, the only one whose bounds need no constants."""
    card = LEARNERS[DEFAULT]
    learner = card.build(problem)
    named = ", ".join(f"{name} ({SYMBOLS[name]})" for name in unknown)
    reasons = (
        f"{card.title} ({card.reference})",
        f"{named} unknown: it needs no constants, and a certificate computes its bounds from "
        "observed gradients",
        "measured (python -m benchmarks.frontier): less clipped violation than Clipped-OGD on "
        "all seven streams",
        "for bounds before the run, pass stream=..., from which constants are proven, or let "
        "problem.estimate_constants(stream, key) sample them",
    )
    only = Candidate(card, learner, guarantees(learner, setting, horizon), "")
    return Recommendation(card.name, learner, reasons, horizon, (only,))


def _best(setting: Setting, horizon: int, weight: float) -> Learner:
    """Clipped-OGD with the parameters that minimise the very bound that learners are compared
    by."""
    constants, near = setting.constants, None
    if constants.error_bound is None and constants.slater is not None:
        kappa = error_bound_from_slater(slater=constants.slater, distance=setting.diameter)
        constants = constants.with_values(error_bound=kappa)
    if (
        setting.constraints_fixed
        and setting.initial_violation is not None
        and constants.error_bound is not None
    ):
        near = setting.initial_violation / constants.error_bound
    return ClippedOGD.tuned(
        constants, horizon, rule="bound-optimal", weight=weight, initial_distance=near
    )


def _candidate(
    method: Card,
    problem: Problem,
    setting: Setting,
    horizon: int | None,
    length: int,
    feasible: Domain | None,
    weight: float,
) -> Candidate:
    constants = setting.constants
    reason = ""
    if method.request_first:
        reason = "decides after it has seen the request of a round, which is another protocol"
    elif method.needs_horizon and horizon is None:
        reason = "needs the horizon"
    elif method.losses == "strongly convex" and constants.strong_convexity == 0:
        reason = "losses are not known to be strongly convex"
    elif method.needs_feasible and feasible is None:
        reason = "needs a projection on the feasible set"
    elif method.aggregated and constants.constraint_count != 1:
        reason = "plays one aggregated constraint: use taut.max_of(problem)"
    if reason:
        return Candidate(method, None, (), reason)
    try:
        if method.name == BEST:
            learner = _best(setting, length, weight)
        else:
            learner = method.build(problem, length, feasible=feasible)
    except ValueError as error:
        return Candidate(method, None, (), str(error))
    limits = guarantees(learner, setting, length)
    bounded = {g.quantity for g in limits}
    if "violation" not in bounded:
        reason = "has no bound on the violation"
        if "excess" in bounded:
            reason = "bounds the signed sum only: slack pays for violations"
    return Candidate(method, learner, limits, reason)


def _reasons(
    best: Candidate, problem: Problem, horizon: int | None, per_round: bool
) -> tuple[str, ...]:
    reasons = [
        f"{best.method.title} ({best.method.reference})",
        f"regret {best.method.regret}, violation {best.method.violation}",
        "the horizon is known"
        if horizon is not None
        else f"no horizon given: it needs none (bounds shown at T = {REFERENCE})",
    ]
    if best.method.name == BEST:
        usual = best.method.build(problem, horizon)
        reasons.append(
            "its parameters minimise the bound on regret plus the weighted violation; "
            f'taut.learner("{BEST}", problem, horizon={horizon}) has those of Theorem 1: '
            f"{brief(usual)}"
        )
    if best.method.losses == "strongly convex":
        reasons.append(
            f"the losses are strongly convex, H = {problem.constants.strong_convexity:g}"
        )
    if per_round:
        reasons.append("every round matters: chosen by the bound on the peak violation")
    if problem.constants.estimated:
        reasons.append(
            f"estimated, so the bounds are too: {', '.join(sorted(problem.constants.estimated))}"
        )
    return tuple(reasons)
