"""Newton's method over a feasible set, for all elements (seed, prefix) side by side, so that they
share passes.

Each step minimises the Taylor polynomial of the mean losses over the feasible set and then moves
towards the minimiser as far as Armijo's rule allows. `newton` is the loop. The feasible set is any
object with the methods of `FeasibleSet`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Protocol

import numpy as np

from ...engine import Array
from .convexity import refuse_concave_loss
from .objective import Objective
from .result import relative_gap
from .stream_sums import Taylor
from .tolerances import (
    ARMIJO,
    INEXACT,
    MODEL_STOP,
    NEWTON_STEPS,
    SHORTEST_STEP,
    STOP,
    VALUE_ROUNDING,
)

__all__ = ["FeasibleSet", "LineSearch", "State", "line_search", "newton"]


class FeasibleSet(Protocol):
    """The three questions that Newton's method asks of a feasible set. Proofs are opaque to it."""

    def minimise(
        self, taylor: Taylor, at: Array, mask: Array, tolerance: Array
    ) -> tuple[Array, Array, Mapping[int, Any]]:
        """For each marked element: the minimiser of its polynomial (expanded at `at`), its excess,
        and a proof."""

    def lower(
        self, elements: list[int], u: Array, value: Array, slope: Array, proofs: Mapping[int, Any]
    ) -> Array:
        """Lower bounds on the optimal mean losses, from value and gradient at points `u`."""

    def multiplier_sum(self, proof: Any) -> float:
        """The sum of a proof's multipliers: the most that one unit of excess can lower the loss."""


@dataclass(frozen=True)
class State:
    """Where the search is, for each element."""

    u: Array
    excess: Array
    """A bound on how far each point is from feasible, by rounding or because tangents were good
    enough."""
    taylor: Taylor
    gap: Array
    proofs: Mapping[int, Any] = field(default_factory=dict)
    steps: int = 0
    planes: int = 0
    """Cutting planes that were added after Newton's steps."""


def newton(objective: Objective, feasible: FeasibleSet, state: State, tolerance: float) -> State:
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
        target, excess, proofs = feasible.minimise(state.taylor, state.u, moving, enough)
        state = replace(state, proofs={**state.proofs, **proofs}, steps=state.steps + 1)
        if objective.quadratic:
            state = replace(state, u=target, taylor=objective.value_slope_curvature(target, moving))
            stuck = stuck | moving
        else:
            penalty = np.asarray(
                [
                    feasible.multiplier_sum(state.proofs[e]) * state.excess[e] if on else 0.0
                    for e, on in enumerate(moving)
                ]
            )
            direction = np.where(moving[:, None], target - state.u, 0)
            found = line_search(objective, state.u, direction, state.taylor, penalty, moving)
            kept = np.where(
                moving, (1 - found.length) * state.excess + found.length * excess, state.excess
            )
            state = replace(state, u=found.u, taylor=found.taylor, excess=kept)
            stuck = stuck | (moving & (found.length == 0))
        state = replace(state, gap=_measured(objective, feasible, state, np.flatnonzero(unproven)))
        unproven = state.gap > STOP * tolerance
    return state


def _measured(objective: Objective, feasible: FeasibleSet, state: State, elements: Array) -> Array:
    """The relative gaps, those of `elements` measured anew."""
    value, slope = state.taylor.value[elements], state.taylor.slope[elements]
    lower = feasible.lower(elements.tolist(), state.u, value, slope, state.proofs)
    measured = np.maximum(relative_gap(value, lower, objective.rounds[elements]), 0)
    gap = state.gap.copy()
    gap[elements] = np.where(np.isnan(measured), np.inf, measured)
    return gap


def _refuse_concave(objective: Objective, taylor: Taylor, moving: Array) -> None:
    for e in [0] if len(taylor.curvature) == 1 else np.flatnonzero(moving):
        rounds = int(objective.rounds[e])
        refuse_concave_loss(taylor.curvature[e], taylor.slope[e], objective.scaling, rounds)


class LineSearch(NamedTuple):
    """The result of a line search: how far each element went, where it is, and the losses there."""

    length: Array
    u: Array
    taylor: Taylor


def line_search(
    objective: Objective, u: Array, direction: Array, start: Taylor, penalty: Array, mask: Array
) -> LineSearch:
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
    return LineSearch(length, u + length[:, None] * direction, result)


def _where(mask: Array, new: Array, old: Array) -> Array:
    return np.where(mask.reshape(-1, *(1,) * (new.ndim - 1)), new, old)
