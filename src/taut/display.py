"""How results print: a title, aligned facts and small tables, as text in a terminal and as HTML in
a notebook."""

from __future__ import annotations

import dataclasses
import html
import re
import shutil
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

import numpy as np

WIDEST = 60
"""Longer cells of a table continue on the next line."""
NARROWEST = 18
"""Columns of text are narrowed to no less than this, the last one first, if there is no room."""
USUAL = 80
"""Columns of a terminal whose width is not known, as in a file."""
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


def counted(count: int, noun: str, several: str | None = None) -> str:
    """Return a number with its noun.

    >>> counted(1, "seed"), counted(5000, "round")
    ('1 seed', '5,000 rounds')
    """
    return f"{count:,} {noun if count == 1 else several or f'{noun}s'}"


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
    return re.sub(r"-?\d+\.\d{4,}(?:e[+-]?\d+)?", lambda match: number(match[0]), text)


def _is_default(entry: Any, default: Any) -> bool:
    return (
        isinstance(default, bool | int | float | str | None)
        and type(entry) is type(default)
        and entry == default
    )


def _cell_lines(text: str, size: int) -> list[str]:
    return [part for line in text.split("\n") for part in textwrap.wrap(line, size)]


@dataclass(frozen=True)
class Grid:
    """A small table. Columns named in `left` are aligned to the left, all others to the right.
    Names of columns that are longer than their cells, long cells, and what follows a line break in
    a cell, continue on the next line."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    left: tuple[str, ...] = ()

    def text(self, width: int | None = None) -> str:
        """Return the table with aligned columns. Columns for which there is no room are in a second
        table below, which repeats the first column.

        `width` is the number of characters of a line; by default that of the terminal.
        """
        width = terminal_width(LINE) if width is None else width
        wide = [
            min(
                max(len(line) for text in (*name.split(), *cells) for line in text.split("\n")),
                WIDEST,
            )
            for name, *cells in zip(self.columns, *self.rows, strict=True)
        ]
        for i in reversed(range(1, len(wide))):
            over = sum(wide) + 2 * len(wide) - 2 - width
            if over > 0 and self.columns[i] in self.left:
                wide[i] = max(min(wide[i], NARROWEST), wide[i] - over)
        groups, room = [[0]], width - wide[0]
        for i in range(1, len(wide)):
            if room < wide[i] + 2 and len(groups[-1]) > 1:
                groups.append([0])
                room = width - wide[0]
            groups[-1].append(i)
            room -= wide[i] + 2
        return "\n".join(self._lines(group, [wide[i] for i in group]) for group in groups)

    def _lines(self, group: list[int], widths: list[int]) -> str:
        """Return a table of these columns."""
        lines: list[str] = []
        for row in (self.columns, *self.rows):
            cells = [_cell_lines(row[i], size) for i, size in zip(group, widths, strict=True)]
            for line in zip_longest(*cells, fillvalue=""):
                parts = (
                    part.ljust(size) if self.columns[i] in self.left else part.rjust(size)
                    for i, part, size in zip(group, line, widths, strict=True)
                )
                lines.append("  ".join(parts).rstrip())
            if row is self.columns:
                lines.append("  ".join("-" * size for size in widths))
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.text()

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
            lines += wrapped(value, f"  {label.ljust(width)}  ", " " * (width + 4))
        room = terminal_width(LINE) - 2
        for grid in self.grids:
            lines += [f"  {line}".rstrip() for line in grid.text(room).splitlines()]
        for note in self.notes:
            lines += wrapped(note, "  ", "  ")
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


def wrapped(text: str, first: str = "", others: str = "", most: int | None = LINES) -> list[str]:
    """Return a text as lines no wider than the terminal.

    Arguments:
        text: any text.
        first, others: what the first line and all others begin with.
        most: how many lines there are at most; `None` for all.
    """
    lines = textwrap.wrap(
        text,
        terminal_width(LINE),
        initial_indent=first,
        subsequent_indent=others,
        break_on_hyphens=False,
        max_lines=most,
        placeholder=" ...",
    )
    return lines or [first.rstrip()]


def terminal_width(most: int) -> int:
    """Return the number of columns of the terminal, at most `most`; 80 if there is none."""
    return min(most, shutil.get_terminal_size((USUAL, 24)).columns)
