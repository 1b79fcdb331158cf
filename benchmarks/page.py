"""A run of the suite as the measured part of docs/performance.md, and its figure: no number there is typed by hand."""

from __future__ import annotations

import re
from typing import Any

from . import setting
from .figure import draw

PAGE = setting.ROOT / "docs" / "performance.md"
BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"
ROWS = (
    "C", "taut, one stream", "taut, 10 seeds", "taut, 100 seeds", "Numba", "optax in a scan",
    "optax in a scan, 10 seeds", "NumPy", "NumPy, 10 seeds in one array", "NumPy, 100 seeds in one array",
    "CVXPY, a projection a round", "cooper", "PyOL",
)  # fmt: skip


def write(found: dict[str, Any]) -> None:
    """Replace what stands between the two marks, and draw docs/benchmark.png."""
    draw(found).savefig(setting.ROOT / "docs" / "benchmark.png", dpi=110)
    text = PAGE.read_text()
    middle = "\n\n".join(_sections(found))
    replaced = re.sub(f"{BEGIN}.*{END}", lambda _: f"{BEGIN}\n{middle}\n{END}", text, flags=re.DOTALL)
    PAGE.write_text(replaced)


def _sections(found: dict[str, Any]) -> list[str]:
    machine = ", ".join(
        f"{key} {value}" for key, value in found["machine"].items() if key not in ("system", "processor")
    )
    head = (
        f"Written by `python -m benchmarks.speed --page` on {found['machine']['processor']} "
        f"({found['machine']['system']}; {machine}). Medians of {found['repeats']}, contenders taking turns."
    )
    return [
        head, "### Targets", _targets(found["targets"]), "### Nanoseconds a round", _contenders(found["contenders"]),
        "### Where the time goes", _profile(found["profile"]), "### Two cores", _threads(found["threads"]),
        "### What recording costs", _records(found["records"]), "### 32 bits", _float32(found["float32"]),
        "### Memory", _memory(found["memory"]), "### Growth", _scaling(found["scaling"]),
        "### First calls", _startup(found["startup"]),
    ]  # fmt: skip


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _targets(targets: list[dict[str, Any]]) -> str:
    return _table(
        ["what", "measured", "wanted", "met"],
        [
            [
                row["what"], f"{row['value']:.2f} {row['unit']}",
                f"{'at most' if row['below'] else 'at least'} {row['limit']:g}", "yes" if row["met"] else "**no**",
            ]
            for row in targets
        ],
    )  # fmt: skip


def _contenders(contenders: dict[str, Any]) -> str:
    rows = []
    for name in ROWS:
        cells = []
        for table in contenders.values():
            row = table.get(name, {})
            cells.append(f"{_short(row['median'])} ({_short(row['ratio'])}x)" if "median" in row else "")
        if any(cells):
            rows.append([name, *cells])
    note = "In brackets: times C, one stream against one and seeds against seeds."
    return _table(["", *contenders], rows) + "\n\n" + note


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def _profile(profile: list[dict[str, Any]]) -> str:
    rows = [
        [
            row["problem"], str(row["seeds"]), f"{1e6 * row['call']:.0f}", _short(1e9 * row["round"]),
            f"{row['ratio']:.2f}", str(row["operations"]), str(row["passes"]),
        ]
        for row in profile
    ]  # fmt: skip
    head = ["problem", "seeds", "a call of one round, us", "a further round, ns", "times C", "operations", "passes"]
    return _table(head, rows)


def _threads(threads: dict[str, Any]) -> str:
    rows = [[name, f"{row['faster']:.2f}x", f"{row['C faster']:.2f}x"] for name, row in threads.items()]
    return _table(["20 runs in two threads over one", "taut", "hand-written C"], rows)


def _records(records: dict[str, Any]) -> str:
    rows = [
        [name, *(_short(row[key]["median"]) for key in ("totals", "metrics", "everything"))]
        for name, row in records.items()
    ]
    return _table(["10 seeds, ns a round", "totals only", "all metrics", "decisions and multipliers too"], rows)


def _float32(found: dict[str, Any]) -> str:
    rows = [[name, _short(row["float64"]["median"]), _short(row["float32"]["median"])] for name, row in found.items()]
    return _table(["ns a round", "64 bits", "32 bits"], rows)


def _memory(memory: list[dict[str, Any]]) -> str:
    rows = [
        [f"{row['rounds']:,}", row["recorded"], f"{row['seconds']:.2f}", f"{row['bytes'] / 1e6:.0f}"] for row in memory
    ]
    return _table(["rounds, toy", "recorded", "seconds", "peak memory of the process, MB"], rows)


def _scaling(scaling: dict[str, Any]) -> str:
    rows = [
        [
            row["what"],
            f"{row['sizes'][0]:,} to {row['sizes'][-1]:,}",
            *(f"{row['exponents'][n]:.2f}" for n in ("taut", "C")),
        ]
        for row in scaling.values()
    ]
    return _table(["sweep", "sizes", "exponent of taut", "exponent of C"], rows)


def _startup(startup: dict[str, Any]) -> str:
    rows = [[name, f"{row['compile']:.2f}", f"{row['from the cache']:.2f}"] for name, row in startup.items()]
    return _table(["", "first start, s", "second start, from the cache, s"], rows)
