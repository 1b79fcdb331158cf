"""Names of the constraints that are played, from the labels of CVXPY constraints or from what they
say."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from .inequalities import Excess

__all__ = ["label_of", "row_names"]

LONGEST = 48
"""A constraint that takes more letters is named by its position."""


def label_of(constraint: Any, position: int) -> str:
    """Return the label that the user set with `constraint.set_label`, or the constraint as text, or
    its position."""
    label = getattr(constraint, "label", None)
    if label:
        return str(label)
    text = re.sub(r"\s+", " ", str(constraint)).replace(", None, False)", ")")
    text = re.sub(r"(\d)\.0\b", r"\1.", text)
    text = re.sub(r"(\d)\.(?!\d)", r"\1", text)
    return text if len(text) <= LONGEST else f"constraint {position}"


def row_names(excesses: list[Excess]) -> list[str]:
    """Return one name per constraint that is played: entries of an array get an index, an equality
    two names."""
    found: list[str] = []
    for one in excesses:
        shape = one.expression.shape if one.shape is None else one.shape
        places = range(int(np.prod(shape))) if one.places is None else one.places
        indices = [
            ", ".join(str(int(i)) for i in np.unravel_index(place, shape)) if shape else ""
            for place in places
        ]
        rows = [
            f"{one.label}[{index}]" if shape and np.prod(shape) > 1 else one.label
            for index in indices
        ]
        found += [f"{row} (not above)" for row in rows] if one.equality else rows
        found += [f"{row} (not below)" for row in rows] if one.equality else []
    repeated = Counter(found)
    seen: Counter[str] = Counter()
    names = []
    for name in found:
        seen[name] += 1
        names.append(name if repeated[name] == 1 else f"{name} ({seen[name]})")
    return names
