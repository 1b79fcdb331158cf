"""Checks of what a player is told: the number of constraints, the data of a round, measurements."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, NoReturn

import numpy as np

from .. import arguments
from ..engine import Array
from ..play.announced import check_announced_count
from ..play.round import FAULTS
from ..problem.compatibility import count_constraints
from ..problem.problem import Problem
from .data_types import DataTypes
from .hooks import Refused

__all__ = [
    "check_round",
    "checked_data",
    "checked_measurements",
    "number_of_constraints",
    "refuse",
]


def number_of_constraints(problem: Problem, given: int | None) -> int:
    """Return the number of constraints that a learner sees; it must be given if it depends on
    data."""
    known = problem.constants.constraint_count
    if given is None:
        if known is None:
            raise ValueError(
                "count: got None; expected the number of constraints, which depends on the "
                "round's data: Player(..., count=m)"
            )
        return known
    count = arguments.count("count", given)
    if known is not None and known != count:
        raise ValueError(f"count: got {count}; expected {known}, as the problem has")
    return count


def checked_data(
    problem: Problem, types: DataTypes, decision: Array, counts: tuple[int, int], z: Any
) -> Any:
    """Cast the data to the types of earlier rounds, or raise an error if they do not fit.

    Arguments:
        problem: the problem.
        types: what is known of the data of earlier rounds.
        decision: a decision, at which the constraints are traced with the first data.
        counts: the number of constraints that the learner sees, and that of announced constraints.
        z: the data.
    """
    data, first = types.cast(z)
    if first:
        found = count_constraints(problem, decision, problem.given(data, decision), "z")
        if found != counts[0]:
            raise ValueError(
                f"z: got data with which constraints(x, z) returns {found} values; expected "
                f"{counts[0]}"
            )
        check_announced_count(problem, decision, data, counts[1])
    return data


def checked_measurements(
    gradient: Any,
    excess: Any,
    jacobian: Any,
    loss: Any,
    *,
    count: int,
    shape: tuple[int, ...],
    dtype: Any,
) -> list[Array]:
    """Return loss, gradient, excess and Jacobian of `count` constraints at a decision of this
    shape."""
    wanted = {
        "gradient": (gradient, shape),
        "excess": (excess, (count,)),
        "jacobian": (jacobian, (count, *shape)),
    }
    numbers = [np.asarray(arguments.real("loss", loss), dtype)]
    for name, (value, expected) in wanted.items():
        if value is None:
            raise TypeError(
                f"{name}: got None; expected an array of shape {expected} beside the other "
                "measurements"
            )
        array = arguments.finite(name, value)
        if count == 1 and array.shape == expected[1:] and name != "gradient":
            array = array[None]
        if array.shape != expected:
            raise ValueError(f"{name}: got shape {array.shape}; expected {expected}")
        numbers.append(array.astype(dtype))
    return numbers


def check_round(given: Any, expected: int, pending: Collection[int]) -> None:
    """Refuse the number of a round that is not the next one.

    Arguments:
        given: the number.
        expected: that of the next round.
        pending: rounds that were skipped and may still come.
    """
    round = arguments.count("round", given)
    if round == expected:
        return
    why = "which is not the next"
    if round < expected:
        why = "which is over"
    if round in pending:
        why = f"which was skipped (call player.observe_late({round}, z) for it)"
    raise Refused(f"round: got {round}, {why}; expected {expected}", came=round, expected=expected)


def refuse(faults: int, round: int) -> NoReturn:
    """Raise the error of a round in which something is not finite; `faults` has one bit for each
    name of `FAULTS`."""
    name = next(name for bit, name in enumerate(FAULTS) if faults >> bit & 1)
    why = ": check the gradients of the constraints and the step size" if name == FAULTS[-1] else ""
    argument = "z" if name == "data" else name
    raise Refused(
        f"{argument}: got a value that is not finite in round {round}; expected finite "
        f"numbers{why}",
        entry=argument,
        limit="finite",
    )
