"""Rows that hold on the whole domain are not played: they would only enlarge the number of
constraints."""

from __future__ import annotations

from typing import TYPE_CHECKING

import cvxpy as cp
import numpy as np

from ...engine import Array
from ...intervals.constants import Edges
from ...intervals.enclosure import Enclosure, Unknown
from ...intervals.of_cvxpy import Expressions
from ...problem.domains import Domain
from ...problem.domains.support import bounding_box, least_change
from ..constants.enclosures import edges_of, enclosures
from ..translation.inequalities import Excess
from ..translation.parameters import ranges

if TYPE_CHECKING:
    from ..model import Model

__all__ = ["without_implied"]

ROUNDING = 1e-12
"""A row that exceeds zero by less than this share of its size holds up to rounding."""


def without_implied(
    model: Model, excesses: list[Excess], domain: Domain, held: dict[int, Array], play_all: bool
) -> tuple[list[Excess], list[Excess], list[str]]:
    """The rows that some decision of the domain violates, the others, and a note on the others.

    `held` marks entries of excesses, by number, that are part of the domain by construction. With
    `play_all` only equations are left out.
    """
    low, high = bounding_box(domain)
    middle = (low + high) / 2
    everywhere, centre = (
        enclosures(model, Edges(*ends))
        for ends in ((low, high, model.size), (middle, middle, model.size))
    )
    kept: list[Excess] = []
    implied: list[Excess] = []
    labels: list[str] = []
    for k, one in enumerate(excesses):
        if one.induced and _always(model, one, domain):
            continue
        known = held.get(k, np.zeros(one.expression.size, bool))
        if play_all and not one.equality:
            kept.append(one)
            continue
        if known.all():
            implied.append(one)
            labels.append(one.label)
            continue
        bounds = _steady(model, everywhere, one)
        if bounds is None and not known.any():
            kept.append(one)
            continue
        played = (
            ~known
            if bounds is None
            else ~known & _violated(one, bounds, centre, domain, middle, (high - low) / 2)
        )
        if played.all():
            kept.append(one)
            continue
        if not played.any():
            implied.append(one)
            labels.append(one.label)
            continue
        kept.append(_entries(one, played))
        implied.append(_entries(one, ~played))
        labels.append(f"parts of {one.label}")
    kept = kept or [Excess(cp.Constant(-1.0))]
    if not implied:
        return kept, [], []
    shown = ", ".join(labels[:6]) + (", ..." if len(labels) > 6 else "")
    note = (
        "constraints that are part of the domain, because they hold on all of it, are not "
        f"played: {shown}"
    )
    return kept, implied, [note]


def _entries(one: Excess, chosen: Array) -> Excess:
    """The chosen entries of a row, which keep their places."""
    (places,) = np.nonzero(chosen)
    return Excess(
        cp.vec(one.expression, order="C")[places],
        one.equality,
        one.label,
        one.expression.shape,
        tuple(places.tolist()),
    )


def _violated(
    one: Excess,
    bounds: Enclosure,
    centre: Expressions,
    domain: Domain,
    middle: Array,
    half: Array,
) -> Array:
    """Which entries of a row exceed zero somewhere in the domain, as far as is known."""
    assert bounds.gradient is not None  # rows without slopes are unknown
    value, slopes = np.ravel(bounds.high), bounds.gradient
    rows = slopes.low.reshape(-1, len(middle))
    if one.expression.is_affine():
        at, there = np.broadcast_to(middle, rows.shape), np.ravel(centre.of(one.expression).low)
        value = there - least_change(domain, -rows, at)
        if one.equality:
            value = np.maximum(value, -there - least_change(domain, rows, at))
    reach = 1 + np.abs(value) + slopes.size.reshape(rows.shape) @ half
    return np.asarray(value > ROUNDING * reach)


def _steady(model: Model, everywhere: Expressions, one: Excess) -> Enclosure | None:
    """Bounds on a row that does not change with the round and depends on the decision; None if
    there are none."""
    if model.changing(one.expression) or not one.expression.variables():
        return None
    try:
        return everywhere.of(one.expression)
    except Unknown:
        return None


def _always(model: Model, one: Excess, domain: Domain) -> bool:
    """Whether a row holds for all decisions and data. Raises if it contains no variable and does
    not."""
    low, high = bounding_box(domain)
    known = ranges(model.parameters, float(np.sum(np.maximum(np.abs(low), np.abs(high)))) or 1.0)
    sure = not model.guessed([one.expression], known)
    try:
        value = enclosures(model, edges_of(model, domain, known)).of(one.expression).value
        worst = float(np.max(value.size if one.equality else value.high))
    except Unknown:
        worst = np.inf
    if sure and worst <= 1e-9:
        return True
    if not one.expression.variables():
        names = ", ".join(p.name() for p in one.expression.parameters())
        raise ValueError(
            f"recourse: got admissible data of {names} for which no {one.label} satisfies its "
            "constraints, whatever the decision; expected narrower bounds of the parameters, or "
            "a slack variable with a cost"
        )
    return False
