"""The rows of a certificate, once a case has been measured and its assumptions have been
checked."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ..engine import Array
from ..learners import QUANTITIES, Assumes, Guarantee
from ..problem.domains.support import centre_of
from ..runs import metrics
from .assumptions import GIVEN, Assumption
from .case import ANNOUNCED_VIOLATION, Case
from .certificate import Certificate, Row
from .facts.ranges import Limits, trivial_limits
from .guarantees import against, setting_of, standing, translated, under_feedback
from .over_seeds import half_width
from .views import POLICY_REGRET

PLAYED_REGRET = "regret of the played problem"
"""Regret against the best decision of the problem that was played, where its feasible set is
smaller than the scored one."""
ADVICE = "advice, C1"
ONLY_IF_NEEDED = {
    str(name)
    for name in (
        Assumes.FIXED_CONSTRAINTS,
        Assumes.AFFINE_CONSTRAINTS,
        Assumes.PROJECTION,
        Assumes.OBLIVIOUS,
        Assumes.STOCHASTIC,
    )
}
"""Assumptions that are shown only if a bound rests on them."""


class Measured(NamedTuple):
    """One measured quantity, with the bounds that are about it."""

    name: str
    quantity: str
    """Which of `QUANTITIES` it is."""
    values: Array | None
    """One per seed; None if it could not be measured."""
    guarantees: tuple[Guarantee, ...]
    limit: float | None
    """What every learner satisfies; None if it is not known."""


def certificate_of(case: Case) -> Certificate:
    """The certificate of a case in which all has been measured and checked."""
    refuted = {assumption.name for assumption in case.checks if assumption.refuted}
    about_played = promised(case)
    about_scored = translated(about_played, case.played, case.scored, case.run.horizon, case.count)
    if case.memory is not None:
        about_scored = case.memory.scored_guarantees(about_played, about_scored)
    limits = trivial_limits(case.scored, case.run.horizon, case.source, refuted)
    rounding, mend = _rounding(case), _mend(case)
    rows: tuple[Row, ...] = ()
    for measured in _measured(case, about_played, about_scored, limits):
        rows += tuple(_rows(measured, refuted, rounding[measured.quantity], case.run.horizon, mend))
    violating = None
    if case.run.excess is not None:
        counts = metrics.violating_rounds(case.run, above=rounding["peak violation"])
        violating = float(np.mean(counts)), float(np.max(counts))
    notes = (*_clipped(case), *_corrected(case, rows), *_undecided(limits, about_scored))
    return Certificate(
        repr(case.learner),
        case.run.horizon,
        case.run.seeds,
        rows,
        _that_matter(case.checks, rows),
        case.comparator if hasattr(case.comparator, "loss") else None,
        (*case.notes, *notes),
        violating,
    )


def _clipped(case: Case) -> tuple[str, ...]:
    """Say what clipped gradients add to the bound on regret."""
    clipping = None if case.seen is None else case.seen.clipping
    if clipping is None or not clipping.rounds.any():
        return ()
    count, cost = int(clipping.rounds.max()), float(clipping.excess.max())
    rounds = "1 round" if count == 1 else f"{count:,} rounds"
    most = " at most" if case.run.seeds > 1 else ""
    text = (
        f"In {rounds}{most} the loss gradient was more than {clipping.clip:g} times as long as any "
        "before it, and was shortened."
    )
    if math.isinf(cost):
        return (f"{text} One was left out, because floats cannot represent its square.",)
    times = float(case.played.domain.diameter) * cost
    return (
        f"{text} This adds {times:.6g} to the bound on regret, the diameter of the domain times "
        "what was cut off.",
    )


def _corrected(case: Case, rows: tuple[Row, ...]) -> tuple[str, ...]:
    """Say what observed feasibility moves take off the bound on regret, if there is one."""
    bounded = any("regret" in row.quantity and row.bound is not None for row in rows)
    if not bounded or case.seen is None or case.uncovered:
        return ()
    correction = case.correction
    if case.advised is not None:
        correction = case.advised.observed(case.run.horizon).learner.correction
    if correction == 0:
        return ()
    return (
        f"Moves back to the constraints and the domain take {correction:.6g} off the bound on "
        "regret.",
    )


def _mend(case: Case) -> str:
    """Which constant would give bounds on violations that say something; empty if it is known."""
    known = case.played.constants.error_bound
    fact = None if case.facts is None else case.facts.error_bound
    if known is not None or fact is not None or case.played.constraints.takes_data:
        return ""
    return "state error_bound to get one"


def promised(case: Case) -> tuple[Guarantee, ...]:
    """What theory promises for the problem that was played, given what is known of the run."""
    if case.uncovered:
        return tuple(
            Guarantee.none(quantity, "guarantees", case.uncovered) for quantity in QUANTITIES
        )
    observed = None
    if case.seen is not None:
        advice = None if case.advised is None else case.advised.observed(case.run.horizon)
        observed = replace(case.seen.observed, advice=advice, correction=case.correction)
    setting = setting_of(case.played, case.run.first, observed, case.facts)
    if case.run.first is None:  # the first decision may have been anywhere
        setting = replace(
            setting,
            constants=setting.constants.with_values(radius=setting.diameter),
            constraints_fixed=False,
            initial_violation=None,
            initial_excess=None,
        )
    if case.moving:
        setting = replace(setting, path_length=float(np.max(case.comparator.path_length)))
    guarantees = case.learner.guarantees(setting, case.run.horizon)
    guarantees = against(under_feedback(guarantees, case.learner, case.run.feedback), case.moving)
    name = str(Assumes.FEASIBLE)
    if any(check.name == name for check in case.checks):
        guarantees = tuple(replace(g, assumptions=(*g.assumptions, name)) for g in guarantees)
    return guarantees


def _measured(
    case: Case,
    about_played: tuple[Guarantee, ...],
    about_scored: tuple[Guarantee, ...],
    limits: Limits,
) -> Iterator[Measured]:
    """All quantities of the certificate, in the order of its rows."""
    for name, regret in case.regrets.items():
        bounds, limit = about_scored, limits.of_regret(case.run.totals.loss, regret)
        if name == PLAYED_REGRET:
            bounds = about_played
        if name == POLICY_REGRET:
            limit = None
            bounds = () if case.memory is None else case.memory.policy_guarantees(about_played)
        yield Measured(name, "regret", regret, bounds, limit)
    if (
        case.advised is not None
    ):  # the loss beyond that of each adviser, on the path that was played
        promised_to = Guarantee.none("regret", ADVICE, case.uncovered)
        if not case.uncovered:
            rests = (str(Assumes.CONVEX_LOSSES),)
            promised_to = Guarantee("regret", float(case.advised.gap.max()), ADVICE, rests)
        for k, values in enumerate(case.advised.regret.T, start=1):
            yield Measured(f"regret to adviser {k}", "regret", values, (promised_to,), None)
    for name, values in metrics.measured(case.run).items():
        yield Measured(name, name, values, about_scored, limits.by_quantity.get(name))
    if case.announced is not None:
        peak, bounds = case.announced.peak, case.announced.guarantees()
        yield Measured(ANNOUNCED_VIOLATION, "peak violation", peak, bounds, None)


def _rows(
    measured: Measured, refuted: set[str], rounding: float, rounds: int = 1, mend: str = ""
) -> Iterator[Row]:
    """A row with the bound on every seed, and one with the bound on the mean if there is any.

    Arguments:
        measured: what the rows are about.
        refuted: the names of assumptions.
        rounding: how far rounding can have moved the measured value.
        rounds: so many numbers are added up in it, unless it is a peak.
        mend: what would give a useful bound on a violation.
    """
    values, limit = measured.values, measured.limit
    for expected in (False, True):
        candidates = (g for g in measured.guarantees if g.expected == expected)
        chosen = standing(candidates, refuted)[measured.quantity]
        bound = None if chosen.guarantee is None else chosen.guarantee.bound
        if expected and chosen.guarantee is None:
            continue
        trivial = bound is not None and limit is not None and bound >= limit
        known = rounding if values is not None else 0.0
        yield Row(
            measured.name + (", mean over seeds" if expected else ""),
            None if values is None else float(np.mean(values)),
            None if values is None else float(np.max(values)),
            chosen.guarantee,
            chosen.refuted,
            chosen.reasons,
            trivial=trivial,
            limit=limit,
            rounding=known,
            noise=known / (1 if "peak" in measured.name else rounds),
            half_interval=half_width(values) if expected and values is not None else math.inf,
            mend=mend if trivial and "violation" in measured.name else "",
        )


def _that_matter(checks: tuple[Assumption, ...], rows: tuple[Row, ...]) -> tuple[Assumption, ...]:
    """Leave out special assumptions on which no bound rests, and add those that were not
    checked."""
    rests = {name for row in rows if row.guarantee for name in row.guarantee.assumptions}
    named = {assumption.name for assumption in checks}
    shown = tuple(a for a in checks if a.name in rests or a.name not in ONLY_IF_NEEDED)
    return shown + tuple(Assumption(name, GIVEN, "not checked") for name in sorted(rests - named))


def _undecided(limits: Limits, guarantees: tuple[Guarantee, ...]) -> list[str]:
    """Say of which bounds it is not known whether every learner satisfies them."""
    of_losses = {
        g.quantity == "regret" for g in guarantees if g.bound is not None and math.isfinite(g.bound)
    }
    names = {
        "losses": ("regret", True, "loss_range"),
        "constraints": ("violations", False, "constraint_range"),
    }
    return [
        f"Whether the bound on {quantity} is trivial is not known, because the largest {what} "
        f"over the domain could not be derived: {limits.reasons[what]}. Give "
        f"taut.Constants({constant}=...) to decide it."
        for what, (quantity, losses, constant) in names.items()
        if what in limits.reasons and losses in of_losses
    ]


def _rounding(case: Case) -> dict[str, float]:
    """How far rounding can have moved each measured quantity: it scales with the numbers that are
    added up."""
    known, totals, rounds = case.scored.constants, case.run.totals, case.run.horizon
    domain = case.scored.domain
    unit = 64 * float(np.finfo(case.run.final.dtype).eps)
    reach = float(np.linalg.norm(centre_of(domain))) + float(domain.radius)
    peak = float(totals.peak.max())
    values = max(peak, float(np.abs(totals.excess).max()) / rounds, known.constraint_range or 0.0)
    constraint = values + (known.constraint_lipschitz or 0.0) * reach
    loss = float(np.abs(totals.loss).max()) / rounds + (known.loss_lipschitz or 0.0) * reach
    if case.seen is not None:
        loss = max(loss, case.seen.loss_size)
        if case.played is case.scored:
            constraint = max(case.seen.constraint_size, values)
    each = unit * constraint
    return {
        "regret": unit * loss * rounds + float(np.max(getattr(case.comparator, "slack", 0.0))),
        "violation": rounds * each,
        "squared violation": totals.excess.shape[-1] * rounds * each * (2 * peak + each),
        "peak violation": each,
        "excess": rounds * each,
    }
