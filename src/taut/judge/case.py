"""The case that a judge decides: a run with all that has been found out about it.

Each stage in `certify.py` takes a case and returns one that knows more. `AnnouncedRun` is a part of
a case with announced constraints: what the step before each round did, checked in every round.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..engine import Array
from ..learners import Assumes, Guarantee, Learner
from ..play.replay import replayed
from ..problem.problem import Problem
from ..problem.streams import RoundData, Stream
from ..runs.run import AdviceFacts, Run
from .assumptions import REFUTED, Assumption
from .facts.find import VERIFIED, Facts
from .observed import Observations
from .views import RecordedRun

ANNOUNCED_VIOLATION = "peak violation of announced constraints"
SOURCE = "announced constraints, A2"
ROUNDING, UNITS = 1e-9, 64
"""Relative room for rounding of squared distances, and units of rounding of a number."""
ROUNDS = 256
"""Rounds that show how large announced constraints are."""


@dataclass(frozen=True)
class AnnouncedRun:
    """A run on a problem with announced constraints."""

    run: Run
    problem: Problem
    stream: Stream | None
    """None for a player whose data are not at hand."""
    count: int
    """The number of announced constraints, which are scored last."""
    remembers: bool
    """Whether the problem depends on the previous decision."""

    @classmethod
    def of(cls, run: Run, played: Problem, scored: Problem, stream: Stream) -> AnnouncedRun | None:
        """Return None if no constraint was announced, or if other ones were announced than are
        scored."""
        announced = played.announced
        if announced is None or scored.announced != announced:
            return None
        block = stream.block(0, 1)
        x, z = run.final[0], jax.tree.map(lambda a: jnp.asarray(a)[0, 0], block)
        count = int(jax.eval_shape(announced.values, jnp.asarray(x), z).shape[0])
        return cls(run, played, stream, count, isinstance(block, RoundData))

    @property
    def peak(self) -> Array:
        """The largest violation of an announced constraint, per seed."""
        return np.asarray(self.run.totals.peak[..., -self.count :].max(axis=-1))

    def guarantees(self) -> tuple[Guarantee, ...]:
        """Return the bound on the violation of announced constraints, as a bound on the peak
        violation."""
        if not self.remembers:
            why = (
                "the problem does not depend on the previous decision, so there is none to move "
                "back to"
            )
            return (Guarantee.none("peak violation", SOURCE, why),)
        assumptions = (str(Assumes.CONVEX_CONSTRAINTS), str(Assumes.STANDING_STILL))
        return (Guarantee("peak violation", 0.0, SOURCE, assumptions),)

    def checks(self, comparators: Sequence[Any]) -> tuple[Assumption, ...]:
        """Check in every round what the theorems about announced constraints assume.

        Arguments:
            comparators: results of `taut.hindsight` against which regret is measured, or None where
                there is none.
        """
        if self.stream is None:
            return (self._hold(),)
        decisions = [
            np.asarray(comparator.decision, float)
            for comparator in comparators
            if getattr(comparator, "decision", None) is not None
        ]
        checks = self._hold(), self._towards(decisions)
        return (*checks, self._standing()) if self.remembers else checks

    def _hold(self) -> Assumption:
        name, worst = str(Assumes.ANNOUNCED_HOLD), float(self.peak.max())
        text = f"largest violation of an announced constraint over all rounds {worst:.3g}"
        if worst > self._unit * self._size():
            return Assumption(name, REFUTED, text)
        return Assumption(name, VERIFIED, text + (", which is rounding" if worst > 0 else ""))

    @property
    def _unit(self) -> float:
        """How far rounding can move a number, as a share of the numbers that are added up."""
        return UNITS * float(np.finfo(self.run.final.dtype).eps)

    def _size(self) -> float:
        """The largest announced constraint value at the last decisions, in the first rounds; of a
        player without data, the mean of the largest one."""
        announced = self.problem.announced
        assert announced is not None
        if self.stream is None:
            return (
                float(np.abs(self.run.totals.excess[..., -self.count :]).max()) / self.run.horizon
            )
        block = self.stream.block(0, min(self.run.horizon, ROUNDS))
        values = jax.vmap(jax.vmap(announced.values, (None, 0)))(jnp.asarray(self.run.final), block)
        return float(np.max(np.abs(np.asarray(values))))

    def _towards(self, comparators: Sequence[Array]) -> Assumption:
        """The step must not lead away from the comparator, which is what it may do if that violates
        an announced constraint."""
        name = str(Assumes.ANNOUNCED_TOWARDS)
        if not comparators:
            why = "no fixed decision satisfies all constraints in all rounds"
            return Assumption(name, REFUTED, why)
        assert self.stream is not None
        start, worst, away = 0, -np.inf, 0
        decisions, proposals = (
            (x for x, _ in replayed(self.run, self.problem, self.stream, record=(kind,)))
            for kind in ("own decisions", "proposals")
        )
        for x, y in zip(decisions, proposals, strict=True):
            axes = tuple(range(2, x.ndim))
            for u in comparators:
                distance = np.sum((x - u[:, None]) ** 2, axis=axes)
                gained = distance - np.sum((y - u[:, None]) ** 2, axis=axes)
                away += int(np.sum(gained > max(ROUNDING, self._unit) * (1 + distance)))
                worst = max(worst, float(gained.max()))
            start += x.shape[1]
        if away:
            why = f"in {away} rounds the step led away from the comparator, by up to {worst:.3g} in"
            return Assumption(name, REFUTED, f"{why} squared distance")
        return Assumption(name, VERIFIED, f"in all {start:,} rounds of all seeds")

    def _standing(self) -> Assumption:
        announced, stream = self.problem.announced, self.stream
        assert announced is not None
        assert stream is not None

        @jax.jit
        def worst(pair: Any) -> jax.Array:
            return jnp.max(announced.values(pair.previous, pair))

        pairs = stream.block(0, self.run.horizon)
        value = float(np.max(np.asarray(jax.vmap(jax.vmap(worst))(pairs))))
        name = str(Assumes.STANDING_STILL)
        text = "the previous decision satisfies the announced constraints in all rounds"
        if value > 0:
            why = f"{text} but some, in which it exceeds one by up to {value:.3g}"
            return Assumption(name, REFUTED, why)
        return Assumption(name, VERIFIED, f"{text}, by at least {-value:.3g}")


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
        return getattr(self.comparator, "comparator", "fixed") != "fixed"

    def noted(self, *notes: str) -> Case:
        """Return the case with more notes."""
        return replace(self, notes=(*self.notes, *notes))

    def with_regret(self, name: str, regret: Array | None) -> Case:
        """Return the case with one more regret, or another value for it."""
        return replace(self, regrets={**self.regrets, name: regret})
