"""Means over seeds with their confidence intervals, and differences between learners on the same
seeds."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ..engine import Array

SAME = 1e-12
"""Relative half-width up to which an interval is rounding: all seeds have the same value."""
SIGNS = 6
"""Seeds from which on winning in all of them is significant: 2 (1/2)^6 < 5 %."""


@dataclass(frozen=True)
class Interval:
    """A mean over seeds with its 95 % confidence interval (Student's t); with one seed the interval
    is unknown."""

    mean: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Array) -> Interval:
        """Return the interval of the values of independent seeds."""
        values = np.asarray(values, float).ravel()
        mean = float(np.mean(values))
        half = half_width(values) if len(values) > 1 else np.nan
        return cls(mean, mean - half, mean + half)

    def __str__(self) -> str:
        if np.isnan(self.low):
            return f"{self.mean:.4g}"
        half = self.high - self.mean
        if half <= SAME * abs(self.mean):
            half = 0.0
        if half >= 1e-5 and abs(self.mean) < 1e6:  # as many decimals as the interval has
            decimals = max(0, 1 - math.floor(math.log10(half)))
            return f"{self.mean:.{decimals}f} ± {half:.{decimals}f}"
        return f"{self.mean:.4g} ± {half:.2g}"


def half_width(values: Array) -> float:
    """Return half the 95 % confidence interval of a mean; infinite with one value."""
    if len(values) < 2:
        return math.inf
    from scipy.special import stdtrit  # Student's t; scipy.stats takes long to load

    spread = np.std(values, ddof=1) / math.sqrt(len(values))
    return float(stdtrit(len(values) - 1, 0.975) * spread)


def difference(first: Array, second: Array) -> Interval:
    """Return the interval of `second - first`, for values of the same seeds."""
    return Interval.of(_differences(first, second))


def wins(first: Array, second: Array) -> tuple[int, int]:
    """Return in how many seeds the first value is smaller, and the number of seeds."""
    apart = _differences(first, second)
    return int(np.sum(apart > 0)), len(apart)


def _differences(first: Array, second: Array) -> Array:
    """`second - first`, seed by seed. What rounding can make of equal values counts as 0."""
    count = min(len(first), len(second))
    a, b = np.asarray(first, float)[:count], np.asarray(second, float)[:count]
    apart = np.abs(b - a) > SAME * np.maximum(np.abs(a), np.abs(b))
    return np.where(apart, b - a, 0.0)


def clear_winner(values: Mapping[str, Array]) -> str | None:
    """Return the label with the smallest mean, if it is clear; values are those of the same seeds.

    It is clear if the 95 % interval of each difference to another label lies above 0, or if the
    label wins in every one of at least 6 seeds. One seed says nothing about chance.
    """
    if not values or min(map(len, values.values())) < 2:
        return None
    first = min(values, key=lambda label: float(np.mean(values[label])))

    def beats(other: str) -> bool:
        won, count = wins(values[first], values[other])
        apart = difference(values[first], values[other]).low > 0
        return bool(apart) or won == count >= SIGNS

    return first if all(beats(other) for other in values if other != first) else None
