"""Growth of the time with rounds, seeds, dimension and constraints for taut and C, with fitted
exponents."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from . import cases, native, ours
from .cases import Case
from .timing import interleaved

SWEEPS: dict[str, tuple[str, Callable[[int], tuple[Case, int]], tuple[int, ...]]] = {
    "T": ("toy, rounds", lambda n: (cases.toy(n), 1), (1000, 10_000, 100_000, 1_000_000)),
    "seeds": ("toy, seeds", lambda n: (cases.toy(5000), n), (1, 3, 10, 30, 100, 300)),
    "d": (
        "logistic m=1, coefficients",
        lambda n: (cases.logistic(n, 1, 1000), 1),
        (10, 30, 100, 300, 1000, 3000),
    ),
    "m": (
        "polyhedron d=100, rows",
        lambda n: (cases.polyhedron(100, n, 400), 1),
        (1, 10, 100, 1000, 4000),
    ),
}


def measure(repeats: int, quick: bool) -> dict[str, dict[str, Any]]:
    """Return for each sweep the sizes, the seconds of taut and C, and the exponent over the larger
    sizes."""
    found = {}
    for variable, (what, make, sizes) in SWEEPS.items():
        chosen = sizes[: 3 if quick else None]
        seconds: dict[str, list[float]] = {"taut": [], "C": []}
        for size in chosen:
            case, seeds = make(size)
            plays = {
                "taut": ours.prepare(case, seeds, case.horizon),
                "C": native.prepare(case, seeds, case.horizon),
            }
            for name, took in interleaved(plays, repeats).items():
                seconds[name].append(took.median)
        upper = slice(len(chosen) // 2 - 1, None)
        exponents = {
            name: float(np.polyfit(np.log(chosen[upper]), np.log(values[upper]), 1)[0])
            for name, values in seconds.items()
        }
        found[variable] = {
            "what": what,
            "sizes": list(chosen),
            "seconds": seconds,
            "exponents": exponents,
        }
    return found
