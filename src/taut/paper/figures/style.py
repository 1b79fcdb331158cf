"""How the contestants of the paper's experiments are drawn.

The colour shows the family of learners; line style and marker show beta. The scale-aware rule has a
lighter colour and hollow markers.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from ...plots.families import FAMILIES as _FAMILIES

_CLIPPED = next(family.colour for family in _FAMILIES if family.name == "clipped-ogd")
CONTESTANTS = {
    "ogd": "#4D4D4D",
    "a-ogd": "#969696",
    "a-ogd-strong": "#C4C4C4",
    "clipped": _CLIPPED,
    "scaled": "#56B4E9",
    "strong": "#003A66",
    "strong-scaled": "#A6D8F7",
    "other": "#D55E00",
}
"""Colours of the paper's contestants: grey for saddle-point steps, blue for Clipped-OGD, as in all
figures, in shades that differ in lightness."""


def look(name: str) -> dict[str, Any]:
    """Return colour, line style and marker of a contestant with a name such as `clipped-half` or
    `a-ogd-strong-two-thirds`, as keyword arguments of `Axes.plot`."""
    beta = next((part for part in ("half", "two-thirds") if name.endswith(part)), "")
    family = name.removesuffix(f"-{beta}") if beta else name
    colour = CONTESTANTS.get(family, CONTESTANTS["other"])
    return {
        "color": colour,
        "linestyle": (0, (4.5, 1.4)) if beta == "two-thirds" else "-",
        "marker": {"half": "o", "two-thirds": "^"}.get(beta, "s"),
        "markerfacecolor": "white" if family in ("scaled", "strong-scaled") else colour,
    }


def shades(family: str, count: int) -> list[tuple[float, float, float]]:
    """Return `count` shades of a family's colour from light to dark, one per value of beta."""
    from matplotlib.colors import to_rgb

    base = np.asarray(to_rgb(CONTESTANTS[family]))
    steps = np.linspace(-0.55, 0.55, count) if count > 1 else np.zeros(1)
    colours = [base + (1 - base) * -s if s < 0 else base * (1 - s) for s in steps]
    return [(float(c[0]), float(c[1]), float(c[2])) for c in colours]


def fraction(beta: float) -> str:
    """Format beta as a fraction, for example "1/4" for 0.25."""
    return str(Fraction(beta).limit_denominator(12))
