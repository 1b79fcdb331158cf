"""Print the results of the suite in the terminal."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rich.console import Console
from rich.table import Table

from .sections import Section, sections


def show(found: dict[str, Any]) -> None:
    """Print all measurements. Tables that are too wide are split."""
    machine = ", ".join(f"{key}: {value}" for key, value in found["machine"].items())
    Console(width=150).print(machine)
    print_sections(sections(found))


def print_sections(shown: Iterable[Section]) -> None:
    """Print sections."""
    console = Console(width=150)
    for section in shown:
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
