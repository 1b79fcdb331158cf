"""The certificate of a player: what it measured in all its rounds, against bounds and constants,
without their data."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import jax
import numpy as np

from ..display import counted
from ..engine import Array
from ..learners import Advised
from ..learners.protocols import is_random
from ..play.with_feedback import through
from ..player.player import Player
from ..player.steps import NAMES, Extreme
from ..problem.problem import Problem
from ..problem.streams import Stream, as_stream
from ..runs.run import Run
from ..runs.totals import Totals
from .case import AnnouncedRun, Case
from .certificate import Certificate
from .certify import judged, with_states
from .guarantees import coverage
from .observed import PLAYED, VIOLATING, Observations, losses_at

AGREE = 1e-4
"""Relative difference of losses up to which data count as those that were observed; players may
compute in 32 bits."""


def certify_player(
    player: Player,
    *,
    stream: Any = None,
    best: Any = None,
    check: bool = True,
    advice: Any = None,
    forecast: Any = None,
) -> Certificate:
    """Compare what a player measured with what theory promises for it, and check the assumptions.

    A player keeps no data, but the largest gradients, constraint values and loss differences of all
    rounds: a constant that was exceeded in a single round is refuted, with the round as witness.

    Arguments:
        player: the player, after at least one round.
        stream: the data of all rounds so far, in their order, if regret is to be measured.
        best: the best decision in hindsight, if it was computed before, as for `taut.certify`.
        check: whether to check the assumptions.
        advice, forecast: what advisers said or predicted in all rounds, as in `taut.simulate`;
            needed beside `stream` if losses or constraints depend on the previous decision, or
            constraints are announced.
    """
    rounds = player.observed
    if rounds == 0:
        raise ValueError(
            "player: got a player before its first round; expected one that has observed rounds"
        )
    case = _opened(player, stream, rounds, advice, forecast)
    # With previous decisions or announced constraints the data tell more than the player keeps:
    # its decisions are computed again from them, as for a simulation.
    if case.source is None or not (case.played.previous or case.played.announced is not None):
        case = _with_own_record(case, player)
    return judged(case, best, check)


def _opened(player: Player, stream: Any, rounds: int, advice: Any, forecast: Any) -> Case:
    """The player as a run of one seed, with the data if they are given."""
    problem, totals, first = player.problem, player.totals, player._first
    run = Run(
        learner=player.learner,
        horizon=rounds,
        seeds=1,
        totals=Totals(
            **{entry.name: getattr(totals, entry.name)[None] for entry in fields(Totals)}
        ),
        constraint_names=player.constraint_names,
        coordinate_names=problem.coordinate_names,
        final=player._now.report[player._next].reshape(1, *player._shape),
        problem=problem,
        played=problem,
        first=first.reshape(player._shape),
        feedback=player.feedback,
        advice=advice,
        forecast=forecast,
    )
    case = Case(run, problem, problem, None, uncovered=_uncovered(player))
    case = case.noted(*coverage(player.learner, player.feedback), *_gaps(player))
    if stream is None:
        return case
    why = _not_a_run(player, advice is not None or forecast is not None)
    if why:
        return case.noted(f"The data in stream= were not used, because {why}.")
    source = _source(player, stream, rounds)
    return replace(case, source=source, run=replace(run, stream=source))


def _gaps(player: Player) -> list[str]:
    """Say which rounds the certificate is not about."""
    notes = []
    if player.unknown:
        notes.append(
            f"Skipped and unknown: {counted(player.unknown, 'round')}. Everything here, also the "
            f"guarantees, is about the {player.observed:,} rounds that were observed."
        )
    if player.migrated:
        notes.append(
            f"The player was migrated from another problem after {player.migrated:,} rounds, which "
            "are not counted."
        )
    return notes


def _not_a_run(player: Player, advised: bool) -> str:
    """Why a simulation with the data of all rounds would not play what the player played; empty
    if it would. `advised` says whether advice or forecasts of all rounds are known."""
    depends = player.problem.previous or player.problem.announced is not None
    if player.unknown:
        return "some rounds were skipped"
    if player.migrated:
        return "the player was migrated from another problem"
    if not depends:
        return ""
    if isinstance(player.learner, Advised) and not advised:
        return "decisions were mixed with advice: pass advice= or forecast= of all rounds as well"
    if player._changed:
        return "in some rounds another decision was played than the learner's"
    if player._missing.late:
        return "some rounds were observed late"
    if is_random(through(player.learner, player.feedback)):
        return "the learner or the feedback draws random numbers"
    return "" if np.isfinite(player.totals.loss) else "a round was observed without its loss"


def _uncovered(player: Player) -> str:
    """Why the learner's guarantees do not apply to this player; empty if they do."""
    changed = player._changed
    if changed:
        return (
            f"in {counted(changed, 'round')} another decision was played than the learner's, which "
            "no guarantee covers"
        )
    if player.migrated:
        return "the player began with what it had learned on another problem, see player.migration"
    return ""


def _with_own_record(case: Case, player: Player) -> Case:
    """Add what the player kept of its rounds: its states, how many constraints were announced, and
    what it has seen, unless its problem was changed and it has seen no round since."""
    case = with_states(case, player.cuts_hold, player.correction, player._advice_facts())
    problem, rounds = player.problem, case.run.horizon
    if problem.announced is not None:
        count = player._data.counts[1]
        announced = AnnouncedRun(case.run, problem, None, count, problem.previous)
        case = replace(case, announced=announced)
    extremes, history = player.extremes, player.history
    if extremes.since > player.round - 1:
        return case
    nowhere = Extreme(-np.inf, None, 0, np.zeros(player._shape))
    largest: dict[str, Any] = {name: getattr(extremes, name) or nowhere for name in NAMES}
    domain = problem.domain
    reach = float(np.linalg.norm(np.asarray(domain.centre))) + float(domain.radius)
    observed = np.isfinite(history.excess).all(axis=1)
    decisions = history.decision[observed].reshape(-1, *player._shape)
    worst = history.excess[observed].max(axis=1)
    top = np.argsort(-worst)[:VIOLATING]
    losses = history.loss[np.isfinite(history.loss)]
    seen = Observations(
        rounds=rounds,
        seeds=1,
        **largest,
        clipping=extremes.clipping,
        constraint_slope=extremes.constraint_slope,
        loss_size=float(np.abs(losses).max(initial=0))
        + max(largest["loss_lipschitz"].value, 0.0) * reach,
        constraint_size=max(largest["constraint_range"].value, 0.0)
        + max(largest["constraint_lipschitz"].value, 0.0) * reach,
        played=decisions[:: max(1, len(decisions) // PLAYED)],
        violating=decisions[top][worst[top] > 0],
        since=extremes.since,
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
            else f"{counted(source.horizon, 'round')} of {counted(source.seeds, 'seed')}"
        )
        raise ValueError(
            f"stream: got {what}; expected the data of the {rounds} rounds that the player has "
            "observed"
        )
    history = player.history
    known = np.isfinite(history.loss)
    numbers, remembered = history.rounds[known], history.loss[known]
    if len(numbers) and not problem.previous:
        decisions = history.decision[known].reshape(-1, *player._shape)
        data = jax.tree.map(lambda leaf: np.asarray(leaf)[0][numbers - 1], source.block(0, rounds))
        losses: Array = losses_at(problem, decisions, data)
        off = np.abs(losses - remembered) > AGREE * (1 + np.abs(remembered))
        if off.any():
            i = int(np.argmax(off))
            raise ValueError(
                f"stream: got data with which the loss of round {numbers[i]} is {losses[i]:.6g}; "
                f"expected those that the player observed, with which it was {remembered[i]:.6g}"
            )
    return (
        source if source.horizon == rounds else as_stream(problem.arrange(stream), horizon=rounds)
    )
