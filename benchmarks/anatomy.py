"""Profile of a simulation: overhead per call, time per round, and operations per round in the
compiled code."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import cases, compiled, native, optax_scan, ours
from .cases import Case
from .timing import interleaved

PLAYED = (
    ("toy", 1),
    ("toy", 10),
    ("doubly stochastic 10x10", 1),
    ("doubly stochastic 10x10", 10),
    ("dispatch", 1),
    ("dispatch", 10),
    ("logistic d=1000 m=1", 1),
    ("logistic d=1000 m=20", 1),
    ("polyhedron d=100 m=1000", 1),
)


def measure(repeats: int) -> list[dict[str, Any]]:
    """Return one row per simulation that has a target relative to C."""
    rows = []
    for name, seeds in PLAYED:
        case = next(case for case in cases.suite() if case.name == name)
        rows.append({"problem": name, "seeds": seeds, **_row(case, seeds, repeats)})
        cases.forget()
    return rows


def _row(case: Case, seeds: int, repeats: int) -> dict[str, Any]:
    """Measure a call with one round, and the time per round as the difference between a whole and a
    half simulation."""
    half = case.horizon // 2
    took = interleaved(
        {
            "call": ours.prepare(case, seeds, 1),
            "half": ours.prepare(case, seeds, half),
            "whole": ours.prepare(case, seeds, case.horizon),
            "C, half": native.prepare(case, seeds, half),
            "C": native.prepare(case, seeds, case.horizon),
            "optax, half": optax_scan.prepare(case, seeds, half),
            "optax": optax_scan.prepare(case, seeds, case.horizon),
        },
        repeats,
    )
    rounds = seeds * (case.horizon - half)
    ours_round = (took["whole"].median - took["half"].median) / rounds
    its_round = (took["C"].median - took["C, half"].median) / rounds
    optax_round = (took["optax"].median - took["optax, half"].median) / rounds
    data = np.ones((seeds, 3, *case.data(1).shape[2:]))
    batch = {"seeds": seeds} if seeds > 1 else {}
    text = compiled.text_of(
        case.learner, case.problem, data if seeds > 1 else data[0], x1=case.start, **batch
    )
    body = compiled.parsed(text).body
    return {
        "call": took["call"].median,
        "round": ours_round,
        "ratio": ours_round / its_round,
        "optax": ours_round / optax_round,
        "operations": len(compiled.operations(body)),
    }
