"""The leaderboards as rows: which streams a board has, what it says of each learner, and what a
round of a learner costs."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ... import storage
from ...display import Grid, terminal_width
from ...engine import VERSION
from .. import oracles, results as stored, suite
from ..score import Board, Standing, boards_of, leaderboard

GENERAL = ("fixed constraints", "changing constraints", "moving comparator")
"""The settings to which nearly every method applies; the first table is about them."""
WIDEST = 80
"""Text is at most so wide, and no wider than the terminal."""
SHORT = {
    "loss": "f",
    "gradient": "df",
    "values": "g",
    "pullback": "dg",
    "project": "P",
    "minimise": "LP",
}
"""How tables abbreviate oracles."""


class Costs:
    """The costs of all learners of a folder."""

    def __init__(self, folder: Path) -> None:
        self.seconds = stored.read_json(folder / stored.TIMES)
        """The time per round and seed, by the file of a result."""
        self.counted = stored.read_json(folder / oracles.FILE)

    def microseconds(self, group: Sequence[Board], learner: str) -> float | None:
        """Return the median over streams of the time per round and seed."""
        times = [
            spent
            for where in group
            if learner in where.by_learner
            and (spent := self.seconds.get(where[learner].result.file)) is not None
        ]
        return float(np.median(times)) * 1e6 if times else None

    def calls(self, learner: str) -> oracles.Calls:
        """Return the calls of oracles per round; empty if they were not counted."""
        return self.counted.get(learner, {})

    def total(self, learner: str) -> float | None:
        """Return the calls of all oracles together per round."""
        calls = self.calls(learner)
        return sum(calls.values()) if calls else None


def short(calls: oracles.Calls) -> str:
    """Return the calls that are not zero in one line.

    >>> short({"gradient": 1.0, "values": 1.0, "loss": 0.0, "project": 1.984})
    'df 1, g 1, P 2'
    """
    return ", ".join(
        f"{SHORT[name]} {calls[name]:.2g}" for name in SHORT if calls.get(name, 0.0) > 0
    )


def groups(boards: tuple[Board, ...]) -> list[tuple[str, tuple[Board, ...]]]:
    """The streams by setting, those to which nearly every method applies together."""
    ranked = [board for board in boards if board.stream.ranked]
    general = tuple(board for board in ranked if board.stream.setting in GENERAL)
    listed = [("convex losses, fixed and changing constraints", general)] if general else []
    rest = [board for board in ranked if board.stream.setting not in GENERAL]
    for setting in dict.fromkeys(map(_setting, rest)):
        listed.append((setting, tuple(board for board in rest if _setting(board) == setting)))
    return listed


def _setting(board: Board) -> str:
    """The setting of a stream. Recorded requests are requests, because other methods play them."""
    return "requests" if board.stream.request_first else board.stream.setting


def row_of(standing: Standing, title: str, group: Sequence[Board], costs: Costs) -> dict[str, Any]:
    """Return what a board says of a learner, as plain values."""
    columns = ("violating rounds", "feasible rounds", "peak violation")
    return {
        "board": title,
        "learner": standing.learner,
        "family": standing.family.name,
        "rank": standing.rank,
        "rank low": standing.ranks[0] or None,
        "rank high": standing.ranks[1] or None,
        "hit": standing.score.mean,
        "hit low": standing.score.low,
        "hit high": standing.score.high,
        "missed regret": standing.missed_regret,
        "missed violation": standing.missed_violation,
        "missed both": standing.missed_both,
        "streams": standing.streams,
        "mean rank": standing.mean_rank,
        "same": standing.same,
        "of streams": len(group),
        **{name: standing.columns.get(name) for name in columns},
        "microseconds": costs.microseconds(group, standing.learner),
        "calls": costs.total(standing.learner),
        **{name: costs.calls(standing.learner).get(name) for name in oracles.ORACLES},
    }


def number(value: float) -> float | None:
    """Return a number with five digits; None if it is not finite."""
    return float(f"{value:.5g}") if math.isfinite(value) else None


def write_tables(folder: Path, page: Path) -> list[Path]:
    """Write all leaderboards as CSV and as JSON beside a page; return both files."""
    costs = Costs(folder)
    rows = [
        {name: number(v) if isinstance(v, float) else v for name, v in row.items()}
        for title, group in groups(boards_of(stored.read_all(folder)))
        for standing in leaderboard(group).standings
        for row in [row_of(standing, title, group, costs)]
    ]
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    paths = [page.with_suffix(".csv"), page.with_suffix(".json")]
    storage.write_atomically(paths[0], text.getvalue().encode())
    about = {
        "suite": suite.NAME,
        "version": VERSION,
        "run": stored.read_json(folder / stored.MACHINE),
    }
    content = json.dumps({**about, "rows": rows}, indent=1, allow_nan=False)
    storage.write_atomically(paths[1], content.encode())
    return paths


TERMINAL = ("rank", "learner", "hit %", "95 %", "regret", "viol.", "both", "of")
"""Columns in a terminal. After the share of targets that is hit come the shares that are missed,
because of the regret alone, because of the violation alone, and because of both."""


def text(folder: Path) -> str:
    """Return the leaderboards for a terminal, at most 80 columns wide."""
    lines, costs = [], Costs(folder)
    for title, group in groups(boards_of(stored.read_all(folder))):
        lines.append(f"{title}: {', '.join(board.stream.name for board in group)}")
        shown = (
            cells(row_of(standing, title, group, costs))
            for standing in leaderboard(group).standings
        )
        rows = tuple(tuple(texts[name] for name in TERMINAL) for texts in shown)
        lines += [Grid(TERMINAL, rows, left=("learner",)).text(terminal_width(WIDEST)), ""]
    return "\n".join(lines)


def cells(row: dict[str, Any]) -> dict[str, str]:
    """Return the cells of a learner by the name of their column, in a terminal and in the
    documentation."""

    def shown(name: str, kind: str, scale: float = 1.0) -> str:
        return "" if row[name] is None else f"{scale * row[name]:{kind}}"

    rank, low, high = row["rank"], row["rank low"], row["rank high"]
    missed = [shown(f"missed {why}", ".1f", 100) for why in ("regret", "violation", "both")]
    feasible = shown("feasible rounds", ".1f", 100)
    return {
        "rank": "" if rank is None else str(rank) if low == high else f"{rank} ({low}-{high})",
        "learner": row["learner"],
        "hit %": shown("hit", ".1f", 100),
        "95 %": f"{shown('hit low', '.0f', 100)}-{shown('hit high', '.0f', 100)}",
        **dict(zip(("regret", "viol.", "both"), missed, strict=True)),
        **dict(zip(("missed: regret", "missed: violation", "missed: both"), missed, strict=True)),
        "of": f"{row['streams']}/{row['of streams']}",
        "mean rank": "" if rank is None else shown("mean rank", ".1f"),
        "violating rounds": shown("violating rounds", ".3g"),
        "feasible rounds": f"{feasible} %" if feasible else "",
        "peak": shown("peak violation", ".2g"),
        "µs": shown("microseconds", ".2g"),
        "calls": shown("calls", ".3g"),
        "streams": f"{row['streams']} of {row['of streams']}",
    }
