"""Growth exponents that theory guarantees: how each quantity may grow with the horizon, logarithms apart."""

from __future__ import annotations

import math
from typing import NamedTuple

from ... import arguments

__all__ = ["EXPONENT_KINDS", "Exponents", "exponents"]

EXPONENT_KINDS = (
    "projected",
    "projected-strong",
    "mahdavi",
    "mahdavi-clipped",
    "jenatton",
    "jenatton-clipped",
    "jenatton-strong",
    "jenatton-strong-clipped",
    "clipped",
    "clipped-anytime",
    "clipped-strong",
    "drift-plus-penalty",
)


class Exponents(NamedTuple):
    """Each quantity is at most a constant times T to this power (times a power of log T).

    What a learner does not control has the exponent of the trivial bound: 1 for sums, 0 for the peak. A
    quantity that is zero has exponent minus infinity.
    """

    regret: float
    violation: float
    squared: float
    peak: float
    excess: float


def exponents(
    kind: str, beta: float = 0.5, *, error_bound: bool = False, smooth: bool = False, slater: bool = False
) -> Exponents:
    r"""The exponents of one family of learners, its step decaying as T^-beta (or t^-beta).

    `error_bound`: fixed constraints with an error bound, from a feasible first decision (see `error_bound_violation`);
    `smooth`: one fixed smooth constraint (Lemma 1); both sharpen the Clipped-OGD rows. `slater`: a decision strictly
    feasible in every round, for drift-plus-penalty. beta is ignored where the method fixes its step.
    """
    kind = arguments.one_of("kind", kind, EXPONENT_KINDS)
    beta = arguments.fraction("beta", beta)
    trade, half, none = max(beta, 1 - beta), 1 - beta / 2, -math.inf
    clipped = Exponents(trade, half, 1 - beta, -beta / 3 if smooth else 0.0, half)
    anytime = Exponents(trade, half, 1 - beta, 0.0, half)  # the first steps, hence the peak, do not shrink with T
    strong = Exponents(0.0, 0.5, 0.0, 0.0, 0.5)
    if error_bound:
        clipped = Exponents(trade, 1 - beta, 1 - 2 * beta, -beta, 1 - beta)
        anytime = Exponents(trade, 1 - beta, max(1 - 2 * beta, 0.0), 0.0, 1 - beta)
        strong = Exponents(0.0, 0.0, 0.0, 0.0, 0.0)
    return {
        "projected": Exponents(trade, none, none, none, none),
        "projected-strong": Exponents(0.0, none, none, none, none),
        "mahdavi": Exponents(0.5, 1.0, 1.0, 0.0, 0.75),
        "mahdavi-clipped": Exponents(0.5, 0.75, 0.75, 0.0, 0.75),  # squared <= range times violation
        "jenatton": Exponents(trade, 1.0, 1.0, 0.0, half),
        "jenatton-clipped": Exponents(trade, half, half, 0.0, half),
        "jenatton-strong": Exponents(beta, 1.0, 1.0, 0.0, half),
        "jenatton-strong-clipped": Exponents(beta, half, half, 0.0, half),
        "clipped": clipped,
        "clipped-anytime": anytime,
        "clipped-strong": strong,
        "drift-plus-penalty": Exponents(0.5, 1.0, 1.0, 0.0, 0.5 if slater else 0.75),
    }[kind]
