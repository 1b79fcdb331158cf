"""How results print: a title, aligned facts and small tables, as text in a terminal and as HTML in
a notebook."""

from __future__ import annotations

import dataclasses
import html
import re
import shutil
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = [
    "Displayed",
    "Grid",
    "Summary",
    "brief",
    "latex",
    "markdown",
    "markdown_code",
    "number",
    "numbers",
    "rounded",
    "spreadsheet",
    "terminal_width",
]

WIDEST = 60
"""Longer cells of a table are cut in text, so that a row fits a terminal."""
LINE = 100
"""Facts and remarks that are longer, or longer than the terminal is wide, continue on the next
line."""
LINES = 4
"""Facts and remarks take at most so many lines; a large array would fill the screen."""


LATEX = {
    "\\": r"\textbackslash{}",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    **{mark: f"\\{mark}" for mark in "{}$&#_%"},
}
"""Marks that LaTeX does not print as they are."""
FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""Texts that begin like this are formulas to a spreadsheet."""


def latex(text: str) -> str:
    """Return a text of the user as LaTeX prints it: one line, in which no mark is a command."""
    return "".join(LATEX.get(mark, mark) for mark in " ".join(text.split()))


def markdown(text: str) -> str:
    """Return a text of the user for a cell of a Markdown table."""
    return " ".join(text.split()).replace("|", "&#124;")


def markdown_code(text: str) -> str:
    """Return a name of the user as code in a cell of a Markdown table. A backtick would end the
    code."""
    shown = " ".join(text.split()).replace("`", "'").replace("|", "\\|")
    return f"`{shown}`"


def spreadsheet(text: str) -> str:
    """Return a text of the user for a CSV file, so that a spreadsheet takes it for no formula."""
    return f"'{text}" if text.startswith(FORMULA) else text


def number(value: Any) -> str:
    """Return four significant digits; an empty text for `None`, which means that there is no
    number."""
    return "" if value is None else f"{float(value):.4g}"


def numbers(values: Any, most: int = 6) -> str:
    """Return the entries of an array in a line; of a large one the first few and its shape."""
    array = np.asarray(values)
    if array.ndim == 0:
        return number(array)
    shown = " ".join(number(value) for value in array.ravel()[:most])
    return (
        f"[{shown}]"
        if array.ndim == 1 and array.size <= most
        else f"[{shown} ...] of shape {array.shape}"
    )


def brief(value: Any) -> str:
    """Return a learner or another dataclass in few words: parameters that differ from their
    defaults, rounded."""
    if not dataclasses.is_dataclass(value) or isinstance(value, type):
        return rounded(repr(value))
    parts = []
    for field in dataclasses.fields(value):
        entry = getattr(value, field.name)
        if field.repr and not _is_default(entry, field.default):
            parts.append(f"{field.name}={brief(entry)}")
    return f"{type(value).__name__}({', '.join(parts)})"


def rounded(text: str) -> str:
    """Return a text with its long decimal numbers rounded to four significant digits."""
    return re.sub(r"-?\d+\.\d{4,}(?:e[+-]?\d+)?", lambda found: number(found[0]), text)


def _is_default(entry: Any, default: Any) -> bool:
    return (
        isinstance(default, bool | int | float | str | None)
        and type(entry) is type(default)
        and entry == default
    )


@dataclass(frozen=True)
class Grid:
    """A small table. Columns named in `left` are aligned to the left, all others to the right."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    left: tuple[str, ...] = ()

    def text(self) -> str:
        """Return the table with aligned columns."""
        cells = [self.columns, *([_cut(cell) for cell in row] for row in self.rows)]
        widths = [max(len(row[i]) for row in cells) for i in range(len(self.columns))]
        lines = []
        for row in cells:
            parts = (
                cell.ljust(width) if name in self.left else cell.rjust(width)
                for name, cell, width in zip(self.columns, row, widths, strict=True)
            )
            lines.append("  ".join(parts).rstrip())
        lines.insert(1, "  ".join("-" * width for width in widths))
        return "\n".join(lines)

    def html(self) -> str:
        """Return the table as HTML."""
        head = "".join(
            f'<th style="text-align:{self._side(name)}">{html.escape(name)}</th>'
            for name in self.columns
        )
        body = ""
        for row in self.rows:
            cells = (
                f'<td style="text-align:{self._side(name)}">{html.escape(cell)}</td>'
                for name, cell in zip(self.columns, row, strict=True)
            )
            body += f"<tr>{''.join(cells)}</tr>"
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"

    def _side(self, name: str) -> str:
        return "left" if name in self.left else "right"


@dataclass(frozen=True)
class Summary:
    """What an object says of itself: a title, facts (label, value), tables and remarks."""

    title: str
    facts: Sequence[tuple[str, str]] = ()
    grids: Sequence[Grid] = ()
    notes: Sequence[str] = ()

    def text(self) -> str:
        """Return the summary as lines, with the values of the facts aligned."""
        width = max((len(label) for label, _ in self.facts), default=0)
        lines = [self.title]
        for label, value in self.facts:
            lines += _wrapped(value, f"  {label.ljust(width)}  ", " " * (width + 4))
        lines += [f"  {line}".rstrip() for grid in self.grids for line in grid.text().splitlines()]
        for note in self.notes:
            lines += _wrapped(note, "  ", "  ")
        return "\n".join(lines)

    def html(self) -> str:
        """Return the summary as HTML."""
        parts = [f"<strong>{html.escape(self.title)}</strong>"]
        if self.facts:
            rows = (
                f'<tr><th style="text-align:left">{html.escape(label)}</th>'
                f'<td style="text-align:left">{html.escape(value)}</td></tr>'
                for label, value in self.facts
            )
            parts.append(f"<table><tbody>{''.join(rows)}</tbody></table>")
        parts += [grid.html() for grid in self.grids]
        parts += [f"<p>{html.escape(note)}</p>" for note in self.notes]
        return f"<div>{''.join(parts)}</div>"


class Displayed:
    """A class whose `repr`, `str` and HTML come from its summary."""

    def _summary(self) -> Summary:
        raise NotImplementedError  # every subclass defines it

    def __repr__(self) -> str:
        return self._summary().text()

    def __str__(self) -> str:
        return self._summary().text()

    def _repr_html_(self) -> str:
        return self._summary().html()


def rows(entries: Iterable[Sequence[str]]) -> tuple[tuple[str, ...], ...]:
    """Return rows as `Grid` takes them."""
    return tuple(tuple(entry) for entry in entries)


def _wrapped(text: str, first: str, others: str) -> list[str]:
    wrapped = textwrap.wrap(
        text,
        terminal_width(LINE),
        initial_indent=first,
        subsequent_indent=others,
        break_on_hyphens=False,
        max_lines=LINES,
        placeholder=" ...",
    )
    return wrapped or [first.rstrip()]


def terminal_width(most: int) -> int:
    """Return the number of columns of the terminal, or `most` if it is wider or there is none."""
    return min(most, shutil.get_terminal_size((most, 24)).columns)


def _cut(text: str) -> str:
    return text if len(text) <= WIDEST else text[: WIDEST - 3].rstrip() + "..."
