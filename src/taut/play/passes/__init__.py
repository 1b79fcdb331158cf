"""Passes: optional rewritings of the compiled loop that change its speed and no number.

Read `kernel` first, then `reductions` and `options`. Each pass is one object behind one interface.
`TAUT_PASSES=none` in the environment, or `taut.engine.passes()`, switches all of them off;
`python -m benchmarks.passes` shows what each one gains. A pass that does not gain 1.2 times
somewhere is deleted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple, Protocol

from ... import engine
from .kernel import KERNEL
from .options import OPTIONS
from .reductions import REDUCTIONS

__all__ = ["PASSES", "Pass", "RoundFacts", "suitable"]


class RoundFacts(NamedTuple):
    """What is known of a round before it is traced. Hashable."""

    learner: type
    side_by_side: bool
    size: int
    """Numbers of a decision."""
    seeds: int
    domain: type
    backend: str
    jax: str


class Pass(Protocol):
    """An optional rewriting of the loop."""

    name: ClassVar[str]
    options: ClassVar[dict[str, Any]]
    """For XLA, per compilation."""

    def suits(self, facts: RoundFacts) -> bool:
        """Return whether the pass applies."""

    def of_round(self, body: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that computes the same as the one that plays a round."""

    def of_program(self, program: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function of arrays that computes the same as the one that plays a chunk, and
        may return further arrays behind its results."""


PASSES: tuple[Pass, ...] = (REDUCTIONS, OPTIONS, KERNEL)
"""All passes, in the order in which they are applied."""


def suitable(facts: RoundFacts) -> tuple[Pass, ...]:
    """Return the passes that are switched on and apply."""
    chosen = engine.chosen_passes()
    return tuple(
        each for each in PASSES if (chosen is None or each.name in chosen) and each.suits(facts)
    )
