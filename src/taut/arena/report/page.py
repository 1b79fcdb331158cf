"""The interactive page: one file with all numbers in it, which fetches nothing."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ... import storage
from ...engine import VERSION
from ...judge.compare import Interval
from ...learners import LEARNERS
from .. import results as stored
from ..entries import FACTORS, THEORY
from ..results import Result
from ..score import SMALLEST, Board, boards_of, exponents, front

__all__ = ["payload", "write_page"]


def payload(folder: Path) -> dict[str, Any]:
    """Return everything that the page shows, as plain values."""
    results = stored.read_all(folder)
    theory, tuned = boards_of(results), boards_of(results, tuned=True)
    seeds = max(one.seeds for one in results.values())
    names = list(dict.fromkeys(line.learner for board in theory for line in board.lines))
    return {
        "version": VERSION,
        "seeds": seeds,
        "smallest": SMALLEST,
        "factors": list(FACTORS),
        "quantile": _quantiles(seeds),
        "cells": len(results),
        "bounds": sum(len(one.bounds) for one in results.values()),
        "streams": [_stream(one, best) for one, best in zip(theory, tuned, strict=True)],
        "learners": {name: _learner(name) for name in names},
        "boards": {
            one.stream.name: {
                line.learner: {
                    **_line(folder, results, one.stream.name, line),
                    "front": line.learner in front(one.lines),
                    "tuned": _tuned(best, line.learner),
                }
                for line in one.lines
            }
            for one, best in zip(theory, tuned, strict=True)
        },
        "broken": [
            f"{one.learner} on {one.stream}, T = {one.horizon}: {text}"
            for one in results.values()
            for text in one.broken
        ],
        "left_out": [[*at, why] for at, why in sorted(stored.read_reasons(folder).items())],
    }


def write_page(folder: Path, path: Path | None = None) -> Path:
    """Write the page to `path`, by default report.html in the folder."""
    from jinja2 import Environment, FileSystemLoader

    path = folder / "report.html" if path is None else path
    environment = Environment(loader=FileSystemLoader(Path(__file__).parent), autoescape=True)
    data = json.dumps(payload(folder), separators=(",", ":"), allow_nan=False).replace(
        "<", "\\u003c"
    )
    here = Path(__file__).parent
    parts = {
        "style": (here / "page.css").read_text("utf-8"),
        "program": (here / "page.js").read_text("utf-8"),
    }
    text = environment.get_template("page.html.jinja").render(data=data, **parts)
    storage.write_atomically(path, text.encode())
    return path


def _quantiles(seeds: int) -> list[float]:
    """The factor of the standard error in a 95 % interval, by the number of seeds; 0 for one
    seed."""
    from scipy import stats

    return [0.0, 0.0, *(round(float(stats.t.ppf(0.975, n - 1)), 6) for n in range(2, seeds + 1))]


def _stream(one: Board, tuned: Board) -> dict[str, Any]:
    stream = one.stream
    return {
        "name": stream.name,
        "title": stream.title,
        "setting": stream.setting,
        "source": stream.source,
        "T": one.horizon,
        "tuned_T": tuned.horizon,
        "comparator": stream.comparator,
        "known": dict(stream.known),
        "scored": stream.scored,
        "ranked": stream.ranked,
    }


def _learner(name: str) -> dict[str, str]:
    if name not in LEARNERS:
        return {"title": name, "reference": ""}
    return {"title": LEARNERS[name].title, "reference": LEARNERS[name].reference}


def _line(folder: Path, results: Mapping[Any, Result], stream: str, line: Any) -> dict[str, Any]:
    horizons = sorted(
        T for s, name, variant, T in results if (s, name, variant) == (stream, line.learner, THEORY)
    )
    runs = [results[stream, line.learner, THEORY, T] for T in horizons]
    times = [spent for one in runs if (spent := stored.seconds_of(folder, one)) is not None]
    growth = exponents(results, stream, line.learner)
    return {
        "values": {name: _interval(line.interval(name)) for name in line.result.values},
        "parts": [_rounded(line.regret), _rounded(line.violation)],
        "curve": {
            "T": horizons,
            **{
                name: [_interval(Interval.of(np.asarray(one.values[name]))) for one in runs]
                for name in ("regret", "violation")
            },
        },
        "exponents": {
            name: [_number(rate.exponent), _number(rate.low), _number(rate.high)]
            for name, rate in growth.items()
        },
        "microseconds": _number(min(times) * 1e6) if times else None,
        "parameters": line.result.parameters,
        "bounds": {name: _number(bound) for name, bound in line.result.bounds.items()},
    }


def _tuned(board: Board, learner: str) -> dict[str, Any] | None:
    """The best parameters of the grid; `None` if the grid was not played."""
    line = next((one for one in board.lines if one.learner == learner), None)
    if line is None:
        return None
    values = {name: _interval(line.interval(name)) for name in line.result.values}
    return {
        "variant": line.result.variant,
        "parts": [_rounded(line.regret), _rounded(line.violation)],
        "values": values,
    }


def _interval(one: Any) -> list[float | None]:
    return [_number(one.mean), _number(one.low), _number(one.high)]


def _rounded(values: Any) -> list[float]:
    return [float(f"{value:.5g}") for value in values]


def _number(value: float) -> float | None:
    return float(f"{value:.5g}") if math.isfinite(value) else None
