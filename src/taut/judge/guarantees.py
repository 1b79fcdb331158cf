"""What theory says about a learner on a problem: the setting of a run, and the choice among bounds
that stand."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .. import arguments
from ..learners import QUANTITIES, Guarantee, Learner, Observed, Setting
from ..learners.guarantee import smallest
from ..learners.protocols import uncovered
from ..learners.theorem import tightening_cost
from ..problem.domains.support import centre_of
from ..problem.feedback import Feedback
from ..problem.problem import Problem
from ..problem.transforms import LogSumExp, Max, Squared, Transform
from .facts.find import Facts
from .observed import largest_values


def setting_of(
    problem: Problem,
    first: Any = None,
    observed: Observed | None = None,
    facts: Facts | None = None,
) -> Setting:
    """Return what bounds need to know about a problem and a run.

    Arguments:
        problem: the problem that is played.
        first: the first decision; the centre of the domain if it is `None`.
        observed: what a finished run observed.
        facts: what is proven of the problem; its constants are strengthened by them.
    """
    centre = centre_of(problem.domain)
    first = centre if first is None else np.asarray(first)
    fixed = not problem.constraints.takes_data
    excess = None
    if fixed:
        excess = float(largest_values(problem, first[None])[0])
    constants = problem.constants
    if facts is not None:
        constants = facts.strengthened(constants)
    affine = fixed and constants.constraint_smoothness == 0
    diameter = float(problem.domain.diameter)
    if not np.all(first == centre):  # the comparator may be a diameter away
        constants = constants.with_values(radius=diameter)
    return Setting(
        constants,
        diameter,
        fixed,
        None if excess is None else max(excess, 0.0),
        initial_excess=excess,
        constraints_affine=affine,
        observed=observed,
        size=centre.size,
        announced=problem.announced is not None,
    )


def guarantees(learner: Learner, setting: Setting, horizon: int) -> tuple[Guarantee, ...]:
    """Return the smallest bound on each quantity that applies to this learner with these
    parameters."""
    return tuple(
        smallest(learner.guarantees(setting, arguments.count("horizon", horizon))).values()
    )


def under_feedback(
    promised: Iterable[Guarantee], learner: Learner, feedback: Feedback | None
) -> Iterable[Guarantee]:
    """Return the guarantees that hold under this feedback (`None` is full information); if none
    does, the reason."""
    why = "" if feedback is None else uncovered(learner, feedback)
    if feedback is None or not why:
        return promised
    names = {g.quantity: None for g in promised}
    return [Guarantee.none(name, f"feedback {feedback.kind}", why) for name in names]


def coverage(learner: Learner, feedback: Feedback | None) -> tuple[str, ...]:
    """Say in one note whether guarantees cover this feedback; full information needs none."""
    if feedback is None:
        return ()
    why = uncovered(learner, feedback)
    sentence = f"No guarantee covers it: {why}." if why else "The guarantees cover it."
    return (f"Feedback: {feedback!r}. {sentence}",)


@dataclass(frozen=True)
class Standing:
    """What remains of the bounds on one quantity once assumptions have been checked."""

    guarantee: Guarantee | None
    """The smallest bound whose assumptions all stand; if there is none, the smallest of the
    others."""
    refuted: tuple[str, ...] = ()
    """The refuted assumptions of `guarantee`; empty if it stands."""
    reasons: tuple[str, ...] = ()
    """Why theorems give no bound, for a quantity without any."""


SCORED_SLATER = "slater of the scored problem"
"""The name of the assumption about the Slater point of the problem that is scored, where another
one was played."""


def translated(
    promised: Iterable[Guarantee], played: Problem, scored: Problem, horizon: int, count: int
) -> tuple[Guarantee, ...]:
    """Turn bounds for the problem that was played into bounds for the one that is scored.

    This is possible if the constraints that were played are transforms of those that are scored,
    and the losses are the same; otherwise every bound is replaced by the reason. `count` is the
    number of scored constraints.
    """
    layers = transforms_between(played, scored)
    if layers == ():
        return tuple(promised)
    if layers is None:
        why = (
            "the run is scored by another problem than the one that was played, and that is no "
            "transform of it"
        )
        return tuple(_without_bound(g, why) for g in promised)
    counts = [count]
    for layer in reversed(layers[1:]):
        counts.insert(0, 1 if isinstance(layer, (Max, LogSumExp)) else counts[0])
    pairs = list(zip(layers, counts, strict=True))
    cost = _cost_of_margin(pairs, scored, horizon)
    made: list[Guarantee] = []
    for guarantee in promised:
        if guarantee.bound is None:
            made.append(guarantee)
        elif guarantee.quantity == "regret":
            made.append(_translated_regret(guarantee, cost))
        else:
            bounds_by_quantity = {guarantee.quantity: guarantee.bound}
            for layer, inside in pairs:
                step: dict[str, float] = {}
                for quantity, bound in bounds_by_quantity.items():
                    for name, value in layer.implied(
                        quantity, bound, horizon, inside, guarantee.expected
                    ).items():
                        step[name] = min(value, step.get(name, math.inf))
                bounds_by_quantity = step
            source = f"{guarantee.source}, translated"
            made += [
                guarantee.become(name, value, source) for name, value in bounds_by_quantity.items()
            ]
    return tuple(made)


def _without_bound(guarantee: Guarantee, why: str) -> Guarantee:
    if guarantee.bound is None:
        return guarantee
    return Guarantee.none(guarantee.quantity, guarantee.source, why)


def transforms_between(played: Problem, scored: Problem) -> tuple[Transform, ...] | None:
    """The transforms that lead from the scored constraints to the played ones, outermost first;
    None if none do."""
    if played is scored:
        return ()
    if played.loss != scored.loss or played.domain.shape != scored.domain.shape:
        return None
    layers, inner = [], played.constraints
    while inner is not scored.constraints and inner != scored.constraints:
        if not isinstance(inner, Transform):
            return None
        layers.append(inner)
        inner = inner.inner
    return tuple(layers)


def margin_between(played: Problem, scored: Problem, count: int) -> float:
    """How much smaller the played feasible set is: decisions with scored constraints at most
    -margin belong to it."""
    margin = 0.0
    for layer in reversed(transforms_between(played, scored) or ()):
        margin += layer.margin(count)
        count = 1 if isinstance(layer, (Max, LogSumExp)) else count
    return margin


def _cost_of_margin(pairs: list[tuple[Transform, int]], scored: Problem, horizon: int) -> Guarantee:
    """What the best scored decision can gain over the best played one, because the played feasible
    set is smaller."""
    margin, squares, source = 0.0, False, "cost of the margin"
    for layer, inside in reversed(pairs):
        margin += math.inf if squares and layer.margin(inside) > 0 else layer.margin(inside)
        squares |= isinstance(layer, Squared)
    if margin == 0:
        return Guarantee("regret", 0.0, "")
    constants, diameter = scored.constants, float(scored.domain.diameter)
    if not math.isfinite(margin):
        return Guarantee.none(
            "regret",
            source,
            "squared constraints are never negative, so no decision satisfies them with a margin",
        )
    cost = Setting(constants, diameter).evaluate(
        "regret",
        tightening_cost,
        source,
        ("slater", "loss_lipschitz"),
        horizon=horizon,
        margin=margin,
        diameter=diameter,
        loss_range=constants.loss_range,
    )
    names = tuple(SCORED_SLATER if name == "slater" else name for name in cost.assumptions)
    rests = names if constants.loss_range is None else (*names, "loss_range")
    return Guarantee(
        "regret", cost.bound, source, rests, cost.reason and f"{cost.reason} for the scored problem"
    )


def _translated_regret(guarantee: Guarantee, cost: Guarantee) -> Guarantee:
    if cost.bound is None or guarantee.bound is None:
        return Guarantee.none("regret", f"{guarantee.source} and {cost.source}", cost.reason)
    if not cost.source:
        return guarantee
    return replace(
        guarantee,
        bound=guarantee.bound + cost.bound,
        source=f"{guarantee.source}, with the cost of the margin",
        assumptions=tuple(dict.fromkeys((*guarantee.assumptions, *cost.assumptions))),
    )


def against(promised: Iterable[Guarantee], moving: bool) -> tuple[Guarantee, ...]:
    """Replace bounds on regret that are meant for another kind of comparator by the reason."""
    why = "the theorem compares with a fixed decision, not with one that moves"
    return tuple(
        _without_bound(g, why) if g.quantity == "regret" and moving > g.moving else g
        for g in promised
    )


def standing(promised: Iterable[Guarantee], refuted: Collection[str]) -> dict[str, Standing]:
    """Choose, for each quantity, the smallest bound whose assumptions stand.

    Every candidate is kept until assumptions have been checked, so a refuted sharp bound does not
    hide a valid weaker one.
    """
    promised, false = tuple(promised), set(refuted)
    chosen = {}
    for quantity in QUANTITIES:
        about = [g for g in promised if g.quantity == quantity]
        candidates = [g for g in about if g.bound is not None and math.isfinite(g.bound)]
        valid = [g for g in candidates if not false & set(g.assumptions)]
        best = smallest(valid or candidates).get(quantity)
        against = () if best is None else tuple(sorted(false & set(best.assumptions)))
        reasons = dict.fromkeys(f"{g.source}: {g.reason}" for g in about if g.reason)
        chosen[quantity] = Standing(best, against, () if candidates else tuple(reasons))
    return chosen
