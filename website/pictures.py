"""Figures in pages: one for wide screens and one for narrow screens, or a figure that scrolls."""

from __future__ import annotations

import html

__all__ = ["adaptive", "shown"]

WIDE = 5.5
"""Figures that are wider, in inches, scroll on a narrow screen, where their labels would be too
small."""


def adaptive(wide: str, narrow: str, text: str) -> str:
    """Return HTML that shows one file on a wide screen and another one on a narrow screen.
    Addresses are relative to the page."""
    source = f'<source media="(max-width: 600px)" srcset="{narrow}">'
    return f'<picture>{source}<img src="{wide}" alt="{html.escape(text)}"></picture>'


def shown(name: str, text: str, inches: float) -> str:
    """Return Markdown for a figure of this width in inches: as large as in a notebook, and wide
    ones scroll."""
    kind = ".wide" if inches > WIDE else f'width="{round(100 * inches)}"'
    return f"![{text}]({name}){{ {kind} }}"
