"""The exact route: add the losses up, minimise over the feasible set, prove the result.

An *element* is a pair (seed, prefix): every element has its own best decision. If every loss is
affine or quadratic, their sum is one polynomial and a single program solves for its minimiser.
Other smooth losses take Newton steps: each minimises the Taylor polynomial of the mean losses over
the feasible set and then moves towards the minimiser as far as Armijo's rule allows. Losses with
kinks take cutting planes (`planes.py`). A pass over the stream serves all elements.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from ...engine import Array
from ...problem.problem import Problem
from ...problem.streams import Stream
from .cuts import Oracle, Proof
from .feasible_set import Region
from .objective import Objective, Taylor, bad_round
from .planes import cutting_planes
from .result import Found, NotCertified, relative_gap
from .scaling import ScaledConstraints, Scaling, sample_points
from .structure import (
    fixed_structure,
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
    SHORTEST_STEP,
    START,
    STOP,
    VALUE_ROUNDING,
)

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
    objective = Objective(problem, scaling, stream, ends, rng)
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


def _search(objective: Objective, region: Region, tolerance: float) -> _State:
    """Newton's method, or cutting planes where losses are not smooth."""
    count, size = objective.count, objective.scaling.size
    everyone = np.ones(count, bool)
    u, excess = np.zeros((count, size)), np.zeros(count)
    if not objective.quadratic:  # line searches between feasible points stay feasible
        distance = Taylor(np.zeros(count), np.zeros((count, size)), np.eye(size)[None])
        u, excess, _ = region.minimise(distance, u, everyone, np.full(count, START))
    kinked = objective.kind == "kinked"
    evaluate = objective.value_slope if kinked else objective.value_slope_curvature
    state = _State(u, excess, evaluate(u, everyone), np.full(count, np.inf))
    _refuse_values(objective, state.taylor)
    if not kinked:
        state = _newton(objective, region, state, tolerance)
    unproven = state.gap > STOP * tolerance
    if unproven.any() and not objective.quadratic:
        state = _by_cutting_planes(objective, region, state, unproven, tolerance)
    return state


def _by_cutting_planes(
    objective: Objective, region: Region, state: _State, unproven: Array, tolerance: float
) -> _State:
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


def _check_convex(objective: Objective, state: _State, witnesses: Array) -> None:
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


def _found(objective: Objective, region: Region, state: _State, tolerance: float) -> Found:
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


def _name(objective: Objective, state: _State) -> str:
    if objective.quadratic:
        return f"clarabel, {objective.kind} objective"
    if state.planes:
        return f"cutting planes + clarabel ({state.planes} iterations)"
    return f"newton + clarabel ({state.steps} iterations)"


@dataclass(frozen=True)
class _State:
    """Where the search is, for each element."""

    u: Array
    excess: Array
    """A bound on how far each point is from feasible, by rounding or because tangents were good
    enough."""
    taylor: Taylor
    gap: Array
    proofs: dict[int, Proof] = field(default_factory=dict)
    steps: int = 0
    planes: int = 0
    """Cutting planes that were added after Newton's steps."""


def _newton(objective: Objective, region: Region, state: _State, tolerance: float) -> _State:
    """Newton steps until every gap is below STOP * tolerance, or no element can move any more.

    If the objective is quadratic, its polynomial is exact and one step ends the search.
    """
    unproven, stuck = np.ones(len(state.u), bool), np.zeros(len(state.u), bool)
    while (unproven & ~stuck).any() and state.steps < NEWTON_STEPS:
        moving = unproven & ~stuck
        _refuse_concave(objective, state.taylor, moving)
        enough = np.full(len(state.u), MODEL_STOP * tolerance)
        if not objective.quadratic:
            enough = np.maximum(enough, np.minimum(INEXACT[0] * state.gap, INEXACT[1]))
        target, excess, proofs = region.minimise(state.taylor, state.u, moving, enough)
        state = replace(state, proofs={**state.proofs, **proofs}, steps=state.steps + 1)
        if objective.quadratic:
            state = replace(state, u=target, taylor=objective.value_slope_curvature(target, moving))
            stuck = stuck | moving
        else:
            penalty = np.zeros(len(moving))
            for e in np.flatnonzero(
                moving
            ).tolist():  # the most that one unit of excess can lower the loss
                penalty[e] = sum(state.proofs[e].weights.values()) * state.excess[e]
            direction = np.where(moving[:, None], target - state.u, 0)
            found = _line_search(objective, state.u, direction, state.taylor, penalty, moving)
            kept = np.where(
                moving, (1 - found.length) * state.excess + found.length * excess, state.excess
            )
            state = replace(state, u=found.u, taylor=found.taylor, excess=kept)
            stuck = stuck | (moving & (found.length == 0))
        state = replace(state, gap=_measured(objective, region, state, np.flatnonzero(unproven)))
        unproven = state.gap > STOP * tolerance
    return state


def _measured(objective: Objective, region: Region, state: _State, elements: Array) -> Array:
    """The relative gaps, those of `elements` measured anew."""
    value, slope = state.taylor.value[elements], state.taylor.slope[elements]
    lower = region.lower(elements.tolist(), state.u, value, slope, state.proofs)
    measured = np.maximum(relative_gap(value, lower, objective.rounds[elements]), 0)
    gap = state.gap.copy()
    gap[elements] = np.where(np.isnan(measured), np.inf, measured)
    return gap


def _refuse_concave(objective: Objective, taylor: Taylor, moving: Array) -> None:
    for e in [0] if len(taylor.curvature) == 1 else np.flatnonzero(moving):
        rounds = int(objective.rounds[e])
        refuse_concave_loss(taylor.curvature[e], taylor.slope[e], objective.scaling, rounds)


class _LineSearch(NamedTuple):
    """The result of a line search: how far each element went, where it is, and the losses there."""

    length: Array
    u: Array
    taylor: Taylor


def _line_search(
    objective: Objective, u: Array, direction: Array, start: Taylor, penalty: Array, mask: Array
) -> _LineSearch:
    """Halve the step of each marked element until its loss decreases by a share ARMIJO of what was
    predicted.

    The quantity that must decrease is the loss plus multipliers times excess, because the start may
    owe part of its low loss to a violated constraint; `penalty` is that part. Elements whose step
    becomes shorter than SHORTEST_STEP stay: length 0.
    """
    predicted_decrease = np.minimum(np.sum(start.slope * direction, axis=1) - penalty, 0)
    rounding = VALUE_ROUNDING * (np.abs(start.value) + np.abs(predicted_decrease))
    length, open_, result = mask.astype(float), mask.copy(), start
    while open_.any():
        trial = objective.value_slope_curvature(u + length[:, None] * direction, open_)
        with np.errstate(invalid="ignore"):
            good = open_ & (
                trial.value
                <= start.value + length * (penalty + ARMIJO * predicted_decrease) + rounding
            )
        good &= np.isfinite(trial.slope).all(axis=1) & np.isfinite(trial.curvature).all(axis=(1, 2))
        result = Taylor(*(_where(good, new, old) for new, old in zip(trial, result, strict=True)))
        open_ &= ~good
        length = np.where(open_, length / 2, length)
        failed = open_ & (length < SHORTEST_STEP)
        length, open_ = np.where(failed, 0.0, length), open_ & ~failed
    return _LineSearch(length, u + length[:, None] * direction, result)


def _where(mask: Array, new: Array, old: Array) -> Array:
    return np.where(mask.reshape(-1, *(1,) * (new.ndim - 1)), new, old)
