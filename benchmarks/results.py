"""Store the results of a part of the suite in benchmarks/results and print them as a table or as
JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from . import setting

FOLDER = setting.ROOT / "benchmarks" / "results"


def keep(part: str, found: Any) -> None:
    """Write benchmarks/results/<part>.json."""
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / f"{part}.json").write_text(json.dumps(found, indent=1) + "\n")


def report(part: str, rows: Sequence[dict[str, Any]], as_json: bool, title: str) -> None:
    """Store rows together with a description of the machine, and print them."""
    found = {"machine": setting.machine(), "rows": list(rows)}
    keep(part, found)
    if as_json:
        print(json.dumps(found, indent=1))
        return
    from rich.console import Console
    from rich.table import Table

    table = Table(*rows[0], title=title, title_justify="left")
    for row in rows:
        table.add_row(*map(cell, row.values()))
    Console(width=150).print(table)


def cell(value: Any) -> str:
    """Return a value as it is shown in a table."""
    if isinstance(value, bool):
        return "yes" if value else "NO"
    if isinstance(value, float):
        return f"{value:.3g}" if value < 100 else f"{value:,.0f}"
    return f"{value:,}" if isinstance(value, int) else str(value)
