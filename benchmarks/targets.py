"""The targets of the suite: what was measured in one run, the limit, and whether it is met."""

from __future__ import annotations

from typing import Any

from . import cases

OPTAX = 1.1
"""The largest allowed ratio to optax in a scan, on every problem, with one stream and with 10
seeds."""

C = (
    ("toy", "taut, one stream", 3.5),
    ("toy", "taut, 10 seeds", 1.5),
    ("toy", "taut, 100 seeds", 1.3),
    ("doubly stochastic 10x10", "taut, one stream", 2),
    ("doubly stochastic 10x10", "taut, 10 seeds", 2),
    ("dispatch", "taut, one stream", 5),
    ("dispatch", "taut, 10 seeds", 2),
    ("logistic d=1000 m=1", "taut, one stream", 1.5),
    ("logistic d=1000 m=20", "taut, one stream", 1.5),
    ("polyhedron d=100 m=1000", "taut, one stream", 1.5),
)
"""Problem, row, and the largest allowed ratio to C."""

CALL = {("toy", 1): 150, ("toy", 10): 200}
"""Problem, seeds, and the largest allowed time of a call with one round, in microseconds."""


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
    for problem, table in contenders.items():
        for ours, theirs in (
            ("one stream", "optax in a scan"),
            ("10 seeds", "optax in a scan, 10 seeds"),
        ):
            add(
                f"{problem}, {ours}",
                table[f"taut, {ours}"]["median"] / table[theirs]["median"],
                OPTAX,
                "x optax",
            )
    for problem, row, limit in C:
        if row in contenders.get(problem, {}):
            add(
                f"{problem}, {row.removeprefix('taut, ')}",
                contenders[problem][row]["ratio"],
                limit,
                "x C",
            )
    large = contenders.get("logistic d=1000 m=1")
    if large:
        seeds = large["taut, 10 seeds"]["median"] / large["taut, one stream"]["median"]
        add("logistic d=1000 m=1, each of 10 seeds", seeds, 1.05, "x one stream")
    for row in found.get("profile", ()):
        limit = CALL.get((row["problem"], row["seeds"]))
        if limit:
            add(
                f"{row['problem']}, {_seeds(row['seeds'])}, a call with one round",
                1e6 * row["call"],
                limit,
                "us",
            )
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


def _seeds(count: int) -> str:
    return "one seed" if count == 1 else f"{count} seeds"
