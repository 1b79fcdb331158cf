"""Advice for the members of a fleet, a row for each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from .. import arguments
from ..engine import Array
from ..learners import Advised
from ..problem.problem import Problem
from .ids import Id, check_index

__all__ = ["advice_of_members", "not_finite"]


def advice_of_members(
    advice: Any, learner: Advised, problem: Problem, listed: list[Id], dtype: Any
) -> Array:
    """Return the advice of one round, (member, adviser, *decision), with NaN where it is missing.

    Arguments:
        advice: None; an array, or a table of pandas, with a row for each member; a dict of arrays
            by variable for a model of several variables; or a list with an entry for each member:
            None, a decision, or for several advisers a list of decisions and None.
        learner: the learner.
        problem: the problem, which may name the parts of a decision.
        listed: the members.
        dtype: the float type of all computations.
    """
    count, shape = learner.advisers, problem.domain.shape
    wanted = (len(listed), count, *shape)
    if advice is None:
        return np.full(wanted, np.nan, dtype)
    check_index("advice", advice, listed)
    names = problem.coordinate_names
    if names is not None and set(names) == set(map(str, getattr(advice, "columns", ()))):
        advice = advice[list(names)]
    if isinstance(advice, Mapping):
        parts = {name: np.asarray(part) for name, part in advice.items()}
        if any(part.shape[:1] != wanted[:1] for part in parts.values()):
            raise ValueError(
                f"advice: got arrays of shape {[part.shape for part in parts.values()]}; expected "
                f"a row for each of {len(listed)} members"
            )
        advice = [{name: part[i] for name, part in parts.items()} for i in range(len(listed))]
    if isinstance(advice, (list, tuple)):
        if len(advice) != len(listed):
            raise ValueError(
                f"advice: got {len(advice)} entries; expected one for each of {len(listed)} members"
            )
        advice = [_of_member(entry, count, problem) for entry in advice]
        advice = np.reshape(np.array(advice, float), wanted)
    array = arguments.as_array("advice", advice)
    if array.dtype.kind not in "fiub":
        raise TypeError(f"advice: got values of type {array.dtype}; expected real numbers")
    if count == 1 and array.shape == (len(listed), *shape):
        array = array[:, None]
    if array.shape != wanted:
        expected = wanted if count > 1 else (len(listed), *shape)
        raise ValueError(
            f"advice: got shape {array.shape}; expected {expected}: the decisions of {count} "
            f"adviser(s) for {len(listed)} members"
        )
    return array.astype(dtype)


def _of_member(entry: Any, count: int, problem: Problem) -> Array:
    """Return the decisions of all advisers of one member, with NaN for missing ones."""
    shape = problem.domain.shape
    entries = [None] * count if entry is None else [entry] if count == 1 else entry
    if not isinstance(entries, (list, tuple, np.ndarray)) or len(entries) != count:
        raise ValueError(
            f"advice: got {arguments.shown(entry)} for a member; expected a list of {count} "
            "decisions, with None where one is missing"
        )
    rows = []
    for each in entries:
        row = np.full(shape, np.nan) if each is None else np.asarray(problem.assemble(each), float)
        if row.shape != shape:
            raise ValueError(
                f"advice: got shape {row.shape} for a member; expected {shape}, that of a decision"
            )
        rows.append(row)
    return np.stack(rows)


def not_finite(rows: Array) -> Array:
    """Return which members have advice that is neither finite nor missing, which is NaN in all
    entries of a decision."""
    flat = rows.reshape(*rows.shape[:2], -1)
    missing = np.isnan(flat).all(axis=-1)
    return np.asarray((~np.isfinite(flat).all(axis=-1) & ~missing).any(axis=-1))
