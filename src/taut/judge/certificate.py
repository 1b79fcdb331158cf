"""Certificate: what was measured, what theory promises for it, and the assumptions checked, for any
run."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .. import arguments
from ..display import counted
from ..learners import Guarantee
from . import tables
from .assumptions import Assumption

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from .hindsight import Hindsight

__all__ = ["EXCEEDED", "HOLDS", "NOTHING_STANDS", "Certificate", "Row"]

HOLDS, EXCEEDED, NOTHING_STANDS = "holds", "exceeded", tables.NOTHING_STANDS
FORMULA = 1e-9
"""Relative error that the evaluation of a bound may have."""


@dataclass(frozen=True)
class Row:
    """One quantity: measured over the seeds, and what theory promises."""

    quantity: str
    mean: float | None
    worst: float | None
    guarantee: Guarantee | None
    refuted_assumptions: tuple[str, ...] = ()
    """Refuted assumptions on which the guarantee rests; it says nothing if there are any."""
    reasons: tuple[str, ...] = ()
    """Why no theorem gives a bound, for a quantity without any."""
    trivial: bool = False
    """Whether the bound holds for every learner, because losses and constraints have a bounded
    range: it says nothing."""
    limit: float | None = None
    """What every learner satisfies on these data; `None` if it is not known."""
    rounding: float = 0.0
    """How far rounding can have moved the measured value."""
    noise: float = 0.0
    """Measured values below this are nothing but rounding of single rounds, and printed as 0."""
    half_interval: float = math.inf
    """Half the 95 % confidence interval of the mean over seeds, for bounds on the expectation."""
    mend: str = ""
    """What would give a bound that says something, if this one does not."""

    @property
    def bound(self) -> float | None:
        """The guarantee's number; `None` if there is no guarantee, or none that its assumptions
        support."""
        return None if self.guarantee is None or self.refuted_assumptions else self.guarantee.bound

    @property
    def theorem(self) -> str:
        """Where the bound comes from; empty if there is none."""
        return self.guarantee.source if self.guarantee else ""

    @property
    def expected(self) -> bool:
        """Whether the bound is on the mean over seeds and says nothing about a single one."""
        return self.guarantee is not None and self.guarantee.expected

    @property
    def ratio(self) -> float | None:
        """Measured value over the bound: of the worst seed, or of the mean for a bound on the
        expectation."""
        value = self.mean if self.expected else self.worst
        if self.bound is None or value is None or self.bound < 0:
            return None
        if self.bound == 0:
            return 0.0 if value <= self.rounding else math.inf
        return value / self.bound

    @property
    def holds(self) -> bool | None:
        """Whether every seed is within the bound; `None` if there is none, or if the seeds cannot
        decide about a mean."""
        if self.bound is None or self.worst is None or self.mean is None:
            return None
        limit = self.bound + FORMULA * abs(self.bound) + self.rounding
        if not self.expected:
            return self.worst <= limit
        if self.mean + self.half_interval <= limit:
            return True
        return False if self.mean - self.half_interval > limit else None


@dataclass(frozen=True, repr=False)
class Certificate:
    """What was measured, what was promised, and on what conditions. Print it to see all of it."""

    learner: str
    horizon: int
    seeds: int
    rows: tuple[Row, ...]
    assumptions: tuple[Assumption, ...]
    comparator: Hindsight | None
    """The best fixed decision in hindsight, against which regret is measured."""
    notes: tuple[str, ...] = ()
    violating_rounds: tuple[float, float] | None = None
    """Mean and largest over seeds of the number of rounds in which a constraint value is positive
    beyond rounding; None if the run did not record "excess"."""

    @property
    def violating_shares(self) -> tuple[float, float] | None:
        """The same as shares of all rounds."""
        if self.violating_rounds is None:
            return None
        mean, largest = self.violating_rounds
        return mean / self.horizon, largest / self.horizon

    @property
    def refuted(self) -> tuple[Assumption, ...]:
        """The assumptions for which a counterexample was found."""
        return tuple(assumption for assumption in self.assumptions if assumption.refuted)

    @property
    def outcome(self) -> str:
        """One of "holds", "exceeded" and "no guarantee stands".

        A run holds if a bound that says something stands and none is exceeded. Trivial bounds are
        no support.
        """
        if any(row.holds is False for row in self.rows):
            return EXCEEDED
        return HOLDS if any(row.holds and not row.trivial for row in self.rows) else NOTHING_STANDS

    @property
    def holds(self) -> bool | None:
        """True if bounds stand and none is exceeded, False if one is exceeded, `None` if no
        guarantee stands."""
        return {HOLDS: True, EXCEEDED: False}.get(self.outcome)

    @property
    def conclusion(self) -> str:
        """The outcome in one sentence."""
        return tables.conclusion(self)

    @property
    def verdict(self) -> str:
        """What was played, and the outcome."""
        return tables.verdict(self)

    def text(self, *, details: bool = False) -> str:
        """The certificate as plain text, no wider than the terminal: verdict, table, assumptions on
        which its bounds rest.

        Arguments:
            details: whether to add all other assumptions, and the learner with its parameters.
        """
        return tables.as_text(self, arguments.flag("details", details))

    def plot(
        self, quantities: Sequence[str] | None = None, *, log: bool = True, ax: Any = None
    ) -> Axes:
        """Draw the largest measured value of each quantity as a share of its bound.

        Arguments:
            quantities: the quantities to draw, as the rows call them; by default all.
            log: whether the axis is logarithmic; it has a marked zero.
            ax: the Matplotlib axes to draw on; by default new ones.
        """
        from ..plots.of_judgement import plot_certificate

        return plot_certificate(self, quantities, arguments.flag("log", log), ax)

    def to_latex(self) -> str:
        """The table for an article, with the verdict as its caption."""
        return tables.as_latex(self)

    def to_dict(self) -> dict[str, Any]:
        """All of it as JSON-able values."""
        return tables.as_dict(self)

    def __str__(self) -> str:
        return tables.as_text(self)

    def __repr__(self) -> str:
        size = f"{counted(self.seeds, 'seed')}, {counted(self.horizon, 'round')}"
        return f"<Certificate: {self.outcome}; {self.learner.split('(')[0]}, {size}>"

    def _repr_html_(self) -> str:
        return tables.as_html(self)
