"""The leaderboard as Markdown for the documentation and as LaTeX for a paper."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ... import storage
from ...display import latex as tex, markdown as cell, markdown_code
from ...engine import VERSION
from ...judge.over_seeds import Interval, clear_winner
from .. import results as stored
from ..registry import STREAMS
from ..results import Result
from ..score import Board, boards_of, leaderboard
from .board import Costs, cells, groups, row_of

TOLERANCE = 1e-3
"""The mean violation per round, in units of G_g D, up to which a learner can have the best
regret."""


def markdown(folder: Path) -> str:
    """Return the page for the documentation, without its introduction: leaderboards with one
    learner of each family, and the streams."""
    results = stored.read_all(folder)
    boards, costs = boards_of(results), Costs(folder)
    seeds = max(result.seeds for result in results.values())
    longest = max(board.horizon for board in boards)
    broken = sum(len(result.broken) for result in results.values())
    bounded = sum(len(result.bounds) for result in results.values())
    played = {board.stream.name for board in boards}
    left_out = ", ".join(markdown_code(name) for name in STREAMS if name not in played)
    lines = [
        f"Version {VERSION}: {len(results)} cells, {len(boards)} streams, up to {longest} rounds, "
        f"{seeds} seeds. {bounded} bounds were checked, {broken} were exceeded."
        + (f" This run does not have the streams {left_out}." if left_out else ""),
        "",
    ]
    for title, group in groups(boards):
        lines += _section(title, group, costs)
    lines += [
        "## Streams",
        "",
        "| stream | family | what is decided | rounds | scored against | known | source |",
        "|---|---|---|---:|---|---|---|",
    ]
    for board in boards:
        stream = board.stream
        known = "; ".join(f"{name}: {value}" for name, value in stream.known.items())
        facts = (
            stream.family,
            stream.title,
            str(board.horizon),
            stream.scored_comparator,
            known,
            stream.source,
        )
        lines.append(f"| {' | '.join([markdown_code(stream.name), *map(cell, facts)])} |")
    return "\n".join(lines) + "\n"


def _section(title: str, group: tuple[Board, ...], costs: Costs) -> list[str]:
    """One leaderboard with the representatives of families."""
    table = leaderboard(group)
    votes = len(set(table.families))
    lines = [
        f"### {title[0].upper()}{title[1:]}",
        "",
        f"Streams: {', '.join(markdown_code(board.stream.name) for board in group)}.",
        "",
        f"| {' | '.join(DOCUMENTED)} |",
        "|---:|---|" + "---:|" * (len(DOCUMENTED) - 2),
    ]
    for standing in table.standings:
        if standing.headline:
            texts = cells(row_of(standing, title, group, costs))
            texts["learner"] = markdown_code(texts["learner"])
            lines.append(f"| {' | '.join(texts[name] for name in DOCUMENTED)} |")
    lines.append("")
    if len(table.ranked) > 1:
        lines += [
            f"Mean ranks are over {votes} famil{'y' if votes == 1 else 'ies'} of streams; two of "
            "them differ if they are more "
            f"than {table.difference:.2f} apart (Nemenyi's critical difference). The hypothesis "
            f"that all learners are alike has p = {table.friedman:.2g} (Friedman).",
            "",
        ]
    return lines


BEGIN, END = "<!-- arena: begin -->", "<!-- arena: end -->"
"""What `taut arena report --docs` writes is between these lines."""


def write_docs(folder: Path, page: Path) -> None:
    """Renew the generated part of a page of the documentation."""
    content = page.read_text("utf-8")
    if content.count(BEGIN) != 1 or content.count(END) != 1:
        raise ValueError(
            f"--docs: got {page} without the lines {BEGIN} and {END}; expected docs/arena.md"
        )
    before, rest = content.split(BEGIN)
    _, after = rest.split(END)
    written = f"{before}{BEGIN}\n{markdown(folder)}{END}{after}"
    storage.write_atomically(page, written.encode())


def latex(folder: Path, learners: tuple[str, ...] = ()) -> str:
    """Return a table for a paper: regret and violation with their intervals by stream, the smallest
    of each in bold if it is clear from the differences of the same seeds.

    Regret is bold only among the learners that violate by at most `TOLERANCE` G_g D per round on
    average.

    Arguments:
        folder: the results.
        learners: the rows; by default all learners that played on every stream, or all if none did.
    """
    boards = [board for board in boards_of(stored.read_all(folder)) if board.stream.ranked]
    every = list(dict.fromkeys(line.learner for board in boards for line in board.lines))
    complete = [
        name
        for name in every
        if all(name in {line.learner for line in board.lines} for board in boards)
    ]
    names = list(learners) or complete or every
    lines = [r"\begin{tabular}{l" + "rr" * len(boards) + "}", r"\hline"]
    lines.append(
        " & ".join(
            ["", *(rf"\multicolumn{{2}}{{c}}{{{tex(board.stream.name)}}}" for board in boards)]
        )
        + r" \\"
    )
    lines.append(" & ".join(["learner", *["regret & violation"] * len(boards)]) + r" \\ \hline")
    winners = {board.stream.name: _winners(board, names) for board in boards}
    for name in names:
        cells = []
        for board in boards:
            own_lines = [line for line in board.lines if line.learner == name]
            cells += [
                _tex_cell(line.result, quantity, winners[board.stream.name][quantity] == name)
                for line in own_lines
                for quantity in ("regret", board.stream.scored)
            ] or ["", ""]
        lines.append(" & ".join([tex(name), *cells]) + r" \\")
    rounds = ", ".join(f"{tex(board.stream.name)}: {board.horizon}" for board in boards)
    caption = f"% mean and half the 95 % interval over seeds; rounds: {rounds}"
    below = (
        rf"{{\footnotesize Bold: the smallest value, if the differences to all other learners on "
        rf"the same seeds are clear. The regret is compared among learners that violate by at most "
        rf"${TOLERANCE:g}\,G_g D$ per round on average.}}"
    )
    return "\n".join([caption, *lines, r"\hline", r"\end{tabular}", r"\par\smallskip", below, ""])


def _winners(board: Board, shown: list[str]) -> dict[str, str | None]:
    """The learner with the smallest regret of those that are shown and keep the constraints, and
    the one with the smallest violation, each if it is clear."""
    scored = board.stream.scored
    lines = [line for line in board.lines if line.learner in shown]
    values = {
        quantity: {line.learner: np.asarray(line.result.values[quantity]) for line in lines}
        for quantity in ("regret", scored)
    }
    allowed = TOLERANCE * board.stream.scale[1] * board.horizon
    keep = [name for name, violation in values[scored].items() if np.mean(violation) <= allowed]
    return {
        "regret": clear_winner({name: values["regret"][name] for name in keep}),
        scored: clear_winner(values[scored]),
    }


DOCUMENTED = (
    "rank",
    "learner",
    "hit %",
    "95 %",
    "missed: regret",
    "missed: violation",
    "missed: both",
    "mean rank",
    "violating rounds",
    "feasible rounds",
    "peak",
    "µs",
    "calls",
    "streams",
)
"""Columns in the documentation."""


def _tex_cell(result: Result, quantity: str, winner: bool) -> str:
    shown = str(Interval.of(np.asarray(result.values[quantity]))).replace("±", r"\pm")
    return rf"$\mathbf{{{shown}}}$" if winner else f"${shown}$"
