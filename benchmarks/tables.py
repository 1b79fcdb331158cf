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
    if "profile" in found:
        head = ("problem", "seeds", "call, us", "further round, ns", "times C", "operations", "passes")
        table = Table(*head, title="where the time goes")
        for row in found["profile"]:
            numbers = (f"{1e6 * row['call']:.0f}", f"{1e9 * row['round']:.1f}", f"{row['ratio']:.2f}")
            table.add_row(row["problem"], str(row["seeds"]), *numbers, str(row["operations"]), str(row["passes"]))
        console.print(table)
    if "memory" in found:
        table = Table("rounds, toy", "recorded", "seconds", "peak memory, MB", title="long games")
        for row in found["memory"]:
            table.add_row(f"{row['rounds']:,}", row["recorded"], f"{row['seconds']:.2f}", f"{row['bytes'] / 1e6:.0f}")
        console.print(table)
    if "threads" in found:
        table = Table("20 runs", "taut, faster by", "C, faster by", title="two threads over one")
        for name, row in found["threads"].items():
            table.add_row(name, f"{row['faster']:.2f}", f"{row['C faster']:.2f}")
        console.print(table)
    if "float32" in found:
        table = Table("ns a round", "64 bits", "32 bits", title="32 bits")
        for name, row in found["float32"].items():
            table.add_row(name, *(f"{row[key]['median']:.1f}" for key in ("float64", "float32")))
        console.print(table)
    table = Table("target", "measured", "wanted", "met", title=f"targets: medians of {found['repeats']}, one run")
    for row in found["targets"]:
        word = "at most" if row["below"] else "at least"
        table.add_row(
            row["what"], f"{row['value']:.2f} {row['unit']}", f"{word} {row['limit']:g}", "yes" if row["met"] else "NO"
        )
    console.print(table)
