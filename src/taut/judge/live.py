"""The certificate of a player: what it measured in all its rounds, against bounds and constants,
without their data."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import jax
import numpy as np

from ..engine import Array
from ..player.extremes import NAMES, Extreme
from ..player.player import Player
from ..problem.problem import Problem
from ..problem.streams import Stream, as_stream
from ..runs.run import Run
from ..runs.totals import Totals
from .case import Case
from .certificate import Certificate
from .certify import (
    with_advice,
    with_checks,
    with_comparator,
    with_facts,
    with_feasibility,
    with_projections,
)
from .guarantees import coverage
from .observed import PLAYED, VIOLATING, Observations
from .probes import losses_at
from .rows import certificate_of

__all__ = ["certify_player"]

AGREE = 1e-4
"""Relative difference of losses up to which data count as those that were observed; players may
compute in 32 bits."""


def certify_player(
    player: Player, *, stream: Any = None, best: Any = None, check: bool = True
) -> Certificate:
    """Compare what a player measured with what theory promises for it, and check the assumptions.

    A player keeps no data, but the largest gradients, constraint values and loss differences of all
    rounds: a constant that was exceeded in a single round is refuted, with the round as witness.

    Arguments:
        player: the player, after at least one round.
        stream: the data of all rounds so far, in their order, if regret is to be measured.
        best: the best decision in hindsight, if it was computed before, as for `taut.certify`.
        check: whether to check the assumptions.
    """
    rounds = player.round - 1
    if rounds == 0:
        raise ValueError(
            "player: got a player before its first round; expected one that has observed rounds"
        )
    case = _opened(player, stream, rounds)
    case = _with_comparator(case, best)
    case = _with_observations(case, player)
    case = with_projections(case, player.cuts_hold)
    case = with_advice(case, player._advice_facts())
    if check:
        case = with_facts(case)
        case = with_checks(case)
    case = with_feasibility(case)
    if case.seen is not None and case.seen.since > 1:  # bounds need what all rounds were like
        case = replace(case, seen=None)
    return certificate_of(case)


def _opened(player: Player, stream: Any, rounds: int) -> Case:
    """The player as a run of one seed, with the data if they are given."""
    problem, totals, first = player.problem, player.totals, player._extremes.first
    run = Run(
        learner=player.learner,
        horizon=rounds,
        seeds=1,
        totals=Totals(
            **{entry.name: getattr(totals, entry.name)[None] for entry in fields(Totals)}
        ),
        constraint_names=player.constraint_names,
        coordinate_names=problem.coordinate_names,
        final=player._report[player._played].reshape(1, *player._shape),
        problem=problem,
        played=problem,
        first=None if first is None else first.reshape(player._shape),
        feedback=player.feedback,
    )
    source = None if stream is None else _source(player, stream, rounds)
    notes = coverage(player.learner, player.feedback)
    return Case(run, problem, problem, source, uncovered=_uncovered(player), notes=notes)


def _with_comparator(case: Case, best: Any) -> Case:
    """Measure regret, if there are data or a comparator to measure it against."""
    if best is None and case.source is None:
        return case.with_regret("regret", None).noted(
            "Regret is missing because a player keeps no data. Pass stream=..., the data of all "
            "rounds, to certificate()."
        )
    case = with_comparator(case, best)
    for name, regret in case.regrets.items():
        if regret is not None and not np.isfinite(regret).all():
            case = case.with_regret(name, None)
            case = case.noted("Regret is missing because a round was observed without its loss.")
    if case.played.previous:  # previous decisions were not kept, without which nothing is probed
        case = replace(case, source=None)
    return case


def _uncovered(player: Player) -> str:
    """Why the learner's guarantees do not apply to this player; empty if they do."""
    changed = player._extremes.changed
    if changed:
        return (
            f"in {changed:,} round(s) another decision was played than the learner's, which no "
            "guarantee covers"
        )
    if player.problem.announced is not None or player.problem.previous:
        return (
            "certificates of players do not cover announced constraints and previous decisions; "
            "simulate the data and use run.certificate()"
        )
    return ""


def _with_observations(case: Case, player: Player) -> Case:
    """What the player has seen; nothing if it was loaded from an earlier version and has seen no
    round since."""
    rounds = case.run.horizon
    found, history = player.extremes, player.history
    if found.since > rounds:
        return case
    if found.since > 1:
        case = case.noted(
            f"This player was loaded from a file of an earlier version before round {found.since}: "
            "of the rounds before it, gradients, constraint values and losses were not kept."
        )
    nowhere = Extreme(-np.inf, None, 0, np.zeros(player._shape))
    largest: dict[str, Any] = {name: getattr(found, name) or nowhere for name in NAMES}
    domain = player.problem.domain
    reach = float(np.linalg.norm(np.asarray(domain.centre))) + float(domain.radius)
    decisions = history.decision.reshape(-1, *player._shape)
    worst = history.excess.max(axis=1)
    top = np.argsort(-worst)[:VIOLATING]
    losses = history.loss[np.isfinite(history.loss)]
    seen = Observations(
        rounds=rounds,
        seeds=1,
        **largest,
        squared_slopes=found.squared_slopes,
        first_squared_slope=found.first_squared_slope,
        constraint_slope=found.constraint_slope,
        loss_size=float(np.abs(losses).max(initial=0))
        + max(largest["loss_lipschitz"].value, 0.0) * reach,
        constraint_size=max(largest["constraint_range"].value, 0.0)
        + max(largest["constraint_lipschitz"].value, 0.0) * reach,
        played=decisions[:: max(1, len(decisions) // PLAYED)],
        violating=decisions[top][worst[top] > 0],
        since=found.since,
    )
    return replace(case, seen=seen)


def _source(player: Player, stream: Any, rounds: int) -> Stream:
    """The data as a stream, if they give the losses that the player remembers."""
    problem: Problem = player.problem
    source = as_stream(problem.arrange(stream), horizon=None)
    if source.reacts or source.horizon < rounds or source.seeds != 1:
        what = (
            "an adversary"
            if source.reacts
            else f"{source.horizon} rounds of {source.seeds} seed(s)"
        )
        raise ValueError(
            f"stream: got {what}; expected the data of the {rounds} rounds that the player has "
            "observed"
        )
    history = player.history
    known = np.isfinite(history.loss)
    numbers, told = history.rounds[known], history.loss[known]
    if len(numbers) and not problem.previous:
        decisions = history.decision[known].reshape(-1, *player._shape)
        data = jax.tree.map(lambda leaf: np.asarray(leaf)[0][numbers - 1], source.block(0, rounds))
        found: Array = losses_at(problem, decisions, data)
        off = np.abs(found - told) > AGREE * (1 + np.abs(told))
        if off.any():
            i = int(np.argmax(off))
            raise ValueError(
                f"stream: got data with which the loss of round {numbers[i]} is {found[i]:.6g}; "
                f"expected those that the player observed, with which it was {told[i]:.6g}"
            )
    return (
        source if source.horizon == rounds else as_stream(problem.arrange(stream), horizon=rounds)
    )
