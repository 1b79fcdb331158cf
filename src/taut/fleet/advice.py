"""Advice for the members of a fleet, a row for each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..engine import Array
from ..learners import Advised
from ..play.advice import check_others, given_and_wrong, numbers_and_gaps, said_in_round
from ..problem.problem import Problem
from .ids import Id, check_index

__all__ = ["advice_of_members"]


def advice_of_members(
    advice: Any, learner: Advised, problem: Problem, listed: list[Id], predicted: bool
) -> tuple[Array, Array, Array]:
    """Return the advice of one round, (member, adviser, *decision); which advisers say something;
    and whose advice is not finite.

    Arguments:
        advice: None; an array, or a table of pandas, with a row for each member; a dict of arrays
            by variable for a model of several variables; or a list with an entry for each member:
            None, a decision, or for several advisers a list of decisions and None.
        learner: the learner.
        problem: the problem, which may name the parts of a decision.
        listed: the members.
        predicted: whether there are forecasts, for which the last adviser stands.
    """
    count, shape = learner.advisers - predicted, problem.domain.shape
    check_others(count, advice)
    wanted = (len(listed), count, *shape)
    if advice is None:
        return np.zeros(wanted), np.zeros(wanted[:2], bool), np.zeros(len(listed), bool)
    check_index("advice", advice, listed)
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
        said = [said_in_round(f"advice[{i}]", one, count, problem) for i, one in enumerate(advice)]
        array = np.reshape([rows for rows, _ in said], wanted)
        given = np.reshape([which for _, which in said], wanted[:2]).astype(bool)
        gaps = np.broadcast_to(~given.reshape(*given.shape, *[1] * len(shape)), wanted)
        return array, *_whose(array, gaps)
    array, mask = numbers_and_gaps(advice, problem.coordinate_names)
    if count == 1 and array.shape == (len(listed), *shape):
        array, mask = array[:, None], mask[:, None]
    if array.shape != wanted:
        expected = wanted if count > 1 else (len(listed), *shape)
        raise ValueError(
            f"advice: got shape {array.shape}; expected {expected}: the decisions of {count} "
            f"adviser{'s' if count > 1 else ''} for {len(listed)} members"
        )
    return array, *_whose(array, mask)


def _whose(array: Array, gaps: Array) -> tuple[Array, Array]:
    """Return which advisers say something, and which members have advice that is not finite."""
    given, wrong = given_and_wrong(array, gaps, 2)
    return given, np.asarray(wrong.any(axis=1))
