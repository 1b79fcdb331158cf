"""The checks of guarantees: assumptions are known, bounds hold, and bounds grow as the card
says."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..judge.guarantees import setting_of
from ..learners import QUANTITIES, Assumes, Card
from ..learners.guarantee import smallest
from ..problem.constants import SYMBOLS
from ..runs import metrics
from ..runs.run import Run
from .playing import (
    adversarial_run,
    as_played,
    hostile_stream,
    play,
    require,
    shared_run,
    shared_stream,
    tuned,
)
from .problems import ROUNDS, KnownProblem


def check_assumptions_are_known(card: Card, problems: Sequence[KnownProblem]) -> None:
    """Every guarantee names a known quantity, a source, and assumptions that a certificate can look
    up."""
    names = {str(assumption) for assumption in Assumes} | set(SYMBOLS)
    for known in problems:
        problem = as_played(card, known.problem)
        for guarantee in tuned(card, known).guarantees(setting_of(problem), ROUNDS):
            require(
                guarantee.quantity in QUANTITIES,
                f"a guarantee must be about one of {QUANTITIES}; got {guarantee.quantity!r}",
            )
            require(guarantee.source, "a guarantee must name its theorem")
            require(
                (guarantee.bound is None) == bool(guarantee.reason),
                "a guarantee has a bound, or a reason why there is none",
            )
            unknown = set(guarantee.assumptions) - names
            require(
                not unknown,
                f"{guarantee.source}: unknown assumptions {sorted(unknown)}; use Assumes or the "
                "name of a constant",
            )


def check_bounds_hold_on_random_streams(card: Card, problems: Sequence[KnownProblem]) -> None:
    """No bound is exceeded on the random streams."""
    for known in problems:
        _check_bounds(card, known, shared_run(card, known), shared_stream(known))


def check_bounds_hold_against_adversaries(card: Card, problems: Sequence[KnownProblem]) -> None:
    """No bound is exceeded against adversaries.

    On two problems the adversary reacts to this method. On the others it has reacted to
    Clipped-OGD, which needs no further program to be compiled.
    """
    for known in problems[:2]:
        _check_bounds(card, known, *adversarial_run(card, known))
    for known in problems[2:]:
        data = hostile_stream(known)
        _check_bounds(card, known, play(card, known, data=data), data)


def _check_bounds(card: Card, known: KnownProblem, run: Run, data: Any) -> None:
    problem = as_played(card, known.problem)
    measured = metrics.measured(run, known.optimum(data))
    for guarantee in tuned(card, known).guarantees(setting_of(problem), run.horizon):
        if guarantee.bound is None:
            continue
        value = measured[guarantee.quantity]
        worst = float(np.mean(value) if guarantee.expected else np.max(value))
        require(
            worst <= guarantee.bound + 1e-9 * (1 + abs(guarantee.bound)),
            f"{known.name}: {guarantee.quantity} is {worst:.6g}, above the bound "
            f"{guarantee.bound:.6g} of {guarantee.source}",
        )


def check_growth_matches_bounds(card: Card, problems: Sequence[KnownProblem]) -> None:
    """The growth that the card declares is the slope of the bounds over long horizons."""
    slopes: dict[str, float] = {}
    short, long = (
        2**24,
        2**30,
    )  # long enough for lower-order terms to vanish; rounds are counted in 32 bits
    for known in problems:
        problem = as_played(card, known.problem)
        setting = setting_of(problem)
        low, high = (smallest(tuned(card, known, T).guarantees(setting, T)) for T in (short, long))
        for quantity in set(low) & set(high):
            first, last = low[quantity].bound, high[quantity].bound
            if first and last:
                slope = math.log(last / first) / math.log(long / short)
                slopes[quantity] = max(slope, slopes.get(quantity, -math.inf))
    for quantity, growth in card.growth.items():
        if quantity not in slopes:
            continue
        require(
            slopes[quantity] <= growth.exponent + 0.06 or growth.condition,
            f"the card says that {quantity} grows like T^{growth.exponent:g}, its bound grows "
            f"like T^{slopes[quantity]:.3f}",
        )
