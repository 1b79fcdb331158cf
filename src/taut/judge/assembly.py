"""The rows of a certificate, once a run has been measured and its assumptions have been checked."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from ..engine import Array
from ..learners import QUANTITIES, Assumes, Guarantee, Learner, Setting
from ..problem.domains.support import centre_of
from ..problem.problem import Problem
from ..problem.streams import Stream
from ..runs import metrics
from ..runs.run import Run
from .announced import ANNOUNCED_VIOLATION, AnnouncedRun
from .assumptions import GIVEN, Assumption
from .certificate import Certificate, Row
from .guarantees import Standing, against, standing, translated, under_feedback
from .observed import Observations
from .trivial import Limits, trivial_limits
from .views import POLICY_REGRET, RecordedRun

__all__ = ["PLAYED_REGRET", "assembled", "moves", "regret_name"]

PLAYED_REGRET = "regret of the played problem"
"""Regret against the best decision of the problem that was played, where its feasible set is
smaller than the scored one."""
ONLY_IF_NEEDED = {
    str(name)
    for name in (Assumes.FIXED_CONSTRAINTS, Assumes.AFFINE_CONSTRAINTS, Assumes.PROJECTION)
}
"""Assumptions that are shown only if a bound rests on them."""


def assembled(
    run: Run,
    setting: Setting,
    played: Problem,
    scored: Problem,
    comparator: Any,
    names: tuple[str, ...],
    regrets: dict[str, Array],
    seen: Observations | None,
    checks: tuple[Assumption, ...],
    notes: list[str],
    memory: RecordedRun | None = None,
    announced: AnnouncedRun | None = None,
    uncovered: str = "",
    source: Stream | None = None,
) -> Certificate:
    """The certificate of a run, or of a player in the form of a run, once all has been measured and
    checked.

    `names` are the rows of regret, which are there even if it could not be measured. `uncovered`
    says why guarantees do not apply.
    """
    learner, count = run.learner, run.totals.excess.shape[-1]
    count -= 0 if announced is None or announced.count == count else announced.count
    assert isinstance(learner, Learner)
    moving = moves(comparator)
    if moving:
        length = float(np.max(comparator.path_length))
        setting = replace(setting, path_length=length)
        notes = [
            *notes,
            f"Regret is measured against a {comparator.comparator} comparator, whose path is "
            f"{length:.6g} long" + (" at most." if run.seeds > 1 else "."),
        ]
    refuted = {assumption.name for assumption in checks if assumption.refuted}
    promised = against(
        under_feedback(learner.guarantees(setting, run.horizon), learner, run.feedback), moving
    )
    if uncovered:
        promised = tuple(
            Guarantee.none(quantity, "guarantees", uncovered) for quantity in QUANTITIES
        )
    if any(one.name == Assumes.FEASIBLE for one in checks):
        promised = tuple(
            replace(one, assumptions=(*one.assumptions, str(Assumes.FEASIBLE))) for one in promised
        )
    about_scored = translated(promised, played, scored, run.horizon, count)
    limits = trivial_limits(scored, run.horizon, source, refuted)
    sizes = _rounding(run, played, scored, comparator, seen)
    shown: dict[str, Array | None] = {**dict.fromkeys(names), **regrets, **metrics.measured(run)}
    of_row = {PLAYED_REGRET: promised}
    if memory is not None:
        of_row[POLICY_REGRET] = memory.policy_guarantees(promised)
        about_scored = memory.scored_guarantees(promised, about_scored)
    if announced is not None:
        shown[ANNOUNCED_VIOLATION], of_row[ANNOUNCED_VIOLATION] = (
            announced.peak,
            announced.guarantees(),
        )
    notes = [*notes, *_not_known_to_be_trivial(limits, about_scored)]
    rows = _rows(shown, of_row, about_scored, refuted, limits, sizes, run.totals.loss)
    checks = _that_matter(checks, rows)
    return Certificate(
        repr(learner), run.horizon, run.seeds, rows, checks, comparator, tuple(notes)
    )


def _not_known_to_be_trivial(limits: Limits, found: tuple[Guarantee, ...]) -> list[str]:
    """Say of which bounds it is not known whether every learner satisfies them."""
    of_losses = {
        g.quantity == "regret" for g in found if g.bound is not None and math.isfinite(g.bound)
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


def _that_matter(checks: tuple[Assumption, ...], rows: tuple[Row, ...]) -> tuple[Assumption, ...]:
    """Leave out special assumptions on which no bound rests, and add those that were not
    checked."""
    rests = {name for row in rows if row.guarantee for name in row.guarantee.assumptions}
    named = {assumption.name for assumption in checks}
    shown = tuple(a for a in checks if a.name in rests or a.name not in ONLY_IF_NEEDED)
    return shown + tuple(Assumption(name, GIVEN, "not checked") for name in sorted(rests - named))


def _rows(
    shown: dict[str, Array | None],
    of_row: dict[str, tuple[Guarantee, ...]],
    about_scored: tuple[Guarantee, ...],
    refuted: set[str],
    limits: Limits,
    sizes: dict[str, float],
    losses: Array,
) -> tuple[Row, ...]:
    """One row per measured quantity, with the bounds of `of_row` or else those about the scored
    problem."""
    rows = []
    for name, values in shown.items():
        quantity = name if name in QUANTITIES else "regret"
        quantity = "peak violation" if name == ANNOUNCED_VIOLATION else quantity
        candidates = of_row.get(name, about_scored)
        limit = (
            limits.of_regret(losses, values)
            if quantity == "regret"
            else limits.by_quantity.get(quantity)
        )
        limit = None if name in (POLICY_REGRET, ANNOUNCED_VIOLATION) else limit
        for expected in (False, True):
            chosen = standing((g for g in candidates if g.expected == expected), refuted)[quantity]
            if not expected or chosen.guarantee is not None:
                label = f"{name}, mean over seeds" if expected else name
                rows.append(_row(label, values, chosen, limit, sizes[quantity]))
    return tuple(rows)


def moves(comparator: Any) -> bool:
    """Whether a comparator is another decision in different rounds."""
    return getattr(comparator, "comparator", "fixed") != "fixed"


def regret_name(comparator: Any) -> str:
    """What a certificate calls regret against this comparator."""
    return f"regret, {comparator.comparator} comparator" if moves(comparator) else "regret"


def _row(
    quantity: str, values: Array | None, chosen: Standing, limit: float | None, rounding: float
) -> Row:
    bound = None if chosen.guarantee is None else chosen.guarantee.bound
    trivial = bound is not None and limit is not None and bound >= limit
    if values is None:
        return Row(
            quantity, None, None, chosen.guarantee, chosen.refuted, chosen.reasons, trivial, limit
        )
    half = math.inf
    if (
        len(values) > 1 and chosen.guarantee is not None and chosen.guarantee.expected
    ):  # SciPy takes long to load
        from scipy.special import (
            stdtrit,
        )  # the quantile of Student's t distribution; scipy.stats loads slowly

        half = float(
            stdtrit(len(values) - 1, 0.975) * np.std(values, ddof=1) / math.sqrt(len(values))
        )
    return Row(
        quantity,
        float(np.mean(values)),
        float(np.max(values)),
        chosen.guarantee,
        chosen.refuted,
        chosen.reasons,
        trivial,
        limit,
        rounding,
        half,
    )


def _rounding(
    run: Run, played: Problem, scored: Problem, comparator: Any, seen: Observations | None
) -> dict[str, float]:
    """How far rounding can have moved each measured quantity: it scales with the numbers that are
    added up."""
    known, totals, rounds = scored.constants, run.totals, run.horizon
    unit = 64 * float(np.finfo(run.final.dtype).eps)
    reach = float(np.linalg.norm(centre_of(scored.domain))) + float(scored.domain.radius)
    values = max(
        float(totals.peak.max()),
        float(np.abs(totals.excess).max()) / rounds,
        known.constraint_range or 0.0,
    )
    constraint = values + (known.constraint_lipschitz or 0.0) * reach
    loss = float(np.abs(totals.loss).max()) / rounds + (known.loss_lipschitz or 0.0) * reach
    if seen is not None:
        constraint = max(seen.constraint_size, values) if played is scored else constraint
        loss = max(loss, seen.loss_size)
    gap = 0.0
    if comparator is not None and hasattr(comparator, "gap"):
        gap = float(
            np.max(np.asarray(comparator.gap) * np.maximum(1, np.abs(np.asarray(comparator.loss))))
        )
    each, peak = unit * constraint, float(totals.peak.max())
    squares = totals.excess.shape[-1] * rounds * each * (2 * peak + each)
    return {
        "regret": unit * loss * rounds + gap,
        "violation": rounds * each,
        "squared violation": squares,
        "peak violation": each,
        "excess": rounds * each,
    }
