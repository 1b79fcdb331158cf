"""Metrics: pure functions of a run. Every one is reported apart, because none can stand in for another.

All take `rounds`, a prefix length or several, for which the run must have recorded "loss" and "excess"; without it they
are about the whole run and come from its totals. Results have the dims (learner,) seed, then prefix if several.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .run import Run

__all__ = ["excess", "loss", "peak_violation", "regret", "squared_violation", "violating_rounds", "violation"]

Array = np.ndarray[Any, Any]
Prefix = int | Sequence[int] | None


def loss(run: Run, rounds: Prefix = None) -> Array:
    """Sum of f_t(x_t)."""
    return run.totals.loss if rounds is None else _at(np.cumsum(_recorded(run, "loss"), axis=-1), rounds)


def regret(run: Run, best: Any, rounds: Prefix = None) -> Array:
    """Loss minus that of the best fixed feasible decision: `best` is its total loss for each seed (and prefix)."""
    return loss(run, rounds) - np.asarray(getattr(best, "loss", best))


def excess(run: Run, rounds: Prefix = None, per_constraint: bool = False) -> Array:
    """Sum of the signed g(x_t), of the largest constraint unless `per_constraint`. Slack pays for violations here."""
    if rounds is not None:
        return _at(np.cumsum(_recorded(run, "excess"), axis=-1), rounds)
    return run.totals.excess if per_constraint else run.totals.worst_excess


def violation(run: Run, rounds: Prefix = None, per_constraint: bool = False) -> Array:
    """Sum of the clipped [g(x_t)]_+. Nothing can pay for it."""
    if rounds is not None:
        return _at(np.cumsum(np.maximum(_recorded(run, "excess"), 0), axis=-1), rounds)
    return run.totals.violation if per_constraint else run.totals.worst_violation


def squared_violation(run: Run, rounds: Prefix = None, per_constraint: bool = False) -> Array:
    """Sum of ([g(x_t)]_+)^2: large violations weigh more."""
    if rounds is not None:
        return _at(np.cumsum(np.maximum(_recorded(run, "excess"), 0) ** 2, axis=-1), rounds)
    return run.totals.squared if per_constraint else run.totals.worst_squared


def peak_violation(run: Run, rounds: Prefix = None, per_constraint: bool = False) -> Array:
    """Largest [g(x_t)]_+ of any round."""
    if rounds is not None:
        clipped = np.maximum(_recorded(run, "excess"), 0)
        return _at(np.maximum.accumulate(clipped, axis=-1), rounds)
    return run.totals.peak if per_constraint else run.totals.peak.max(axis=-1)


def violating_rounds(run: Run, rounds: Prefix = None, above: float = 0.0) -> Array:
    """Number of rounds with g(x_t) > above."""
    return _at(np.cumsum(_recorded(run, "excess") > above, axis=-1), run.horizon if rounds is None else rounds)


def _recorded(run: Run, name: str) -> Array:
    value: Array | None = getattr(run, name)
    if value is None:
        raise ValueError(f'record: got a run without "{name}"; expected simulate(..., record=("loss", "excess"))')
    return value


def _at(series: Array, rounds: int | Sequence[int]) -> Array:
    wanted = np.asarray(rounds)
    if wanted.size and (wanted.min() < 1 or wanted.max() > series.shape[-1]):
        raise ValueError(f"rounds: got {rounds}; expected prefixes between 1 and {series.shape[-1]}")
    return np.asarray(series[..., wanted - 1])
