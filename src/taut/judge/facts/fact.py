"""A fact, and all facts of a problem."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from ...display import Displayed, Summary, number
from ...engine import Array
from ...problem.constants import SYMBOLS, Constants

__all__ = ["PROVEN", "VERIFIED", "Fact", "Facts"]

PROVEN, VERIFIED = "proven", "verified exactly"
"""Derived for all decisions; or evaluated at a decision, in all rounds."""
UPPER = (
    "loss_lipschitz",
    "constraint_lipschitz",
    "loss_range",
    "constraint_range",
    "constraint_smoothness",
    "half_spaces",
)
"""Constants that are stronger the smaller they are."""
LOWER = ("strong_convexity", "slater", "error_bound")
"""Constants that are stronger the larger they are."""


NEARLY = 1e-5
"""A stated constant that is stronger than a fact by less than this, relatively, is that fact: facts
leave room for rounding."""


@dataclass(frozen=True)
class Fact:
    """One number that is certain, and why."""

    value: float
    kind: str
    """`PROVEN` or `VERIFIED`."""
    source: str
    """How it was found, as a part of a sentence."""


@dataclass(frozen=True, repr=False)
class Facts(Displayed):
    """What is proven of a problem and its data; None where nothing is.

    Fields with the name of a constant hold for that constant (see `taut.Constants`).
    """

    convex_losses: Fact | None = None
    """1, if all losses are proven to be convex."""
    convex_constraints: Fact | None = None
    """1, if all constraints are."""
    loss_lipschitz: Fact | None = None
    loss_range: Fact | None = None
    strong_convexity: Fact | None = None
    constraint_lipschitz: Fact | None = None
    constraint_range: Fact | None = None
    constraint_smoothness: Fact | None = None
    slater: Fact | None = None
    slater_point: Array | None = None
    """The decision that has this room."""
    error_bound: Fact | None = None
    half_spaces: Fact | None = None
    """M: the constraints of all rounds are maxima of so many different affine functions, so
    gradients reveal at most M different half-spaces."""

    def strengthened(self, given: Constants) -> Constants:
        """The constants, with each one that is unknown, estimated or weaker than a fact replaced by
        the fact."""
        better: dict[str, Any] = {}
        for name in (*UPPER, *LOWER):
            fact, stated = getattr(self, name, None), getattr(given, name)
            if fact is None or (fact.value == 0 and name != "constraint_smoothness"):
                continue  # theorems are about functions that are not constant
            unknown = stated is None or name in given.estimated
            room = NEARLY * fact.value
            stronger = not unknown and (
                fact.value <= stated + room if name in UPPER else fact.value >= stated - room
            )
            if unknown or stronger:
                better[name] = int(fact.value) if name == "half_spaces" else fact.value
        return given.with_values(exact=True, **better) if better else given

    def proof(self, name: str, constants: Constants) -> Fact | None:
        """The fact that the value of a constant is; None if it is something else."""
        fact: Fact | None = getattr(self, name, None)
        return fact if fact is not None and getattr(constants, name) == fact.value else None

    def to_dict(self) -> dict[str, Any]:
        """All facts as JSON-able values."""
        found: dict[str, Any] = {}
        for field in fields(self):
            fact = getattr(self, field.name)
            if isinstance(fact, Fact):
                entry = {"value": fact.value, "kind": fact.kind, "source": fact.source}
                found[field.name] = entry
            elif fact is not None:
                found[field.name] = np.asarray(fact).tolist()
        return found

    def _summary(self) -> Summary:
        lines = []
        for field in fields(self):
            fact = getattr(self, field.name)
            if not isinstance(fact, Fact):
                continue
            symbol = SYMBOLS.get(field.name)
            text = f"{symbol} = {number(fact.value)}, " if symbol else f"{number(fact.value)}, "
            text = "" if field.name.startswith("convex") else text
            lines.append((field.name.replace("_", " "), f"{text}{fact.kind}: {fact.source}"))
        return Summary("Facts" if lines else "Facts: none could be proven", lines)
