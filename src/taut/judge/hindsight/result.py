"""What hindsight returns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from ...engine import Array

if TYPE_CHECKING:
    from ...problem.problem import Problem


@dataclass(frozen=True)
class Hindsight:
    """The best feasible decisions. Leading dims of all arrays: `seed`, then `prefix` if prefixes
    were given.

    A comparator that moves has one decision per round ("per-round") or per segment ("shifting"):
    the dim `round` or `segment` of `decision` and `violation` then stands in the place of `prefix`,
    while `loss`, `gap` and `path_length` are totals.
    """

    decision: Array
    loss: Array
    """Total loss of the decision; this is what `taut.metrics.regret(run, best)` subtracts."""
    gap: Array
    """Certified relative optimality gap: (loss - lower bound) / max(unit, |loss|)."""
    violation: Array
    """The largest constraint value at the decision (over all rounds, if constraints change)."""
    multipliers: Array | None
    """Multipliers of the constraints, dim `constraint` last; the constraints inside a maximum have
    one each. If constraints change, the multipliers of all rounds are added. They prove the lower
    bound."""
    solver: str
    prefixes: tuple[int, ...] | None = None
    comparator: str = "fixed"
    """ "fixed", "per-round" or "shifting"."""
    path_length: Array | None = None
    """Sum over the rounds of |u_t - u_(t-1)| for a comparator u_1, u_2, ... that moves; None for
    "fixed"."""
    unit: float = 1.0
    """How much one round's loss usually changes over a radius of the domain; a smaller total loss
    is as good as 0."""
    problem: Problem | None = field(default=None, repr=False, compare=False)
    """The problem whose loss this is. Copies in other processes do not have it, since its functions
    may not be picklable."""

    @property
    def slack(self) -> Array:
        """How far the loss can be above the smallest one."""
        return np.asarray(self.gap) * np.maximum(self.unit, np.abs(self.loss))

    def __getstate__(self) -> dict[str, Any]:
        """Leave the problem out of copies and pickles."""
        return {**vars(self), "problem": None}


def of_elements(
    columns: Sequence[tuple[Any, ...]], seeds: int, solver: str, unit: float
) -> Hindsight:
    """The best decisions for all seeds and prefixes, given decision, loss, gap, violation and
    multipliers of each pair, seed by seed."""
    parts = []
    for column in zip(*columns, strict=True):
        values = np.asarray(column)
        parts.append(values.reshape(seeds, -1, *values.shape[1:]))
    decision, loss, gap, violation, multipliers = parts
    return Hindsight(decision, loss, gap, violation, multipliers, solver, unit=unit)


class NotCertified(RuntimeError):
    """No decision could be proven to be the best one within the tolerance."""


class NoInterior(NotCertified, ValueError):
    """No decision satisfies the constraints with slack, so that multipliers need not exist."""
