"""Bounds of entries that follow from linear rows and the bounds of other entries: interval
propagation."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...engine import Array

__all__ = ["Row", "propagated"]

PASSES = 20
"""Turns over all rows; each can only make bounds tighter."""
GAIN = 1e-6
"""A bound that becomes tighter by less than this, relatively, starts no further turn."""


class Row(NamedTuple):
    """<factors, x[places]> at most `value`, or equal to it. `source` says which row of the model it
    is."""

    source: tuple[int, int]
    places: Array
    factors: Array
    value: float
    equality: bool

    def cut(self, low: Array, high: Array) -> tuple[Array, Array]:
        """Bounds cut by a row with a single entry."""
        i, factor = int(self.places[0]), float(self.factors[0])
        edge = self.value / factor
        if factor > 0 or self.equality:
            high[i] = min(high[i], edge)
        if factor < 0 or self.equality:
            low[i] = max(low[i], edge)
        return low, high


def propagated(rows: list[Row], low: Array, high: Array) -> tuple[Array, Array]:
    """The bounds, made finite and tighter where the rows imply it.

    In <a, x> <= b every entry is bounded by what the others leave: a_i x_i <= b - min over x of the
    rest.
    """
    low, high = low.copy(), high.copy()
    for turn in range(PASSES):
        changed = False
        for row in (
            rows if turn % 2 == 0 else rows[::-1]
        ):  # both ways, so that chains need few turns
            for sign in (1.0, -1.0) if row.equality else (1.0,):
                changed |= _pass(row.places, sign * row.factors, sign * row.value, low, high)
        if not changed:
            break
    return low, high


def _pass(places: Array, factors: Array, value: float, low: Array, high: Array) -> bool:
    least = np.where(factors > 0, factors * low[places], factors * high[places])
    unbounded = ~np.isfinite(least)
    missing = int(unbounded.sum())
    if missing > 1:
        return False
    total = float(least[~unbounded].sum())
    # Entries but the unbounded one, if there is one, are bounded by nothing.
    which = np.flatnonzero(unbounded) if missing else np.arange(len(places))
    rest = total - np.where(unbounded[which], 0.0, least[which])
    edges = (value - rest) / factors[which]
    where, upper = places[which], factors[which] > 0
    edges = _outwards(
        edges, upper, np.abs(value) + np.abs(least[~unbounded]).sum(), np.abs(factors[which])
    )
    new_high = np.where(upper, np.minimum(high[where], edges), high[where])
    new_low = np.where(upper, low[where], np.maximum(low[where], edges))
    before = np.where(upper, high[where], low[where])
    after = np.where(upper, new_high, new_low)
    clearly = (after != before) & ~(np.abs(after - before) <= GAIN * (1 + np.abs(after)))
    low[where], high[where] = (
        np.where(clearly, new_low, low[where]),
        np.where(clearly, new_high, high[where]),
    )
    return bool(np.any(clearly))


def _outwards(edges: Array, upper: Array, size: float, factors: Array) -> Array:
    """Edges moved outwards by the rounding of a sum of numbers of this `size`, or to a short
    decimal within it."""
    room = 1e-14 * (size / factors + np.abs(edges))
    with np.errstate(divide="ignore"):
        unit = 10.0 ** np.ceil(np.log10(np.maximum(100 * room, 1e-300)))
    short = np.round(edges / unit) * unit
    digits = np.array([round(float(one), 12) for one in short])
    short = np.where(np.abs(digits - edges) <= room, digits, short)
    return np.where(
        np.abs(short - edges) <= room, short, np.where(upper, edges + room, edges - room)
    )
