"""Metrics: pure functions of a run. All are reported, because none of them determines another.

All take `rounds`, a number of first rounds or several such numbers, for which the run must have
recorded "loss" and "excess". Without it they describe the whole run and come from its totals.
Results have the dims (learner,) seed, then one for `rounds` if there are several.

`measured` has the quantities that theorems bound, each in one definition for certificates, rates
and recommendations.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import arguments
from ..engine import Array
from .run import Run

__all__ = [
    "budget_use",
    "excess",
    "largest_excess",
    "largest_squared_violation",
    "loss",
    "measured",
    "peak_violation",
    "regret",
    "squared_violation",
    "violating_rounds",
    "violating_share",
    "violation",
]

UNITS = 64
"""Units in the last place up to which a constraint value counts as rounding."""

Prefix = int | Sequence[int] | None


def measured(run: Run, best: Any = None) -> dict[str, Array]:
    """Return the quantities of a whole run that theorems bound, per seed.

    - "regret": sum of f_t(x_t) minus the loss of the best fixed decision; only if `best` is given
      (see `regret`). If the run was scored by a problem with `previous=True`, it is called "policy
      regret".
    - "violation": sum over rounds of [max_i g_i(x_t)]_+.
    - "squared violation": sum over rounds and constraints of ([g_i(x_t)]_+)^2.
    - "peak violation": largest [g_i(x_t)]_+ of any round and constraint.
    - "excess": largest over constraints of the sum over rounds of the signed g_i(x_t).

    With several constraints, two other numbers belong to the largest constraint of each round:
    `largest_excess` and `largest_squared_violation`. They can be computed for the first rounds of a
    run as well.
    """
    name = "policy regret" if run.problem is not None and run.problem.previous else "regret"
    regrets = {} if best is None else {name: regret(run, best)}
    return regrets | {
        "violation": violation(run),
        "squared violation": squared_violation(run),
        "peak violation": peak_violation(run),
        "excess": excess(run),
    }


def budget_use(run: Run, rate: Any) -> Array:
    """Share of each budget that was used, for constraints g_t(x) = c_t(x) - rate: sum of c_t(x_t)
    over rate times T.

    Arguments:
        run: the run.
        rate: the budget per round, a number or one per constraint.

    Dims (learner,) seed, constraint. A share of at most 1 means that the budget of the whole
    horizon was kept.
    """
    rate = np.asarray(rate, float)
    if rate.ndim > 1 or not np.all(rate > 0):
        raise ValueError(f"rate: got {rate!r}; expected a positive number, or one per constraint")
    return 1 + excess(run, per_constraint=True) / (rate * run.horizon)


def loss(run: Run, rounds: Prefix = None) -> Array:
    """Sum of f_t(x_t)."""
    return run.totals.loss if rounds is None else _summed(_recorded(run, "loss"), rounds)


def regret(run: Run, best: Any, rounds: Prefix = None) -> Array:
    """Loss minus that of the best fixed feasible decision: `best` is its total loss for each seed
    (and prefix).

    For a problem with `previous=True`, `best = taut.hindsight(problem, stream)` gives policy
    regret, and `taut.hindsight(problem, stream, previous=run)` adaptive-adversary regret.

    If the run was scored with another problem than it was played with (`simulate(..., score=...)`),
    `best` belongs to the problem that was scored, `run.problem`. The result of `taut.hindsight` for
    another one is refused.
    """
    _check_comparator(run, best, rounds)
    return np.asarray(loss(run, rounds) - arguments.finite("best", getattr(best, "loss", best)))


def excess(run: Run, rounds: Prefix = None, per_constraint: bool = False) -> Array:
    """Sum of the signed g_i(x_t) over rounds, of the constraint for which it is largest. Negative
    terms offset positive ones.

    With `per_constraint`, the sums of all constraints.
    """
    if rounds is not None:
        _refuse_several(run, "excess", "largest_excess")
        return _summed(_largest(run, per_constraint), rounds)
    return run.totals.excess if per_constraint else run.totals.excess.max(axis=-1)


def largest_excess(run: Run, rounds: Prefix = None) -> Array:
    """Sum over rounds of the largest g_i(x_t) of each round: never below `excess`, and equal to it
    for one constraint."""
    return run.totals.worst_excess if rounds is None else _summed(_recorded(run, "excess"), rounds)


def violation(run: Run, rounds: Prefix = None, per_constraint: bool = False) -> Array:
    """Sum over rounds of the largest clipped [g_i(x_t)]_+ of each round. Clipped terms cannot
    offset each other."""
    if rounds is not None:
        return _summed(np.maximum(_largest(run, per_constraint), 0), rounds)
    return run.totals.violation if per_constraint else run.totals.worst_violation


def squared_violation(run: Run, rounds: Prefix = None, per_constraint: bool = False) -> Array:
    """Sum of ([g_i(x_t)]_+)^2 over rounds and constraints. Large violations count more.

    With `per_constraint`, the sums of all constraints.
    """
    if rounds is not None:
        _refuse_several(run, "squared_violation", "largest_squared_violation")
        return _summed(np.maximum(_largest(run, per_constraint), 0).astype(np.float64) ** 2, rounds)
    return run.totals.squared if per_constraint else run.totals.squared.sum(axis=-1)


def largest_squared_violation(run: Run, rounds: Prefix = None) -> Array:
    """Sum over rounds of ([g_i(x_t)]_+)^2 of the largest constraint of each round: at most
    `squared_violation`."""
    if rounds is None:
        return run.totals.worst_squared
    return _summed(np.maximum(_recorded(run, "excess"), 0).astype(np.float64) ** 2, rounds)


def peak_violation(run: Run, rounds: Prefix = None, per_constraint: bool = False) -> Array:
    """Largest [g(x_t)]_+ of any round."""
    if rounds is not None:
        return _at(
            np.maximum.accumulate(np.maximum(_largest(run, per_constraint), 0), axis=-1), rounds
        )
    return run.totals.peak if per_constraint else run.totals.peak.max(axis=-1)


def violating_rounds(run: Run, rounds: Prefix = None, above: float = 0.0) -> Array:
    """Number of rounds in which the largest constraint value exceeds a tolerance.

    Arguments:
        run: a run that recorded "excess".
        rounds: numbers of first rounds; by default all.
        above: the tolerance, in the unit of the constraints. Rounding is added to it: 64 units in
            the last place of the largest |g(x_t)| of the run, or of `constraint_range` where the
            problem has a larger one. With the default, 0, a value counts as a violation if rounding
            cannot have made it.
    """
    values = _recorded(run, "excess")
    tolerance = arguments.non_negative("above", above) + _rounding(run, values)
    return _at(np.cumsum(values > tolerance, axis=-1), run.horizon if rounds is None else rounds)


def violating_share(run: Run, rounds: Prefix = None, above: float = 0.0) -> Array:
    """Share of the rounds in which the largest constraint value exceeds a tolerance, between 0 and
    1; see `violating_rounds`."""
    count = run.horizon if rounds is None else np.asarray(rounds)
    return np.asarray(violating_rounds(run, rounds, above) / count)


def _rounding(run: Run, values: Array) -> Array:
    """How far rounding can have moved a constraint value, per seed, with an axis for the rounds."""
    known = None if run.problem is None else run.problem.constants.constraint_range
    size = np.maximum(np.max(np.abs(values), axis=-1, keepdims=True), known or 0.0)
    return np.asarray(UNITS * float(np.finfo(run.final.dtype).eps) * size)


def _check_comparator(run: Run, best: Any, rounds: Prefix) -> None:
    """Refuse a result of `taut.hindsight` for the problem that was played instead of scored, or for
    other prefixes."""
    of: Any = getattr(best, "problem", None)
    scored: Any = run.problem
    played: Any = run.played
    prefixes = getattr(best, "prefixes", None)
    known = of is not None and scored is not None and played is not None
    if known and scored is not played and (of is played or of.loss == played.loss != scored.loss):
        raise ValueError(
            "best: got the hindsight of the problem that was played, but the run was scored with "
            "another one; expected taut.hindsight(run.problem, stream)"
        )
    asked = None if rounds is None or np.ndim(rounds) == 0 else np.asarray(rounds).tolist()
    if prefixes is not None and asked != list(prefixes):
        raise ValueError(
            f"rounds: got {rounds!r}, but best has the prefixes {list(prefixes)}; expected the "
            "same rounds"
        )


def _refuse_several(run: Run, name: str, other: str) -> None:
    if run.totals.excess.shape[-1] > 1:
        raise ValueError(
            f"rounds: got a number of rounds for {name} of {run.totals.excess.shape[-1]} "
            "constraints; expected None, because a run records the largest constraint of each "
            f"round only. Use {other}, which is another number"
        )


def _recorded(run: Run, name: str) -> Array:
    value: Array | None = getattr(run, name)
    if value is None:
        raise ValueError(
            f'run: got a run that did not record "{name}"; expected simulate(..., '
            f'record=("{name}", ...))'
        )
    return value


def _largest(run: Run, per_constraint: bool) -> Array:
    if per_constraint:
        raise ValueError(
            "per_constraint: got True with rounds; expected False, because a run records the "
            "largest constraint of each round only, and all of them in its totals"
        )
    return _recorded(run, "excess")


def _summed(series: Array, rounds: int | Sequence[int]) -> Array:
    return _at(np.cumsum(series, axis=-1, dtype=np.float64), rounds)


def _at(series: Array, rounds: int | Sequence[int]) -> Array:
    wanted = arguments.as_array("rounds", rounds)
    if wanted.size and wanted.dtype.kind not in "iu":
        raise TypeError(f"rounds: got {rounds!r}; expected whole numbers")
    if wanted.size and (wanted.min() < 1 or wanted.max() > series.shape[-1]):
        raise ValueError(
            f"rounds: got {rounds}; expected prefixes between 1 and {series.shape[-1]}"
        )
    return np.asarray(series[..., wanted.astype(int) - 1])
