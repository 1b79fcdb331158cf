"""Print the results of the suite in the terminal."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.table import Table

from .sections import Section, sections


def show(found: dict[str, Any]) -> None:
    """Print all measurements. Tables that are too wide are split."""
    console = Console(width=150)
    console.print(", ".join(f"{key}: {value}" for key, value in found["machine"].items()))
    for section in sections(found):
        for head, rows in _columns(section):
            table = Table(*head, title=section.title, title_justify="left")
            for row in rows:
                table.add_row(*row)
            console.print(table)
        if section.note:
            console.print(section.note)


def _columns(section: Section, most: int = 7) -> list[tuple[list[str], list[list[str]]]]:
    """Split a wide table into several, each with the first column."""
    starts = range(1, len(section.head), most - 1)
    cuts = [[0, *range(start, min(start + most - 1, len(section.head)))] for start in starts]
    return [
        ([section.head[k] for k in cut], [[row[k] for k in cut] for row in section.rows])
        for cut in cuts
    ]
