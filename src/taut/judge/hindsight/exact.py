"""The exact route: add the losses up, minimise over the feasible set, prove the result.

One element (seed, prefix) is solved after the other. If every loss is affine or quadratic, their
sum is one polynomial and a single program solves for its minimiser. Other smooth losses take Newton
steps: each minimises the Taylor polynomial of the mean loss over the feasible set and then moves
towards the minimiser as far as Armijo's rule allows. Losses with kinks take cutting planes. Large
decisions have large Hessians, so that the first-order method is tried before Newton's.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ...engine import Array
from ...problem.problem import Problem
from ...problem.streams import Stream
from .feasible_set import Proof, Region
from .first_order import FEW_PASSES, LARGE, solve_by_first_order
from .objective import Element, Objective, Taylor, relative_gap
from .program import Level
from .result import Hindsight, NotCertified, of_elements
from .scaling import ScaledConstraints, Scaling, sample_points
from .structure import (
    fixed_structure,
    has_kinks,
    probe_varying,
    refuse_concave_loss,
    refuse_loss_below_tangent,
    simplified,
)
from .tolerances import (
    ALLOWED_EXCESS,
    ARMIJO,
    FEASIBLE,
    INEXACT,
    MODEL_STOP,
    NEWTON_STEPS,
    PLANE_PATIENCE,
    PLANE_STEPS,
    SHORTEST_STEP,
    START,
    STOP,
    VALUE_ROUNDING,
)

WITNESSES = 3
"""Random decisions at which the convexity of the mean losses is checked."""


@dataclass(frozen=True)
class State:
    """Where the search for the best decision of one element is."""

    u: Array
    excess: float
    """A bound on how far the point is from feasible, by rounding or because tangents were good
    enough."""
    taylor: Taylor
    gap: float = np.inf
    proof: Proof | None = None
    curvature: Array | None = None
    """Of the active constraints, if it is known."""
    steps: int = 0
    planes: int = 0
    """Steps with cutting planes, after Newton's steps."""


def solve(
    problem: Problem,
    stream: Stream,
    ends: tuple[int, ...],
    tolerance: float,
    rng: np.random.Generator,
) -> Hindsight:
    """The best fixed decisions for all seeds and prefixes (`ends`, ascending), each proven."""
    own = simplified(problem.constraints)
    scaling = Scaling.measured(problem, own, stream, ends, rng)
    objective = Objective(problem, scaling, stream, ends, rng)
    if not objective.quadratic and scaling.size > LARGE:
        try:
            return solve_by_first_order(problem, stream, ends, tolerance, rng, most=FEW_PASSES)
        except NotCertified:  # for example because losses have kinks
            pass
    objective.kinked = not objective.quadratic and has_kinks(objective.loss, stream, ends, rng)
    constraints = ScaledConstraints(problem, own, scaling)
    if constraints.takes_data:
        structure = probe_varying(constraints, stream, ends, rng)
    else:
        structure = fixed_structure(constraints, rng)
    region = Region(constraints, structure, objective.blocks)
    witnesses = sample_points(scaling, rng, 1 + WITNESSES)[1:]
    states, columns = [], []
    for element in objective.elements:
        state = _search(objective, region, element, tolerance)
        # A mistake is a constraint that samples showed as affine or quadratic and that is not, as
        # its value at the solution tells. It is then known by its tangents only.
        while (mistakes := region.mistaken(state.u)).size:
            region.demote(mistakes)
            state = _search(objective, region, element, tolerance)
        if not objective.quadratic:
            for witness in witnesses:
                _check_convex(objective, element, state, witness)
        states.append(state)
        columns.append(_certified(objective, region, element, state, tolerance))
    steps, planes = max(state.steps for state in states), max(state.planes for state in states)
    name = f"newton + clarabel ({steps} iterations)"
    if objective.quadratic:
        name = f"clarabel, {objective.kind} objective"
    elif planes:
        name = f"cutting planes + clarabel ({planes} iterations)"
    return of_elements(columns, stream.seeds, name, float(scaling.loss_unit))


def _search(objective: Objective, region: Region, element: Element, tolerance: float) -> State:
    """Newton's method, or cutting planes where losses are not smooth."""
    u, excess = np.zeros(objective.scaling.size), 0.0
    if not objective.quadratic:  # line searches between feasible points stay feasible
        distance = Taylor(0.0, u, np.eye(len(u)))
        start = region.minimise(element, distance, u, START)
        u, excess = start.u, start.excess
    taylor = objective.taylor(element, u, second=not objective.kinked)
    if not all(np.isfinite(part).all() for part in taylor):
        bad = objective.blocks.bad_round()
        if bad is not None:
            raise ValueError(
                f"stream: got a value that is not finite in round {bad}; expected finite numbers"
            )
        raise ValueError(
            "loss: got a value, gradient or Hessian that is not finite at a feasible decision; "
            "expected numbers"
        )
    state = State(u, excess, taylor)
    if not objective.kinked:
        state = _newton(objective, region, element, state, tolerance)
    if state.gap > STOP * tolerance and not objective.quadratic:
        state = _cutting_planes(objective, region, element, state, tolerance)
    return state


def _newton(
    objective: Objective, region: Region, element: Element, state: State, tolerance: float
) -> State:
    """Newton steps until the gap is below STOP * tolerance, or a line search fails.

    If the objective is quadratic, its polynomial is exact and one step ends the search.
    """
    rounds, length = element.rounds, 1.0
    while length > 0 and state.gap > STOP * tolerance and state.steps < NEWTON_STEPS:
        u, taylor, excess = state.u, state.taylor, state.excess
        enough = MODEL_STOP * tolerance
        if not objective.quadratic:
            refuse_concave_loss(taylor.curvature, taylor.slope, objective.scaling, rounds)
            enough = max(enough, min(INEXACT[0] * state.gap, INEXACT[1]))
        target, more, proof, curvature = region.minimise(
            element, taylor, u, enough, state.curvature
        )
        if objective.quadratic:
            length, u, taylor = 0.0, target, objective.taylor(element, target)
        else:
            penalty = sum(proof.weights.values()) * excess
            length, taylor = _line_search(objective, element, u, target - u, taylor, penalty)
            u, excess = u + length * (target - u), (1 - length) * excess + length * more
        lower = region.lower(element, u, taylor.value, taylor.slope, proof)
        gap = max(relative_gap(taylor.value, lower, rounds), 0.0)
        gap = np.inf if np.isnan(gap) else gap
        state = State(u, excess, taylor, gap, proof, curvature, state.steps + 1)
    return state


def _line_search(
    objective: Objective,
    element: Element,
    u: Array,
    direction: Array,
    start: Taylor,
    penalty: float,
) -> tuple[float, Taylor]:
    """Halve the step until the loss decreases by a share ARMIJO of what was predicted; returns its
    length and the loss there.

    The quantity that must decrease is the loss plus multipliers times excess, because the start may
    owe part of its low loss to a violated constraint; `penalty` is that part, the most that the
    excess can lower the loss. A step that becomes shorter than SHORTEST_STEP has length 0.
    """
    predicted_decrease = min(float(start.slope @ direction) - penalty, 0.0)
    rounding = VALUE_ROUNDING * (abs(start.value) + abs(predicted_decrease))
    length = 1.0
    while length >= SHORTEST_STEP:
        trial = objective.taylor(element, u + length * direction)
        allowed = start.value + length * (penalty + ARMIJO * predicted_decrease) + rounding
        if trial.value <= allowed and all(np.isfinite(part).all() for part in trial):
            return length, trial
        length /= 2
    return 0.0, start


@dataclass
class _Planes:
    """The cutting planes of an element: slope @ y - offset is at most the loss of a group of
    rounds."""

    slopes: Array
    offsets: Array
    groups: Array

    def add(self, u: Array, values: Array, slopes: Array) -> None:
        """Add the planes that touch the groups' losses at `u`, where they are above the planes that
        are known."""
        known = np.full(len(values), -np.inf)
        np.maximum.at(known, self.groups, self.slopes @ u - self.offsets)
        new = np.flatnonzero(~(values <= known + VALUE_ROUNDING * np.abs(values)))
        self.slopes = np.concatenate([self.slopes, slopes[new]])
        self.offsets = np.concatenate([self.offsets, slopes[new] @ u - values[new]])
        self.groups = np.concatenate([self.groups, new])


def _cutting_planes(
    objective: Objective, region: Region, element: Element, state: State, tolerance: float
) -> State:
    """Kelley's method with planes for groups of rounds.

    The minimiser of the sum of each group's largest plane over the feasible set is where the next
    planes are taken. Its value is a lower bound, made rigorous by the multipliers. It ends when the
    best feasible point is within `tolerance` of it.
    """
    planes = _Planes(np.zeros((0, len(state.u))), np.zeros(0), np.zeros(0, int))
    u, best, least, lower, proof = state.u, state.u, np.inf, -np.inf, state.proof
    gap, idle, steps = np.inf, 0, 0
    while gap > STOP * tolerance and idle < PLANE_PATIENCE and steps < PLANE_STEPS:
        steps, idle = steps + 1, idle + 1
        values, slopes = objective.tangents(element, u)
        if not (np.isfinite(values).all() and np.isfinite(slopes).all()):
            raise ValueError(
                "loss: got a value or gradient that is not finite inside the domain; expected "
                "numbers"
            )
        feasible = region.tighten(element, u) <= FEASIBLE
        planes.add(u, values, slopes)
        if feasible and values.sum() < least:
            best, least, idle = u, float(values.sum()), 0
        lowest, bound, own = _lowest(region, element, planes)
        if not np.isfinite(lowest).all():
            break
        u = region.scaling.project(lowest[None])[0]
        if bound > lower:
            lower, proof, idle = bound, own, 0
        if np.isfinite(least):
            gap = max(relative_gap(least, lower, element.rounds), 0.0)
    taylor = objective.taylor(element, best, second=False)
    return replace(state, u=best, taylor=taylor, gap=gap, proof=proof, planes=steps)


def _lowest(region: Region, element: Element, planes: _Planes) -> tuple[Array, float, Proof]:
    """The feasible minimiser of the sum of the groups' largest planes, a proven lower bound on its
    value, and the multipliers.

    The multipliers of each group's planes add up to 1 if they are exact. Divided by their sum, they
    are weights of a mean of planes, which the group's loss is not below.
    """
    pool, program = region.pool_of(element), region.exact or region.outer
    cuts, offsets = pool.rows()
    program.set_cuts(np.vstack([cuts, planes.slopes]), np.append(offsets, planes.offsets))
    count, added = len(cuts), len(planes.offsets)
    which = np.concatenate([np.zeros(count, int), planes.groups])
    relaxed = np.concatenate([np.zeros(count), np.ones(added)])
    level = Level(np.zeros(len(program.rows)), relaxed, which)
    active = pool.active(element.rounds)
    if active is not None:
        active = np.append(active, np.ones(added, bool))
    minimiser = program.least_violation(level, active)
    weights = minimiser.cuts[count:]
    sums = np.bincount(planes.groups, weights, level.levels)
    proof = region.proof(pool, minimiser, minimiser.cuts[:count])
    if not np.all(sums > 0):
        return minimiser.u, -np.inf, proof
    change = weights / sums[planes.groups] - weights
    slope = minimiser.slope + change @ planes.slopes
    offset = minimiser.offset + float(change @ planes.offsets)
    least = region.scaling.least_change(slope[None], np.zeros_like(slope)[None])[0]
    return minimiser.u, float(least) - offset, proof


def _check_convex(objective: Objective, element: Element, state: State, witness: Array) -> None:
    """Evaluate the loss far from the solution, where the proof relies on it lying above its
    tangent."""
    there = objective.taylor(element, witness, second=not objective.kinked)
    scaling, rounds = objective.scaling, element.rounds
    value, slope = state.taylor.value, state.taylor.slope
    refuse_loss_below_tangent(value, slope, state.u, witness, there.value, rounds, scaling)
    if np.isfinite(there.curvature).all():
        refuse_concave_loss(there.curvature, slope, scaling, rounds)


def _certified(
    objective: Objective, region: Region, element: Element, state: State, tolerance: float
) -> tuple[Array, float, float, float, Array]:
    """Decision, loss, gap, violation and multipliers; an error if they are not proven."""
    value, rounds = state.taylor.value, element.rounds
    multipliers = region.multipliers(state.proof)
    excess = region.worst(element, state.u)[0].max(axis=0)
    worst = float((excess * region.units).max())
    # A constraint that is violated by rounding may have bought a loss below the optimum.
    bought = float(multipliers @ np.maximum(excess, 0))
    gap = max(state.gap, relative_gap(value, value - bought, rounds))
    if not (gap <= tolerance and excess.max() <= ALLOWED_EXCESS * FEASIBLE):
        region.refuse_no_interior(element)
        raise NotCertified(
            f"not certified: after {state.steps + state.planes} steps the best decision for "
            f"{rounds} rounds has a certified relative gap of {gap:.2g} and max_i g_i "
            f"= {worst:.2g}; expected at most {tolerance:.2g} and about "
            f"{FEASIBLE * region.units.max():.2g}. A feasible set "
            "without interior can be the reason, because its multipliers need not exist"
        )
    unit = float(objective.scaling.loss_unit)
    decision = objective.scaling.decisions(state.u[None])[0, 0]
    return decision, unit * value * rounds, gap, worst, unit * multipliers / region.units * rounds
