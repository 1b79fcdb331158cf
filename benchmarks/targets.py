"""The targets of the suite: what was measured in one run, the limit, and whether it is met."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from . import cases
from .observation import FUNCTIONS, MICROSECONDS

OPTAX, CLOSE, FEW = 1.5, 1.1, 3
"""No cell (a problem with one stream or 10 seeds, and a learner) takes more than the first times as
long as optax in a scan, and at most a few take more than the second."""
LEARNERS = {"contenders": "Clipped-OGD", "half-space": "half-space"}


def judge(found: dict[str, Any]) -> list[dict[str, Any]]:
    """Return one row per target of which the run has the measurements."""
    rows: list[dict[str, Any]] = []

    def add(what: str, value: float, limit: float, unit: str, below: bool = True) -> None:
        met = value <= limit if below else value >= limit
        rows.append(
            {
                "what": what,
                "value": value,
                "limit": limit,
                "below": below,
                "unit": unit,
                "met": bool(met),
            }
        )

    contenders = found["contenders"]
    ratios = dict(_against_optax(found))
    for cell, ratio in ratios.items():
        add(cell, ratio, OPTAX, "x optax")
    slower = sum(ratio > CLOSE for ratio in ratios.values())
    add(f"cells above {CLOSE} times optax, of {len(ratios)}", slower, FEW, "cells")
    for row in found.get("live", ()):
        what = f"Player.observe, {row['problem']}"
        add(f"{what}, functions entered", row["functions"], FUNCTIONS, "functions")
        if row["problem"] == "toy":
            add(f"{what}, time", row["least"], MICROSECONDS, "us")
    sizes = {
        case.name: case.size**2 if case.kind == "doubly_stochastic" else case.size
        for case in cases.suite()
    }
    for problem, table in contenders.items():
        if sizes[problem] <= 100:
            faster = table["NumPy"]["median"] / table["taut, one stream"]["median"]
            add(f"{problem}, one stream, against naive NumPy", faster, 50, "x faster", below=False)
    for name, row in found.get("threads", {}).items():
        add(
            f"second core, 20 runs: {name}",
            row["faster"] / row["C faster"],
            0.95,
            "of C's gain",
            below=False,
        )
    for name, row in found.get("float32", {}).items():
        add(f"{name}, 32 bits", row["float32"]["median"] / row["float64"]["median"], 1, "x 64 bits")
    for name, row in found.get("records", {}).items():
        ratio = row["metrics"]["median"] / row["totals"]["median"]
        add(f"{name}, 10 seeds, all metrics recorded against totals only", ratio, 1.5, "x")
    compiled = {
        name: row for name, row in found.get("startup", {}).items() if name != "import taut"
    }
    if compiled:
        slowest = max(compiled, key=lambda name: compiled[name]["compile"])
        add(f"compilation, slowest ({slowest})", compiled[slowest]["compile"], 1, "s")
        slowest = max(compiled, key=lambda name: compiled[name]["from the cache"])
        add(
            f"second process with the cache, slowest ({slowest})",
            compiled[slowest]["from the cache"],
            0.3,
            "s",
        )
    return rows


def _against_optax(found: dict[str, Any]) -> Iterator[tuple[str, float]]:
    """Yield the name of each cell and its ratio to optax."""
    for table, learner in LEARNERS.items():
        for problem, rows in found.get(table, {}).items():
            for ours, theirs in (
                ("one stream", "optax in a scan"),
                ("10 seeds", "optax in a scan, 10 seeds"),
            ):
                ratio = rows[f"taut, {ours}"]["median"] / rows[theirs]["median"]
                yield f"{problem}, {ours}, {learner}", ratio
