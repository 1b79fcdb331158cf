"""Compare a run with what theory promises for it: `taut.certify`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from .. import arguments
from ..engine import Array, notice_precision
from ..learners import Assumes
from ..play.replay import revealed_data
from ..problem.feasibility import NoFeasibleDecision
from ..problem.problem import Problem
from ..problem.streams import Adversary, Stream, as_stream
from ..runs import metrics
from ..runs.run import Run
from . import assumptions as _assumptions
from .announced import AnnouncedRun
from .assembly import PLAYED_REGRET, assembled, moves, regret_name
from .assumptions import GIVEN, REFUTED, Assumption
from .certificate import Certificate
from .guarantees import SCORED_SLATER, coverage, margin_between, setting_of
from .observed import Observations, observe
from .views import ADAPTIVE_REGRET, POLICY_REGRET, RecordedRun

if TYPE_CHECKING:
    from .hindsight import Hindsight

__all__ = ["best_or_note", "certify"]


def certify(
    run: Run,
    *,
    problem: Problem | None = None,
    stream: Any = None,
    seeds: int | None = None,
    score: Problem | None = None,
    best: Any = None,
    data: Any = None,
    check: bool = True,
    key: jax.Array | None = None,
) -> Certificate:
    """Compare measured regret and violations of a run with what theory promises for it, and check
    the assumptions.

    Everything is measured by the problem that is scored, and regret against the best decision of
    that problem. If another problem was played, a transform such as `taut.tightened(problem, rho)`,
    its bounds are translated; where its feasible set is smaller, regret against its own best
    decision is shown as well.

    For a problem with `previous=True` there are two regrets. Adaptive-adversary regret compares
    with the best fixed decision after the run's own previous decisions; bounds of learners are
    about it. Policy regret compares with a decision that was played all the time; it has a bound if
    `taut.steady(problem)` was played and scored by the problem.

    Arguments:
        run: of one learner (pick one of a sweep with `run[i]`).
        problem: the problem that was played; needed only for a run that was loaded from a file.
        stream: its data, in the same case; `seeds` as in `taut.simulate`.
        score: the problem that was scored, in the same case; by default the one that was played.
        best: the best decision of the scored problem in hindsight, if it was computed before. With
            `best=taut.hindsight(problem, stream, comparator="per-round")`, or "shifting", regret is
            measured against a comparator that moves, and compared with bounds that depend on the
            length of its path.
        data: what an adversary revealed, if it is not to be replayed; arrays (seed, round, ...).
        check: whether to check the assumptions. All rounds are played again for it.
        key: random key for the probes.
    """
    arguments.instance("run", run, Run, "the result of taut.simulate(learner, problem, stream)")
    arguments.flag("check", check)
    learner = run.learner
    if isinstance(learner, tuple):
        raise TypeError("run: got a sweep of learners; expected one run: pick it with run[i]")
    notice_precision()
    scored = score or problem or run.problem
    played = problem or run.played or run.problem
    if played is None or scored is None:
        raise ValueError(
            "problem: got None; expected the problem that was played, which a saved run does not "
            "hold"
        )
    held = stream if data is None else data
    if held is None:
        played, scored = played.as_played(run.played), scored.as_played(run.problem)
    played, scored = played.for_data(held), scored.for_data(held)
    source = _source(run, played, stream, seeds, data)
    notes = coverage(learner, run.feedback)
    infeasible: list[Assumption] = []
    doubt = [] if scored.previous else infeasible
    comparator = (
        best_or_note(scored, source, run, notes, infeasible=doubt)
        if best is None
        else _checked(best, run)
    )
    count, fixed = run.totals.excess.shape[-1], [comparator]
    memory: RecordedRun | None = None
    name = POLICY_REGRET if scored.previous else regret_name(comparator)
    regrets = {} if comparator is None else {name: metrics.regret(run, comparator)}
    names = (ADAPTIVE_REGRET, POLICY_REGRET) if scored.previous else (name,)
    if (played.previous or scored.previous) and source is not None:
        memory = RecordedRun.of(run, played, scored, source)
        fixed = (
            _own_comparator(run, memory, comparator, regrets, notes, infeasible)
            if scored.previous
            else fixed
        )
        run, played, scored, source = memory.run, memory.played, memory.scored, memory.stream
    announced = None if source is None else AnnouncedRun.of(run, played, scored, source)
    if moves(comparator) and (memory is not None or announced is not None):
        raise ValueError(
            "best: got a comparator that moves for a problem with previous=True or announced "
            "constraints; expected the best fixed decision"
        )
    count -= 0 if announced is None or announced.count == count else announced.count
    tightened = margin_between(played, scored, count) > 0
    if tightened and source is not None and not moves(comparator):
        of_played = best_or_note(played, source, run, notes, "the played problem", infeasible)
        regrets |= {} if of_played is None else {PLAYED_REGRET: metrics.regret(run, of_played.loss)}

    seen: Observations | None = None
    checks: tuple[Assumption, ...] = ()
    if check and source is not None:
        seen = observe(run, played, source, getattr(comparator, "decision", None))
        checks = _checks(run, played, scored, source, seen, key)
        checks += () if announced is None else announced.checks(fixed)
    checks += tuple(infeasible[:1]) or unchecked(played, comparator)
    setting = setting_of(played, run.first, None if seen is None else seen.observed)
    return assembled(
        run,
        setting,
        played,
        scored,
        comparator,
        names,
        regrets,
        seen,
        checks,
        notes,
        memory,
        announced,
        source=source,
    )


def _own_comparator(
    run: Run,
    memory: RecordedRun,
    policy: Any,
    regrets: dict[str, Array],
    notes: list[str],
    infeasible: list[Assumption],
) -> list[Hindsight | None]:
    """Add adaptive-adversary regret; return the decisions from which announced constraints must not
    lead away."""
    own = best_or_note(
        memory.scored,
        memory.stream,
        run,
        notes,
        "the problem, given the run's previous decisions,",
        infeasible,
    )
    if own is not None:
        regrets[ADAPTIVE_REGRET] = metrics.regret(run, own)
    return [policy, own] if memory.only_announced else [own]


def _checked(best: Any, run: Run) -> Any:
    """`best`, if it has one loss per seed."""
    shape = np.shape(getattr(best, "loss", best))
    if shape not in ((), (run.seeds,)):
        raise ValueError(
            f"best: got losses of shape {shape}; expected one per seed, {(run.seeds,)}, for the "
            "whole run: taut.hindsight(problem, stream, seeds=...) without prefixes"
        )
    return best


def _source(run: Run, problem: Problem, stream: Any, seeds: int | None, data: Any) -> Stream | None:
    if stream is not None and data is None:
        return as_stream(problem.arrange(stream), horizon=run.horizon, seeds=seeds)
    if data is None and isinstance(run.stream, Adversary):
        data = revealed_data(run)
    # What an adversary revealed can be held to what a model says of its parameters only now.
    return run.stream if data is None else as_stream(problem.arrange(data), seeds=run.seeds)


def best_or_note(
    problem: Problem,
    source: Stream | None,
    run: Run,
    notes: list[str],
    whose: str = "the problem",
    infeasible: list[Assumption] | None = None,
) -> Hindsight | None:
    """The best fixed decision, or `None` with a note that says why there is none.

    If no decision is feasible in all rounds, the assumption of all theorems that there is one is
    added to `infeasible`.
    """
    from .hindsight import hindsight

    if source is None:
        notes.append(
            "Regret is missing because this run has no stream. Pass stream=... to taut.certify."
        )
        return None
    try:
        return hindsight(problem, source, horizon=run.horizon)
    except NoFeasibleDecision as error:
        notes.append(_without_comparator(error, whose))
        if infeasible is not None:
            detail = f"every decision of {whose} has max g >= {error.bound:.4g} in some round"
            infeasible.append(
                Assumption(
                    str(Assumes.FEASIBLE),
                    REFUTED,
                    detail,
                    {"least violating": np.asarray(error.decision)},
                )
            )
        return None


def unchecked(problem: Problem, comparator: Any) -> tuple[Assumption, ...]:
    """The same assumption where constraints change and no fixed decision was computed."""
    if not problem.constraints.takes_data or (comparator is not None and not moves(comparator)):
        return ()
    return (
        Assumption(
            str(Assumes.FEASIBLE),
            GIVEN,
            "not checked, because the best fixed decision was not computed",
        ),
    )


def _without_comparator(error: NoFeasibleDecision, whose: str) -> str:
    """Say that no fixed decision is feasible, and which one violates least."""
    shown = np.array2string(np.asarray(error.decision), precision=4, threshold=12)
    seed = "" if error.seed is None else f" of seed {error.seed}"
    return (
        f"Regret is missing because no fixed decision of {whose} is feasible in all rounds{seed}: "
        "every one has max g >= "
        f"{error.bound:.4g} in some round. The least-violating decision is x = {shown}, with max "
        f"g = {error.violation:.4g}. "
        "Decisions that change are other comparators: pass best=taut.hindsight(problem, stream, "
        'comparator="per-round"), or "shifting", to the certificate.'
    )


def _checks(
    run: Run,
    played: Problem,
    scored: Problem,
    source: Stream,
    seen: Observations,
    key: jax.Array | None,
) -> tuple[Assumption, ...]:
    feasible = getattr(run.learner, "feasible", None)
    found = _assumptions.check(played, source, key, seen, feasible)
    if scored is played:
        return found
    data = None
    if scored.constraints.takes_data:
        data = _assumptions.rounds_of(source, key, seen)
    slater = _assumptions.check_slater(scored, data, SCORED_SLATER)
    return found if slater is None else (*found, slater)
