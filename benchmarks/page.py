"""Write results into docs/performance.md and other pages, so that no number there is typed by hand.

Run: python -m benchmarks.page, which measures everything that the page shows.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from . import setting
from .results import cell
from .sections import Section, sections

PAGE = setting.ROOT / "docs" / "performance.md"
PARTS = ("passes", "speed", "limits", "cold")
"""The parts of the suite that write into the page."""


def main() -> None:
    """Run all parts that write into the page, each in a process of its own."""
    for part in PARTS:
        print(f"# {part}", file=sys.stderr)
        command = [sys.executable, "-m", f"benchmarks.{part}", "--page"]
        subprocess.run(command, cwd=setting.ROOT, check=True)


def write(found: dict[str, Any]) -> None:
    """Write the results of `benchmarks.speed`; `python -m website.figures speed benchmark` then
    draws its figures."""
    head = (
        f"{written_by('speed', found['machine'])} Each value is the median of {found['repeats']} "
        "samples; "
    )
    head += "the implementations were timed alternately."
    put("measured", "\n\n".join([head, *map(markdown, sections(found))]))


def put(name: str, text: str, page: Path | None = None) -> None:
    """Replace the text between the two marks of this name, by default in docs/performance.md."""
    page = PAGE if page is None else page
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    before = page.read_text()
    if begin not in before:
        raise SystemExit(f"{page.name}: expected the mark {begin}")
    page.write_text(
        re.sub(f"{begin}.*{end}", lambda _: f"{begin}\n{text}\n{end}", before, flags=re.DOTALL)
    )


def written_by(part: str, machine: dict[str, str]) -> str:
    """Return a sentence with the command and the machine."""
    machine = dict(machine)
    processor, system = machine.pop("processor"), machine.pop("system")
    rest = ", ".join(f"{key} {value}" for key, value in machine.items())
    return f"Written by `python -m benchmarks.{part} --page` on {processor} ({system}; {rest})."


def table(title: str, rows: list[dict[str, Any]]) -> str:
    """Return rows, as `results.report` prints them, as text."""
    return markdown(Section(title, list(rows[0]), [list(map(cell, row.values())) for row in rows]))


def markdown(section: Section) -> str:
    """Return a section as text."""
    lines = [section.head, ["---"] * len(section.head), *section.rows]
    table = "\n".join(
        f"| {' | '.join('**no**' if cell == 'NO' else cell for cell in cells)} |" for cells in lines
    )
    return "\n\n".join(part for part in (f"### {section.title}", table, section.note) if part)


if __name__ == "__main__":
    main()
