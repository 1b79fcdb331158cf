"""The gallery: one card per example, with its picture and what it teaches.

Run: python -m website.gallery [name ...] draws the pictures of docs/gallery/.
"""

from __future__ import annotations

import html
import importlib.util
import sys
from pathlib import Path
from typing import NamedTuple

__all__ = ["ENTRIES", "cards", "names", "page"]

ROOT = Path(__file__).parent.parent
PICTURES = ROOT / "docs" / "gallery"
WIDTH = 900
"""Pixels of a stored picture, which keeps each of them below 200 kB."""


class Entry(NamedTuple):
    """An example: its file below `examples`, its title, and what it teaches."""

    file: str
    title: str
    teaches: str
    ending: str = ".png"
    """That of its picture; ".gif" is an animation."""


ENTRIES = (
    Entry(
        "the_line.py",
        "The line",
        "Three earlier methods exceed an emission cap; the default lies on it.",
    ),
    Entry(
        "break_it.py",
        "Break it",
        "An adversary shows the most violated of 64 half-spaces. The default, with a memory of "
        "64, stops violating. A slot for your method.",
    ),
    Entry(
        "battery_live.py",
        "A battery, live",
        "Ramps, a state of charge and prices in 40 lines of CVXPY, round by round.",
        ".gif",
    ),
    Entry(
        "dispatch.py",
        "Economic dispatch",
        "A cap that must hold every five minutes, written in CVXPY.",
    ),
    Entry(
        "ad_budget.py",
        "An advertising budget",
        "A spending limit whose prices are known only afterwards.",
    ),
    Entry(
        "portfolio.py",
        "A portfolio near its index",
        "A constraint that changes every day, and one that does not.",
    ),
    Entry(
        "ramps.py", "Ramp limits", "Constraints that are known before the decision hold exactly."
    ),
    Entry("battery.py", "Battery arbitrage", "Costs that depend on the previous decision."),
    Entry("conversions.py", "Late conversions", "What was sold is known days later: delays."),
    Entry("prices.py", "Prices from sales", "Only values are observed, no gradients."),
    Entry(
        "fairness.py", "A fair classifier", "A limit that is measured on batches of 16 rows: noise."
    ),
    Entry(
        "coverage.py",
        "Conformal prediction",
        "Intervals that cover 90 % of a drifting series, with a certificate.",
    ),
    Entry(
        "microgrid/microgrid.py",
        "A microgrid and its controller",
        "Your own controller is believed until it breaks; the learner takes over.",
    ),
    Entry(
        "pacing/pacing.py", "40,000 budgets", "A fleet: thousands of players in one compiled step."
    ),
)


def picture(entry: Entry) -> Path:
    """Return where the picture of an example is stored."""
    return PICTURES / f"{Path(entry.file).stem}{entry.ending}"


def names() -> list[str]:
    """Return the names of the pages of all examples."""
    return [Path(entry.file).stem for entry in ENTRIES]


def cards() -> str:
    """Return the cards as HTML; each links to the source of its example."""
    parts = ['<div class="gallery">']
    for entry in ENTRIES:
        name = picture(entry).name
        image = (
            f'<img src="{name}" alt="Picture of the example: {html.escape(entry.title)}" '
            'loading="lazy">'
            if picture(entry).is_file()
            else ""
        )
        parts.append(
            f'<a class="card" href="{Path(entry.file).stem}/">{image}<strong>{html.escape(entry.title)}'
            f"</strong><span>{html.escape(entry.teaches)}</span></a>"
        )
    return "\n".join([*parts, "</div>"]) + "\n"


def page(entry: Entry) -> str:
    """Return the page of an example: what it teaches, its picture and its source."""
    source = (ROOT / "examples" / entry.file).read_text()
    shown = (
        f"![{entry.title}]({picture(entry).name}){{ .wide }}" if picture(entry).is_file() else ""
    )
    return "\n\n".join(
        [
            f"# {entry.title}",
            entry.teaches,
            shown,
            f"Run it with `python examples/{entry.file}`.",
            f"```py\n{source.rstrip()}\n```",
        ]
    )


def draw(entry: Entry) -> Path:
    """Run an example and store its picture."""
    from PIL import Image

    path = ROOT / "examples" / entry.file
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    PICTURES.mkdir(exist_ok=True)
    stored = picture(entry)
    example.main(stored)
    if entry.ending == ".gif":
        return stored
    with Image.open(stored) as drawn:
        drawn.load()
        drawn.thumbnail((WIDTH, 2 * WIDTH))
        drawn.convert("P", palette=Image.Palette.ADAPTIVE).save(stored, optimize=True)
    return stored


def main(names: list[str]) -> None:
    """Draw the named pictures, or all of them."""
    for entry in ENTRIES:
        if not names or Path(entry.file).stem in names:
            stored = draw(entry)
            print(f"{stored.relative_to(ROOT)}: {stored.stat().st_size // 1024} kB")


if __name__ == "__main__":
    main(sys.argv[1:])
