"""The suite's results as tables."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.table import Table


def show(found: dict[str, Any]) -> None:
    """Print everything that was measured."""
    console = Console(width=150)
    console.print(", ".join(f"{key}: {value}" for key, value in found["machine"].items()))
    for problem, rows in found["contenders"].items():
        table = Table("contender", "ns a round", "from", "to", "times C", "differs by", title=problem)
        for name, row in rows.items():
            if "skipped" in row:
                table.add_row(name, "skipped:", "", "", row["skipped"], "")
                continue
            numbers = (f"{row[key]:,.1f}" for key in ("median", "low", "high"))
            table.add_row(name, *numbers, f"{row['ratio']:,.2f}", f"{row['difference']:.0e}")
        console.print(table)
    if "scaling" in found:
        table = Table("sweep", "sizes", "taut, seconds", "exponent", "C, seconds", "exponent", title="scaling")
        for variable, row in found["scaling"].items():
            cells = []
            for name in ("taut", "C"):
                cells += [" ".join(f"{s:.2g}" for s in row["seconds"][name]), f"{row['exponents'][name]:.2f}"]
            table.add_row(f"{variable}: {row['what']}", " ".join(map(str, row["sizes"])), *cells)
        console.print(table)
    if "startup" in found:
        table = Table("first call", "compile, s", "from the cache, s", title="start-up, fresh processes")
        for name, row in found["startup"].items():
            table.add_row(name, f"{row['compile']:.2f}", f"{row['from the cache']:.2f}")
        console.print(table)
    if "records" in found:
        table = Table("10 seeds", "totals only, ns", "all metrics", "decisions too", title="what recording costs")
        for name, row in found["records"].items():
            table.add_row(name, *(f"{row[key]['median']:.1f}" for key in ("totals", "metrics", "everything")))
        console.print(table)
    table = Table("target", "measured", "wanted", "met", title=f"targets: medians of {found['repeats']}, one run")
    for row in found["targets"]:
        word = "at most" if row["below"] else "at least"
        table.add_row(
            row["what"], f"{row['value']:.2f} {row['unit']}", f"{word} {row['limit']:g}", "yes" if row["met"] else "NO"
        )
    console.print(table)
