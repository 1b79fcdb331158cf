"""The data of a fleet: what members observe in a round, together with their parameters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .. import arguments
from ..engine import Array
from ..player.data_types import DataTypes
from ..problem.compatibility import cast_data, count_constraints
from ..problem.problem import Problem
from ..problem.tables import plain
from .ids import Id, check_index, named
from .members import Members

__all__ = [
    "FleetData",
    "as_parameters",
    "by_column",
    "checked_parameters",
    "constraint_count",
    "joined",
    "table_of_members",
    "traced_count",
]


def as_parameters(given: Any, ids: list[Id], dtype: Any) -> dict[str, Array]:
    """Return parameters by name, with a row for each member; they must be finite.

    Arguments:
        given: a dict of arrays, or a table of pandas with a column for each parameter; None if
            there are none.
        ids: the members.
        dtype: the float type of all computations.
    """
    if given is None:
        return {}
    by_name = by_column(given)
    if not isinstance(by_name, Mapping) or not all(isinstance(name, str) for name in by_name):
        raise TypeError(
            f"parameters: got {arguments.shown(given)}; expected a dict of arrays by name, or a "
            "table, with a row for each member"
        )
    found = {}
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
        found[name] = array
    return found


def checked_parameters(
    parameters: Any, listed: list[Id], members: Members, dtype: Any, some: bool = False
) -> dict[str, Array]:
    """Return the parameters of members, which must be like those of the others.

    Arguments:
        parameters: as `as_parameters` takes them.
        listed: whose they are.
        members: the arrays of all members.
        dtype: the float type of all computations.
        some: whether names may be missing.
    """
    given = as_parameters(parameters, listed, dtype)
    known = {
        name.partition("/")[2]: array
        for name, array in members.arrays.items()
        if name.startswith("parameters/")
    }
    wrong = set(given) ^ set(known)
    if some:
        wrong -= set(known)
    if wrong and listed:
        raise ValueError(
            f"parameters: got {', '.join(given) or 'none'}; expected {', '.join(known) or 'none'}"
        )
    for name, values in given.items():
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
    return given


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


def constraint_count(
    problem: Problem, given: int | None, data: Any, x: jax.Array, announced: bool = False
) -> int:
    """Return the number of constraints, or of announced ones: as given, or as they have with these
    data."""
    name = "announced_count" if announced else "count"
    constraints = problem.announced if announced else problem.constraints
    known = problem.announced_count if announced else problem.constants.constraint_count
    counted = known if known is not None else traced_count(problem, constraints, data, x)
    if given is None:
        if counted is None:
            raise ValueError(
                f"{name}: got None; expected the number of constraints, which depends on the "
                f"round's data: Fleet(..., {name}=m)"
            )
        return counted
    number = arguments.count(name, given)
    if counted is not None and number != counted:
        raise ValueError(f"{name}: got {number}; expected {counted}, as the problem has")
    return number


def traced_count(problem: Problem, constraints: Any, data: Any, x: jax.Array) -> int | None:
    """Return how many values constraints have with these data; None if they need others.

    Without constraints it is 0.
    """
    if constraints is None:
        return 0

    def values(x: jax.Array, z: Any) -> jax.Array:
        found: jax.Array = constraints.values(x, problem.given(z, x))
        return found

    try:
        return int(jax.eval_shape(values, x, data).shape[0])
    except Exception:  # whatever a user's function raises when its data are missing
        return None


class FleetData:
    """Converts what members observe to arrays with a row for each of them.

    Arguments:
        problem: the problem.
        dtype: the float type of all computations.
        counts: the number of constraints that the learner sees, and that of announced ones.
    """

    def __init__(self, problem: Problem, dtype: np.dtype[Any], counts: tuple[int, int]) -> None:
        self._problem, self._dtype, self.counts = problem, dtype, counts
        self.types = DataTypes(dtype)

    def arranged(self, z: Any, ids: list[Id], parameters: dict[str, Array]) -> Any:
        """Return data and parameters as the problem's functions take them, a row per member."""
        for table in z.values() if isinstance(z, Mapping) else (z,):
            check_index("z", table, ids)
        data = self._problem.arrange(joined(by_column(z) if parameters else z, parameters))
        return self._rows(data, len(ids))

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

    def cast(self, arrays: Any) -> tuple[Any, Any]:
        """Return the data in the types of earlier rounds, and those of the first member; raise an
        error if they do not fit."""
        row, first = self.types.cast(jax.tree.map(lambda leaf: leaf[0], arrays))
        if first:
            self._check_first(row)
        cast = jax.tree.map(lambda leaf, like: leaf.astype(like.dtype, copy=False), arrays, row)
        return cast, row

    def _check_first(self, row: Any) -> None:
        x = jax.ShapeDtypeStruct(self._problem.domain.shape, self._dtype)
        given = self._problem.given(row, jnp.zeros(x.shape, x.dtype))
        counted = count_constraints(self._problem, x, given, "z")
        if counted != self.counts[0]:
            raise ValueError(
                f"z: got data with which constraints(x, z) returns {counted} values; expected "
                f"{self.counts[0]}"
            )
        announced = self._problem.announced
        if announced is not None:
            values = jax.eval_shape(announced.values, x, given)
            if values.shape[0] != self.counts[1]:
                raise ValueError(
                    f"z: got data with which announced(x, z) returns {values.shape[0]} values; "
                    f"expected {self.counts[1]}"
                )


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
