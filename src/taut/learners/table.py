"""The registry as README's table: `python -m taut.learners.table README.md` writes it between its two marks."""

from __future__ import annotations

import sys
from pathlib import Path

from . import LEARNERS

__all__ = ["BEGIN", "END", "inserted", "markdown"]

BEGIN, END = "<!-- learners: begin -->", "<!-- learners: end -->"


def markdown() -> str:
    """One row a method."""
    head = "| learner | losses | regret | violation | a round costs | horizon | reference |\n" + "|---" * 7 + "|\n"
    rows = [
        f"| `{m.name}` | {m.losses} | {m.regret} | {m.violation} | {m.cost} | {'needed' if m.needs_horizon else 'no'} "
        f"| {m.reference} |"
        for m in LEARNERS.values()
    ]
    return head + "\n".join(rows) + "\n"


def inserted(text: str) -> str:
    """`text` with the table between the marks renewed."""
    before, rest = text.split(BEGIN)
    return f"{before}{BEGIN}\n{markdown()}{END}{rest.split(END)[1]}"


if __name__ == "__main__":
    path = Path(sys.argv[1])
    path.write_text(inserted(path.read_text()))
