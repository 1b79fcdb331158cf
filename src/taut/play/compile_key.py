"""What is compiled into the loop over rounds, and what it is given: hashable descriptions and small
tuples, no code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from ..learners import Learner
from ..problem.constraints import Constraints
from ..problem.domains import Domain
from .packing import Packing
from .step import PlayedRound

__all__ = ["BLOCK_TOTALS", "RECORDS", "BatchShape", "Carry", "CompileKey", "Inputs", "Record"]


class Record(NamedTuple):
    """Something that can be recorded of every round."""

    value: Callable[[PlayedRound, Any], Any]
    """Computes it from the played round and its data."""
    thinned: bool
    """Whether it is kept in every `every`-th round only."""


RECORDS = {
    "loss": Record(lambda played, z: played.loss, thinned=False),
    "excess": Record(lambda played, z: jnp.max(played.excess), thinned=False),
    "decisions": Record(lambda played, z: played.state.x, thinned=True),
    "multipliers": Record(
        lambda played, z: played.learner.multiplier(played.state, played.round).astype(
            played.state.x.dtype
        ),
        thinned=True,
    ),
    "data": Record(lambda played, z: z, thinned=False),
    "proposals": Record(lambda played, z: played.proposed, thinned=False),
}


BLOCK_TOTALS = "totals of blocks"
"""Where a chunk of several blocks returns their totals, beside the records: one row of packed
numbers per block."""


class BatchShape(NamedTuple):
    """How many learners and seeds are played side by side, and how many constraints are played and
    scored."""

    learners: int
    seeds: int
    played: int
    scored: int


class CompileKey(NamedTuple):
    """All that is compiled into a program. Hashable; equal keys use the same program."""

    loss: Callable[[jax.Array, Any], Any]
    scored_loss: Callable[[jax.Array, Any], Any]
    reveal: Callable[..., Any] | None
    record: frozenset[str]
    every: int
    length: int
    batch: BatchShape
    inputs: Packing
    state: Packing
    totals: Packing
    previous: tuple[bool, bool] = (False, False)
    """Whether the problem that is played, and the one that scores, depend on the previous
    decision."""
    quick: bool = False
    """Whether to compile quickly rather than well, for a program that runs once."""
    whole: bool = False
    """Whether to compile all into one kernel."""
    blocks: int = 1
    """Parts of a chunk whose totals are returned one by one. They are added like those of shorter
    chunks then."""

    @property
    def header(self) -> int:
        """Entries before the packed state that a chunk returns: whether all is finite, and the
        totals of the chunk."""
        return 1 + self.totals.size

    def records(self) -> dict[str, Record]:
        """Return what is recorded, in a fixed order."""
        return {name: record for name, record in RECORDS.items() if name in self.record}

    def rows(self, name: str, rounds: int) -> int:
        """Return in how many of `rounds` rounds something is recorded."""
        return rounds // (self.every if RECORDS[name].thinned else 1)


class Inputs(NamedTuple):
    """What stays the same through a simulation. The learner's parameters have a leading axis
    `learner`."""

    constraints: Constraints
    scored_constraints: Constraints | None
    domain: Domain
    learner: Learner
    x1: Any
    start: Any = None
    """The decision before round 1, for problems that depend on it."""
    adversary: Any = None
    """The adversary's state before round 1, if it has one."""
    announced: Constraints | None = None
    """Constraints that are known before a decision is played, if there are any."""


class Carry(NamedTuple):
    """What a round changes: the learner's state (as `Remembered` if more is carried along), and the
    totals."""

    state: Any
    totals: Any
