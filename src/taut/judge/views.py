"""Problems that depend on the previous decision, seen as problems without memory, and the data that
belong to them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np

from .. import arguments
from ..engine import Array
from ..learners import Guarantee
from ..play.replay import known_decisions, replayed
from ..problem.memory import is_steady, linked, recorded, steady, takes_previous
from ..problem.problem import LossWithPrevious, Problem
from ..problem.streams import Stream
from ..runs.run import Run

ADAPTIVE_REGRET = "adaptive-adversary regret"
"""Loss minus that of the best fixed decision, both after the learner's own previous decisions."""
POLICY_REGRET = "policy regret"
"""Loss minus that of the best fixed decision, which is its own previous decision."""


def without_memory(
    problem: Problem, source: Stream, previous: Any, comparator: str
) -> tuple[Problem, Stream]:
    """Return the problem and the data of which hindsight finds the best fixed decision.

    Arguments:
        problem: the problem.
        source: its data.
        previous: None for a comparator whose previous decision is itself; a run or its decisions
            for one that follows them.
        comparator: "fixed" or the name of a comparator that moves.
    """
    problem = problem.whole()
    if not problem.previous:
        if previous is not None:
            raise ValueError("previous: got decisions for a problem without memory; expected None")
        return problem, source
    if previous is None:
        if comparator != "fixed":
            raise ValueError(
                f'comparator: got "{comparator}" for a problem with previous=True, in which the '
                'decisions of a sequence depend on each other; expected "fixed", or '
                "previous=run, for which they do not"
            )
        return steady(problem), source
    if isinstance(previous, Run):
        first, decisions = previous.first, decisions_of(previous, problem, source)
    else:
        first, decisions = None, arguments.finite("previous", previous)
    expected = (source.seeds, source.horizon, *problem.domain.shape)
    if decisions.shape != expected:
        raise ValueError(
            f"previous: got decisions of shape {decisions.shape}; expected {expected}: seed, "
            "round, decision"
        )
    first = decisions[0, 0] if first is None else first
    return recorded(problem), linked(problem, source, decisions, first)


def decisions_of(run: Run, problem: Problem | None = None, source: Stream | None = None) -> Array:
    """All decisions of a run, (seed, round, *shape): recorded ones, or those of the run played
    again."""
    known = known_decisions(run)
    if known is not None:
        return np.asarray(known)
    played = run.played or problem
    return np.concatenate(
        [np.asarray(x) for x, _ in replayed(run, played, run.stream or source)], axis=1
    )


@dataclass(frozen=True)
class RecordedRun:
    """A run on a problem with memory, as a run on problems without memory whose data contain the
    previous decisions."""

    run: Run
    """The run with its decisions."""
    played: Problem
    scored: Problem
    stream: Stream
    steady: bool
    """Whether the problem that was played is the scored one with the previous decision set to the
    decision itself."""
    remembers: bool
    """Whether scored constraints depend on the previous decision."""
    only_announced: bool
    """Whether nothing but announced constraints depends on the previous decision: both regrets then
    have the same losses."""

    @classmethod
    def of(cls, run: Run, played: Problem, scored: Problem, stream: Stream) -> RecordedRun:
        """Look up the decisions of the run, or play it again."""
        decisions = decisions_of(run, played, stream)
        remembers = played if played.previous else scored
        views = recorded(played), recorded(scored)
        return cls(
            run=replace(run, decisions=decisions, every=1),
            played=views[0],
            scored=views[0] if played is scored else views[1],
            stream=linked(remembers, stream, decisions, run.first),
            steady=is_steady(played, scored),
            remembers=takes_previous(scored.scored_constraints),
            only_announced=played is scored
            and isinstance(scored.loss, LossWithPrevious)
            and not scored.loss.takes_previous
            and not takes_previous(scored.constraints),
        )

    def cost_of_moving(self) -> Array:
        """Sum over rounds of f_t(x_t, x_{t-1}) - f_t(x_t, x_t), per seed."""
        assert self.run.decisions is not None
        loss = self.scored.loss

        @jax.jit
        def cost(x: jax.Array, pair: Any) -> jax.Array:
            return loss(x, pair) - loss(x, pair._replace(previous=x))

        costs = jax.vmap(jax.vmap(cost))(self.run.decisions, self.stream.block(0, self.run.horizon))
        return np.asarray(costs, float).sum(axis=1)

    def policy_guarantees(self, promised: Iterable[Guarantee]) -> tuple[Guarantee, ...]:
        """Return bounds on policy regret, as bounds on regret, given those for the problem that was
        played."""
        of_regret = [g for g in promised if g.quantity == "regret"]
        if self.only_announced:
            return tuple(of_regret)
        if not self.steady:
            advice = (
                "with announced constraints there is none for policy regret"
                if self.scored.announced is not None
                else "simulate(learner, taut.steady(problem), stream, score=problem) has one for "
                "policy regret"
            )
            why = f"guarantees of learners are about adaptive-adversary regret; {advice}"
            return tuple(
                g if g.bound is None else Guarantee.none("regret", g.source, why) for g in of_regret
            )
        moving, more = float(self.cost_of_moving().max()), "with the cost of moving"
        return tuple(
            replace(g, bound=g.bound + moving, source=f"{g.source}, {more}")
            if g.bound is not None
            else g
            for g in of_regret
        )

    def scored_guarantees(
        self, promised: Iterable[Guarantee], translated: Iterable[Guarantee]
    ) -> tuple[Guarantee, ...]:
        """Return the bounds for the scored problem. After a run on the steady problem, those of
        constraints without memory hold.

        Arguments:
            promised: bounds for the problem that was played.
            translated: the same for the scored one, as far as it is a transform of it.
        """
        if not self.steady:
            return tuple(translated)
        why = (
            "the constraints depend on the previous decision, which was the decision itself in "
            "the problem that was played"
        )
        violations = [g for g in promised if g.quantity != "regret"]
        if self.remembers:
            violations = [Guarantee.none(g.quantity, g.source, why) for g in violations]
        return (*violations, *(g for g in translated if g.quantity == "regret"))
