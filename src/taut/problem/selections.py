"""Intermediate values of a function that is smoothed, and maxima and absolute values that are
written as selections."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["ORDERS", "Value", "selected"]

ORDERS = frozenset(("gt", "ge", "lt", "le"))
"""Primitives of JAX that compare by size."""


@dataclass(frozen=True)
class Value:
    """An intermediate value after smoothing, and what is known of it."""

    array: Any
    decided: bool = False  # depends on the decision
    constant: bool = False  # known while tracing: neither decision nor data
    low: float = -math.inf  # no entry of the exact value is smaller
    gap: Any = (
        None  # distance to the exact value, in widths (True if not measured); None if there is none
    )
    turned: str = (
        ""  # the primitive that made `array` lie below the exact value; empty if it lies above
    )
    origin: tuple[str, tuple[Any, ...]] = (
        "",
        (),
    )  # for comparisons and negation: the primitive and its inputs
    ordered: bool = False  # a condition that compares the decision by size


def _zero(value: Value) -> bool:
    return value.constant and not np.any(np.asarray(value.array))


def _same(one: Value, other: Value) -> bool:
    """Whether two values are certainly equal."""
    if one is other or (one.array is other.array and not one.constant):
        return True
    return (
        one.constant
        and other.constant
        and bool(np.all(np.asarray(one.array) == np.asarray(other.array)))
    )


def _opposite(one: Value, other: Value) -> bool:
    """Whether one of two values certainly is minus the other."""
    return any(
        a.origin[0] == "neg" and _same(a.origin[1][0], b) for a, b in ((one, other), (other, one))
    )


def selected(inputs: Sequence[Value]) -> tuple[str, list[Value]] | None:
    """The maximum, minimum or absolute value that a selection by a comparison computes; None if it
    is none of these."""
    name, sides = inputs[0].origin
    if len(inputs) != 3 or name not in ORDERS:
        return None
    a, b = sides
    above, below = (
        (inputs[2], inputs[1]) if name in {"gt", "ge"} else (inputs[1], inputs[2])
    )  # the results for a > b
    if _same(above, a) and _same(below, b):
        return "max", [a, b]
    if _same(above, b) and _same(below, a):
        return "min", [a, b]
    if not _opposite(above, below) or not (_zero(a) or _zero(b)):
        return None
    u, positive, negative = (
        (a, above, below) if _zero(b) else (b, below, above)
    )  # the results for u > 0 and u < 0
    if _same(positive, u):
        return "abs", [u]
    return ("min", [positive, negative]) if _same(negative, u) else None
