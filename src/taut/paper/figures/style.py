"""How the contestants of the paper's experiments are drawn, and what they are called.

The hue shows the family, line and marker the trade-off beta; a lighter tint with hollow markers is the scale-aware rule.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from ...play.style import FAMILIES

__all__ = ["Look", "fraction", "look", "shades"]


@dataclass(frozen=True)
class Look:
    """How one learner is drawn."""

    colour: str
    line: str | tuple[float, tuple[float, ...]]
    marker: str
    hollow: bool

    def options(self, markers: bool = True) -> dict[str, Any]:
        """Keyword arguments for `Axes.plot`."""
        found: dict[str, Any] = {"color": self.colour, "linestyle": self.line}
        if markers:
            found |= {"marker": self.marker, "markerfacecolor": "white" if self.hollow else self.colour}
        return found


def look(name: str) -> Look:
    """The look of a contestant by its name, such as `clipped-half` or `a-ogd-strong-two-thirds`."""
    beta = next((part for part in ("half", "two-thirds") if name.endswith(part)), "")
    family = name.removesuffix(f"-{beta}") if beta else name
    marker = {"half": "o", "two-thirds": "^"}.get(beta, "s")
    line: str | tuple[float, tuple[float, ...]] = (0, (4.5, 1.4)) if beta == "two-thirds" else "-"
    return Look(FAMILIES.get(family, FAMILIES["other"]), line, marker, family in ("scaled", "strong-scaled"))


def shades(family: str, count: int) -> list[tuple[float, float, float]]:
    """`count` shades of a family's colour, light to dark: for a grid of trade-offs."""
    from matplotlib.colors import to_rgb

    base = np.asarray(to_rgb(FAMILIES[family]))
    steps = np.linspace(-0.55, 0.55, count) if count > 1 else np.zeros(1)
    found = [base + (1 - base) * -s if s < 0 else base * (1 - s) for s in steps]
    return [(float(c[0]), float(c[1]), float(c[2])) for c in found]


def fraction(beta: float) -> str:
    """1/4 for 0.25."""
    return str(Fraction(beta).limit_denominator(12))
