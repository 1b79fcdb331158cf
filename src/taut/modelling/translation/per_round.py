"""Which parameters change with the round: those the user chooses, those without a value, and those
with data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import cvxpy as cp
import numpy as np

from ...problem.streams import Stream, required_arguments
from ...problem.tables import plain
from .previous import is_previous

__all__ = ["chosen_parameters", "fixed_with_data", "refuse_unused"]


def chosen_parameters(parameters: list[Any], chosen: Any, values: Mapping[int, Any]) -> list[Any]:
    """The parameters that change with the round: the chosen ones, or those without a value if
    `chosen` is None."""
    if chosen is None:
        return [parameter for parameter in parameters if values[parameter.id] is None]
    chosen = (
        [chosen] if isinstance(chosen, (str, cp.Parameter)) else chosen
    )  # both could be iterated over
    if not isinstance(chosen, Iterable):
        raise TypeError(f"per_round: got {chosen!r}; expected a list of parameters or their names")
    chosen = list(chosen)
    by_name = {parameter.name(): parameter for parameter in parameters}
    found = [by_name.get(one) if isinstance(one, str) else one for one in chosen]
    for given, parameter in zip(chosen, found, strict=True):
        if not any(parameter is one for one in parameters):
            expected = ", ".join(by_name) or "none"
            raise ValueError(
                f"per_round: got {given}; expected parameters of the model: {expected}"
            )
    picked = [
        parameter
        for parameter in parameters
        if is_previous(parameter) or any(parameter is one for one in found)
    ]
    for parameter in parameters:
        if not any(parameter is one for one in picked) and values[parameter.id] is None:
            raise ValueError(
                f"parameter {parameter.name()}: got no value; expected one, or the parameter in "
                "per_round"
            )
    return picked


def fixed_with_data(fixed: list[Any], data: Any) -> list[Any]:
    """Those of the fixed parameters that a stream has data for, by parameter or by name.

    A function `chunk(start, length)` is asked for its first round. What an adversary reveals is not
    known before play.
    """
    if not fixed or data is None or isinstance(data, Stream):
        return []
    if callable(data):
        if required_arguments(data) != 2:
            return []
        data = data(0, 1)
    data = plain(data, frozenset(parameter.name() for parameter in fixed))
    if not isinstance(data, Mapping):
        return []
    names = {key for key in data if isinstance(key, str)}
    ids = {key.id for key in data if isinstance(key, cp.Parameter)}
    return [parameter for parameter in fixed if parameter.name() in names or parameter.id in ids]


def refuse_unused(data: Any, fixed: list[Any], changing: frozenset[str]) -> None:
    """Raise for data that have no effect: of a fixed parameter, or, if none is `changing`, more
    than a number per round."""
    by_id = {parameter.id: parameter.name() for parameter in fixed}
    for key in data if isinstance(data, Mapping) else ():
        name = (
            by_id.get(key.id)
            if isinstance(key, cp.Parameter)
            else key
            if key in by_id.values()
            else None
        )
        if name is not None and name not in changing:
            raise ValueError(
                f"data: got data for {name}, which had a value when the model was built and is "
                "therefore fixed. Pass "
                f'per_round=["{name}"] to taut.from_cvxpy so that it changes with the round'
            )
        if not changing:
            shown = key.name() if isinstance(key, cp.Parameter) else repr(key)
            raise ValueError(
                f"data: got data for {shown}, but no parameter of the model changes with the "
                "round; expected an array with one entry per round, such as np.zeros(1000)"
            )
    if (
        fixed
        and not changing
        and isinstance(data, np.ndarray)
        and data.size
        and np.any(data != data.flat[0])
    ):
        raise ValueError(
            f"data: got an array of shape {data.shape} without names, which would have no effect, "
            "because all parameters have values and are fixed at them; expected a dict with data "
            f"for {', '.join(by_id.values())}, or zeros"
        )
