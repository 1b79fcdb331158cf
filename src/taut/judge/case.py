"""The case that a judge decides: a run with all that has been found out about it.

Each stage in `certify.py` takes a case and returns one that knows more.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ..engine import Array
from ..learners import Learner
from ..problem.problem import Problem
from ..problem.streams import Stream
from ..runs.run import AdviceFacts, Run
from .announced import AnnouncedRun
from .assumptions import Assumption
from .facts.fact import Facts
from .observed import Observations
from .views import RecordedRun

__all__ = ["Case", "moves"]


@dataclass(frozen=True)
class Case:
    """A run, or a player in the form of a run, and what is known about it so far."""

    run: Run
    played: Problem
    """The problem that was played."""
    scored: Problem
    """The problem by which decisions are scored."""
    source: Stream | None
    """The data of all rounds, if they are at hand."""
    comparator: Any = None
    """The best decision in hindsight that the certificate shows: the result of `taut.hindsight`,
    or its losses alone."""
    targets: tuple[Any, ...] = ()
    """The comparators from which enforcing announced constraints must not lead away."""
    regrets: Mapping[str, Array | None] = field(default_factory=dict)
    """Regret of each seed, by the name of its row; None where it could not be measured."""
    seen: Observations | None = None
    """What was observed in all rounds."""
    facts: Facts | None = None
    """What is proven of the problem that was played."""
    checks: tuple[Assumption, ...] = ()
    infeasible: Assumption | None = None
    """Set if no decision is feasible in all rounds, which every theorem assumes."""
    memory: RecordedRun | None = None
    """For a problem with `previous=True`: how it became one without memory."""
    announced: AnnouncedRun | None = None
    """Set if constraints were announced."""
    advised: AdviceFacts | None = None
    """What was observed with advisers."""
    correction: float = 0.0
    """What feasibility moves take off the bound on regret, in the seed in which it is least."""
    uncovered: str = ""
    """Why no guarantee of the learner applies; empty if they do."""
    notes: tuple[str, ...] = ()

    @property
    def learner(self) -> Learner:
        """The learner of the run."""
        assert isinstance(self.run.learner, Learner)
        return self.run.learner

    @property
    def count(self) -> int:
        """The number of scored constraints on which guarantees are: all but the announced ones, or
        all if there are no others."""
        count = int(self.run.totals.excess.shape[-1])
        announced = 0 if self.announced is None else self.announced.count
        return count if announced == count else count - announced

    @property
    def moving(self) -> bool:
        """Whether the comparator is another decision in different rounds."""
        return moves(self.comparator)

    def noted(self, *notes: str) -> Case:
        """Return the case with more notes."""
        return replace(self, notes=(*self.notes, *notes))

    def with_regret(self, name: str, regret: Array | None) -> Case:
        """Return the case with one more regret, or another value for it."""
        return replace(self, regrets={**self.regrets, name: regret})


def moves(comparator: Any) -> bool:
    """Whether a comparator is another decision in different rounds."""
    return getattr(comparator, "comparator", "fixed") != "fixed"
