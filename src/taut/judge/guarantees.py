"""What theory says about a learner on a problem: the setting of a run, and the choice among bounds that stand."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np

from .. import arguments
from ..learners import QUANTITIES, Guarantee, Learner, Observed, Setting
from ..learners.base import smallest
from ..problem.problem import Problem

__all__ = ["Standing", "guarantees", "setting_of", "standing"]


def setting_of(problem: Problem, first: Any = None, observed: Observed | None = None) -> Setting:
    """Return what bounds need to know about a problem and a run.

    Arguments:
        problem: the problem that is played.
        first: the first decision; the centre of the domain if it is `None`.
        observed: what a finished run observed.
    """
    centre = np.asarray(problem.domain.centre)
    first = centre if first is None else np.asarray(first)
    fixed = not problem.constraints.takes_data
    excess = None
    if fixed:
        excess = float(np.asarray(problem.constraints.values(jnp.asarray(first), None)).max())
    constants = problem.constants
    affine = fixed and constants.constraint_smoothness == 0
    diameter = float(problem.domain.diameter)
    if not np.all(first == centre):  # the comparator may be a diameter away
        constants = constants.with_values(radius=diameter)
    return Setting(
        constants, diameter, fixed, None if excess is None else max(excess, 0.0), initial_excess=excess,
        constraints_affine=affine, half_spaces=constants.constraint_count if affine else None, observed=observed,
    )  # fmt: skip


def guarantees(learner: Learner, setting: Setting, horizon: int) -> tuple[Guarantee, ...]:
    """Return the smallest bound on each quantity that applies to this learner with these parameters."""
    return tuple(smallest(learner.guarantees(setting, arguments.count("horizon", horizon))).values())


@dataclass(frozen=True)
class Standing:
    """What remains of the bounds on one quantity once assumptions have been checked."""

    guarantee: Guarantee | None
    """The smallest bound whose assumptions all stand; if there is none, the smallest of the others."""
    refuted: tuple[str, ...] = ()
    """The refuted assumptions of `guarantee`; empty if it stands."""
    reasons: tuple[str, ...] = ()
    """Why theorems give no bound, for a quantity without any."""


def standing(found: Iterable[Guarantee], refuted: Collection[str]) -> dict[str, Standing]:
    """Choose, for each quantity, the smallest bound whose assumptions stand.

    Every candidate is kept until assumptions have been checked, so a refuted sharp bound does not hide a valid weaker one.
    """
    found = tuple(found)
    chosen = {}
    for quantity in QUANTITIES:
        candidates = [g for g in found if g.quantity == quantity and g.bound is not None and math.isfinite(g.bound)]
        valid = [g for g in candidates if not refuted or not set(g.assumptions) & set(refuted)]
        best = smallest(valid or candidates).get(quantity)
        against = () if valid or best is None else tuple(sorted(set(best.assumptions) & set(refuted)))
        reasons = {f"{g.source}: {g.reason}": None for g in found if g.quantity == quantity and g.reason}
        chosen[quantity] = Standing(best, against, () if candidates else tuple(reasons))
    return chosen
