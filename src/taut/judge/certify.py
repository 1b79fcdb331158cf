"""Compare a run with what theory promises for it: `taut.certify`.

`certify` is a list of stages. Each stage takes a `Case` and returns one that knows more.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .. import arguments
from ..engine import first_key, notice_precision
from ..jaxpr.walk import evaluate
from ..learners import Assumes
from ..play.replay import revealed_data
from ..problem.compatibility import adversary_state
from ..problem.feasibility import NoFeasibleDecision
from ..problem.problem import Problem
from ..problem.streams import Adversary, Stream, as_stream
from ..runs import metrics
from ..runs.run import AdviceFacts, Run, least_sum
from . import assumptions
from .assumptions import GIVEN, REFUTED, Assumption
from .binding import check_same
from .case import AnnouncedRun, Case
from .certificate import Certificate
from .facts.find import VERIFIED, facts_of
from .guarantees import SCORED_SLATER, coverage, margin_between
from .hindsight import Hindsight, hindsight
from .hindsight.result import NotCertified
from .observed import observe
from .rows import PLAYED_REGRET, certificate_of, promised
from .views import ADAPTIVE_REGRET, POLICY_REGRET, RecordedRun


def certify(
    run: Run,
    *,
    problem: Problem | None = None,
    stream: Any = None,
    seeds: int | None = None,
    score: Problem | None = None,
    best: Any = None,
    data: Any = None,
    advice: Any = None,
    forecast: Any = None,
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
        advice, forecast: what advisers said or predicted in all rounds, as in `taut.simulate`, for
            a run that was loaded from a file.
        check: whether to check the assumptions. All rounds are looked at for it.
        key: random key for the probes.
    """
    arguments.instance("run", run, Run, "the result of taut.simulate(learner, problem, stream)")
    arguments.flag("check", check)
    if isinstance(run.learner, tuple):
        raise TypeError("run: got a sweep of learners; expected one run: pick it with run[i]")
    notice_precision()
    if advice is not None or forecast is not None:
        run = replace(run, advice=advice, forecast=forecast)
    case = _opened(run, problem, score, stream, seeds, data)
    return judged(with_reaction(case), best, check, key)


def judged(case: Case, best: Any, check: bool, key: jax.Array | None = None) -> Certificate:
    """All stages after the first, for a run or a player, whose case may know some results."""
    case = with_replay(case)
    case = with_comparator(case, best)
    case = with_memory(case)
    case = with_announced(case)
    case = with_tightening(case)
    if check:
        case = with_checks(case, key)
    return certificate_of(with_feasibility(case))


def _opened(
    run: Run,
    problem: Problem | None,
    score: Problem | None,
    stream: Any,
    seeds: int | None,
    data: Any,
) -> Case:
    """The run with its problems and data, which were given or are those that it remembers."""
    scored = score or problem or run.problem
    played = problem or run.played or run.problem
    if played is None or scored is None:
        raise ValueError(
            "problem: got None; expected the problem that was played, which a saved run does not "
            "hold"
        )
    source = run.stream
    if stream is not None and data is None:
        source = as_stream(played.arrange(stream), horizon=run.horizon, seeds=seeds)
    if data is None and isinstance(source, Adversary):
        data = revealed_data(replace(run, played=played, stream=source))
    if data is not None:
        # What an adversary revealed can be held to what a model says of its parameters only now.
        source = as_stream(played.arrange(data), seeds=run.seeds)
    case = Case(run, played, scored, source)
    return case.noted(*coverage(case.learner, run.feedback))


def with_reaction(case: Case) -> Case:
    """Add whether the data depend on the decisions, which some theorems exclude, as far as the run
    says where they come from."""
    run, why = case.run, ""
    if case.source is not None and (case.played.previous or case.scored.previous):
        why = "loss or constraints depend on the previous decision"
    elif run.stream is None:
        if not run.reacts:
            return case
        why = "the data came from an adversary, which sees decisions"
    elif isinstance(run.stream, Adversary) and reacts_to_decisions(run.stream, run.first):
        why = "the adversary reacts to the decisions"
    if why:
        names = Assumes.OBLIVIOUS, Assumes.STOCHASTIC
        reaction = tuple(Assumption(str(name), REFUTED, why, {}) for name in names)
    else:
        why = "the data were given before the run"
        if isinstance(run.stream, Adversary):
            why = "what the adversary reveals does not depend on the decisions"
        reaction = (Assumption(str(Assumes.OBLIVIOUS), VERIFIED, why),)
    return replace(case, checks=(*case.checks, *reaction))


def with_replay(case: Case) -> Case:
    """Refuse problems and data that are not those of the run, and add what its states tell."""
    if case.source is None or case.seen is not None:  # a player has looked at its rounds itself
        return case
    again = check_same(case.run, case.played, case.scored, case.source)
    if again.path is not None:
        case = replace(case, run=replace(case.run, path=again.path))
    return with_states(case, again.cuts_hold, again.correction, again.advised)


def with_states(case: Case, cuts_hold: Any, correction: Any, advised: AdviceFacts | None) -> Case:
    """Add what the states of a learner tell, each for each seed, or `None`.

    Arguments:
        case: the case.
        cuts_hold: whether all projections on kept cuts were exact.
        correction: what feasibility moves take off the bound on regret.
        advised: what was observed with advisers.
    """
    if cuts_hold is not None:
        name, failed = str(Assumes.EXACT_PROJECTIONS), np.flatnonzero(~np.asarray(cuts_hold))
        why = "a kept cut did not hold after a round, or was dropped because others contradict it"
        exact = Assumption(name, REFUTED, why, {"seeds": failed})
        if failed.size == 0:
            exact = Assumption(name, VERIFIED, "all kept cuts held after every round")
        case = replace(case, checks=(*case.checks, exact))
    if correction is not None:
        case = replace(case, correction=least_sum(correction, case.run.horizon))
    if advised is not None and case.played.previous:
        case = case.noted(
            "Bounds with advisers are on the path that was played: what an adviser alone would "
            "have lost after its own previous decisions may be less."
        )
    return replace(case, advised=advised)


def with_comparator(case: Case, best: Any = None) -> Case:
    """Measure regret against `best`, or else against the best fixed decision of the scored
    problem."""
    previous = case.scored.previous
    if best is None:
        best, case = _best_fixed(case, case.scored, case.source)
    losses = () if best is None else np.shape(getattr(best, "loss", best))
    if losses not in ((), (case.run.seeds,)):
        raise ValueError(
            f"best: got losses of shape {losses}; expected one per seed, {(case.run.seeds,)}, for "
            "the whole run: taut.hindsight(problem, stream, seeds=...) without prefixes"
        )
    if previous:
        # Theorems compare with a decision that is feasible after the run's own previous decisions,
        # which `with_memory` looks for. That this comparator does not exist refutes nothing.
        case = replace(case, infeasible=None).with_regret(ADAPTIVE_REGRET, None)
    case = replace(case, comparator=best, targets=(best,))
    name = "regret"
    if case.moving:
        name = f"regret, {best.comparator} comparator"
        case = case.noted(
            f"Regret is measured against a {best.comparator} comparator, whose path is "
            f"{np.max(best.path_length):.6g} long" + (" at most." if case.run.seeds > 1 else ".")
        )
    regret = None if best is None else metrics.regret(case.run, best)
    if regret is not None and not np.isfinite(regret).all():
        regret = None
        case = case.noted("Regret is missing because a round was observed without its loss.")
    return case.with_regret(POLICY_REGRET if previous else name, regret)


def with_memory(case: Case) -> Case:
    """Turn problems with `previous=True` into problems without memory, whose data contain the run's
    own previous decisions, and measure adaptive-adversary regret on them."""
    if case.source is None or not (case.played.previous or case.scored.previous):
        return case
    memory = RecordedRun.of(case.run, case.played, case.scored, case.source)
    if case.scored.previous:
        whose = "the problem, given the run's previous decisions,"
        own, case = _best_fixed(case, memory.scored, memory.stream, whose)
        case = replace(case, targets=(case.comparator, own) if memory.only_announced else (own,))
        regret = None if own is None else metrics.regret(case.run, own)
        case = case.with_regret(ADAPTIVE_REGRET, regret)
    return replace(
        case,
        memory=memory,
        run=memory.run,
        played=memory.played,
        scored=memory.scored,
        source=memory.stream,
    )


def with_announced(case: Case) -> Case:
    """Note which constraints were announced, and refuse comparators that move with them."""
    if case.source is None:
        return case
    announced = AnnouncedRun.of(case.run, case.played, case.scored, case.source)
    if case.moving and (case.memory is not None or announced is not None):
        raise ValueError(
            "best: got a comparator that moves for a problem with previous=True or announced "
            "constraints; expected the best fixed decision"
        )
    return replace(case, announced=announced)


def with_tightening(case: Case) -> Case:
    """Measure regret of the played problem as well, if its feasible set is smaller."""
    if case.source is None or case.moving:
        return case
    if margin_between(case.played, case.scored, case.count) <= 0:
        return case
    best, case = _best_fixed(case, case.played, case.source, "the played problem")
    if best is None:
        return case
    return case.with_regret(PLAYED_REGRET, metrics.regret(case.run, best.loss))


def with_checks(case: Case, key: jax.Array | None = None) -> Case:
    """Prove what can be proven of the problem that was played and its data, look at the decision of
    every round, and check the assumptions against both."""
    facts, seen = facts_of(case.played, case.source), case.seen
    if seen is None and case.source is not None:
        decision = getattr(case.comparator, "decision", None)
        seen = observe(case.run, case.played, case.source, decision)
    case = replace(case, facts=facts, seen=seen)
    if seen is None:
        return case
    feasible = getattr(case.learner, "feasible", None)
    rests = {name for guarantee in promised(case) for name in guarantee.assumptions}
    checks = assumptions.check(case.played, case.source, key, seen, feasible, facts, rests)
    if case.scored is not case.played and case.source is not None:
        rounds = None
        if case.scored.constraints.takes_data:
            rounds = assumptions.rounds_of(case.source, key)
        slater = assumptions.check_slater(case.scored, rounds, SCORED_SLATER)
        checks += () if slater is None else (slater,)
    if case.announced is not None:
        checks += case.announced.checks(case.targets)
    return replace(case, checks=(*case.checks, *checks))


def with_feasibility(case: Case) -> Case:
    """Add the assumption that some decision is feasible in all rounds, where it is in doubt."""
    doubt = case.infeasible
    unknown = case.comparator is None or case.moving
    if doubt is None and unknown and case.played.constraints.takes_data:
        why = "not checked, because the best fixed decision was not computed"
        doubt = Assumption(str(Assumes.FEASIBLE), GIVEN, why)
    return case if doubt is None else replace(case, checks=(*case.checks, doubt))


def _best_fixed(
    case: Case, problem: Problem, source: Stream | None, whose: str = "the problem"
) -> tuple[Hindsight | None, Case]:
    """The best fixed decision of a problem, or None and the case with a note that says why."""
    if source is None:
        return None, case.noted(
            "Regret is missing because there are no data; a player keeps no data, nor does a file. "
            "Pass stream=..., the data of all rounds."
        )
    try:
        return hindsight(problem, source, horizon=case.run.horizon), case
    except NoFeasibleDecision as error:
        decision = np.asarray(error.decision)
        detail = f"every decision of {whose} has max g >= {error.bound:.4g} in some round"
        refuted = Assumption(str(Assumes.FEASIBLE), REFUTED, detail, {"least violating": decision})
        case = replace(case, infeasible=case.infeasible or refuted)
        shown = np.array2string(decision, precision=4, threshold=12)
        seed = "" if error.seed is None else f" of seed {error.seed}"
        return None, case.noted(
            f"Regret is missing because no fixed decision of {whose} is feasible in all rounds"
            f"{seed}: every one has max g >= {error.bound:.4g} in some round. The least-violating "
            f"decision is x = {shown}, with max g = {error.violation:.4g}. Decisions that change "
            "are other comparators: pass best=taut.hindsight(problem, stream, "
            'comparator="per-round"), or "shifting", to the certificate.'
        )
    except NotCertified as error:
        return None, case.noted(
            f"Regret is missing because no decision of {whose} was proven to be the best: {error}."
        )


_DECISION = object()
"""What depends on the decision."""


def reacts_to_decisions(stream: Adversary, first: Any) -> bool:
    """Return whether what an adversary reveals, or its state, can depend on the decision.

    The function is traced, and the decision followed through its operations.
    """
    state = adversary_state(stream, jnp.result_type(first))
    states = () if stream.state is None else (state,)
    rest = (jnp.asarray(1, jnp.int32), jnp.asarray(first), first_key())
    traced = jax.make_jaxpr(stream.function)(*states, *rest)
    inputs: list[Any] = [None] * len(traced.jaxpr.invars)
    inputs[len(jax.tree.leaves(states)) + 1] = _DECISION

    def follow(equation: Any, operands: list[Any]) -> list[Any]:
        depends = any(operand is _DECISION for operand in operands)
        return [_DECISION if depends else None for _ in equation.outvars]

    return any(result is _DECISION for result in evaluate(traced, inputs, follow))
