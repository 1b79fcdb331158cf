"""Look for a feasible decision, so that constraints which no decision satisfies are reported."""

from __future__ import annotations

import weakref
from typing import NamedTuple

import numpy as np

from ..engine import Array, default_float
from ..extras import optional
from .conic import backend
from .domains.support import centre_of, project_rows
from .evaluation import constraint_evaluation
from .problem import Problem

TOLERANCE = 1e-6
"""The largest feasible value, in units of the largest one at the centre (at most 1)."""
POLYAK_STEPS, USUAL_STEPS = 1000, 20
"""Subgradient steps before cutting planes are tried, and how many are usually enough."""
CUTS = 60
"""The largest number of cutting planes."""
CLOSE = 1e-3
"""The least-violating decision is improved until it is so close to the bound, relatively."""

_feasible: weakref.WeakSet[Problem] = weakref.WeakSet()


class NoFeasibleDecision(ValueError):
    """No decision of the domain satisfies all constraints (in all rounds, if constraints change);
    this is proven.

    Attributes:
        decision: the decision whose largest constraint value is smallest, as far as it was found.
        violation: that value, the largest one of all constraints (and rounds) at `decision`.
        bound: every decision of the domain has a constraint value of at least this, which is
            positive.
        rounds: the number of rounds whose constraints were considered; None if constraints do not
            change.
        seed: the seed whose rounds these are; None if constraints do not change.
    """

    def __init__(
        self,
        decision: Array,
        violation: float,
        bound: float,
        rounds: int | None = None,
        seed: int | None = None,
    ) -> None:
        self.decision, self.violation, self.bound, self.rounds, self.seed = (
            decision,
            violation,
            bound,
            rounds,
            seed,
        )
        when = "" if rounds is None else f" over {rounds} rounds"
        super().__init__(
            f"constraints: got max_i g_i(x) >= {bound:.6g} > 0{when} for all x of the domain; "
            "expected a domain with a decision for which g(x) <= 0. The least-violating decision "
            f"found has max_i g_i(x) = {violation:.6g}"
        )

    def __reduce__(self) -> tuple[type[NoFeasibleDecision], tuple[object, ...]]:
        return type(self), (self.decision, self.violation, self.bound, self.rounds, self.seed)


def check_feasible(problem: Problem) -> None:
    """Raise an error if it is proved that no decision of the domain satisfies the constraints.

    Constraints that depend on the round's data are not checked here, but by `taut.hindsight`, which
    has the whole stream.
    """
    if problem.constraints.takes_data or problem in _feasible:
        return
    search = find_feasible(problem)
    if search.proven:
        raise NoFeasibleDecision(search.least_violating, search.violation, search.bound)
    _feasible.add(problem)


def mark_feasible(problem: Problem) -> None:
    """Remember that this problem has a feasible decision: `check_feasible` need not search."""
    _feasible.add(problem)


class Feasibility(NamedTuple):
    """The result of a search for a feasible decision."""

    decision: Array | None
    """A decision with max g at most about 1e-6, if one was found."""
    bound: float
    """The best known lower bound on min max g; the value at `decision` if one was found."""
    proven: bool
    """Whether the bound proves that no decision is feasible."""
    least_violating: Array
    """The decision with the smallest max g that was found,"""
    violation: float
    """and its max g."""


def find_feasible(problem: Problem) -> Feasibility:
    """Search for a feasible decision, or for a proof that there is none.

    First come Polyak steps x <- Pi_B(x - [g(x)]_+ s / ||s||^2), which stop at the first feasible
    decision and are enough for nearly every problem, then cutting planes, whose programs bound the
    minimum from below.
    """
    point, excess, first, size = _polyak(problem)
    if excess <= 0:
        return Feasibility(point, excess, False, point, excess)
    # The tolerance shrinks with the values at the centre, and allows for rounding errors of large
    # values.
    rounding = max(1e-8, 32 * float(np.finfo(default_float()).eps)) * size
    tolerance = TOLERANCE * min(1.0, max(0.0, first)) + rounding
    if excess <= tolerance:
        return Feasibility(point, excess, False, point, excess)
    if not np.isfinite(excess):
        raise ValueError(
            "constraints: got a value that is not finite inside the domain; expected finite numbers"
        )
    return _cutting_planes(problem, point, excess, tolerance, first)


def _polyak(problem: Problem) -> tuple[Array, float, float, float]:
    """Return the best decision found, its largest g, and max g and max |g| at the centre."""
    domain, g = problem.domain, constraint_evaluation(problem)
    x = best = centre_of(domain)
    values = g.values(x[None, None])[0, 0]
    first = lowest = float(values.max())
    size = float(np.abs(values).max())
    g = g.repeated(USUAL_STEPS)
    for _ in range(POLYAK_STEPS):
        if not lowest > 0:
            break
        slope = g.of_one_entry().slopes(x[None, None], (None, values.argmax()[None, None]))[1][0]
        with np.errstate(all="ignore"):
            length = np.sum(slope**2)
            moved = x.ravel() - values.max() / np.where(length > 0, length, 1) * slope
        x = project_rows(domain, moved).reshape(domain.shape).astype(x.dtype)
        values = g.values(x[None, None])[0, 0]
        if values.max() < lowest:
            best, lowest = x, float(values.max())
    return best, lowest, first, size


def _cutting_planes(
    problem: Problem, x: Array, violation: float, tolerance: float, unit: float
) -> Feasibility:
    """Kelley's method for min max g, in units in which the solver's tolerances fit."""
    cp = optional("cvxpy")

    y, level = cp.Variable(problem.domain.shape), cp.Variable()
    rows = problem.domain.to_cvxpy(y)
    lowest, best = -np.inf, x
    g = constraint_evaluation(problem)
    for _ in range(CUTS):
        at = np.asarray(x, default_float())[None, None]
        values, slopes = (part[0, 0].astype(float) for part in g.slopes(at))
        largest = float(values.max())
        if largest < violation:
            best, violation = x, largest
        if largest <= tolerance:
            return Feasibility(x, largest, False, x, largest)
        if lowest > tolerance and violation - lowest <= CLOSE * violation:
            break
        offsets = values - slopes @ x.ravel()
        rows.append((slopes / unit) @ cp.vec(y, order="C") + offsets / unit <= level)
        plan = cp.Problem(cp.Minimize(level), rows)
        plan.solve(solver=cp.CLARABEL, canon_backend=backend(plan))
        if plan.status != cp.OPTIMAL or y.value is None:
            break
        lowest, x = unit * float(level.value), np.asarray(y.value)
    return Feasibility(None, lowest, lowest > tolerance, best, violation)
