"""Write the results of a run into docs/performance.md and draw its figure, so that no number there is typed by hand."""

from __future__ import annotations

import re
from typing import Any

from . import setting
from .figure import draw
from .sections import Section, sections

PAGE = setting.ROOT / "docs" / "performance.md"
BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"


def write(found: dict[str, Any]) -> None:
    """Replace the text between the two marks and draw docs/benchmark.png."""
    draw(found).savefig(setting.ROOT / "docs" / "benchmark.png", dpi=110)
    middle = "\n\n".join([_head(found), *map(_markdown, sections(found))])
    text = re.sub(f"{BEGIN}.*{END}", lambda _: f"{BEGIN}\n{middle}\n{END}", PAGE.read_text(), flags=re.DOTALL)
    PAGE.write_text(text)


def _head(found: dict[str, Any]) -> str:
    machine = dict(found["machine"])
    processor, system = machine.pop("processor"), machine.pop("system")
    rest = ", ".join(f"{key} {value}" for key, value in machine.items())
    return (
        f"Written by `python -m benchmarks.speed --page` on {processor} ({system}; {rest}). "
        f"Each value is the median of {found['repeats']} samples; the implementations were timed alternately."
    )


def _markdown(section: Section) -> str:
    lines = [section.head, ["---"] * len(section.head), *section.rows]
    table = "\n".join(f"| {' | '.join('**no**' if cell == 'NO' else cell for cell in cells)} |" for cells in lines)
    return "\n\n".join(part for part in (f"### {section.title}", table, section.note) if part)
