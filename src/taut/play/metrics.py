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
    return run.totals.loss if rounds is None else _summed(_recorded(run, "loss"), rounds)


def regret(run: Run, best: Any, rounds: Prefix = None) -> Array:
    """Loss minus that of the best fixed feasible decision: `best` is its total loss for each seed (and prefix)."""
    return np.asarray(loss(run, rounds) - np.asarray(getattr(best, "loss", best)))


def excess(run: Run, rounds: Prefix = None, per_constraint: bool = False) -> Array:
    """Sum of the signed g(x_t), of the largest constraint unless `per_constraint`. Slack pays for violations here."""
    if rounds is not None:
        return _summed(_largest(run, per_constraint), rounds)
    return run.totals.excess if per_constraint else run.totals.worst_excess


def violation(run: Run, rounds: Prefix = None, per_constraint: bool = False) -> Array:
    """Sum of the clipped [g(x_t)]_+. Nothing can pay for it."""
    if rounds is not None:
        return _summed(np.maximum(_largest(run, per_constraint), 0), rounds)
    return run.totals.violation if per_constraint else run.totals.worst_violation


def squared_violation(run: Run, rounds: Prefix = None, per_constraint: bool = False) -> Array:
    """Sum of ([g(x_t)]_+)^2: large violations weigh more."""
    if rounds is not None:
        return _summed(np.maximum(_largest(run, per_constraint), 0).astype(np.float64) ** 2, rounds)
    return run.totals.squared if per_constraint else run.totals.worst_squared


def peak_violation(run: Run, rounds: Prefix = None, per_constraint: bool = False) -> Array:
    """Largest [g(x_t)]_+ of any round."""
    if rounds is not None:
        return _at(np.maximum.accumulate(np.maximum(_largest(run, per_constraint), 0), axis=-1), rounds)
    return run.totals.peak if per_constraint else run.totals.peak.max(axis=-1)


def violating_rounds(run: Run, rounds: Prefix = None, above: float = 0.0) -> Array:
    """Number of rounds with g(x_t) > above, of the largest constraint."""
    return _at(np.cumsum(_recorded(run, "excess") > above, axis=-1), run.horizon if rounds is None else rounds)


def _recorded(run: Run, name: str) -> Array:
    value: Array | None = getattr(run, name)
    if value is None:
        raise ValueError(f'run: got one without "{name}" of each round; expected simulate(..., record=("{name}", ...))')
    return value


def _largest(run: Run, per_constraint: bool) -> Array:
    if per_constraint:
        raise ValueError(
            "per_constraint: got True with rounds; expected False, because a run records the largest constraint of "
            "each round only, and all of them in its totals"
        )
    return _recorded(run, "excess")


def _summed(series: Array, rounds: int | Sequence[int]) -> Array:
    return _at(np.cumsum(series, axis=-1, dtype=np.float64), rounds)


def _at(series: Array, rounds: int | Sequence[int]) -> Array:
    wanted = np.asarray(rounds)
    if wanted.size and wanted.dtype.kind not in "iu":
        raise TypeError(f"rounds: got {rounds!r}; expected whole numbers")
    if wanted.size and (wanted.min() < 1 or wanted.max() > series.shape[-1]):
        raise ValueError(f"rounds: got {rounds}; expected prefixes between 1 and {series.shape[-1]}")
    return np.asarray(series[..., wanted.astype(int) - 1])
