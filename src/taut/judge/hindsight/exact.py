"""The exact route: add the losses up, minimise over the feasible set, prove the result.

An *element* is a pair (seed, prefix): every element has its own best decision. If every loss is
affine or quadratic, their sum is one polynomial and a single program solves for its minimiser.
Other smooth losses take Newton steps (`newton.py`), losses with kinks take cutting planes. New
planes cost one pass over the stream for all elements.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from ...engine import Array
from ...problem.problem import Problem
from ...problem.streams import Stream
from .convexity import refuse_concave_loss, refuse_loss_below_tangent
from .cuts import Oracle
from .feasible_set import Region
from .lower_bound import Proof
from .newton import State, newton
from .objective import Objective, StreamObjective, objective_of
from .program import Level
from .result import Found, NotCertified, relative_gap
from .scaling import ScaledConstraints, Scaling, sample_points
from .stream_sums import Taylor, bad_round
from .structure import fixed_structure, probe_varying, simplified
from .tolerances import (
    ALLOWED_EXCESS,
    FEASIBLE,
    PLANE_PATIENCE,
    PLANE_STEPS,
    START,
    STOP,
    VALUE_ROUNDING,
)

__all__ = ["Cutting", "cutting_planes", "solve"]


WITNESSES = 3
"""Random decisions at which the convexity of the mean losses is checked."""


def solve(
    problem: Problem,
    stream: Stream,
    ends: tuple[int, ...],
    tolerance: float,
    rng: np.random.Generator,
) -> Found:
    """The best fixed decisions for all seeds and prefixes (`ends`, ascending), each proven."""
    own = simplified(problem.constraints)
    scaling = Scaling.measured(problem, own, stream, ends, rng)
    constraints = ScaledConstraints(problem, own, scaling)
    if constraints.takes_data:
        structure = probe_varying(constraints, stream, ends, rng)
    else:
        structure = fixed_structure(constraints, rng)
    region = Region(Oracle(constraints, stream), structure, stream, ends)
    objective = objective_of(problem, scaling, stream, ends, rng)
    state = _search(objective, region, tolerance)
    # A mistake is a constraint that samples showed as affine or quadratic and that is not, as its
    # value at the solution tells. It is then known by its tangents only, and the search is
    # repeated.
    while (mistakes := region.mistaken(state.u)).size:
        region.demote(mistakes)
        state = _search(objective, region, tolerance)
    if not objective.quadratic:
        _check_convex(objective, state, sample_points(scaling, rng, 1 + WITNESSES)[1:])
    return _found(objective, region, state, tolerance)


def _search(objective: Objective, region: Region, tolerance: float) -> State:
    """Newton's method, or cutting planes where losses are not smooth."""
    count, size = objective.count, objective.scaling.size
    everyone = np.ones(count, bool)
    u, excess = np.zeros((count, size)), np.zeros(count)
    if not objective.quadratic:  # line searches between feasible points stay feasible
        distance = Taylor(np.zeros(count), np.zeros((count, size)), np.eye(size)[None])
        u, excess, _ = region.minimise(distance, u, everyone, np.full(count, START))
    kinked = objective.kind == "kinked"
    evaluate = objective.value_slope if kinked else objective.value_slope_curvature
    state = State(u, excess, evaluate(u, everyone), np.full(count, np.inf))
    _refuse_values(objective, state.taylor)
    if not kinked:
        state = newton(objective, region, state, tolerance)
    unproven = state.gap > STOP * tolerance
    if unproven.any() and isinstance(objective, StreamObjective):
        state = _by_cutting_planes(objective, region, state, unproven, tolerance)
    return state


def _by_cutting_planes(
    objective: StreamObjective, region: Region, state: State, unproven: Array, tolerance: float
) -> State:
    found = cutting_planes(objective.tangents, region, state.u, unproven, tolerance)
    gap = np.maximum(relative_gap(found.value, found.lower, objective.rounds), 0)
    return replace(
        state,
        u=found.u,
        taylor=objective.value_slope(found.u, np.ones(len(unproven), bool)),
        gap=np.where(unproven, gap, state.gap),
        proofs={**state.proofs, **found.proofs},
        planes=found.steps,
    )


def _refuse_values(objective: Objective, taylor: Taylor) -> None:
    if all(np.isfinite(part).all() for part in taylor):
        return
    bad = bad_round(objective.stream, objective.ends)
    if bad is not None:
        raise ValueError(
            f"stream: got a value that is not finite in round {bad}; expected finite numbers"
        )
    raise ValueError(
        "loss: got a value, gradient or Hessian that is not finite at a feasible decision; "
        "expected numbers"
    )


def _check_convex(objective: Objective, state: State, witnesses: Array) -> None:
    """Evaluate the losses far from the solution, where the proof relies on them lying above their
    tangent."""
    everyone, scaling = np.ones(len(state.u), bool), objective.scaling
    evaluate = (
        objective.value_slope if objective.kind == "kinked" else objective.value_slope_curvature
    )
    rounds = objective.rounds.astype(int).tolist()
    for witness in witnesses:
        there = evaluate(np.tile(witness, (len(state.u), 1)), everyone)
        refuse_loss_below_tangent(
            state.taylor.value, state.taylor.slope, state.u, witness, there.value, rounds, scaling
        )
        for e in np.flatnonzero(np.isfinite(there.curvature).all(axis=(1, 2))):
            refuse_concave_loss(there.curvature[e], state.taylor.slope[e], scaling, rounds[e])


def _found(objective: Objective, region: Region, state: State, tolerance: float) -> Found:
    """The result, or an error if some element is not proven."""
    rounds, value = objective.rounds, state.taylor.value
    missing = np.zeros(region.structure.count)
    multipliers = np.stack(
        [
            region.multipliers(state.proofs[e]) if e in state.proofs else missing
            for e in range(len(state.u))
        ]
    )
    excess = region.excess(state.u)
    worst = (excess * region.units).max(axis=1)
    # A constraint that is violated by rounding may have bought a loss below the optimum.
    loss_bought_by_violation = np.sum(multipliers * np.maximum(excess, 0), axis=1)
    gap = np.maximum(state.gap, relative_gap(value, value - loss_bought_by_violation, rounds))
    proven = (gap <= tolerance) & (excess.max(axis=1) <= ALLOWED_EXCESS * FEASIBLE)
    if not proven.all():
        e = int(np.argmin(proven))
        region.refuse_no_interior(e)
        raise NotCertified(
            f"not certified: after {state.steps + state.planes} steps the best decision for "
            f"{int(rounds[e])} rounds has a certified relative gap of {gap[e]:.2g} and max_i g_i "
            f"= {worst[e]:.2g}; expected at most {tolerance:.2g} and about "
            f"{FEASIBLE * region.units.max():.2g}. A feasible set "
            "without interior can be the reason, because its multipliers need not exist"
        )
    unit = float(objective.scaling.loss_unit)
    return Found(
        objective.scaling.flat_decision(state.u),
        unit * value * rounds,
        gap,
        worst,
        unit * multipliers / region.units * rounds[:, None],
        _name(objective, state),
        unit,
    )


def _name(objective: Objective, state: State) -> str:
    if objective.quadratic:
        return f"clarabel, {objective.kind} objective"
    if state.planes:
        return f"cutting planes + clarabel ({state.planes} iterations)"
    return f"newton + clarabel ({state.steps} iterations)"


@dataclass
class Cutting:
    """The result of cutting planes: the best feasible points, mean losses there, lower bounds and
    multipliers."""

    u: Array
    value: Array
    lower: Array
    proofs: dict[int, Proof]
    steps: int = 0


@dataclass
class _Planes:
    """The planes of one element: slope @ y - offset is at most the loss of a group of rounds."""

    slopes: Array
    offsets: Array = field(default_factory=lambda: np.zeros(0))
    groups: Array = field(default_factory=lambda: np.zeros(0, int))

    def add(self, u: Array, values: Array, slopes: Array) -> None:
        """Add the planes that touch the groups' losses at `u`, where they are above the planes that
        are known."""
        known = np.full(len(values), -np.inf)
        np.maximum.at(known, self.groups, self.slopes @ u - self.offsets)
        new = np.flatnonzero(~(values <= known + VALUE_ROUNDING * np.abs(values)))
        self.slopes = np.concatenate([self.slopes, slopes[new]])
        self.offsets = np.concatenate([self.offsets, slopes[new] @ u - values[new]])
        self.groups = np.concatenate([self.groups, new])


def cutting_planes(
    tangents: Callable[[Array, Array], dict[int, tuple[Array, Array]]],
    region: Region,
    start: Array,
    mask: Array,
    tolerance: float,
) -> Cutting:
    """Kelley's method from `start` for the marked elements, with planes for groups of rounds.

    The minimiser of the sum of each group's largest plane over the feasible set is where the next
    planes are taken. Its value is a lower bound, made rigorous by the multipliers. It ends when the
    best feasible point is within `tolerance` of it.
    """
    count, size = start.shape
    planes = [_Planes(np.zeros((0, size))) for _ in range(count)]
    best = Cutting(start.copy(), np.full(count, np.inf), np.full(count, -np.inf), {})
    u, working, idle = start.copy(), mask.copy(), np.zeros(count, int)
    while working.any() and best.steps < PLANE_STEPS:
        best.steps += 1
        touching, elements = tangents(u, working), np.flatnonzero(working).tolist()
        if not all(np.isfinite(part).all() for both in touching.values() for part in both):
            raise ValueError(
                "loss: got a value or gradient that is not finite inside the domain; expected "
                "numbers"
            )
        idle += 1
        for e, relative_excess in zip(elements, region.tighten(elements, u), strict=True):
            values, slopes = touching[e]
            planes[e].add(u[e], values, slopes)
            value = float(values.sum())
            if relative_excess <= 1 and value < best.value[e]:
                best.u[e], best.value[e], idle[e] = u[e], value, 0
            lowest, bound, proof = _lowest(region, e, planes[e])
            if not np.isfinite(lowest).all():
                idle[e] = PLANE_PATIENCE
                continue
            u[e] = lowest
            if bound > best.lower[e]:
                best.lower[e], best.proofs[e], idle[e] = bound, proof, 0
        u[elements] = region.scaling.project(u[elements])
        found = np.isfinite(best.value)
        gap = relative_gap(np.where(found, best.value, 0), best.lower, region.rounds)
        working &= ~(found & (gap <= STOP * tolerance)) & (idle < PLANE_PATIENCE)
    return best


def _lowest(region: Region, e: int, planes: _Planes) -> tuple[Array, float, Proof]:
    """The feasible minimiser of the sum of the groups' largest planes, a proven lower bound on its
    value, and the multipliers.

    The multipliers of each group's planes add up to 1 if they are exact. Divided by their sum, they
    are weights of a mean of planes, which the group's loss is not below.
    """
    program, active, pool = region.with_planes(e, planes.slopes, planes.offsets)
    count = len(pool.keys)
    which = np.concatenate([np.zeros(count, int), planes.groups])
    relaxed = np.concatenate([np.zeros(count), np.ones(len(planes.offsets))])
    level = Level(np.zeros(len(program.rows)), np.zeros(len(program.quadratics)), relaxed, which)
    minimiser = program.least_violation(level, active)
    weights = minimiser.cuts[count:]
    sums = np.bincount(planes.groups, weights, level.levels)
    proof = Proof.of(
        minimiser,
        region.weights(pool, minimiser, minimiser.cuts[:count]),
        minimiser.rows / region.lengths,
    )
    if not np.all(sums > 0):
        return minimiser.u, -np.inf, proof
    change = weights / sums[planes.groups] - weights
    slope, offset = (
        minimiser.slope + change @ planes.slopes,
        minimiser.offset + float(change @ planes.offsets),
    )
    least = float(region.scaling.least_change(slope[None], np.zeros((1, region.scaling.size)))[0])
    return minimiser.u, least - offset, proof
