"""The data of a fleet, a row for each member: what is observed in a round, parameters, advice."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from .. import arguments
from ..engine import Array
from ..learners import Advised
from ..play.advice import check_others, given_and_wrong, listed_advice, numbers_and_gaps
from ..player.data import DataTypes
from ..problem.compatibility import cast_data
from ..problem.problem import Problem
from ..problem.tables import plain
from .members import Id, Members, check_index, named


def as_parameters(parameters: Any, ids: list[Id], dtype: Any) -> dict[str, Array]:
    """Return parameters by name, with a row for each member; they must be finite.

    They are a dict of arrays, or a table of pandas with a column for each parameter, or None.
    """
    if parameters is None:
        return {}
    by_name = by_column(parameters)
    if not isinstance(by_name, Mapping) or not all(isinstance(name, str) for name in by_name):
        raise TypeError(
            f"parameters: got {arguments.shown(parameters)}; expected a dict of arrays by name, or "
            "a table, with a row for each member"
        )
    arrays = {}
    for name, values in by_name.items():
        check_index("parameters", values, ids)
        array = cast_data(f"parameters[{name!r}]", plain(values), dtype)
        if array.shape[:1] != (len(ids),):
            raise ValueError(
                f"parameters[{name!r}]: got shape {array.shape}; expected a row for each of "
                f"{len(ids)} members"
            )
        bad = ~np.isfinite(array).all(axis=tuple(range(1, array.ndim)))
        if bad.any():
            wrong = [ids[i] for i in np.flatnonzero(bad)]
            raise ValueError(
                f"parameters[{name!r}]: got a value that is not finite for {named(wrong)}; "
                "expected finite numbers"
            )
        arrays[name] = array
    return arrays


def checked_parameters(
    parameters: Any, listed: list[Id], members: Members, dtype: Any, some: bool = False
) -> dict[str, Array]:
    """Return the parameters of members, which must be like those of the others.

    With `some`, names may be missing.
    """
    arrays = as_parameters(parameters, listed, dtype)
    known = members.rows("parameters", np.zeros(0, int))
    wrong = set(arrays) ^ set(known)
    if some:
        wrong -= set(known)
    if wrong and listed:
        raise ValueError(
            f"parameters: got {', '.join(arrays) or 'none'}; expected {', '.join(known) or 'none'}"
        )
    for name, values in arrays.items():
        expected = known[name]
        if values.shape[1:] != expected.shape[1:]:
            raise ValueError(
                f"parameters[{name!r}]: got rows of shape {values.shape[1:]}; expected "
                f"{expected.shape[1:]}, as the others have"
            )
        if not np.can_cast(values.dtype, expected.dtype, "same_kind"):
            raise TypeError(
                f"parameters[{name!r}]: got values of type {values.dtype}; expected "
                f"{expected.dtype}, as the others have"
            )
    return arrays


def joined(z: Any, parameters: Mapping[str, Any]) -> Any:
    """Return what loss and constraints are given: the data, with the parameters as further
    entries."""
    if not parameters:
        return z
    if z is None:
        return dict(parameters)
    if not isinstance(z, Mapping):
        raise TypeError(
            f"z: got {arguments.shown(z)}; expected a dict of arrays (or a table) beside the "
            f"parameters {', '.join(parameters)}, because both become one dict"
        )
    both = sorted(set(z) & set(parameters))
    if both:
        raise ValueError(
            f"z: got {', '.join(map(repr, both))}, which are parameters of the members; expected "
            "other names"
        )
    return {**z, **parameters}


class FleetData:
    """Converts what members observe to arrays with a row for each of them."""

    def __init__(self, problem: Problem, dtype: np.dtype[Any], counts: tuple[int, int]) -> None:
        self._problem, self._dtype, self.counts = problem, dtype, counts
        self.types = DataTypes(problem, dtype, counts)

    def observed(self, z: Any, ids: list[Id], parameters: dict[str, Array]) -> tuple[Any, Any]:
        """Return data and parameters as the problem's functions take them, a row per member, in
        the types of earlier rounds, and those of the first member."""
        for table in z.values() if isinstance(z, Mapping) else (z,):
            check_index("z", table, ids)
        data = self._problem.arrange(joined(by_column(z) if parameters else z, parameters))
        arrays, structure = jax.tree.flatten(self._rows(data, len(ids)))
        row = self.types.cast(jax.tree.unflatten(structure, [array[0] for array in arrays]))
        for i, like in enumerate(jax.tree.leaves(row)):
            arrays[i] = arrays[i].astype(like.dtype, copy=False)
        return jax.tree.unflatten(structure, arrays), row

    def announced(self, z: Any, ids: list[Id], parameters: dict[str, Array]) -> Any:
        """Return announced data and parameters, a row per member. Other data may be missing."""
        check_index("z", z, ids)
        data = joined(by_column(z) if parameters else z, parameters)
        return self._rows(self._problem.arrange_announced(data), len(ids))

    def _rows(self, data: Any, count: int) -> Any:
        """Return data as arrays that have so many rows each."""
        arrays = jax.tree.map(lambda leaf: cast_data("z", leaf, self._dtype), data)
        for leaf in jax.tree.leaves(arrays):
            if leaf.shape[:1] != (count,):
                raise ValueError(
                    f"z: got an array of shape {leaf.shape}; expected a row for each of {count} "
                    "members"
                )
        return arrays


def by_column(table: Any) -> Any:
    """Return a table of pandas as a dict of its columns; anything else as it is."""
    if type(table).__module__.split(".")[0] == "pandas" and hasattr(table, "columns"):
        return {str(name): table[name] for name in table.columns}
    return table


def table_of_members(ids: Any, z: Any) -> tuple[Any, Any]:
    """Return ids and data; a table of pandas alone has the ids in its index."""
    if z is None and type(ids).__module__.split(".")[0] == "pandas" and hasattr(ids, "columns"):
        return ids.index, ids
    return ids, z


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
        array, mask = listed_advice(advice, count, problem)
    else:
        array, mask = numbers_and_gaps(advice, problem.coordinate_names)
    if count == 1 and array.shape == (len(listed), *shape):
        array, mask = array[:, None], mask[:, None]
    if array.shape != wanted:
        expected = wanted if count > 1 else (len(listed), *shape)
        raise ValueError(
            f"advice: got shape {array.shape}; expected {expected}: the decisions of {count} "
            f"adviser{'s' if count > 1 else ''} for {len(listed)} members"
        )
    speaks, wrong = given_and_wrong(array, mask, 2)
    return array, speaks, np.asarray(wrong.any(axis=1))
