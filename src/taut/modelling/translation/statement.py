"""A model as the user states it: an objective and constraints, of variables and parameters.

A statement knows where the entries of each variable are in a flat decision, and which parameters
change with the round. Everything else about a model follows from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import cvxpy as cp
import jax
import numpy as np

from ...engine import Array
from ..recourse.after_data import without_recourse
from .attributes import counted, shaped, value_of
from .flat_copy import FlatCopy
from .inequalities import Excess, announced_rows, refuse_unknown
from .parameters import Range, chosen_parameters, refuse_foreign
from .reading import checked, is_parametrized, parameters_of
from .round_data import Keys

__all__ = ["Statement"]


class Statement:
    """The expressions of a model, without the variables that are chosen after the data of a round.

    Arguments:
        loss: as in `taut.from_cvxpy`, like all others but `values`.
        constraints: see `loss`.
        recourse: see `loss`.
        per_round: see `loss`.
        announced: see `loss`.
        values: the values of parameters by id; None stands for those that they have now. Values
            that are assigned later have no effect, because loss, domain and hindsight must use the
            same numbers.
    """

    def __init__(
        self,
        loss: Any,
        constraints: Any,
        recourse: Any,
        per_round: Any,
        announced: Any,
        values: Mapping[int, Array] | None,
    ) -> None:
        self.after = without_recourse(loss, constraints, recourse, per_round, values)
        """The model without the variables that are chosen after the data of a round."""
        self.objective, self.stated = checked(self.after.loss, self.after.constraints)
        self.announced_rows: list[Excess] = announced_rows(announced, self.after.values)
        """What must not exceed zero and is known before a decision is played."""
        parts = [self.objective, *self.stated]
        self.variables = _leaves(parts, "variables")
        self.size = sum(variable.size for variable in self.variables)
        refuse_unknown(self.announced_rows, self.variables)
        parts += [row.expression for row in self.announced_rows]
        parameters = _leaves(parts, "parameters")
        refuse_foreign(parameters, self.variables)
        known: dict[int, Any] = {
            p.id: value_of(p) if values is None else values.get(p.id) for p in parameters
        }
        self.parameters = chosen_parameters(parameters, per_round, known)
        """The parameters that change with the round."""
        changing = {parameter.id for parameter in self.parameters}
        self.fixed = [parameter for parameter in parameters if parameter.id not in changing]
        self.values_of_fixed: dict[int, Any] = {p.id: known[p.id] for p in self.fixed}
        self.keys = Keys(self.parameters, self.fixed)
        self.parametrized = is_parametrized(self.objective, self.stated, self._constants)
        """Whether CVXPY's conic form of the model is affine in the data."""

    @property
    def decision_shape(self) -> tuple[int, ...]:
        """The shape of a decision: that of the only variable, otherwise (size,)."""
        only = self.variables[0]
        return tuple(only.shape) if len(self.variables) == 1 and only.shape else (self.size,)

    @cached_property
    def spans(self) -> dict[int, slice]:
        """Where each variable's entries, in row order, are in a flat decision, by the variable's
        id."""
        ends = np.cumsum([variable.size for variable in self.variables]).tolist()
        return {v.id: slice(end - v.size, end) for v, end in zip(self.variables, ends, strict=True)}

    def entry(self, i: int) -> str:
        """The name of the i-th entry of a flat decision."""
        for variable in self.variables:
            span = self.spans[variable.id]
            if span.start <= i < span.stop:
                place = ", ".join(
                    str(int(k)) for k in np.unravel_index(i - span.start, variable.shape or (1,))
                )
                return f"{variable.name()}[{place}]" if variable.shape else str(variable.name())
        raise IndexError(f"i: got {i}; expected less than {self.size}")

    def variable_values(self, x: jax.Array) -> dict[int, jax.Array]:
        """The values of all variables in a decision, by id."""
        if len(self.variables) == 1 and x.shape == self.variables[0].shape:  # nothing to split
            return {self.variables[0].id: counted(self.variables[0], x)}
        flat = x.reshape(-1)
        return {v.id: shaped(v, flat[self.spans[v.id]]) for v in self.variables}

    def parameter_values(self, z: Any) -> dict[int, Any]:
        """The values of all parameters in a round with the data z, by id; None stands for no
        data."""
        if z is None or not self.parameters:
            return self.values_of_fixed
        data = z if isinstance(z, tuple) else self.keys.arranged(z, check=False)
        changing = {p.id: part for p, part in zip(self.parameters, data, strict=True)}
        return self.values_of_fixed | changing

    def data_of(self, flat: Array) -> tuple[Array, ...]:
        """One round's data from a flat vector of all parameters that change."""
        ends = np.cumsum([parameter.size for parameter in self.parameters], dtype=int)
        return tuple(
            flat[end - p.size : end].reshape(p.shape)
            for p, end in zip(self.parameters, ends, strict=True)
        )

    def fixed_value(self, parameter: Any) -> Array:
        """The value of a parameter that does not change with the round."""
        return np.asarray(self.values_of_fixed[parameter.id], float)

    def changing(self, part: Any) -> bool:
        """Whether an expression or constraint contains a parameter that changes with the round."""
        ids = {parameter.id for parameter in self.parameters}
        return any(parameter.id in ids for parameter in parameters_of(part))

    def guessed(self, parts: list[Any], known: Range) -> list[str]:
        """The names of the parameters in these expressions whose range is a guess."""
        used = {parameter.id for part in parts for parameter in parameters_of(part)}
        return [
            parameter.name()
            for parameter, guess in zip(self.parameters, self.data_of(known.guessed), strict=True)
            if np.any(guess) and parameter.id in used
        ]

    def flat_copy(self, centre: Array | None = None, scale: float = 1.0) -> FlatCopy:
        """Copies of the expressions over one flat variable u, for the decision centre + scale *
        u."""
        return FlatCopy(self.variables, self.parameters, self._constants, centre, scale)

    @cached_property
    def _constants(self) -> dict[int, Any]:
        """A CVXPY constant for each parameter that does not change, by the parameter's `id()`."""
        return {id(p): cp.Constant(self.values_of_fixed[p.id]) for p in self.fixed}


def _leaves(parts: list[Any], kind: str) -> list[Any]:
    """Variables or parameters in the order of their creation, which is also their position in a
    stream."""
    leaves = {leaf.id: leaf for part in parts for leaf in getattr(part, kind)()}
    return [leaves[key] for key in sorted(leaves)]
