"""Formulas in sentences of docstrings and cards, which are ASCII, marked as LaTeX: H_t becomes
$H_t$."""

from __future__ import annotations

import re

from .equations import GREEK, line

__all__ = ["with_formulas"]

OPERATORS = frozenset(("=", "<=", ">=", "<", ">", "+", "-", "*", "/", "->", "in"))
STRONG = re.compile(
    r"[A-Za-z\])}]_[A-Za-z{+\d]|\^|^O\(|sqrt\(|\blog2?\(|^\|.*\|$|'\(|[<>]=|^[a-zA-Z]\.[a-zA-Z]$"
)
"""What is certainly a part of a formula."""
WEAK = re.compile(
    r"^[([{|]*(?:-?\d+(?:\.\d+)?(?:/\d+)?|[A-Za-z]|\.\.\.?|log|ln|sqrt|max|min|exp|sum)[)\]}|]*$"
)
"""What is a part of a formula if its neighbours are: numbers, letters, names of functions."""
ARTICLES = ("a", "A", "I")
LETTERS = re.compile(r"^[B-HJ-Zb-z]$")
"""A letter that stands alone is a symbol."""


def with_formulas(text: str) -> str:
    """Return the text with its formulas between dollar signs; code in backticks and text in dollars
    stay as they are."""
    pieces = re.split(r"(`[^`]*`|\$[^$]*\$|\[[^\]]*\]\([^)]*\))", text)
    return "".join(piece if i % 2 else _marked(piece) for i, piece in enumerate(pieces))


def _marked(text: str) -> str:
    out: list[str] = []
    run: list[tuple[str, str]] = []  # (word, space after it)

    def close() -> None:
        while run and (run[-1][0] in OPERATORS or run[-1][0] in ARTICLES):
            spare.insert(0, run.pop())
        formula = any(word in OPERATORS for word, _ in run)
        while run and (
            run[0][0] in OPERATORS or run[0][0] == "a" or (run[0][0] in ARTICLES and not formula)
        ):
            out.append("".join(run.pop(0)))
        if run and any(_strong(word) for word, _ in run):
            words = "".join(word + space for word, space in run[:-1]) + run[-1][0]
            out.append(f"${line(words).strip()}${run[-1][1]}")
        else:
            out.extend(word + space for word, space in run)
        out.extend(word + space for word, space in spare)
        run.clear()
        spare.clear()

    spare: list[tuple[str, str]] = []
    for word, space in re.findall(r"(\S+)(\s*)", text):
        lead, core, tail = _peeled(word, run)
        if not (_strong(core) or core in OPERATORS or WEAK.match(core) or _open(run) > 0):
            close()
            out.append(word + space)
            continue
        if lead:
            close()
            out.append(lead)
        run.append((core, "" if tail else space))
        if tail:
            close()
            out.append(tail + space)
    close()
    lead_space = re.match(r"\s*", text)
    return (lead_space[0] if lead_space else "") + "".join(out)


def _peeled(word: str, run: list[tuple[str, str]]) -> tuple[str, str, str]:
    """Return a word without the punctuation around it: an opening bracket that is not closed, a
    final comma or stop."""
    found = re.match(r"^(.*?)([.,;:]*)$", word)
    core, tail = (found[1], found[2]) if found else (word, "")
    lead = ""
    depth = _open(run)
    if core.startswith("(") and core.count("(") > core.count(")") and not re.match(r"^\(\d", core):
        lead, core = "(", core[1:]
    if depth + core.count("(") > core.count(")") and (depth or _strong(core)):
        return "", word, ""  # the comma belongs to the formula, as in max(a, b)
    if core.endswith(")") and depth + core.count("(") < core.count(")"):
        core, tail = core[:-1], ")" + tail
    return lead, core, tail


def _open(run: list[tuple[str, str]]) -> int:
    """Return how many round brackets of a formula are not closed yet."""
    text = "".join(word for word, _ in run)
    return text.count("(") - text.count(")") if any(_strong(word) for word, _ in run) else 0


def _strong(word: str) -> bool:
    return bool(STRONG.search(word) or word.strip("()'") in GREEK or LETTERS.match(word))
