"""Rows that hold on the whole domain are not played: they would only enlarge the number of constraints."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import cvxpy as cp
import numpy as np

from ..engine import Array
from ..problem.domains import Domain
from ..problem.domains.support import bounding_box, least_change
from .inequalities import Excess, excesses_of
from .interval_bounds import Box, Intervals
from .intervals import Span, Unknown

if TYPE_CHECKING:
    from .model import Model

__all__ = ["stated_box", "without_implied"]

ROUNDING = 1e-12
"""A row that exceeds zero by less than this share of its size holds up to rounding."""


def stated_box(model: Model, constraints: list[Any], low: Array, high: Array) -> tuple[Array, Array]:
    """The box, cut by every constraint on a single entry of the decision, such as `x >= 0` and `2 * y[3] <= 1`."""
    low, high = low.copy(), high.copy()
    intervals = Intervals(
        model, Box(np.zeros(model.size), np.zeros(model.size), model.size)
    )  # values at the decision zero
    for one in (one for constraint in constraints for one in excesses_of(constraint)):
        span = _steady(model, intervals, one)
        if span is None or not one.expression.is_affine():
            continue
        for slope, value in zip(span.down, np.ravel(span.low), strict=True):
            (places,) = np.nonzero(slope)
            if len(places) == 1:
                i = int(places[0])
                edge = -float(value) / slope[i]
                if slope[i] > 0 or one.equality:
                    high[i] = min(high[i], edge)
                if slope[i] < 0 or one.equality:
                    low[i] = max(low[i], edge)
    return low, high


def without_implied(model: Model, excesses: list[Excess], domain: Domain) -> tuple[list[Excess], list[str]]:
    """The rows that some decision of the domain violates, and a note on the others."""
    low, high = bounding_box(domain)
    middle = (low + high) / 2
    intervals, centre = (
        Intervals(model, Box(*ends)) for ends in ((low, high, model.size), (middle, middle, model.size))
    )
    kept: list[Excess] = []
    dropped: list[str] = []
    for one in excesses:
        span = _steady(model, intervals, one)
        if span is None:
            kept.append(one)
            continue
        value = np.ravel(span.high)
        if one.expression.is_affine():
            at, there = np.tile(middle, (span.size, 1)), np.ravel(centre.of(one.expression).low)
            value = there - least_change(domain, -span.down, at)
            if one.equality:
                value = np.maximum(value, -there - least_change(domain, span.down, at))
        reach = 1 + np.abs(value) + np.maximum(np.abs(span.down), np.abs(span.up)) @ ((high - low) / 2)
        played = value > ROUNDING * reach
        if played.all():
            kept.append(one)
            continue
        dropped.append(f"{'' if not played.any() else 'parts of '}{one.label}")
        if played.any():
            (left,) = np.nonzero(played)
            kept.append(
                Excess(
                    cp.vec(one.expression, order="C")[left],
                    one.equality,
                    one.label,
                    one.expression.shape,
                    tuple(left.tolist()),
                )
            )
    if not dropped:
        return excesses, []
    shown = ", ".join(dropped[:6]) + (", ..." if len(dropped) > 6 else "")
    note = f"constraints that are part of the domain, because they hold on all of it, are not played: {shown}"
    return kept or [Excess(cp.Constant(-1.0))], [note]


def _steady(model: Model, intervals: Intervals, one: Excess) -> Span | None:
    """Bounds on a row that does not change with the round and depends on the decision; None if there are none."""
    if model.changing(one.expression) or not one.expression.variables():
        return None
    try:
        return intervals.of(one.expression)
    except Unknown:
        return None
